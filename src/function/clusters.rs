//! Resolves scopes to Services of configured clusters. An event contains only a cluster's name or ARN. Everything else
//! about the cluster comes from the settings. A name that matches several configured clusters is rejected.

use std::collections::BTreeMap;

use super::Function;
use crate::event::{ClusterName, Scope};
use crate::model::{ClusterArn, Selection, ServiceRef, join};
use crate::settings::Cluster;

/// Returns the indexes of the clusters that match a name.
fn find(name: &ClusterName, clusters: &[Cluster]) -> Vec<usize> {
    let matches = |cluster: &Cluster| match name {
        ClusterName::Named(name) => cluster.arn.as_str() == name || cluster.arn.name() == name,
        ClusterName::Only | ClusterName::Every => true,
    };
    (0..clusters.len()).filter(|index| matches(&clusters[*index])).collect()
}

/// Returns the ARNs of clusters as one text, for messages.
pub(super) fn join_arns(clusters: &[Cluster]) -> String {
    join(clusters.iter().map(|cluster| &cluster.arn), ", ")
}

impl Function {
    /// Returns the cluster that a purge names: a configured cluster by its name, or any cluster by its ARN.
    pub(super) fn cluster_to_purge(
        &self,
        name: &ClusterName,
    ) -> Result<ClusterArn, UnknownCluster> {
        if let Some(arn) = ClusterArn::parse(&name.to_string()) {
            return Ok(arn);
        }
        let clusters = &self.settings.clusters;
        match find(name, clusters).as_slice() {
            [index] => Ok(clusters[*index].arn.clone()),
            [] => Err(UnknownCluster::NoArn { configured: join_arns(clusters) }),
            _ => Err(UnknownCluster::Ambiguous { configured: join_arns(clusters) }),
        }
    }
}

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
    #[error("several configured clusters have this name; use the ARN; configured: {configured}")]
    Ambiguous { configured: String },
    #[error("no cluster is named and several are configured: {configured}")]
    NotNamed { configured: String },
    /// The configured cluster of this name is in another Region than the command names.
    #[error(
        "the command is about the cluster {name} in {region}, and the configured cluster {configured} is in \
         {}: nothing was changed; use the ARN of the cluster", .configured.region()
    )]
    OtherRegion { name: String, region: String, configured: ClusterArn },
}

impl UnknownCluster {
    /// Returns the stable code of the reason, for the report and the log.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotConfigured { .. } | Self::NoArn { .. } => "unknown_cluster",
            Self::Ambiguous { .. } => "ambiguous_cluster",
            Self::NotNamed { .. } => "cluster_not_named",
            Self::OtherRegion { .. } => "other_region",
        }
    }
}

impl Selections {
    pub fn everything(clusters: &[Cluster]) -> Self {
        Self((0..clusters.len()).map(|index| (index, Selection::Everything)).collect())
    }

    /// Returns `None` if no cluster is selected.
    pub fn union(&self) -> Option<Selection> {
        self.0.values().cloned().reduce(Selection::union)
    }

    pub fn is_everything(&self, clusters: &[Cluster]) -> bool {
        *self == Self::everything(clusters)
    }

    /// Resolves a scope to configured clusters and their Services.
    ///
    /// # Errors
    /// Returns an error if the scope matches no configured cluster, or more than one.
    pub fn resolve(scope: &Scope, clusters: &[Cluster]) -> Result<Self, UnknownCluster> {
        if scope.cluster == ClusterName::Every {
            return Ok(Self::everything(clusters));
        }
        let found = find(&scope.cluster, clusters);
        let [index] = found.as_slice() else {
            let configured = join_arns(clusters);
            return Err(match &scope.cluster {
                ClusterName::Named(_) if found.is_empty() => {
                    UnknownCluster::NotConfigured { configured }
                }
                ClusterName::Named(_) => UnknownCluster::Ambiguous { configured },
                _ => UnknownCluster::NotNamed { configured },
            });
        };
        let selection = match (&scope.namespace, &scope.service) {
            (Some(namespace), Some(service)) => {
                Selection::service(ServiceRef::new(namespace, service))
            }
            (Some(namespace), None) => Selection::namespace(namespace),
            (None, _) => Selection::Everything,
        };
        Ok(Self([(*index, selection)].into()))
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

    /// Returns `None` if the cluster is not selected.
    pub fn of(&self, index: usize) -> Option<&Selection> {
        self.0.get(&index)
    }

    /// Returns each selected cluster by its index in the settings, with its selection.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Selection)> {
        self.0.iter().map(|(index, selection)| (*index, selection))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    const FUNCTION: &str = "arn:aws:lambda:eu-central-1:111122223333:function:sync";

    fn clusters(text: &str) -> Vec<Cluster> {
        let variable = |name: &str| (name == "CLUSTERS").then(|| text.to_owned());
        Settings::read(variable, &BTreeMap::new(), Some(FUNCTION)).expect("valid").clusters
    }

    fn scope(cluster: ClusterName) -> Scope {
        let namespace = Some("shop".to_owned());
        let service = Some("web".to_owned());
        Scope { cluster, namespace, service }
    }

    fn indexes(result: Result<Selections, UnknownCluster>) -> Result<Vec<usize>, &'static str> {
        let indexes = |selections: Selections| selections.iter().map(|(index, _)| index).collect();
        result.map(indexes).map_err(|unknown| unknown.reason())
    }

    #[test]
    fn a_scope_means_configured_clusters_only() {
        let own = "arn:aws:eks:eu-central-1:111122223333:cluster/blue";
        let west = "arn:aws:eks:eu-west-1:111122223333:cluster/blue";
        let repeated = format!("blue,{own}");
        let two_blue = format!("blue,{west}");
        let named = |name: &str| ClusterName::Named(name.to_owned());
        let cases = [
            ("blue,green", ClusterName::Every, Ok(vec![0, 1])),
            ("blue,green", named("green"), Ok(vec![1])),
            ("blue,green", named("red"), Err("unknown_cluster")),
            ("blue,green", ClusterName::Only, Err("cluster_not_named")),
            ("blue", ClusterName::Only, Ok(vec![0])),
            ("blue", named(own), Ok(vec![0])),
            ("blue", named(west), Err("unknown_cluster")),
            (west, named("blue"), Ok(vec![0])),
            (west, named(own), Err("unknown_cluster")),
            (&repeated, named("blue"), Ok(vec![0])),
            (&repeated, named(own), Ok(vec![0])),
            (&repeated, ClusterName::Only, Ok(vec![0])),
            (&two_blue, named("blue"), Err("ambiguous_cluster")),
            (&two_blue, named(own), Ok(vec![0])),
            (&two_blue, named(west), Ok(vec![1])),
        ];
        for (configured, name, expected) in cases {
            let resolved = Selections::resolve(&scope(name.clone()), &clusters(configured));
            assert_eq!(indexes(resolved), expected, "{name:?} of {configured}");
        }
    }

    #[test]
    fn selections_of_several_scopes_add_up() {
        let clusters = clusters("blue,green");
        let green = scope(ClusterName::Named("green".to_owned()));
        let green = Selections::resolve(&green, &clusters).expect("configured");
        let mut all = Selections::everything(&clusters);
        all.extend(&green);
        assert!(all.is_everything(&clusters));
        assert!(!green.is_everything(&clusters));
    }
}
