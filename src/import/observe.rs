//! Reads the objects of the imports of one cluster: all of them by five lists, or those of one name.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use serde_json::Value;

use super::plan::{
    DerivedService, Metadata, NamespaceState, OwnerLabel, Present, ServiceImport, Slice,
    SliceEndpoint, Unexpected,
};
use crate::clusterset::id;
use crate::kubernetes::objects::{Named, Resource};
use crate::kubernetes::{Error, Kubernetes};
use crate::model::ServiceRef;
use crate::model::clusterset::ClusterId;

/// The label of a slice that names the import.
const SERVICE_NAME: &str = "multicluster.kubernetes.io/service-name";

/// A slice of an import.
#[derive(Clone, Debug)]
struct OfImport {
    /// The name of the import, unless another writer took it off.
    import: Option<String>,
    slice: Result<Arc<Slice>, Unexpected>,
}

/// A namespace and the name of a derived Service, whose digits the slices of the import have in their names.
type Place = (String, String);

/// Parts of imports, by name and source cluster.
pub type Standing = BTreeMap<(ServiceRef, ClusterId), BTreeSet<IpAddr>>;

/// The objects of the imports of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    imports: BTreeMap<ServiceRef, Value>,
    /// The Services under the names of derived ones, by namespace and name.
    services: BTreeMap<Place, Value>,
    /// The slices of each import: another writer may have taken their labels off. They hold most of the memory of a run,
    /// so their JSON is not kept.
    slices: BTreeMap<Place, Vec<OfImport>>,
    namespaces: BTreeMap<String, NamespaceState>,
    /// Whether the installed CRD has `status.endpointSliceObjects`.
    pub declares_slice_objects: bool,
}

impl Objects {
    /// Every object of the cluster that belongs to an import, and every ServiceImport of any owner.
    ///
    /// # Errors
    /// Returns an error if a list could not be read.
    pub async fn read(kubernetes: &Kubernetes, owner: &OwnerLabel) -> Result<Self, Error> {
        let of_us = owner.selector();
        let (imports, services, slices, namespaces, declares) = tokio::try_join!(
            kubernetes.objects(Resource::ServiceImports, ""),
            kubernetes.objects(Resource::Services, &of_us),
            kubernetes.objects_as(Resource::EndpointSlices, &of_us, |slice| slice_of(&slice)),
            kubernetes.objects(Resource::Namespaces, ""),
            kubernetes.declares_slice_objects(),
        )?;
        let mut objects = Self { declares_slice_objects: declares, ..Self::default() };
        objects.add_imports(imports);
        objects.add_services(services);
        objects.add_slices(slices);
        objects.add_namespaces(&namespaces);
        Ok(objects)
    }

    /// The objects of one name, by three reads if there is an import.
    ///
    /// # Errors
    /// Returns an error if one of them could not be read.
    pub async fn of(
        kubernetes: &Kubernetes,
        owner: &OwnerLabel,
        service: &ServiceRef,
    ) -> Result<Self, Error> {
        let ServiceRef { namespace, name } = service;
        let derived = id::derived_service(service);
        let named = |resource, name| Named { resource, namespace, name };
        let selector = format!("{},{SERVICE_NAME}={name}", owner.selector());
        let (import, service_object, slices, declares) = tokio::try_join!(
            kubernetes.object(named(Resource::ServiceImports, name)),
            kubernetes.object(named(Resource::Services, &derived)),
            kubernetes.objects_in(Resource::EndpointSlices, namespace, &selector),
            kubernetes.declares_slice_objects(),
        )?;
        let mut objects = Self { declares_slice_objects: declares, ..Self::default() };
        // A namespace with an import exists. If it is terminating, the API server refuses what would be created there.
        let state = match &import {
            Some(_) => Some(NamespaceState::Active),
            None => kubernetes.namespace(namespace).await?.as_ref().map(state_of),
        };
        objects.namespaces.extend(state.map(|state| (namespace.clone(), state)));
        objects.imports.extend(import.map(|it| (service.clone(), it)));
        objects.add_services(service_object);
        objects.add_slices(slices.iter().map(slice_of));
        Ok(objects)
    }

    /// The objects of these names.
    ///
    /// # Errors
    /// Returns an error if one of them could not be read.
    pub async fn of_all(
        kubernetes: &Kubernetes,
        owner: &OwnerLabel,
        services: impl IntoIterator<Item = &ServiceRef>,
    ) -> Result<Self, Error> {
        let mut objects = Self::default();
        for service in services {
            objects.add(Self::of(kubernetes, owner, service).await?);
        }
        Ok(objects)
    }

    /// Adds objects of a resource as an API server lists them.
    pub fn add_list(&mut self, resource: Resource, list: Vec<Value>) {
        match resource {
            Resource::ServiceImports => self.add_imports(list),
            Resource::Services => self.add_services(list),
            Resource::EndpointSlices => self.add_slices(list.iter().map(slice_of)),
            Resource::Namespaces => self.add_namespaces(&list),
            Resource::ServiceExports => {}
        }
    }

    fn add_imports(&mut self, imports: Vec<Value>) {
        self.imports.extend(imports.into_iter().map(|it| (name_of(&it), it)));
    }

    fn add_namespaces(&mut self, namespaces: &[Value]) {
        self.namespaces.extend(namespaces.iter().map(|it| (name_of(it).name, state_of(it))));
    }

    fn add_services(&mut self, services: impl IntoIterator<Item = Value>) {
        let services = services.into_iter().map(|service| {
            let ServiceRef { namespace, name } = name_of(&service);
            ((namespace, name), service)
        });
        self.services.extend(services);
    }

    fn add_slices(&mut self, slices: impl IntoIterator<Item = (Place, OfImport)>) {
        for (place, slice) in slices {
            self.slices.entry(place).or_default().push(slice);
        }
    }

    /// The imports of AWS's controller.
    pub fn of_aws(&self) -> impl Iterator<Item = &ServiceRef> {
        let of_aws = self.imports.iter().filter(|(_, import)| Metadata::read(import).is_of_aws());
        of_aws.map(|(name, _)| name)
    }

    /// Adds the objects of other names.
    pub fn add(&mut self, other: Self) {
        self.imports.extend(other.imports);
        self.services.extend(other.services);
        self.slices.extend(other.slices);
        self.namespaces.extend(other.namespaces);
        self.declares_slice_objects |= other.declares_slice_objects;
    }

    /// The names with an object of ours.
    pub fn names(&self, owner: &OwnerLabel) -> BTreeSet<ServiceRef> {
        let is_ours = |object: &&Value| owner.owns(&Metadata::read(object));
        let imports = self.imports.iter().filter(|(_, it)| is_ours(it)).map(|(name, _)| name);
        let of_slices = self.slices.iter().filter_map(|((namespace, _), slices)| {
            let named = slices.iter().find_map(|slice| slice.import.as_ref())?;
            Some(ServiceRef::new(namespace, named))
        });
        imports.cloned().chain(of_slices).collect()
    }

    /// The clusters with a part in each import of ours, with the addresses of their endpoints there.
    pub fn standing(&self, owner: &OwnerLabel) -> Standing {
        let mut standing = Standing::new();
        let imports = self.imports.iter().filter(|(_, it)| owner.owns(&Metadata::read(it)));
        for (name, import) in imports {
            for listed in import["status"]["clusters"].as_array().into_iter().flatten() {
                let cluster = listed["cluster"].as_str().and_then(ClusterId::parse);
                standing.extend(cluster.map(|it| ((name.clone(), it), BTreeSet::new())));
            }
        }
        for ((namespace, _), slices) in &self.slices {
            for OfImport { import, slice } in slices {
                let (Some(import), Ok(slice)) = (import, slice) else { continue };
                let Some(cluster) = slice.source() else { continue };
                let part = standing.entry((ServiceRef::new(namespace, import), cluster));
                part.or_default().extend(slice.endpoints.iter().filter_map(SliceEndpoint::address));
            }
        }
        standing
    }

    /// Whether the cluster has an import of ours.
    pub fn has_imports(&self, owner: &OwnerLabel) -> bool {
        self.count_imports(owner) > 0
    }

    /// The number of imports of ours.
    pub fn count_imports(&self, owner: &OwnerLabel) -> usize {
        self.imports.values().filter(|it| owner.owns(&Metadata::read(it))).count()
    }

    /// The state of a namespace.
    pub fn namespace(&self, name: &str) -> NamespaceState {
        self.namespaces.get(name).copied().unwrap_or(NamespaceState::Absent)
    }

    /// The objects of one import.
    ///
    /// # Errors
    /// Returns the problem if one of them has a value that the API does not have.
    pub fn present(&self, service: &ServiceRef) -> Result<Present, Unexpected> {
        let derived = (service.namespace.clone(), id::derived_service(service));
        let import = self.imports.get(service).map(ServiceImport::read).transpose()?;
        let slices = self.slices.get(&derived).into_iter().flatten();
        let slices = slices.map(|it| it.slice.clone()).collect::<Result<Vec<_>, _>>()?;
        let derived = self.services.get(&derived).map(DerivedService::read).transpose()?;
        Ok(Present { import, derived, slices })
    }
}

/// A slice with its import: its label names it, its owner reference, and its own name by digits, of which another writer
/// may have changed any.
fn slice_of(slice: &Value) -> (Place, OfImport) {
    let ServiceRef { namespace, name } = name_of(slice);
    let digits = name.strip_prefix("imported-").and_then(|rest| rest.split('-').next());
    let derived = digits.map(|digits| format!("derived-{digits}")).unwrap_or_default();
    let metadata = &slice["metadata"];
    let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
    let named = owners.map(|owner| &owner["name"]).chain([&metadata["labels"][SERVICE_NAME]]);
    let is_right =
        |name: &&str| id::derived_service(&ServiceRef::new(&namespace, *name)) == derived;
    let import = named.filter_map(Value::as_str).find(is_right).map(str::to_owned);
    ((namespace, derived), OfImport { import, slice: Slice::read(slice).map(Arc::new) })
}

fn name_of(object: &Value) -> ServiceRef {
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
    ServiceRef::new(text("namespace"), text("name"))
}

fn state_of(namespace: &Value) -> NamespaceState {
    let is_terminating = !namespace["metadata"]["deletionTimestamp"].is_null();
    if is_terminating { NamespaceState::Terminating } else { NamespaceState::Active }
}
