//! Observes the records of a member: the Cloud Map service in the namespace of its clusterset that has its id as name.
//! A sync of a few Services reads single records, and the records of members about themselves are remembered for a
//! short time.

use std::collections::BTreeSet;

use super::mirror::Namespaces;
use super::registry::Failure;
use super::{Error, SharedRegistry, World};
use crate::clusterset::id::{self, CLUSTER_RECORD};
use crate::clusterset::record::{self, ClusterRecord};
use crate::model::{
    CloudMapService, Member, Namespace, NamespaceReference, Owner, Registry, ServiceKey, ServiceRef,
};
use crate::publish::plan::Observation;

/// With more names than this, all records of a member are listed: a page has a hundred.
pub(super) const FEW: usize = 8;

impl World<'_> {
    /// The records of the member, with the key of their service: those of these names alone, if there are few and each
    /// has one. A missing namespace is expected, and created with the first record. `None` if several namespaces have
    /// its name, and not one of them the member's record. `known`: what this run has read before, unless the records are
    /// needed as they are by now.
    ///
    /// # Errors
    /// Returns an error if Cloud Map could not be read.
    pub async fn observe_records(
        &self,
        known: Option<&Namespaces>,
        member: &Member,
        names: Option<&BTreeSet<ServiceRef>>,
    ) -> Result<Option<(Observation, ServiceKey)>, Error> {
        let is_whole = known.is_some();
        let mut registry = Registry::default();
        let since = if let Some(known) = known {
            registry.namespaces.clone_from(known);
            registry.unlisted = self.registry.unlisted().clone();
            self.registry.began
        } else {
            registry.namespaces = self.registry.some_namespaces().await?;
            self.registry.take_moment()
        };
        let name = record::namespace(&member.clusterset);
        let reference = NamespaceReference::NameOrId(name.clone());
        if registry.candidates(&reference).is_empty() {
            self.registry.look_for_namespaces(&mut registry).await?;
        }
        let all: Vec<Namespace> = registry.candidates(&reference).into_iter().cloned().collect();
        if is_whole {
            // No claim names the namespace, which may be another account's.
            let ids = all.iter().map(|it| it.id.clone()).collect();
            self.registry.read_shared(&mut registry, &ids).await?;
        }
        let key = |it: &Namespace| ServiceKey::new(it, member.cluster.as_str());
        let namespace = if let [] | [_] = all.as_slice() {
            all.into_iter().next().unwrap_or_else(|| Namespace::missing(&name))
        } else {
            let keys = all.iter().map(key).collect();
            self.registry.services_at_least(&mut registry, &keys, since).await?;
            let record = |it: &Namespace| registry.instance(&key(it), CLUSTER_RECORD);
            let is_own = |it: &Namespace| record(it).is_some_and(|it| self.owner.owns(it));
            let mut own = all.into_iter().filter(is_own);
            match (own.next(), own.next()) {
                (Some(namespace), None) => namespace,
                _ => return Ok(None),
            }
        };
        let key = key(&namespace);
        registry.services.retain(|it, _| *it == key);
        registry.namespaces.insert(namespace.id.clone(), namespace);
        let keys = BTreeSet::from([key.clone()]);
        if is_whole || !self.registry.read_records_of(&mut registry, &key, names).await? {
            self.registry.services_at_least(&mut registry, &keys, since).await?;
        }
        // Another cluster that states the same id may have written its record since the run began.
        if is_whole && registry.instance(&key, CLUSTER_RECORD).is_none() {
            self.registry.read_instances(&mut registry, &keys).await;
        }
        let (owner, rules) = (self.owner.clone(), self.rules.clone());
        Ok(Some((Observation::new(owner, rules, self.now, registry), key)))
    }
}

impl SharedRegistry {
    /// A cluster writes its record, which Cloud Map may show only after this invocation: returns the first one of it that
    /// writes one under the id.
    pub fn claim(&self, member: &Member, owner: &Owner) -> Owner {
        self.claims().entry(member.clone()).or_insert_with(|| owner.clone()).clone()
    }

    /// The first cluster of this invocation that has begun to write its record under an id.
    pub fn claimant(&self, member: &Member) -> Option<Owner> {
        self.claims().get(member).cloned()
    }

    /// Reads the records of these names in the service of one member. Returns whether each has one: else all records
    /// matter, since a new one may find no room.
    async fn read_records_of(
        &self,
        registry: &mut Registry,
        key: &ServiceKey,
        names: Option<&BTreeSet<ServiceRef>>,
    ) -> Result<bool, Failure> {
        let Some(names) = names.filter(|names| names.len() <= FEW) else { return Ok(false) };
        self.recall(registry, &BTreeSet::from([key.clone()])).await?;
        let Some(service) = registry.services.get_mut(key) else { return Ok(false) };
        let ids: BTreeSet<String> = names.iter().map(id::export_record).collect();
        self.read_these(key, service, &ids).await;
        let read = service.instances.as_ref();
        Ok(read.is_some_and(|all| ids.iter().all(|id| all.contains_key(id))))
    }

    /// Reads records of a member, and the one about itself unless it is remembered. One that only imports has no others.
    pub(super) async fn read_these(
        &self,
        key: &ServiceKey,
        service: &mut CloudMapService,
        ids: &BTreeSet<String>,
    ) {
        let own = self.memory.cluster_record(key, self.began.at);
        let mut ids = ids.clone();
        match &own {
            None => _ = ids.insert(CLUSTER_RECORD.to_owned()),
            Some(own) if ClusterRecord::says_only_imports(own) => ids.clear(),
            Some(_) => {}
        }
        self.cloud_map.read_some(service, &ids).await;
        let Some(read) = &mut service.instances else { return };
        match own {
            Some(own) => _ = read.insert(CLUSTER_RECORD.to_owned(), own),
            None => self.remember_member(key, service),
        }
    }

    /// Remembers the records of members about themselves.
    pub(super) fn remember_members(&self, registry: &Registry) {
        for (key, service) in &registry.services {
            let namespace = registry.namespaces.get(&key.namespace);
            if namespace.is_some_and(|it| record::is_namespace(&it.name)) {
                self.remember_member(key, service);
            }
        }
    }

    /// The record of a member about itself is read again when it is needed.
    pub fn forget_cluster_record(&self, key: &ServiceKey) {
        self.memory.keep_cluster_record(key, None, self.began.at);
    }

    fn remember_member(&self, key: &ServiceKey, service: &CloudMapService) {
        if let Some(records) = &service.instances {
            let record = records.get(CLUSTER_RECORD);
            self.memory.keep_cluster_record(key, record, self.began.at);
        }
    }
}
