//! The clusters of `CLUSTERS`, each of which is served once. An entry with a name and one with an ARN may be the same
//! cluster, but only EKS knows the account of a name: the two are joined when the name is first described.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use tokio::time::timeout_at;

use super::Function;
use crate::model::ClusterArn;
use crate::settings::Cluster;
use crate::time::Deadline;

/// The ARNs of entries without one, by their place in the settings, as far as EKS described them.
pub(super) type Described = Mutex<BTreeMap<usize, ClusterArn>>;

/// An entry without an ARN that has the name and Region of an entry with one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Duplicate {
    /// EKS did not describe it yet.
    Undescribed,
    /// It is the cluster at this place, which is served for both.
    Of(usize),
    /// It is the cluster at this place, and the entries differ in more than the name.
    Contradicts(usize),
}

/// The configured clusters.
pub struct Configured<'a> {
    clusters: &'a [Cluster],
    /// By their place in the settings.
    duplicates: BTreeMap<usize, Duplicate>,
}

/// One cluster with two entries between which there is no choice.
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
    /// Joins entries of one cluster, if `is_alike` says that they lead to the same Cloud Map in the same way.
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
            Some(if alike { Duplicate::Of(of) } else { Duplicate::Contradicts(of) })
        };
        let all = clusters.iter().enumerate();
        let duplicates = all.filter_map(|(index, it)| Some((index, duplicate((index, it))?)));
        Self { clusters, duplicates: duplicates.collect() }
    }

    /// The places in the settings of the clusters to serve.
    pub fn places(&self) -> impl Iterator<Item = usize> {
        (0..self.clusters.len())
            .filter(|index| !matches!(self.duplicates.get(index), Some(Duplicate::Of(_))))
    }

    /// The clusters to serve.
    pub fn clusters(&self) -> impl Iterator<Item = &'a Cluster> {
        self.places().map(|index| &self.clusters[index])
    }

    /// The places of those that events call so.
    pub fn called(&self, name: &str) -> Vec<usize> {
        self.places().filter(|index| self.clusters[*index].is_called(name)).collect()
    }

    /// Whether these places are one cluster for all that is known. Of one that is not described yet, or whose
    /// entries contradict each other, both are selected, so that a message is not dropped but comes back.
    pub fn may_be_one(&self, places: &[usize]) -> bool {
        let surely = places.iter().filter(|index| !self.duplicates.contains_key(index)).count();
        !places.is_empty() && surely <= 1
    }

    /// The clusters by name, for an error.
    pub fn labels(&self) -> String {
        self.clusters().map(Cluster::label).collect::<Vec<_>>().join(", ")
    }

    /// Why the cluster at a place is not served.
    pub(super) fn contradiction(&self, place: usize) -> Option<Contradiction> {
        let contradicts = |(index, it): (&usize, &Duplicate)| match it {
            Duplicate::Contradicts(of) if [*index, *of].contains(&place) => Some((*index, *of)),
            _ => None,
        };
        let (index, of) = self.duplicates.iter().find_map(contradicts)?;
        let [name, arn] = [index, of].map(|it| self.clusters[it].label().to_owned());
        Some(Contradiction { name, arn })
    }
}

fn may_be_duplicate(cluster: &Cluster, clusters: &[Cluster]) -> bool {
    clusters.iter().filter_map(|other| other.arn.as_ref()).any(|arn| cluster.may_be(arn))
}

impl Function {
    /// The configured clusters, as far as EKS described those that may be named twice.
    pub(super) fn configured(&self) -> Configured<'_> {
        let described = self.described.lock().unwrap_or_else(PoisonError::into_inner);
        let registry = |cluster: &Cluster| self.clients.registry_of(cluster);
        Configured::new(&self.settings.clusters, &described, |one, other| {
            one.role == other.role
                && one.default_namespace == other.default_namespace
                && registry(one) == registry(other)
        })
    }

    /// Describes the clusters that may be named twice, each once a process.
    pub(super) async fn describe_duplicates(&self, deadline: Deadline) {
        let undescribed: Vec<usize> = {
            let configured = self.configured();
            let all = configured.duplicates.iter();
            all.filter(|(_, it)| **it == Duplicate::Undescribed).map(|(index, _)| *index).collect()
        };
        for index in undescribed {
            let cluster = &self.settings.clusters[index];
            let connected = timeout_at(deadline.stop(), self.clients.connect(cluster)).await;
            // The run of this cluster reports the error.
            let Ok(Ok(connection)) = connected else { continue };
            let arn = connection.cluster.arn;
            self.described
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(index, arn.clone());
            if let Some(Duplicate::Of(_)) = self.configured().duplicates.get(&index) {
                let name = cluster.label();
                tracing::warn!(cluster = %arn, "CLUSTERS names this cluster twice, as {name} and by its ARN: it is served once");
            }
        }
    }
}
