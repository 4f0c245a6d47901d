//! The clusters of `CLUSTERS`, each synced once. An entry with a name and an entry with an ARN may be the same cluster,
//! but only EKS knows the account of a name: the two are merged after the first DescribeCluster for the name.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use tokio::time::timeout_at;

use super::Function;
use crate::model::ClusterArn;
use crate::settings::Cluster;
use crate::time::Deadline;

/// The ARNs of entries without one, by their index in the settings, once EKS described them.
pub(super) type Described = Mutex<BTreeMap<usize, ClusterArn>>;

/// An entry without an ARN that has the name and Region of an entry with one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Duplicate {
    /// EKS has not described it yet.
    Undescribed,
    /// It is the cluster at this index, which is synced for both.
    SameAs(usize),
    /// It is the cluster at this index, and the entries differ in more than the name.
    Contradicts(usize),
}

pub struct Configured<'a> {
    clusters: &'a [Cluster],
    /// By their index in the settings.
    duplicates: BTreeMap<usize, Duplicate>,
}

/// A cluster with two contradictory entries.
#[derive(Debug, thiserror::Error)]
#[error(
    "CLUSTERS names this cluster twice, as {name} and as {arn}, with different roles, registries or default \
     namespaces: remove one of them"
)]
pub(super) struct Contradiction {
    name: String,
    arn: String,
}

impl<'a> Configured<'a> {
    /// Merges the entries of one cluster. `is_alike` returns whether two entries have the same roles, Cloud Map and
    /// default namespace.
    pub fn new(
        clusters: &'a [Cluster],
        described: &BTreeMap<usize, ClusterArn>,
        is_alike: impl Fn(&Cluster, &Cluster) -> bool,
    ) -> Self {
        let duplicate = |(index, cluster): (usize, &Cluster)| {
            let Some(arn) = described.get(&index) else {
                return may_be_duplicate(cluster, clusters).then_some(Duplicate::Undescribed);
            };
            let of = clusters.iter().position(|other| other.arn.as_ref() == Some(arn))?;
            let alike = is_alike(cluster, &clusters[of]);
            Some(if alike { Duplicate::SameAs(of) } else { Duplicate::Contradicts(of) })
        };
        let all = clusters.iter().enumerate();
        let duplicates = all.filter_map(|(index, it)| Some((index, duplicate((index, it))?)));
        Self { clusters, duplicates: duplicates.collect() }
    }

    /// The indexes in the settings of the clusters to sync.
    pub fn indexes(&self) -> impl Iterator<Item = usize> {
        (0..self.clusters.len())
            .filter(|index| !matches!(self.duplicates.get(index), Some(Duplicate::SameAs(_))))
    }

    pub fn clusters(&self) -> impl Iterator<Item = &'a Cluster> {
        self.indexes().map(|index| &self.clusters[index])
    }

    /// The indexes of the clusters with this name or ARN.
    pub fn find_by_name(&self, name: &str) -> Vec<usize> {
        self.indexes().filter(|index| self.clusters[*index].is_called(name)).collect()
    }

    /// Whether these indexes can be one cluster. Both entries are selected if the cluster is not described yet, or if
    /// they contradict each other: the message fails and returns instead of being dropped.
    pub fn can_be_one(&self, indexes: &[usize]) -> bool {
        let unique = indexes.iter().filter(|index| !self.duplicates.contains_key(index)).count();
        !indexes.is_empty() && unique <= 1
    }

    pub fn labels(&self) -> String {
        self.clusters().map(Cluster::label).collect::<Vec<_>>().join(", ")
    }

    /// The contradiction because of which the cluster at this index is not synced.
    pub(super) fn contradiction(&self, index: usize) -> Option<Contradiction> {
        let contradicts = |(entry, it): (&usize, &Duplicate)| match it {
            Duplicate::Contradicts(of) if [*entry, *of].contains(&index) => Some((*entry, *of)),
            _ => None,
        };
        let (entry, of) = self.duplicates.iter().find_map(contradicts)?;
        let [name, arn] = [entry, of].map(|it| self.clusters[it].label().to_owned());
        Some(Contradiction { name, arn })
    }
}

fn may_be_duplicate(cluster: &Cluster, clusters: &[Cluster]) -> bool {
    clusters.iter().filter_map(|other| other.arn.as_ref()).any(|arn| cluster.may_be(arn))
}

impl Function {
    /// The configured clusters. Entries that may be duplicates are merged once EKS described them.
    pub(super) fn configured(&self) -> Configured<'_> {
        let described = self.described.lock().unwrap_or_else(PoisonError::into_inner);
        let registry = |cluster: &Cluster| self.clients.registry_of(cluster);
        Configured::new(&self.settings.clusters, &described, |one, other| {
            one.role == other.role
                && one.default_namespace == other.default_namespace
                && registry(one) == registry(other)
        })
    }

    /// Describes the clusters that may have two entries, each once per process.
    pub(super) async fn describe_duplicates(&self, deadline: Deadline) {
        let undescribed: Vec<usize> = {
            let configured = self.configured();
            let all = configured.duplicates.iter();
            all.filter(|(_, it)| **it == Duplicate::Undescribed).map(|(index, _)| *index).collect()
        };
        for index in undescribed {
            let cluster = &self.settings.clusters[index];
            let connected = timeout_at(deadline.stop(), self.clients.connect(cluster)).await;
            // The run of this cluster reports the same error.
            let Ok(Ok(connection)) = connected else { continue };
            let arn = connection.cluster.arn;
            self.described
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(index, arn.clone());
            if let Some(Duplicate::SameAs(_)) = self.configured().duplicates.get(&index) {
                let name = cluster.label();
                tracing::warn!(cluster = %arn, "CLUSTERS names this cluster twice, as {name} and by its ARN: it is synced once");
            }
        }
    }
}
