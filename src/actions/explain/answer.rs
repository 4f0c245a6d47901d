//! The answer of `explain`: the annotations of one Service, and each [`ExplainedName`] with the fate of each endpoint
//! and the instances that clients discover. If the cluster is in a clusterset, the answer also has the export and the
//! import of the Service's name.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use super::ClustersetExplanation;
use crate::actions::{Check, CheckOutcome};
use crate::kubernetes::{Service, is_headless};
use crate::model::{
    EndpointLine, Fate, Flow, Line, NamespaceKind, Outcome, Place, PublishedService, ServiceRef,
    join_or,
};
use crate::publish::plan::{NameWithFates, Observation, Plan};
use crate::report::count;

/// The registration of a Service, with the reasons.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Whether there are no problems: no failed check, no endpoint that takes traffic left out, and no held-back
    /// request, except in `names` those that keep no endpoint out.
    pub ok: bool,
    /// The cluster's ARN.
    pub cluster: String,
    /// The Service.
    pub service: ServiceRef,
    /// The facts and problems of the Service itself.
    pub facts: Vec<Check>,
    /// The names that the Service claims, other names with instances or a held-back request of the Service, and the
    /// name of its export.
    pub names: Vec<ExplainedName>,
    /// The export and the import of the Service's name, if the cluster takes part in a clusterset.
    pub clusterset: Option<ClustersetExplanation>,
    /// The held-back requests that belong to no name.
    pub held_back: Vec<Line>,
    /// The action to run instead. `None` unless the answer was reduced to counts because of Lambda's response limit.
    pub cut: Option<String>,
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

    /// Adds that the cluster has no such Service. This is a problem only if the clusterset does not have the name.
    pub(super) fn add_absence(&mut self, is_in_clusterset: bool) {
        self.facts.push(if is_in_clusterset {
            Check::ok("service", "none of this name in this cluster")
        } else {
            Check::new(CheckOutcome::Failed, "service", "not found in the cluster")
        });
    }

    /// Adds the Service's annotations with our prefix.
    pub(super) fn add_annotations(&mut self, prefix: &str, service: &Service, claims: bool) {
        let all = service.metadata.annotations.iter();
        let own = all.filter_map(|(key, value)| Some((key.strip_prefix(prefix)?, value)));
        let own = own.map(|(name, value)| Check::ok("annotation", format!("{name}: {value}")));
        self.facts.extend(own);
        if !claims {
            let detail = format!("{prefix}hostname is not set, so the Service claims no name");
            self.facts.push(Check::new(CheckOutcome::Failed, "annotation", detail));
        }
    }

    /// Adds the Service's `clusterIP`. Only a headless Service can claim a name.
    pub(super) fn add_address(&mut self, service: &Service, must_be_headless: bool) {
        let address = service.spec.cluster_ip.as_deref().filter(|address| !address.is_empty());
        let address = address.unwrap_or("none");
        self.facts.push(if is_headless(service) {
            Check::ok("service", "headless (clusterIP: None)")
        } else if must_be_headless {
            let detail = format!(
                "clusterIP is {address}: only headless Services (clusterIP: None) are registered, and the field \
                 is immutable: create a headless Service beside it"
            );
            Check::new(CheckOutcome::Failed, "service", detail)
        } else {
            Check::ok("service", format!("clusterIP is {address}"))
        });
    }

    /// Adds the explanation of the clusterset and sets `ok`. The explanation is relevant if the clusterset has the
    /// Service's name, or if the Service claims no name. Otherwise it is added only if it shows why the clusterset may
    /// lack the name: an obstacle of the cluster, or a member that was not read. It then does not affect `ok`.
    pub(super) fn conclude(self, clusterset: Option<ClustersetExplanation>) -> Self {
        let is_relevant =
            |clusterset: &ClustersetExplanation| clusterset.has_name() || self.names.is_empty();
        let clusterset = clusterset.filter(|clusterset| {
            is_relevant(clusterset) || clusterset.member.is_none() || clusterset.may_have_name()
        });
        let mut relevant = clusterset.iter().filter(|clusterset| is_relevant(clusterset));
        let ok = is_ok(&self.facts, &[])
            && self.held_back.is_empty()
            && self.names.iter().all(ExplainedName::is_ok)
            && relevant.all(|clusterset| {
                is_ok(&clusterset.facts, &clusterset.endpoints) && clusterset.held_back.is_empty()
            });
        Self { ok, clusterset, ..self }
    }

    /// Adds the held-back requests that belong to no name, and each name under which the Service has instances without
    /// a valid claim: a name that `NAME_POLICY` denies, a former name, or a name of a Service that is gone.
    pub(super) fn add_other_names(&mut self, observation: &Observation, plan: &Plan) {
        if observation.owner.flow != Flow::Annotations {
            return;
        }
        let claimed: Vec<String> = self.names.iter().map(ExplainedName::place).collect();
        let mut others: BTreeMap<&Place, ExplainedName> = BTreeMap::new();
        for change in plan.changes.get(&self.service).into_iter().flatten() {
            let place = change.place();
            if let Some(because) = change.because()
                && !claimed.contains(&place.to_string())
            {
                let instance = change.instance().unwrap_or_default();
                let detail = format!("a sync would deregister {instance}: {because}");
                let name =
                    others.entry(place).or_insert_with(|| ExplainedName::without_claim(place));
                name.facts.push(Check::new(CheckOutcome::Note, "note", detail));
            }
        }
        for held_back in plan.held_back.iter().filter(|line| line.service == self.service) {
            let line = Line::from(held_back.clone());
            match &held_back.place {
                None => self.held_back.push(line),
                Some(place) if claimed.contains(&place.to_string()) => {}
                Some(place) => {
                    let name =
                        others.entry(place).or_insert_with(|| ExplainedName::without_claim(place));
                    name.held_back.push(line);
                }
            }
        }
        self.names.extend(others.into_values());
    }

    /// Adds a name that the Service claims, or the name of its export.
    pub(super) fn add_name(
        &mut self,
        observation: &Observation,
        found: NameWithFates,
        plan: &Plan,
        discovery: Option<Discovery>,
    ) {
        let NameWithFates { place, kind, is_holder, endpoints, remarks } = found;
        let (name, claim) = match (observation.owner.flow, is_holder) {
            (Flow::Annotations, true) => ("claim", "this Service holds the name"),
            (Flow::Annotations, false) => ("claim", "another Service holds the name"),
            (Flow::Exports, _) => {
                self.note_double_registration(&place);
                ("export", "the instances of the export")
            }
        };
        let claim = Check::new(CheckOutcome::of(is_holder), name, claim);
        let published = observation.desired.services.get(&self.service);
        let only_host_names = published.is_some_and(PublishedService::has_only_host_names);
        let kind = kind.map(|kind| kind.to_string());
        let mut facts =
            vec![check_of_cloud_map_service(observation, &place, kind, only_host_names)];
        facts.push(claim);
        facts.extend(
            remarks.into_iter().map(|remark| Check::new(CheckOutcome::Note, "note", remark)),
        );
        let under_name =
            plan.held_back.iter().filter(|held_back| held_back.place.as_ref() == Some(&place));
        let own = under_name.filter(|held_back| held_back.service == self.service);
        let held_back = own.cloned().map(Line::from).collect();
        let namespace = place.namespace.clone();
        let name = place.name.clone();
        self.names.push(ExplainedName { namespace, name, facts, endpoints, held_back, discovery });
    }

    fn note_double_registration(&mut self, export: &Place) {
        let names: Vec<String> = self.names.iter().map(ExplainedName::place).collect();
        if names.is_empty() {
            return;
        }
        let is_same = names.contains(&export.to_string());
        let twice = if is_same { ", so clients discover each pod twice" } else { "" };
        let detail = format!(
            "the Service is annotated and exported: it is registered for both, as {} and as {export}{twice}",
            names.join(", ")
        );
        self.facts.push(Check::new(CheckOutcome::Note, "note", detail));
    }
}

/// Whether no check has failed and no endpoint that takes traffic is left out.
fn is_ok(facts: &[Check], endpoints: &[EndpointLine]) -> bool {
    let is_left_out = |line: &EndpointLine| line.fate == Fate::LeftOut;
    !facts.iter().any(Check::has_failed) && !endpoints.iter().any(is_left_out)
}

impl Explanation {
    /// Replaces each list of endpoints by their number and the number left out, and drops the held-back lines.
    pub fn keep_only_counts(&mut self) {
        for name in &mut self.names {
            name.facts.push(check_of_counts(&std::mem::take(&mut name.endpoints)));
            name.held_back.clear();
        }
        if let Some(clusterset) = &mut self.clusterset {
            clusterset.facts.push(check_of_counts(&std::mem::take(&mut clusterset.endpoints)));
            clusterset.held_back.clear();
        }
        self.held_back.clear();
        let sentence = "the explanation is too large for a Lambda response, so it has only the counts: plan this Service \
                        for its changes";
        self.cut = Some(sentence.to_owned());
    }
}

fn check_of_counts(endpoints: &[EndpointLine]) -> Check {
    let left_out = endpoints.iter().filter(|line| line.fate == Fate::LeftOut).count();
    let detail = format!("{}, {left_out} of them left out", count(endpoints.len(), "endpoint"));
    Check::new(CheckOutcome::of(left_out == 0), "endpoints", detail)
}

/// A name that the Service claims or has instances under, or the name of its export.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedName {
    /// The Cloud Map namespace's name.
    pub namespace: String,
    /// The Cloud Map service's name.
    pub name: String,
    /// The type of the Cloud Map service, whether the Service holds the name, and remarks.
    pub facts: Vec<Check>,
    /// The fate of each endpoint.
    pub endpoints: Vec<EndpointLine>,
    /// The held-back requests.
    pub held_back: Vec<Line>,
    /// The instances that clients discover, if the Cloud Map service exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discovery: Option<Discovery>,
}

impl ExplainedName {
    /// A name that the Service has no valid claim on.
    fn without_claim(place: &Place) -> Self {
        let no_endpoint =
            Check::ok("endpoints", "none: the Service has no valid claim on this name");
        Self {
            namespace: place.namespace.clone(),
            name: place.name.clone(),
            facts: vec![no_endpoint],
            endpoints: Vec::new(),
            held_back: Vec::new(),
            discovery: None,
        }
    }

    /// The Cloud Map service with its namespace.
    pub fn place(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    fn is_ok(&self) -> bool {
        let keeps_out = |line: &Line| line.outcome == Outcome::KeptOut;
        is_ok(&self.facts, &self.endpoints) && !self.held_back.iter().any(keeps_out)
    }
}

fn check_of_cloud_map_service(
    observation: &Observation,
    place: &Place,
    kind: Option<String>,
    only_host_names: bool,
) -> Check {
    let namespace = observation.registry.namespaces.get(&place.key.namespace);
    let namespace_kind = match namespace.map(|namespace| namespace.kind) {
        Some(NamespaceKind::Dns) => "a DNS namespace",
        Some(NamespaceKind::Http) => "an HTTP namespace",
        None => "a namespace that does not exist yet",
    };
    let id = &place.key.namespace;
    let detail = match kind {
        Some(kind) => format!("{kind}, in {namespace_kind} ({id})"),
        None if only_host_names => format!(
            "does not exist yet, in {namespace_kind} ({id}); not created, since all EndpointSlices have addressType FQDN"
        ),
        None => format!(
            "does not exist yet, in {namespace_kind} ({id}); created with the first instance"
        ),
    };
    Check::ok("service", detail)
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

// The explanation as text: one line for each fact, endpoint, exporter and held-back request, with the signs of the
// plan's table.

impl Display for Explanation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "service {} in cluster {}", self.service, self.cluster)?;
        self.facts.iter().try_for_each(|fact| writeln!(f, "  {fact}"))?;
        self.names.iter().try_for_each(|name| write!(f, "{name}"))?;
        self.clusterset.iter().try_for_each(|clusterset| write!(f, "{clusterset}"))?;
        self.held_back.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        self.cut.iter().try_for_each(|cut| writeln!(f, "! {cut}"))?;
        let result =
            if self.ok { "no problems found" } else { "problems found: see the lines with !" };
        writeln!(f, "{result}")
    }
}

impl Display for ExplainedName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "  {}", self.place())?;
        self.facts.iter().try_for_each(|fact| writeln!(f, "    {fact}"))?;
        let is_counted = self.facts.iter().any(|fact| fact.name == "endpoints");
        if self.endpoints.is_empty() && !is_counted {
            writeln!(f, "    ~ endpoints  none: does the Service's selector match pods?")?;
        }
        self.endpoints.iter().try_for_each(|line| writeln!(f, "    {line}"))?;
        self.held_back.iter().try_for_each(|line| writeln!(f, "    {line}"))?;
        self.discovery.iter().try_for_each(|discovery| writeln!(f, "    {discovery}"))
    }
}

impl Display for Discovery {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let dns = self.dns.as_ref().map(|dns| format!("; DNS name {dns}")).unwrap_or_default();
        if let Some(error) = &self.error {
            return write!(f, "~ discovery  failed: {error}{dns}");
        }
        let ours = format_counts(&self.ours);
        let others = format_counts(&self.others);
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
    use crate::report::cut_if_too_large;

    #[test]
    fn an_explanation_that_is_too_large_has_the_number_of_endpoints() {
        let last = 59_999;
        let endpoint = |number: usize| EndpointLine {
            member: None,
            addresses: vec!["10.0.0.1".to_owned()],
            ports: Vec::new(),
            pod: Some(format!("web-{number}")),
            condition: Some("ready".to_owned()),
            fate: if number == last { Fate::LeftOut } else { Fate::Present },
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
        let mut explanation = Explanation::new("blue", &ServiceRef::new("shop", "web"));
        explanation.names.push(name);
        let mut explanation = explanation.conclude(None);
        cut_if_too_large(&mut explanation, Explanation::keep_only_counts);
        insta::assert_snapshot!(explanation, @r"
        service shop/web in cluster blue
          shop.local/web
            ! endpoints  60000 endpoints, 1 of them left out
        ! the explanation is too large for a Lambda response, so it has only the counts: plan this Service for its changes
        problems found: see the lines with !
        ");
    }
}
