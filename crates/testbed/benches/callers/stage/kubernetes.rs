//! Kubernetes: Services and their pods, as their controllers and the kubelet start, replace and end them. Each change is
//! in the API server at once, and the forwarder sees it.

use std::net::Ipv4Addr;
use std::time::SystemTime;

use testbed::kubernetes::{Headless, KubernetesServer, Pod};

use super::{Life, NAMESPACE, RunningPod, SERVICE, Stage};
use crate::server::{PORT, Server};
use crate::times::Times;

/// The recipe of a roll-out, in seconds of the real world.
#[derive(Clone, Copy)]
pub struct Recipe {
    /// `minReadySeconds`
    pub min_ready: u32,
    /// How long a pod serves on after its deletion.
    pub pre_stop: u32,
}

impl Stage {
    /// Creates a Service that no annotation opts in.
    pub fn create_service(&self, cluster: &str, service: &str) {
        self.kubernetes(cluster).service(Headless::new(NAMESPACE, service).port("http", PORT));
        self.publish(cluster, service);
    }

    /// Creates or changes a Service with the claim to the name of the story.
    pub fn claim(&self, cluster: &str, service: &str, annotations: &[(&str, &str)]) {
        self.claim_name(cluster, service, SERVICE, annotations);
    }

    /// The same with the claim to any name.
    pub fn claim_name(
        &self,
        cluster: &str,
        service: &str,
        name: &str,
        annotations: &[(&str, &str)],
    ) {
        let mut claim = Headless::new(NAMESPACE, service).port("http", PORT);
        claim = claim.claim(name, &self.0.domain);
        for (key, value) in annotations {
            claim = claim.annotate(&format!("cloudmap.controller/{key}"), value);
        }
        self.kubernetes(cluster).service(claim);
        self.publish(cluster, service);
    }

    pub fn delete_service(&self, cluster: &str, service: &str) {
        self.kubernetes(cluster).delete_service(NAMESPACE, service);
        self.notify(cluster, service);
    }

    /// Starts pods, and waits until they are ready.
    pub async fn start_pods(&self, cluster: &str, service: &str, count: usize) {
        let mut addresses = Vec::new();
        for _ in 0..count {
            let address = self.new_address(1);
            let pod = RunningPod {
                cluster: cluster.to_owned(),
                service: service.to_owned(),
                address,
                is_ready: false,
                is_terminating: false,
                server: Some(Server::start(address).await),
            };
            self.world().pods.push(pod);
            addresses.push(address);
        }
        self.publish(cluster, service);
        self.wait(Times::START).await;
        let now = SystemTime::now();
        for address in addresses {
            self.change_pod(address, |pod| pod.is_ready = true);
            self.world().lives.push(Life { address, ready: now, ended: None });
        }
        self.publish(cluster, service);
    }

    /// The pods of a Service that do not end.
    pub fn pods(&self, service: &str) -> Vec<Ipv4Addr> {
        let world = self.world();
        let living = world.pods.iter().filter(|pod| pod.service == service && !pod.is_terminating);
        living.map(|pod| pod.address).collect()
    }

    /// Deletes a pod: it terminates, serves on for its preStop, and ends.
    pub async fn delete_pod(&self, address: Ipv4Addr, pre_stop: u32) {
        let (cluster, service) = self.change_pod(address, |pod| pod.is_terminating = true);
        self.record_end(address);
        self.publish(&cluster, &service);
        self.wait(pre_stop).await;
        let server = self.take_pod(address);
        self.publish(&cluster, &service);
        if let Some(server) = server {
            server.stop().await;
        }
    }

    /// Deletes pods one beside the other.
    pub async fn delete_pods(&self, addresses: Vec<Ipv4Addr>, pre_stop: u32) {
        let deletions = addresses.into_iter().map(|address| self.delete_pod(address, pre_stop));
        futures_util::future::join_all(deletions).await;
    }

    /// A pod's process is killed; the kubelet notices within a second, and the pod is replaced.
    pub async fn kill_pod(&self, address: Ipv4Addr) {
        let server = self.take_pod_server(address);
        server.kill();
        self.record_end(address);
        self.wait(1).await;
        let (cluster, service) = self.change_pod(address, |pod| pod.is_ready = false);
        self.publish(&cluster, &service);
        self.take_pod(address);
        self.start_pods(&cluster, &service, 1).await;
    }

    /// The node of pods is gone. Kubernetes has them not ready after 40 s.
    pub async fn lose_node(&self, addresses: &[Ipv4Addr]) {
        for address in addresses {
            self.take_pod_server(*address).lose();
            self.record_end(*address);
        }
        self.wait(40).await;
        for address in addresses {
            let (cluster, service) = self.change_pod(*address, |pod| pod.is_ready = false);
            self.publish(&cluster, &service);
        }
    }

    /// Replaces the pods of a Service as a Deployment does with maxUnavailable 0 and a surge of one.
    pub async fn roll(&self, cluster: &str, service: &str, recipe: Recipe) {
        let mut ending = Vec::new();
        for former in self.pods(service) {
            self.start_pods(cluster, service, 1).await;
            self.wait(recipe.min_ready).await;
            let stage = self.clone();
            let deletion = async move { stage.delete_pod(former, recipe.pre_stop).await };
            ending.push(tokio::spawn(deletion));
        }
        for deletion in ending {
            deletion.await.expect("a pod ends");
        }
    }

    /// The selector of a Service finds none of its pods from now on, or finds them again.
    pub fn set_selector(&self, cluster: &str, service: &str, finds_pods: bool) {
        let mut world = self.world();
        world.blind.retain(|blind| blind != service);
        if !finds_pods {
            world.blind.push(service.to_owned());
        }
        drop(world);
        self.publish(cluster, service);
    }

    fn kubernetes(&self, cluster: &str) -> KubernetesServer {
        self.0.sandbox.kubernetes(cluster)
    }

    /// The API server has the pods of a Service as they are, and the forwarder sees the change.
    fn publish(&self, cluster: &str, service: &str) {
        let world = self.world();
        let mut pods = Vec::new();
        for pod in world.pods.iter().filter(|pod| pod.cluster == cluster && pod.service == service)
        {
            let address = pod.address.to_string();
            let name = format!("{service}-{}", address.replace('.', "-"));
            let mut seen = Pod::new(&name, &address);
            if !pod.is_ready {
                seen = seen.not_ready();
            }
            if pod.is_terminating {
                seen = seen.terminating();
            }
            pods.push(seen);
        }
        if world.blind.iter().any(|blind| blind == service) {
            pods.clear();
        }
        let kubernetes = self.kubernetes(cluster);
        let services = kubernetes.objects("services", NAMESPACE);
        // Pods outlive a Service that is deleted.
        if services.iter().any(|object| object["metadata"]["name"] == service) {
            kubernetes.pods(NAMESPACE, service, &pods);
        }
        drop(world);
        self.notify(cluster, service);
    }

    fn notify(&self, cluster: &str, service: &str) {
        if let Some(changes) = &self.0.changes {
            // The forwarder has ended if the stage is struck.
            let _ = changes.send((cluster.to_owned(), service.to_owned()));
        }
    }

    fn change_pod(
        &self,
        address: Ipv4Addr,
        change: impl FnOnce(&mut RunningPod),
    ) -> (String, String) {
        let mut world = self.world();
        let pod = world.pods.iter_mut().find(|pod| pod.address == address);
        let pod = pod.unwrap_or_else(|| panic!("there is no pod {address}"));
        change(pod);
        (pod.cluster.clone(), pod.service.clone())
    }

    fn take_pod(&self, address: Ipv4Addr) -> Option<Server> {
        let mut world = self.world();
        let position = world.pods.iter().position(|pod| pod.address == address)?;
        world.pods.remove(position).server
    }

    fn take_pod_server(&self, address: Ipv4Addr) -> Server {
        let mut world = self.world();
        let pod = world.pods.iter_mut().find(|pod| pod.address == address);
        pod.and_then(|pod| pod.server.take()).unwrap_or_else(|| panic!("no server at {address}"))
    }
}
