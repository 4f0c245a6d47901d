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
        let synced = clusters.entries().map(|index| (index, Selection::Everything)).collect();
        Self { synced, imported: BTreeMap::new() }
    }

    /// Single Services to sync, each with its cluster's index in the settings.
    pub fn of_services(services: impl Iterator<Item = (usize, ServiceRef)>) -> Self {
        let mut synced = BTreeMap::new();
        services.for_each(|(index, it)| add(&mut synced, index, &Selection::service(it)));
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
        if scope.cluster == ClusterName::Every {
            return Ok(Self::everything(clusters));
        }
        let indexes = clusters.find(&scope.cluster);
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
        (None, _) => Selection::Everything,
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
            let configured = Configured::new(&clusters, |cluster| cluster.arn.clone());
            assert_eq!(indexes(Selections::resolve(&scope(cluster), &configured)), expected);
        }
    }

    #[test]
    fn scope_of_an_import_syncs_no_cluster() {
        let clusters = clusters("blue,green");
        let configured = Configured::new(&clusters, |cluster| cluster.arn.clone());
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
