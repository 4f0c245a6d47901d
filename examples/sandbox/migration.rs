//! The steps of docs/ecs-to-eks.md: a name moves from ECS tasks to pods. One step is reverted, and at the end the whole
//! move. After each step the example prints the registered instances of the name, which always has at least one.

use std::process::ExitCode;

use cloud_map_sync::function::Function;
use serde_json::json;

use crate::seed::{self, claim, pod};
use crate::story::show;
use testbed::Sandbox;
use testbed::cloud_map::{NamespaceKind, RecordType, ServiceKind};
use testbed::function::{event, invoke};
use testbed::kubernetes::Headless;

const MAX_INSTANCES: &str = "cloudmap.controller/max-instances";
const TASKS: u8 = 4;
const PODS: u8 = 4;
/// Cloud Map's quotas of instances.
const SERVICE_QUOTA: usize = 1000;
const NAMESPACE_QUOTA: usize = 2000;

struct Migration {
    sandbox: Sandbox,
    service: String,
    step: usize,
}

/// Plays the migration. Panics if the instances of a step differ from docs/ecs-to-eks.md.
pub async fn run() -> ExitCode {
    let sandbox = Sandbox::start().await.cluster("blue").await;
    let cloud_map = sandbox.cloud_map();
    let dns = cloud_map.namespace("shop.local", NamespaceKind::DnsPrivate);
    let kind = ServiceKind::Dns { records: vec![(RecordType::A, 60)], custom_health: true };
    let service = cloud_map.service(&dns, "web", kind);
    cloud_map.watch_over("cloud-map-sync", &[&sandbox.cluster_arn("blue")]);
    let mut migration = Migration { sandbox, service, step: 0 };
    migration.start_tasks();
    migration.prepare().await;
    migration.move_over().await;
    migration.cut_back().await;
    migration.end()
}

impl Migration {
    async fn prepare(&mut self) {
        let dry = self.sandbox.function(&[("DRY_RUN", "true")]).await;
        self.begin_step(
            "Run it on EKS: four pods, and a headless Service that no annotation opts in.",
        );
        self.annotate(Headless::new("shop", "web").port("http", 8080));
        let pods: Vec<_> = (1..=PODS).map(|number| pod(&format!("web-{number}"), number)).collect();
        self.sandbox.kubernetes("blue").pods("shop", "web", &pods);
        self.sync(&dry).await;
        let both = TASKS + PODS;
        println!(
            "   room: {both} instances at once, of {SERVICE_QUOTA} in the service and {NAMESPACE_QUOTA} in the namespace"
        );
        self.expect("nobody but ECS is there", (4, 0));

        self.begin_step("The plan, in dry run, with max-instances: \"1\".");
        self.annotate(claim("web", "web").annotate(MAX_INSTANCES, "1"));
        let payload =
            json!({"action": "plan", "cluster": "blue", "namespace": "shop", "service": "web"});
        println!("   {payload}");
        show(&invoke(&dry, &payload).await);
        self.expect("a plan changes nothing", (4, 0));
    }

    async fn move_over(&mut self) {
        let function = self.sandbox.function(&[]).await;
        self.begin_step("Canary: DryRun=false.");
        self.sync(&function).await;
        self.expect("one pod joins", (4, 1));

        self.begin_step("Back: publish: \"false\" withdraws it, and the claim stays.");
        let withdrawn = claim("web", "web").annotate(MAX_INSTANCES, "1");
        self.annotate(withdrawn.annotate("cloudmap.controller/publish", "false"));
        self.sync(&function).await;
        self.expect("the pod is withdrawn", (4, 0));

        self.begin_step("And on again, wider: max-instances: \"3\".");
        self.annotate(claim("web", "web").annotate(MAX_INSTANCES, "3"));
        self.sync(&function).await;
        self.expect("three pods join", (4, 3));

        self.begin_step("All pods: no max-instances.");
        self.annotate(claim("web", "web"));
        self.sync(&function).await;
        self.expect("all pods are there", (4, 4));

        self.begin_step(
            "ECS to zero: ECS takes its tasks out, and the next sync has nothing to do.",
        );
        for task in 1..=TASKS {
            self.sandbox.cloud_map().withdraw(&self.service, &task_id(task));
        }
        self.sync(&function).await;
        self.expect("the pods answer alone", (0, 4));
    }

    async fn cut_back(&mut self) {
        let function = self.sandbox.function(&[]).await;
        self.begin_step("Cut back: the ECS tasks come up first, then publish: \"false\".");
        self.start_tasks();
        self.annotate(claim("web", "web").annotate("cloudmap.controller/publish", "false"));
        self.sync(&function).await;
        self.expect("ECS answers alone again", (4, 0));

        self.begin_step("The next minute: nothing to do.");
        self.sandbox.cloud_map().forget_calls();
        self.sync(&function).await;
        self.expect("the world is as before", (4, 0));
        assert_eq!(self.sandbox.cloud_map().writes(), 0, "a converged sync writes nothing");
    }

    fn end(&self) -> ExitCode {
        let violations = self.sandbox.cloud_map().violations();
        assert!(violations.is_empty(), "{violations:?}");
        println!(
            "After no step was the name without an instance, and no call touched a task of ECS."
        );
        ExitCode::SUCCESS
    }

    /// Registers the tasks as ECS does.
    fn start_tasks(&self) {
        for task in 1..=TASKS {
            let address = format!("10.0.90.{task}");
            let attributes = seed::task("web", &address);
            self.sandbox.cloud_map().instance(&self.service, &task_id(task), &attributes);
        }
    }

    fn annotate(&self, service: Headless) {
        self.sandbox.kubernetes("blue").service(service);
    }

    async fn sync(&self, function: &Function) {
        let answer = invoke(function, &event("schedule-eventbridge-scheduler")).await;
        show(&answer);
        assert!(answer.response.is_ok(), "step {}", self.step);
    }

    fn begin_step(&mut self, what: &str) {
        self.step += 1;
        println!("{}. {what}", self.step);
    }

    /// Prints the registered instances, and asserts the numbers of tasks and pods.
    fn expect(&self, what: &str, (tasks, pods): (usize, usize)) {
        let instances = self.sandbox.cloud_map().instances(&self.service);
        let ours = instances.values().filter(|it| it.contains_key("cloud-map-sync/owner")).count();
        let present = (instances.len() - ours, ours);
        println!("   web.shop.local: ECS tasks {}, pods {}\n", present.0, present.1);
        assert_eq!(present, (tasks, pods), "step {}: {what}", self.step);
        assert!(tasks + pods > 0, "nobody is left under the name");
    }
}

fn task_id(number: u8) -> String {
    format!("5f3c1e0b7a9d4c2e8b6f0a1d2c3e4f{number:02}")
}
