//! Reads the objects of the imports of one cluster: all of them with four lists, or the objects of given names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::plan::{
    DerivedService, Metadata, NamespaceState, OwnerLabel, Present, ServiceImport, Slice, name_of,
};
use crate::clusterset::departures::Parts;
use crate::clusterset::id;
use crate::clusterset::members::Served;
use crate::kubernetes::{Error, Kubernetes};
use crate::model::{Kind, ObjectRef, ServiceRef, is_derived_service};

/// The label of a slice that names the import.
const SERVICE_NAME: &str = "multicluster.kubernetes.io/service-name";

/// A slice of an import.
#[derive(Clone, Debug)]
struct ImportSlice {
    /// The name of the import. `None` if another writer removed it from the slice.
    import: Option<String>,
    slice: Arc<Slice>,
}

/// The objects of the imports of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    imports: BTreeMap<ServiceRef, Value>,
    /// The Services that may be derived Services, by their own names.
    services: BTreeMap<ServiceRef, Value>,
    /// The slices of each import, by its derived Service. Both names contain the same hash, so a slice is found even if
    /// another writer removed its label. Slices take most of the memory of a run, so their JSON is not kept.
    slices: BTreeMap<ServiceRef, Vec<ImportSlice>>,
    namespaces: BTreeMap<String, NamespaceState>,
    /// Whether the installed CRD has `status.endpointSliceObjects`.
    pub crd_has_slice_objects: bool,
}

impl Objects {
    /// Reads every Service and EndpointSlice with our label, every ServiceImport of any owner, and all namespaces.
    ///
    /// # Errors
    /// Returns an error if a list could not be read.
    pub async fn read(kubernetes: &Kubernetes, owner: &OwnerLabel) -> Result<Self, Error> {
        let selector = owner.selector();
        let (services, slices, namespaces, declares) = tokio::try_join!(
            kubernetes.objects(Kind::Service, &selector),
            kubernetes.objects_as((Kind::EndpointSlice, None), &selector, |slice| slice_of(&slice)),
            kubernetes.objects(Kind::Namespace, ""),
            kubernetes.crd_has_slice_objects(),
        )?;
        // The ServiceImports are read last. If a ServiceImport were read first, it could be deleted before another
        // object loses its owner reference to it. The plan would then restore the reference, and Kubernetes would
        // delete the object.
        let imports = kubernetes.objects(Kind::ServiceImport, "").await?;
        let mut objects = Self { crd_has_slice_objects: declares, ..Self::default() };
        objects.add_list(Kind::ServiceImport, imports);
        objects.add_list(Kind::Service, services);
        objects.add_slices(slices);
        objects.add_list(Kind::Namespace, namespaces);
        Ok(objects)
    }

    /// Reads the objects of the imports of these names: three requests for each name, and a fourth for the namespace if
    /// there is no ServiceImport.
    ///
    /// # Errors
    /// Returns an error if one of the objects could not be read.
    pub async fn read_named(
        kubernetes: &Kubernetes,
        owner: &OwnerLabel,
        services: impl IntoIterator<Item = &ServiceRef>,
    ) -> Result<Self, Error> {
        let mut objects = Self::default();
        for service in services {
            let ServiceRef { namespace, name } = service;
            let derived = ObjectRef::of(service, Kind::Service, &id::derived_service(service));
            let import = ObjectRef::of(service, Kind::ServiceImport, name);
            let selector = format!("{},{SERVICE_NAME}={name}", owner.selector());
            let (service_object, slices, declares) = tokio::try_join!(
                kubernetes.object(&derived),
                kubernetes.objects_as((Kind::EndpointSlice, Some(namespace)), &selector, |slice| {
                    slice_of(&slice)
                }),
                kubernetes.crd_has_slice_objects(),
            )?;
            let import = kubernetes.object(&import).await?;
            objects.crd_has_slice_objects |= declares;
            // A namespace with an import exists. If it is terminating, the API server refuses everything that would be
            // created in it.
            let state = match &import {
                Some(_) => Some(NamespaceState::Active),
                None => kubernetes.namespace(namespace).await?.as_ref().map(state_of),
            };
            objects.namespaces.extend(state.map(|state| (namespace.clone(), state)));
            objects.add_list(Kind::ServiceImport, import);
            objects.add_list(Kind::Service, service_object);
            objects.add_slices(slices);
        }
        Ok(objects)
    }

    /// Adds objects of a kind, in the form that an API server lists them.
    pub fn add_list(&mut self, kind: Kind, list: impl IntoIterator<Item = Value>) {
        let named = list.into_iter().map(|object| (name_of(&object), object));
        match kind {
            Kind::ServiceImport => self.imports.extend(named),
            Kind::Service => self.services.extend(named),
            Kind::EndpointSlice => self.add_slices(named.map(|(_, slice)| slice_of(&slice))),
            Kind::Namespace => {
                let states = named.map(|(name, namespace)| (name.name, state_of(&namespace)));
                self.namespaces.extend(states);
            }
            _ => {}
        }
    }

    fn add_slices(&mut self, slices: impl IntoIterator<Item = Option<(ServiceRef, ImportSlice)>>) {
        for (derived, slice) in slices.into_iter().flatten() {
            self.slices.entry(derived).or_default().push(slice);
        }
    }

    /// Lists our ServiceImports.
    pub fn ours(&self, owner: &OwnerLabel) -> impl Iterator<Item = (&ServiceRef, &Value)> {
        self.imports.iter().filter(|(_, import)| owner.owns(&Metadata::read(import)))
    }

    /// The names of all imports that have a ServiceImport or a slice of ours.
    pub fn names(&self, owner: &OwnerLabel) -> BTreeSet<ServiceRef> {
        let slice_imports = self.slices.iter().filter_map(|(derived, slices)| {
            let named = slices.iter().find_map(|slice| slice.import.as_ref())?;
            Some(ServiceRef::new(&derived.namespace, named))
        });
        self.ours(owner).map(|(name, _)| name.clone()).chain(slice_imports).collect()
    }

    /// Lists the derived Services whose objects belong to none of these imports: a person deleted the import, and the
    /// leftover objects do not name it.
    pub fn leftovers(&self, imports: &BTreeSet<ServiceRef>) -> BTreeSet<ServiceRef> {
        let derived = |service: &ServiceRef| {
            ServiceRef::new(&service.namespace, id::derived_service(service))
        };
        let used: BTreeSet<ServiceRef> = imports.iter().map(derived).collect();
        let all = self.services.keys().chain(self.slices.keys());
        all.filter(|service| !used.contains(service)).cloned().collect()
    }

    /// The parts of our imports. The parts of served clusters have no endpoints.
    pub fn parts(&self, owner: &OwnerLabel, served: &Served) -> Parts {
        let mut parts = Parts::new();
        for name in self.names(owner) {
            self.present(&name).add_parts(&name, served, &mut parts);
        }
        parts
    }

    /// Whether the cluster has an import of ours, or slices of one that a person deleted.
    pub fn has_imports(&self, owner: &OwnerLabel) -> bool {
        self.ours(owner).next().is_some() || !self.slices.is_empty()
    }

    /// The state of a namespace.
    pub fn namespace(&self, name: &str) -> NamespaceState {
        self.namespaces.get(name).copied().unwrap_or(NamespaceState::Absent)
    }

    /// Returns the objects of one import, by its name or, for leftovers, by the name of its derived Service.
    pub fn present(&self, service: &ServiceRef) -> Present {
        let derived = ServiceRef::new(&service.namespace, id::derived_service(service));
        let import = self.imports.get(service).map(ServiceImport::read);
        let slices = self.slices.get(&derived).or_else(|| self.slices.get(service));
        let slices = slices.into_iter().flatten().map(|found| Arc::clone(&found.slice)).collect();
        // Without this check, a person's Service with our label would be taken for the derived Service.
        let leftover = Some(service).filter(|service| is_derived_service(&service.name));
        let derived = self.services.get(&derived).or_else(|| self.services.get(leftover?));
        let derived = derived.map(DerivedService::read);
        Present { import, derived, slices }
    }
}

/// Reads a slice, and the name of its import from the label or the owner reference. Another writer can change both, so
/// the hash in the slice's own name must match. Returns `None` if that name is not one of ours: if a person gives a
/// derived Service a selector, Kubernetes makes slices with the Service's labels.
fn slice_of(slice: &Value) -> Option<(ServiceRef, ImportSlice)> {
    let ServiceRef { namespace, name } = name_of(slice);
    let digits = name.strip_prefix("imported-")?.split('-').next()?;
    let derived = format!("{}{digits}", id::DERIVED);
    let metadata = &slice["metadata"];
    let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
    let named = owners.map(|owner| &owner["name"]).chain([&metadata["labels"][SERVICE_NAME]]);
    let has_hash =
        |name: &&str| id::derived_service(&ServiceRef::new(&namespace, *name)) == derived;
    let import = named.filter_map(Value::as_str).find(has_hash).map(str::to_owned);
    let slice = ImportSlice { import, slice: Arc::new(Slice::read(slice)) };
    Some((ServiceRef::new(&namespace, &derived), slice))
}

fn state_of(namespace: &Value) -> NamespaceState {
    let is_terminating = !namespace["metadata"]["deletionTimestamp"].is_null();
    if is_terminating { NamespaceState::Terminating } else { NamespaceState::Active }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn service_of_a_person_with_our_label_is_no_derived_one() {
        let mut objects = Objects::default();
        let own = |name: &str| json!({"metadata": {"namespace": "shop", "name": name, "labels": {"cloud-map-sync/owner": "cloud-map-sync"}}});
        let web = ServiceRef::new("shop", "web");
        let derived = ServiceRef::new("shop", id::derived_service(&web));
        objects.add_list(Kind::Service, [own("web")]);
        assert_eq!(objects.present(&web).derived, None);
        objects.add_list(Kind::Service, [own(&derived.name)]);
        for name in [&web, &derived] {
            let present = objects.present(name).derived.expect("it is there");
            assert_eq!(present.metadata.name, derived.name);
        }
    }
}
