//! After all clusters: the Cloud Map services of ours that nobody needs any more. Observe, plan, apply
//! and report once more, for what belongs to no cluster. Wiring only.

use std::collections::BTreeSet;

use futures_util::{StreamExt, stream};
use tokio::time::timeout_at;

use crate::model::{CloudMapService, Place, Registry, ServiceKey};
use crate::publish::apply;
use crate::publish::observe::SharedRegistry;
use crate::publish::passes::Outcome;
use crate::publish::plan::{Claimed, Policy, Verdict, deletable, verdict};
use crate::reconcile::Invocation;
use crate::report::{Deletion, EmptyServices, Mode};

/// How many services are looked at side by side. The calls themselves are bounded by the client.
const SIDE_BY_SIDE: usize = 8;

impl Invocation<'_> {
    /// Whether the installation lets services be deleted, and this invocation is about all that there is.
    pub fn may_delete_services(&self) -> bool {
        let rules = &self.settings.rules;
        rules.delete_empty_services && rules.policy == Policy::Sync && self.adoption.is_none()
    }

    /// Deletes the services of a registry that nobody needs, or plans it. `claimed` is what all
    /// configured clusters say; `unknown` is why that is not known of all of them. `seen` are the ARNs of
    /// services that were looked at in another registry: two roles may lead to one account.
    pub async fn delete_empty_services(
        &self,
        registry: &SharedRegistry,
        claimed: &Claimed,
        unknown: &[String],
        seen: &mut BTreeSet<String>,
    ) -> EmptyServices {
        let mut report = EmptyServices::default();
        let Some(known) = registry.known().await else { return report };
        let mut candidates = deletable(&known, claimed);
        candidates.retain(|key| seen.insert(known.services[key].arn.clone()));
        let unclear = claimed.unclear().into_iter().map(|service| {
            format!("the annotations of Service {service} do not show which names it claims")
        });
        let hinders: Vec<String> = unknown.iter().cloned().chain(unclear).collect();
        if candidates.is_empty() || !hinders.is_empty() {
            report.kept.extend(hinders.into_iter().filter(|_| !candidates.is_empty()));
            return report;
        }
        // Removals were carried out by now, or are only planned.
        let claimed = match self.mode {
            Mode::Sync => claimed.clone().carried_out(),
            Mode::Plan | Mode::DryRun => claimed.clone(),
        };
        let mut looks = stream::iter(candidates)
            .map(|key| self.delete_if_empty(registry, &known, key, &claimed))
            .buffer_unordered(SIDE_BY_SIDE);
        while let Some(outcome) = looks.next().await {
            if let Some((place, outcome)) = outcome {
                match outcome.into_result() {
                    Ok(result) => {
                        let Place { namespace, name, .. } = place;
                        report.deletions.push(Deletion { namespace, name, result });
                    }
                    Err(reason) => report.kept.push(format!("{place}: {reason}")),
                }
            }
        }
        report.in_order()
    }

    /// Looks at one service just before it would be deleted.
    async fn delete_if_empty(
        &self,
        registry: &SharedRegistry,
        known: &Registry,
        key: ServiceKey,
        claimed: &Claimed,
    ) -> Option<(Place, Outcome)> {
        let place = Place::of(&key, known);
        let looked = self.look_at(registry, known.services.get(&key)?.clone(), &key, claimed);
        let Ok(looked) = timeout_at(self.deadline.stop(), looked).await else {
            return Some((place, Outcome::Undone("there was no time to look at it".to_owned())));
        };
        let (service, verdict) = looked?;
        let outcome = match verdict {
            Verdict::Keep => return None,
            Verdict::Unreadable(problem) => Outcome::Failed(problem),
            Verdict::Delete if self.mode != Mode::Sync => Outcome::Planned,
            Verdict::Delete => {
                apply::delete(registry.cloud_map(), self.deadline, &service.arn, &place).await
            }
        };
        Some((place, outcome))
    }

    /// Reads the tags, then where the service is ours its instances; `None` where it is gone.
    async fn look_at(
        &self,
        registry: &SharedRegistry,
        service: CloudMapService,
        key: &ServiceKey,
        claimed: &Claimed,
    ) -> Option<(CloudMapService, Verdict)> {
        let keys = BTreeSet::from([key.clone()]);
        let mut seen = Registry::default();
        seen.services.insert(key.clone(), CloudMapService { instances: None, ..service });
        let cloud_map = registry.cloud_map();
        cloud_map.read_tags(&mut seen, &keys).await;
        if seen.services.get(key)?.is_tagged(&self.settings.owner_id) {
            cloud_map.read_instances(&mut seen, &keys).await;
        }
        let service = seen.services.remove(key)?;
        let verdict = verdict(key, &service, claimed, &self.settings.owner_id);
        Some((service, verdict))
    }
}
