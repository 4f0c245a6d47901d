//! Which exporter decides which property of the merged service, for people.

use std::fmt::{self, Display, Formatter};

use super::families::states_families;
use super::ports;
use super::precedence::Exports;
use crate::model::clusterset::{ClusterId, ClustersetService, Export, ExportedPort, ImportType};

/// A property of the merged service, with the exporter whose value it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub property: Property,
    pub by: ClusterId,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Property {
    Type,
    Port(ExportedPort),
    IpFamilies,
    SessionAffinity,
    InternalTrafficPolicy,
    TrafficDistribution,
    Labels,
    Annotations,
}

impl Display for Property {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Port(port) => return write!(f, "port {port}"),
            Self::Type => "type",
            Self::IpFamilies => "IP families",
            Self::SessionAffinity => "session affinity",
            Self::InternalTrafficPolicy => "internal traffic policy",
            Self::TrafficDistribution => "traffic distribution",
            Self::Labels => "labels",
            Self::Annotations => "annotations",
        })
    }
}

/// The decisions about a service, in the order of its properties. One that no exporter states has the API's default, and
/// the decision of no cluster. A headless service has the IP families of all exporters, and no routing.
pub fn decisions(service: &ClustersetService, exports: &[Export]) -> Vec<Decision> {
    let Some(exports) = Exports::rank(exports) else { return Vec::new() };
    let has_ip = exports.kind() == ImportType::ClusterSetIp;
    let first = exports.iter().next();
    let families = exports.iter().find(|it| has_ip && states_families(it));
    let routing = exports.with_routing().map(|(export, _)| export).find(|_| has_ip);
    let metadata = exports.with_record().map(|(export, _)| export).next();
    let ports = service.ports.iter().map(|port| {
        let by = exports.iter().find(|export| ports::find(export, port).is_some());
        (Property::Port(port.clone()), by)
    });
    let others = [
        (Property::IpFamilies, families),
        (Property::SessionAffinity, routing),
        (Property::InternalTrafficPolicy, routing),
        (Property::TrafficDistribution, routing),
        (Property::Labels, metadata),
        (Property::Annotations, metadata),
    ];
    let all = [(Property::Type, first)].into_iter().chain(ports).chain(others);
    let decided =
        all.filter_map(|(property, by)| Some(Decision { property, by: by?.cluster.clone() }));
    decided.collect()
}

/// The ports that not all exporters have, each with those that do.
pub fn ports_of_some(
    service: &ClustersetService,
    exports: &[Export],
) -> Vec<(ExportedPort, Vec<ClusterId>)> {
    let Some(exports) = Exports::rank(exports) else { return Vec::new() };
    let ports = service.ports.iter().map(|port| {
        let having = exports.iter().filter(|export| ports::find(export, port).is_some());
        (port.clone(), having.map(|export| export.cluster.clone()).collect::<Vec<_>>())
    });
    ports.filter(|(_, having)| having.len() < exports.count()).collect()
}
