//! Which configured cluster a person means who names it by its ARN, as kubeconfigs do, where the settings
//! have its name: EKS tells whether it is that one.

use super::Function;
use super::scope::{Selections, UnknownCluster};
use crate::error::chain;
use crate::event::{ClusterName, Scope};
use crate::model::ClusterArn;
use crate::settings::Cluster;

impl Function {
    /// What a person's scope means.
    pub(super) async fn selections(&self, scope: &Scope) -> Result<Selections, UnknownCluster> {
        let configured = self.configured();
        let unknown = match Selections::of(scope, &configured) {
            Err(unknown @ UnknownCluster::NotConfigured { .. }) => unknown,
            settled => return settled,
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
        Selections::of(&Scope { cluster, ..scope.clone() }, &configured)
    }

    pub(super) async fn arn_of(&self, cluster: &Cluster) -> Result<ClusterArn, UnknownCluster> {
        if let Some(arn) = &cluster.arn {
            return Ok(arn.clone());
        }
        let connected = self.clients.connect(cluster).await;
        let told = |error| UnknownCluster::ArnNotTold { problem: chain(&error) };
        Ok(connected.map_err(told)?.cluster.arn)
    }

    /// The cluster that a purge names: one that is configured, or any by its ARN.
    pub(super) async fn cluster_to_purge(
        &self,
        name: &str,
    ) -> Result<(ClusterArn, Option<&Cluster>), UnknownCluster> {
        let configured = self.configured();
        let called: Vec<&Cluster> = configured.clusters().filter(|it| it.is_called(name)).collect();
        let labels = || configured.labels();
        match (called.as_slice(), ClusterArn::parse(name)) {
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
