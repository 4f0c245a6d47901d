//! A fleet of the formulas in the stand-ins, in step; the calls of its rounds, as the stand-ins count them.

use std::collections::BTreeMap;
use std::time::Duration;

use cloud_map_sync::function::Function;
use serde_json::{Value, json};

use super::simulation::calls::{Calls, Fleet, Names, Process};
use crate::fleet::{OWNER, annotated, give_pods, refs};
use crate::run::sync;
use testbed::clock::StandInClock;
use testbed::cloud_map::{CloudMap, NamespaceKind};
use testbed::function::{event, invoke};
use testbed::kubernetes::KubernetesServer;
use testbed::{REGION, Sandbox};

/// Of the registries, if there are several.
const ACCOUNTS: [&str; 2] = ["444455556666", "777788889999"];
/// A `QUOTA_SHARE` without any limit.
pub const UNLIMITED: f64 = 1000.0;
/// Namespaces are not listed again for five minutes.
const NAMESPACES_MAX_AGE: Duration = Duration::from_mins(5);

/// A fleet in the stand-ins, in step.
pub struct World {
    fleet: Fleet,
    sandbox: Sandbox,
    pub clusters: Vec<KubernetesServer>,
    pub registries: Vec<CloudMap>,
    clock: StandInClock,
}

impl World {
    /// Everything is registered.
    pub async fn start(fleet: Fleet) -> Self {
        let mut sandbox = Sandbox::in_process().await;
        for cluster in 0..fleet.clusters {
            sandbox = sandbox.cluster(&name(cluster)).await;
        }
        let registries: Vec<CloudMap> = match fleet.accounts {
            1 => vec![sandbox.cloud_map()],
            count => ACCOUNTS[..count].iter().map(|it| sandbox.cloud_map_of(REGION, it)).collect(),
        };
        for account in ACCOUNTS {
            sandbox.role(&role(account), None);
        }
        let clusters = (0..fleet.clusters).map(|it| sandbox.kubernetes(&name(it))).collect();
        let clock = StandInClock::new();
        let world = Self { fleet, sandbox, clusters, registries, clock };
        world.seed();
        let process = world.function(UNLIMITED).await;
        let report = sync(&process).await;
        assert_eq!((report.ok, report.counts.registered), (true, fleet.instances()), "{report}");
        world
    }

    fn seed(&self) {
        let arns: Vec<String> =
            (0..self.fleet.clusters).map(|it| self.sandbox.cluster_arn(&name(it))).collect();
        for registry in &self.registries {
            registry.watch_over(OWNER, &arns);
            registry.adjust(|it| it.discovery_on_any_host = true);
        }
        for (index, cluster) in self.clusters.iter().enumerate() {
            let registry = &self.registries[index % self.fleet.accounts];
            let of = match self.fleet.names {
                Names::Separate => name(index),
                Names::Shared => "all".to_owned(),
            };
            let namespaces: Vec<_> =
                (0..self.fleet.namespaces).map(|it| format!("{of}-{it}")).collect();
            for namespace in &namespaces {
                if registry.find_namespace(namespace).is_none() {
                    registry.namespace(namespace, NamespaceKind::Http);
                }
            }
            for service in 0..self.fleet.services {
                let name = format!("web-{service}");
                let namespace = &namespaces[service % namespaces.len()];
                cluster.service(annotated(&name, namespace, &name));
                let address = |pod: usize| {
                    let number = service * self.fleet.endpoints + pod;
                    format!("10.{index}.{}.{}", number >> 8, number & 255)
                };
                let addresses: Vec<String> = (1..=self.fleet.endpoints).map(address).collect();
                give_pods(cluster, &name, &refs(&addresses));
            }
        }
    }

    /// A new process.
    pub async fn function(&self, share: f64) -> Function {
        let entry = |index: usize| {
            let cluster = self.sandbox.cluster_arn(&name(index));
            match self.fleet.accounts {
                1 => json!({ "cluster": cluster }),
                count => {
                    json!({ "cluster": cluster, "registryRoleArn": role(ACCOUNTS[index % count]) })
                }
            }
        };
        let clusters: Vec<Value> = (0..self.fleet.clusters).map(entry).collect();
        let clusters = json!(clusters).to_string();
        let share = share.to_string();
        let settings = [("CLUSTERS", clusters.as_str()), ("QUOTA_SHARE", share.as_str())];
        self.sandbox.function(&settings).await.with_clock(self.clock.clock())
    }

    /// Counts from here on.
    pub fn forget(&self) {
        self.sandbox.aws().forget_requests();
        self.registries.iter().for_each(CloudMap::forget_calls);
        self.clusters.iter().for_each(KubernetesServer::forget_requests);
    }

    /// The calls of a round to AWS, to each Cloud Map, and the requests to each cluster.
    pub async fn measure(&self, process: Process) -> (Calls, Vec<Calls>, Vec<usize>) {
        let function = self.function(UNLIMITED).await;
        if process != Process::New {
            self.play(&function, process).await;
        }
        self.forget();
        self.play(&function, process).await;
        let mut calls = BTreeMap::new();
        for request in self.sandbox.aws().requests() {
            *calls.entry(request.operation).or_insert(0) += 1;
        }
        let of_accounts = self.registries.iter().map(|it| named(it.counts())).collect();
        let of_clusters = self.clusters.iter().map(|it| it.requests().len()).collect();
        (named(calls), of_accounts, of_clusters)
    }

    /// The schedule begins.
    pub async fn play(&self, function: &Function, process: Process) {
        if process == Process::Warm {
            self.clock.advance(NAMESPACES_MAX_AGE);
        }
        let answer = invoke(function, &event("schedule-eventbridge-scheduler")).await;
        assert_eq!(answer.response.expect("an answer")["ok"], true);
    }
}

pub fn name(cluster: usize) -> String {
    format!("cluster-{cluster}")
}

fn role(account: &str) -> String {
    format!("arn:aws:iam::{account}:role/registry")
}

/// With names that outlive the test, as the formulas have them.
fn named(calls: BTreeMap<String, usize>) -> Calls {
    calls.into_iter().map(|(name, count)| (&*name.leak(), count)).collect()
}
