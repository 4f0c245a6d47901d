//! The source of the claims of a cluster: its annotated headless Services, or its exports. All else of a run is the same
//! for both.

use std::collections::{BTreeMap, BTreeSet};

use crate::kubernetes::services::{self, AnnotationSettings};
use crate::kubernetes::{Endpoints, Error, Kubernetes, endpoint_slices, exports};
use crate::model::{Desired, Member, PublishedService, ServiceRef};

/// The source of the claims of a cluster.
#[derive(Clone, Debug)]
pub enum Source {
    Annotations(AnnotationSettings),
    /// The exports, as a member of a clusterset.
    Exports(Member),
}

impl Source {
    /// All claims of the cluster.
    pub(super) async fn whole(&self, kubernetes: &Kubernetes) -> Result<Desired, Error> {
        match self {
            Self::Annotations(reading) => {
                Ok(services::desired(&kubernetes.headless_services(None).await?, reading))
            }
            Self::Exports(member) => kubernetes.exports(member).await,
        }
    }

    /// The claims of these namespaces and Services; more of them if there are many.
    pub(super) async fn selected(
        &self,
        kubernetes: &Kubernetes,
        namespaces: &BTreeSet<String>,
        services: &BTreeSet<ServiceRef>,
    ) -> Result<Desired, Error> {
        match self {
            Self::Annotations(reading) => {
                let read = kubernetes.selected(namespaces, services).await?;
                Ok(services::desired(&read, reading))
            }
            Self::Exports(member) => {
                kubernetes.selected_exports(namespaces, services, member).await
            }
        }
    }

    /// One Service, if it claims anything.
    pub(super) async fn one(
        &self,
        kubernetes: &Kubernetes,
        service: &ServiceRef,
    ) -> Result<Option<PublishedService>, Error> {
        let only = BTreeSet::from([service.clone()]);
        let read = self.selected(kubernetes, &BTreeSet::new(), &only).await?;
        Ok(read.services.into_values().next())
    }

    /// Reads the endpoints of Services.
    pub(super) async fn read_endpoints(
        &self,
        kubernetes: &Kubernetes,
        services: &BTreeSet<ServiceRef>,
    ) -> Result<BTreeMap<ServiceRef, Endpoints>, Error> {
        let lists = match self {
            Self::Annotations(_) => endpoint_slices::slice_lists(services),
            Self::Exports(_) => exports::lists(services),
        };
        kubernetes.endpoints(services, lists).await
    }
}
