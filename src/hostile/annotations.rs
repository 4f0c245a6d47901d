//! Annotations of a Service, which every user may write who may edit one.

use std::collections::BTreeMap;

use super::rules::{assert_line, assert_namespace_name, assert_service_name};
use super::{Random, try_all};
use crate::clusterset::limits;
use crate::kubernetes::annotation::{DOCUMENTED, claims};
use crate::model::{Attributes, Claims, NamespaceReference, PortReference};

pub const PREFIX: &str = "cloudmap.controller/";
/// Of one annotation, however long its value is: 256 KB of annotations must not fill a report.
const LONGEST: usize = 6_000;
/// Values besides the documented examples.
const VALUES: [(&str, &str); 8] = [
    ("hostname", "web,www,db.prod"),
    ("hostname", "_"),
    ("namespace", "arn:aws:servicediscovery:eu-central-1:111122223333:namespace/ns-abc"),
    ("port", "http,9090"),
    ("attributes", "team=shop,tier=front,empty="),
    ("attributes", "a,b,c"),
    ("attributes", "aws_instance_ipv4=10.0.9.9"),
    ("ttl", "2147483647"),
];

/// Some annotations, of which most are damaged.
pub fn annotations(random: &mut Random) -> BTreeMap<String, String> {
    let mut all = BTreeMap::from([(format!("{PREFIX}hostname"), "web".to_owned())]);
    for _ in 0..=random.below(4) {
        let documented = random.pick(&DOCUMENTED);
        let examples = [random.pick(&VALUES), &(documented.name, documented.example)];
        let (name, value) = **random.pick(&examples);
        let value = match random.below(4) {
            0 => value.to_owned(),
            1 => random.text(),
            2 => [value; 200].join(","),
            _ => random.damaged_text(value),
        };
        all.insert(format!("{PREFIX}{name}"), value);
    }
    all
}

fn assert_claims(claims: &Claims) {
    assert!(!claims.names.is_empty());
    claims.names.iter().for_each(|name| assert_service_name(name.as_str()));
    match &claims.namespace {
        NamespaceReference::NameOrId(name) => assert_namespace_name(name),
        NamespaceReference::Arn(arn) => assert!(arn.starts_with("arn:"), "{arn:?}"),
    }
    assert!(claims.ttl.is_none_or(|ttl| i32::try_from(ttl).is_ok()), "{:?}", claims.ttl);
    assert!(claims.ports.iter().all(|port| *port != PortReference::Number(0)));
    assert!(claims.maximum.is_none_or(|maximum| (1..=1000).contains(&maximum)));
    assert!(claims.attributes.len() <= 20);
    for (key, value) in &claims.attributes {
        limits::assert_accepted(&Attributes::from([(key, value)]));
        let aws = key.to_ascii_uppercase().starts_with("AWS_");
        let of_task = ["ECS_CLUSTER_NAME", "ECS_SERVICE_NAME", "ECS_TASK_DEFINITION_FAMILY"];
        let of_ecs = key.starts_with("ECS_") && !of_task.contains(&key);
        let reserved = aws || of_ecs || key.starts_with("cloud-map-sync/");
        assert!(!reserved && !["AVAILABILITY_ZONE", "REGION"].contains(&key), "{key}");
    }
}

#[test]
fn annotations_are_a_claim_that_cloud_map_accepts_or_mistakes_in_a_line_each() {
    let default = NamespaceReference::NameOrId("shop".into());
    try_all("annotations", |random| {
        match claims(&annotations(random), PREFIX, &default).expect("annotated") {
            Ok(claims) => {
                assert_claims(&claims);
                true
            }
            Err(mistakes) => {
                assert!(mistakes.len() <= DOCUMENTED.len());
                for mistake in &mistakes {
                    assert_line(mistake, LONGEST);
                }
                false
            }
        }
    });
}
