//! Parses the annotations of a Service into its claims. An invalid value is reported with the expected form and affects
//! this Service only.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::shorten;
use crate::model::attributes;
use crate::model::{
    Attributes, BadAnnotation, Claims, Documented, NAMES_OF_SERVICE, NamespaceReference,
    PortReference, RoutingPolicy, ServiceName, join,
};

pub(super) const HOSTNAME: &str = "hostname";
const NAMESPACE: &str = "namespace";
const TTL: &str = "ttl";
const ROUTING_POLICY: &str = "routing-policy";
pub(super) const PORT: &str = "port";
const PUBLISH: &str = "publish";
const ATTRIBUTES: &str = "attributes";
const MAX_INSTANCES: &str = "max-instances";
const TERMINATING: &str = "terminating";
const WHEN_NONE_READY: &str = "when-none-ready";

/// Every annotation, in the order of the documentation.
pub const DOCUMENTED: [Documented; 10] = [
    Documented {
        name: HOSTNAME,
        meaning: "the Cloud Map service's name, or several separated by commas, of which the first 100 count; opts the Service in",
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
        meaning: "attributes for every instance, `key=value` separated by commas; not `aws_…`, in any letter \
                  case, and of `ECS_…` only `ECS_SERVICE_NAME`, `ECS_CLUSTER_NAME` and \
                  `ECS_TASK_DEFINITION_FAMILY`",
        default: "none",
        example: "team=shop,tier=front",
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
    let mut reader = AnnotationReader { annotations, prefix, mistakes: Vec::new() };
    reader.value(HOSTNAME)?;
    let names = reader.read(HOSTNAME, parse_names).unwrap_or_default();
    let claims = Claims {
        names: names.first,
        names_left_out: names.left_out,
        namespace: reader
            .read(NAMESPACE, parse_namespace)
            .unwrap_or_else(|| default_namespace.clone()),
        ttl: reader.read(TTL, parse_ttl),
        routing_policy: reader.read(ROUTING_POLICY, parse_routing_policy),
        ports: reader.read(PORT, parse_ports).unwrap_or_default(),
        publish: reader.read(PUBLISH, choice(("false", false), ("true", true))).unwrap_or(true),
        attributes: reader.read(ATTRIBUTES, parse_attributes).unwrap_or_default(),
        maximum: reader.read(MAX_INSTANCES, parse_maximum),
        keeps_serving: reader
            .read(TERMINATING, choice(("drop", false), ("keep-serving", true)))
            .unwrap_or_default(),
        keeps_last: reader
            .read(WHEN_NONE_READY, choice(("empty", false), ("keep", true)))
            .unwrap_or_default(),
    };
    let mistakes = reader.mistakes;
    Some(if mistakes.is_empty() { Ok(claims) } else { Err(mistakes) })
}

/// Returns the keys under the prefix that the function does not read: misspelt keys, or keys of another program.
pub fn unknown_keys<'a>(
    annotations: &'a BTreeMap<String, String>,
    prefix: &str,
) -> impl Iterator<Item = &'a String> {
    annotations.keys().filter(move |key| {
        let name = key.strip_prefix(prefix);
        name.is_some_and(|name| DOCUMENTED.iter().all(|known| known.name != name))
    })
}

struct AnnotationReader<'a> {
    annotations: &'a BTreeMap<String, String>,
    prefix: &'a str,
    mistakes: Vec<BadAnnotation>,
}

impl AnnotationReader<'_> {
    fn value(&self, name: &str) -> Option<&String> {
        self.annotations.get(&format!("{}{name}", self.prefix))
    }

    /// Returns the parsed value; `None` if the annotation is not set or invalid. Records an invalid value as a mistake.
    fn read<T>(&mut self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let value = self.value(name)?;
        match parse(value.trim()) {
            Ok(parsed) => Some(parsed),
            Err(problem) => {
                let annotation = format!("{}{name}", self.prefix);
                let value = shorten(value);
                self.mistakes.push(BadAnnotation { annotation, value, problem });
                None
            }
        }
    }
}

/// The most attributes that an annotation may set. Cloud Map's limit is 30 custom attributes; our marks, the zone and
/// the Region take the others.
const MAX_ATTRIBUTES: usize = 20;

/// The most ports that an annotation may list: each pod is one instance for each port, under each name of its Service.
const MAX_PORTS: usize = 20;

/// The most mistakes that are reported for one annotation.
const MAX_MISTAKES: usize = 5;

/// Cloud Map's limit, in seconds.
const MAX_TTL: u32 = 2_147_483_647;

/// The names of the annotation `hostname`.
#[derive(Default)]
struct Names {
    /// The names that the Service may claim.
    first: Vec<ServiceName>,
    /// The number of names beyond `first`.
    left_out: usize,
}

/// Parses names of Cloud Map services, separated by commas. Checks all names and keeps the first [`NAMES_OF_SERVICE`].
fn parse_names(value: &str) -> Result<Names, String> {
    let mut names = Names::default();
    let mut seen = BTreeSet::new();
    for text in value.split(',').map(str::trim) {
        let name = ServiceName::parse(text).map_err(|problem| {
            format!("{:?} is not a valid Cloud Map service name: {problem}", shorten(text))
        })?;
        if seen.contains(&name) {
            continue;
        }
        if names.first.len() == NAMES_OF_SERVICE {
            names.left_out += 1;
        } else {
            seen.insert(name.clone());
            names.first.push(name);
        }
    }
    Ok(names)
}

fn parse_namespace(value: &str) -> Result<NamespaceReference, String> {
    let problem = "it must be the name, id or ARN of a Cloud Map namespace";
    NamespaceReference::parse(value).ok_or_else(|| problem.to_owned())
}

fn parse_ttl(value: &str) -> Result<u32, String> {
    let seconds: Option<u32> = value.parse().ok().filter(|seconds| *seconds <= MAX_TTL);
    seconds.ok_or_else(|| format!("it must be whole seconds from 0 to {MAX_TTL}"))
}

fn parse_routing_policy(value: &str) -> Result<RoutingPolicy, String> {
    let found = RoutingPolicy::parse(value);
    found.ok_or_else(|| "it must be MULTIVALUE or WEIGHTED".to_owned())
}

/// Parses ports of the Service, separated by commas.
fn parse_ports(value: &str) -> Result<Vec<PortReference>, String> {
    let mut ports = Vec::new();
    let count = value.split(',').count();
    if count > MAX_PORTS {
        return Err(format!("it names {count} ports; the limit is {MAX_PORTS}"));
    }
    for text in value.split(',').map(str::trim) {
        let port = parse_port(text).ok_or_else(|| {
            let text = shorten(text);
            format!("{text:?} is neither a port number from 1 to 65535 nor a port's name")
        })?;
        if !ports.contains(&port) {
            ports.push(port);
        }
    }
    Ok(ports)
}

/// Parses the number or name of a port. Digits are a number: Kubernetes requires at least one letter in a port's name.
fn parse_port(text: &str) -> Option<PortReference> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok().filter(|port| *port > 0).map(PortReference::Number);
    }
    let inner = text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
    (inner && text.len() <= 63).then(|| PortReference::Name(text.to_owned()))
}

/// Returns a parser of one of two words, each with its value.
fn choice<T: Copy>(no: (&str, T), yes: (&str, T)) -> impl Fn(&str) -> Result<T, String> {
    move |value| {
        let chosen = [no, yes].into_iter().find(|(word, _)| *word == value);
        let form = || format!("it must be {:?} or {:?}", no.0, yes.0);
        chosen.map(|(_, meaning)| meaning).ok_or_else(form)
    }
}

/// Parses a number of instances from 1 to 1,000, Cloud Map's limit for a service.
fn parse_maximum(value: &str) -> Result<usize, String> {
    let number = value.parse().ok().filter(|number| (1..=1000).contains(number));
    number.ok_or_else(|| "it must be a whole number from 1 to 1000".to_owned())
}

/// Parses attributes for every instance, `key=value` separated by commas. Checks Cloud Map's limits, so that each
/// mistake is reported with its key instead of as a refused registration.
fn parse_attributes(value: &str) -> Result<Attributes, String> {
    let mut all = BTreeMap::new();
    let mut mistakes = Vec::new();
    for pair in value.split(',').map(str::trim) {
        match attribute(pair) {
            Ok((key, value)) if all.insert(key, value).is_none() => {}
            Ok((key, _)) => mistakes.push(format!("the key {key:?} occurs twice")),
            Err(mistake) => mistakes.push(mistake),
        }
    }
    let keys: usize = all.keys().map(|key| key.len() + 1).sum();
    if all.len() > MAX_ATTRIBUTES || keys > 1024 {
        mistakes.push(format!(
            "it has {} keys with {keys} characters in total; the limits are {MAX_ATTRIBUTES} keys and 1,024 characters",
            all.len()
        ));
    }
    if mistakes.is_empty() { Ok(all.into_iter().collect()) } else { Err(joined(mistakes)) }
}

/// Joins the first mistakes and counts the others: an object has up to 256 KB of annotations, and each comma in them
/// can be a mistake.
fn joined(mut mistakes: Vec<String>) -> String {
    let others = mistakes.len().saturating_sub(MAX_MISTAKES);
    mistakes.truncate(MAX_MISTAKES);
    let others = (others > 0).then(|| format!("{others} more mistakes"));
    join(mistakes.into_iter().chain(others), "; ")
}

fn attribute(pair: &str) -> Result<(&str, &str), String> {
    let not_a_pair = || format!("{:?} is not of the form key=value", shorten(pair));
    let (key, value) = pair.split_once('=').ok_or_else(not_a_pair)?;
    check_key(key)?;
    check_value(key, value)?;
    Ok((key, value))
}

fn check_key(key: &str) -> Result<(), String> {
    let printable = key.bytes().all(|byte| (b'!'..=b'~').contains(&byte));
    if !(1..=255).contains(&key.len()) || !printable {
        let key = shorten(key);
        return Err(format!("the key {key:?} must be 1 to 255 printable ASCII characters"));
    }
    if attributes::is_reserved(key) {
        return Err(format!("the key {key:?} is reserved"));
    }
    Ok(())
}

fn check_value(key: &str, value: &str) -> Result<(), String> {
    let printable = value.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte));
    if value.len() > 1024 || !printable || value.starts_with([' ', '\t']) {
        return Err(format!(
            "the value of {key:?} must be at most 1,024 printable ASCII characters and must not begin with a space or a tab"
        ));
    }
    Ok(())
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
    fn annotations_under_the_prefix_that_are_not_read_are_unknown() {
        for (key, is_unknown) in [
            ("cloudmap.controller/hostname", false),
            ("cloudmap.controller/when-none-ready", false),
            ("cloudmap.controller/claim", true),
            ("cloudmap.controller/health", true),
            ("cloudmap.controller/hostnames", true),
            ("cloudmap.controller/Hostname", true),
            ("cloudmap.controller/", true),
            ("cloudmap.controllers/hostnames", false),
            ("external-dns.alpha.kubernetes.io/hostname", false),
        ] {
            let annotations = BTreeMap::from([(key.to_owned(), "x".to_owned())]);
            let found = unknown_keys(&annotations, "cloudmap.controller/").count();
            assert_eq!(found, usize::from(is_unknown), "{key}");
        }
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
    fn first_hundred_names_are_kept_in_their_order_and_the_others_are_counted() {
        let text = |names: std::ops::Range<usize>| {
            let names: Vec<String> = names.rev().map(|name| format!("n-{name}")).collect();
            names.join(",")
        };
        let read = |value: &str| {
            let claims = claimed(&[("hostname", value)]).expect("annotated").expect("valid");
            (claims.names.len(), claims.names[0].to_string(), claims.names_left_out)
        };
        assert_eq!(read(&text(0..100)), (100, "n-99".to_owned(), 0));
        assert_eq!(read(&text(0..30_000)), (100, "n-29999".to_owned(), 29_900));
        let twice = format!("{},{}", text(0..100), text(0..101));
        assert_eq!(read(&twice), (100, "n-99".to_owned(), 1));
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

    #[test]
    fn attributes_are_pairs_within_cloud_maps_limits() {
        let long_key = format!("{}=x", "k".repeat(256));
        let long_value = format!("k={}", "v".repeat(1025));
        let many: Vec<String> = (1..=21).map(|number| format!("{number}=x")).collect();
        let many = many.join(",");
        let cases = [
            ("team=a,tier=", Ok(2)),
            ("url=http://a=b", Ok(1)),
            ("team", Err("\"team\" is not of the form key=value")),
            ("", Err("\"\" is not of the form key=value")),
            ("=a", Err("the key \"\" must be 1 to 255 printable ASCII characters")),
            ("te am=a", Err("the key \"te am\" must be 1 to 255 printable ASCII characters")),
            ("a=1,a=2", Err("the key \"a\" occurs twice")),
            (
                "AWS_A=1,team,b=2,REGION=x",
                Err(
                    "the key \"AWS_A\" is reserved; \"team\" is not of the form key=value; the key \"REGION\" is reserved",
                ),
            ),
            ("AWS_INSTANCE_IPV4=1", Err("the key \"AWS_INSTANCE_IPV4\" is reserved")),
            ("aws_instance_ipv4=1", Err("the key \"aws_instance_ipv4\" is reserved")),
            ("Aws_team=1", Err("the key \"Aws_team\" is reserved")),
            ("aws-team=1,my_aws_team=1", Ok(2)),
            ("ECS_SERVICE_NAME=web,ECS_CLUSTER_NAME=shop,ECS_TASK_DEFINITION_FAMILY=web", Ok(3)),
            ("ECS_CLUSTER_ARN=1", Err("the key \"ECS_CLUSTER_ARN\" is reserved")),
            (
                &many,
                Err(
                    "it has 21 keys with 54 characters in total; the limits are 20 keys and 1,024 characters",
                ),
            ),
            (
                "a,b,c,d,e,f,g",
                Err(
                    "\"a\" is not of the form key=value; \"b\" is not of the form key=value; \"c\" is not of the form key=value; \"d\" is not of the form key=value; \"e\" is not of the form key=value; 2 more mistakes",
                ),
            ),
            ("REGION=1", Err("the key \"REGION\" is reserved")),
            ("cloud-map-sync/owner=1", Err("the key \"cloud-map-sync/owner\" is reserved")),
        ];
        for (value, expected) in cases {
            let found = parse_attributes(value).map(|attributes| attributes.len());
            assert_eq!(found, expected.map_err(str::to_owned), "{value}");
        }
        for value in [long_key.as_str(), &long_value, "k= x", "k=\u{e9}", "k=a\nb"] {
            assert!(parse_attributes(value).is_err(), "{value:?}");
        }
    }

    #[test]
    fn ports_are_limited_as_they_are_listed() {
        let listed = |count: usize| vec!["80"; count].join(",");
        assert_eq!(parse_ports(&listed(20)), Ok(vec![PortReference::Number(80)]));
        assert_eq!(parse_ports(&listed(21)), Err("it names 21 ports; the limit is 20".into()));
    }

    #[test]
    fn a_maximum_is_a_number_of_instances() {
        for (value, expected) in [("1", Some(1)), ("1000", Some(1000)), ("0", None), ("x", None)] {
            assert_eq!(parse_maximum(value).ok(), expected);
        }
    }
}
