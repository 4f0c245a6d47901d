//! Parses the annotations of a Service into its claims. An invalid value is reported with the expected form and affects
//! this Service only.

mod value;

use std::collections::BTreeMap;

use crate::error::shorten;
use crate::model::{BadAnnotation, Claims, NamespaceReference};

/// An annotation in the documentation.
#[derive(Clone, Copy, Debug)]
pub struct Documented {
    /// The key after the prefix.
    pub name: &'static str,
    pub meaning: &'static str,
    /// The value or effect if the annotation is not set.
    pub default: &'static str,
    pub example: &'static str,
}

const HOSTNAME: &str = "hostname";
const NAMESPACE: &str = "namespace";
const TTL: &str = "ttl";
const ROUTING_POLICY: &str = "routing-policy";
const PORT: &str = "port";
const CLAIM: &str = "claim";
const PUBLISH: &str = "publish";
const ATTRIBUTES: &str = "attributes";
const MAX_INSTANCES: &str = "max-instances";
const HEALTH: &str = "health";
const TERMINATING: &str = "terminating";
const WHEN_NONE_READY: &str = "when-none-ready";

/// Every annotation, in the order of the documentation.
pub const DOCUMENTED: [Documented; 12] = [
    Documented {
        name: HOSTNAME,
        meaning: "the Cloud Map service's name, or several separated by commas, of which the first 20 count; opts the Service in",
        default: "the Service is ignored",
        example: "web",
    },
    Documented {
        name: NAMESPACE,
        meaning: "the Cloud Map namespace, by name, id or ARN",
        default: "the cluster's `defaultNamespace`, else the Kubernetes namespace's name",
        example: "prod.local",
    },
    Documented {
        name: TTL,
        meaning: "TTL in seconds of the records of a DNS service: of one that is created, and of an \
                  existing one that carries our tag",
        default: "`60` at creation; the TTL of an existing service is not changed",
        example: "15",
    },
    Documented {
        name: ROUTING_POLICY,
        meaning: "how a DNS service that is created answers queries: `MULTIVALUE` with up to eight \
                  instances, `WEIGHTED` with one, picked at random (at most 100 instances)",
        default: "`MULTIVALUE`",
        example: "WEIGHTED",
    },
    Documented {
        name: PORT,
        meaning: "the Service's port to register, by name or number, or up to 20 separated by commas",
        default: "no port; in an existing SRV service the Service's only port",
        example: "http",
    },
    Documented {
        name: CLAIM,
        meaning: "`shared` registers the endpoints of several Services of the cluster under one name, if \
                  all Services that claim it set `shared`; with `exclusive` only one of them gets it",
        default: "`exclusive`",
        example: "shared",
    },
    Documented {
        name: PUBLISH,
        meaning: "`false` deregisters the Service's instances and keeps its claim to the name",
        default: "`true`",
        example: "false",
    },
    Documented {
        name: MAX_INSTANCES,
        meaning: "registers at most this number of instances, the same ones in every run: for a canary \
                  beside ECS",
        default: "no limit",
        example: "1",
    },
    Documented {
        name: ATTRIBUTES,
        meaning: "attributes for every instance, `key=value` separated by commas; keys that begin with `aws_`, in \
                  any letter case, are Cloud Map's",
        default: "none",
        example: "team=shop,tier=front",
    },
    Documented {
        name: HEALTH,
        meaning: "`membership` registers only ready pods; `custom` also registers the others, and writes \
                  readiness as Cloud Map's custom health",
        default: "`membership`",
        example: "custom",
    },
    Documented {
        name: TERMINATING,
        meaning: "`keep-serving` keeps a terminating pod registered while it serves, `drop` \
                  deregisters it at once",
        default: "`drop`",
        example: "keep-serving",
    },
    Documented {
        name: WHEN_NONE_READY,
        meaning: "if no endpoint is ready, `keep` leaves the last instances and `empty` deregisters them",
        default: "`empty`",
        example: "keep",
    },
];

/// The claims of a Service; `None` if it has no hostname annotation.
///
/// # Errors
/// Returns every invalid annotation.
pub fn claims(
    annotations: &BTreeMap<String, String>,
    prefix: &str,
    default_namespace: &NamespaceReference,
) -> Option<Result<Claims, Vec<BadAnnotation>>> {
    let mut reader = Reader { annotations, prefix, mistakes: Vec::new() };
    reader.value(HOSTNAME)?;
    let claims = Claims {
        names: reader.read(HOSTNAME, value::parse_names).unwrap_or_default(),
        namespace: reader
            .read(NAMESPACE, value::parse_namespace)
            .unwrap_or_else(|| default_namespace.clone()),
        ttl: reader.read(TTL, value::parse_ttl),
        routing_policy: reader.read(ROUTING_POLICY, value::parse_routing_policy),
        ports: reader.read(PORT, value::parse_ports).unwrap_or_default(),
        claim: reader.read(CLAIM, value::parse_claim).unwrap_or_default(),
        publish: reader.read(PUBLISH, value::parse_boolean).unwrap_or(true),
        attributes: reader.read(ATTRIBUTES, value::parse_attributes).unwrap_or_default(),
        maximum: reader.read(MAX_INSTANCES, value::parse_maximum),
        health: reader.read(HEALTH, value::parse_health).unwrap_or_default(),
        keeps_serving: reader.read(TERMINATING, value::parse_keeps_serving).unwrap_or_default(),
        keeps_last: reader.read(WHEN_NONE_READY, value::parse_keeps_last).unwrap_or_default(),
    };
    let mistakes = reader.mistakes;
    Some(if mistakes.is_empty() { Ok(claims) } else { Err(mistakes) })
}

struct Reader<'a> {
    annotations: &'a BTreeMap<String, String>,
    prefix: &'a str,
    mistakes: Vec<BadAnnotation>,
}

impl Reader<'_> {
    fn value(&self, name: &str) -> Option<&String> {
        self.annotations.get(&format!("{}{name}", self.prefix))
    }

    /// The parsed value; `None` if the annotation is not set or invalid. An invalid value is recorded.
    fn read<T>(&mut self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let value = self.value(name)?;
        match parse(value.trim()) {
            Ok(parsed) => Some(parsed),
            Err(problem) => {
                let (annotation, value) = (format!("{}{name}", self.prefix), shorten(value));
                self.mistakes.push(BadAnnotation { annotation, value, problem });
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{PortReference, ServiceName};

    fn claimed(annotations: &[(&str, &str)]) -> Option<Result<Claims, Vec<BadAnnotation>>> {
        let annotations = annotations
            .iter()
            .map(|(name, value)| (format!("cloudmap.controller/{name}"), (*value).to_owned()));
        let default = NamespaceReference::NameOrId("shop".into());
        claims(&annotations.collect(), "cloudmap.controller/", &default)
    }

    #[test]
    fn a_service_without_a_hostname_claims_nothing() {
        assert_eq!(claimed(&[("namespace", "prod"), ("port", "http")]), None);
    }

    #[test]
    fn every_documented_example_is_accepted() {
        let all = DOCUMENTED.map(|annotation| (annotation.name, annotation.example));
        let claims = claimed(&all).expect("annotated").expect("valid");
        assert_eq!(claims.namespace.to_string(), "prod.local");
        assert_eq!((claims.ttl, claims.ports.len()), (Some(15), 1));
    }

    #[test]
    fn the_namespace_defaults_and_lists_are_split() {
        let claims = claimed(&[("hostname", "web, www,web"), ("port", "http, 9090")]);
        let claims = claims.expect("annotated").expect("valid");
        let names: Vec<&str> = claims.names.iter().map(ServiceName::as_str).collect();
        assert_eq!(names, ["web", "www"]);
        assert_eq!(claims.namespace, NamespaceReference::NameOrId("shop".into()));
        let ports = [PortReference::Name("http".into()), PortReference::Number(9090)];
        assert_eq!(claims.ports, ports);
    }

    #[test]
    fn every_mistake_names_the_expected_form() {
        let mistakes =
            claimed(&[("hostname", "web,,x"), ("namespace", "a b"), ("ttl", "-1"), ("port", "0")]);
        let mistakes = mistakes.expect("annotated").expect_err("all are wrong");
        let lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        annotation cloudmap.controller/hostname is "web,,x": "" is not a valid Cloud Map service name: it is empty
        annotation cloudmap.controller/namespace is "a b": it must be the name, id or ARN of a Cloud Map namespace
        annotation cloudmap.controller/ttl is "-1": it must be whole seconds from 0 to 2147483647
        annotation cloudmap.controller/port is "0": "0" is neither a port number from 1 to 65535 nor a port's name
        "#);
    }

    #[test]
    fn a_report_of_a_long_value_is_short() {
        let long = "é".repeat(200_000);
        let many = vec!["é"; 50_000].join(",");
        for (name, value) in
            [("port", &long), ("attributes", &long), ("attributes", &many), ("hostname", &many)]
        {
            let mistakes = claimed(&[("hostname", "web"), (name, value)]);
            let mistakes = mistakes.expect("annotated").expect_err(name);
            assert!(mistakes[0].to_string().len() < 2_000, "{name}: {}", mistakes[0]);
        }
    }

    #[test]
    fn a_long_value_is_shortened() {
        let mistakes = claimed(&[("hostname", &"é".repeat(500))]);
        let mistakes = mistakes.expect("annotated").expect_err("no name");
        assert_eq!(mistakes[0].value.chars().count(), 81);
    }
}
