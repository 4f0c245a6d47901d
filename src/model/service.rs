//! A Cloud Map service: what it serves, what is registered in it, and what else its entry in the list
//! of services says.

use std::collections::BTreeMap;
use std::fmt;

use super::Attributes;

/// A Cloud Map service and the instances in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudMapService {
    /// Its ARN.
    pub arn: String,
    /// Its name as written.
    pub name: String,
    /// What it serves.
    pub kind: ServiceKind,
    /// How many instances the list of services told of; it may lag behind registrations.
    pub instance_count: u32,
    /// Every instance by id; `None` where they were not read, because nothing asked for it.
    pub instances: Option<BTreeMap<String, Attributes>>,
    /// Why the instances could not be read, where that was tried in vain.
    pub unreadable: Option<String>,
    /// Whether ECS Service Connect manages it (tag `AmazonECSManaged`); looked up only before a
    /// first registration.
    pub managed_by_ecs: bool,
}

impl CloudMapService {
    /// A service that was created a moment ago, and so has no instances.
    pub fn created(arn: String, name: &str, kind: ServiceKind) -> Self {
        Self {
            arn,
            name: name.to_owned(),
            kind,
            instance_count: 0,
            instances: Some(BTreeMap::new()),
            unreadable: None,
            managed_by_ecs: false,
        }
    }
}

/// What a Cloud Map service serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServiceKind {
    /// Discovery calls only.
    Http,
    /// DNS records.
    Dns(Records),
}

/// The record types of a DNS service. They are fixed when the service is created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::struct_excessive_bools, reason = "a set of four record types")]
pub struct Records {
    /// IPv4 addresses.
    pub a: bool,
    /// IPv6 addresses.
    pub aaaa: bool,
    /// Addresses with ports.
    pub srv: bool,
    /// An alias of another name.
    pub cname: bool,
}

impl fmt::Display for ServiceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Dns(records) = self else {
            return f.write_str("HTTP");
        };
        let types = [
            (records.a, "A"),
            (records.aaaa, "AAAA"),
            (records.srv, "SRV"),
            (records.cname, "CNAME"),
        ];
        let names: Vec<&str> =
            types.into_iter().filter_map(|(set, name)| set.then_some(name)).collect();
        f.write_str(&names.join("+"))
    }
}
