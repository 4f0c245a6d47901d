//! Which Services of which configured clusters a scope means. An event names clusters by word; what
//! they are is in the settings alone.

use std::collections::BTreeMap;

use crate::event::{ClusterName, Scope};
use crate::model::{Selection, ServiceRef};
use crate::settings::Cluster;

/// What to reconcile, by the cluster's place in the settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selections(BTreeMap<usize, Selection>);

/// A scope whose cluster is not configured, or not told apart.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownCluster {
    /// None is called so.
    #[error("no configured cluster has this name or ARN; configured: {configured}")]
    NotConfigured {
        /// The configured ones.
        configured: String,
    },
    /// None is called so, and a purge could go on with an ARN.
    #[error(
        "no configured cluster has this name: name one that is not configured by its ARN; configured: {configured}"
    )]
    NoArn {
        /// The configured ones.
        configured: String,
    },
    /// EKS does not tell the ARN of a cluster that is configured by its name.
    #[error("EKS does not tell the cluster's ARN, so name it by that: {problem}")]
    ArnNotTold {
        /// What it said.
        problem: String,
    },
    /// Several are called so.
    #[error("several configured clusters have this name; use the ARN; configured: {configured}")]
    Ambiguous {
        /// The configured ones.
        configured: String,
    },
    /// None is named, and several are configured.
    #[error("no cluster is named and several are configured: {configured}")]
    NotNamed {
        /// The configured ones.
        configured: String,
    },
}

impl UnknownCluster {
    /// The stable name of the reason, for counting.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotConfigured { .. } | Self::NoArn { .. } | Self::ArnNotTold { .. } => {
                "unknown_cluster"
            }
            Self::Ambiguous { .. } => "ambiguous_cluster",
            Self::NotNamed { .. } => "cluster_not_named",
        }
    }
}

impl Selections {
    /// Every Service of every cluster.
    pub fn everything(clusters: &[Cluster]) -> Self {
        Self((0..clusters.len()).map(|index| (index, Selection::Everything)).collect())
    }

    /// Whether this is every Service of every cluster.
    pub fn is_everything(&self, clusters: &[Cluster]) -> bool {
        *self == Self::everything(clusters)
    }

    /// What a scope means.
    ///
    /// # Errors
    /// Where it means no configured cluster, or leaves open which.
    pub fn of(scope: &Scope, clusters: &[Cluster]) -> Result<Self, UnknownCluster> {
        let configured = || {
            let labels: Vec<&str> = clusters.iter().map(Cluster::label).collect();
            labels.join(", ")
        };
        let called = |name: &String| {
            let all = clusters.iter().enumerate();
            let called = all.filter(|(_, cluster)| cluster.is_called(name));
            called.map(|(index, _)| index).collect::<Vec<_>>()
        };
        let index = match (&scope.cluster, clusters) {
            (ClusterName::Every, _) => return Ok(Self::everything(clusters)),
            (ClusterName::Only, [_]) => 0,
            (ClusterName::Only, _) => {
                return Err(UnknownCluster::NotNamed { configured: configured() });
            }
            (ClusterName::Named(name), _) => match called(name).as_slice() {
                [] => return Err(UnknownCluster::NotConfigured { configured: configured() }),
                [index] => *index,
                _ => return Err(UnknownCluster::Ambiguous { configured: configured() }),
            },
        };
        Ok(Self(BTreeMap::from([(index, selection(scope))])))
    }

    /// Both together.
    #[must_use]
    pub fn union(mut self, other: &Self) -> Self {
        for (index, selection) in &other.0 {
            let selection = match self.0.remove(index) {
                Some(present) => present.union(selection.clone()),
                None => selection.clone(),
            };
            self.0.insert(*index, selection);
        }
        self
    }

    /// Each cluster's place in the settings with its selection.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Selection)> {
        self.0.iter().map(|(index, selection)| (*index, selection))
    }
}

fn selection(scope: &Scope) -> Selection {
    match (&scope.namespace, &scope.service) {
        (Some(namespace), Some(service)) => Selection::service(ServiceRef::new(namespace, service)),
        (Some(namespace), None) => Selection::namespace(namespace),
        (None, _) => scope.rest.map_or(Selection::Everything, |rest| Selection::shard(rest.shard)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    fn clusters(text: &str) -> Vec<Cluster> {
        let variable = |name: &str| (name == "CLUSTERS").then(|| text.to_owned());
        Settings::read(variable, Some("eu-central-1")).expect("valid").clusters
    }

    fn scope(cluster: ClusterName) -> Scope {
        Scope { cluster, namespace: Some("shop".into()), service: None, rest: None }
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
            let found = indexes(Selections::of(&scope(cluster), &clusters(configured)));
            assert_eq!(found, expected);
        }
    }
}
