//! The attributes of an instance, and the marks among them: the attributes that identify its owner. [`Marks::write`]
//! writes them, and [`Owner`] reads them.
//!
//! Marks are additive: a later release may add marks under a higher `schema`, and this release ignores unknown ones.

use super::{Attributes, Flow, Owner, ServiceRef};

/// The IPv4 address, the value of an A record.
pub const IPV4: &str = "AWS_INSTANCE_IPV4";
/// The IPv6 address, the value of an AAAA record.
pub const IPV6: &str = "AWS_INSTANCE_IPV6";
/// The port: part of an SRV record, and without effect otherwise.
pub const PORT: &str = "AWS_INSTANCE_PORT";
/// The health at registration. Cloud Map never updates it, so it is never compared.
pub const INITIAL_HEALTH: &str = "AWS_INIT_HEALTH_STATUS";
/// The EC2 instance whose address is used. Cloud Map accepts no other attribute with it.
pub const EC2_INSTANCE: &str = "AWS_EC2_INSTANCE_ID";
/// The keys that Cloud Map itself knows.
const OF_AWS: [&str; 7] =
    [IPV4, IPV6, PORT, INITIAL_HEALTH, EC2_INSTANCE, "AWS_ALIAS_DNS_NAME", "AWS_INSTANCE_CNAME"];
/// The availability zone, under the name that ECS uses.
pub const AVAILABILITY_ZONE: &str = "AVAILABILITY_ZONE";
/// The Region, under the name that ECS uses.
pub const REGION: &str = "REGION";

/// The keys that ECS writes on a task besides its addresses, zone and Region. Callers select instances by these keys,
/// so an annotation may set them. The marks of an instance are checked first, so a pod with these keys is never taken
/// for a task.
pub const OF_TASK: [&str; 3] =
    ["ECS_CLUSTER_NAME", "ECS_SERVICE_NAME", "ECS_TASK_DEFINITION_FAMILY"];

/// The keys that annotations set, separated by commas. Any other key that this function does not write itself was added
/// by hand, and is kept.
pub const ANNOTATED: &str = "cloud-map-sync/attributes";

/// The guard's note of a loss that it holds, on an instance of the Service that would lose it.
pub const SIGHTING: &str = "cloud-map-sync/guard";

/// The prefix of all marks.
pub const MARK_PREFIX: &str = "cloud-map-sync/";
/// The version of the marks.
pub const SCHEMA: &str = "cloud-map-sync/schema";
/// The version that this release writes.
pub const SCHEMA_VERSION: u32 = 1;
/// The installation that registered the instance for an annotated Service.
pub(super) const OWNER: &str = "cloud-map-sync/owner";
/// The installation that registered the instance for a `ServiceExport`.
pub(super) const EXPORTER: &str = "cloud-map-sync/exporter";
pub(super) const CLUSTER: &str = "cloud-map-sync/cluster";
pub const NAMESPACE: &str = "cloud-map-sync/namespace";
pub const SERVICE: &str = "cloud-map-sync/service";
/// The name of the pod behind the instance.
pub const POD: &str = "cloud-map-sync/pod";

/// The keys of the pieces of an export's properties in its record, in their order.
pub const EXPORT: [&str; 4] = [
    "cloud-map-sync/export",
    "cloud-map-sync/export.2",
    "cloud-map-sync/export.3",
    "cloud-map-sync/export.4",
];
/// On an export record: the export has no endpoint in Cloud Map. The mark is written after the last endpoint was
/// deregistered, and removed before the next one is registered.
pub const EMPTY: &str = "cloud-map-sync/empty";
/// The clusterset of a member, on its record.
pub const CLUSTERSET: &str = "cloud-map-sync/clusterset";
/// The last time at which a member was synced, on its record.
pub const HEARTBEAT: &str = "cloud-map-sync/heartbeat";
/// `import`: the member only imports. On its record.
pub const DIRECTION: &str = "cloud-map-sync/direction";

/// The keys that many instances have: all that this function writes, except those of annotations and records.
pub(super) const WRITTEN: &[&str] = &[
    IPV4,
    IPV6,
    PORT,
    INITIAL_HEALTH,
    AVAILABILITY_ZONE,
    REGION,
    ANNOTATED,
    SIGHTING,
    SCHEMA,
    OWNER,
    EXPORTER,
    CLUSTER,
    NAMESPACE,
    SERVICE,
    POD,
];

/// Whether Cloud Map reserves the key. Cloud Map refuses unknown keys with this prefix in any letter case, and accepts
/// known keys in any letter case: `aws_instance_ipv4` could register an address that `AWS_INSTANCE_IPV4` does not show.
pub fn is_of_aws(key: &str) -> bool {
    key.get(..4).is_some_and(|prefix| prefix.eq_ignore_ascii_case("aws_"))
}

/// Whether an annotation may not set the key: Cloud Map, ECS or this function writes it.
pub fn is_reserved(key: &str) -> bool {
    let is_of_ecs = key.starts_with("ECS_") && !OF_TASK.contains(&key);
    is_of_ecs
        || is_of_aws(key)
        || key.starts_with(MARK_PREFIX)
        || [AVAILABILITY_ZONE, REGION].contains(&key)
}

/// Returns the attributes of an instance from Cloud Map's answer. A known key of AWS is read in any letter case; of
/// several spellings, the one that we write takes precedence. An unknown key of AWS is left out, since Cloud Map would
/// refuse it in a registration. So no attribute that this function cannot write is ever compared or sent again.
pub fn from_cloud_map(answered: impl IntoIterator<Item = (String, String)>) -> Attributes {
    let is_plain = |key: &str| !is_of_aws(key) || OF_AWS.contains(&key);
    let (plain, mut others): (Vec<_>, Vec<_>) =
        answered.into_iter().partition(|(key, _)| is_plain(key));
    others.sort();
    let known = others.iter().filter_map(|(key, value)| {
        let known = OF_AWS.into_iter().find(|known| known.eq_ignore_ascii_case(key))?;
        Some((known, value.as_str()))
    });
    // The last value of a key takes precedence.
    known.chain(plain.iter().map(|(key, value)| (key.as_str(), value.as_str()))).collect()
}

/// Returns the installation and the cluster in the marks of an instance of any owner.
pub fn installation_and_cluster(attributes: &Attributes) -> Option<(&str, &str)> {
    let flow = Flow::of(attributes)?;
    Some((attributes.get(flow.mark())?, attributes.cluster()?))
}

/// The marks of an instance of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks {
    /// The Service that it was registered for.
    pub service: ServiceRef,
    /// The pod of the endpoint, if it has one.
    pub pod: Option<String>,
}

impl Marks {
    pub fn write(&self, owner: &Owner) -> Attributes {
        let mut attributes = of_no_service(owner);
        attributes.extend([(NAMESPACE, &self.service.namespace), (SERVICE, &self.service.name)]);
        attributes.extend(self.pod.as_ref().map(|pod| (POD, pod)));
        attributes
    }
}

/// The marks of an instance of ours that belongs to no Service.
pub fn of_no_service(owner: &Owner) -> Attributes {
    Attributes::from([
        (SCHEMA, SCHEMA_VERSION.to_string().as_str()),
        (owner.flow.mark(), &owner.id),
        (CLUSTER, owner.cluster.as_str()),
    ])
}

/// Whether this release knows the mark, and so repairs it.
pub fn is_known_mark(key: &str) -> bool {
    let instance_marks = [OWNER, EXPORTER, CLUSTER, NAMESPACE, SERVICE, POD, ANNOTATED];
    let record_marks = [CLUSTERSET, HEARTBEAT, DIRECTION, EMPTY];
    instance_marks.contains(&key) || EXPORT.contains(&key) || record_marks.contains(&key)
}

/// The schema version in the marks of an instance, 0 if there is none.
pub fn schema(attributes: &Attributes) -> u32 {
    version(attributes.get(SCHEMA))
}

/// The schema version to write over `present`, never a lower one: the marks of a later release are kept with it.
pub fn schema_over(present: Option<&str>) -> String {
    SCHEMA_VERSION.max(version(present)).to_string()
}

fn version(text: Option<&str>) -> u32 {
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ClusterArn;

    fn owner(flow: Flow) -> Owner {
        let cluster = ClusterArn::parse("arn:aws:eks:eu-central-1:111122223333:cluster/blue");
        Owner { id: "cloud-map-sync".into(), cluster: cluster.expect("well formed"), flow }
    }

    fn written(flow: Flow) -> Attributes {
        let marks = Marks { service: ServiceRef::new("shop", "web"), pod: Some("web-1".into()) };
        marks.write(&owner(flow))
    }

    /// The marks of the first release, which every later one must read.
    fn recorded(mark: &str) -> Attributes {
        let recorded = [
            ("cloud-map-sync/schema", "1"),
            (mark, "cloud-map-sync"),
            ("cloud-map-sync/cluster", "arn:aws:eks:eu-central-1:111122223333:cluster/blue"),
            ("cloud-map-sync/namespace", "shop"),
            ("cloud-map-sync/service", "web"),
            ("cloud-map-sync/pod", "web-1"),
        ];
        recorded.into()
    }

    #[test]
    fn recorded_marks_of_schema_1_are_ours() {
        assert_eq!(written(Flow::Annotations), recorded("cloud-map-sync/owner"));
        assert_eq!(written(Flow::Exports), recorded("cloud-map-sync/exporter"));
    }

    #[test]
    fn installation_and_cluster_of_both_flows_are_read() {
        let expected =
            Some(("cloud-map-sync", "arn:aws:eks:eu-central-1:111122223333:cluster/blue"));
        assert_eq!(installation_and_cluster(&written(Flow::Annotations)), expected);
        assert_eq!(installation_and_cluster(&written(Flow::Exports)), expected);
        let mut both = written(Flow::Exports);
        both.insert(OWNER, "team-a");
        assert_eq!(installation_and_cluster(&both).map(|(owner, _)| owner), Some("team-a"));
        assert_eq!(installation_and_cluster(&Attributes::new()), None);
    }

    #[test]
    fn every_mark_that_this_release_writes_is_repaired() {
        let of_instances = [Flow::Annotations, Flow::Exports].map(written);
        let keys = of_instances.iter().flat_map(Attributes::keys).filter(|key| *key != SCHEMA);
        for key in keys.chain(EXPORT).chain([CLUSTERSET, HEARTBEAT, DIRECTION, EMPTY]) {
            assert!(is_known_mark(key), "{key}");
        }
        for key in ["cloud-map-sync/later", "cloud-map-sync/export.5", "CLUSTER_ID"] {
            assert!(!is_known_mark(key), "{key}");
        }
    }

    #[test]
    fn known_keys_of_aws_are_read_in_any_letter_case_and_unknown_ones_are_not() {
        let cases: [(&[_], &[_]); 5] = [
            (&[("aws_instance_ipv4", "10.0.0.9")], &[(IPV4, "10.0.0.9")]),
            (&[("Aws_Init_Health_Status", "HEALTHY")], &[(INITIAL_HEALTH, "HEALTHY")]),
            (&[(IPV4, "10.0.0.1"), ("aws_instance_ipv4", "10.0.0.9")], &[(IPV4, "10.0.0.1")]),
            (&[("aws_instance_ipv4", "2"), ("Aws_instance_ipv4", "1")], &[(IPV4, "2")]),
            (
                &[("aws_team", "shop"), ("AWS_TEAM", "shop"), ("aws", "1"), ("region", "x")],
                &[("aws", "1"), ("region", "x")],
            ),
        ];
        for (answered, expected) in cases {
            let owned = answered
                .iter()
                .map(|(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned()));
            let expected: Attributes = expected.iter().copied().collect();
            assert_eq!(from_cloud_map(owned), expected, "{answered:?}");
        }
    }

    #[test]
    fn a_schema_is_never_lowered() {
        let cases = [(None, "1"), (Some("1"), "1"), (Some("3"), "3"), (Some("x"), "1")];
        for (present, expected) in cases {
            assert_eq!(schema_over(present), expected);
        }
    }
}
