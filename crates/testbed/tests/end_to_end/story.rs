//! The whole path on a real cluster whose own controllers fill the `EndpointSlices`: first sync,
//! convergence, scaling, an app whose Service goes, and what is none of the function's business.
//! One story, since a control plane takes seconds to start; a section for each thing that happens.

use serde_json::{Value, json};

use crate::lambda::Lambda;
use crate::real_cluster::{RealCluster, ZONE, claim, headless};
use crate::world::{World, blue};
use testbed::cloud_map::RecordType;
use testbed::function::event;

#[tokio::test]
async fn services_of_a_real_cluster_are_followed_from_first_sync_to_deletion() {
    let world = World::start().await;
    let Some(cluster) = RealCluster::start(&world, true).await else { return };
    cluster.apply_rbac().await;
    let lambda = world.lambda(&[]).await;
    let mut story = Story { world, cluster, lambda };

    story.services_come().await;
    story.plan_is_a_report_and_writes_nothing().await;
    story.first_sync_registers_every_ready_pod().await;
    story.second_sync_writes_nothing().await;
    story.added_pod_follows_a_message().await;
    story.pod_that_is_not_ready_goes_after_an_exported_event().await;
    story.deleted_pod_goes_and_one_bad_record_stops_nothing().await;
    story.deleted_service_takes_its_instances_along().await;
    story.second_sync_writes_nothing().await;
    story.service_whose_claim_is_held_back_is_reported_once().await;

    story.world.assert_that_the_ecs_task_is_unchanged();
    assert_eq!(story.world.service_names("prod"), ["cart"]);
    assert_eq!(story.world.service_names("prod.local"), ["checkout", "web"]);
}

struct Story {
    world: World,
    cluster: RealCluster,
    lambda: Lambda,
}

impl Story {
    /// `web` beside ECS, `cart` by the API alone, `checkout` in both address families; `plain` asks
    /// for nothing, and `balanced` has an address of its own.
    async fn services_come(&self) {
        let cluster = &self.cluster;
        let dual = json!({
            "clusterIP": "None", "ipFamilyPolicy": "RequireDualStack",
            "ipFamilies": ["IPv4", "IPv6"],
        });
        cluster.node().await;
        let services: [(&str, Value, Value, &[&str]); 5] = [
            ("web", claim("prod.local", "web"), headless(), &["10.0.1.1"]),
            ("cart", claim("prod", "cart"), headless(), &["10.0.2.1"]),
            ("checkout", claim("prod.local", "checkout"), dual, &["10.0.3.1", "fd00::3:1"]),
            ("plain", json!({}), headless(), &["10.0.4.1"]),
            ("balanced", claim("prod", "balanced"), json!({}), &["10.0.5.1"]),
        ];
        for (name, annotations, spec, addresses) in services {
            cluster.service(name, &annotations, &spec).await;
            cluster.pod(name, &format!("{name}-a"), addresses).await;
            cluster.wait_for_ready(name, addresses).await;
        }
        cluster.pod("web", "web-b", &["10.0.1.2"]).await;
        cluster.wait_for_ready("web", &["10.0.1.1", "10.0.1.2"]).await;
    }

    /// The real server judges the Event, and the function's role may create it and nothing more.
    async fn service_whose_claim_is_held_back_is_reported_once(&mut self) {
        self.cluster.service("late", &claim("prod.local", "web"), &headless()).await;
        for _ in 0..2 {
            self.schedule().await;
        }
        let events = self.cluster.events("late").await;
        let [(reason, note)] = events.as_slice() else { panic!("one Event: {events:?}") };
        assert_eq!(reason, "DomainConflict");
        assert!(note.contains("Service shop/web of this cluster holds the name"), "{note}");
    }

    async fn plan_is_a_report_and_writes_nothing(&mut self) {
        let report = self.lambda.invoke(event("direct-plan")).await.expect("a report");

        let cluster = &report["clusters"][0];
        assert_eq!((&report["mode"], &report["ok"]), (&json!("plan"), &json!(true)), "{report}");
        assert_eq!(cluster["cluster"], blue().arn(), "{report}");
        let services = cluster["services"].as_array().expect("a list");
        let lines = services.iter().filter_map(|service| service["lines"].as_array()).flatten();
        let planned =
            lines.filter(|line| line["outcome"] == "planned" && line["code"] == "register");
        assert_eq!(planned.count(), 4, "{report}");
        assert_eq!(self.world.cloud_map.writes(), 0);
    }

    async fn first_sync_registers_every_ready_pod(&mut self) {
        let answer = self.schedule().await;

        let counts = &answer["counts"];
        assert_eq!((&counts["registered"], &counts["created"]), (&json!(4), &json!(2)), "{answer}");
        assert_eq!(self.world.addresses("prod.local", "web"), ["10.0.1.1", "10.0.1.2"]);
        let cart = self.world.instances("prod", "cart");
        let (_, cart) = cart.first_key_value().expect("registered");
        assert_eq!(cart["AVAILABILITY_ZONE"], ZONE);
        assert_eq!(cart["cloud-map-sync/cluster"], blue().arn());
        assert_eq!(cart["cloud-map-sync/pod"], "cart-a");
        self.pod_of_both_families_is_one_instance();
    }

    fn pod_of_both_families_is_one_instance(&self) {
        let checkout = self.world.instances("prod.local", "checkout");
        let (_, instance) = checkout.first_key_value().expect("registered");
        assert_eq!(checkout.len(), 1, "{checkout:?}");
        assert_eq!(instance["AWS_INSTANCE_IPV4"], "10.0.3.1");
        assert_eq!(instance["AWS_INSTANCE_IPV6"], "fd00::3:1");
        let services = self.world.services("prod.local");
        let created = services.iter().find(|service| service.name == "checkout").expect("created");
        let records = &created.dns.as_ref().expect("DNS records").records;
        let records: Vec<RecordType> = records.iter().map(|(record, _)| *record).collect();
        assert_eq!(records, [RecordType::A, RecordType::Aaaa]);
    }

    async fn second_sync_writes_nothing(&mut self) {
        self.world.cloud_map.forget_calls();
        let answer = self.schedule().await;
        assert_eq!(self.world.cloud_map.writes(), 0, "{answer}");
    }

    async fn added_pod_follows_a_message(&mut self) {
        self.cluster.pod("web", "web-c", &["10.0.1.3"]).await;
        self.cluster.wait_for_ready("web", &["10.0.1.1", "10.0.1.2", "10.0.1.3"]).await;
        self.queue("sqs-sync-service").await;
        assert_eq!(self.world.addresses("prod.local", "web"), ["10.0.1.1", "10.0.1.2", "10.0.1.3"]);
    }

    async fn pod_that_is_not_ready_goes_after_an_exported_event(&mut self) {
        self.cluster.readiness("web-a", false).await;
        self.cluster.wait_for_ready("web", &["10.0.1.2", "10.0.1.3"]).await;
        self.queue("sqs-kubernetes-event-exporter").await;
        assert_eq!(self.world.addresses("prod.local", "web"), ["10.0.1.2", "10.0.1.3"]);
    }

    async fn deleted_pod_goes_and_one_bad_record_stops_nothing(&mut self) {
        self.cluster.delete_pod("web-b").await;
        self.cluster.wait_for_ready("web", &["10.0.1.3"]).await;
        self.queue("sqs-mixed-batch").await;
        assert_eq!(self.world.addresses("prod.local", "web"), ["10.0.1.3"]);
    }

    async fn deleted_service_takes_its_instances_along(&mut self) {
        self.cluster.delete_service("checkout").await;
        let answer = self.schedule().await;
        assert_eq!(answer["counts"]["deregistered"], 1, "{answer}");
        assert_eq!(self.world.instances("prod.local", "checkout").len(), 0);
        assert_eq!(self.world.addresses("prod.local", "web"), ["10.0.1.3"]);
    }

    async fn schedule(&mut self) -> Value {
        let answer = self.lambda.invoke(event("schedule-eventbridge-rule")).await;
        let answer = answer.unwrap_or_else(|failure| panic!("{failure:?}"));
        assert_eq!(answer["ok"], true, "{answer}");
        answer
    }

    async fn queue(&mut self, batch: &str) {
        let answer = self.lambda.invoke(event(batch)).await;
        assert_eq!(answer, Ok(json!({"batchItemFailures": []})), "{batch}");
    }
}
