//! Calls of a member that are refused, or whose answer is lost: the report says so, or one run does it all. `rights` takes
//! each right away.

use std::time::Duration;

use super::many::Many;
use super::{exported, in_full, web};
use crate::run::sync;
use testbed::cloud_map::{Behaviour, Fault as CloudMapFault, FaultKind as CloudMapFaultKind};
use testbed::kubernetes::{Fault, FaultKind};

const CREATED: &str = "2026-01-01T00:00:00Z";

#[tokio::test(start_paused = true)]
async fn status_of_an_export_that_is_refused_is_in_the_report() {
    let many = Many::start(1, &["shop"], &[]).await;
    exported(&many.clusters[0], web(), &["10.0.0.1"], CREATED);
    let path = "/apis/multicluster.x-k8s.io/v1beta1/namespaces/shop/serviceexports/";
    let refused = Fault::always(path, FaultKind::Status(403)).of_method("PATCH");
    many.clusters[0].fail(refused);

    let report = sync(&many.function).await;

    let said = in_full(&report);
    assert!(said.contains("conditions not written"), "{said}");
    many.clusters[0].clear_faults();
    many.converge().await;
}

#[tokio::test(start_paused = true)]
async fn member_whose_record_the_limit_refuses_imports_nothing_until_it_has_one() {
    let many = Many::start(1, &["shop"], &[]).await;
    exported(&many.clusters[0], web(), &["10.0.0.1"], CREATED);
    let full = CloudMapFaultKind::Error(400, "ResourceLimitExceeded", "The limit is reached");
    many.fleet.cloud_map.inject(CloudMapFault::on("RegisterInstance", full).always());

    let report = sync(&many.function).await;

    assert!(in_full(&report).contains("The limit is reached"), "{}", in_full(&report));
    assert_eq!(many.clusters[0].objects("serviceimports", "shop").len(), 0);
    many.fleet.cloud_map.heal();
    many.converge().await;
    assert_eq!(many.clusters[0].objects("serviceimports", "shop").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn creation_or_registration_whose_answer_is_lost_leaves_no_record_for_the_next_run() {
    // The second registration is that of the pod: its export must not be recorded as one without endpoints.
    let calls = [("CreateService", 0), ("RegisterInstance", 0), ("RegisterInstance", 1)];
    let kinds = [CloudMapFaultKind::DropAfterEffect, CloudMapFaultKind::Cut];
    for (lost, (call, after)) in kinds.iter().flat_map(|it| calls.map(|call| (it.clone(), call))) {
        let many = Many::start(1, &["shop"], &[]).await;
        let operation_delay = Duration::from_secs(2);
        many.fleet.cloud_map.behave(Behaviour { operation_delay, ..Behaviour::default() });
        exported(&many.clusters[0], web(), &["10.0.0.1"], CREATED);
        many.fleet.cloud_map.inject(CloudMapFault::on(call, lost).after(after));

        let report = sync(&many.function).await;

        assert!(report.ok, "{}", in_full(&report));
        many.fleet.cloud_map.heal();
        many.fleet.cloud_map.forget_calls();
        let next = sync(&many.function).await;
        assert_eq!(many.fleet.cloud_map.writes(), 0, "{report}\n{next}");
    }
}
