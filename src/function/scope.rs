//! From a scope to the selected Services of configured clusters. An event contains only a name; the cluster behind it
//! is taken from the settings alone.

use std::collections::BTreeMap;

use super::clusters::Configured;
use crate::event::{ClusterName, Scope};
use crate::model::{Selection, ServiceRef};

/// The selected Services by the cluster's index in the settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selections {
    /// To be synced.
    synced: BTreeMap<usize, Selection>,
    /// To be imported only: another invocation synced their exports.
    imported: BTreeMap<usize, Selection>,
}

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
        let synced = clusters.indexes().map(|index| (index, Selection::Everything)).collect();
        Self { synced, imported: BTreeMap::new() }
    }

    /// The Services to sync in any cluster; `None` if no cluster is to be synced.
    pub fn all(&self) -> Option<Selection> {
        self.synced.values().cloned().reduce(Selection::union)
    }

    pub fn is_everything(&self, clusters: &Configured<'_>) -> bool {
        self.synced == Self::everything(clusters).synced
    }

    /// Resolves a scope to configured clusters and their Services.
    ///
    /// # Errors
    /// Returns an error if the scope matches no configured cluster, or more than one.
    pub fn resolve(scope: &Scope, clusters: &Configured<'_>) -> Result<Self, UnknownCluster> {
        let configured = || clusters.labels();
        let indexes = match &scope.cluster {
            ClusterName::Every => return Ok(Self::everything(clusters)),
            ClusterName::Only => clusters.indexes().collect(),
            ClusterName::Named(name) => clusters.find_by_name(name),
        };
        if clusters.can_be_one(&indexes) {
            let selection = selection(scope);
            let selected = indexes.into_iter().map(|it| (it, selection.clone())).collect();
            let (synced, imported) = if scope.import_only {
                (BTreeMap::new(), selected)
            } else {
                (selected, BTreeMap::new())
            };
            return Ok(Self { synced, imported });
        }
        Err(match &scope.cluster {
            ClusterName::Named(_) if indexes.is_empty() => {
                UnknownCluster::NotConfigured { configured: configured() }
            }
            ClusterName::Named(_) => UnknownCluster::Ambiguous { configured: configured() },
            _ => UnknownCluster::NotNamed { configured: configured() },
        })
    }

    /// Whether anything of a cluster is to be synced or imported.
    pub fn are_about(&self, index: usize) -> bool {
        self.synced.contains_key(&index) || self.imported.contains_key(&index)
    }

    #[must_use]
    pub fn union(mut self, other: &Self) -> Self {
        for (index, selection) in &other.synced {
            add(&mut self.synced, *index, selection);
        }
        for (index, selection) in &other.imported {
            add(&mut self.imported, *index, selection);
        }
        self
    }

    /// The Services of a cluster to sync.
    pub fn of(&self, index: usize) -> Option<&Selection> {
        self.synced.get(&index)
    }

    /// The index in the settings of each cluster to sync, with its selection.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Selection)> {
        self.synced.iter().map(|(index, selection)| (*index, selection))
    }

    /// The same of each cluster that only imports.
    pub fn imported(&self) -> impl Iterator<Item = (usize, &Selection)> {
        self.imported.iter().map(|(index, selection)| (*index, selection))
    }
}

/// Adds Services of a cluster.
pub fn add(all: &mut BTreeMap<usize, Selection>, index: usize, more: &Selection) {
    let selection = match all.remove(&index) {
        Some(present) => present.union(more.clone()),
        None => more.clone(),
    };
    all.insert(index, selection);
}

fn selection(scope: &Scope) -> Selection {
    match (&scope.namespace, &scope.service) {
        (Some(namespace), Some(service)) => Selection::service(ServiceRef::new(namespace, service)),
        (Some(namespace), None) => Selection::namespace(namespace),
        (None, _) => scope
            .continuation
            .as_ref()
            .map_or(Selection::Everything, |rest| Selection::rest(rest.shard, rest.held.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ClusterArn;
    use crate::settings::{Cluster, Settings};

    fn clusters(text: &str) -> Vec<Cluster> {
        let variable = |name: &str| (name == "CLUSTERS").then(|| text.to_owned());
        Settings::read(variable, Some("eu-central-1")).expect("valid").clusters
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
            let configured = Configured::new(&clusters, &BTreeMap::new(), |_, _| true);
            assert_eq!(indexes(Selections::resolve(&scope(cluster), &configured)), expected);
        }
    }

    #[test]
    fn scope_of_an_import_syncs_no_cluster() {
        let clusters = clusters("blue,green");
        let configured = Configured::new(&clusters, &BTreeMap::new(), |_, _| true);
        let green = || scope(ClusterName::Named("green".to_owned()));
        let import = Scope { import_only: true, ..green() };
        let resolve = |scope: &Scope| Selections::resolve(scope, &configured).expect("configured");
        let import = resolve(&import);
        assert_eq!((import.iter().count(), import.all()), (0, None));
        let both = import.union(&resolve(&green()));
        assert_eq!((both.iter().count(), both.imported().count()), (1, 1));
        let all = Selections::everything(&configured);
        assert!(all.union(&both).is_everything(&configured));
    }

    #[test]
    fn name_and_arn_of_one_cluster_are_synced_once_after_its_description() {
        let own = "arn:aws:eks:eu-central-1:111122223333:cluster/blue";
        let other = "arn:aws:eks:eu-central-1:444455556666:cluster/blue";
        let clusters = clusters(&format!("blue,{own}"));
        let blue = || scope(ClusterName::Named("blue".to_owned()));
        let described = |arn: &str| BTreeMap::from([(0, ClusterArn::parse(arn).expect("an ARN"))]);
        let cases = [
            // Before the description both are selected, so that the message returns if the description fails.
            (BTreeMap::new(), true, Ok(vec![0, 1]), 2),
            (described(own), true, Ok(vec![1]), 1),
            (described(own), false, Ok(vec![0, 1]), 2),
            (described(other), true, Err("ambiguous_cluster"), 2),
        ];
        for (described, alike, expected, count) in cases {
            let configured = Configured::new(&clusters, &described, |_, _| alike);
            assert_eq!(indexes(Selections::resolve(&blue(), &configured)), expected);
            assert_eq!(Selections::everything(&configured).iter().count(), count);
            let refused = configured.contradiction(0).map(|it| it.to_string());
            assert_eq!(refused.is_some(), !alike, "{refused:?}");
            assert!(refused.is_none_or(|it| it.contains(" blue and ") && it.contains(own)));
        }
    }
}
