//! The commands of direct invocations: resolves the clusters of the scope, runs the action over them, and returns the
//! report or the answer of the action.

use futures_util::{StreamExt, stream};

use super::{Error, Function, Reply, Selections, UnknownCluster, clusters, log, run};
use crate::actions::doctor::{Checkup, ClusterCheckup};
use crate::actions::explain::Explanation;
use crate::actions::status::Status;
use crate::event::{Action, Command, Scope};
use crate::model::{ClusterArn, Existence, Line, ServiceRef};
use crate::publish::observe::ReadLimit;
use crate::publish::plan::{Adoption, Policy};
use crate::reconcile::{CONCURRENT_CLUSTERS, Invocation};
use crate::report::Report;
use crate::settings::Cluster;
use crate::time::Deadline;

impl Function {
    pub(super) async fn direct(
        &self,
        command: &Command,
        qualifier: Option<&str>,
        deadline: Deadline,
    ) -> Reply {
        if let Some(error) = self.reserved(command.action, qualifier) {
            return Reply::failed(error);
        }
        let answer = async {
            match command.action {
                Action::Purge => Box::pin(self.purge(command, deadline)).await,
                _ => Box::pin(self.run_selected(command, deadline)).await,
            }
        };
        // Each read should end before this limit. If one does not, the person still gets an answer.
        let in_time = deadline.until_end(answer).await;
        let in_time = in_time.unwrap_or(Err(Error::Late(command.action)));
        in_time.unwrap_or_else(Reply::failed)
    }

    /// Returns an error if the action is reserved to an alias and was not invoked through it.
    fn reserved(&self, action: Action, qualifier: Option<&str>) -> Option<Error> {
        let alias = self.settings.admin_alias.as_ref().filter(|_| action.is_administrative())?;
        let error = || Error::NotThroughAlias {
            action,
            alias: alias.clone(),
            through: qualifier.map(str::to_owned),
        };
        (qualifier != Some(alias)).then(error)
    }

    /// Runs an action over the Services that a scope selects.
    async fn run_selected(&self, command: &Command, deadline: Deadline) -> Result<Reply, Error> {
        let selections = Selections::resolve(&command.scope, &self.settings.clusters)?;
        for cluster in self.selected_clusters(&selections) {
            check_region(command, &cluster.arn)?;
        }
        let plan = self.invocation(false, deadline);
        let query = async || {
            let limit = self.read_limit(&plan);
            let registries = self.registries_of(self.selected_clusters(&selections), limit).await;
            run::Run { function: self, invocation: &plan, registries }
        };
        let invocation = match command.action {
            Action::Status => {
                return Ok(query().await.status(&selections, command.only_unused).await);
            }
            Action::Doctor => return Ok(query().await.doctor(&selections).await),
            Action::Explain => return query().await.explain(&selections, command).await,
            Action::Plan | Action::Purge => self.invocation(false, deadline),
            Action::Sync => self.invocation(true, deadline),
            Action::Confirm => Invocation { confirmed: true, ..self.invocation(true, deadline) },
            Action::Adopt => Invocation {
                adoption: Some(Adoption { owner: command.owner.clone() }),
                ..self.invocation(command.is_confirmed, deadline)
            },
        };
        let invocation = Invocation { is_direct: true, is_fresh: command.fresh, ..invocation };
        let (report, _) = self.run(&invocation, &selections).await;
        let scope = Some(command.scope.to_string());
        let is_open = command.action == Action::Plan && self.settings.rules.allow_every_name();
        let remark = is_open.then(|| "NAME_POLICY allows every Service every name".into());
        Ok(Reply::to_direct(Report { scope, remark, ..report }))
    }

    async fn purge(&self, command: &Command, deadline: Deadline) -> Result<Reply, Error> {
        let policy = self.settings.rules.policy;
        if policy != Policy::Sync {
            return Err(Error::Policy(policy));
        }
        let arn = self.cluster_to_purge(&command.scope.cluster)?;
        check_region(command, &arn)?;
        let invocation = self.invocation(command.is_confirmed, deadline);
        let keys = invocation.registries_to_purge(command.registry.as_ref()).await?;
        let configured = self.settings.cluster(&arn);
        let kept = configured.filter(|cluster| keys.contains(&self.clients.registry_of(cluster)));
        let limit = ReadLimit::of_person(deadline);
        let registries = self.registries(keys, limit).await;
        let mut report = invocation.purge_all(&arn, command, kept, &registries).await;
        if let Some(first) = report.clusters.first_mut().filter(|_| !command.is_confirmed) {
            let existence = self.existence(&arn, deadline).await;
            first.lines.push(Line::warning(existence.to_string()));
        }
        for cluster in &report.clusters {
            log::all_lines(cluster, invocation.mode);
            log::summary(cluster, invocation.mode);
        }
        log::run(&report);
        Ok(Reply::to_direct(report))
    }

    /// Returns whether EKS has a cluster. Asks with the credentials of the configured cluster. About any other cluster
    /// it asks with the first role of its account in the settings, or else with the function's own credentials.
    async fn existence(&self, arn: &ClusterArn, deadline: Deadline) -> Existence {
        let role = if let Some(cluster) = self.settings.cluster(arn) {
            cluster.role.as_ref()
        } else {
            let clusters = self.settings.clusters.iter();
            let mut roles = clusters.filter_map(|cluster| cluster.role.as_ref());
            roles.find(|role| role.account() == Some(arn.account()))
        };
        let asked = deadline.until_stop(self.clients.existence(arn, role)).await;
        asked.unwrap_or_else(|elapsed| Existence::Unknown(elapsed.to_string()))
    }

    pub(super) fn selected_clusters(
        &self,
        selections: &Selections,
    ) -> impl Iterator<Item = &Cluster> {
        selections.iter().map(|(index, _)| &self.settings.clusters[index])
    }
}

impl run::Run<'_> {
    async fn status(&self, selections: &Selections, only_unused: bool) -> Reply {
        let selected = self.function.selected_clusters(selections);
        let clusters = selected.map(|cluster| cluster.arn.to_string()).collect();
        let status = self.invocation.status(clusters, &self.registries, only_unused).await;
        Reply::to_query(status, Status::keep_only_counts)
    }

    async fn doctor(mut self, selections: &Selections) -> Reply {
        for registry in self.registries.values_mut() {
            registry.cloud_map = registry.cloud_map.recording();
        }
        // Concurrently, so that a cluster that does not answer takes no time from the others.
        let checkups = self.function.selected_clusters(selections).map(|cluster| async {
            let checks = self.invocation.check_cluster(cluster, self.registry(cluster)).await;
            ClusterCheckup { cluster: cluster.arn.to_string(), checks }
        });
        let checkups: Vec<_> = checkups.collect();
        let checkups = stream::iter(checkups).buffered(CONCURRENT_CLUSTERS);
        Reply::to_query(Checkup::new(checkups.collect().await), Checkup::keep_only_counts)
    }

    async fn explain(&self, selections: &Selections, command: &Command) -> Result<Reply, Error> {
        let Scope { namespace, service, .. } = command.scope.clone();
        let service = ServiceRef::new(namespace.unwrap_or_default(), service.unwrap_or_default());
        let Some(cluster) = self.function.selected_clusters(selections).next() else {
            let configured = clusters::join_arns(&self.function.settings.clusters);
            return Err(UnknownCluster::NotNamed { configured }.into());
        };
        let answer = self.invocation.explain(cluster, self.registry(cluster), &service).await?;
        Ok(Reply::to_query(answer, Explanation::keep_only_counts))
    }
}

/// Checks the Region of the command: clusters in different Regions may have the same name, and a kubeconfig may mean
/// another cluster than the settings.
fn check_region(command: &Command, cluster: &ClusterArn) -> Result<(), Error> {
    match &command.region {
        Some(region) if region != cluster.region() => Err(UnknownCluster::OtherRegion {
            name: command.scope.cluster.to_string(),
            region: region.clone(),
            configured: cluster.clone(),
        }
        .into()),
        _ => Ok(()),
    }
}
