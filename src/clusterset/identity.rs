//! Who a cluster is in its clusterset: by its `ClusterProperty` objects (KEP-2149) or by the settings. It is never
//! guessed from a name or an ARN.

use crate::model::clusterset::{ClusterId, ClustersetId};

/// The name of the `ClusterProperty` with the cluster id.
pub const CLUSTER_PROPERTY: &str = "cluster.clusterset.k8s.io";
/// The name of the `ClusterProperty` with the clusterset id.
pub const CLUSTERSET_PROPERTY: &str = "clusterset.k8s.io";

/// The reason why a cluster is no member.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoMember {
    #[error(
        "the cluster has no {0}: apply a ClusterProperty of the name {0} (about.k8s.io) with its id as spec.value, or \
         set clusterId and clusterset of the cluster in CLUSTERS"
    )]
    NoIdentity(&'static str),
    #[error(
        "CLUSTERS says {setting:?}, and the ClusterProperty {property} says {value:?}: change one of them"
    )]
    IdentityDisagrees { property: &'static str, setting: String, value: String },
    #[error("the ClusterProperty {property} is {value:?}, and must be {form}")]
    Invalid { property: &'static str, value: String, form: &'static str },
}

impl NoMember {
    /// The stable code of the reason.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoIdentity(_) => "NoIdentity",
            Self::IdentityDisagrees { .. } => "IdentityDisagrees",
            Self::Invalid { .. } => "InvalidIdentity",
        }
    }
}

/// The id of a cluster, by the settings and by its property.
///
/// # Errors
/// Returns the reason if there is no valid id, or the two sources differ.
pub fn cluster_id(
    setting: Option<&ClusterId>,
    property: Option<&str>,
) -> Result<ClusterId, NoMember> {
    let form = "one DNS label, or two with a dot, of at most 63 characters";
    one_id(setting, property, CLUSTER_PROPERTY, |text| ClusterId::parse(text).ok_or(form))
}

/// The id of its clusterset.
///
/// # Errors
/// The same.
pub fn clusterset_id(
    setting: Option<&ClustersetId>,
    property: Option<&str>,
) -> Result<ClustersetId, NoMember> {
    let form = "1 to 128 letters, digits, dots, underscores and hyphens";
    one_id(setting, property, CLUSTERSET_PROPERTY, |text| ClustersetId::parse(text).ok_or(form))
}

fn one_id<T: Clone + PartialEq + std::fmt::Display>(
    setting: Option<&T>,
    value: Option<&str>,
    property: &'static str,
    parse: impl Fn(&str) -> Result<T, &'static str>,
) -> Result<T, NoMember> {
    let stated = value.map(|value| {
        parse(value).map_err(|form| NoMember::Invalid { property, value: value.to_owned(), form })
    });
    match (setting, stated.transpose()?) {
        (Some(setting), Some(stated)) if *setting != stated => Err(NoMember::IdentityDisagrees {
            property,
            setting: setting.to_string(),
            value: stated.to_string(),
        }),
        (Some(id), _) => Ok(id.clone()),
        (None, Some(id)) => Ok(id),
        (None, None) => Err(NoMember::NoIdentity(property)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(setting: Option<&str>, property: Option<&str>) -> Result<String, &'static str> {
        let setting = setting.and_then(ClusterId::parse);
        let id = cluster_id(setting.as_ref(), property);
        id.map(|id| id.to_string()).map_err(|reason| reason.code())
    }

    #[test]
    fn a_member_has_one_valid_id() {
        let cases = [
            (None, Some("blue"), Ok("blue")),
            (Some("blue"), None, Ok("blue")),
            (Some("blue"), Some("blue"), Ok("blue")),
            (Some("blue"), Some("green"), Err("IdentityDisagrees")),
            (Some("blue"), Some("Green"), Err("InvalidIdentity")),
            (None, Some("a.b.c"), Err("InvalidIdentity")),
            (None, None, Err("NoIdentity")),
        ];
        for (setting, property, expected) in cases {
            let expected = expected.map(str::to_owned);
            assert_eq!(decide(setting, property), expected, "{setting:?} {property:?}");
        }
    }

    #[test]
    fn a_cluster_without_a_clusterset_is_no_member() {
        let none = clusterset_id(None, None);
        assert_eq!(none, Err(NoMember::NoIdentity(CLUSTERSET_PROPERTY)));
    }
}
