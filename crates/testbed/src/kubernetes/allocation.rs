//! Completes the families and the cluster IPs of a Service, as the allocators of the API server do
//! (k8s.io/kubernetes pkg/registry/core/service/storage/alloc.go).

use serde_json::{Value, json};

/// The service ranges of a cluster, and how much of them was given out.
#[derive(Debug)]
pub struct Allocator {
    /// `IPv4`, `IPv6`, or both; the first is the default.
    pub families: Vec<&'static str>,
    given: u32,
    /// Addresses that Services outside the tests have.
    pub taken: Vec<String>,
}

impl Default for Allocator {
    fn default() -> Self {
        Self { families: vec!["IPv4"], given: 0, taken: Vec::new() }
    }
}

impl Allocator {
    /// Completes a Service that a client sends, or tells why it cannot be.
    pub fn complete(&mut self, service: &mut Value, before: Option<&Value>) -> Vec<String> {
        if service["spec"]["type"] == "ExternalName" {
            release(service);
            return Vec::new();
        }
        carry_over(service, before);
        if !is_unchanged_preference(service, before) {
            if service["spec"]["ipFamilyPolicy"].is_null() {
                let headless = is_headless(service) && !has_selector(service);
                let policy = if headless { "RequireDualStack" } else { "SingleStack" };
                service["spec"]["ipFamilyPolicy"] = policy.into();
            }
            let causes = self.decide_families(service, before);
            if !causes.is_empty() {
                return causes;
            }
        }
        let had_none = |before: &Value| before["spec"]["type"] == "ExternalName";
        if before.is_none_or(had_none) {
            let taken = texts(&service["spec"]["clusterIPs"]);
            if let Some(ip) = taken.iter().find(|ip| self.taken.contains(ip)) {
                return vec![format!(
                    "spec.clusterIPs: Invalid value: {taken:?}: failed to allocate IP {ip}: \
                     provided IP is already allocated"
                )];
            }
        }
        self.allocate(service);
        Vec::new()
    }

    /// Gives a Service the cluster IPs of its families that it lacks.
    pub fn allocate(&mut self, service: &mut Value) {
        if is_headless(service) || service["spec"]["type"] == "ExternalName" {
            return;
        }
        let mut ips = texts(&service["spec"]["clusterIPs"]);
        if let Some(ip) = service["spec"]["clusterIP"].as_str().filter(|_| ips.is_empty()) {
            ips.push(ip.to_owned());
        }
        let families = texts(&service["spec"]["ipFamilies"]);
        ips.truncate(families.len());
        for family in families.iter().skip(ips.len()) {
            ips.push(self.next(family));
        }
        service["spec"]["clusterIP"] = json!(ips.first());
        service["spec"]["clusterIPs"] = json!(ips);
    }

    fn next(&mut self, family: &str) -> String {
        self.given += 1;
        if family == "IPv6" {
            return format!("fd00:96::{:x}", self.given);
        }
        format!("10.96.{}.{}", self.given / 250, self.given % 250 + 1)
    }

    fn decide_families(&self, service: &mut Value, before: Option<&Value>) -> Vec<String> {
        if let Some(before) = before {
            release_second(service, before);
        }
        let selectorless = is_headless(service) && !has_selector(service);
        let causes = if selectorless { Vec::new() } else { self.missing_families(service) };
        if causes.is_empty() {
            self.add_families(service, selectorless || self.families.len() > 1);
        }
        causes
    }

    fn missing_families(&self, service: &Value) -> Vec<String> {
        let families = texts(&service["spec"]["ipFamilies"]).into_iter().enumerate();
        let missing = families.filter(|(_, family)| !self.families.contains(&family.as_str()));
        let cause = |(index, family)| {
            format!(
                "spec.ipFamilies[{index}]: Invalid value: \"{family}\": not configured on this \
                 cluster"
            )
        };
        missing.map(cause).collect()
    }

    fn add_families(&self, service: &mut Value, has_both: bool) {
        let mut families = texts(&service["spec"]["ipFamilies"]);
        if families.is_empty() {
            families.push(self.families[0].to_owned());
        }
        if has_both && families.len() == 1 && service["spec"]["ipFamilyPolicy"] != "SingleStack" {
            let other = if families[0] == "IPv4" { "IPv6" } else { "IPv4" };
            families.push(other.to_owned());
        }
        service["spec"]["ipFamilies"] = json!(families);
    }
}

/// An ExternalName Service has neither addresses nor families.
fn release(service: &mut Value) {
    if let Some(spec) = service["spec"].as_object_mut() {
        for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            spec.remove(key);
        }
    }
}

/// Whoever leaves the addresses out of a change means those that are there.
pub fn carry_over(service: &mut Value, before: Option<&Value>) {
    let spec = &mut service["spec"];
    if let Some(before) = before.filter(|before| before["spec"]["type"] != "ExternalName") {
        for key in ["clusterIP", "clusterIPs", "ipFamilyPolicy"] {
            if is_empty(&spec[key]) {
                spec[key] = before["spec"][key].clone();
            }
        }
    }
    if is_empty(&spec["clusterIPs"]) && !is_empty(&spec["clusterIP"]) {
        spec["clusterIPs"] = json!([spec["clusterIP"]]);
    }
    let lacks_first = is_empty(&spec["clusterIP"]) && !is_empty(&spec["clusterIPs"]);
    if lacks_first {
        spec["clusterIP"] = spec["clusterIPs"][0].clone();
    }
}

/// A Service that prefers two families is not changed by its cluster's getting or losing one.
fn is_unchanged_preference(service: &Value, before: Option<&Value>) -> bool {
    let same = |key: &str| before.is_some_and(|before| before["spec"][key] == service["spec"][key]);
    service["spec"]["ipFamilyPolicy"] == "PreferDualStack"
        && ["ipFamilyPolicy", "clusterIPs", "ipFamilies"].into_iter().all(same)
}

/// `SingleStack` releases the second address and the second family of a Service that still names both.
fn release_second(service: &mut Value, before: &Value) {
    let spec = &mut service["spec"];
    let single = spec["ipFamilyPolicy"] == "SingleStack";
    for key in ["clusterIPs", "ipFamilies"] {
        let now = texts(&spec[key]);
        if single && now.len() > 1 && now == texts(&before["spec"][key]) {
            spec[key] = json!([now[0]]);
        }
    }
}

/// Whether a Service has no address of its own.
pub fn is_headless(service: &Value) -> bool {
    service["spec"]["clusterIP"] == "None"
}

fn has_selector(service: &Value) -> bool {
    service["spec"]["selector"].as_object().is_some_and(|selector| !selector.is_empty())
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value == "" || value.as_array().is_some_and(Vec::is_empty)
}

fn texts(list: &Value) -> Vec<String> {
    let texts = list.as_array().into_iter().flatten().filter_map(Value::as_str);
    texts.map(ToOwned::to_owned).collect()
}
