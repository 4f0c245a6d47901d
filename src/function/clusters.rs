//! The clusters of `CLUSTERS`, as far as their ARNs are known. An ARN identifies a cluster. An entry with a name has one
//! as soon as EKS has described it (`clients`), which is the beginning of its own run: until then two entries may be one
//! cluster, and a name or an ARN may mean several. Then all of them are run, and it is decided afterwards.

use std::collections::BTreeMap;

use futures_util::future::try_join_all;

use super::Function;
use crate::error::chain;
use crate::event::{ClusterName, Scope};
use crate::model::{ClusterArn, Selection, ServiceRef, join};
use crate::settings::Cluster;
use crate::{clients, eks};

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
        if let Some(known) = self.clients.arn_of(cluster) {
            return Ok(known);
        }
        let described = self.clients.connect(cluster).await.map(|it| it.cluster.arn);
        described.or_else(|error| self.clients.arn_of(cluster).ok_or(error))
    }

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
        if let Some(arn) = ClusterArn::parse(&name.to_string()) {
            let warning = decided.as_ref().err().and_then(warn_of_entry);
            let index = found.first().filter(|_| decided.is_ok());
            let configured = index.map(|index| &self.settings.clusters[*index]);
            return Ok(ToPurge { arn, configured, warning });
        }
        decided.map_err(|error| arn_unknown(&error))?;
        let [index] = found.as_slice() else {
            let configured = configured.labels();
            return Err(match found.len() {
                0 => UnknownCluster::NoArn { configured },
                _ => UnknownCluster::Ambiguous { configured },
            });
        };
        let cluster = &self.settings.clusters[*index];
        let arn = self.arn_of(cluster).await.map_err(|error| arn_unknown(&error))?;
        Ok(ToPurge { arn, configured: Some(cluster), warning: None })
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

// From a scope to the selected Services of configured clusters. An event contains only a name; the cluster behind it
// is taken from the settings alone.

/// The selected Services by the cluster's index in the settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selections(BTreeMap<usize, Selection>);

/// The error of a scope with an unknown or ambiguous cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownCluster {
    #[error("no configured cluster has this name or ARN; configured: {configured}")]
    NotConfigured { configured: String },
    /// No configured cluster has this name. A purge accepts any ARN.
    #[error(
        "no configured cluster has this name; use the ARN if the cluster is not configured; configured: {configured}"
    )]
    NoArn { configured: String },
    /// EKS did not return the ARN of a cluster that is configured by its name.
    #[error("EKS did not return the cluster's ARN; select the cluster by its ARN: {problem}")]
    ArnUnknown { problem: String },
    #[error("several configured clusters have this name; use the ARN; configured: {configured}")]
    Ambiguous { configured: String },
    #[error("no cluster is named and several are configured: {configured}")]
    NotNamed { configured: String },
    /// The configured cluster of this name is in another Region than the one that the command means.
    #[error(
        "the command is about the cluster {name} in {region}, and the configured cluster {configured} is in \
         {configured_region}: nothing was changed; use the ARN of the cluster"
    )]
    OtherRegion { name: String, region: String, configured: String, configured_region: String },
}

impl UnknownCluster {
    /// The reason's stable code, for metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotConfigured { .. } | Self::NoArn { .. } | Self::ArnUnknown { .. } => {
                "unknown_cluster"
            }
            Self::Ambiguous { .. } => "ambiguous_cluster",
            Self::NotNamed { .. } => "cluster_not_named",
            Self::OtherRegion { .. } => "other_region",
        }
    }
}

impl Selections {
    pub fn everything(clusters: &Configured<'_>) -> Self {
        Self(clusters.entries().map(|index| (index, Selection::Everything)).collect())
    }

    /// The Services to sync in any cluster; `None` if no cluster is to be synced.
    pub fn all(&self) -> Option<Selection> {
        self.0.values().cloned().reduce(Selection::union)
    }

    pub fn is_everything(&self, clusters: &Configured<'_>) -> bool {
        *self == Self::everything(clusters)
    }

    /// Resolves a scope to configured clusters and their Services.
    ///
    /// # Errors
    /// Returns an error if the scope matches no configured cluster, or more than one.
    pub fn resolve(scope: &Scope, clusters: &Configured<'_>) -> Result<Self, UnknownCluster> {
        if scope.cluster == ClusterName::Every {
            return Ok(Self::everything(clusters));
        }
        let indexes = clusters.find(&scope.cluster);
        if clusters.can_be_one(&indexes) {
            let selection = match (&scope.namespace, &scope.service) {
                (Some(namespace), Some(service)) => {
                    Selection::service(ServiceRef::new(namespace, service))
                }
                (Some(namespace), None) => Selection::namespace(namespace),
                (None, _) => Selection::Everything,
            };
            let selected = indexes.into_iter().map(|index| (index, selection.clone()));
            return Ok(Self(selected.collect()));
        }
        let configured = clusters.labels();
        Err(match &scope.cluster {
            ClusterName::Named(_) if indexes.is_empty() => {
                UnknownCluster::NotConfigured { configured }
            }
            ClusterName::Named(_) => UnknownCluster::Ambiguous { configured },
            _ => UnknownCluster::NotNamed { configured },
        })
    }

    /// Adds the Services of other selections.
    pub fn extend(&mut self, other: &Self) {
        for (index, selection) in other.iter() {
            self.add(index, selection);
        }
    }

    fn add(&mut self, index: usize, more: &Selection) {
        let selection = match self.0.remove(&index) {
            Some(present) => present.union(more.clone()),
            None => more.clone(),
        };
        self.0.insert(index, selection);
    }

    /// The Services of a cluster to sync.
    pub fn of(&self, index: usize) -> Option<&Selection> {
        self.0.get(&index)
    }

    /// The index in the settings of each cluster to sync, with its selection.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Selection)> {
        self.0.iter().map(|(index, selection)| (*index, selection))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ClusterArn;
    use crate::settings::{Cluster, Settings};

    fn clusters(text: &str) -> Vec<Cluster> {
        let variable = |name: &str| (name == "CLUSTERS").then(|| text.to_owned());
        Settings::read(variable, &BTreeMap::new(), Some("eu-central-1")).expect("valid").clusters
    }

    fn scope(cluster: ClusterName) -> Scope {
        let (namespace, service) = (Some("shop".to_owned()), Some("web".to_owned()));
        Scope { cluster, namespace, service, ..Scope::every() }
    }

    fn indexes(result: Result<Selections, UnknownCluster>) -> Result<Vec<usize>, &'static str> {
        let indexes = |selections: Selections| selections.iter().map(|(index, _)| index).collect();
        result.map(indexes).map_err(|unknown| unknown.reason())
    }

    #[test]
    fn a_scope_means_configured_clusters_only() {
        let west = "arn:aws:eks:eu-west-1:111122223333:cluster/blue";
        let twice = format!("arn:aws:eks:eu-central-1:111122223333:cluster/blue,{west}");
        let named = |name: &str| ClusterName::Named(name.to_owned());
        let cases = [
            ("blue,green", ClusterName::Every, Ok(vec![0, 1])),
            ("blue,green", named("green"), Ok(vec![1])),
            ("blue,green", named("red"), Err("unknown_cluster")),
            ("blue,green", ClusterName::Only, Err("cluster_not_named")),
            ("blue", ClusterName::Only, Ok(vec![0])),
            (&twice, named("blue"), Err("ambiguous_cluster")),
            (&twice, named(west), Ok(vec![1])),
        ];
        for (configured, cluster, expected) in cases {
            let clusters = clusters(configured);
            let configured = Configured::new(&clusters, |cluster| cluster.arn.clone());
            assert_eq!(indexes(Selections::resolve(&scope(cluster), &configured)), expected);
        }
    }

    #[test]
    fn selections_of_several_scopes_add_up() {
        let clusters = clusters("blue,green");
        let configured = Configured::new(&clusters, |cluster| cluster.arn.clone());
        let green = scope(ClusterName::Named("green".to_owned()));
        let green = Selections::resolve(&green, &configured).expect("configured");
        let mut all = Selections::everything(&configured);
        all.extend(&green);
        assert!(all.is_everything(&configured));
        assert!(!green.is_everything(&configured));
    }

    /// The entry with a name is number 0, that with an ARN number 1.
    #[test]
    fn names_and_arns_mean_what_they_may_until_the_arn_of_a_name_is_known() {
        let own = "arn:aws:eks:eu-central-1:111122223333:cluster/blue";
        let other = "arn:aws:eks:eu-central-1:444455556666:cluster/blue";
        let clusters = clusters(&format!("blue,{own}"));
        let named = |name: &str| ClusterName::Named(name.to_owned());
        let cases = [
            (None, named("blue"), Ok(vec![0, 1]), 1),
            (None, ClusterName::Only, Ok(vec![0, 1]), 1),
            (None, named(own), Ok(vec![1]), 0),
            (None, named(other), Ok(vec![0]), 1),
            (Some(own), named("blue"), Ok(vec![1]), 0),
            (Some(own), ClusterName::Only, Ok(vec![1]), 0),
            (Some(own), named(own), Ok(vec![1]), 0),
            (Some(own), named(other), Err("unknown_cluster"), 0),
            (Some(other), named("blue"), Err("ambiguous_cluster"), 0),
            (Some(other), ClusterName::Only, Err("cluster_not_named"), 0),
            (Some(other), named(own), Ok(vec![1]), 0),
            (Some(other), named(other), Ok(vec![0]), 0),
        ];
        for (described, name, expected, undecided) in cases {
            let described = described.and_then(ClusterArn::parse);
            let configured = Configured::new(&clusters, |cluster| {
                cluster.arn.clone().or_else(|| described.clone())
            });
            let case = format!("{name:?}, described as {described:?}");
            assert_eq!(configured.undecided(&name).len(), undecided, "{case}");
            assert_eq!(indexes(Selections::resolve(&scope(name), &configured)), expected, "{case}");
            assert_eq!(Selections::everything(&configured).iter().count(), 2, "{case}");
        }
    }
}
