//! Observes a cluster: with all of Cloud Map, for a full sync, or with a part of it, for a message about a few
//! Services.
//!
//! A full sync reads the cluster once, and compares it first with the mirror. Instances that the mirror lacks are added
//! while the rest of Cloud Map is still read.
//!
//! A message reads its Services with their endpoints, and the Cloud Map services that they claim or were seen in
//! before. If each Service is known to hold its claims, neither the cluster's other Services nor the lists of Cloud Map
//! are read. Otherwise competing claims matter, so the cluster's Services are listed first. If this process does not
//! yet know under which names the cluster has instances, it also reads all of Cloud Map, provided that this takes
//! little time. If it takes longer, the next full sync handles the instances that the Service may have under other
//! names.
//!
//! A group reads the data that its open changes rest on again before they are made.

use std::collections::BTreeSet;

use futures_util::{StreamExt, TryStreamExt, stream};

use super::mirror::Namespaces;
use super::{ClusterRun, Error, MAX_CONCURRENT_SERVICE_READS, set_endpoints};
use crate::clusterset::record;
use crate::model::{Desired, Flow, Instances, Registry, Selection, ServiceKey, ServiceRef};
use crate::publish::plan::{
    Extent, Holders, Observation, RereadScope, holds_names_exclusively, namespaces, unread,
};

impl ClusterRun<'_> {
    /// Reads all of Cloud Map, for an observation with all Services of the cluster.
    pub(super) async fn observe_whole(
        &self,
        selection: &Selection,
        desired: Desired,
    ) -> Result<Observation, Error> {
        let desired = match self.owner.flow {
            Flow::Annotations => desired,
            // The exports were read without Cloud Map, so their names are noted only now.
            Flow::Exports => self.record_claims(desired, self.registry.first_namespaces().await?),
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

    /// Updates the namespaces of an observation, and reads the services of new ones, if a claimed namespace is missing
    /// or one of `ids` may be gone: its name may have another id now.
    async fn find_namespaces(
        &self,
        observation: &mut Observation,
        ids: &BTreeSet<String>,
    ) -> Result<(), Error> {
        if namespaces::is_one_missing(observation) || self.registry.may_be_gone(ids) {
            let began = self.registry.began;
            self.registry.refresh_namespaces(&mut observation.registry, began).await?;
            self.leave_records_out(&mut observation.registry);
        }
        namespaces::expect_missing(observation);
        Ok(())
    }

    /// Drops the records of exports from the registry: they carry the marks of exports, but are no endpoints.
    fn leave_records_out(&self, registry: &mut Registry) {
        if self.owner.flow == Flow::Exports {
            record::leave_out_records(registry);
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

    /// Reads the instances of claimed services that are empty by the list of services, since the counts of the list
    /// lag. If the budget does not allow it, the service counts as empty, as by an old read. Services of exports, which
    /// other clusters import, and of names that may be in several namespaces are read in each run.
    ///
    /// # Errors
    /// Returns an error if a service is gone and the services of its namespace could not be listed to the end.
    async fn read_counted_as_empty(&self, observation: &mut Observation) -> Result<(), Error> {
        let holders = Holders::decide(observation);
        let candidates = namespaces::keys_to_choose_from(observation, |_| true);
        let services = &mut observation.registry.services;
        let mut unread = BTreeSet::new();
        for key in holders.keys().chain(&candidates) {
            let service = services.get_mut(key).filter(|service| service.unreadable.is_none());
            let Some(service) = service.filter(|_| !unread.contains(key)) else { continue };
            let is_always_read = self.owner.flow == Flow::Exports || candidates.contains(key);
            if is_always_read && !service.is_current()
                || service.instances.is_none() && (is_always_read || self.registry.may_read(key))
            {
                unread.insert(key.clone());
            } else if service.instances.is_none() && !service.is_never_read() {
                service.instances = Some(Instances::default());
                service.read_before = Some(self.now);
            }
        }
        let now = self.registry.take_moment();
        self.registry.ensure_read_since(&mut observation.registry, &unread, now).await?;
        Ok(())
    }

    /// Reads all claims of the cluster, without endpoints. Later reads begin with the Cloud Map services of the claimed
    /// names.
    ///
    /// # Errors
    /// Returns an error if the cluster or the namespaces could not be read.
    pub async fn read_claims(&self) -> Result<Desired, Error> {
        let all = &Selection::Everything;
        let (claims, namespaces) =
            tokio::join!(self.claims_of(all), self.registry.first_namespaces());
        Ok(self.record_claims(claims?, namespaces?))
    }

    /// Makes later reads begin with the Cloud Map services of the claimed names.
    fn record_claims(&self, claims: Desired, namespaces: Namespaces) -> Desired {
        let all = &Selection::Everything;
        let registry = Registry { namespaces, ..Registry::default() };
        let mut read = self.observation(all, claims, registry);
        namespaces::expect_missing(&mut read);
        let read = read.decided(all);
        self.registry.record_claims(read.holders.keys());
        read.desired
    }

    /// Reads the cluster: the selected claims, with their endpoints.
    ///
    /// # Errors
    /// Returns an error if the cluster or the namespaces could not be read.
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
        set_endpoints(&mut desired, endpoints?);
        Ok(desired)
    }

    /// Reads the selected claims, and then their endpoints. If there is no claim, this is a single read.
    ///
    /// # Errors
    /// Returns an error if the cluster could not be read.
    pub async fn read_selected(&self, selection: &Selection) -> Result<Desired, Error> {
        let mut claims = self.claims_of(selection).await?;
        claims.services.retain(|service, _| selection.contains(service));
        self.with_endpoints(claims).await
    }

    /// Returns an observation of the cluster and the mirror, whatever the age of the mirror. A name that was never read
    /// has no instances in it. A process that has never read all of Cloud Map first waits until the names of its
    /// clusters are read, which are read before other names. Returns `None` if everything is read by then.
    ///
    /// # Errors
    /// Returns an error if the namespaces could not be read.
    pub async fn observe_known(&self, desired: Desired) -> Result<Option<Observation>, Error> {
        let all = &Selection::Everything;
        let has_read_all = self.registry.memory.names(&self.owner, all).is_some();
        if !has_read_all && !self.registry.own_names_read().await {
            return Ok(None);
        }
        let registry = self.registry.remembered().await?;
        let known = self.observation(all, desired, registry);
        let mut known = Observation { extent: Extent::Part, ..known };
        namespaces::expect_missing(&mut known);
        Ok(Some(known.decided(all)))
    }

    /// The names that Services of the cluster claimed or had instances under, as far as this process has seen.
    pub fn seen_names(&self) -> BTreeSet<ServiceKey> {
        let names = self.registry.memory.names(&self.owner, &Selection::Everything);
        names.unwrap_or_default()
    }

    /// Reads the observation that a plan for the selected Services needs, except tags and the endpoints of other
    /// Services. The instances of a Service under names that it does not hold are found only if this process has seen
    /// them. If the process has never read all of Cloud Map, a Service that may have such instances is in
    /// [`Observation::left_to_full_sync`].
    pub(super) async fn observe_part(
        &self,
        selection: &Selection,
        namespaces: &BTreeSet<String>,
        services: &BTreeSet<ServiceRef>,
        read: Desired,
    ) -> Result<Observation, Error> {
        let has_read_all = self.registry.memory.names(&self.owner, selection).is_some();
        let known = self.registry.some_namespaces().await?;
        let registry = Registry { namespaces: known, ..Registry::default() };
        let observation = self.observation(selection, read, registry);
        let mut observed = self.read_affected(observation, selection).await?;
        let mut may_compete: BTreeSet<ServiceRef> =
            observed.affected.union(services).cloned().collect();
        // A Service that claims nothing and had no instance affects no other Service of the cluster. Neither does an
        // export, since each has a name of its own.
        may_compete.retain(|service| {
            self.owner.flow == Flow::Annotations
                && (!self.may_export || !self.is_unpublished(&observed, service))
        });
        if !holds_names_exclusively(&observed, &may_compete) {
            let mut desired = self.claims_of(&Selection::Everything).await?;
            desired.take_endpoints_of(&observed.desired);
            let observation = Observation { desired, ..observed };
            observed = self.read_affected(observation, selection).await?;
        }
        if !has_read_all {
            may_compete.retain(|service| {
                services.contains(service)
                    && !holds_names_exclusively(&observed, &BTreeSet::from([service.clone()]))
            });
            let whole_namespaces =
                namespaces.iter().map(|namespace| ServiceRef::new(namespace, "*"));
            observed.left_to_full_sync = may_compete.into_iter().chain(whole_namespaces).collect();
        }
        Ok(observed)
    }

    /// Whether a Service claims nothing, and is known to have had no instance.
    fn is_unpublished(&self, observation: &Observation, service: &ServiceRef) -> bool {
        let selection = Selection::service(service.clone());
        let names = self.registry.memory.names(&self.owner, &selection);
        observation.desired.claims(service).is_none() && names.is_some_and(|names| names.is_empty())
    }

    /// Whether this is a sync of single Services of which none exports anything or is known to have done so.
    pub fn is_about_no_export(&self, observed: &Observation, selection: &Selection) -> bool {
        let is_no_export = |service: &ServiceRef| {
            !observed.desired.exports.contains_key(service)
                && self.is_unpublished(observed, service)
        };
        selection.names().is_some_and(|names| names.iter().all(is_no_export))
            && observed.affected.is_empty()
    }

    /// Reads the Cloud Map services that the affected Services claim or were seen in. If these show that more Services
    /// are affected, reads the Cloud Map services of those, too.
    async fn read_affected(
        &self,
        mut observation: Observation,
        selection: &Selection,
    ) -> Result<Observation, Error> {
        self.find_namespaces(&mut observation, &BTreeSet::new()).await?;
        let mut read = BTreeSet::new();
        let known_names = self.registry.memory.names(&self.owner, selection);
        // A new process does not know where an ended export had instances, so the services with its name are read.
        let named = |flow| (flow == Flow::Exports).then_some(selection.names()).flatten();
        let named = named(self.owner.flow).filter(|_| known_names.is_none());
        let mut keys: BTreeSet<ServiceKey> = known_names.unwrap_or_default();
        keys.extend(
            named.into_iter().flat_map(|names| observation.registry.keys_of_same_name(names)),
        );
        let observed = loop {
            let observed = observation.decided(selection);
            keys.extend(observed.holders.claimed_by(&observed.affected).cloned());
            keys.retain(|key| read.insert(key.clone()));
            if keys.is_empty() {
                // Names in other candidate namespaces are read only if no known name of the Service has an instance.
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
            self.registry.ensure_read_since(&mut observation.registry, &keys, now).await?;
            let ids = keys.iter().map(|key| key.namespace.clone()).collect();
            self.find_namespaces(&mut observation, &ids).await?;
            keys.clear();
        };
        Ok(observed)
    }

    /// Remembers the names that Services of the cluster claim or have instances under.
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
        memory.record_names(owner, claims.chain(marks), unread.as_ref());
    }

    /// Reads again the data that the open changes of a group rest on: the Cloud Map services of the scope, then its
    /// Services with their endpoints. The result replaces the earlier observation of them.
    ///
    /// # Errors
    /// Returns an error if the cluster or the registry could not be read.
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
        let reads = stream::iter(reads).buffered(MAX_CONCURRENT_SERVICE_READS);
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

    /// Returns those of the Services that claim nothing in the cluster now.
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
