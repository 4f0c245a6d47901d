//! The annotations on a Service, parsed into what they claim. A value that cannot be used is told
//! with what would be right, and never stops another Service.

use std::collections::BTreeMap;

use crate::model::{BadAnnotation, Claims, NamespaceReference, PortReference, ServiceName};

/// One annotation as the documentation lists it.
#[derive(Clone, Copy, Debug)]
pub struct Documented {
    /// The key after the prefix.
    pub name: &'static str,
    /// What it does.
    pub meaning: &'static str,
    /// What holds without it.
    pub default: &'static str,
    /// A value that is right.
    pub example: &'static str,
}

const HOSTNAME: &str = "hostname";
const NAMESPACE: &str = "namespace";
const TTL: &str = "ttl";
const PORT: &str = "port";

/// Every annotation, in the order of the documentation.
pub const DOCUMENTED: [Documented; 4] = [
    Documented {
        name: HOSTNAME,
        meaning: "the Cloud Map service's name, or several separated by commas; opts the Service in",
        default: "the Service is left alone",
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
        meaning: "TTL in seconds of the records of a DNS service that is created",
        default: "`60`",
        example: "15",
    },
    Documented {
        name: PORT,
        meaning: "the Service's port to register, by name or number, or several separated by commas",
        default: "no port; in an existing SRV service the Service's only port",
        example: "http",
    },
];

/// The longest TTL that Cloud Map takes, in seconds.
const MAXIMUM_TTL: u32 = 2_147_483_647;

/// What a Service's annotations claim; `None` where the Service is not annotated with a hostname.
///
/// # Errors
/// With every annotation that cannot be used.
pub fn claims(
    annotations: &BTreeMap<String, String>,
    prefix: &str,
    default_namespace: &NamespaceReference,
) -> Option<Result<Claims, Vec<BadAnnotation>>> {
    let mut reader = Reader { annotations, prefix, mistakes: Vec::new() };
    reader.value(HOSTNAME)?;
    let claims = Claims {
        names: reader.read(HOSTNAME, names).unwrap_or_default(),
        namespace: reader.read(NAMESPACE, namespace).unwrap_or_else(|| default_namespace.clone()),
        ttl: reader.read(TTL, ttl),
        ports: reader.read(PORT, ports).unwrap_or_default(),
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

    /// The annotation's value; `None` where it is not set, or is a mistake and so is kept.
    fn read<T>(&mut self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let value = self.value(name)?;
        match parse(value.trim()) {
            Ok(parsed) => Some(parsed),
            Err(problem) => {
                let (annotation, value) = (format!("{}{name}", self.prefix), shortened(value));
                self.mistakes.push(BadAnnotation { annotation, value, problem });
                None
            }
        }
    }
}

/// Long values are somebody's mistake; a report shows where they begin.
fn shortened(value: &str) -> String {
    match value.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_owned(),
    }
}

fn names(value: &str) -> Result<Vec<ServiceName>, String> {
    let mut names = Vec::new();
    for text in value.split(',').map(str::trim) {
        let name = ServiceName::parse(text)
            .map_err(|problem| format!("{text:?} is no name of a Cloud Map service: {problem}"))?;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

fn namespace(value: &str) -> Result<NamespaceReference, String> {
    let problem = "it must be the name, id or ARN of a Cloud Map namespace";
    NamespaceReference::parse(value).ok_or_else(|| problem.to_owned())
}

fn ttl(value: &str) -> Result<u32, String> {
    let seconds: Option<u32> = value.parse().ok().filter(|seconds| *seconds <= MAXIMUM_TTL);
    seconds.ok_or_else(|| format!("it must be whole seconds from 0 to {MAXIMUM_TTL}"))
}

fn ports(value: &str) -> Result<Vec<PortReference>, String> {
    let mut ports = Vec::new();
    for text in value.split(',').map(str::trim) {
        let port = port(text).ok_or_else(|| {
            format!("{text:?} is neither a port number from 1 to 65535 nor a port's name")
        })?;
        if !ports.contains(&port) {
            ports.push(port);
        }
    }
    Ok(ports)
}

/// A number is a port number; a port's name has at least one letter, as Kubernetes demands.
fn port(text: &str) -> Option<PortReference> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok().filter(|port| *port > 0).map(PortReference::Number);
    }
    let inner = text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
    (inner && text.len() <= 63).then(|| PortReference::Name(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn every_mistake_says_what_would_be_right() {
        let mistakes =
            claimed(&[("hostname", "web,,x"), ("namespace", "a b"), ("ttl", "-1"), ("port", "0")]);
        let mistakes = mistakes.expect("annotated").expect_err("all are wrong");
        let lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        annotation cloudmap.controller/hostname is "web,,x": "" is no name of a Cloud Map service: it is empty
        annotation cloudmap.controller/namespace is "a b": it must be the name, id or ARN of a Cloud Map namespace
        annotation cloudmap.controller/ttl is "-1": it must be whole seconds from 0 to 2147483647
        annotation cloudmap.controller/port is "0": "0" is neither a port number from 1 to 65535 nor a port's name
        "#);
    }

    #[test]
    fn a_long_value_is_shortened() {
        let mistakes = claimed(&[("hostname", &"é".repeat(500))]);
        let mistakes = mistakes.expect("annotated").expect_err("no name");
        assert_eq!(mistakes[0].value.chars().count(), 81);
    }
}
