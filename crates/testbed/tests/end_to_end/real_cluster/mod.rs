//! The cluster `blue` on a real control plane, known to the sandbox's EKS and to the function's role, and the verbs
//! with which a test plays its users and kubelets, and waits for what the cluster's own controllers make of that
//! (`pods`); `member` makes it a member of a clusterset.

pub mod member;
mod pods;

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::Resource;
use kube::api::{Api, DeleteParams, PostParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::control_plane::manifest::LIST_SERVICES;
use crate::control_plane::{ControlPlane, Options};
use crate::world::{World, blue};
use testbed::eks::Facts;
use testbed::programs::skip;

pub use pods::{claim, headless};

/// The Kubernetes namespace of all objects.
pub const NAMESPACE: &str = "shop";
/// The node of all pods, and its zone.
const NODE: &str = "ip-10-0-0-10.eu-central-1.compute.internal";
pub const ZONE: &str = "eu-central-1b";

/// The running cluster.
pub struct RealCluster {
    pub control_plane: ControlPlane,
}

impl RealCluster {
    /// Starts the control plane with the namespace `shop`; the function's role may do nothing there
    /// yet. None where there is no control plane to be had, which a test then says and passes, but not in CI.
    pub async fn start(world: &World, controllers: bool) -> Option<Self> {
        let identity = blue();
        let key = world.sandbox.access_key().clone();
        let multi_cluster = false;
        let is_single_stack = false;
        let options = Options { controllers, multi_cluster, is_single_stack, identity, key };
        Self::start_with(world, options).await
    }

    async fn start_with(world: &World, options: Options) -> Option<Self> {
        let identity = options.identity.clone();
        let control_plane = match ControlPlane::start(options).await {
            Ok(control_plane) => control_plane,
            Err(unavailable) => {
                skip(&unavailable.to_string());
                return None;
            }
        };
        let cluster = Self { control_plane };
        world.sandbox.aws().eks.register_other(&identity.arn(), cluster.facts(identity.name).await);
        let namespace = json!({"metadata": {"name": NAMESPACE}});
        cluster.create_in::<Namespace>(&cluster.all(), &namespace).await;
        Some(cluster)
    }

    async fn facts(&self, name: String) -> Facts {
        let version = self.control_plane.admin().apiserver_version().await.expect("a version");
        Facts {
            name,
            local_id: None,
            version: format!("{}.{}", version.major, version.minor),
            endpoint: self.control_plane.endpoint(),
            certificate_authority: self.control_plane.certificate_authority(),
        }
    }

    /// Lets the function's role do what the project's RBAC file says.
    pub async fn apply_rbac(&self) {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/rbac.yaml");
        self.control_plane.apply_rbac(path, &[LIST_SERVICES]).await;
    }

    /// Adds the node.
    pub async fn node(&self) {
        let labels = json!({"topology.kubernetes.io/zone": ZONE});
        let node = json!({"metadata": {"name": NODE, "labels": labels}});
        self.create_in::<Node>(&self.all(), &node).await;
    }

    /// Deletes the namespace of all objects, and waits until nothing is left of it.
    pub async fn delete_namespace(&self) {
        let namespaces: Api<Namespace> = self.all();
        let deleted = namespaces.delete(NAMESPACE, &DeleteParams::default()).await;
        deleted.unwrap_or_else(|error| panic!("deleting {NAMESPACE}: {error}"));
        let gone = async || matches!(namespaces.get_opt(NAMESPACE).await, Ok(None));
        self.control_plane.wait_until("for the namespace to be gone", gone).await;
    }

    async fn create<K>(&self, object: &Value)
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
        K: Clone + Debug + DeserializeOwned + Serialize,
    {
        self.create_in(&self.api::<K>(), object).await;
    }

    async fn create_in<K>(&self, api: &Api<K>, object: &Value)
    where
        K: Clone + Debug + DeserializeOwned + Serialize,
    {
        let typed = serde_json::from_value(object.clone()).expect("an object of its kind");
        let created = api.create(&PostParams::default(), &typed).await;
        created.unwrap_or_else(|error| panic!("creating {object}: {error}"));
    }

    async fn delete<K>(&self, name: &str)
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
        K: Clone + Debug + DeserializeOwned,
    {
        let at_once = DeleteParams::default().grace_period(0);
        let deleted = self.api::<K>().delete(name, &at_once).await;
        deleted.unwrap_or_else(|error| panic!("deleting {name}: {error}"));
    }

    /// The objects of a kind in `shop`, for an administrator.
    pub fn api<K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>>(&self) -> Api<K> {
        Api::namespaced(self.control_plane.admin(), NAMESPACE)
    }

    fn all<K: Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.control_plane.admin())
    }
}
