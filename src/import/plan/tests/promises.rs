//! Promises of every plan, checked on random histories: a second plan has no changes, and while a plan is carried out,
//! no needed endpoint is missing and no object of another owner changes.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::net::IpAddr;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::arbitrary;
use super::cluster::Cluster;
use super::held::held;
use super::step::{Step, foreign, import, slices, step};
use super::world::{World, described, failed};
use crate::import::plan::present_objects::PortSet;
use crate::import::plan::{Change, Kind, Present, Read, Slice, SliceEndpoint, Stage};
use crate::model::{ClusterId, Family, ImportType, is_publishable};

/// Few worlds, the same in each run, unless `PROPTEST_CASES` or `PROPTEST_RNG_SEED` is set.
fn config() -> ProptestConfig {
    let all = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    let few = ProptestConfig { cases: 128, rng_seed: RngSeed::Fixed(1), ..all.clone() };
    let variables = ["PROPTEST_CASES", "PROPTEST_RNG_SEED"];
    if variables.iter().any(|variable| env::var_os(variable).is_some()) { all } else { few }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn planning_after_applying_is_empty(step in step()) {
        assert_settled(&step);
    }

    #[test]
    fn objects_of_other_owners_are_never_changed(step in step()) {
        assert_foreign_untouched(&step);
    }

    #[test]
    fn endpoint_that_stays_is_reachable_all_the_time(step in step()) {
        assert_reachable(&step);
    }

    #[test]
    fn endpoint_that_stays_is_reachable_though_a_slice_cannot_be_written(step in step()) {
        assert_reachable_without_a_slice(&step);
    }

    #[test]
    fn endpoint_is_in_one_slice_and_stays_in_it(step in step()) {
        assert_packed(&step);
    }

    #[test]
    fn endpoints_of_read_clusters_are_imported_and_no_others(step in step()) {
        assert_imported(&step);
    }

    #[test]
    fn part_of_an_unread_cluster_stays(step in step()) {
        assert_part_kept(&step);
    }

    #[test]
    fn held_import_keeps_every_endpoint_of_other_clusters_and_gains_the_new_ones(step in step()) {
        assert_held(&step);
    }

    #[test]
    fn changes_are_in_the_order_of_their_stages(step in step()) {
        let stages: Vec<Stage> = step.plan.changes.iter().map(|change| change.stage).collect();
        prop_assert!(stages.is_sorted(), "{stages:?}");
    }

    #[test]
    fn order_of_endpoints_changes_nothing(world in arbitrary::world()) {
        let mut other = world.clone();
        for read in other.sources.by_cluster.values_mut() {
            if let Read::Whole(member) = read {
                Arc::make_mut(&mut member.endpoints).reverse();
            }
        }
        prop_assert_eq!(world.plan(&Cluster::default()), other.plan(&Cluster::default()));
    }
}

fn assert_settled(step: &Step) {
    let mut cluster = step.after().clone();
    if step.plan.changes.iter().any(|change| change.stage == Stage::DeleteImport) {
        // The next sync deletes the objects that garbage collection leaves.
        let leftovers = step.world.plan(&cluster);
        cluster.carry_out(&leftovers, |_| {});
        // A slice without its label waits until all clusters were read: it may be of any.
        let may_wait = !step.world.sources.are_all_read(false);
        assert!(slices(&cluster).iter().all(|slice| may_wait && slice.source().is_none()));
    }
    let again = step.world.plan(&cluster);
    assert_eq!(again.changes, []);
    assert_eq!(again.held_back, step.plan.held_back);
}

fn assert_foreign_untouched(step: &Step) {
    let before = foreign(&step.before);
    for change in &step.plan.changes {
        let is_about = |name: &str| change.object.name == name;
        let found =
            before.iter().find(|((kind, name), _)| *kind == change.object.kind && is_about(name));
        assert_eq!(found, None, "{change}");
    }
    assert_eq!(foreign(step.after()), before);
}

/// While the type of the import stays.
fn assert_reachable(step: &Step) {
    let kind = |cluster: &Cluster| cluster.present().import.map(|import| import.spec.kind);
    if kind(&step.before) != kind(step.after()) {
        return;
    }
    let before = step.before.reachable();
    let after = step.after().reachable();
    for state in &step.states {
        let reachable = state.reachable();
        for target in before.intersection(&after) {
            assert!(reachable.contains(target), "{target}");
        }
    }
}

/// Each addition to a slice fails, and then the import is planned again.
fn assert_reachable_without_a_slice(step: &Step) {
    let kind = |cluster: &Cluster| cluster.present().import.map(|import| import.spec.kind);
    if kind(&step.before) != kind(step.after()) {
        return;
    }
    let is_addition = |change: &&Change| {
        change.object.kind == Kind::EndpointSlice && change.stage == Stage::AddEndpoints
    };
    for change in step.plan.changes.iter().filter(is_addition) {
        let failure = failed(change.object.kind, &change.object.name, change.stage, "refused");
        let mut first = step.plan.clone();
        first.changes.retain(|other| !failure.blocks(other));
        let mut cluster = step.before.clone();
        cluster.carry_out(&first, |_| {});
        let world = World { failures: vec![failure], ..step.world.clone() };
        cluster.carry_out(&world.plan(&cluster), |_| {});
        let reachable = cluster.reachable();
        for target in step.before.reachable().intersection(&step.after().reachable()) {
            assert!(reachable.contains(target), "{target} without {change}");
        }
    }
}

fn assert_packed(step: &Step) {
    if step.plan.changes.is_empty() || import(step.after()).is_none() {
        return;
    }
    let before = slices_by_target(&step.before);
    for (endpoint, slices) in &slices_by_target(step.after()) {
        let is_read = endpoint.0.as_ref().is_some_and(|it| !step.world.sources.is_unread(it));
        if is_read {
            assert_eq!(slices.len(), 1, "{endpoint:?} in {slices:?}");
            let stays = before.get(endpoint).is_none_or(|before| before.contains(&slices[0]));
            assert!(stays, "{endpoint:?} is in {slices:?} now");
        }
    }
}

/// The names of the slices that contain an address of a cluster with a set of ports.
fn slices_by_target(
    cluster: &Cluster,
) -> BTreeMap<(Option<ClusterId>, IpAddr, PortSet), Vec<String>> {
    let mut slices_by_target: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for slice in slices(cluster) {
        for address in slice.endpoints.iter().filter_map(SliceEndpoint::address) {
            let key = (slice.source(), address, slice.ports.clone());
            slices_by_target.entry(key).or_default().push(slice.metadata.name.clone());
        }
    }
    slices_by_target
}

fn assert_imported(step: &Step) {
    let Some(merged) = step.world.merged.as_ref().filter(|_| step.plan.held_back.is_empty()) else {
        return;
    };
    let Present { derived, .. } = step.after().present();
    let Some(import) = import(step.after()) else { return };
    let has_ip = import.spec.kind == ImportType::ClusterSetIp;
    // Without a family of this cluster, the import waits until the exported families are known.
    let available = &step.world.available;
    if has_ip && !import.spec.families.iter().any(|family| available.contains(family)) {
        return;
    }
    let derived = derived.filter(|_| has_ip);
    let families = derived.map_or(import.spec.families, |derived| derived.spec.families);
    let mut wanted = BTreeSet::new();
    for cluster in &merged.clusters {
        let Read::Whole(member) = &step.world.sources.by_cluster[cluster] else { continue };
        for endpoint in member.endpoints.iter() {
            let mut ports = import.spec.ports.iter().map(|port| (port.protocol, port.number));
            let is_served = !has_ip || ports.any(|port| endpoint.ports.contains_key(&port));
            let has_family = families.contains(&Family::of(endpoint.address));
            if is_served && has_family && is_publishable(endpoint.address) {
                wanted.insert((cluster.clone(), endpoint.address));
            }
        }
    }
    let found = slices_by_target(step.after()).into_keys();
    let found = found.filter_map(|(cluster, address, _)| Some((cluster?, address)));
    let found: BTreeSet<_> =
        found.filter(|(cluster, _)| !step.world.sources.is_unread(cluster)).collect();
    assert_eq!(found, wanted);
}

fn assert_part_kept(step: &Step) {
    let before = part_of_unread(step, &step.before);
    let later = part_of_unread(step, step.after());
    for (name, slice) in &before {
        let same = later.get(name).map(|it| (&it.ports, &it.endpoints));
        assert_eq!(same, Some((&slice.ports, &slice.endpoints)), "{name}");
    }
    let Some(import) = import(&step.before).filter(|_| !before.is_empty()) else { return };
    assert!(step.after().present().import.is_some());
    // An import that became headless in an earlier run loses its Service in this one.
    let is_headless = import.spec.kind == ImportType::Headless;
    if !is_headless || step.before.present().derived.is_none() {
        let reachable = step.after().reachable_in(&before);
        for target in step.before.reachable_in(&before) {
            assert!(reachable.contains(&target), "{target}");
        }
    }
}

fn assert_held(step: &Step) {
    let world = held(&step.world, &step.before);
    let plan = world.plan(&step.before);
    let mut cluster = step.before.clone();
    let of_others = |cluster: &Cluster| -> BTreeSet<(ClusterId, IpAddr)> {
        let slices = slices(cluster).into_iter();
        let slices = slices.filter_map(|slice| Some((slice.source()?, slice)));
        let others = slices.filter(|(source, _)| *source != step.world.importer);
        let endpoints = others.flat_map(|(source, slice)| {
            let addresses = slice.endpoints.iter().filter_map(SliceEndpoint::address);
            addresses.map(move |address| (source.clone(), address)).collect::<Vec<_>>()
        });
        endpoints.collect()
    };
    let before = of_others(&cluster);
    cluster.carry_out(&plan, |state| {
        assert!(of_others(state).is_superset(&before), "{}", described(&plan));
    });
    let added = of_others(step.after()).into_iter().filter(|it| !before.contains(it));
    // An existing import, or one whose Service exists, keeps its type and families.
    if import(&step.before).is_none() && step.before.present().derived.is_none() {
        let missing: Vec<_> = added.filter(|it| !of_others(&cluster).contains(it)).collect();
        assert_eq!(missing, [], "{}", described(&plan));
    }
    if plan.changes.iter().all(|change| change.stage != Stage::DeleteImport) {
        let again = held(&step.world, &cluster).plan(&cluster);
        assert_eq!(again.changes, [], "after\n{}", described(&plan));
    }
}

/// The slices of clusters that were not read, by name.
fn part_of_unread(step: &Step, cluster: &Cluster) -> BTreeMap<String, Arc<Slice>> {
    let sources = &step.world.sources;
    let is_unread = |slice: &Arc<Slice>| {
        slice.source().map_or(!sources.is_complete, |cluster| sources.is_unread(&cluster))
    };
    let slices = slices(cluster).into_iter().filter(is_unread);
    slices.map(|slice| (slice.metadata.name.clone(), slice)).collect()
}
