//! The AWS of these tests: the sandbox, with an HTTP namespace `prod`, a DNS namespace `prod.local`,
//! and an ECS task that is called `web.prod.local` as the Service of that name will be.

use std::collections::BTreeMap;

use crate::lambda::Lambda;
use testbed::cloud_map::{CloudMap, NamespaceKind, RecordType, ServiceKind, ServiceView};
use testbed::identity::AccessKey;
use testbed::kubernetes::ClusterIdentity;
use testbed::{REGION, Sandbox};

/// The attributes of an instance.
pub type Attributes = BTreeMap<String, String>;

const ECS_TASK: &str = "0123456789abcdef0123456789abcdef";
const ECS_ADDRESS: &str = "10.0.9.1";

/// The sandbox and what ECS has in it.
pub struct World {
    pub sandbox: Sandbox,
    pub cloud_map: CloudMap,
    web: String,
}

impl World {
    /// Starts it; the only cluster whose marks are ours is `blue`.
    pub async fn start() -> Self {
        let sandbox = Sandbox::start().await;
        let cloud_map = sandbox.cloud_map();
        cloud_map.watch_over("cloud-map-sync", &[&blue().arn()]);
        cloud_map.namespace("prod", NamespaceKind::Http);
        let dns = cloud_map.namespace("prod.local", NamespaceKind::DnsPrivate);
        let kind = ServiceKind::Dns { records: vec![(RecordType::A, 60)], custom_health: true };
        let web = cloud_map.service(&dns, "web", kind);
        cloud_map.instance(&web, ECS_TASK, &ecs_task());
        Self { sandbox, cloud_map, web }
    }

    /// The binary in the sandbox's environment, for the cluster `blue`.
    pub async fn lambda(&self, more: &[(&str, &str)]) -> Lambda {
        Lambda::start(&self.variables(more)).await
    }

    /// The same with another access key of the same role.
    pub async fn lambda_with_key(&self, key: &AccessKey) -> Lambda {
        let mut variables = self.variables(&[]);
        let credentials = [
            ("AWS_ACCESS_KEY_ID", &key.id),
            ("AWS_SECRET_ACCESS_KEY", &key.secret),
            ("AWS_SESSION_TOKEN", &key.session_token),
        ];
        variables.extend(credentials.map(|(name, value)| (name.to_owned(), value.clone())));
        Lambda::start(&variables).await
    }

    fn variables(&self, more: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut variables = self.sandbox.environment();
        let more = [("CLUSTERS", "blue")].iter().chain(more);
        variables.extend(more.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        variables
    }

    /// The services of a Cloud Map namespace, by name.
    pub fn services(&self, namespace: &str) -> Vec<ServiceView> {
        let id = self.cloud_map.find_namespace(namespace).expect("a namespace of this world");
        self.cloud_map.services(&id)
    }

    /// The names of the services of a Cloud Map namespace, sorted.
    pub fn service_names(&self, namespace: &str) -> Vec<String> {
        self.services(namespace).into_iter().map(|service| service.name).collect()
    }

    /// The instances of a Cloud Map service by id; none where it does not exist.
    pub fn instances(&self, namespace: &str, service: &str) -> BTreeMap<String, Attributes> {
        let found = self.cloud_map.find_service(namespace, service);
        found.map(|id| self.cloud_map.instances(&id)).unwrap_or_default()
    }

    /// The IPv4 addresses in a Cloud Map service, sorted, without the ECS task's.
    pub fn addresses(&self, namespace: &str, service: &str) -> Vec<String> {
        let instances = self.instances(namespace, service);
        let addresses = instances.values().filter_map(|it| it.get("AWS_INSTANCE_IPV4").cloned());
        let mut addresses: Vec<String> =
            addresses.filter(|address| address != ECS_ADDRESS).collect();
        addresses.sort();
        addresses
    }

    /// The attributes of every instance in a Cloud Map namespace.
    pub fn all(&self, namespace: &str) -> Vec<Attributes> {
        let services = self.services(namespace).into_iter();
        services.flat_map(|it| self.cloud_map.instances(&it.id).into_values()).collect()
    }

    /// How many instances there are in all, without the ECS task.
    pub fn all_of_ours(&self) -> usize {
        self.all("prod").len() + self.all("prod.local").len() - 1
    }

    /// Fails where the ECS task is not byte for byte what it was.
    pub fn assert_that_the_ecs_task_is_unchanged(&self) {
        let before = ecs_task().map(|(key, value)| (key.to_owned(), value.to_owned()));
        let now = self.cloud_map.instances(&self.web).remove(ECS_TASK);
        assert_eq!(now, Some(Attributes::from(before)));
    }
}

/// The cluster of these tests.
pub fn blue() -> ClusterIdentity {
    ClusterIdentity::own("blue")
}

/// As ECS registers a task.
fn ecs_task() -> [(&'static str, &'static str); 7] {
    [
        ("AVAILABILITY_ZONE", "eu-central-1a"),
        ("AWS_INIT_HEALTH_STATUS", "HEALTHY"),
        ("AWS_INSTANCE_IPV4", ECS_ADDRESS),
        ("ECS_CLUSTER_NAME", "legacy"),
        ("ECS_SERVICE_NAME", "web"),
        ("ECS_TASK_DEFINITION_FAMILY", "web"),
        ("REGION", REGION),
    ]
}
