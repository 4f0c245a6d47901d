//! The output of the sandbox command: each change in the clusters with its event, and the report of the function. At
//! the end it shows that all foreign instances are unchanged.

use std::collections::BTreeMap;
use std::process::ExitCode;

use cloud_map_sync::function::Function;

use crate::seed::{claim, pod, world};
use testbed::Sandbox;
use testbed::function::{Answer, event, invoke};

/// The attributes of instances, by service, instance and key.
type Instances = BTreeMap<String, BTreeMap<String, BTreeMap<String, String>>>;

/// Plays the story. Panics if a state differs from the story.
pub async fn run() -> ExitCode {
    let sandbox = world().await;
    let foreign = not_ours(&sandbox);
    let mut story = Story { function: sandbox.function(&[]).await, sandbox, foreign, chapter: 0 };
    story.first_sync().await;
    story.changes().await;
    story.adoption().await;
    story.messages().await;
    story.end()
}

struct Story {
    sandbox: Sandbox,
    function: Function,
    foreign: Instances,
    chapter: usize,
}

impl Story {
    async fn first_sync(&mut self) {
        self.begin_step(
            "Two clusters ask for names that ECS tasks have, too. What would a sync do?",
        );
        self.play("direct-plan").await;
        self.begin_step("The schedule runs the first sync. Nothing of ECS is touched.");
        self.play("schedule-eventbridge-rule").await;
        self.begin_step("The next minute: nothing has changed, and nothing is written.");
        self.sandbox.cloud_map().forget_calls();
        self.play("schedule-eventbridge-scheduler").await;
        self.expect("a converged sync writes nothing", self.sandbox.cloud_map().writes() == 0);
    }

    async fn changes(&mut self) {
        let blue = self.sandbox.kubernetes("blue");
        let green = self.sandbox.kubernetes("green");
        self.begin_step("blue: web is scaled from two pods to four.");
        let names = ["abcde", "fghij", "klmno", "pqrst"];
        let mut pods = Vec::new();
        for (name, last) in names.into_iter().zip(11..) {
            pods.push(pod(&format!("web-7c9d8b6f5d-{name}"), last));
        }
        blue.pods("shop", "web", &pods);
        self.play("sqs-kubernetes-event-exporter").await;

        self.begin_step("blue: one of them is gone.");
        pods.remove(0);
        blue.pods("shop", "web", &pods);
        self.play("sqs-knative-reference").await;

        self.begin_step(
            "blue: cart asks for another name. The new name is whole before the old one goes.",
        );
        blue.service(claim("cart", "basket"));
        self.play("sqs-knative-resource").await;

        self.begin_step("green: checkout is deleted.");
        green.delete_service("shop", "checkout");
        self.play("sqs-argo-events-data").await;
    }

    async fn adoption(&mut self) {
        let blue = self.sandbox.kubernetes("blue");
        let cloud_map = self.sandbox.cloud_map();
        self.begin_step(
            "blue: a person registered the pod of mail by hand. Who lets the function take that over?",
        );
        blue.service(claim("mail", "mail"));
        blue.pods("shop", "mail", &[pod("mail-6f9c7d5b8-uvwxy", 31)]);
        self.play("direct-adopt").await;
        self.begin_step(
            "Somebody does: the instance keeps its id and what else was written on it.",
        );
        let mail = cloud_map.find_service("shop.local", "mail").expect("seeded");
        cloud_map.allow_adoption(&[(&mail, "mailbox")]);
        self.play("direct-adopt-confirmed").await;
        cloud_map.allow_adoption(&[]);
        self.foreign.remove("shop.local/mail");
        let adopted = &cloud_map.instances(&mail)["mailbox"];
        self.expect("it keeps what was written on it", adopted["team"] == "post");
        self.expect("it is ours", adopted.contains_key("cloud-map-sync/owner"));
    }

    async fn messages(&mut self) {
        let blue = self.sandbox.kubernetes("blue");
        self.begin_step(
            "blue: cart has a second pod. Five messages, one of them no JSON, name three scopes.",
        );
        let pods = [pod("cart-5b8f7c6d9-klmno", 21), pod("cart-5b8f7c6d9-zabcd", 22)];
        blue.pods("shop", "cart", &pods);
        self.play("sqs-mixed-batch").await;

        self.begin_step("Every other event in events/ finds the world as it should be.");
        self.sandbox.cloud_map().forget_calls();
        let rest = [
            "direct-adopt-owner",
            "direct-confirm",
            "direct-doctor",
            "direct-explain",
            "direct-plan-cluster",
            "direct-purge",
            "direct-status",
            "direct-sync",
            "direct-sync-service",
            "sqs-argo-events",
            "sqs-in-eventbridge",
            "sqs-in-eventbridge-in-sns",
            "sqs-in-sns",
            "sqs-kubewatch",
            "sqs-sync-service",
            "sqs-sync-cluster",
        ];
        for name in rest {
            let answer = invoke(&self.function, &event(name)).await;
            let summary = match (answer.report, answer.response) {
                (Some(report), _) => report.counts.to_string(),
                (None, Ok(answer)) => format!("an answer of {} bytes", answer.to_string().len()),
                (None, Err(error)) => error.to_string(),
            };
            println!("  events/{:<32} {summary}", format!("{name}.json"));
        }
        println!();
        self.expect("none of them wrote", self.sandbox.cloud_map().writes() == 0);
    }

    fn end(&self) -> ExitCode {
        println!("What is not ours, byte for byte as it was before the first sync:");
        for (service, instances) in &self.foreign {
            for (id, attributes) in instances {
                println!("  {service:<18} {id:<34} {}", attributes["AWS_INSTANCE_IPV4"]);
            }
        }
        self.expect("nothing foreign was changed", not_ours(&self.sandbox) == self.foreign);
        let violations = self.sandbox.cloud_map().violations();
        self.expect("no call even tried to", violations.is_empty());
        println!(
            "\nNext: `cargo run --example sandbox -- --serve` keeps this world up for other programs."
        );
        ExitCode::SUCCESS
    }

    fn begin_step(&mut self, what: &str) {
        self.chapter += 1;
        println!("{}. {what}", self.chapter);
    }

    /// Invokes the function with a file of `events/`, and prints its report and response.
    async fn play(&self, name: &str) {
        println!("   events/{name}.json");
        let answer = invoke(&self.function, &event(name)).await;
        show(&answer);
        println!();
        self.expect("the function succeeds", answer.response.is_ok());
    }

    fn expect(&self, what: &str, holds: bool) {
        assert!(holds, "chapter {}: expected that {what}", self.chapter);
    }
}

/// Prints the report of the function, and its response if that has more information.
pub fn show(answer: &Answer) {
    if let Some(report) = &answer.report {
        report.to_string().lines().for_each(|line| println!("   {line}"));
    }
    match &answer.response {
        Ok(response) if response.get("batchItemFailures").is_some() => {
            println!("   answer: {response}");
        }
        Ok(_) => {}
        Err(error) => println!("   answer: {}: {error}", error.kind()),
    }
}

/// Every instance without our marks.
fn not_ours(sandbox: &Sandbox) -> Instances {
    let cloud_map = sandbox.cloud_map();
    let namespace = cloud_map.find_namespace("shop.local").expect("seeded");
    let services = cloud_map.services(&namespace).into_iter().map(|service| {
        let mut instances = cloud_map.instances(&service.id);
        instances.retain(|_, attributes| !attributes.contains_key("cloud-map-sync/owner"));
        (format!("shop.local/{}", service.name), instances)
    });
    services.filter(|(_, instances)| !instances.is_empty()).collect()
}
