//! The clusters of a direct invocation. A kubeconfig names a cluster by its ARN, and the settings may have only its
//! name: DescribeCluster returns the ARN of the name, which is compared.

use super::Function;
use super::scope::{Selections, UnknownCluster};
use crate::error::chain;
use crate::event::{ClusterName, Scope};
use crate::model::ClusterArn;
use crate::settings::Cluster;

impl Function {
    /// The clusters and Services of a scope.
    pub(super) async fn selections(&self, scope: &Scope) -> Result<Selections, UnknownCluster> {
        let configured = self.configured();
        let unknown = match Selections::resolve(scope, &configured) {
            Err(unknown @ UnknownCluster::NotConfigured { .. }) => unknown,
            resolved => return resolved,
        };
        let ClusterName::Named(name) = &scope.cluster else { return Err(unknown) };
        let Some(arn) = ClusterArn::parse(name) else { return Err(unknown) };
        let Some(cluster) = configured.clusters().find(|cluster| cluster.may_be(&arn)) else {
            return Err(unknown);
        };
        if self.arn_of(cluster).await? != arn {
            return Err(unknown);
        }
        let cluster = ClusterName::Named(cluster.label().to_owned());
        Selections::resolve(&Scope { cluster, ..scope.clone() }, &configured)
    }

    pub(super) async fn arn_of(&self, cluster: &Cluster) -> Result<ClusterArn, UnknownCluster> {
        if let Some(arn) = &cluster.arn {
            return Ok(arn.clone());
        }
        let connected = self.clients.connect(cluster).await;
        let unknown = |error| UnknownCluster::ArnUnknown { problem: chain(&error) };
        Ok(connected.map_err(unknown)?.cluster.arn)
    }

    /// The cluster that a purge names: a configured one, or any cluster by its ARN.
    pub(super) async fn cluster_to_purge(
        &self,
        name: &str,
    ) -> Result<(ClusterArn, Option<&Cluster>), UnknownCluster> {
        let configured = self.configured();
        let named: Vec<&Cluster> = configured.clusters().filter(|it| it.is_called(name)).collect();
        let labels = || configured.labels();
        match (named.as_slice(), ClusterArn::parse(name)) {
            ([cluster], _) => Ok((self.arn_of(cluster).await?, Some(*cluster))),
            ([], Some(arn)) => {
                let by_name = configured.clusters().find(|it| it.may_be(&arn));
                Ok((arn.clone(), by_name))
            }
            ([], None) => Err(UnknownCluster::NoArn { configured: labels() }),
            (_, _) => Err(UnknownCluster::Ambiguous { configured: labels() }),
        }
    }
}
