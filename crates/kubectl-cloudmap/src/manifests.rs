//! The verbs about manifests, which need neither the function nor a cluster. `validate` checks the annotations of
//! Services with the parsers of the function, so that a pipeline finds mistakes before it applies a manifest.
//! `admission` prints the policy by which an API server refuses a Service with a wrong annotation. Its options set
//! another prefix of the annotations, or only warn.

use crate::answer::read_text;
use crate::arguments::{AdmissionArguments, Validate};
use crate::escape::{Output, escape};
use cloud_map_sync::kubernetes::{AnnotationSettings, Service, annotation, is_headless, services};
use cloud_map_sync::model::{
    Claims, NamespaceReference, PortReference, PublishedService, RepeatedNamespace, join,
};
use cloud_map_sync::settings::ANNOTATION_PREFIX;
use serde::Deserialize;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};

/// The namespace of a Service whose manifest names no namespace.
const NO_NAMESPACE: &str = "default";

/// The error of a manifest that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {}", .path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("{} is no YAML", .path.display())]
    Yaml { path: PathBuf, source: Box<serde_saphyr::Error> },
    #[error("Service {name} of {} has a field whose type differs from the API's", .path.display())]
    Service { path: PathBuf, name: String, source: serde_json::Error },
}

/// The verdicts on all manifests.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ManifestVerdicts {
    services: Vec<JudgedService>,
    /// The number of Kubernetes objects, with the items of lists.
    objects: usize,
    /// The number of objects that are no Services, by API version and kind.
    others: BTreeMap<String, usize>,
    /// A line for each document or item that is no Kubernetes object, with its file.
    unread: Vec<String>,
}

/// An annotated Service, and its problems.
#[derive(Debug, PartialEq, Eq)]
struct JudgedService {
    name: String,
    problems: Vec<String>,
    /// Remarks, which do not make the Service invalid.
    notes: Vec<String>,
}

impl ManifestVerdicts {
    /// Whether objects were read and no Service has a problem. Empty input is invalid: the program that should have
    /// written the manifests may have failed.
    pub fn is_valid(&self) -> bool {
        self.objects > 0 && self.services.iter().all(|service| service.problems.is_empty())
    }

    fn read(
        &mut self,
        text: &str,
        path: &Path,
        settings: &AnnotationSettings,
    ) -> Result<(), Error> {
        // Without a snippet an error is one line.
        let options = serde_saphyr::options! { with_snippet: false };
        let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options)
            .map_err(|source| Error::Yaml { path: path.to_owned(), source: Box::new(source) })?;
        for (index, document) in
            documents.iter().enumerate().filter(|(_, document)| !document.is_null())
        {
            let position = || format!("document {} of {}", index + 1, path.display());
            self.add(document, &position, path, settings)?;
        }
        Ok(())
    }

    /// Adds an object, or the items of a list: a `List`, a list of one kind such as `ServiceList`, or a list of lists.
    /// `position` describes where the object is in its file.
    fn add(
        &mut self,
        object: &Value,
        position: &dyn Fn() -> String,
        path: &Path,
        settings: &AnnotationSettings,
    ) -> Result<(), Error> {
        let (Some(version), Some(kind)) = (object["apiVersion"].as_str(), object["kind"].as_str())
        else {
            let unread = format!(
                "{} has no apiVersion or no kind, so it is no Kubernetes object",
                position()
            );
            self.unread.push(escape(&unread, Output::Terminal));
            return Ok(());
        };
        if let (Some(item_kind), Some(items)) =
            (kind.strip_suffix("List"), object["items"].as_array())
        {
            for (index, item) in items.iter().enumerate() {
                let position = || format!("item {} of {}", index + 1, position());
                self.add(&with_kind(item, version, item_kind), &position, path, settings)?;
            }
            return Ok(());
        }
        self.objects += 1;
        if (version, kind) != ("v1", "Service") {
            let kind = escape(&format!("{version} {kind}"), Output::Terminal);
            *self.others.entry(kind).or_default() += 1;
            return Ok(());
        }
        let service = parse(object).map_err(|source| {
            let name = name_of(object);
            Error::Service { path: path.to_owned(), name, source }
        })?;
        self.services.extend(judge_service(&service, object, settings));
        Ok(())
    }
}

impl Display for ManifestVerdicts {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for JudgedService { name, problems, notes } in &self.services {
            if problems.is_empty() {
                writeln!(f, "= {name}")?;
            }
            problems.iter().try_for_each(|problem| writeln!(f, "! {name}: {problem}"))?;
            notes.iter().try_for_each(|note| writeln!(f, "~ {name}: {note}"))?;
        }
        self.unread.iter().try_for_each(|unread| writeln!(f, "~ not read: {unread}"))?;
        if !self.others.is_empty() {
            let others = self.others.iter().map(|(kind, count)| format!("{count} {kind}"));
            writeln!(f, "~ not judged: {}", join(others, ", "))?;
        }
        if self.objects == 0 {
            return writeln!(f, "! no Kubernetes object was read");
        }
        let wrong = self.services.iter().filter(|service| !service.problems.is_empty()).count();
        match self.services.len() {
            0 => writeln!(f, "no Service is annotated"),
            all => writeln!(f, "{all} annotated, {wrong} with mistakes"),
        }
    }
}

/// Judges all Services in the files of the arguments; `-` is the standard input.
///
/// # Errors
/// Returns an error if a file cannot be read, is no YAML, or has a Service with a field of another type than in the
/// API.
pub fn judge(arguments: &Validate) -> Result<ManifestVerdicts, Error> {
    let settings = AnnotationSettings { prefix: arguments.prefix.clone(), default_namespace: None };
    let mut judged = ManifestVerdicts::default();
    for path in &arguments.filenames {
        let text = read_text(path).map_err(|source| Error::File { path: path.clone(), source })?;
        judged.read(&text, path, &settings)?;
    }
    Ok(judged)
}

/// Returns an item of a list with its version and kind, which the API server omits in a list of one kind.
fn with_kind<'a>(item: &'a Value, version: &str, kind: &str) -> Cow<'a, Value> {
    match item.as_object() {
        Some(fields) if !kind.is_empty() && !fields.contains_key("kind") => {
            let mut fields = fields.clone();
            fields.insert("apiVersion".to_owned(), json!(version));
            fields.insert("kind".to_owned(), json!(kind));
            Cow::Owned(Value::Object(fields))
        }
        _ => Cow::Borrowed(item),
    }
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or("without a name").to_owned()
}

fn parse(object: &Value) -> serde_json::Result<Service> {
    let mut service = Service::deserialize(object)?;
    if service.metadata.namespace.is_empty() {
        NO_NAMESPACE.clone_into(&mut service.metadata.namespace);
    }
    Ok(service)
}

/// Judges a Service. Returns `None` if it is not annotated.
fn judge_service(
    service: &Service,
    object: &Value,
    settings: &AnnotationSettings,
) -> Option<JudgedService> {
    let published = services::annotated(service, settings)?;
    let mut problems: Vec<String> = match &published.claims {
        Ok(claims) => {
            claims.ports.iter().filter_map(|port| missing_port(&published, port)).collect()
        }
        Err(mistakes) => mistakes.iter().map(ToString::to_string).collect(),
    };
    if !is_headless(service) {
        problems.push("it is ignored, since it is not headless: set clusterIP: None".to_owned());
    }
    let namespace =
        object["metadata"]["namespace"].as_str().map(|namespace| format!("{namespace}/"));
    let name = format!("{}{}", namespace.unwrap_or_default(), name_of(object));
    let name = escape(&name, Output::Terminal);
    let escaped = |lines: Vec<String>| -> Vec<String> {
        lines.iter().map(|line| escape(line, Output::Terminal)).collect()
    };
    let mut notes = unknown_keys(service, &settings.prefix);
    notes.extend(repeated_namespaces(service, &published, &settings.prefix));
    Some(JudgedService { name, problems: escaped(problems), notes: escaped(notes) })
}

fn missing_port(published: &PublishedService, port: &PortReference) -> Option<String> {
    published.port(port).is_none().then(|| format!("port {port} is not a port of the Service"))
}

/// Returns a remark on each hostname that ends in the annotated namespace's name. An id, an ARN or a missing annotation
/// gives no name here. The kind of the namespace is not known either, so the remark is conditional.
fn repeated_namespaces(
    service: &Service,
    published: &PublishedService,
    prefix: &str,
) -> Vec<String> {
    let is_annotated = service.metadata.annotations.contains_key(&format!("{prefix}namespace"));
    let Ok(Claims { namespace: NamespaceReference::NameOrId(namespace), names, .. }) =
        &published.claims
    else {
        return Vec::new();
    };
    let repeated = names
        .iter()
        .filter(|_| is_annotated)
        .filter_map(|name| RepeatedNamespace::of(name.as_str(), namespace));
    repeated.map(|repeated| repeated.describe_if_dns()).collect()
}

/// Returns a remark on each annotation that has the prefix but that the function does not read.
fn unknown_keys(service: &Service, prefix: &str) -> Vec<String> {
    let unknown = annotation::unknown_keys(&service.metadata.annotations, prefix);
    unknown.map(|key| format!("the function reads no annotation {key}")).collect()
}

/// The policy for the default prefix.
const POLICY: &str = include_str!("../../../deploy/admission.yaml");

/// Returns the policy for these arguments.
pub fn policy(arguments: &AdmissionArguments) -> String {
    // The head of the file has the usage, and is not changed.
    let (head, objects) = POLICY.split_once("\napiVersion").unwrap_or_default();
    let mut objects = objects.replace(ANNOTATION_PREFIX, &arguments.prefix);
    if arguments.warn {
        objects = objects.replace("validationActions: [Deny]", "validationActions: [Warn]");
    }
    format!("{head}\napiVersion{objects}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(text: &str) -> ManifestVerdicts {
        let settings =
            AnnotationSettings { prefix: "cloudmap.controller/".into(), default_namespace: None };
        let mut judged = ManifestVerdicts::default();
        judged.read(text, Path::new("web.yaml"), &settings).expect("readable");
        judged
    }

    const WEB: &str = "apiVersion: v1
kind: Service
metadata:
  name: web
  annotations: {cloudmap.controller/hostname: web, cloudmap.controller/port: http}
spec: {clusterIP: None, ports: [{name: http, port: 80}]}
";

    #[test]
    fn annotated_services_of_all_documents_and_lists_are_judged() {
        let other = "apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Service
  metadata:
    name: api
    namespace: shop
    annotations:
      cloudmap.controller/hostname: api
      cloudmap.controller/ttl: a minute
      cloudmap.controller/port: https
      cloudmap.controller/hostnames: api
  spec: {clusterIP: None}
- {apiVersion: v1, kind: Service, metadata: {name: plain}, spec: {}}
- apiVersion: v1
  kind: Service
  metadata: {name: cart, annotations: {cloudmap.controller/hostname: cart, cloudmap.controller/port: https}}
  spec: {ports: [{port: 80}]}
- {apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}
";
        let judged = judged(&format!("# nothing\n---\n{WEB}---\n{other}"));
        assert!(!judged.is_valid());
        insta::assert_snapshot!(judged, @r#"
        = web
        ! shop/api: annotation cloudmap.controller/ttl is "a minute": it must be whole seconds from 0 to 2147483647
        ~ shop/api: the function reads no annotation cloudmap.controller/hostnames
        ! cart: port https is not a port of the Service
        ! cart: it is ignored, since it is not headless: set clusterIP: None
        ~ not judged: 1 apps/v1 Deployment
        3 annotated, 2 with mistakes
        "#);
    }

    #[test]
    fn hostname_that_ends_in_the_annotated_namespace_is_a_remark() {
        let notes = |hostname: &str, namespace: &str| {
            let annotations = format!(
                "{{cloudmap.controller/hostname: {hostname}, cloudmap.controller/namespace: {namespace}}}"
            );
            let judged = judged(&format!(
                "{{apiVersion: v1, kind: Service, metadata: {{name: web, annotations: {annotations}}}, spec: {{clusterIP: None}}}}"
            ));
            assert!(judged.is_valid(), "{judged}");
            join(&judged.services[0].notes, "; ")
        };
        insta::assert_snapshot!(notes("web.shop.local", "shop.local"), @"the hostname ends in the namespace's name: if shop.local is a DNS namespace, DNS has it as web.shop.local.shop.local; hostname: web makes it web.shop.local");
        for (hostname, namespace) in
            [("web", "shop.local"), ("web.shop.local", "ns-abcdefghijklmnop")]
        {
            assert_eq!(notes(hostname, namespace), "", "{hostname} {namespace}");
        }
        assert!(
            judged(&WEB.replace("hostname: web", "hostname: web.default")).services[0]
                .notes
                .is_empty()
        );
    }

    #[test]
    fn manifest_without_mistakes_is_valid() {
        assert!(judged(WEB).is_valid());
        for (text, is_valid, shown) in [
            (
                "{apiVersion: v1, kind: ConfigMap}",
                true,
                "~ not judged: 1 v1 ConfigMap\nno Service is annotated\n",
            ),
            ("# nothing\n---\n", false, "! no Kubernetes object was read\n"),
            ("{apiVersion: v1, kind: List, items: []}", false, "! no Kubernetes object was read\n"),
            (
                "---\nkind: Service\n---\n[a]\n",
                false,
                "~ not read: document 1 of web.yaml has no apiVersion or no kind, so it is no Kubernetes object\n\
                 ~ not read: document 2 of web.yaml has no apiVersion or no kind, so it is no Kubernetes object\n\
                 ! no Kubernetes object was read\n",
            ),
        ] {
            let none = judged(text);
            assert_eq!((none.is_valid(), none.to_string().as_str()), (is_valid, shown), "{text}");
        }
    }

    #[test]
    fn manifest_that_cannot_be_read_names_its_file() {
        let settings =
            AnnotationSettings { prefix: "cloudmap.controller/".into(), default_namespace: None };
        for (text, expected) in [
            ("a: [", "web.yaml is no YAML"),
            (
                "{apiVersion: v1, kind: Service, metadata: {name: web, annotations: {a/b: 1}}, spec: {}}",
                "Service web of web.yaml has a field whose type differs from the API's",
            ),
        ] {
            let read = ManifestVerdicts::default().read(text, Path::new("web.yaml"), &settings);
            let refused = read.expect_err("refused");
            assert_eq!(refused.to_string(), expected);
        }
    }

    #[test]
    fn services_of_every_kind_of_list_are_judged() {
        let web = "{metadata: {name: web, annotations: {cloudmap.controller/hostname: a b}}, spec: {clusterIP: None}}";
        let whole = format!("{{apiVersion: v1, kind: Service, {}", &web[1..]);
        for list in [
            format!("{{apiVersion: v1, kind: ServiceList, items: [{web}]}}"),
            format!("{{apiVersion: v1, kind: ServiceList, items: [{whole}]}}"),
            format!("{{apiVersion: v1, kind: List, items: [{whole}]}}"),
            format!(
                "{{apiVersion: v1, kind: List, items: [{{apiVersion: v1, kind: List, items: [{whole}]}}]}}"
            ),
            format!(
                "{{apiVersion: v1, kind: List, items: [{{apiVersion: v1, kind: ServiceList, items: [{web}]}}]}}"
            ),
            format!(
                "{{apiVersion: config.kubernetes.io/v1, kind: ResourceList, items: [{whole}]}}"
            ),
        ] {
            let judged = judged(&list);
            assert!(!judged.is_valid(), "{list}: {judged}");
            let text = judged.to_string();
            assert!(text.contains("1 annotated, 1 with mistakes"), "{list}: {text}");
        }
    }

    fn printed(prefix: &str, warn: bool) -> String {
        policy(&AdmissionArguments { prefix: prefix.to_owned(), warn })
    }

    #[test]
    fn default_prefix_is_that_of_the_file() {
        assert_eq!(printed(ANNOTATION_PREFIX, false), POLICY);
    }

    #[test]
    fn another_prefix_stands_in_every_expression() {
        let other = printed("discovery.example.com/", true);
        let (_, objects) = other.split_once("\napiVersion").expect("objects");
        assert!(!objects.contains("cloudmap.controller"));
        let is_annotated = "'discovery.example.com/hostname' in object.metadata.annotations";
        assert!(objects.contains(is_annotated), "{objects}");
        assert!(objects.contains("validationActions: [Warn]") && !objects.contains("[Deny]"));
    }
}
