//! The part of a purge in the cluster itself: the objects of its imports, as far as the rights of the function go. A
//! cluster may have left its clusterset, and its settings and records need not show any more that it was a member.

use std::collections::BTreeSet;

use tokio::time::timeout_at;

use crate::import::EachImport;
use crate::import::observe::{DerivedOfAws, Objects};
use crate::import::plan::{OwnerLabel, Present, Removal};
use crate::kubernetes::objects::Resource;
use crate::kubernetes::{Class, Kubernetes};
use crate::model::ServiceRef;
use crate::model::clusterset::RefusedField;
use crate::publish::exports::is_of_aws;
use crate::publish::observe;
use crate::reconcile::{Error, Invocation, unread};
use crate::report::{Mode, MultiClusterReport, Obstacle};
use crate::settings::{Cluster, Membership, MultiCluster};

impl Invocation<'_> {
    /// Removes the objects of the cluster's imports, or plans it. `None` if it has none, or is gone. `has_exported` is
    /// whether Cloud Map has exports of it.
    pub(super) async fn purge_imports(
        &self,
        cluster: &Cluster,
        has_exported: bool,
    ) -> Option<MultiClusterReport> {
        let takes_part = self.settings.multi_cluster_of(cluster) != MultiCluster::Off
            || cluster.membership != Membership::default()
            || has_exported;
        let purged = timeout_at(self.deadline.stop(), self.purge_objects(cluster, takes_part));
        let purged = purged.await.unwrap_or_else(|_| Err(observe::Error::Deadline.into()));
        match purged {
            Ok(report) => (!report.is_quiet()).then_some(report),
            Err(error) if error.is_cluster_not_found() => None,
            // The report has a warning about it already.
            Err(_) if !takes_part => None,
            Err(error) => Some(MultiClusterReport {
                obstacles: vec![unreadable(&error, true)],
                ..MultiClusterReport::default()
            }),
        }
    }

    async fn purge_objects(
        &self,
        cluster: &Cluster,
        takes_part: bool,
    ) -> Result<MultiClusterReport, Error> {
        let connection = self.clients.connect(cluster).await?;
        let kubernetes = &connection.kubernetes;
        let mut report = MultiClusterReport::default();
        let owner = OwnerLabel::new(&self.settings.owner_id);
        let of_us = owner.selector();
        // Without the definitions the imports are gone, or served in another version. What hung on them may still be there.
        let is_served = kubernetes.serves_multi_cluster().await.map_err(observe::Error::from)?;
        let imports = is_served.then_some(Resource::ServiceImports);
        let mut objects = Objects::default();
        for resource in imports.into_iter().chain([Resource::Services, Resource::EndpointSlices]) {
            match kubernetes.objects(resource, &of_us).await {
                Ok(list) => objects.add_list(resource, list),
                // A cluster that was never a member need not let the function read its imports.
                Err(error) => report.obstacles.push(unreadable(&error, takes_part)),
            }
        }
        let read =
            tokio::try_join!(DerivedOfAws::read(kubernetes, &owner), is_aws_back(kubernetes));
        let (of_aws, is_aws_back) = read.map_err(observe::Error::from)?;
        let (writes, now, deadline) = (self.mode == Mode::Sync, self.now, self.deadline);
        let (owner, objects) = (&owner, &objects);
        let each = EachImport { kubernetes, owner, objects, writes, now, deadline };
        let removal = |service: &ServiceRef, present: &Present, _: &BTreeSet<RefusedField>| {
            let (of_aws, annotation) = (of_aws.names(service), of_aws.annotation(service));
            let is_back = is_aws_back;
            Removal { owner, service, present, of_aws, annotation, is_back }.plan()
        };
        report.add_imports(each.run(removal).await);
        Ok(report)
    }
}

/// Whether a ServiceExport carries the finalizer of AWS's controller. A cluster that only imports has no right to read
/// them, and without the definitions there are none.
async fn is_aws_back(kubernetes: &Kubernetes) -> Result<bool, crate::kubernetes::Error> {
    match kubernetes.objects(Resource::ServiceExports, "").await {
        Ok(exports) => Ok(exports.iter().any(is_of_aws)),
        Err(error) if error.class == Class::Forbidden || error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}

fn unreadable(error: &dyn std::error::Error, failed: bool) -> Obstacle {
    Obstacle { failed, ..unread(error) }
}
