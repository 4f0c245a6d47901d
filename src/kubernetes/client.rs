//! The client of one cluster, with the answers that it keeps from one invocation to the next.

use std::sync::Arc;

use kube::Client;

use super::cluster_property::Properties;
use super::events::RecentEvents;
use super::excluded_namespaces::ExcludedNamespaces;
use super::recent::Recent;
use super::refused_fields::RefusedFields;
use super::serves::Serves;
use super::service_families::ServiceFamilies;

/// The concurrency limit of requests to one API server.
pub(super) const CONCURRENCY: usize = 16;

/// The Kubernetes API of one cluster.
#[derive(Clone)]
pub struct Kubernetes {
    pub(super) client: Client,
    pub(super) recent_events: Arc<RecentEvents>,
    pub(super) serves: Arc<Serves>,
    /// Set if the CRD of ServiceImports has `status.endpointSliceObjects`.
    pub(super) slice_objects: Arc<Recent<()>>,
    pub(super) families: Arc<ServiceFamilies>,
    pub(super) excluded: Arc<ExcludedNamespaces>,
    pub(super) refused: Arc<RefusedFields>,
    pub(super) properties: Arc<Properties>,
}

impl Kubernetes {
    pub fn new(client: Client) -> Self {
        let (recent_events, serves, slice_objects, families, excluded, refused, properties) =
            Default::default();
        Self {
            client,
            recent_events,
            serves,
            slice_objects,
            families,
            excluded,
            refused,
            properties,
        }
    }
}
