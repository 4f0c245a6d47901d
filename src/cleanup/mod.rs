//! The cleanup after all clusters were read, by a full sync: orphans, the instances of clusters
//! that are gone or no longer configured (`dead_clusters`), and our Cloud Map services that are empty and not needed as
//! they are: each candidate is read once more, deleted and reported. Wiring only; the rules are in
//! [`crate::publish::plan`].

pub mod dead_clusters;

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::time::{Instant, sleep};

use crate::model::{CloudMapService, Outcome, Place, Registry, ServiceKey};
use crate::publish::plan::{Claimed, DeletionVerdict, Reason};
use crate::publish::{apply, observe};
use crate::reconcile::Invocation;
use crate::report::{Deletion, EmptyServices, Mode};

/// The number of services that are processed at once. The client limits the calls themselves.
const CONCURRENCY: usize = 8;
/// A service may count as in use for a while after its last instance was deregistered: the time between two tries to
/// delete it, and the time for which the services of a Cloud Map are tried again.
const PAUSE: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(30);

impl Invocation<'_> {
    /// Deletes the unneeded services of a registry, or plans it. `claimed` are the claims of all configured clusters;
    /// `unknown` are the reasons why some claims are unknown. `seen` are the ARNs of services that were processed in
    /// another registry, since two roles may belong to one account.
    pub async fn delete_empty_services(
        &self,
        registry: &observe::SharedRegistry,
        claimed: &Claimed,
        unknown: &[String],
        seen: &mut BTreeSet<String>,
    ) -> EmptyServices {
        let mut report = EmptyServices::default();
        let known = registry.known().await.filter(Registry::is_whole);
        let Some(known) = known else { return report };
        let mut candidates = claimed.deletable(&known);
        candidates.retain(|key| seen.insert(known.services[key].arn.clone()));
        let unclear = claimed.unclear.iter().map(|service| {
            format!(
                "the claims of Service {service} are unknown, since its annotations are invalid"
            )
        });
        let obstacles: Vec<String> = unknown.iter().cloned().chain(unclear).collect();
        if candidates.is_empty() || !obstacles.is_empty() {
            report.kept.extend(obstacles.into_iter().filter(|_| !candidates.is_empty()));
            return report;
        }
        let until = self.deadline.stop.min(Instant::now() + PATIENCE);
        let deleting = &Deleting { invocation: self, registry, known: &known, claimed };
        let deletions = stream::iter(candidates).map(|key| deleting.delete(key, until));
        let mut deletions = deletions.buffer_unordered(CONCURRENCY);
        while let Some(outcome) = deletions.next().await {
            match outcome {
                Some((place, Ok(result))) => {
                    let (namespace, name) = (place.namespace.clone(), place.name.clone());
                    report.deletions.push(Deletion { namespace, name, result });
                }
                Some((place, Err(reason))) => report.kept.push(format!("{place}: {reason}")),
                None => {}
            }
        }
        report.in_order()
    }
}

/// A service that was deleted, or the reason why not.
type Tried = (Place, Result<Outcome, Reason>);

/// The deletion of the unneeded services of one registry.
struct Deleting<'a> {
    invocation: &'a Invocation<'a>,
    registry: &'a observe::SharedRegistry,
    known: &'a Registry,
    claimed: &'a Claimed,
}

impl Deleting<'_> {
    /// Deletes one service. If Cloud Map counts an instance in it, it is read and tried again until that time.
    async fn delete(&self, key: ServiceKey, until: Instant) -> Option<Tried> {
        let in_use = Err(Reason::ServiceInUse);
        let mut tried = None;
        loop {
            let deleted = self.delete_if_empty(&key).await;
            let is_in_use = deleted.as_ref().is_some_and(|(_, outcome)| *outcome == in_use);
            if !is_in_use || Instant::now() + PAUSE > until {
                // One that is not to be deleted any more has an instance since.
                return deleted.or(tried);
            }
            tried = deleted;
            sleep(PAUSE).await;
        }
    }

    /// Reads one service again just before its deletion.
    async fn delete_if_empty(&self, key: &ServiceKey) -> Option<Tried> {
        let (place, deadline) = (Place::of(key, self.known), self.invocation.deadline);
        let Ok(read) = deadline.until_stop(self.read(key)).await else {
            let reason = "it was not read again before the deadline".to_owned();
            return Some((place, Ok(Outcome::undone(reason))));
        };
        let (service, verdict) = read?;
        let outcome = match verdict {
            DeletionVerdict::Keep => return None,
            DeletionVerdict::Unreadable(problem) => Ok(Outcome::failed(problem)),
            DeletionVerdict::Delete if self.invocation.mode != Mode::Sync => Ok(Outcome::Planned),
            // For a moment Cloud Map still lists what this run has deregistered.
            DeletionVerdict::Delete if service.held() > 0 => Err(Reason::ServiceInUse),
            DeletionVerdict::Delete => {
                apply::delete(&self.registry.cloud_map, deadline, &service.arn, &place).await
            }
        };
        Some((place, outcome))
    }

    /// Reads the tags, and if the service is ours its instances; `None` if it is gone.
    async fn read(&self, key: &ServiceKey) -> Option<(CloudMapService, DeletionVerdict)> {
        let service = self.known.services.get(key)?.clone();
        let (keys, owner) = (BTreeSet::from([key.clone()]), &self.invocation.settings.owner_id);
        let mut seen = Registry::default();
        seen.services.insert(key.clone(), CloudMapService { instances: None, ..service });
        let cloud_map = &self.registry.cloud_map;
        cloud_map.read_tags(&mut seen, &keys).await;
        if seen.services.get(key)?.is_tagged(owner) {
            cloud_map.read_instances(&mut seen, &keys).await;
        }
        let service = seen.services.remove(key)?;
        let verdict = self.claimed.verdict(key, &service, owner);
        Some((service, verdict))
    }
}
