//! Observes a cluster: with all of Cloud Map, for a full sync, or with a part of it, for a message about a few Services.
//!
//! A full sync reads the cluster once, and compares it first with the mirror, with what this process knows of Cloud Map: what
//! is missing by that is added while the rest of Cloud Map is still read.
//!
//! A message reads its Services with their endpoints, and the Cloud Map services that they claim or were seen in before. If
//! each Service is the known holder of its claims, neither the cluster's other Services nor the lists of Cloud Map are
//! read. For any other Service the competing claims matter, so the cluster's Services are listed first. A process that has
//! never seen where the cluster has instances reads everything for such a Service if that is done soon. Else it leaves to
//! the next full sync what the Service may have under other names.
//!
//! The data that the open changes of a group rest on is a part, too, which is read again before they are made.

use std::collections::BTreeSet;

use futures_util::{StreamExt, TryStreamExt, stream};

use super::mirror::Namespaces;
use super::{Error, SERVICES_SIDE_BY_SIDE, World, take_endpoints};
use crate::clusterset::record;
use crate::model::{Desired, Flow, Instances, Registry, Selection, ServiceKey, ServiceRef};
use crate::publish::plan::{
    Extent, Holders, Observation, RereadScope, holds_names_exclusively, namespaces, unread,
};

impl World<'_> {
    /// All Services of the cluster, all of Cloud Map.
    pub(super) async fn observe_whole(
        &self,
        selection: &Selection,
        desired: Desired,
    ) -> Result<Observation, Error> {
        let desired = match self.owner.flow {
            Flow::Annotations => desired,
            // Its cluster is read without Cloud Map.
            Flow::Exports => self.note_claims(desired, self.registry.first_namespaces().await?),
        };
        let registry = self.registry.read().await?;
        let mut observation = self.observation(selection, desired, registry);
        self.find_namespaces(&mut observation, &BTreeSet::new()).await?;
        let named = namespaces::claimed(&observation);
        self.registry.read_shared(&mut observation.registry, &named).await?;
        self.find_namespaces(&mut observation, &named).await?;
        let others = &namespaces::claimed(&observation) - &named;
        self.registry.read_shared(&mut observation.registry, &others).await?;
        self.read_counted_as_empty(&mut observation).await?;
        Ok(observation.decided(selection))
    }

    /// The selected claims of a cluster in an empty Cloud Map.
    pub fn observe_alone(&self, selection: &Selection, read: Desired) -> Observation {
        let mut observation = self.observation(selection, read, Registry::default());
        namespaces::expect_missing(&mut observation);
        observation.decided(selection)
    }

    /// Updates the namespaces of an observation to those that exist now, with the services of new ones, if one that is
    /// claimed is missing or one of these may be gone: its name may have another id now.
    async fn find_namespaces(
        &self,
        observation: &mut Observation,
        ids: &BTreeSet<String>,
    ) -> Result<(), Error> {
        if namespaces::is_one_missing(observation) || self.registry.may_be_gone(ids) {
            let began = self.registry.began;
            self.registry.look_for_namespaces(&mut observation.registry, began).await?;
            self.leave_records_out(&mut observation.registry);
        }
        namespaces::expect_missing(observation);
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
        let owner = self.owner.clone();
        let rules = self.rules.clone();
        let read = Observation::new(owner, rules, self.now, registry);
        Observation { extent: Extent::of(selection, self.confirmed), desired, ..read }
    }

    /// Reads the instances of claimed services that the list of services reported as empty: its counts lag. What the budget
    /// leaves of these counts as empty, by an old read. The names of exports, which other clusters follow, and those that
    /// may be in several namespaces are read in each run.
    ///
    /// # Errors
    /// Returns an error if a service is gone and those of its namespace could not be listed to the end.
    async fn read_counted_as_empty(&self, observation: &mut Observation) -> Result<(), Error> {
        let holders = Holders::decide(observation);
        let candidates = namespaces::keys_to_choose_from(observation, |_| true);
        let services = &mut observation.registry.services;
        let mut unread = BTreeSet::new();
        for key in holders.keys().chain(&candidates) {
            let service = services.get_mut(key).filter(|service| service.unreadable.is_none());
            let Some(service) = service.filter(|_| !unread.contains(key)) else { continue };
            let is_first = self.owner.flow == Flow::Exports || candidates.contains(key);
            if is_first && !service.is_current()
                || service.instances.is_none() && (is_first || self.registry.may_read(key))
            {
                unread.insert(key.clone());
            } else if service.instances.is_none() && !service.is_never_read() {
                service.instances = Some(Instances::default());
                service.read_before = Some(self.now);
            }
        }
        let now = self.registry.take_moment();
        self.registry.at_least(&mut observation.registry, &unread, now).await?;
        Ok(())
    }

    /// Reads all claims of the cluster, without endpoints. The names that they mean are read before others from now on.
    ///
    /// # Errors
    /// Returns an error if the cluster could not be read, or the namespaces.
    pub async fn read_claims(&self) -> Result<Desired, Error> {
        let all = &Selection::Everything;
        let (claims, namespaces) =
            tokio::join!(self.claims_of(all), self.registry.first_namespaces());
        Ok(self.note_claims(claims?, namespaces?))
    }

    /// The names of these claims are read before others from now on.
    fn note_claims(&self, claims: Desired, namespaces: Namespaces) -> Desired {
        let all = &Selection::Everything;
        let registry = Registry { namespaces, ..Registry::default() };
        let mut read = self.observation(all, claims, registry);
        namespaces::expect_missing(&mut read);
        let read = read.decided(all);
        self.registry.note_claims(read.holders.keys());
        read.desired
    }

    /// Reads the cluster: the selected claims, with their endpoints.
    ///
    /// # Errors
    /// Returns an error if the cluster could not be read, or the namespaces.
    pub async fn read_cluster(&self, selection: &Selection) -> Result<Desired, Error> {
        if *selection == Selection::Everything && self.owner.flow == Flow::Annotations {
            return self.with_endpoints(self.read_claims().await?).await;
        }
        let Some(services) = selection.names() else {
            return self.read_selected(selection).await;
        };
        let services = services.iter().filter(|service| service.can_exist()).cloned().collect();
        let claims = self.claims_of(selection);
        let (claims, endpoints) = tokio::join!(claims, self.endpoints_of(&services));
        let mut desired = claims?;
        take_endpoints(&mut desired, endpoints?);
        Ok(desired)
    }

    /// The selected claims, and then their endpoints: one read where there is no claim.
    ///
    /// # Errors
    /// Returns an error if the cluster could not be read.
    pub async fn read_selected(&self, selection: &Selection) -> Result<Desired, Error> {
        let mut claims = self.claims_of(selection).await?;
        claims.services.retain(|service, _| selection.contains(service));
        self.with_endpoints(claims).await
    }

    /// The cluster with what the process knows of Cloud Map, whenever it read that: of each name that it has not read, nothing.
    /// A process that has never read all of it knows the names of its clusters when they were read, which come first. `None`
    /// if all is read by then.
    ///
    /// # Errors
    /// Returns an error if the namespaces could not be read.
    pub async fn observe_known(&self, desired: Desired) -> Result<Option<Observation>, Error> {
        let all = &Selection::Everything;
        let has_read_all = self.registry.memory.places(&self.owner, all).is_some();
        if !has_read_all && !self.registry.own_names_read().await {
            return Ok(None);
        }
        let registry = self.registry.remembered().await?;
        let known = self.observation(all, desired, registry);
        let mut known = Observation { extent: Extent::Part, ..known };
        namespaces::expect_missing(&mut known);
        Ok(Some(known.decided(all)))
    }

    /// The names under which the process has seen something of the cluster.
    pub fn seen_names(&self) -> BTreeSet<ServiceKey> {
        let places = self.registry.memory.places(&self.owner, &Selection::Everything);
        places.unwrap_or_default()
    }

    /// Reads the observation that a plan for the selected Services needs, without tags and the endpoints of others. The
    /// instances of a Service under names that it does not hold are found where this process has seen them; if it has never
    /// read all of Cloud Map, the Service is left.
    pub(super) async fn observe_part(
        &self,
        selection: &Selection,
        namespaces: &BTreeSet<String>,
        services: &BTreeSet<ServiceRef>,
        read: Desired,
    ) -> Result<Observation, Error> {
        let has_read_all = self.registry.memory.places(&self.owner, selection).is_some();
        let known = self.registry.some_namespaces().await?;
        let registry = Registry { namespaces: known, ..Registry::default() };
        let observation = self.observation(selection, read, registry);
        let mut observed = self.reach(observation, selection).await?;
        let mut asked: BTreeSet<ServiceRef> = observed.affected.union(services).cloned().collect();
        // The names of the others matter to no other Service of the cluster. Each export has a name of its own.
        asked.retain(|service| {
            self.owner.flow == Flow::Annotations
                && (!self.may_export || !self.is_unknown(&observed, service))
        });
        if !holds_names_exclusively(&observed, &asked) {
            let mut desired = self.claims_of(&Selection::Everything).await?;
            desired.take_endpoints_of(&observed.desired);
            let observation = Observation { desired, ..observed };
            observed = self.reach(observation, selection).await?;
        }
        if !has_read_all {
            asked.retain(|service| {
                services.contains(service)
                    && !holds_names_exclusively(&observed, &BTreeSet::from([service.clone()]))
            });
            let of_namespaces = namespaces.iter().map(|namespace| ServiceRef::new(namespace, "*"));
            observed.left = asked.into_iter().chain(of_namespaces).collect();
        }
        Ok(observed)
    }

    /// Whether a Service claims nothing, and is known to have had no instance.
    fn is_unknown(&self, observation: &Observation, service: &ServiceRef) -> bool {
        let selection = Selection::service(service.clone());
        let places = self.registry.memory.places(&self.owner, &selection);
        observation.desired.claims(service).is_none()
            && places.is_some_and(|places| places.is_empty())
    }

    /// Whether no Service of a sync of single Services exports anything, and none is known to have done so.
    pub fn is_about_no_export(&self, observed: &Observation, selection: &Selection) -> bool {
        let is_unknown = |service: &ServiceRef| {
            !observed.desired.exports.contains_key(service) && self.is_unknown(observed, service)
        };
        selection.names().is_some_and(|names| names.iter().all(is_unknown))
            && observed.affected.is_empty()
    }

    /// Reads the services that the affected Services claim or were seen in, which may show that others are affected
    /// too.
    async fn reach(
        &self,
        mut observation: Observation,
        selection: &Selection,
    ) -> Result<Observation, Error> {
        self.find_namespaces(&mut observation, &BTreeSet::new()).await?;
        let mut read = BTreeSet::new();
        let places = self.registry.memory.places(&self.owner, selection);
        // A new process does not know in which services an ended export had instances.
        let named = |flow| (flow == Flow::Exports).then_some(selection.names()).flatten();
        let named = named(self.owner.flow).filter(|_| places.is_none());
        let mut keys: BTreeSet<ServiceKey> = places.unwrap_or_default();
        keys.extend(named.into_iter().flat_map(|names| observation.registry.keys_named(names)));
        let observed = loop {
            let observed = observation.decided(selection);
            keys.extend(observed.holders.claimed_by(&observed.affected).cloned());
            keys.retain(|key| read.insert(key.clone()));
            if keys.is_empty() {
                // Only if no instance of the Service was found where it is known to have had some.
                keys = namespaces::keys_to_choose_from(&observed, |service| {
                    observed.affected.contains(service)
                        && !observed.desired.namespaces.contains_key(service)
                });
                keys.retain(|key| read.insert(key.clone()));
            }
            if keys.is_empty() {
                break observed;
            }
            observation = observed;
            let now = self.registry.take_moment();
            self.registry.at_least(&mut observation.registry, &keys, now).await?;
            let ids = keys.iter().map(|key| key.namespace.clone()).collect();
            self.find_namespaces(&mut observation, &ids).await?;
            keys.clear();
        };
        Ok(observed)
    }

    /// Remembers the names that Services of the cluster claim and the places of the instances with their marks.
    pub(super) fn remember(&self, observed: &Observation, is_whole: bool) {
        let claims = observed.desired.services.keys().flat_map(|service| {
            let keys = observed.holders.claims(service).into_iter().flatten();
            keys.map(move |key| (service.clone(), key.clone()))
        });
        let marks = observed.all_marked_services();
        let marks = marks.map(|(key, service)| (service, key.clone()));
        let memory = &self.registry.memory;
        let owner = &self.owner;
        let ours = unread::seen_as_ours(observed).map(|service| service.arn.clone());
        memory.known().ours.extend(ours);
        let unread = is_whole.then(|| unread::keys(observed));
        memory.keep_places(owner, claims.chain(marks), unread.as_ref());
    }

    /// Reads again the data that a removal rests on: the named Cloud Map services, then the Services themselves with
    /// their endpoints. The result replaces the earlier observation of them.
    ///
    /// # Errors
    /// Returns an error if the cluster could not be read.
    pub async fn observe_again(
        &self,
        mut observation: Observation,
        scope: &RereadScope,
    ) -> Result<Observation, Error> {
        let services = &scope.services;
        self.registry.read_again(&mut observation.registry, scope).await?;
        let reads = services.iter().map(|service| async move {
            let read = self.claims_of(&Selection::service(service.clone())).await?;
            Ok::<_, Error>(read.services.into_values().next())
        });
        let reads = stream::iter(reads).buffered(SERVICES_SIDE_BY_SIDE);
        for (service, read) in services.iter().zip(reads.try_collect::<Vec<_>>().await?) {
            match read {
                Some(read) => _ = observation.desired.services.insert(service.clone(), read),
                None => _ = observation.desired.services.remove(service),
            }
        }
        let mut read = scope.decide(observation);
        self.read_needed_tags(&mut read).await;
        self.read_endpoints(&mut read.desired, services).await?;
        Ok(read)
    }

    /// Of these Services those that claim nothing, as the cluster has them now.
    ///
    /// # Errors
    /// Returns an error if the cluster could not be read.
    pub async fn without_claims(
        &self,
        mut services: BTreeSet<ServiceRef>,
    ) -> Result<BTreeSet<ServiceRef>, Error> {
        if !services.is_empty() {
            let now = self.claims_of(&Selection::services(services.clone())).await?;
            services.retain(|service| !now.services.contains_key(service));
        }
        Ok(services)
    }

    /// Reads the endpoints of the Services of these claims.
    ///
    /// # Errors
    /// Returns an error if the cluster could not be read.
    pub async fn with_endpoints(&self, mut claims: Desired) -> Result<Desired, Error> {
        let services = claims.services.keys().cloned().collect();
        self.read_endpoints(&mut claims, &services).await?;
        Ok(claims)
    }
}
