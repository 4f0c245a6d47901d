//! Compares the instances of a Service with its neighbours: the instances of other owners under the same name. Callers
//! rely on properties that all neighbours have: they read `AWS_INSTANCE_PORT`, filter by `ECS_SERVICE_NAME`, or connect
//! over IPv6. An instance without such a property is never called, or breaks its caller. All differences are one remark
//! on the name, with the annotations that remove them. The remark holds nothing back.
//!
//! The rule:
//! - The port counts if every neighbour has one and no instance of the Service does.
//! - Any other attribute counts if every neighbour has it with the same value, no instance of the Service has it, and
//!   the annotation `attributes` may set it. An ECS task or an instance of an unknown owner must be among the
//!   neighbours: the annotations of another cluster, such as `color=green`, are its own choice, and other controllers
//!   keep internal data in attributes.
//! - The address family counts if no neighbour has an address of a family that the Service's instances have.
//!
//! So a difference is not reported if no annotation removes it, such as the zone or the health of a task. Nor is it
//! reported if callers cannot select all neighbours by it, such as an attribute with a different value on each of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};

use super::identity::Identity;
use super::observation::Observation;
use crate::error::shorten_to;
use crate::model::attributes::{PORT, is_reserved};
use crate::model::{
    Attributes, Claims, Family, Foreign, PublishedService, ServiceKey, ServicePort, join,
    join_first,
};

/// The EC2 instance of a task, under the name that ECS uses. A pod is on another one.
const HOST_OF_TASK: &str = "EC2_INSTANCE_ID";

/// The longest value of the annotation `attributes` in a remark, in characters. A longer one is described, since a
/// person who copies a value that is cut loses attributes.
const LONGEST_ANNOTATION: usize = 400;

/// The most attribute keys that a remark lists, and their length in characters. The annotation in the remark has more.
const MOST_KEYS: usize = 5;
const LONGEST_KEYS: usize = 150;

/// The most ports of a Service in a remark.
const MOST_PORTS: usize = 5;

/// The properties that all instances of other owners under a name have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbours<'a> {
    /// The attributes with one value that an annotation may set.
    attributes: BTreeMap<&'a str, &'a str>,
    /// The ports of all instances; `None` if an instance has no port.
    ports: Option<BTreeSet<u16>>,
    /// The families of all addresses; `None` if an instance, such as an alias, has no address.
    families: Option<BTreeSet<Family>>,
}

/// The instances of a Service under a name.
pub struct ServiceInstances<'a> {
    pub published: &'a PublishedService,
    pub claims: &'a Claims,
    /// The attributes with which its endpoints are to be registered.
    pub wanted: Vec<&'a Attributes>,
    /// The keys of the attributes that were added to registered instances by hand, and stay.
    pub added_by_hand: BTreeSet<&'a str>,
}

/// The properties that all neighbours have, and that the Service's instances lack.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NeighbourDifference {
    /// The keys of the attributes.
    missing: Vec<String>,
    /// The annotations that add them.
    annotations: Vec<String>,
    /// The family of the neighbours, if the Service's instances have only the other one.
    family: Option<Family>,
}

impl<'a> Neighbours<'a> {
    /// The common properties of the instances of other owners under a key. `None` if there are no such instances.
    pub(super) fn under(observation: &'a Observation, key: &ServiceKey) -> Option<Self> {
        let instances = observation.registry.instances(key);
        let foreign = instances.filter(|(_, attributes)| !observation.owner.owns(attributes));
        Self::of(&foreign.map(|(id, attributes)| (&**id, attributes)).collect::<Vec<_>>())
    }

    /// The common properties of these instances, each given with its id; `None` if there are no instances.
    fn of(instances: &[(&str, &'a Attributes)]) -> Option<Self> {
        let (_, first) = instances.first()?;
        let has_ecs_or_unknown_owner = instances.iter().any(|(id, attributes)| {
            matches!(attributes.likely_owner(id), Foreign::Ecs | Foreign::Unknown)
        });
        let mut attributes = BTreeMap::new();
        for (key, value) in first.iter().filter(|_| has_ecs_or_unknown_owner) {
            let is_common = instances.iter().all(|(_, other)| other.get(key) == Some(value));
            if is_common && can_be_annotated(key, value) {
                attributes.insert(key, value);
            }
        }
        let port = |attributes: &Attributes| attributes.get(PORT)?.parse().ok();
        let ports = instances.iter().map(|(_, attributes)| port(attributes)).collect();
        let mut families = Some(BTreeSet::new());
        for (_, attributes) in instances {
            let own_families = families_of(attributes);
            families = families.filter(|_| !own_families.is_empty());
            if let Some(all) = &mut families {
                all.extend(own_families.iter().copied());
            }
        }
        Some(Self { attributes, ports, families })
    }

    /// Whether all neighbours have a port.
    pub(super) fn have_ports(&self) -> bool {
        self.ports.is_some()
    }

    /// The difference of a Service's instances; `None` if there is none. A Service without instances is not compared.
    /// Nor is an export, since its owner does not choose the attributes.
    pub(super) fn difference_to(&self, ours: &ServiceInstances) -> Option<NeighbourDifference> {
        if ours.wanted.is_empty() || ours.published.export.is_some() {
            return None;
        }
        let mut difference = NeighbourDifference {
            missing: Vec::new(),
            annotations: Vec::new(),
            family: self.family_without(ours),
        };
        if let Some(ports) = self.ports.as_ref().filter(|_| !ours.have(PORT)) {
            difference.missing.push(PORT.to_owned());
            difference.annotations.push(port_annotation(ports, ours.published));
        }
        let attributes = self.attributes.iter();
        let missing: Vec<_> = attributes.filter(|(key, _)| !ours.have(key)).collect();
        if !missing.is_empty() {
            difference.missing.extend(missing.iter().map(|(key, _)| (**key).to_owned()));
            let added = missing.iter().map(|(key, value)| (**key, **value));
            let pairs = ours.claims.attributes.iter().chain(added);
            let pairs = join(pairs.map(|(key, value)| format!("{key}={value}")), ",");
            difference.annotations.push(if pairs.len() <= LONGEST_ANNOTATION {
                format!("attributes: {pairs}")
            } else {
                "attributes with these keys and the values of the other instances".to_owned()
            });
        }
        let is_none = difference.missing.is_empty() && difference.family.is_none();
        (!is_none).then_some(difference)
    }

    /// The family of the neighbours, if the Service's instances have only the other one.
    fn family_without(&self, ours: &ServiceInstances) -> Option<Family> {
        let families = self.families.as_ref()?;
        let mut own = ours.wanted.iter().flat_map(|attributes| families_of(attributes));
        if own.any(|family| families.contains(&family)) { None } else { families.first().copied() }
    }
}

impl ServiceInstances<'_> {
    /// Whether one of the instances has the attribute after the plan.
    fn have(&self, key: &str) -> bool {
        self.added_by_hand.contains(key)
            || self.wanted.iter().any(|attributes| attributes.contains_key(key))
    }
}

fn families_of(attributes: &Attributes) -> BTreeSet<Family> {
    Identity::of(attributes, false).addresses().map(Family::of).collect()
}

/// Whether the annotation `attributes` can express the attribute: it separates pairs by commas, and trims the spaces
/// around them.
fn can_be_annotated(key: &str, value: &str) -> bool {
    let is_plain = |text: &str| text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let is_key = !key.is_empty() && !key.contains([' ', '=', ',']) && is_plain(key);
    let is_value = !value.contains(',') && value.trim() == value && is_plain(value);
    is_key && is_value && !is_reserved(key) && key != HOST_OF_TASK
}

/// The annotation for a port of the Service. It names the ports that lead to a port of a neighbour, or else all ports.
fn port_annotation(neighbours: &BTreeSet<u16>, published: &PublishedService) -> String {
    let leads_to_one = |port: &&ServicePort| {
        let mut endpoints = published.read_endpoints().iter();
        endpoints.any(|endpoint| {
            endpoint.ports.get(&port.name).is_some_and(|target| neighbours.contains(target))
        })
    };
    let leading: Vec<&ServicePort> = published.ports.iter().filter(leads_to_one).collect();
    let ports = if leading.is_empty() { published.ports.iter().collect() } else { leading };
    if ports.is_empty() {
        let port = neighbours.first().copied().unwrap_or_default();
        return format!("port: \"{port}\" (the Service has no port yet)");
    }
    let ports = ports.iter().map(|port| format!("\"{}\"", port.number));
    format!("port: {}", join(ports.take(MOST_PORTS), " or "))
}

impl Display for NeighbourDifference {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { missing, annotations, family } = self;
        let mut sentences = Vec::new();
        if !missing.is_empty() {
            let keys = shorten_to(&join_first(missing, MOST_KEYS), LONGEST_KEYS);
            let annotations = join(annotations, " and ");
            sentences.push(format!(
                "every other instance under this name has {keys}, which those of this Service lack, so callers that read it do not reach them: annotate {annotations}"
            ));
        }
        sentences.extend(family.map(|family| {
            format!(
                "every other instance under this name has {family} addresses alone, and those of this Service have none, so callers of that family do not reach them: add {family} to ipFamilies of the Service, or choose another name"
            )
        }));
        f.write_str(&sentences.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::{ClusterArn, Endpoint, Flow, Marks, NamespaceReference, Owner, ServiceRef};

    /// `key=value` separated by spaces; `4` and `6` are an address of the family.
    fn attributes(text: &str) -> Attributes {
        let pairs = text.split_whitespace().map(|pair| match pair {
            "4" => ("AWS_INSTANCE_IPV4", "10.0.0.1"),
            "6" => ("AWS_INSTANCE_IPV6", "fd00::1"),
            pair => pair.split_once('=').expect("a pair"),
        });
        pairs.collect()
    }

    fn claims(attributes: &str) -> Claims {
        Claims {
            names: Vec::new(),
            names_left_out: 0,
            namespace: NamespaceReference::NameOrId("shop.local".into()),
            ttl: None,
            routing_policy: None,
            ports: Vec::new(),
            publish: true,
            attributes: self::attributes(attributes),
            maximum: None,
            keeps_serving: false,
            keeps_last: false,
        }
    }

    /// A Service with these ports, and an endpoint: name, number and target.
    fn published(ports: &[(&str, u16, u16)]) -> PublishedService {
        let targets = ports.iter().map(|(name, _, target)| ((*name).to_owned(), *target));
        let ports_of_pod = Arc::new(targets.collect());
        let endpoint = Endpoint { ports: ports_of_pod, ..Endpoint::default() };
        let ports = ports
            .iter()
            .map(|(name, number, _)| ServicePort { name: (*name).into(), number: *number });
        PublishedService {
            uid: String::new(),
            created: 0,
            claims: Ok(claims("")),
            ports: ports.collect(),
            families: BTreeSet::new(),
            endpoints: Some(vec![endpoint].into()),
            truncated: false,
            left_out: 0,
            unknown_annotations: None,
            export: None,
        }
    }

    const TASK: &str = "4 AWS_INIT_HEALTH_STATUS=HEALTHY AVAILABILITY_ZONE=eu-central-1a REGION=eu-central-1 \
                        EC2_INSTANCE_ID=i-0 ECS_SERVICE_NAME=web";

    /// The difference of instances with the attributes `ours` from `neighbours`.
    fn difference(neighbours: &[&str], ours: &[&str], published: &PublishedService) -> String {
        let neighbours: Vec<Attributes> = neighbours.iter().map(|text| attributes(text)).collect();
        let neighbours: Vec<_> = neighbours.iter().map(|attributes| ("id", attributes)).collect();
        let ours: Vec<Attributes> = ours.iter().map(|text| attributes(text)).collect();
        let ours = ServiceInstances {
            published,
            claims: &claims("team=shop"),
            wanted: ours.iter().collect(),
            added_by_hand: BTreeSet::from(["by-hand"]),
        };
        let neighbours = Neighbours::of(&neighbours);
        let difference = neighbours.and_then(|neighbours| neighbours.difference_to(&ours));
        difference.map_or_else(String::new, |difference| {
            let family = difference.family.map(|family| family.to_string());
            join(difference.annotations.into_iter().chain(family), "; ")
        })
    }

    #[test]
    fn each_difference_has_what_ends_it() {
        let web = published(&[("http", 80, 8080), ("grpc", 81, 9090)]);
        let cases: &[(&[&str], &[&str], &str)] = &[
            (&[], &["4"], ""),
            (&[TASK], &[], ""),
            (&[TASK], &["4"], "attributes: team=shop,ECS_SERVICE_NAME=web"),
            (&[TASK], &["4 ECS_SERVICE_NAME=web-eks"], ""),
            (&[TASK], &["4", "4 ECS_SERVICE_NAME=web"], ""),
            // Not every neighbour has it, or not with one value.
            (&[TASK, "4"], &["4"], ""),
            (&["4 version=1", "4 version=2"], &["4"], ""),
            (&["4 version=1", "4 version=1"], &["4"], "attributes: team=shop,version=1"),
            (&["4 by-hand=1"], &["4"], ""),
            // No annotation can write it.
            (&["4 ECS_X=1", "4 ECS_X=1"], &["4"], ""),
            (&["4 tags=a,b"], &["4"], ""),
            (&["4 cloud-map-sync/x=1"], &["4"], ""),
            // Another cluster chose it, and a task has it, too.
            (&["4 cloud-map-sync/x=1 color=green"], &["4"], ""),
            (
                &["4 cloud-map-sync/x=1 color=green", "4 color=green"],
                &["4"],
                "attributes: team=shop,color=green",
            ),
            (&["4 appmesh.k8s.aws/mesh=shop app=web"], &["4"], ""),
            // Ports differ between the tasks of one host.
            (&["4 AWS_INSTANCE_PORT=9090"], &["4"], "port: \"81\""),
            (&["4 AWS_INSTANCE_PORT=32768", "4 AWS_INSTANCE_PORT=8080"], &["4"], "port: \"80\""),
            (&["4 AWS_INSTANCE_PORT=32768"], &["4"], "port: \"80\" or \"81\""),
            (&["4 AWS_INSTANCE_PORT=1", "4"], &["4"], ""),
            (&["4 AWS_INSTANCE_PORT=1"], &["4 AWS_INSTANCE_PORT=2"], ""),
            (&["4 cloud-map-sync/x=1 AWS_INSTANCE_PORT=8080"], &["4"], "port: \"80\""),
            // A family counts if the neighbours have no other one.
            (&["6", "6"], &["4"], "IPv6"),
            (&["4"], &["6"], "IPv4"),
            (&["4 6"], &["4"], ""),
            (&["4", "6"], &["4"], ""),
            (&["6"], &["4", "4 6"], ""),
            (&["6", "AWS_INSTANCE_CNAME=a.example.com"], &["4"], ""),
        ];
        for (neighbours, ours, expected) in cases {
            let found = difference(neighbours, ours, &web);
            assert_eq!(found, *expected, "{neighbours:?} {ours:?}");
        }
        let without_ports = difference(&["4 AWS_INSTANCE_PORT=8080"], &["4"], &published(&[]));
        assert_eq!(without_ports, "port: \"8080\" (the Service has no port yet)");
    }

    #[test]
    fn attributes_of_an_export_are_not_compared_and_those_of_its_neighbours_are_no_choice() {
        let cluster = ClusterArn::parse("arn:aws:eks:eu-central-1:111122223333:cluster/green");
        let cluster = cluster.expect("an ARN");
        let owner = Owner { id: "cloud-map-sync".into(), cluster, flow: Flow::Exports };
        let mut exported =
            Marks { service: ServiceRef::new("shop", "web"), pod: None }.write(&owner);
        exported.extend([("CLUSTER_ID", "green"), ("SERVICE_TYPE", "Headless")]);
        let neighbours = Neighbours::of(&[("id", &exported)]).expect("one");
        assert!(neighbours.attributes.is_empty(), "{neighbours:?}");
    }

    #[test]
    fn one_sentence_has_all_differences() {
        let difference = NeighbourDifference {
            missing: vec!["AWS_INSTANCE_PORT".into(), "ECS_SERVICE_NAME".into()],
            annotations: vec!["port: \"80\"".into(), "attributes: ECS_SERVICE_NAME=web".into()],
            family: None,
        };
        insta::assert_snapshot!(difference, @r#"every other instance under this name has AWS_INSTANCE_PORT, ECS_SERVICE_NAME, which those of this Service lack, so callers that read it do not reach them: annotate port: "80" and attributes: ECS_SERVICE_NAME=web"#);
        let of_family = NeighbourDifference {
            missing: Vec::new(),
            annotations: Vec::new(),
            family: Some(Family::V6),
        };
        insta::assert_snapshot!(of_family, @"every other instance under this name has IPv6 addresses alone, and those of this Service have none, so callers of that family do not reach them: add IPv6 to ipFamilies of the Service, or choose another name");
        let both = NeighbourDifference { family: Some(Family::V6), ..difference.clone() };
        assert_eq!(both.to_string(), format!("{difference}; {of_family}"));
    }
}
