//! The table of `POLICY` for an import, and the promises of both policies on random worlds.

use std::collections::BTreeSet;

use insta::assert_snapshot;
use proptest::prelude::*;
use serde_json::json;

use super::cluster::Cluster;
use super::step::{Step, is_ours, step};
use super::world::{World, after, described};
use crate::import::plan::{Kind, Present, ServiceImport, Stage, Tally};
use crate::model::{ImportType, Policy};

const SYNC: &[Policy] = &[Policy::Sync];
const UPSERTING: &[Policy] = &[Policy::Sync, Policy::UpsertOnly];
const ALL: &[Policy] = &Policy::ALL;

fn under(policy: Policy, world: &World) -> World {
    World { policy, ..world.clone() }
}

fn web(addresses: &str) -> World {
    World::with_ports("http:80").exported("green", addresses)
}

fn two() -> World {
    web("10.0.0.1 10.0.0.2")
}

fn labelled() -> World {
    let mut world = two();
    let labels = &mut world.merged_mut().properties.labels;
    labels.insert("team".to_owned(), "shop".to_owned());
    world
}

fn not_ready() -> World {
    let mut world = two();
    world.endpoints_mut("green")[0].ready = false;
    world
}

fn without(kind: Kind) -> Cluster {
    let mut cluster = after(&two());
    cluster.objects.retain(|(it, _), _| *it != kind);
    cluster
}

fn without_ips() -> Cluster {
    let mut cluster = after(&two());
    cluster.object_mut(Kind::ServiceImport)["spec"]["ips"] = json!([]);
    cluster
}

/// Each kind of change with the policies under which it is made. The others hold it back with one line, and the import
/// is as it was.
#[test]
fn policy_makes_these_changes_and_tells_the_others() {
    let present = || after(&two());
    let more_ports = World::with_ports("http:80 https:443").exported("green", "10.0.0.1 10.0.0.2");
    let with_more_ports = after(&more_ports);
    let beside = || two().exported("red", "10.0.0.9");
    let cases = [
        ("+ ServiceImport", Cluster::default(), two(), ALL),
        ("+ EndpointSlice", Cluster::default(), two(), ALL),
        ("web: ips", Cluster::default(), two(), ALL),
        ("web: ips", without_ips(), two(), ALL),
        ("+ Service", without(Kind::Service), two(), ALL),
        ("+ EndpointSlice", without(Kind::EndpointSlice), two(), ALL),
        ("+ EndpointSlice", present(), beside(), ALL),
        ("1 in", present(), web("10.0.0.1 10.0.0.2 10.0.0.3"), ALL),
        ("1 out", present(), web("10.0.0.1"), UPSERTING),
        ("1 changed", present(), not_ready(), UPSERTING),
        ("web: annotations", present(), labelled(), UPSERTING),
        ("~ Service derived", present(), more_ports, UPSERTING),
        ("~ Service derived", with_more_ports, two(), UPSERTING),
        ("+ Service", after(&two().headless()), two(), UPSERTING),
        ("- Service", present(), two().headless(), SYNC),
        ("- EndpointSlice", after(&beside()), beside().unexported("red"), SYNC),
        ("- ServiceImport", present(), two().unexported("green"), SYNC),
    ];
    for (change, cluster, world, made) in cases {
        for policy in Policy::ALL {
            let mut later = cluster.clone();
            let world = under(policy, &world);
            let planned = world.synced(&mut later);
            let is_made =
                planned.lines().any(|line| !line.starts_with('!') && line.contains(change));
            let lines = planned.lines().filter(|line| line.starts_with("! Policy")).count();
            let is_allowed = made.contains(&policy);
            let expected = (is_allowed, usize::from(!is_allowed));
            assert_eq!((is_made, lines), expected, "{policy} {planned}");
            let is_reachable = cluster.reachable().is_subset(&later.reachable());
            assert!(is_allowed || is_reachable, "{change} {policy}: {planned}");
        }
    }
}

#[test]
fn line_names_every_object_that_stays_once() {
    let present = after(&labelled().exported("red", "10.0.0.9"));
    let world = two().unexported("red");
    assert_snapshot!(under(Policy::UpsertOnly, &world).planned(&present), @"! Policy: POLICY=upsert-only does not allow this: change ServiceImport shop/web, delete EndpointSlice shop/imported-isrlchlhrq-a893d503-1");
    assert_snapshot!(under(Policy::CreateOnly, &web("10.0.0.1 10.0.0.3")).planned(&present), @"
    ~ EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, 1 in
    ! Policy: POLICY=create-only does not allow this: change EndpointSlice shop/imported-isrlchlhrq-8de69181-1, change ServiceImport shop/web, delete EndpointSlice shop/imported-isrlchlhrq-a893d503-1
    ");
    let ended = under(Policy::UpsertOnly, &two().unexported("green"));
    assert_snapshot!(ended.planned(&after(&two())), @"! Policy: POLICY=upsert-only does not allow this: delete ServiceImport shop/web");
}

/// The guard has nothing to hold of what stays anyway.
#[test]
fn guard_counts_no_loss_that_the_policy_rules_out() {
    let lost = |policy, world: &World| {
        let world = under(policy, world);
        let present = after(&two()).present();
        Tally::of(&world.basis(&present), &BTreeSet::new()).loss.lost
    };
    let ended = two().unexported("green");
    assert_eq!(Policy::ALL.map(|policy| lost(policy, &ended)), [2, 0, 0]);
    assert_eq!(Policy::ALL.map(|policy| lost(policy, &web("10.0.0.1"))), [1, 1, 0]);
}

fn config() -> ProptestConfig {
    let rng_seed = proptest::test_runner::RngSeed::Fixed(1);
    ProptestConfig { cases: 128, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn import_under_create_only_loses_nothing(step in step()) {
        let world = under(Policy::CreateOnly, &step.world);
        let (before, later, _) = carried_out(&world, &step);
        let reachable = later.reachable();
        // A slice of which another writer changed the label has no Service.
        let is_promised = has_service_of_its_own(&before.present());
        prop_assert!(!is_promised || before.reachable().is_subset(&reachable));
        let has = |cluster: &Cluster| cluster.objects.keys().cloned().collect::<BTreeSet<_>>();
        prop_assert!(has(&before).is_subset(&has(&later)));
    }

    #[test]
    fn import_under_upsert_only_keeps_its_ips_and_every_exporter(step in step()) {
        let world = under(Policy::UpsertOnly, &step.world);
        let (before, later, stages) = carried_out(&world, &step);
        prop_assert!(!stages.contains(&Stage::DeleteImport));
        let (before, later) = (before.present(), later.present());
        let is_ours = |it: &ServiceImport| world.owner.owns(&it.metadata);
        let Some(import) = before.import.filter(is_ours) else { return Ok(()) };
        let now = later.import.expect("an import");
        if import.spec.kind == ImportType::ClusterSetIp {
            prop_assert_eq!(now.spec.kind, ImportType::ClusterSetIp);
            prop_assert!(before.derived.is_none() || later.derived.is_some());
        }
    }
}

/// Whether no Service leads to the endpoints but that of the import: another owner's is not, nor one that is left of
/// the time before the import became headless.
fn has_service_of_its_own(present: &Present) -> bool {
    let is_headless = |it: &ServiceImport| it.spec.kind == ImportType::Headless;
    let is_left = present.import.as_ref().is_some_and(is_headless);
    present.derived.as_ref().is_none_or(|it| is_ours(&it.metadata) && !is_left)
}

fn carried_out(world: &World, step: &Step) -> (Cluster, Cluster, Vec<Stage>) {
    let plan = world.plan(&step.before);
    let mut later = step.before.clone();
    later.carry_out(&plan, |_| {});
    let again = world.plan(&later);
    assert_eq!(again.changes, [], "after\n{}", described(&plan));
    let stages = plan.changes.iter().map(|change| change.stage).collect();
    (step.before.clone(), later, stages)
}
