//! The part of a run that needs the claims of all clusters: orphans and empty services. A full sync of all clusters ends
//! with it. With `FAN_OUT` each run sees one cluster, and the action `cleanup` reads all of them for this part alone.

use std::collections::BTreeSet;
use std::error::Error;

use futures_util::{StreamExt, stream};

use super::run::{CONCURRENT_CLUSTERS, Registries, Runs, conclude};
use super::{Function, log};
use crate::cleanup::dead_clusters::ConfiguredCluster;
use crate::clients::RegistryKey;
use crate::error::chain;
use crate::publish::plan::Claimed;
use crate::reconcile::Invocation;
use crate::report::{EmptyServices, OrphanReport, Report};

impl Function {
    /// Reads all clusters and Cloud Maps, and makes only the changes that rest on all of them. A cluster that could not be
    /// read is an error in the report.
    pub(super) async fn clean_up(&self, invocation: &Invocation<'_>) -> Report {
        let clusters = &self.settings.clusters;
        let registries = &self.registries_of(clusters, None).await;
        let runs = clusters.iter().enumerate().map(|(index, cluster)| async move {
            let registry = &registries[&self.clients.registry_of(cluster)];
            let read = Box::pin(invocation.clean_up_cluster(cluster, registry)).await;
            let (mut report, claimed) = conclude(cluster, read);
            report.quiet = !self.settings.pages(cluster);
            self.log_lines("TTLs", &report, (invocation.mode, true));
            (index, (report, claimed))
        });
        let runs: Runs = stream::iter(runs).buffer_unordered(CONCURRENT_CLUSTERS).collect().await;
        let report = self.report_runs(invocation, registries, runs, true).await;
        let report = Report { cleanup: true, ..report };
        log::run(&report);
        report
    }

    /// The report of these runs. `whole`: they are those of all clusters, so dead clusters are purged and empty services
    /// deleted after them, as far as the settings allow it.
    pub(super) async fn report_runs(
        &self,
        invocation: &Invocation<'_>,
        registries: &Registries,
        runs: Runs,
        whole: bool,
    ) -> Report {
        let (mut orphans, mut empty_services) = (Vec::new(), EmptyServices::default());
        if whole && invocation.adoption.is_none() {
            orphans = Box::pin(self.orphans(invocation, registries, &runs)).await;
            if self.settings.rules.deletes_services() {
                empty_services = self.delete_empty_services(invocation, registries, &runs).await;
            }
        }
        let clusters = runs.into_values().map(|(report, _)| report).collect();
        let report = Report::new(invocation.mode, clusters).with_cleanup(orphans, empty_services);
        Report { whole, ..report }
    }

    /// Deletes empty services, one registry after the other.
    async fn delete_empty_services(
        &self,
        invocation: &Invocation<'_>,
        registries: &Registries,
        runs: &Runs,
    ) -> EmptyServices {
        let mut claimed = Claimed::default();
        let mut unknown = Vec::new();
        for (report, of_cluster) in runs.values() {
            match of_cluster {
                Some(of_cluster) => claimed = claimed.and(of_cluster.clone()),
                None => {
                    unknown
                        .push(format!("cluster {} could not be read completely", report.cluster));
                }
            }
        }
        let (mut seen, mut all) = (BTreeSet::new(), EmptyServices::default());
        for (key, registry) in registries {
            let empty = invocation.delete_empty_services(registry, &claimed, &unknown, &mut seen);
            let empty = empty.await;
            self.log_empty_services(&key.to_string(), &empty, invocation.mode);
            all.deletions.extend(empty.deletions);
            all.kept.extend(empty.kept);
        }
        all.in_order()
    }

    /// Searches every Cloud Map of the run. An unreadable one is only logged, since the report of its clusters has the
    /// error.
    async fn orphans(
        &self,
        invocation: &Invocation<'_>,
        registries: &Registries,
        runs: &Runs,
    ) -> Vec<OrphanReport> {
        let configured = self.configured();
        let kept: Vec<ConfiguredCluster<'_>> = configured
            .indexes()
            .map(|index| {
                let cluster = &self.settings.clusters[index];
                let was_read = runs.get(&index).is_some_and(|(report, _)| report.error.is_none());
                let registry = self.clients.registry_of(cluster);
                ConfiguredCluster { cluster, registry, arn: self.clients.arn_of(cluster), was_read }
            })
            .collect();
        let mut all = Vec::new();
        for (key, found) in invocation.orphans(registries, &kept, &self.existences).await {
            match found {
                Ok(found) => all.extend(found.into_iter().map(|mut orphans| {
                    let is_own = key == RegistryKey::default();
                    orphans.done.registry = (!is_own).then(|| key.to_string());
                    self.log_orphans(&key.to_string(), &orphans, invocation.mode);
                    orphans
                })),
                // One line for one cause: a registry that cannot be read is the error of its clusters as well.
                Err(error) if is_reported(runs, &error) => {}
                Err(error) => tracing::warn!("orphans not searched: {}", chain(&error)),
            }
        }
        all
    }
}

fn is_reported(runs: &Runs, error: &dyn Error) -> bool {
    let cause = chain(error);
    let mut errors = runs.values().filter_map(|(report, _)| report.error.as_ref());
    errors.any(|reported| reported.contains(&cause))
}
