//! Observes a whole cluster and all of Cloud Map, for a full sync, and the notes of earlier runs that no instance has.

use std::collections::BTreeSet;

use super::part::Part;
use super::{Error, ReadCluster, World};
use crate::cloud_map::CloudMap;
use crate::clusterset::record;
use crate::model::{Desired, Flow, Registry, Selection, ServiceKey, Tags};
use crate::publish::plan::{self, Extent, Holders, Observation, Observed};

/// The number of services of which the tags are read to find one that is ours.
const MOST_ASKED: usize = 20;

impl World<'_> {
    /// All Services of the cluster, all of Cloud Map.
    pub(super) async fn observe_whole(
        &self,
        selection: &Selection,
        cluster: Option<ReadCluster>,
    ) -> Result<Part, Error> {
        let (desired, registry) = match cluster {
            None => tokio::join!(self.source.whole(self.kubernetes), self.registry.read()),
            Some(cluster) => {
                let registry = self.registry.read().await;
                let desired = match cluster.recent() {
                    Some(desired) => Ok(desired),
                    None => self.source.whole(self.kubernetes).await,
                };
                (desired, registry)
            }
        };
        let mut observation = self.observation(selection, desired?, registry?);
        if plan::lacks_namespace(&observation) {
            self.look_for_namespaces(&mut observation).await?;
        }
        observation.expect_namespaces();
        let mut named = plan::claimed_namespaces(&observation);
        self.registry.read_shared(&mut observation.registry, &named).await?;
        if self.ascertain_namespaces(&mut observation, &named).await? {
            named = plan::claimed_namespaces(&observation);
            self.registry.read_shared(&mut observation.registry, &named).await?;
        }
        self.complete(&mut observation).await;
        Ok(Part::new(Observed::new(observation, selection)))
    }

    /// The selected claims of the cluster with their endpoints, and an empty Cloud Map.
    ///
    /// # Errors
    /// Returns an error if the cluster could not be read.
    pub async fn observe_cluster(&self, selection: &Selection) -> Result<Observed, Error> {
        let desired = match selection.names() {
            Some(names) => self.source.selected(self.kubernetes, &BTreeSet::new(), names).await?,
            None => self.source.whole(self.kubernetes).await?,
        };
        let mut observation = self.observation(selection, desired, Registry::default());
        observation.expect_namespaces();
        let services = observation.desired.services.keys().cloned().collect();
        self.read_endpoints(&mut observation.desired, &services).await?;
        Ok(Observed::new(observation, selection))
    }

    /// Looks for the namespaces of an observation again if one of these may be gone: its name may have another id now.
    /// Returns whether it did.
    pub(super) async fn ascertain_namespaces(
        &self,
        observation: &mut Observation,
        ids: &BTreeSet<String>,
    ) -> Result<bool, Error> {
        let may_be_gone = self.registry.may_be_gone(ids);
        if may_be_gone {
            self.look_for_namespaces(observation).await?;
            observation.expect_namespaces();
        }
        Ok(may_be_gone)
    }

    /// Updates the namespaces of an observation to those that exist now, with the services of new ones.
    pub(super) async fn look_for_namespaces(
        &self,
        observation: &mut Observation,
    ) -> Result<(), Error> {
        self.registry.look_for_namespaces(&mut observation.registry).await?;
        self.leave_records_out(&mut observation.registry);
        Ok(())
    }

    /// The records of exports carry their marks, and are no endpoints.
    fn leave_records_out(&self, registry: &mut Registry) {
        if self.owner.flow == Flow::Exports {
            record::leave_out(registry);
        }
    }

    pub(super) fn observation(
        &self,
        selection: &Selection,
        desired: Desired,
        mut registry: Registry,
    ) -> Observation {
        self.leave_records_out(&mut registry);
        let (owner, rules) = (self.owner.clone(), self.rules.clone());
        let (now, extent) = (self.now, self.extent(selection));
        Observation { owner, rules, now, extent, judged: None, desired, registry }
    }

    fn extent(&self, selection: &Selection) -> Extent {
        match selection {
            Selection::Everything if self.confirmed => Extent::Confirmed,
            Selection::Everything => Extent::Everything,
            Selection::Only { .. } => Extent::Part,
        }
    }

    /// Reads the instances of claimed services that the list of services reported as empty: its counts lag.
    async fn complete(&self, observation: &mut Observation) {
        let holders = Holders::decide(observation);
        let services = &observation.registry.services;
        let unread = |key: &&ServiceKey| {
            let service = services.get(key);
            service.is_some_and(|it| it.instances.is_none() && it.unreadable.is_none())
        };
        let candidates = observation.keys_to_choose_from(|_| true);
        let unread: BTreeSet<ServiceKey> =
            holders.keys().chain(&candidates).filter(unread).cloned().collect();
        self.registry.read_instances(&mut observation.registry, &unread).await;
    }
}

/// Reads the attributes of the first Cloud Map service with instances of ours that carries our tag, if notes may be
/// there.
pub async fn read_notes(cloud_map: &CloudMap, observation: &mut Observation) {
    for key in plan::services_for_notes(observation).into_iter().take(MOST_ASKED) {
        let registry = &mut observation.registry;
        if registry.services.get(&key).is_some_and(|it| !matches!(it.tags, Tags::Read { .. })) {
            cloud_map.read_tags(registry, &BTreeSet::from([key.clone()])).await;
        }
        if registry.services.get(&key).is_some_and(|it| it.is_tagged(&observation.owner.id)) {
            return cloud_map.read_service_attributes(registry, &key).await;
        }
    }
}
