//! What is read of Kubernetes objects, and nothing else of them: of a list of 10,000 Services everything else would
//! fill the function's memory. Go writes an empty list as null.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A value that is read from a JSON object and from nothing else. Derived code would take an array for a struct
/// without its members, and so a broken answer for an object that says nothing.
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
        T::deserialize(MapAccessDeserializer::new(members))
    }
}

/// The metadata of an object.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// The name.
    pub name: String,
    /// The namespace.
    pub namespace: String,
    /// The UID.
    pub uid: String,
    /// When it was made.
    pub creation_timestamp: Option<Time>,
    /// Its annotations.
    #[serde(deserialize_with = "null_is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Its labels.
    #[serde(deserialize_with = "null_is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// A Service.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Service {
    /// Its metadata.
    #[serde(deserialize_with = "from_object")]
    pub metadata: Metadata,
    /// What it is. Every Service has it.
    #[serde(deserialize_with = "from_object")]
    pub spec: ServiceSpec,
}

/// What a Service is.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct ServiceSpec {
    /// Its address, or `None` as a word.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: Option<String>,
    /// Its ports.
    #[serde(deserialize_with = "null_is_empty")]
    pub ports: Vec<Port>,
    /// Its families.
    #[serde(rename = "ipFamilies", deserialize_with = "null_is_empty")]
    pub ip_families: Vec<String>,
}

/// A port of a Service or of a slice.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Port {
    /// Its name.
    #[serde(deserialize_with = "null_is_empty")]
    pub name: String,
    /// Its number.
    pub port: Option<i32>,
}

/// A slice of the endpoints of a Service.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct EndpointSlice {
    /// Its metadata.
    #[serde(default)]
    pub metadata: Metadata,
    /// `IPv4`, `IPv6` or `FQDN`.
    pub address_type: String,
    /// The endpoints.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub endpoints: Vec<SliceEndpoint>,
    /// The ports of all of them.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub ports: Vec<Port>,
}

/// An entry of a slice.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct SliceEndpoint {
    /// Its addresses.
    pub addresses: Vec<String>,
    /// What is said of its condition.
    #[serde(deserialize_with = "null_is_empty")]
    pub conditions: Conditions,
    /// The object behind it.
    pub target_ref: Option<ObjectReference>,
    /// Its availability zone.
    pub zone: Option<String>,
}

/// What is said of the condition of an endpoint.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
#[expect(missing_docs, reason = "Kubernetes' own words")]
pub struct Conditions {
    pub ready: Option<bool>,
    pub serving: Option<bool>,
    pub terminating: Option<bool>,
}

fn from_object<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    FromObject::deserialize(deserializer).map(|FromObject(value)| value)
}

fn null_is_empty<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
