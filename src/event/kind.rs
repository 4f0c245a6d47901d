//! The kinds of Kubernetes objects that can change a registration, by the names that senders use. Other kinds, such
//! as Deployment or Node, are not followed: their effect on a Service is a change of its EndpointSlices.

use super::{Unusable, name};

const CORE: &str = "";
const DISCOVERY: &str = "discovery.k8s.io";
const MULTI_CLUSTER: &str = "multicluster.x-k8s.io";

/// A kind of object that is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Followed {
    Service,
    EndpointSlice,
    Endpoints,
    Pod,
    Namespace,
    ServiceExport,
}

impl Followed {
    const ALL: [Self; 6] = [
        Self::Service,
        Self::EndpointSlice,
        Self::Endpoints,
        Self::Pod,
        Self::Namespace,
        Self::ServiceExport,
    ];

    /// Kind, resource (some senders use that instead) and API group.
    const fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Service => ("Service", "services", CORE),
            Self::EndpointSlice => ("EndpointSlice", "endpointslices", DISCOVERY),
            Self::Endpoints => ("Endpoints", "endpoints", CORE),
            Self::Pod => ("Pod", "pods", CORE),
            Self::Namespace => ("Namespace", "namespaces", CORE),
            Self::ServiceExport => ("ServiceExport", "serviceexports", MULTI_CLUSTER),
        }
    }

    /// Finds a kind by its name or resource. Other API groups have kinds of the same name, such as Knative's Service,
    /// so the group must match if it is known.
    pub(super) fn find(kind: &str, api_version: Option<&str>) -> Result<Self, Unusable> {
        let group = api_version
            .filter(|version| !version.is_empty())
            .map(|version| version.split_once('/').map_or(CORE, |(group, _)| group));
        let named = |followed: &Self| {
            let (name, resource, home) = followed.names();
            (kind == name || kind == resource) && group.is_none_or(|group| group == home)
        };
        let mut all = Self::ALL.into_iter();
        all.find(named).ok_or_else(|| unknown(kind, group))
    }
}

fn unknown(kind: &str, group: Option<&str>) -> Unusable {
    let kind = match group {
        None | Some(CORE) => name::kind(kind),
        Some(group) => name::kind(&format!("{kind}.{group}")),
    };
    kind.map_or_else(|invalid| invalid, |kind| Unusable::UnknownKind { kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_followed_kind_is_found_by_kind_and_by_resource() {
        for followed in Followed::ALL {
            let (kind, resource, group) = followed.names();
            let version = match group {
                CORE => "v1".to_owned(),
                group => format!("{group}/v1"),
            };
            for name in [kind, resource] {
                assert_eq!(Followed::find(name, None), Ok(followed));
                assert_eq!(Followed::find(name, Some("")), Ok(followed));
                assert_eq!(Followed::find(name, Some(&version)), Ok(followed));
            }
        }
    }

    #[test]
    fn other_kinds_and_same_names_of_other_groups_are_not_followed() {
        let rows = [
            ("Deployment", Some("apps/v1"), "Deployment.apps"),
            ("Node", Some("v1"), "Node"),
            ("ConfigMap", None, "ConfigMap"),
            ("Service", Some("serving.knative.dev/v1"), "Service.serving.knative.dev"),
            ("EndpointSlice", Some("v1"), "EndpointSlice"),
            ("deployments", None, "deployments"),
        ];
        for (kind, version, named) in rows {
            let kind_named = named.to_owned();
            let expected = Err(Unusable::UnknownKind { kind: kind_named });
            assert_eq!(Followed::find(kind, version), expected);
        }
    }

    #[test]
    fn a_text_that_is_no_kind_is_not_repeated() {
        for (kind, version) in [("Pod\n", None), ("", None), ("Pod", Some("a b/v1"))] {
            let reading = Followed::find(kind, version);
            assert!(matches!(reading, Err(Unusable::InvalidName { field: "kind", .. })));
        }
    }
}
