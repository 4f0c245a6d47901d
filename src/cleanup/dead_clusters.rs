//! The orphans of a full sync: finds instances with marks of clusters that are not synced, looks up these clusters in
//! EKS (`existences`), and reports or purges the instances according to the settings. Wiring only; the rules are in
//! [`crate::publish::plan::Orphans`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use crate::clients::RegistryKey;
use crate::model::{ClusterArn, Existence, Owner, Registry, ServiceKey, SignedDuration, Timestamp};
use crate::publish::observe::SharedRegistry;
use crate::publish::plan::{Extent, Observation, OrphanStep, Orphans, Policy};
use crate::publish::{Execution, Task, shuffle};
use crate::reconcile::{Error, Invocation};
use crate::report::{ClusterReport, OrphanReport};
use crate::settings::{Cluster, Role};

/// A configured cluster, with the facts of this run.
pub struct ConfiguredCluster<'a> {
    /// Its settings.
    pub cluster: &'a Cluster,
    /// Its Cloud Map.
    pub registry: RegistryKey,
    /// Its ARN, if it is known.
    pub arn: Option<ClusterArn>,
    /// Whether it was read, so it exists.
    pub was_read: bool,
}

impl ConfiguredCluster<'_> {
    fn is_cluster(&self, other: &ClusterArn) -> bool {
        match &self.arn {
            Some(arn) => arn == other,
            None => self.cluster.may_be(other),
        }
    }
}

/// The orphans in one Cloud Map, or the error because of which they are unknown.
type FoundOrphans = (RegistryKey, Result<Vec<OrphanReport>, Error>);

impl Invocation<'_> {
    /// Finds the orphans in these Cloud Maps, and purges those that are due. `kept` are all configured clusters; EKS is
    /// asked about the others in all Cloud Maps at once.
    pub async fn orphans(
        &self,
        registries: &BTreeMap<RegistryKey, SharedRegistry>,
        kept: &[ConfiguredCluster<'_>],
        existences: &Existences,
    ) -> Vec<FoundOrphans> {
        let shown = registries.iter();
        let shown = shown.filter_map(|(key, registry)| Some((key, registry.shown()?)));
        let shown: BTreeMap<&RegistryKey, BTreeSet<String>> = shown.collect();
        let mut marked = Vec::new();
        for (key, registry) in registries {
            marked.push((key, registry, self.strangers((key, registry), kept).await));
        }
        let owners = marked.iter().filter_map(|(_, _, owners)| owners.as_ref().ok()).flatten();
        let questions = owners
            .map(|owner| &owner.cluster)
            .filter(|cluster| self.is_to_be_asked_about(cluster, kept))
            .map(|cluster| (cluster.clone(), role_for(cluster, kept)));
        let existences = Box::pin(self.existences(questions.collect(), existences)).await;
        let mut found = Vec::new();
        for (key, registry, owners) in marked {
            let settled = async {
                let owners = owners?;
                if owners.is_empty() {
                    return Ok(Vec::new());
                }
                let read = self.read_in_time(registry.read()).await?;
                let mut reports = Vec::new();
                for owner in owners {
                    let existence = existences.get(&owner.cluster).cloned();
                    let read = (registry, &read);
                    let found = self.find_orphans(owner, read, existence, (kept, &shown)).await?;
                    let Some((observed, orphans)) = found.filter(|(_, it)| it.instances > 0) else {
                        continue;
                    };
                    let (task, options) = (Task::Orphans(orphans.step), self.options());
                    let execution = Execution::of_registry(task, registry, options);
                    let done = execution.carry_out(&observed).await;
                    reports.push(report(&orphans, done.report));
                }
                Ok(reports)
            };
            found.push((key.clone(), Box::pin(settled).await));
        }
        found
    }

    /// The owners in the marks of a Cloud Map whose clusters are not synced there.
    ///
    /// # Errors
    /// Returns an error if namespaces or services could not be listed completely.
    async fn strangers(
        &self,
        (key, registry): (&RegistryKey, &SharedRegistry),
        kept: &[ConfiguredCluster<'_>],
    ) -> Result<BTreeSet<Owner>, Error> {
        let read = self.read_in_time(registry.read()).await?;
        if !read.is_whole() {
            return Ok(BTreeSet::new());
        }
        let mut owners = read.marked_owners(&self.settings.owner_id);
        owners.retain(|owner| {
            let mut here = kept.iter().filter(|it| it.was_read && it.registry == *key);
            !here.any(|it| it.is_cluster(&owner.cluster))
        });
        Ok(owners)
    }

    /// The orphans of a cluster that is not synced here; `None` if it is unknown whether they are orphans.
    async fn find_orphans(
        &self,
        owner: Owner,
        (registry, read): (&SharedRegistry, &Registry),
        existence: Option<Existence>,
        (kept, shown): (&[ConfiguredCluster<'_>], &BTreeMap<&RegistryKey, BTreeSet<String>>),
    ) -> Result<Option<(Observation, Orphans)>, Error> {
        let known = kept.iter().find(|kept| kept.is_cluster(&owner.cluster));
        if let Some(kept) = known.filter(|kept| kept.was_read) {
            let Some(shown) = shown.get(&kept.registry) else { return Ok(None) };
            let observed = self.observation_for(owner, &read.not_shown(shown));
            let (observed, orphans) = self.decide(observed, registry, Existence::Exists).await?;
            return Ok(Some((observed, orphans.moved_to(kept.registry.to_string()))));
        }
        let existence = existence.unwrap_or(Existence::NotAsked);
        if known.is_some() && existence != Existence::Gone {
            return Ok(None);
        }
        let observed = self.observation_for(owner, read);
        Ok(Some(self.decide(observed, registry, existence).await?))
    }

    /// Decides the step for the instances of an owner. All of them are read in this run if anything is to be changed.
    async fn decide(
        &self,
        observed: Observation,
        registry: &SharedRegistry,
        existence: Existence,
    ) -> Result<(Observation, Orphans), Error> {
        let mut observed = self.with_notes(observed, registry).await?;
        let mut orphans = Orphans::of(&observed, existence.clone());
        if orphans.step != OrphanStep::Leave && !observed.registry.is_current() {
            let keys = observed.registry.services.keys();
            let keys = keys.filter(|key| observed.has_ours(key));
            let keys: BTreeSet<ServiceKey> = keys.cloned().collect();
            let read = registry.read_instances(&mut observed.registry, &keys);
            self.deadline.until_stop(read).await?;
            orphans = Orphans::of(&observed, existence);
        }
        Ok((observed, orphans))
    }

    /// Adds the notes for which no instance has room.
    pub(crate) async fn with_notes(
        &self,
        mut observed: Observation,
        registry: &SharedRegistry,
    ) -> Result<Observation, Error> {
        let read = registry.read_notes(&mut observed);
        self.deadline.until_stop(read).await?;
        Ok(observed)
    }

    /// Whether anything depends on the existence of a cluster.
    fn is_to_be_asked_about(&self, cluster: &ClusterArn, kept: &[ConfiguredCluster<'_>]) -> bool {
        let rules = &self.settings.rules;
        let may_purge = rules.policy == Policy::Sync && rules.purge_dead_clusters_after.is_some();
        let known = kept.iter().find(|kept| kept.is_cluster(cluster));
        known.map_or(may_purge, |kept| !kept.was_read)
    }

    /// An observation for an owner that claims nothing in this Cloud Map.
    pub(crate) fn observation_for(&self, owner: Owner, registry: &Registry) -> Observation {
        let rules = self.settings.rules.clone();
        let read = Observation::new(owner, rules, self.now, registry.clone());
        Observation { extent: Extent::Confirmed, ..read }
    }
}

/// The role to ask EKS as. One that is not configured is asked about with a role that is configured for its account.
fn role_for<'k>(cluster: &ClusterArn, kept: &'k [ConfiguredCluster<'_>]) -> Option<&'k Role> {
    if let Some(kept) = kept.iter().find(|kept| kept.is_cluster(cluster)) {
        return kept.cluster.role.as_ref();
    }
    let mut roles = kept.iter().filter_map(|kept| kept.cluster.role.as_ref());
    roles.find(|role| role.account() == Some(cluster.account()))
}

fn report(orphans: &Orphans, mut done: ClusterReport) -> OrphanReport {
    done.counts.orphaned = orphans.instances;
    OrphanReport {
        instances: orphans.instances,
        reason: orphans.code().into(),
        since: orphans.since.map(|time| time.to_string()),
        purged_from: orphans.purged_from.map(|time| time.to_string()),
        detail: orphans.to_string(),
        done,
    }
}

/// How long an answer is used again.
const KEPT_FOR: SignedDuration = SignedDuration::from_mins(10);
/// The number of clusters that EKS is asked about in one run, all at once.
const MOST: usize = 20;

/// The last answer about each cluster, with its time.
#[derive(Debug, Default)]
pub struct Existences(Mutex<BTreeMap<ClusterArn, (Timestamp, Existence)>>);

impl Existences {
    /// The answers that are used again, and the clusters to ask about: those first of which the answer is oldest.
    fn divide(
        &self,
        clusters: &BTreeSet<ClusterArn>,
        now: Timestamp,
    ) -> (BTreeMap<ClusterArn, Existence>, Vec<ClusterArn>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|cluster, _| clusters.contains(cluster));
        let is_kept = |(asked, answer): &(Timestamp, Existence)| {
            *answer != Existence::Gone && now.duration_since(*asked) < KEPT_FOR
        };
        let kept = known.iter().filter(|(_, it)| is_kept(it));
        let kept: BTreeMap<_, _> =
            kept.map(|(it, (_, answer))| (it.clone(), answer.clone())).collect();
        let due = clusters.iter().filter(|cluster| !kept.contains_key(cluster));
        // A process that has asked about none begins with others in each minute.
        let mut due = shuffle(now, due.cloned().collect());
        due.sort_by_key(|cluster| known.get(cluster).map(|(asked, _)| *asked));
        (kept, due)
    }

    fn note(&self, cluster: &ClusterArn, answer: &Existence, now: Timestamp) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(cluster.clone(), (now, answer.clone()));
    }
}

impl Invocation<'_> {
    /// Finds out about these clusters, each with the role to ask as. The answer is the reason why it is unknown for those
    /// that it was not asked about.
    pub(super) async fn existences(
        &self,
        clusters: BTreeMap<ClusterArn, Option<&Role>>,
        existences: &Existences,
    ) -> BTreeMap<ClusterArn, Existence> {
        let all = clusters.keys().cloned().collect();
        let (mut answers, mut due) = existences.divide(&all, self.now);
        due.truncate(if self.deadline.is_open() { MOST } else { 0 });
        let questions = due.iter().map(|cluster| (cluster, clusters[cluster]));
        let questions = questions.map(|(cluster, role)| async move {
            let asked = self.clients.existence(cluster, role);
            (cluster, self.deadline.until_stop(asked).await)
        });
        for (cluster, answer) in futures_util::future::join_all(questions).await {
            let Ok(answer) = answer else { continue };
            existences.note(cluster, &answer, self.now);
            answers.insert(cluster.clone(), answer);
        }
        let reason = if self.deadline.is_open() {
            format!("a run asks about {MOST} clusters at most, by turns")
        } else {
            "the run had no time left to ask".to_owned()
        };
        for cluster in all {
            answers.entry(cluster).or_insert_with(|| Existence::Unknown(reason.clone()));
        }
        answers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(name: &str) -> ClusterArn {
        let arn = format!("arn:aws:eks:eu-central-1:111122223333:cluster/{name}");
        ClusterArn::parse(&arn).expect("an ARN")
    }

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).expect("a time")
    }

    #[test]
    fn answers_but_gone_are_used_for_ten_minutes_and_the_oldest_is_due_first() {
        let existences = Existences::default();
        let denied = || Existence::Unknown("denied".to_owned());
        let answers = [("a", 0, Existence::Gone), ("b", 1, Existence::Exists), ("c", 2, denied())];
        for (name, minute, answer) in &answers {
            existences.note(&cluster(name), answer, at(*minute));
        }
        let clusters = ["c", "b", "a", "new"].map(cluster).into();
        for (minute, expected) in [(3, "new a"), (10, "new a"), (11, "new a b"), (12, "new a b c")]
        {
            let (kept, due) = existences.divide(&clusters, at(minute));
            let due: Vec<&str> = due.iter().map(ClusterArn::name).collect();
            assert_eq!((due.join(" ").as_str(), kept.len()), (expected, 4 - due.len()), "{minute}");
        }
        existences.divide(&[cluster("new")].into(), at(12));
        let (kept, due) = existences.divide(&clusters, at(3));
        assert_eq!((kept.len(), due.len()), (0, 4), "of those that no mark names nothing is kept");
    }
}
