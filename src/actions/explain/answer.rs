//! The answer of the action `explain`: the annotations of one Service, then each [`ExplainedName`] with the fate of each
//! endpoint and the instances that clients discover, then the part of its export and import in a clusterset.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use super::ClustersetExplanation;
use crate::error::{printable, shorten};
use crate::kubernetes::object::Service;
use crate::kubernetes::services::is_headless;
use crate::model::{Endpoint, Flow, NamespaceKind, Place, ServiceRef, join_or, words};
use crate::publish::plan::{Fate, Found, Observation, Plan};
use crate::report::{HeldBackLine, Shorten, Word};

/// The registration of a Service, with the reasons.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Whether nothing keeps a ready endpoint from being registered.
    pub ok: bool,
    /// The cluster's ARN.
    pub cluster: String,
    /// The Service.
    pub service: ServiceRef,
    /// The facts and problems of the Service itself.
    pub facts: Vec<Fact>,
    /// The names that it claims, and that of its export.
    pub names: Vec<ExplainedName>,
    /// The export and the import of the name, if the cluster takes part in a clusterset.
    pub clusterset: Option<ClustersetExplanation>,
    /// The held-back requests that belong to no name.
    pub held_back: Vec<HeldBackLine>,
    /// The part that is left out, if the answer is too large for a Lambda response.
    pub cut: Option<String>,
}

/// A fact about the Service or one of its names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// Whether it keeps the Service from being discovered.
    pub stops: bool,
    /// The subject.
    pub about: Word,
    /// The fact in words.
    pub detail: String,
}

impl Explanation {
    /// An explanation without facts.
    pub fn new(cluster: &str, service: &ServiceRef) -> Self {
        Self {
            ok: true,
            cluster: cluster.to_owned(),
            service: service.clone(),
            facts: Vec::new(),
            names: Vec::new(),
            clusterset: None,
            held_back: Vec::new(),
            cut: None,
        }
    }

    /// Adds the Service's annotations with our prefix.
    pub fn add_annotations<'a>(
        &mut self,
        prefix: &str,
        annotations: impl Iterator<Item = (&'a String, &'a String)>,
    ) {
        let mut has_hostname = false;
        for (key, value) in annotations {
            let name = key.strip_prefix(prefix).unwrap_or(key);
            has_hostname |= name == "hostname";
            self.add_fact(false, "annotation", format!("{name}: {value}"));
        }
        if !has_hostname {
            let detail = format!("{prefix}hostname is not set, so the Service claims no name");
            self.add_fact(true, "annotation", detail);
        }
    }

    /// Adds the Service's own address. Only a headless one can claim a name.
    pub fn add_address(&mut self, service: &Service, is_claiming: bool) {
        let address = service.spec.cluster_ip.as_deref().filter(|it| !it.is_empty());
        let address = address.unwrap_or("none");
        let is_headless = is_headless(service);
        let detail = match (is_headless, is_claiming) {
            (true, _) => "headless (clusterIP: None)".to_owned(),
            (false, false) => format!("clusterIP is {address}"),
            (false, true) => format!(
                "clusterIP is {address}: only headless Services (clusterIP: None) are registered, and the field \
                 is immutable: create a headless Service beside it"
            ),
        };
        self.add_fact(is_claiming && !is_headless, "service", detail);
    }

    /// Adds the export and the import of the name. For a Service that is only annotated, nothing but an obstacle, which
    /// is not about it.
    pub fn add_clusterset(&mut self, clusterset: ClustersetExplanation) {
        if clusterset.takes_part() || self.names.is_empty() {
            self.ok &= clusterset.is_ok();
        } else if clusterset.member.is_some() {
            return;
        }
        self.clusterset = Some(clusterset);
    }

    /// Adds the held-back requests that belong to no name.
    pub fn add_held_back(&mut self, plan: &Plan) {
        let of_service = plan.held_back.iter().filter(|it| it.service == self.service);
        let placeless = of_service.filter(|it| it.place.is_none());
        self.held_back = placeless.cloned().map(HeldBackLine::from).collect();
        self.ok &= self.held_back.is_empty();
    }

    pub(super) fn add_fact(&mut self, stops: bool, about: &'static str, detail: impl Into<String>) {
        self.facts.push(fact(stops, about, detail));
    }

    /// Adds one of the names that the Service claims, or that of its export.
    pub fn add_name(
        &mut self,
        observation: &Observation,
        found: Found,
        plan: &Plan,
        discovery: Option<Discovery>,
    ) {
        let Found { place, kind, held, endpoints, remarks } = found;
        let claim = match (observation.owner.flow, held) {
            (Flow::Annotations, true) => fact(false, "claim", "this Service holds the name"),
            (Flow::Annotations, false) => fact(true, "claim", "another Service holds the name"),
            (Flow::Exports, _) => {
                self.note_double_registration(&place);
                fact(false, "export", "the instances of the export")
            }
        };
        let mut facts = vec![cloud_map_service(observation, &place, kind.map(|it| it.to_string()))];
        facts.push(claim);
        facts.extend(remarks.into_iter().map(|remark| fact(false, "note", remark)));
        let of_place = plan.held_back.iter().filter(|it| it.place.as_ref() == Some(&place));
        let own = of_place.filter(|it| it.service == self.service);
        let held_back = own.cloned().map(HeldBackLine::from).collect();
        let endpoints: Vec<EndpointLine> = endpoints.into_iter().map(EndpointLine::from).collect();
        let left_out = |line: &EndpointLine| {
            line.condition == EndpointCondition::Ready && line.fate == Fate::NotRegistered
        };
        self.ok &= held && !endpoints.iter().any(left_out);
        let (namespace, name) = (place.namespace.clone(), place.name.clone());
        self.names.push(ExplainedName { namespace, name, facts, endpoints, held_back, discovery });
    }

    fn note_double_registration(&mut self, export: &Place) {
        let names = self.names.iter().map(|name| format!("{}/{}", name.namespace, name.name));
        let names: Vec<String> = names.collect();
        if names.is_empty() {
            return;
        }
        let is_same = names.contains(&export.to_string());
        let twice = if is_same { ", so clients discover each pod twice" } else { "" };
        let detail = format!(
            "the Service is annotated and exported: it is registered for both, as {} and as {export}{twice}",
            names.join(", ")
        );
        self.add_fact(false, "note", detail);
    }
}

pub(super) fn fact(stops: bool, about: &'static str, detail: impl Into<String>) -> Fact {
    Fact { stops, about: about.into(), detail: detail.into() }
}

impl Shorten for Explanation {
    fn longest(&self) -> usize {
        let imported = self.clusterset.as_ref().map_or(0, |it| it.endpoints.len());
        let of_names = self.names.iter().map(|name| name.endpoints.len());
        of_names.max().unwrap_or_default().max(imported)
    }

    fn shorten(&mut self, entries: usize) {
        for name in &mut self.names {
            name.endpoints.sort_by_key(|line| line.fate == Fate::Registered);
            name.endpoints.truncate(entries);
            name.held_back.truncate(entries);
        }
        if let Some(clusterset) = &mut self.clusterset {
            clusterset.shorten(entries);
        }
        self.cut = Some(format!(
            "the explanation is too large for a Lambda response: it has {entries} endpoints of each name, first those \
             that are not registered"
        ));
    }
}

/// A name that the Service claims.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedName {
    /// The Cloud Map namespace's name.
    pub namespace: String,
    /// The Cloud Map service's name.
    pub name: String,
    /// The type of the Cloud Map service, the holder of the name, and remarks.
    pub facts: Vec<Fact>,
    /// The fate of each endpoint.
    pub endpoints: Vec<EndpointLine>,
    /// The held-back requests.
    pub held_back: Vec<HeldBackLine>,
    /// The instances that clients discover, if the Cloud Map service exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discovery: Option<Discovery>,
}

fn cloud_map_service(observation: &Observation, place: &Place, kind: Option<String>) -> Fact {
    let namespace = observation.registry.namespaces.get(&place.key.namespace);
    let of = match namespace.map(|namespace| namespace.kind) {
        Some(NamespaceKind::Dns) => "a DNS namespace",
        Some(NamespaceKind::Http) => "an HTTP namespace",
        None => "a namespace that does not exist yet",
    };
    let id = &place.key.namespace;
    let detail = match kind {
        Some(kind) => format!("{kind}, in {of} ({id})"),
        None => format!("does not exist yet, in {of} ({id}); created with the first instance"),
    };
    fact(false, "service", detail)
}

/// One endpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EndpointLine {
    /// Its pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// Its addresses.
    pub addresses: Vec<String>,
    /// Its condition in Kubernetes.
    pub condition: EndpointCondition,
    /// Its fate in Cloud Map.
    pub fate: Fate,
    /// The fate in a sentence.
    pub detail: String,
}

words! {
    /// The condition of an endpoint in Kubernetes.
    pub enum EndpointCondition {
        /// Its pod is ready.
        Ready = "ready",
        /// Its pod is not ready.
        NotReady = "not ready",
        /// Its pod is being deleted.
        Terminating = "terminating",
    }
}

impl From<(Endpoint, Fate, String)> for EndpointLine {
    fn from((endpoint, fate, detail): (Endpoint, Fate, String)) -> Self {
        let condition = match &endpoint {
            Endpoint { terminating: true, .. } => EndpointCondition::Terminating,
            Endpoint { ready: true, .. } => EndpointCondition::Ready,
            _ => EndpointCondition::NotReady,
        };
        let malformed = endpoint.malformed.as_deref().map(|text| printable(&shorten(text)));
        let addresses = endpoint.addresses().map(|address| address.to_string());
        let addresses = addresses.chain(malformed).collect();
        Self { addresses, pod: endpoint.pod, condition, fate, detail }
    }
}

/// The instances that clients discover under a name.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Discovery {
    /// The name to query in DNS.
    pub dns: Option<String>,
    /// The error of DiscoverInstances.
    pub error: Option<String>,
    /// The number of this cluster's instances by health.
    pub ours: BTreeMap<String, usize>,
    /// The number of other instances by health.
    pub others: BTreeMap<String, usize>,
}

impl Discovery {
    /// Counts the discovered instances: their health by id. The marks in the observation show the owner.
    pub fn count(
        &mut self,
        instances: BTreeMap<String, String>,
        observation: &Observation,
        place: &Place,
    ) {
        for (id, health) in instances {
            let known = observation.registry.instance(&place.key, &id);
            let ours = known.is_some_and(|it| observation.owner.owns(it));
            let counts = if ours { &mut self.ours } else { &mut self.others };
            *counts.entry(health).or_default() += 1;
        }
    }
}

// The explanation as text, with the signs of the plan's table: one line for each fact, endpoint, exporter and held-back
// request.

impl Display for Explanation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "service {} in cluster {}", self.service, self.cluster)?;
        self.facts.iter().try_for_each(|fact| writeln!(f, "  {fact}"))?;
        self.names.iter().try_for_each(|name| write!(f, "{name}"))?;
        self.clusterset.iter().try_for_each(|it| write!(f, "{it}"))?;
        self.held_back.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        self.cut.iter().try_for_each(|cut| writeln!(f, "! {cut}"))?;
        let result =
            if self.ok { "no problems found" } else { "problems found: see the lines with !" };
        writeln!(f, "{result}")
    }
}

impl Display for Fact {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let sign = match (self.stops, &*self.about) {
            (true, _) => '!',
            (false, "note") => '~',
            (false, _) => '=',
        };
        write!(f, "{sign} {:<10} {}", self.about, self.detail)
    }
}

impl Display for ExplainedName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "  {}/{}", self.namespace, self.name)?;
        self.facts.iter().try_for_each(|fact| writeln!(f, "    {fact}"))?;
        if self.endpoints.is_empty() {
            writeln!(f, "    ! endpoints  none: does the Service's selector match pods?")?;
        }
        self.endpoints.iter().try_for_each(|line| writeln!(f, "    {line}"))?;
        self.held_back.iter().try_for_each(|line| writeln!(f, "    {line}"))?;
        self.discovery.iter().try_for_each(|it| writeln!(f, "    {it}"))
    }
}

impl Display for EndpointLine {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let sign = match (self.fate, self.condition) {
            (Fate::Registered, _) => '=',
            (Fate::Changes, _) => '~',
            (Fate::ToRegister, _) => '+',
            (Fate::NotRegistered, EndpointCondition::Ready) => '!',
            (Fate::NotRegistered, _) => '-',
        };
        let pod = self.pod.as_deref().unwrap_or("no pod");
        let addresses = self.addresses.join(" ");
        write!(f, "{sign} endpoint   {addresses} ({pod}, {}): {}", self.condition, self.detail)
    }
}

impl Display for Discovery {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let dns = self.dns.as_ref().map(|dns| format!("; DNS name {dns}")).unwrap_or_default();
        if let Some(error) = &self.error {
            return write!(f, "! discovery  failed: {error}{dns}");
        }
        let (ours, others) = (format_counts(&self.ours), format_counts(&self.others));
        write!(f, "= discovery  returns {ours} of this cluster and {others} of other owners{dns}")
    }
}

/// `2 HEALTHY, 1 UNHEALTHY`
fn format_counts(by_health: &BTreeMap<String, usize>) -> String {
    join_or(by_health.iter().map(|(health, count)| format!("{count} {health}")), ", ", "none")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::within_limit;

    #[test]
    fn an_explanation_that_is_too_large_keeps_the_endpoints_that_are_not_registered() {
        let last = 59_999;
        let endpoint = |number: usize| EndpointLine {
            pod: Some(format!("web-{number}")),
            addresses: vec!["10.0.0.1".to_owned()],
            condition: EndpointCondition::Ready,
            fate: if number == last { Fate::NotRegistered } else { Fate::Registered },
            detail: "a sentence about its fate".to_owned(),
        };
        let name = ExplainedName {
            namespace: "shop.local".to_owned(),
            name: "web".to_owned(),
            facts: Vec::new(),
            endpoints: (0..=last).map(endpoint).collect(),
            held_back: Vec::new(),
            discovery: None,
        };
        let mut whole = Explanation::new("blue", &ServiceRef::new("shop", "web"));
        whole.names.push(name);
        let explanation: Explanation =
            serde_json::from_value(within_limit(whole)).expect("an explanation");
        assert_eq!(explanation.names[0].endpoints[0].fate, Fate::NotRegistered);
        assert!(explanation.to_string().contains("\n! the explanation is too large"));
    }
}
