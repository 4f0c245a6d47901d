//! The part of a purge in the cluster itself: the objects of its imports. Only a cluster that takes part in a clusterset,
//! or did, is asked for them.

use tokio::time::timeout_at;

use crate::error::chain;
use crate::import::aws::DerivedOfAws;
use crate::import::observe::Objects;
use crate::import::plan::OwnerLabel;
use crate::import::purge::Purging;
use crate::kubernetes::Kubernetes;
use crate::kubernetes::objects::Resource;
use crate::publish::exports::is_of_aws;
use crate::publish::observe;
use crate::reconcile::{Error, Invocation};
use crate::report::{Mode, MultiClusterReport, Obstacle};
use crate::settings::{Cluster, Membership, MultiCluster};

impl Invocation<'_> {
    /// Removes the objects of the cluster's imports, or plans it. `None` if the cluster has no part in a clusterset, or
    /// is gone. `has_exported` is whether Cloud Map has exports of it.
    pub(super) async fn purge_imports(
        &self,
        cluster: &Cluster,
        has_exported: bool,
    ) -> Option<MultiClusterReport> {
        let takes_part = self.settings.multi_cluster != MultiCluster::Off
            || cluster.membership != Membership::default();
        if !takes_part && !has_exported {
            return None;
        }
        let purged = timeout_at(self.deadline.stop(), self.purge_objects(cluster)).await;
        let purged = purged.unwrap_or_else(|_| Err(observe::Error::Deadline.into()));
        match purged {
            Ok(report) => report,
            Err(error) if error.is_cluster_not_found() => None,
            Err(error) => {
                let (reason, detail) = ("Unreadable".into(), chain(&error));
                let obstacles = vec![Obstacle { reason, detail, failed: true }];
                Some(MultiClusterReport { obstacles, ..MultiClusterReport::default() })
            }
        }
    }

    async fn purge_objects(&self, cluster: &Cluster) -> Result<Option<MultiClusterReport>, Error> {
        let connection = self.clients.connect(cluster).await?;
        let kubernetes = &connection.kubernetes;
        // With the definitions went the imports, and with them all that hung on them.
        if !kubernetes.serves_multi_cluster().await.map_err(observe::Error::from)? {
            return Ok(None);
        }
        let owner = OwnerLabel::new(&self.settings.owner_id);
        let read = tokio::try_join!(
            Objects::read(kubernetes, &owner),
            DerivedOfAws::read(kubernetes, &owner),
            self.is_aws_back(cluster, kubernetes),
        );
        let (objects, of_aws, is_aws_back) = read.map_err(observe::Error::from)?;
        let purging = Purging {
            kubernetes,
            owner: &owner,
            objects: &objects,
            of_aws: &of_aws,
            is_aws_back,
            writes: self.mode == Mode::Sync,
            deadline: self.deadline,
        };
        let mut report = MultiClusterReport::default();
        report.add_imports(purging.run().await);
        Ok((!report.is_quiet()).then_some(report))
    }

    /// Whether a ServiceExport carries the finalizer of AWS's controller. A cluster that only imports has no right to
    /// read them.
    async fn is_aws_back(
        &self,
        cluster: &Cluster,
        kubernetes: &Kubernetes,
    ) -> Result<bool, crate::kubernetes::Error> {
        if self.settings.multi_cluster_of(cluster) == MultiCluster::Import {
            return Ok(false);
        }
        let exports = kubernetes.objects(Resource::ServiceExports, "").await?;
        Ok(exports.iter().any(is_of_aws))
    }
}
