//! Drift by event: changes in Cloud Map by other parties become syncs of the Services that they concern, like messages
//! about these. An event decides nothing but where to look, and only in the Cloud Maps of the settings. This process
//! knows most services by their ids; it reads a few others, and leaves the rest to the next full sync.
//!
//! Of two parties that change a name back and forth the other one does not decide how often: a name that this process has
//! just repaired waits for the next full sync.
//!
//! Drift has an age: that of the endpoints that the runs of this process left undone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use super::{Function, Selections};
use crate::clients::RegistryKey;
use crate::event::{ClusterName, Drift};
use crate::model::{Outcome, Selection, ServiceKey, ServiceRef, SignedDuration, Timestamp, Verb};
use crate::publish::observe::{Changed, Concerned, SharedRegistry};
use crate::report::{ChangeLine, ClusterReport, OldestOutOfStep, Report};
use crate::time::Deadline;

/// The most services of a batch that are read because of their ids.
const MOST_READ: usize = 20;

pub(super) const FOREIGN: &str =
    "no cluster of CLUSTERS is kept in the Cloud Map of this account and Region";

/// A name in one Cloud Map.
type Name = (RegistryKey, ServiceKey);

/// The last look of this process at each name that another party has changed.
#[derive(Debug, Default)]
pub(super) struct Looks(Mutex<BTreeMap<Name, LastLook>>);

#[derive(Clone, Copy, Debug)]
struct LastLook {
    at: Timestamp,
    has_repaired: bool,
    is_fight_reported: bool,
}

/// What is to be done about the events of a batch.
#[derive(Debug, Default)]
pub(super) struct Drifted {
    /// The Services to sync for each event.
    pub(super) served: Vec<(Selections, Vec<String>)>,
    /// The events about other Cloud Maps.
    pub(super) foreign: Vec<String>,
    looks: BTreeMap<Name, Concerned>,
}

impl Looks {
    /// Whether to look at a name again after a change at `time`.
    fn is_due(
        &self,
        name: &Name,
        time: Timestamp,
        (now, period): (Timestamp, SignedDuration),
    ) -> bool {
        let mut looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        looks.retain(|_, look| now.duration_since(look.at) < period);
        let Some(look) = looks.get_mut(name) else { return true };
        // The look has seen it.
        if time < look.at {
            return false;
        }
        if look.has_repaired && !look.is_fight_reported {
            look.is_fight_reported = true;
            let (cloud_map_service, seconds) =
                (&name.1.name, now.duration_since(look.at).as_secs());
            tracing::warn!(
                cloud_map_service,
                "another party has changed {cloud_map_service} again {seconds} s after it was repaired: \
                 the next full sync looks at it"
            );
        }
        !look.has_repaired
    }

    /// Keeps what a run has done about the names that it looked at.
    pub(super) fn note(&self, drifted: &Drifted, report: &Report, now: Timestamp) {
        let mut looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for ((registry, key), concerned) in &drifted.looks {
            let services: BTreeSet<&ServiceRef> = concerned.iter().map(|(_, it)| it).collect();
            let lines = report.clusters.iter().flat_map(|cluster| &cluster.services);
            let lines = lines.filter(|it| it.name.eq_ignore_ascii_case(&key.name));
            let is_repair = |line: &ChangeLine| {
                line.result == Outcome::Applied && services.contains(&line.service)
            };
            let parts = report.clusters.iter().filter_map(|cluster| cluster.multi_cluster.as_ref());
            let mut records = parts.flat_map(|part| &part.export_changes);
            let has_repaired = lines.flat_map(|it| &it.changes).any(is_repair)
                || records.any(|line| {
                    let is_of = |it: &&ServiceRef| line.change.ends_with(&format!(" {it}"));
                    line.result == Outcome::Applied && services.iter().any(is_of)
                });
            let look = LastLook { at: now, has_repaired, is_fight_reported: false };
            looks.insert((registry.clone(), key.clone()), look);
        }
    }
}

impl Function {
    /// Finds the Services that each of these events concerns. Each comes with the id of its message.
    pub(super) async fn find_drift(
        &self,
        events: Vec<(Drift, String)>,
        now: Timestamp,
        deadline: Deadline,
    ) -> Drifted {
        let mut drifted = Drifted::default();
        if events.is_empty() {
            return drifted;
        }
        // For an event about another Cloud Map there is none.
        let mut selections: Vec<Option<Selections>> = vec![None; events.len()];
        let mut may_read = MOST_READ;
        for (key, registry) in self.registries_of(&self.settings.clusters, None).await {
            let here = |it: &Drift| self.clients.is_in(&key, &it.region);
            let ids = events.iter().filter(|(it, _)| here(it));
            let ids = ids.filter_map(|(it, _)| it.service.as_deref()).collect();
            let seen = registry.seen(&ids);
            let is_seen = |it: &Drift| it.service.as_ref().is_some_and(|id| seen.contains_key(id));
            // The roles of the clusters do not always show the account.
            let is_of = |it: &Drift| {
                self.clusters_in(&key).any(|cluster| {
                    let arn = self.clients.arn_of(cluster);
                    let account = arn.as_ref().and_then(|arn| cluster.registry_account(arn));
                    account.is_none_or(|account| account == it.account)
                })
            };
            let may_be = |it: &Drift| here(it) && (is_of(it) || is_seen(it));
            let ours: Vec<usize> = (0..events.len()).filter(|at| may_be(&events[*at].0)).collect();
            let drifts: Vec<&Drift> = ours.iter().map(|at| &events[*at].0).collect();
            let names = find_names(&registry, seen, &drifts, &mut may_read);
            let names = deadline.until_stop(names).await.unwrap_or_default();
            let services = self.services_of(&key, &registry, (&names, &drifts), now);
            let selected = services.iter().map(|(name, it)| (name, self.select(&key, it)));
            let selected: BTreeMap<&ServiceKey, Selections> = selected.collect();
            for at in ours {
                let selection = selections[at].get_or_insert_default();
                let name = events[at].0.service.as_ref().and_then(|id| names.get(id));
                if let Some(of_event) = name.and_then(|name| selected.get(name)) {
                    selection.extend(of_event);
                }
            }
            let looks = services.into_iter().map(|(name, it)| ((key.clone(), name), it));
            drifted.looks.extend(looks);
        }
        for (selected, (_, message)) in selections.into_iter().zip(events) {
            match selected {
                Some(selected) => drifted.served.push((selected, vec![message])),
                None => drifted.foreign.push(message),
            }
        }
        drifted
    }

    /// The Services to sync under each changed name at which it is time to look.
    fn services_of(
        &self,
        registry: &RegistryKey,
        shared: &SharedRegistry,
        (names, drifts): (&BTreeMap<String, ServiceKey>, &[&Drift]),
        now: Timestamp,
    ) -> BTreeMap<ServiceKey, Concerned> {
        let times = (now, self.settings.rules.guard.period);
        let mut changed = Changed::new();
        for drift in drifts {
            let Some(key) = drift.service.as_ref().and_then(|id| names.get(id)) else { continue };
            let name = (registry.clone(), key.clone());
            if changed.contains_key(key) || self.looks.is_due(&name, drift.time, times) {
                changed.entry(key.clone()).or_default().extend(drift.instance.clone());
            }
        }
        shared.concerned(&changed, &self.settings.owner_id)
    }

    /// These Services of the clusters that are kept in a Cloud Map.
    fn select(&self, registry: &RegistryKey, concerned: &Concerned) -> Selections {
        let configured = self.configured();
        let services = concerned.iter().filter_map(|(cluster, service)| {
            let found = configured.find(&ClusterName::Named(cluster.to_string()));
            let index = found.first().copied().filter(|_| configured.can_be_one(&found))?;
            let is_here = self.clients.registry_of(&self.settings.clusters[index]) == *registry;
            is_here.then(|| (index, service.clone()))
        });
        Selections::of_services(services)
    }
}

/// The names of changed services by their ids. So many of those that this process does not know, or that were changed
/// themselves, are read. A changed namespace only makes the list of namespaces old.
async fn find_names(
    registry: &SharedRegistry,
    seen: BTreeMap<String, ServiceKey>,
    drifts: &[&Drift],
    may_read: &mut usize,
) -> BTreeMap<String, ServiceKey> {
    if drifts.iter().any(|drift| drift.service.is_none()) {
        registry.forget_namespaces();
    }
    let is_unknown = |drift: &&&Drift| {
        let is_seen = drift.service.as_ref().is_some_and(|id| seen.contains_key(id));
        drift.changes_service || !is_seen
    };
    let unknown = drifts.iter().filter(is_unknown);
    let unknown: BTreeSet<&str> = unknown.filter_map(|it| it.service.as_deref()).collect();
    let read: Vec<&str> = unknown.iter().take(*may_read).copied().collect();
    *may_read -= read.len();
    if let left @ 1.. = unknown.len() - read.len() {
        tracing::info!(
            "{left} services that other parties have changed are left to the next full sync"
        );
    }
    let mut names = registry.find(&read).await;
    for (id, key) in seen {
        names.entry(id).or_insert(key);
    }
    names
}

// The age of drift: the endpoints that runs of this process left undone, each with the time of the first such run. Only the
// metrics use it. No decision depends on it, and a new process starts empty.

/// An endpoint of a cluster under a name, with its pending change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PendingEndpoint {
    cluster: String,
    service: ServiceRef,
    place: String,
    change: Verb,
    instance: Option<String>,
}

/// The endpoints that are out of step, with the time of the first run that left them so.
#[derive(Debug, Default)]
pub(super) struct OutOfStep(Mutex<BTreeMap<PendingEndpoint, Timestamp>>);

impl OutOfStep {
    /// Records the changes that a run over the selected Services left undone. The report of an unreadable cluster is
    /// ignored.
    pub(super) fn record(&self, report: &ClusterReport, selection: &Selection, now: Timestamp) {
        if report.error.is_some() {
            return;
        }
        let mut open = BTreeSet::new();
        for at in &report.services {
            let left = at.changes.iter().filter(|line| line.is_left_undone());
            let left = left.map(|line| (&line.service, line.change, &line.instance));
            let refused = at.refused.iter().map(|it| (&it.service, Verb::Register, &it.instance));
            open.extend(left.chain(refused).map(|(service, change, instance)| PendingEndpoint {
                cluster: report.cluster.clone(),
                service: service.clone(),
                place: at.place(),
                change,
                instance: instance.clone(),
            }));
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_covered = |endpoint: &PendingEndpoint| {
            endpoint.cluster == report.cluster && selection.contains(&endpoint.service)
        };
        known.retain(|endpoint, _| !is_covered(endpoint) || open.contains(endpoint));
        for endpoint in open {
            known.entry(endpoint).or_insert(now);
        }
    }

    /// The age of the oldest ones.
    pub(super) fn oldest(&self, now: Timestamp) -> OldestOutOfStep {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let age = |change: Verb| {
            let since = known.iter().filter(|(it, _)| it.change == change).map(|(_, since)| *since);
            let seconds = since.map(|since| now.as_second() - since.as_second()).max();
            usize::try_from(seconds.unwrap_or_default()).unwrap_or_default()
        };
        OldestOutOfStep { missing: age(Verb::Register), leftover: age(Verb::Deregister) }
    }
}
