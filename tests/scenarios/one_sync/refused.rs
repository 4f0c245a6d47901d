//! What Cloud Map refuses for good is tried again after ten minutes, or when what would be sent has changed, whatever else
//! happens under its name.

use std::collections::BTreeMap;

use cloud_map_sync::function::Function;
use cloud_map_sync::report::ServiceReport;

use super::{MINUTE, full_sync};
use crate::fleet::Fleet;
use crate::run::plan;
use testbed::cloud_map::{Fault, FaultKind, RecordType};
use testbed::function::TIMEOUT;

const INVALID: FaultKind = FaultKind::Error(400, "InvalidInput", "The attribute is not valid");
/// The pods whose registrations are refused.
const REFUSED: [&str; 2] = ["10.0.1.1", "10.0.1.2"];

/// A Service `web` with two pods that Cloud Map refuses for good, in a service that ECS uses too.
struct Scene {
    fleet: Fleet,
    function: Function,
    service: String,
    /// The instance ids of the refused pods.
    refused: Vec<String>,
}

impl Scene {
    async fn start(kind: &FaultKind) -> Self {
        let fleet = Fleet::start().await;
        let service = fleet.dns_service("web", &[RecordType::A]);
        fleet.web("web", "prod.local", &REFUSED);
        let function = fleet.function().await;
        let planned = plan(&function).await;
        let changes = planned.clusters[0].services.iter().flat_map(ServiceReport::changes);
        let refused: Vec<String> = changes.filter_map(|change| change.object.clone()).collect();
        assert_eq!(refused.len(), 2, "{planned}");
        for instance in &refused {
            let fault = Fault::on("RegisterInstance", kind.clone()).instance(instance);
            fleet.cloud_map.inject(fault.always());
        }
        Self { fleet, function, service, refused }
    }

    /// The full sync of a minute; returns how often each refused pod was tried.
    async fn minute(&self) -> BTreeMap<String, usize> {
        self.fleet.clock.advance(MINUTE);
        self.fleet.cloud_map.forget_calls();
        full_sync(&self.function, TIMEOUT).await;
        let calls = self.fleet.cloud_map.calls().into_iter();
        let mut tries = BTreeMap::new();
        for call in calls.filter(|call| call.operation == "RegisterInstance") {
            let instance = call.instance.filter(|id| self.refused.contains(id));
            if let Some(id) = instance {
                *tries.entry(id).or_insert(0) += 1;
            }
        }
        tries
    }

    /// Another pod of the Service beside the refused ones.
    fn roll(&self, pod: usize) {
        let new = format!("10.0.2.{pod}");
        self.fleet.pods("web", &[REFUSED[0], REFUSED[1], &new]);
    }
}

/// Cloud Map refuses two pods of a Service, by its answer or by the operation. Other pods of the Service come and go each
/// minute. The refused ones are tried in the first minute and in the tenth after it.
#[tokio::test]
async fn refused_registration_waits_ten_minutes_though_other_pods_come_and_go() {
    for kind in [INVALID, FaultKind::OperationFails("INVALID_CHANGE_BATCH")] {
        let scene = Scene::start(&kind).await;
        assert_eq!(scene.minute().await.values().sum::<usize>(), 2, "{kind:?}");
        let mut tried = Vec::new();
        for minute in 1..=11 {
            scene.roll(minute);
            let tries: usize = scene.minute().await.values().sum();
            assert_eq!(scene.fleet.addresses("prod.local", "web"), [format!("10.0.2.{minute}")]);
            if tries > 0 {
                tried.push((minute, tries));
            }
        }
        assert_eq!(tried, [(10, 2)], "{kind:?}");
    }
}

/// The same where tasks of ECS come and go under the name.
#[tokio::test]
async fn refused_registration_waits_ten_minutes_though_instances_of_others_come_and_go() {
    let scene = Scene::start(&INVALID).await;
    assert_eq!(scene.minute().await.len(), 2);
    let mut tried = Vec::new();
    for minute in 1..=9_u8 {
        let task = format!("{minute:032x}");
        scene.fleet.ecs_task(&scene.service, &task, &format!("10.0.9.{minute}"));
        if minute > 1 {
            scene.fleet.cloud_map.withdraw(&scene.service, &format!("{:032x}", minute - 1));
        }
        tried.push(scene.minute().await.len());
    }
    assert_eq!(tried, [0; 9]);
}

/// A request that differs is sent in the next run, while other pods come and go.
#[tokio::test]
async fn changed_request_is_sent_at_once_though_other_pods_come_and_go() {
    let scene = Scene::start(&INVALID).await;
    scene.minute().await;
    scene.roll(1);
    let before = scene.minute().await.len();
    scene.fleet.annotate("web", "attributes", "team=shop");
    scene.roll(2);
    let changed = scene.minute().await.len();
    scene.roll(3);
    let after = scene.minute().await.len();
    assert_eq!([before, changed, after], [0, 2, 0]);
}
