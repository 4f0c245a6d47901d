//! The values that the API server assigned to the objects of an import: those that were read, then those of its answers.
//! With them a [`Change`] becomes a [`Request`].

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::change::{Change, Content, Kind, ObjectRef, Write};
use super::derived_service::ips_of;
use super::present::{Identity, Metadata, OwnerReference, Present};

/// A change that is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    Create(Value),
    /// With `metadata.resourceVersion`: a stale one is answered with 409.
    Patch(Value),
    PatchStatus(Value),
    /// With the preconditions of the deletion.
    Delete(Identity),
}

/// The answer to a creation or a patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub identity: Identity,
    /// `spec.clusterIPs` of a Service.
    pub cluster_ips: Vec<IpAddr>,
}

/// The identities of the objects of one import, and the IPs of its derived Service.
#[derive(Clone, Debug)]
pub struct Known {
    identities: BTreeMap<(Kind, String), Identity>,
    cluster_ips: Vec<IpAddr>,
}

impl Request {
    /// The object or the patch of its fields.
    pub fn body(&self) -> Option<&Value> {
        match self {
            Self::Create(body) | Self::Patch(body) => Some(body),
            Self::PatchStatus(_) | Self::Delete(_) => None,
        }
    }
}

impl Known {
    pub fn of(present: &Present) -> Self {
        let imports = present.import.iter().map(|it| (Kind::ServiceImport, &it.metadata));
        let services = present.derived.iter().map(|it| (Kind::Service, &it.metadata));
        let slices = present.slices.iter().map(|it| (Kind::EndpointSlice, &it.metadata));
        let identity = |(kind, metadata): (Kind, &Metadata)| {
            ((kind, metadata.name.clone()), metadata.identity.clone())
        };
        Self {
            identities: imports.chain(services).chain(slices).map(identity).collect(),
            cluster_ips: present.derived.iter().flat_map(|it| it.cluster_ips.clone()).collect(),
        }
    }

    /// The IPs of the derived Service.
    pub fn cluster_ips(&self) -> &[IpAddr] {
        &self.cluster_ips
    }

    /// Takes over the answer to a change, whose version the next change of the object needs.
    pub fn record(&mut self, object: &ObjectRef, answer: Answer) {
        if object.kind == Kind::Service {
            self.cluster_ips = answer.cluster_ips;
        }
        self.identities.insert((object.kind, object.name.clone()), answer.identity);
    }

    /// The request for a change of the import `import`. `None` if an object that it refers to is missing, since an
    /// earlier change failed.
    pub fn request(&self, change: &Change, import: &str) -> Option<Request> {
        let identity = || self.identities.get(&(change.object.kind, change.object.name.clone()));
        Some(match &change.write {
            Write::Create(content) => Request::Create(self.complete(content, import)?),
            Write::Patch(content) => {
                Request::Patch(at_version(self.complete(content, import)?, identity()?))
            }
            Write::PatchStatus(body) => Request::PatchStatus(at_version(body.clone(), identity()?)),
            Write::Delete => Request::Delete(identity()?.clone()),
        })
    }

    fn complete(&self, content: &Content, import: &str) -> Option<Value> {
        let mut body = content.body.clone();
        if let Some(others) = &content.owners {
            let import = self.owner(import)?;
            let owners: Vec<_> = others.iter().chain([&import]).collect();
            body["metadata"]["ownerReferences"] = json!(owners);
        }
        if let Some(families) = &content.ips {
            let ips = ips_of(&self.cluster_ips, families);
            if ips.is_empty() {
                return None;
            }
            body["spec"]["ips"] = json!(ips);
        }
        Some(body)
    }

    /// The reference to the ServiceImport. It is no controller and does not block its deletion.
    fn owner(&self, import: &str) -> Option<OwnerReference> {
        let identity = self.identities.get(&(Kind::ServiceImport, import.to_owned()))?;
        Some(OwnerReference {
            api_version: Kind::ServiceImport.api_version().to_owned(),
            kind: Kind::ServiceImport.as_str().to_owned(),
            name: import.to_owned(),
            uid: identity.uid.clone(),
            ..OwnerReference::default()
        })
    }
}

fn at_version(mut patch: Value, identity: &Identity) -> Value {
    patch["metadata"]["resourceVersion"] = json!(identity.resource_version);
    patch
}
