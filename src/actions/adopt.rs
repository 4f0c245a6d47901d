//! The part of `adopt` with a former `OWNER_ID` in the clusterset of a cluster: the instances and records of its
//! exports, the objects of its imports, and last the record of the cluster. While that is another owner's, no sync
//! exports or takes out anything, so an adoption that was cut short is finished by a second one.

use crate::clients::Connection;
use crate::clusterset::record;
use crate::import::observe::Objects;
use crate::import::plan::{OwnerLabel, adopt_former};
use crate::import::{EachImport, Imported};
use crate::model::{Flow, Owner, Policy, Registry};
use crate::publish::observe::{self, SharedRegistry};
use crate::publish::{Execution, Task};
use crate::reconcile::{Error, Invocation, unread};
use crate::report::{ClusterReport, Mode, MultiClusterReport, Obstacle};
use crate::settings::{Cluster, MultiCluster};

impl Invocation<'_> {
    /// Adds the adoption of everything that a former `OWNER_ID` has in the clusterset of the cluster, or its plan, to
    /// the report of the annotated Services.
    pub async fn adopt_former(
        &self,
        cluster: &Cluster,
        registry: &SharedRegistry,
        report: ClusterReport,
    ) -> ClusterReport {
        let former = self.adoption.as_ref().and_then(|adoption| adoption.owner.as_ref());
        let takes_part = self.settings.multi_cluster_of(cluster) != MultiCluster::Off;
        let Some(former) = former.filter(|_| takes_part) else { return report };
        let policy = self.settings.rules.policy;
        if policy == Policy::CreateOnly {
            let detail = format!("POLICY={policy} adopts nothing");
            return refused(report, Obstacle { reason: "Policy".into(), detail, failed: false });
        }
        let adopted = self.adopt_all(cluster, registry, former);
        match self.deadline.until_end(Box::pin(adopted)).await {
            Ok(Ok((adopted, part))) => {
                let mut report = report.with(adopted);
                report.counts.imported = part.made();
                report.multi_cluster = Some(part);
                report
            }
            Ok(Err(error)) => refused(report, unread(&error)),
            Err(_) => refused(report, unread(&observe::Error::Deadline)),
        }
    }

    async fn adopt_all(
        &self,
        cluster: &Cluster,
        registry: &SharedRegistry,
        former: &str,
    ) -> Result<(ClusterReport, MultiClusterReport), Error> {
        let connection = self.clients.connect(cluster).await?;
        let (arn, id) = (connection.cluster.arn.clone(), self.settings.owner_id.clone());
        let owner = Owner { id, cluster: arn, flow: Flow::Exports };
        let [exports, instances, clusters] = record::parts(&self.read_records(registry).await?);
        let mut report = ClusterReport::default();
        let mut part = MultiClusterReport::default();
        for records in [exports, instances] {
            report = report.with(self.adopt_marked(&owner, former, registry, &records).await);
        }
        if report.is_complete() && self.settings.multi_cluster_of(cluster).imports() {
            part.add_imports(self.adopt_objects(&connection, former).await?);
        }
        if report.is_complete() && part.is_complete() {
            for key in clusters.services.keys() {
                registry.forget_cluster_record(key);
            }
            report = report.with(self.adopt_marked(&owner, former, registry, &clusters).await);
        }
        Ok((report, part))
    }

    /// Cloud Map, with those namespaces of other accounts that records are in or name.
    async fn read_records(&self, registry: &SharedRegistry) -> Result<Registry, Error> {
        let read = async {
            let mut read = registry.read().await?;
            let names = read.namespaces.values().filter_map(|it| record::clusterset_of(&it.name));
            for clusterset in names.collect::<Vec<_>>() {
                registry.read_shared_clusterset(&mut read, &clusterset).await?;
            }
            Ok(read)
        };
        self.read_in_time(read).await
    }

    async fn adopt_marked(
        &self,
        owner: &Owner,
        former: &str,
        registry: &SharedRegistry,
        records: &Registry,
    ) -> ClusterReport {
        let observed = self.observation_for(owner.clone(), records);
        let former = owner.formerly(former);
        let task = Task::AdoptFormer(&former);
        Execution::of_registry(task, registry, self.options()).carry_out(&observed).await.report
    }

    async fn adopt_objects(
        &self,
        connection: &Connection,
        former: &str,
    ) -> Result<Imported, Error> {
        let kubernetes = &connection.kubernetes;
        let failed = observe::Error::from;
        // Without the definitions there is no import.
        if !kubernetes.serves_multi_cluster().await.map_err(failed)? {
            return Ok(Imported::default());
        }
        let labels = (&OwnerLabel::new(former), &OwnerLabel::new(&self.settings.owner_id));
        let objects = Objects::read(kubernetes, labels.0).await.map_err(failed)?;
        let (writes, now, deadline) = (self.mode == Mode::Sync, self.now, self.deadline);
        let (owner, objects) = (labels.0, &objects);
        let each = EachImport { kubernetes, owner, objects, writes, now, deadline };
        Ok(each.run(|name, present, refused| adopt_former(labels, name, present, refused)).await)
    }
}

fn refused(report: ClusterReport, obstacle: Obstacle) -> ClusterReport {
    let part = MultiClusterReport { obstacles: vec![obstacle], ..MultiClusterReport::default() };
    ClusterReport { multi_cluster: Some(part), ..report }
}
