//! Whether the clusters in marks still exist, as EKS answered. Whoever may register an instance can make up a mark, and EKS
//! may not answer: so a run asks about a few clusters, by turns, and an answer is kept for a while by this process. "Gone"
//! is never kept, since a purge rests on it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use futures_util::future::join_all;
use tokio::time::timeout_at;

use crate::model::{ClusterArn, Existence, SignedDuration, Timestamp};
use crate::publish::Order;
use crate::reconcile::Invocation;
use crate::settings::Role;

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
        let mut due = Order::at(now).put(due.cloned().collect());
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
            (cluster, timeout_at(self.deadline.stop(), asked).await)
        });
        for (cluster, answer) in join_all(questions).await {
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
