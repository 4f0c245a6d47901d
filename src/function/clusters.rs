//! The clusters of `CLUSTERS`, as far as their ARNs are known. An ARN identifies a cluster. An entry with a name has one
//! as soon as EKS has described it (`clients`), which is the beginning of its own run: until then two entries may be one
//! cluster, and a name or an ARN may mean several. Then all of them are run, and it is decided afterwards.

use futures_util::future::try_join_all;

use super::Function;
use super::scope::{Selections, UnknownCluster};
use crate::clients;
use crate::eks;
use crate::error::chain;
use crate::event::{ClusterName, Scope};
use crate::model::{ClusterArn, join};
use crate::settings::Cluster;

pub struct Configured<'a>(Vec<SelectedEntry<'a>>);

struct SelectedEntry<'a> {
    cluster: &'a Cluster,
    arn: Option<ClusterArn>,
}

impl SelectedEntry<'_> {
    /// Whether another entry serves the cluster.
    fn is_held_back(&self) -> bool {
        self.arn.as_ref().is_some_and(|arn| self.cluster.namesakes.contains(arn))
    }

    /// Whether it may be the cluster of another entry.
    fn may_be_held_back(&self) -> bool {
        self.arn.is_none() && !self.cluster.namesakes.is_empty()
    }
}

impl<'a> Configured<'a> {
    pub fn new(clusters: &'a [Cluster], arn_of: impl Fn(&Cluster) -> Option<ClusterArn>) -> Self {
        let entry = |cluster| SelectedEntry { cluster, arn: arn_of(cluster) };
        Self(clusters.iter().map(entry).collect())
    }

    /// The indexes in the settings of all entries.
    pub fn entries(&self) -> impl Iterator<Item = usize> + use<> {
        0..self.0.len()
    }

    /// The indexes of the clusters, without the entries that are known to be held back.
    pub fn indexes(&self) -> impl Iterator<Item = usize> {
        self.entries().filter(|index| !self.0[*index].is_held_back())
    }

    pub fn clusters(&self) -> impl Iterator<Item = &'a Cluster> {
        self.indexes().map(|index| self.0[index].cluster)
    }

    /// The indexes of the clusters that this may mean.
    pub fn find(&self, name: &ClusterName) -> Vec<usize> {
        let ClusterName::Named(name) = name else { return self.indexes().collect() };
        let Some(arn) = ClusterArn::parse(name) else {
            return self.indexes().filter(|index| self.0[*index].cluster.name == *name).collect();
        };
        let is_it = |index: &usize| self.0[*index].arn.as_ref() == Some(&arn);
        if let Some(index) = self.indexes().find(is_it) {
            return vec![index];
        }
        let may_be = |entry: &SelectedEntry| entry.arn.is_none() && entry.cluster.may_be(&arn);
        self.indexes().filter(|index| may_be(&self.0[*index])).collect()
    }

    /// Of the clusters that this may mean, those of which the ARN has to be read to know it.
    pub fn undecided(&self, name: &ClusterName) -> Vec<&'a Cluster> {
        let found = self.find(name);
        let by_arn = matches!(name, ClusterName::Named(name) if ClusterArn::parse(name).is_some());
        let is_undecided = |entry: &&SelectedEntry| match name {
            ClusterName::Every => false,
            _ if by_arn => entry.arn.is_none(),
            _ => found.len() > 1 && entry.may_be_held_back(),
        };
        let entries = found.iter().map(|index| &self.0[*index]);
        entries.filter(is_undecided).map(|entry| entry.cluster).collect()
    }

    /// Whether these indexes are one cluster, or may be.
    pub fn can_be_one(&self, indexes: &[usize]) -> bool {
        let sure = indexes.iter().filter(|index| !self.0[**index].may_be_held_back()).count();
        !indexes.is_empty() && sure <= 1
    }

    pub fn labels(&self) -> String {
        join(self.clusters().map(Cluster::label), ", ")
    }
}

impl Function {
    pub(super) fn configured(&self) -> Configured<'_> {
        Configured::new(&self.settings.clusters, |cluster| self.clients.arn_of(cluster))
    }

    /// The ARN of a cluster, which EKS is asked for if it is not known.
    pub(super) async fn arn_of(&self, cluster: &Cluster) -> Result<ClusterArn, clients::Error> {
        match self.clients.arn_of(cluster) {
            Some(known) => Ok(known),
            None => match self.clients.connect(cluster).await {
                Ok(connection) => Ok(connection.cluster.arn),
                Err(error) => self.clients.arn_of(cluster).ok_or(error),
            },
        }
    }

    /// The cluster in messages to the function itself. The name alone would not do if another account has one of it.
    pub(super) fn name_in_messages(&self, cluster: &Cluster) -> String {
        let arn = self.clients.arn_of(cluster).filter(|_| !cluster.namesakes.is_empty());
        arn.map_or_else(|| cluster.label().to_owned(), |arn| arn.to_string())
    }
}

/// A cluster to purge.
pub(super) struct ToPurge<'a> {
    pub(super) arn: ClusterArn,
    /// Its entry in the settings.
    pub(super) configured: Option<&'a Cluster>,
    /// Whether it may have one is unknown, for this reason.
    pub(super) warning: Option<String>,
}

impl Function {
    /// The clusters and Services of a scope.
    pub(super) async fn selections(&self, scope: &Scope) -> Result<Selections, UnknownCluster> {
        self.decide(&scope.cluster).await.map_err(|error| arn_unknown(&error))?;
        Selections::resolve(scope, &self.configured())
    }

    /// Reads the ARNs that decide which cluster is meant.
    async fn decide(&self, name: &ClusterName) -> Result<(), clients::Error> {
        let undecided = self.configured().undecided(name);
        try_join_all(undecided.into_iter().map(|cluster| self.arn_of(cluster))).await.map(drop)
    }

    /// The cluster that a purge names: a configured one, or any cluster by its ARN.
    pub(super) async fn cluster_to_purge(
        &self,
        name: &ClusterName,
    ) -> Result<ToPurge<'_>, UnknownCluster> {
        let decided = self.decide(name).await;
        let configured = self.configured();
        let found = configured.find(name);
        let labels = || configured.labels();
        if let Some(arn) = ClusterArn::parse(&name.to_string()) {
            let warning = decided.as_ref().err().and_then(warn_of_entry);
            let index = found.first().filter(|_| decided.is_ok());
            let configured = index.map(|index| &self.settings.clusters[*index]);
            return Ok(ToPurge { arn, configured, warning });
        }
        decided.map_err(|error| arn_unknown(&error))?;
        let [index] = found.as_slice() else {
            return Err(match found.len() {
                0 => UnknownCluster::NoArn { configured: labels() },
                _ => UnknownCluster::Ambiguous { configured: labels() },
            });
        };
        let cluster = &self.settings.clusters[*index];
        let arn = self.arn_of(cluster).await.map_err(|error| arn_unknown(&error))?;
        Ok(ToPurge { arn, configured: Some(cluster), warning: None })
    }
}

pub(super) fn arn_unknown(error: &clients::Error) -> UnknownCluster {
    UnknownCluster::ArnUnknown { problem: chain(error) }
}

/// A cluster that is gone registers nothing any more, whether it is the one of the purge or not.
fn warn_of_entry(error: &clients::Error) -> Option<String> {
    let is_gone = matches!(error, clients::Error::Describe(eks::Error::NotFound { .. }));
    (!is_gone).then(|| {
        format!(
            "it is unknown whether an entry of CLUSTERS is this cluster; if so, its imports are not purged, and the next \
             sync registers its Services again ({})",
            chain(error)
        )
    })
}
