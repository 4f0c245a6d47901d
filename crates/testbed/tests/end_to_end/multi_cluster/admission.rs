//! The API server itself keeps the function's role off what is not the function's, although RBAC would let it.
//!
//! The two roles of deploy/rbac-multi-cluster.yaml, each alone.

use http::Method;
use serde_json::{Value, json};

use super::imports::{assert_ready, import, slices};
use super::{Story, lambda};
use crate::control_plane::manifest::{EXPORT, IMPORT};
use crate::real_cluster::member::{IMPORTS, SERVICES, SLICES, Wish};

const LABEL: &str = "cloud-map-sync/owner";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const SERVICE_NAME: &str = "kubernetes.io/service-name";
const EXCLUDED: &str = "NamespaceExcluded";

/// The derived Service of `web`, and names that are free.
const DERIVED: &str = "derived-isrlchlhrq";
const NEW: &str = "derived-0000000000";
const NEW_SLICE: &str = "imported-0000000000-00000000-1";

impl Story {
    pub(super) async fn function_is_kept_off_the_objects_of_others(&self) {
        let blue = &self.blue;
        let theirs = json!({
            "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceImport",
            "metadata": {"name": "theirs"}, "spec": {"type": "Headless", "ports": []},
        });
        blue.create_object(IMPORTS, theirs.clone()).await;
        let foreign_slice = blue.objects(SLICES).await.into_iter();
        let mut foreign_slice =
            foreign_slice.filter(|it| it["metadata"]["labels"][LABEL].is_null());
        let foreign_slice = name(&foreign_slice.next().expect("a slice of the controller"));
        let our_slice = name(&slices(blue, "web").await[0]);

        let taken = json!({"metadata": {"labels": {LABEL: "cloud-map-sync"}}});
        let given_up = json!({"metadata": {"labels": {LABEL: null}}});
        let changed = json!({"metadata": {"annotations": {"a": "b"}}});
        let refused = [
            create(SERVICES, service(NEW, &json!({}), &json!({}))),
            create(IMPORTS, theirs),
            delete(SERVICES, "web"),
            delete(SLICES, &foreign_slice),
            delete(IMPORTS, "theirs"),
            patch(SERVICES, "web", &changed),
            patch(SERVICES, "web", &taken),
            patch(SLICES, &foreign_slice, &taken),
            patch(IMPORTS, "theirs", &taken),
            patch(IMPORTS, "theirs/status", &json!({"status": {"clusters": []}})),
            patch(SERVICES, DERIVED, &given_up),
            patch(SLICES, &our_slice, &given_up),
            patch(IMPORTS, "web", &given_up),
        ];
        for wish in refused {
            self.assert_refused(wish, LABEL).await;
        }
        let granted = [
            patch(SERVICES, DERIVED, &changed),
            delete(SERVICES, DERIVED),
            patch(SLICES, &our_slice, &changed),
            delete(SLICES, &our_slice),
            patch(IMPORTS, "web", &changed),
            patch(IMPORTS, "web/status", &json!({"status": {"clusters": []}})),
            delete(IMPORTS, "web"),
        ];
        for wish in granted {
            self.assert_granted(wish).await;
        }
        blue.delete_object(IMPORTS, "theirs").await;
    }

    /// Whoever has the function's rights and puts its label on an object gets nothing but the parts of an import.
    pub(super) async fn label_alone_admits_no_service_or_slice(&self) {
        let blue = &self.blue;
        let label = json!({LABEL: "cloud-map-sync"});
        self.assert_granted(create(SERVICES, service(NEW, &label, &json!({})))).await;
        let fixed_ip = json!({"clusterIP": "10.96.200.9"});
        self.assert_granted(create(SERVICES, service(NEW, &label, &fixed_ip))).await;
        let rule = "cloud-map-sync writes only derived Services";
        let specs = [
            json!({"selector": {"app": "payments"}}),
            json!({"externalIPs": ["203.0.113.7"]}),
            json!({"type": "LoadBalancer"}),
            json!({"type": "NodePort"}),
            json!({"type": "ExternalName", "externalName": "payments.example.com"}),
        ];
        for spec in &specs {
            self.assert_refused(create(SERVICES, service(NEW, &label, spec)), rule).await;
            self.assert_refused(patch(SERVICES, DERIVED, &json!({"spec": spec})), rule).await;
        }
        for name in ["payments", "derived-payments", "derived-isrlchlhrq0"] {
            let service = service(name, &label, &json!({}));
            self.assert_refused(create(SERVICES, service), rule).await;
        }
        // Both have our label by the hand of another, who may do that.
        blue.create_object(SERVICES, service("payments", &label, &json!({}))).await;
        blue.create_object(SLICES, slice("payments-1", &label, "IPv4")).await;
        let changed = json!({"metadata": {"annotations": {"a": "b"}}});
        self.assert_refused(patch(SERVICES, "payments", &changed), rule).await;

        let rule = "of a derived Service or none";
        self.assert_refused(patch(SLICES, "payments-1", &changed), rule).await;
        let labels = |manager: &str, service: Option<&str>| {
            let mut labels = json!({LABEL: "cloud-map-sync", MANAGED_BY: manager});
            if let Some(service) = service {
                labels[SERVICE_NAME] = json!(service);
            }
            labels
        };
        let ours = labels("cloud-map-sync", Some(DERIVED));
        for (labels, kind) in
            [(&ours, "IPv4"), (&ours, "IPv6"), (&labels("cloud-map-sync", None), "IPv4")]
        {
            self.assert_granted(create(SLICES, slice(NEW_SLICE, labels, kind))).await;
        }
        let refused = [
            slice(NEW_SLICE, &labels("cloud-map-sync", Some("payments")), "IPv4"),
            slice(NEW_SLICE, &labels("cloud-map-sync", Some("kube-dns")), "IPv4"),
            slice(NEW_SLICE, &labels("cloud-map-sync", Some("derived-payments")), "IPv4"),
            slice(NEW_SLICE, &labels("endpointslice-controller.k8s.io", Some(DERIVED)), "IPv4"),
            slice(NEW_SLICE, &label, "IPv4"),
            slice(NEW_SLICE, &ours, "FQDN"),
            slice("payments-2", &ours, "IPv4"),
            slice("imported-payments", &ours, "IPv4"),
        ];
        for slice in refused {
            self.assert_refused(create(SLICES, slice), rule).await;
        }
        let our_slice = name(&slices(blue, "web").await[0]);
        for change in [
            json!({SERVICE_NAME: "payments"}),
            json!({MANAGED_BY: "endpointslice-controller.k8s.io"}),
            json!({MANAGED_BY: null}),
        ] {
            let change = json!({"metadata": {"labels": change}});
            self.assert_refused(patch(SLICES, &our_slice, &change), rule).await;
        }
        for (path, name) in [(SERVICES, "payments"), (SLICES, "payments-1")] {
            self.assert_granted(delete(path, name)).await;
            blue.delete_object(path, name).await;
        }
    }

    /// In `kube-system` by default; elsewhere by the list of the policy, of which each sync learns by itself.
    pub(super) async fn excluded_namespace_takes_nothing_and_lets_go(&mut self) {
        let system = |path: &str| path.replace("/shop/", "/kube-system/");
        let label = json!({LABEL: "cloud-map-sync"});
        let ours = json!({
            LABEL: "cloud-map-sync", MANAGED_BY: "cloud-map-sync", SERVICE_NAME: NEW,
        });
        let import = json!({
            "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceImport",
            "metadata": {"name": "kube-dns", "labels": label},
            "spec": {"type": "Headless", "ports": []},
        });
        let changed = json!({"metadata": {"annotations": {"a": "b"}}});
        for (path, object) in [
            (SERVICES, service(NEW, &label, &json!({}))),
            (SLICES, slice(NEW_SLICE, &ours, "IPv4")),
            (IMPORTS, import),
        ] {
            let path = system(path);
            self.assert_refused(create(&path, object.clone()), EXCLUDED).await;
            let name = name(&object);
            self.blue.create_object(&path, object).await;
            self.assert_refused(patch(&path, &name, &changed), EXCLUDED).await;
            self.assert_granted(delete(&path, &name)).await;
            self.blue.delete_object(&path, &name).await;
        }

        self.exclude(&["kube-system", "shop"]).await;
        self.blue.service("late", &json!({}), &json!({"ports": [{"port": 80}]})).await;
        self.blue.pod("late", "late-a", &["10.0.7.1"]).await;
        self.blue.export("late", &json!({})).await;
        self.blue.wait_for_ready("late", &["10.0.7.1"]).await;
        let report = self.sync().await;
        let members = report["clusters"].as_array().expect("clusters").iter();
        let held: Vec<String> = members
            .flat_map(|it| it["multiCluster"]["lines"].as_array().cloned().unwrap_or_default())
            .map(|it| format!("{} {}", it["service"]["name"], it["code"]))
            .collect();
        assert!(held.contains(&format!("{:?} {:?}", "late", EXCLUDED)), "{report:#}");
        assert_eq!(self.blue.object(IMPORTS, "late").await, None);
        assert!(self.green.object(IMPORTS, "late").await.is_some());
        self.blue.end_export("late").await;
        self.blue.delete_object(SERVICES, "late").await;
        self.exclude(&["kube-system"]).await;
        // A new process does not remember the exclusion.
        self.lambda = super::lambda(&self.world, "blue,green").await;
        self.sync().await;
        // Green has no garbage collector.
        self.converge().await;
    }

    /// Replaces the list of the policy in `blue`, as the documented kustomization does.
    async fn exclude(&self, namespaces: &[&str]) {
        let list = format!("{namespaces:?}").replace('"', "'");
        let excluded = namespaces.contains(&"shop");
        let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
        let mut policy = self.blue.object(policies, "cloud-map-sync").await.expect("the policy");
        let mut variables = policy["spec"]["variables"].take();
        assert_eq!(variables[0]["name"], "excludedNamespaces");
        variables[0]["expression"] = json!(list);
        let change = json!({"spec": {"variables": variables}});
        self.blue.change_object(policies, "cloud-map-sync", change).await;
        let label = json!({LABEL: "cloud-map-sync"});
        let probe = || create(SERVICES, service(NEW, &label, &json!({})));
        let in_force = async || self.blue.refusal(probe()).await.is_some() == excluded;
        self.blue.control_plane.wait_until("for the new list", in_force).await;
    }

    async fn assert_refused(&self, wish: Wish, rule: &str) {
        let refusal = self.blue.refusal(wish.clone()).await;
        let status = refusal.unwrap_or_else(|| panic!("granted: {wish:?}"));
        assert_eq!(status.code, 422, "{wish:?}: {status:?}");
        let denial = status.message.split_once("denied request: ");
        let has_rule = denial.is_some_and(|(_, denial)| denial.contains(rule));
        assert!(has_rule, "{wish:?}: {status:?}");
    }

    async fn assert_granted(&self, wish: Wish) {
        assert_eq!(self.blue.refusal(wish.clone()).await, None, "{wish:?}");
    }
}

fn service(name: &str, labels: &Value, spec: &Value) -> Value {
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "labels": labels}, "spec": spec,
    });
    service["spec"]["ports"] = json!([{"port": 80}]);
    service
}

fn slice(name: &str, labels: &Value, kind: &str) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": name, "labels": labels},
        "addressType": kind, "endpoints": [], "ports": [],
    })
}

fn create(path: &str, object: Value) -> Wish {
    (Method::POST, path.to_owned(), object)
}

fn delete(path: &str, name: &str) -> Wish {
    (Method::DELETE, format!("{path}/{name}"), Value::Null)
}

fn patch(path: &str, name: &str, change: &Value) -> Wish {
    (Method::PATCH, format!("{path}/{name}"), change.clone())
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().expect("a name").to_owned()
}

impl Story {
    pub(super) async fn either_role_is_enough_for_its_own_part(&mut self) {
        self.blue.control_plane.take_right("cloud-map-sync-import", IMPORT).await;
        self.green.control_plane.take_right("cloud-map-sync-export", EXPORT).await;
        let clusters = json!([
            {"cluster": "blue", "multiCluster": "export"},
            {"cluster": "green", "multiCluster": "import"},
        ]);
        self.lambda = lambda(&self.world, &clusters.to_string()).await;
        self.blue.export("web", &json!({})).await;
        self.converge().await;

        assert_eq!(self.blue.condition("web", "Ready").await, "True Exported");
        assert_ready(&import(&self.green, "web").await, &["blue"]);
        assert_eq!(self.blue.object(IMPORTS, "web").await, None);
    }
}
