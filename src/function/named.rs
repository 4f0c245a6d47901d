//! The clusters of a direct invocation. A kubeconfig names a cluster by its ARN, and the settings may have only its
//! name: then EKS is asked first, since the invocation is about that cluster alone.

use futures_util::future::try_join_all;

use super::Function;
use super::scope::{Selections, UnknownCluster};
use crate::clients;
use crate::eks;
use crate::error::chain;
use crate::event::{ClusterName, Scope};
use crate::model::ClusterArn;
use crate::settings::Cluster;

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
