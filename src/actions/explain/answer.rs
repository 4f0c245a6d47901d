//! The answer of the action `explain`: the annotations of one Service, then each `name`, then the part of its export and
//! import in a clusterset.

use serde::{Deserialize, Serialize};

use super::{ClustersetExplanation, EndpointFate, Name};
use crate::kubernetes::object::Service;
use crate::kubernetes::services::is_headless;
use crate::model::ServiceRef;
use crate::publish::plan::Plan;
use crate::report::{HeldBackLine, Shorten, Word};

/// The registration of a Service, with the reasons.
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
    pub names: Vec<Name>,
    /// The export and the import of the name, if the cluster takes part in a clusterset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clusterset: Option<ClustersetExplanation>,
    /// The held-back requests that belong to no name.
    pub held_back: Vec<HeldBackLine>,
    /// The part that is left out, if the answer is too large for a Lambda response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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

    /// Records that the Service does not exist.
    #[must_use]
    pub fn with_missing_service(mut self) -> Self {
        self.add_fact(true, "service", "not found in the cluster".to_owned());
        self.with_failure()
    }

    /// Records that the cluster has no Service of the name, which an import does not need.
    pub fn add_absent_service(&mut self) {
        self.add_fact(false, "service", "none of this name in this cluster".to_owned());
    }

    /// Adds a Service that is exported or imported, and not annotated.
    pub fn add_service(&mut self, service: &Service) {
        let address = service.spec.cluster_ip.as_deref().unwrap_or("none");
        let detail = if is_headless(service) {
            "headless (clusterIP: None)".to_owned()
        } else {
            format!("clusterIP is {address}")
        };
        self.add_fact(false, "service", detail);
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

    /// Adds the Service's own address.
    pub fn add_address(&mut self, headless: bool, address: &str) {
        let detail = if headless {
            "headless (clusterIP: None)".to_owned()
        } else {
            let address = if address.is_empty() { "none" } else { address };
            format!(
                "clusterIP is {address}: only headless Services (clusterIP: None) are registered, and the field \
                 is immutable: create a headless Service beside it"
            )
        };
        self.add_fact(!headless, "service", detail);
    }

    /// Marks the explanation as failed.
    #[must_use]
    pub fn with_failure(mut self) -> Self {
        self.ok = false;
        self
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
    #[must_use]
    pub fn with_held_back(mut self, plan: &Plan) -> Self {
        let of_service = plan.held_back.iter().filter(|it| it.service == self.service);
        let placeless = of_service.filter(|it| it.place.is_none());
        self.held_back = placeless.cloned().map(HeldBackLine::from).collect();
        self.ok &= self.held_back.is_empty();
        self
    }

    pub(super) fn add_fact(&mut self, stops: bool, about: &'static str, detail: String) {
        self.facts.push(fact(stops, about, detail));
    }
}

pub(super) fn fact(stops: bool, about: &'static str, detail: String) -> Fact {
    Fact { stops, about: about.into(), detail }
}

impl Shorten for Explanation {
    fn longest(&self) -> usize {
        let imported = self.clusterset.as_ref().map_or(0, |it| it.endpoints.len());
        let of_names = self.names.iter().map(|name| name.endpoints.len());
        of_names.max().unwrap_or_default().max(imported)
    }

    fn shorten(&mut self, entries: usize) {
        for name in &mut self.names {
            name.endpoints.sort_by_key(|line| line.fate == EndpointFate::Registered);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actions::explain::{Condition, EndpointLine};
    use crate::report::within_limit;

    #[test]
    fn an_explanation_that_is_too_large_keeps_the_endpoints_that_are_not_registered() {
        let last = 59_999;
        let endpoint = |number: usize| EndpointLine {
            pod: Some(format!("web-{number}")),
            addresses: vec!["10.0.0.1".to_owned()],
            condition: Condition::Ready,
            fate: if number == last {
                EndpointFate::NotRegistered
            } else {
                EndpointFate::Registered
            },
            detail: "a sentence about its fate".to_owned(),
        };
        let name = Name {
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
            serde_json::from_value(within_limit(&whole)).expect("an explanation");
        assert_eq!(explanation.names[0].endpoints[0].fate, EndpointFate::NotRegistered);
        assert!(explanation.to_string().contains("\n! the explanation is too large"));
    }
}
