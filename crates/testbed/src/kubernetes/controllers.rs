//! What the endpoint controllers do for the Services of a cluster, whenever one of them or its pods change.

use serde_json::Value;

use super::endpoint_slices::{is_derived_for, slices_of};
use super::endpoints::endpoints_of;
use super::pod::Pod;
use super::resource::{ENDPOINT_SLICES, ENDPOINTS, PODS, SERVICES};
use super::world::{World, place_of};

impl World {
    /// Replaces the pods that a Service selects.
    pub fn set_pods(&mut self, namespace: &str, service: &str, pods: &[Pod]) {
        let object = self.store.get(&SERVICES, namespace, service);
        let object = object.unwrap_or_else(|| {
            panic!("pods were given for {namespace}/{service}, which does not exist")
        });
        let place = (namespace.to_owned(), service.to_owned());
        let before = self.pods.insert(place, pods.to_vec()).unwrap_or_default();
        if self.shows_pods {
            self.show_pods(&object, &before, pods);
        }
        self.follow(namespace, service);
    }

    /// Does what the endpoint and endpoint-slice controllers do for a Service with a selector.
    pub(super) fn follow(&mut self, namespace: &str, name: &str) {
        let service = self.store.get(&SERVICES, namespace, name);
        let Some(service) = service.filter(|service| service["spec"]["selector"].is_object())
        else {
            return;
        };
        let pods =
            self.pods.get(&(namespace.to_owned(), name.to_owned())).cloned().unwrap_or_default();
        let slices = slices_of(&service, &pods);
        let names: Vec<_> = slices.iter().map(|slice| slice["metadata"]["name"].clone()).collect();
        self.remove_slices(namespace, |slice| {
            is_derived_for(slice, name) && !names.contains(&slice["metadata"]["name"])
        });
        for slice in slices {
            self.store.put(&ENDPOINT_SLICES, slice);
        }
        self.store.put(&ENDPOINTS, endpoints_of(&service, &pods));
    }

    fn show_pods(&mut self, service: &Value, before: &[Pod], now: &[Pod]) {
        let (namespace, _) = place_of(service);
        for gone in before.iter().filter(|pod| now.iter().all(|it| it.name != pod.name)) {
            self.store.remove(&PODS, &namespace, &gone.name);
        }
        for pod in now {
            self.store.put(&PODS, pod.object(service));
        }
    }

    fn remove_slices(&mut self, namespace: &str, goes: impl Fn(&Value) -> bool) {
        for slice in self.store.all(&ENDPOINT_SLICES, namespace) {
            if goes(&slice) {
                let (namespace, name) = place_of(&slice);
                self.store.remove(&ENDPOINT_SLICES, &namespace, &name);
            }
        }
    }
}
