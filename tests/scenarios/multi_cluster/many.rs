//! Any number of members of one clusterset, `c0`, `c1` and so on, that one function serves.

use std::collections::BTreeMap;

use cloud_map_sync::function::Function;

use super::{join, serving, writes};
use crate::fleet::Fleet;
use crate::run::synced;
use testbed::clock::StandInClock;
use testbed::kubernetes::KubernetesServer;

/// The members.
pub struct Many {
    pub fleet: Fleet,
    pub clusters: Vec<KubernetesServer>,
    pub function: Function,
    clock: StandInClock,
    names: String,
}

impl Many {
    /// So many members with these namespaces, and with these settings of the function besides.
    pub async fn start(count: usize, namespaces: &[&str], settings: &[(&str, &str)]) -> Self {
        Self::on(Fleet::start().await, count, namespaces, settings).await
    }

    /// The same in a world that has begun.
    pub async fn on(
        fleet: Fleet,
        count: usize,
        namespaces: &[&str],
        settings: &[(&str, &str)],
    ) -> Self {
        let names: Vec<String> = (0..count).map(|index| format!("c{index}")).collect();
        let mut clusters = Vec::new();
        for name in &names {
            let sandbox = fleet.sandbox.clone().cluster(name).await;
            let cluster = sandbox.kubernetes(name);
            join(&cluster, name, namespaces);
            clusters.push(cluster);
        }
        let arns: Vec<String> = names.iter().map(|it| fleet.sandbox.cluster_arn(it)).collect();
        fleet.cloud_map.watch_over(crate::fleet::OWNER, &arns);
        // What a process remembers for a minute must not depend on the speed of the machine.
        let clock = StandInClock::new();
        let names = names.join(",");
        let function = serving(&fleet, &clock, &names, settings).await;
        Self { fleet, clusters, function, clock, names }
    }

    /// Another process of the function, with these settings besides.
    pub async fn new_function(&self, settings: &[(&str, &str)]) -> Function {
        serving(&self.fleet, &self.clock, &self.names, settings).await
    }

    /// A full sync, and a second one that writes nothing. Both are forgotten.
    pub async fn converge(&self) {
        synced(&self.function).await;
        self.assert_settled().await;
        self.forget();
    }

    /// A full sync writes nothing, to Cloud Map or to a cluster.
    pub async fn assert_settled(&self) {
        self.forget();
        synced(&self.function).await;
        let writes: Vec<String> = self.clusters.iter().flat_map(writes).collect();
        assert_eq!((writes, self.fleet.cloud_map.writes()), (vec![], 0));
    }

    pub fn forget(&self) {
        self.fleet.cloud_map.forget_calls();
        self.clusters.iter().for_each(KubernetesServer::forget_requests);
    }

    /// The calls to Cloud Map since then, by operation.
    pub fn cloud_map(&self) -> BTreeMap<String, usize> {
        self.fleet.cloud_map.counts()
    }

    /// The number of instances in a Cloud Map namespace.
    pub fn instances(&self, namespace: &str) -> usize {
        let services = self.fleet.all_services().into_iter().filter(|(name, _)| name == namespace);
        services.map(|(_, service)| self.fleet.cloud_map.instances(&service.id).len()).sum()
    }

    /// The requests to a member, sorted, without what is the same in all paths and queries.
    pub fn asked(&self, index: usize) -> Vec<String> {
        let requests = self.clusters[index].requests().into_iter();
        let mut asked: Vec<String> = requests
            .map(|request| {
                let path = request.path.rsplit_once("/namespaces/shop/");
                let path = path.map_or(request.path.as_str(), |(_, rest)| rest);
                let selector = request.query.split('&').find_map(|it| {
                    it.strip_prefix("labelSelector=").or(it.strip_prefix("fieldSelector="))
                });
                let selector = selector.map(|it| format!("?{}", short(it))).unwrap_or_default();
                format!("{} {path}{selector}", request.method)
            })
            .collect();
        asked.sort();
        asked
    }
}

fn short(selector: &str) -> String {
    let prefixes =
        ["endpointslice.kubernetes.io/", "multicluster.kubernetes.io/", "kubernetes.io/"];
    let plain = selector.replace("%2F", "/").replace("%3D", "=").replace("%2C", ",");
    prefixes.into_iter().fold(plain, |text, prefix| text.replace(prefix, ""))
}
