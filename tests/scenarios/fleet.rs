//! The small world that most scenarios start from: cluster `blue`, an HTTP namespace `prod` and a DNS
//! namespace `prod.local`, and Services in the Kubernetes namespace `shop`. Verbs for what happens in
//! it and what stands in it; `run` has those that start the function.

use std::collections::BTreeMap;

use cloud_map_sync::function::Function;
use serde_json::Value;

use crate::run::converged;
use testbed::clock::StandInClock;
use testbed::cloud_map::{CloudMap, NamespaceKind, RecordType, ServiceKind, ServiceView};
use testbed::kubernetes::{ClusterIdentity, Headless, KubernetesServer, Pod};
use testbed::{ACCOUNT, REGION, Sandbox};

/// The default `OWNER_ID`.
pub const OWNER: &str = "cloud-map-sync";
/// Another account, which shares namespaces or has clusters.
pub const OTHER_ACCOUNT: &str = "444455556666";
/// Another Region.
pub const OTHER_REGION: &str = "eu-west-1";
/// A role in the other account that reads clusters.
pub const READER: &str = "arn:aws:iam::444455556666:role/cluster-reader";

/// The attributes of an instance.
pub type Attributes = BTreeMap<String, String>;

/// A world with one cluster and two Cloud Map namespaces.
pub struct Fleet {
    pub sandbox: Sandbox,
    pub cluster: KubernetesServer,
    pub cloud_map: CloudMap,
    pub http: String,
    pub dns: String,
    /// The time of its functions, which only a test advances.
    pub clock: StandInClock,
}

impl Fleet {
    /// Cluster `blue`, HTTP namespace `prod`, DNS namespace `prod.local`; nothing in them.
    pub async fn start() -> Self {
        let sandbox = Sandbox::in_process().await.cluster("blue").await;
        let cloud_map = sandbox.cloud_map();
        cloud_map.watch_over(OWNER, &[&sandbox.cluster_arn("blue")]);
        Self {
            cluster: sandbox.kubernetes("blue"),
            http: cloud_map.namespace("prod", NamespaceKind::Http),
            dns: cloud_map.namespace("prod.local", NamespaceKind::DnsPrivate),
            cloud_map,
            sandbox,
            clock: StandInClock::new(),
        }
    }

    /// With one Service, as [`Fleet::web`] makes it.
    pub async fn with_web(name: &str, namespace: &str, addresses: &[&str]) -> Self {
        let fleet = Self::start().await;
        fleet.web(name, namespace, addresses);
        fleet
    }

    /// The same, with a process of the function that has registered it.
    pub async fn in_step(name: &str, namespace: &str, addresses: &[&str]) -> (Self, Function) {
        let fleet = Self::with_web(name, namespace, addresses).await;
        let function = converged(&fleet).await;
        (fleet, function)
    }

    /// With a second cluster, as [`Fleet::green`] makes it.
    pub async fn with_green() -> (Self, KubernetesServer) {
        let fleet = Self::start().await;
        let green = fleet.green().await;
        (fleet, green)
    }

    /// The same with a Service `web` in each, as [`Fleet::web`] makes it: with 10.0.1.1 in `blue`, and 10.0.2.1.
    pub async fn web_in_both() -> (Self, KubernetesServer) {
        let (fleet, green) = Self::with_green().await;
        fleet.web("web", "prod", &["10.0.1.1"]);
        web_of(&green, "web", "prod", &["10.0.2.1"]);
        (fleet, green)
    }

    /// A second cluster `green` that shares the registry, with nothing in it.
    pub async fn green(&self) -> KubernetesServer {
        let sandbox = self.sandbox.clone().cluster("green").await;
        let arns = ["blue", "green"].map(|cluster| sandbox.cluster_arn(cluster));
        self.cloud_map.watch_over(OWNER, &arns);
        sandbox.kubernetes("green")
    }

    /// A cluster `far` of another account and Region, which [`READER`] reads, with its ARN.
    pub async fn far(&self, external_id: Option<&str>) -> (KubernetesServer, String) {
        let identity = ClusterIdentity {
            name: "far".to_owned(),
            local_id: None,
            region: OTHER_REGION.to_owned(),
            account: OTHER_ACCOUNT.to_owned(),
        };
        let arn = identity.arn();
        self.sandbox.role(READER, external_id);
        (self.sandbox.add_cluster(identity, READER).await, arn)
    }

    /// The function with the sandbox's settings.
    pub async fn function(&self) -> Function {
        self.function_with(&[]).await
    }

    /// The function with other settings beside them.
    pub async fn function_with(&self, settings: &[(&str, &str)]) -> Function {
        self.sandbox.function(settings).await.with_clock(self.clock.clock())
    }

    /// The function that serves these entries of `CLUSTERS`.
    pub async fn serving(&self, clusters: &Value) -> Function {
        self.function_with(&[("CLUSTERS", &clusters.to_string())]).await
    }

    /// The Cloud Map of another account or Region for one of our clusters, with the namespaces `prod` and `prod.local`.
    pub fn registry(&self, region: &str, account: &str, cluster: &str) -> CloudMap {
        let cloud_map = self.sandbox.cloud_map_of(region, account);
        cloud_map.watch_over(OWNER, &[cluster]);
        cloud_map.namespace("prod", NamespaceKind::Http);
        cloud_map.namespace("prod.local", NamespaceKind::DnsPrivate);
        cloud_map
    }

    /// Adds or replaces a Service in `shop`.
    pub fn service(&self, service: Headless) {
        self.cluster.service(service);
    }

    /// Gives a Service of `shop` these ready pods.
    pub fn pods(&self, service: &str, addresses: &[&str]) {
        give_pods(&self.cluster, service, addresses);
    }

    /// A Service `shop/<name>` that claims its own name in `namespace`, with these ready pods.
    pub fn web(&self, name: &str, namespace: &str, addresses: &[&str]) {
        web_of(&self.cluster, name, namespace, addresses);
    }

    /// Waits for the first call of an operation.
    pub async fn called(&self, operation: &str) {
        while self.cloud_map.count(operation) == 0 {
            tokio::task::yield_now().await;
        }
    }

    /// Sets or, with an empty value, removes an annotation of ours on a Service of `shop`.
    pub fn annotate(&self, service: &str, annotation: &str, value: &str) {
        let key = format!("cloudmap.controller/{annotation}");
        self.cluster.edit_service("shop", service, |object| {
            let annotations = object["metadata"]["annotations"].as_object_mut();
            let annotations = annotations.expect("the Service has annotations");
            match value {
                "" => _ = annotations.remove(&key),
                value => _ = annotations.insert(key, value.into()),
            }
        });
    }

    /// The instances of a Cloud Map service by id; none where it does not exist.
    pub fn instances(&self, namespace: &str, service: &str) -> BTreeMap<String, Attributes> {
        let found = self.cloud_map.find_service(namespace, service);
        found.map(|id| self.cloud_map.instances(&id)).unwrap_or_default()
    }

    /// The only instance of a Cloud Map service.
    pub fn instance(&self, namespace: &str, service: &str) -> (String, Attributes) {
        let mut instances = self.instances(namespace, service).into_iter();
        let one = instances.next().expect("an instance");
        assert_eq!(instances.next(), None, "one instance");
        one
    }

    /// The IPv4 addresses in a Cloud Map service, sorted.
    pub fn addresses(&self, namespace: &str, service: &str) -> Vec<String> {
        self.values(namespace, service, "AWS_INSTANCE_IPV4")
    }

    /// The values of one attribute in a Cloud Map service, sorted.
    pub fn values(&self, namespace: &str, service: &str, key: &str) -> Vec<String> {
        let instances = self.instances(namespace, service);
        let values = instances.values().filter_map(|attributes| attributes.get(key));
        let mut values: Vec<String> = values.cloned().collect();
        values.sort();
        values
    }

    /// Every Cloud Map service, with the name of its namespace.
    pub fn all_services(&self) -> Vec<(String, ServiceView)> {
        let namespaces = self.cloud_map.namespaces().into_iter();
        let services = namespaces.flat_map(|(id, name)| {
            self.cloud_map.services(&id).into_iter().map(move |it| (name.clone(), it))
        });
        services.collect()
    }

    /// A Cloud Map service as it is.
    pub fn view(&self, namespace: &str, service: &str) -> ServiceView {
        let id = self.cloud_map.find_namespace(namespace).expect("the namespace");
        let mut services = self.cloud_map.services(&id).into_iter();
        services.find(|view| view.name == service).expect("the service")
    }

    /// A service in `prod.local` with these records, as Terraform makes one.
    pub fn dns_service(&self, name: &str, records: &[RecordType]) -> String {
        self.cloud_map.service(&self.dns, name, ServiceKind::of_records(records))
    }

    /// An A service in `prod.local` in which ECS runs a task, as ECS registers it.
    pub fn ecs_service(&self, name: &str, address: &str) -> String {
        let records = vec![(RecordType::A, 60)];
        let kind = ServiceKind::Dns { records, custom_health: true };
        let service = self.cloud_map.service(&self.dns, name, kind);
        self.ecs_task(&service, "0123456789abcdef0123456789abcdef", address);
        service
    }

    /// An ECS task in a service.
    pub fn ecs_task(&self, service: &str, id: &str, address: &str) {
        let attributes = [
            ("AWS_INSTANCE_IPV4", address),
            ("AWS_INIT_HEALTH_STATUS", "HEALTHY"),
            ("AVAILABILITY_ZONE", "eu-central-1a"),
            ("REGION", REGION),
            ("ECS_CLUSTER_NAME", "legacy"),
            ("ECS_SERVICE_NAME", "web"),
            ("ECS_TASK_DEFINITION_FAMILY", "web"),
        ];
        self.cloud_map.instance(service, id, &attributes);
    }

    /// What this release writes on the instance of a pod of `blue` in `shop/<service>`.
    pub fn ours(&self, service: &str, address: &str) -> Attributes {
        let arn = self.sandbox.cluster_arn("blue");
        attributes(&[
            ("AVAILABILITY_ZONE", "eu-central-1a"),
            ("AWS_INSTANCE_IPV4", address),
            ("REGION", REGION),
            ("cloud-map-sync/cluster", &arn),
            ("cloud-map-sync/namespace", "shop"),
            ("cloud-map-sync/owner", OWNER),
            ("cloud-map-sync/pod", &pod_name(service, address)),
            ("cloud-map-sync/schema", "1"),
            ("cloud-map-sync/service", service),
        ])
    }

    /// Another party adds attributes to the instances of ours in a Cloud Map service until each has Cloud Map's 30.
    pub fn fill(&self, namespace: &str, service: &str) {
        let id = self.cloud_map.service_id(namespace, service);
        let is_ours = |attributes: &Attributes| {
            attributes.get("cloud-map-sync/owner").is_some_and(|owner| owner == OWNER)
        };
        let instances = self.instances(namespace, service).into_iter();
        for (instance, mut attributes) in instances.filter(|(_, it)| is_ours(it)) {
            let own = attributes.keys().filter(|key| !key.starts_with("AWS_")).count();
            attributes.extend((own..30).map(|index| (format!("by-hand-{index}"), "x".to_owned())));
            self.put(&id, &instance, &attributes);
        }
    }

    /// From now on an adoption may take the instances of these services with such ids and attributes.
    pub fn allow_adoption_in(
        &self,
        services: &[String],
        is_allowed: impl Fn(&str, &Attributes) -> bool,
    ) {
        let of_service = |service: &String| {
            let all = self.cloud_map.instances(service).into_iter();
            let allowed = all.filter(|(id, attributes)| is_allowed(id, attributes));
            allowed.map(|(id, _)| (service.clone(), id)).collect::<Vec<_>>()
        };
        let allowed: Vec<(String, String)> = services.iter().flat_map(of_service).collect();
        let allowed = allowed.iter().map(|(service, id)| (service.as_str(), id.as_str()));
        self.cloud_map.allow_adoption(&allowed.collect::<Vec<_>>());
    }

    /// Puts an instance into a service, or another in its place, without the function.
    pub fn put(&self, service: &str, id: &str, attributes: &Attributes) {
        let attributes = attributes.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        self.cloud_map.instance(service, id, &attributes.collect::<Vec<_>>());
    }
}

/// Attributes out of a list.
pub fn attributes(pairs: &[(&str, &str)]) -> Attributes {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// The ARN of a Cloud Map namespace of the function's account and Region.
pub fn namespace_arn(id: &str) -> String {
    format!("arn:aws:servicediscovery:{REGION}:{ACCOUNT}:namespace/{id}")
}

/// A Service `shop/<name>` of a cluster that claims its own name in `namespace`, with these ready pods.
pub fn web_of(cluster: &KubernetesServer, name: &str, namespace: &str, addresses: &[&str]) {
    cluster.service(annotated(name, namespace, name));
    give_pods(cluster, name, addresses);
}

/// Gives a Service of `shop` in any cluster ready pods, named by their addresses.
pub fn give_pods(cluster: &KubernetesServer, service: &str, addresses: &[&str]) {
    let pods = addresses.iter().map(|address| Pod::new(&pod_name(service, address), address));
    cluster.pods("shop", service, &pods.collect::<Vec<_>>());
}

/// The name that `give_pods` gives.
pub fn pod_name(service: &str, address: &str) -> String {
    format!("{service}-{}", address.replace(['.', ':'], "-"))
}

/// A headless Service `shop/<name>` with port `http` 8080 that claims `hostname` in `namespace`.
pub fn annotated(name: &str, namespace: &str, hostname: &str) -> Headless {
    Headless::new("shop", name).port("http", 8080).claim(hostname, namespace)
}

/// Addresses of a network (`10.0.1`) with these last numbers.
pub fn ips(network: &str, last: impl IntoIterator<Item = usize>) -> Vec<String> {
    last.into_iter().map(|last| format!("{network}.{last}")).collect()
}

/// Texts as the verbs of a fleet take them.
pub fn refs(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}
