//! Watches over exporters of a clusterset, as another member reads them: a cluster exports a Service by its record, or
//! by complete instances without an exporter's mark, and its endpoints are then all complete instances with its id. Of a
//! watched one at least one endpoint is ready at any time.

use std::collections::{BTreeMap, BTreeSet};

use super::CloudMap;
use super::resource::Service;
use super::state::State;

/// An exporter of one Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Exporter {
    namespace: String,
    service: String,
    cluster: String,
}

/// The watched exporters.
#[derive(Default)]
pub(super) struct Exporters(BTreeSet<Exporter>);

impl CloudMap {
    /// From now on it is a violation if a cluster has no ready endpoint of a Service, for any member.
    pub fn keep_ready(&self, namespace: &str, service: &str, cluster: &str) {
        let [namespace, service, cluster] = [namespace, service, cluster].map(str::to_owned);
        self.change(|state| state.exporters.0.insert(Exporter { namespace, service, cluster }));
    }

    /// Ends all these watches.
    pub fn release_exporters(&self) {
        self.change(|state| state.exporters.0.clear());
    }
}

impl State {
    /// Notes each watched exporter without a ready endpoint; `cause` is what just happened.
    pub(super) fn check_exporters(&mut self, cause: &str) {
        let lost = self.exporters.0.iter().filter(|it| !self.is_ready(it));
        let lost: Vec<String> =
            lost.map(|it| format!("{cause}: {it:?} has no ready endpoint")).collect();
        self.guard.violations.extend(lost);
    }

    fn is_ready(&self, exporter: &Exporter) -> bool {
        let Exporter { namespace, service, cluster } = exporter;
        let own: Vec<&BTreeMap<String, String>> = self
            .named_services(|it| it == namespace, service)
            .flat_map(|it| it.present().map(|(_, instance)| &instance.attributes))
            .filter(|it| it.get("CLUSTER_ID") == Some(cluster))
            .collect();
        let is_record = |it: &BTreeMap<String, String>| {
            it.get("cloud-map-sync/namespace") == Some(namespace)
                && it.get("cloud-map-sync/service") == Some(service)
        };
        let mut records = self
            .named_services(|it| it.starts_with("clusterset."), cluster)
            .flat_map(|it| it.present().map(|(_, instance)| &instance.attributes));
        let is_exported = records.any(is_record)
            || own.iter().any(|it| !it.contains_key("cloud-map-sync/exporter"));
        is_exported && own.iter().any(|it| it.get("READY").is_some_and(|it| it == "true"))
    }

    fn named_services<'a>(
        &'a self,
        is_namespace: impl Fn(&str) -> bool + 'a,
        name: &'a str,
    ) -> impl Iterator<Item = &'a Service> {
        self.services.values().filter(move |service| {
            let namespace = self.namespaces.get(&service.namespace);
            service.name == name && namespace.is_some_and(|it| is_namespace(&it.name))
        })
    }
}
