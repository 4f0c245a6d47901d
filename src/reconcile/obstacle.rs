//! The reasons why a cluster takes no part in its clusterset, or publishes no exports, as its report has them.

use crate::clusterset::identity::NoMember;
use crate::error::chain;
use crate::publish::exports::Refused;
use crate::report::Obstacle;

impl From<Refused> for Obstacle {
    fn from(refused: Refused) -> Self {
        let (reason, detail) = (refused.code().into(), refused.to_string());
        Self { reason, detail, failed: matches!(refused, Refused::Unreadable(_)) }
    }
}

/// Installs the definitions of the API.
pub const INSTALL: &str = "CRDS=https://raw.githubusercontent.com/kubernetes-sigs/mcs-api/v0.5.2/config/crd; kubectl apply -f $CRDS/multicluster.x-k8s.io_serviceexports.yaml -f $CRDS/multicluster.x-k8s.io_serviceimports.yaml";

pub(super) fn no_api() -> Obstacle {
    let detail = format!(
        "the cluster does not serve multicluster.x-k8s.io/v1beta1: install mcs-api v0.5.0 or newer: {INSTALL}"
    );
    Obstacle { reason: "NoMultiClusterApi".into(), detail, failed: false }
}

/// A read that failed, which the next run may make.
pub fn unread(error: &dyn std::error::Error) -> Obstacle {
    Obstacle { reason: "Unreadable".into(), detail: chain(error), failed: true }
}

/// AWS's controller deregisters everything under its cluster id that it did not register, and deletes imports without
/// endpoints, so the two never run for one cluster.
pub(super) fn another_controller(sign: &str) -> Obstacle {
    let detail = format!(
        "the AWS Cloud Map MCS Controller runs in this cluster, or did: {sign}; nothing is exported or imported here; \
         to move the cluster, see docs/moving-from-other-tools.md"
    );
    Obstacle { reason: "AnotherController".into(), detail, failed: false }
}

pub(super) fn no_member(reason: &NoMember) -> Obstacle {
    Obstacle { reason: reason.code().into(), detail: reason.to_string(), failed: false }
}
