//! Observes the records of a member: the Cloud Map service in the namespace of its clusterset that has its id as name.

use std::collections::BTreeSet;

use super::registry::Failure;
use super::{Error, SharedRegistry, World};
use crate::clusterset::record;
use crate::model::clusterset::{ClustersetId, Member};
use crate::model::{
    Desired, Held, Namespace, NamespaceReference, Registry, ServiceKey, ServiceRef,
    UnresolvedNamespace,
};
use crate::publish::plan::{Extent, Observation};

impl World<'_> {
    /// The records of the member, with the key of their service. A missing namespace is expected, and created with the
    /// first record. `None` if several namespaces have its name.
    ///
    /// # Errors
    /// Returns an error if Cloud Map could not be read.
    pub async fn observe_records(
        &self,
        member: &Member,
    ) -> Result<Option<(Observation, ServiceKey)>, Error> {
        let (mut registry, is_whole) = if let Some(known) = self.registry.known().await {
            (known, true)
        } else {
            let namespaces = self.registry.some_namespaces().await?;
            (Registry { namespaces, ..Registry::default() }, false)
        };
        let name = record::namespace(&member.clusterset);
        let reference = NamespaceReference::NameOrId(name.clone());
        if matches!(registry.resolve(&reference), Err(UnresolvedNamespace::Missing { .. })) {
            self.registry.look_for_namespaces(&mut registry).await?;
        }
        let namespace = match registry.resolve(&reference) {
            Ok(namespace) => namespace.clone(),
            Err(UnresolvedNamespace::Ambiguous { .. }) => return Ok(None),
            Err(UnresolvedNamespace::Missing { .. }) => Namespace::missing(&name),
        };
        let key = ServiceKey::new(&namespace, member.cluster.as_str());
        registry.services.retain(|it, _| *it == key);
        registry.namespaces.insert(namespace.id.clone(), namespace);
        if !is_whole {
            self.registry.read_services(&mut registry, &BTreeSet::from([key.clone()])).await?;
        } else if registry.services.get(&key).is_some_and(|service| service.instances.is_none()) {
            let keys = BTreeSet::from([key.clone()]);
            self.registry.cloud_map().read_instances(&mut registry, &keys).await;
        }
        let (owner, rules, now) = (self.owner.clone(), self.rules.clone(), self.now);
        let (extent, judged, held, desired) =
            (Extent::Part, None, Held::default(), Desired::default());
        Ok(Some((Observation { owner, rules, now, extent, judged, held, desired, registry }, key)))
    }
}

impl SharedRegistry {
    /// The part of Cloud Map that an import rests on: the records of all members, and the services of these names, if
    /// there are any. All of it if it was read as a whole in this invocation.
    ///
    /// # Errors
    /// Returns an error if namespaces or services could not be listed to the end.
    pub async fn read_clusterset(
        &self,
        clusterset: &ClustersetId,
        names: Option<&BTreeSet<ServiceRef>>,
    ) -> Result<Registry, Failure> {
        let of_records = record::namespace(clusterset);
        if let Some(known) = self.known().await {
            let has_records = known.namespaces.values().any(|it| it.name == of_records);
            return if has_records { Ok(known) } else { self.read_anew(known).await };
        }
        let Some(names) = names else { return self.read().await };
        let namespaces = self.some_namespaces().await?;
        let records = namespaces.values().filter(|namespace| namespace.name == of_records);
        let services = self.read_namespaces(records).await?;
        let keys = names.iter().flat_map(|name| {
            let found = namespaces.values().filter(|namespace| namespace.name == name.namespace);
            found.map(|namespace| ServiceKey::new(namespace, &name.name)).collect::<Vec<_>>()
        });
        let keys = keys.collect();
        let mut registry = Registry { namespaces, services, ..Registry::default() };
        self.read_services(&mut registry, &keys).await?;
        Ok(registry)
    }
}
