//! The fields of Kubernetes objects that the function reads. Parsing drops all other fields, which for 10,000 Services
//! would fill the function's memory. Go writes an empty list as null, so null is read as empty.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::discovery::v1::EndpointConditions;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::de::{MapAccess, Visitor, value};
use serde::{Deserialize, Deserializer};

use crate::model::{Properties, ServiceRef};

/// A value that is read from a JSON object only. Derived code also reads a struct from an array, so it would read a
/// broken reply as an object whose fields are all missing.
pub struct FromObject<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for FromObject<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData)).map(Self)
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<T, A::Error> {
        T::deserialize(value::MapAccessDeserializer::new(members))
    }
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMetadata {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    pub generation: i64,
    pub creation_timestamp: Option<Time>,
    pub deletion_timestamp: Option<Time>,
    #[serde(deserialize_with = "null_is_empty")]
    pub finalizers: Vec<String>,
    #[serde(deserialize_with = "null_is_empty")]
    pub annotations: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_is_empty")]
    pub labels: BTreeMap<String, String>,
}

impl ObjectMetadata {
    pub fn name(&self) -> ServiceRef {
        ServiceRef::new(&self.namespace, &self.name)
    }
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Service {
    #[serde(deserialize_with = "from_object")]
    pub metadata: ObjectMetadata,
    #[serde(deserialize_with = "from_object")]
    pub spec: ServiceFields,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceFields {
    pub r#type: String,
    /// The address; the text `None` for a headless Service.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: Option<String>,
    #[serde(deserialize_with = "null_is_empty")]
    pub ports: Vec<ObjectPort>,
    #[serde(deserialize_with = "null_is_empty")]
    pub ip_families: Vec<String>,
    #[serde(deserialize_with = "null_is_empty")]
    pub selector: BTreeMap<String, String>,
    #[serde(flatten)]
    pub properties: Properties,
}

/// A port of a Service or of a slice.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectPort {
    #[serde(deserialize_with = "null_is_empty")]
    pub name: String,
    pub protocol: Option<Box<str>>,
    pub port: Option<i32>,
    pub app_protocol: Option<Box<str>>,
    pub target_port: Option<IntOrString>,
}

impl ObjectPort {
    /// Returns the number; `None` if it is not a valid port number.
    pub fn number(&self) -> Option<u16> {
        u16::try_from(self.port?).ok().filter(|number| *number > 0)
    }
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct EndpointSlice {
    #[serde(default)]
    pub metadata: ObjectMetadata,
    /// `IPv4`, `IPv6` or `FQDN`.
    pub address_type: String,
    #[serde(default, deserialize_with = "null_is_empty")]
    pub endpoints: Vec<SliceEntry>,
    /// The ports of all endpoints of the slice.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub ports: Vec<ObjectPort>,
}

/// An entry of a slice. All entries of a page are in memory at once, so an entry is kept small.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct SliceEntry {
    /// The first address, or its text if it is not an IP address. The controller writes exactly one address.
    #[serde(rename = "addresses", deserialize_with = "first_address")]
    pub address: Option<Result<IpAddr, Box<str>>>,
    #[serde(deserialize_with = "null_is_empty")]
    pub conditions: EndpointConditions,
    pub target_ref: Option<TargetRef>,
    pub zone: Option<Box<str>>,
    pub hostname: Option<Box<str>>,
    pub node_name: Option<Box<str>>,
}

/// The object behind an endpoint.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(default)]
pub struct TargetRef {
    pub kind: Option<Box<str>>,
    pub namespace: Option<Box<str>>,
    pub name: Option<Box<str>>,
    pub uid: Option<Box<str>>,
}

impl TargetRef {
    pub fn is_pod(&self) -> bool {
        self.kind.as_deref() == Some("Pod")
    }
}

impl From<&ObjectReference> for TargetRef {
    fn from(target: &ObjectReference) -> Self {
        let text = |text: &Option<String>| text.as_deref().map(Box::from);
        let [kind, namespace, name, uid] =
            [&target.kind, &target.namespace, &target.name, &target.uid].map(text);
        Self { kind, namespace, name, uid }
    }
}

pub(super) fn from_object<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    FromObject::deserialize(deserializer).map(|FromObject(value)| value)
}

fn first_address<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Result<IpAddr, Box<str>>>, D::Error> {
    let addresses = Vec::<String>::deserialize(deserializer)?;
    Ok(addresses.first().map(|address| parse_address(address)))
}

/// Returns the address, or the text if it is not an IP address.
pub(super) fn parse_address(text: &str) -> Result<IpAddr, Box<str>> {
    text.parse().map_err(|_| text.into())
}

pub(super) fn null_is_empty<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
