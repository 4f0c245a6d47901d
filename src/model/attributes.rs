//! The attributes of an instance, and the marks among them: the attributes that identify its owner. [`Marks::write`]
//! writes them and [`Owner::service_of`] reads them.
//!
//! Marks are additive: a later release may add marks under a higher `schema`, and this release ignores unknown ones.

use super::{Attributes, ClusterArn, ServiceRef};

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
/// The availability zone, under the name that ECS uses.
pub const AVAILABILITY_ZONE: &str = "AVAILABILITY_ZONE";
/// The Region, under the name that ECS uses.
pub const REGION: &str = "REGION";

/// The keys that annotations set, separated by commas. Only these attributes may be repaired or removed.
pub const ANNOTATED: &str = "cloud-map-sync/attributes";

/// The time and size of a loss that the guard against mass deletion first saw, on an instance that it holds.
pub const SIGHTING: &str = "cloud-map-sync/guard";

/// The prefix of all marks.
pub const MARK_PREFIX: &str = "cloud-map-sync/";
/// The version of the marks.
pub const SCHEMA: &str = "cloud-map-sync/schema";
const SCHEMA_VERSION: u32 = 1;
const OWNER: &str = "cloud-map-sync/owner";
const CLUSTER: &str = "cloud-map-sync/cluster";
const NAMESPACE: &str = "cloud-map-sync/namespace";
const SERVICE: &str = "cloud-map-sync/service";
/// The name of the pod behind the instance.
pub const POD: &str = "cloud-map-sync/pod";
/// Marks an instance whose health we write. When the annotation is removed, it shows which instances we left unhealthy.
pub const HEALTH: &str = "cloud-map-sync/health";

/// The time since which the cluster of an instance of ours is known not to exist.
pub const ORPHANED: &str = "cloud-map-sync/orphaned-since";

/// The owner of instances: one installation, for one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// `OWNER_ID`.
    pub id: String,
    pub cluster: ClusterArn,
}

impl Owner {
    /// The owner in the marks of an instance if its installation is `id`, for any cluster.
    pub fn marked(id: &str, attributes: &Attributes) -> Option<Self> {
        let cluster = ClusterArn::parse(attributes.get(CLUSTER)?)?;
        let is_marked = attributes.get(OWNER).is_some_and(|owner| owner == id);
        is_marked.then(|| Self { id: id.to_owned(), cluster })
    }

    /// Whether the instance is ours: owner and cluster match exactly. There is no other rule.
    pub fn owns(&self, attributes: &Attributes) -> bool {
        attributes.get(OWNER).is_some_and(|owner| *owner == self.id)
            && attributes.get(CLUSTER).is_some_and(|cluster| cluster == self.cluster.as_str())
    }

    /// The Service in the marks of an instance of ours. One that lost its Service's name belongs to a Service
    /// that cannot exist, so it is cleaned up.
    pub fn service_of(&self, attributes: &Attributes) -> Option<ServiceRef> {
        let text = |key| attributes.get(key).cloned().unwrap_or_default();
        self.owns(attributes).then(|| ServiceRef::new(text(NAMESPACE), text(SERVICE)))
    }

    /// Whether an instance is ours and marked for this Service. The same as [`Self::service_of`] without a copy of the
    /// names: a plan asks this of every instance.
    pub fn marks_for(&self, attributes: &Attributes, service: &ServiceRef) -> bool {
        let is = |key, name: &str| attributes.get(key).is_some_and(|text| text == name);
        self.owns(attributes) && is(NAMESPACE, &service.namespace) && is(SERVICE, &service.name)
    }
}

/// The installation and the cluster in the marks of an instance of any owner.
pub fn marked(attributes: &Attributes) -> Option<(&str, &str)> {
    Some((attributes.get(OWNER)?, attributes.get(CLUSTER)?))
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
        let mut attributes = Attributes::from([
            (SCHEMA.to_owned(), SCHEMA_VERSION.to_string()),
            (OWNER.to_owned(), owner.id.clone()),
            (CLUSTER.to_owned(), owner.cluster.as_str().to_owned()),
            (NAMESPACE.to_owned(), self.service.namespace.clone()),
            (SERVICE.to_owned(), self.service.name.clone()),
        ]);
        attributes.extend(self.pod.clone().map(|pod| (POD.to_owned(), pod)));
        attributes
    }
}

/// Whether this release knows the mark, and so repairs it.
pub fn is_known_mark(key: &str) -> bool {
    [OWNER, CLUSTER, NAMESPACE, SERVICE, POD, HEALTH, ANNOTATED].contains(&key)
}

/// The schema version to write over `present`, never a lower one: the marks of a later release are kept with it.
pub fn schema_over(present: Option<&String>) -> String {
    let version = present.and_then(|text| text.parse().ok()).unwrap_or(0);
    SCHEMA_VERSION.max(version).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner() -> Owner {
        let cluster = ClusterArn::parse("arn:aws:eks:eu-central-1:111122223333:cluster/blue");
        Owner { id: "cloud-map-sync".into(), cluster: cluster.expect("well formed") }
    }

    fn marks() -> Marks {
        Marks { service: ServiceRef::new("shop", "web"), pod: Some("web-1".into()) }
    }

    #[test]
    fn the_service_of_marks_written_is_the_one_read() {
        assert_eq!(owner().service_of(&marks().write(&owner())), Some(marks().service));
    }

    /// The marks of the first release, which every later one must read.
    #[test]
    fn recorded_marks_of_schema_1_are_ours() {
        let recorded = [
            ("cloud-map-sync/schema", "1"),
            ("cloud-map-sync/owner", "cloud-map-sync"),
            ("cloud-map-sync/cluster", "arn:aws:eks:eu-central-1:111122223333:cluster/blue"),
            ("cloud-map-sync/namespace", "shop"),
            ("cloud-map-sync/service", "web"),
            ("cloud-map-sync/pod", "web-1"),
        ];
        let recorded: Attributes =
            recorded.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        assert_eq!(marks().write(&owner()), recorded);
    }

    #[test]
    fn an_instance_is_ours_only_when_owner_and_cluster_match_exactly() {
        let ours = marks().write(&owner());
        let with = |key: &str, value: &str| {
            let mut attributes = ours.clone();
            attributes.insert(key.to_owned(), value.to_owned());
            attributes
        };
        let mut unowned = ours.clone();
        unowned.remove(OWNER);
        let green = "arn:aws:eks:eu-central-1:111122223333:cluster/green";
        let cases = [
            (ours.clone(), true),
            (with(SCHEMA, "7"), true),
            (with("cloud-map-sync/later", "x"), true),
            (with(OWNER, "cloud-map-sync2"), false),
            (with(OWNER, "cloud-map"), false),
            (with(CLUSTER, green), false),
            (unowned, false),
            (Attributes::new(), false),
        ];
        for (attributes, expected) in cases {
            assert_eq!(owner().owns(&attributes), expected, "{attributes:?}");
        }
    }

    #[test]
    fn cluster_is_read_from_marks_of_the_installation_only() {
        let ours = marks().write(&owner());
        assert_eq!(Owner::marked("cloud-map-sync", &ours), Some(owner()));
        assert_eq!(Owner::marked("cloud-map-sync2", &ours), None);
        let mut broken = ours;
        broken.insert(CLUSTER.to_owned(), "blue".to_owned());
        assert_eq!(Owner::marked("cloud-map-sync", &broken), None);
    }

    #[test]
    fn a_schema_is_never_lowered() {
        let cases = [(None, "1"), (Some("1"), "1"), (Some("3"), "3"), (Some("x"), "1")];
        for (present, expected) in cases {
            let present = present.map(str::to_owned);
            assert_eq!(schema_over(present.as_ref()), expected);
        }
    }
}
