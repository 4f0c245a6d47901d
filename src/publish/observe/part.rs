//! Observes part of a cluster, for a message about a few Services: those Services and their endpoints, and the Cloud
//! Map services that they claim or were seen in before. If each Service is the known holder of its claims, neither the
//! cluster's other Services nor the lists of Cloud Map are read. For any other Service the competing claims matter, so
//! the cluster's Services are listed first. If this process has never seen the places of all of the cluster's
//! instances, everything is read.
//!
//! The data that the open changes of a turn rest on is a part, too, which is read again before they are made.

use std::collections::BTreeSet;

use futures_util::{StreamExt, TryStreamExt, stream};

use super::{Error, SERVICES_SIDE_BY_SIDE, World, take_endpoints};
use crate::model::{Desired, Flow, Registry, Selection, ServiceKey, ServiceRef};
use crate::publish::plan::{Observation, RereadScope};

impl World<'_> {
    /// Reads the observation that a plan for the selected Services needs, without tags, health and the endpoints of others.
    /// Returns `None` if everything has to be read.
    pub(super) async fn observe_part(
        &self,
        selection: &Selection,
        namespaces: &BTreeSet<String>,
        services: &BTreeSet<ServiceRef>,
    ) -> Result<Option<Observation>, Error> {
        let places = self.registry.memory.places(&self.owner, selection);
        if !namespaces.is_empty() && places.is_none() {
            // Only the marks of instances show which Services are gone from a namespace.
            return Ok(None);
        }
        let can_exist = services.iter().filter(|service| service.can_exist()).cloned().collect();
        let (found, endpoints, known) = tokio::join!(
            self.claims_of(selection),
            self.endpoints_of(&can_exist),
            self.registry.some_namespaces(),
        );
        let registry = Registry { namespaces: known?, ..Registry::default() };
        let desired = found?;
        let endpoints = endpoints?;
        let observation = self.observation(selection, desired, registry);
        let mut observed = self.reach(observation, selection).await?;
        let mut asked: BTreeSet<ServiceRef> = observed.affected.union(services).cloned().collect();
        // The names of the others matter to no other Service of the cluster. Each export has a name of its own.
        asked.retain(|service| {
            self.owner.flow == Flow::Annotations
                && (!self.may_export || !self.is_unknown(&observed, service))
        });
        if !observed.holds_names_exclusively(&asked) {
            if places.is_none() {
                return Ok(None);
            }
            let desired = self.claims_of(&Selection::Everything).await?;
            let observation = Observation { desired, ..observed };
            observed = self.reach(observation, selection).await?;
        }
        take_endpoints(&mut observed.desired, endpoints);
        Ok(Some(observed))
    }

    /// Whether a Service claims nothing, and is known to have had no instance.
    fn is_unknown(&self, observation: &Observation, service: &ServiceRef) -> bool {
        let selection = Selection::service(service.clone());
        let places = self.registry.memory.places(&self.owner, &selection);
        observation.desired.claims(service).is_none() && places.is_some_and(|it| it.is_empty())
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
        if observation.lacks_namespace() {
            self.look_for_namespaces(&mut observation).await?;
        }
        observation.expect_namespaces();
        let mut read = BTreeSet::new();
        let places = self.registry.memory.places(&self.owner, selection);
        // A new process does not know in which services an ended export had instances.
        let named = |flow| (flow == Flow::Exports).then_some(selection.names()).flatten();
        let named = named(self.owner.flow).filter(|_| places.is_none());
        let mut keys: BTreeSet<ServiceKey> = places.unwrap_or_default();
        keys.extend(named.into_iter().flat_map(|names| observation.registry.keys_named(names)));
        let mut observed = loop {
            let observed = observation.decided(selection);
            keys.extend(observed.holders.claimed_by(&observed.affected).cloned());
            keys.retain(|key| read.insert(key.clone()));
            if keys.is_empty() {
                // Only if no instance of the Service was found where it is known to have had some.
                keys = observed.keys_to_choose_from(|service| {
                    observed.affected.contains(service)
                        && !observed.desired.namespaces.contains_key(service)
                });
                keys.retain(|key| read.insert(key.clone()));
            }
            if keys.is_empty() {
                break observed;
            }
            observation = observed;
            self.registry.read_services(&mut observation.registry, &keys).await?;
            let ids = keys.iter().map(|key| key.namespace.clone()).collect();
            self.ascertain_namespaces(&mut observation, &ids).await?;
            keys.clear();
        };
        // A change of a service itself is not decided on its remembered entry.
        let differ = observed.tags_needed();
        if !differ.is_empty() {
            let (registry, began) = (&mut observed.registry, self.registry.began);
            self.registry.look_up(registry, &differ, began).await?;
            observed.decide_holders();
        }
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
        let (memory, owner) = (&self.registry.memory, &self.owner);
        let ours = observed.seen_as_ours().map(|service| service.arn.clone());
        memory.known().ours.extend(ours);
        let unread = is_whole.then(|| observed.unread_keys());
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
        let services = &scope.read;
        self.registry.read_again(&mut observation.registry, &scope.keys).await?;
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
        let mut read = observation.reread(scope);
        let health = read.health_needed(services);
        let cloud_map = &self.registry.cloud_map;
        cloud_map.read_health(&mut read.registry, &health).await;
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

    /// Reads the endpoints of `services` again.
    ///
    /// # Errors
    /// Returns an error if the cluster could not be read.
    pub async fn observe_endpoints(&self, mut services: Desired) -> Result<Desired, Error> {
        let all = services.services.keys().cloned().collect();
        self.read_endpoints(&mut services, &all).await?;
        Ok(services)
    }
}
