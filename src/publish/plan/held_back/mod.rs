//! Requests that are not carried out. [`Reason`] and, for a Cloud Map service as a whole, [`Setting`] have the
//! sentences; this module decides the effect of a reason on the run and on its report.

mod reason;
mod setting;
mod text;

use super::{Place, SetBy};
use crate::model::attributes::{IPV4, IPV6};
use crate::model::{Attributes, Records, ServiceKind, ServiceRef, UnresolvedNamespace};

pub use reason::Reason;
pub use setting::Setting;

/// A request of a Kubernetes Service that this run does not carry out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeldBack {
    pub service: ServiceRef,
    /// The Cloud Map service that the request is about, if it is known.
    pub place: Option<Place>,
    pub reason: Reason,
}

impl Reason {
    pub fn code(&self) -> &'static str {
        match self {
            Self::BadAnnotation(_) => "BadAnnotation",
            Self::Namespace(UnresolvedNamespace::Missing { .. }) => "NamespaceMissing",
            Self::Namespace(UnresolvedNamespace::Ambiguous { .. }) => "NamespaceAmbiguous",
            Self::DomainConflict { .. } => "DomainConflict",
            Self::NotAllowed(_) => "NotAllowed",
            Self::TooManyNames { .. } => "TooManyNames",
            Self::AddressNotAllowed { .. } => "AddressNotAllowed",
            Self::AddressNotCheckable => "AddressNotCheckable",
            Self::RecordTypeMismatch { .. } | Self::RecordsMisfit { .. } => "RecordTypeMismatch",
            Self::NotPublishable(_) => "NotPublishable",
            Self::AddressMalformed(_) => "AddressMalformed",
            Self::NoSuchPort { .. } => "NoSuchPort",
            Self::PortNeeded { .. } => "PortNeeded",
            Self::CnameService => "CnameService",
            Self::ServiceConnect => "ServiceConnect",
            Self::DnsNotAllowed => "DnsNotAllowed",
            Self::IdTaken(_) => "IdTaken",
            Self::Maximum { .. } => "MaxInstances",
            Self::ServiceFull { .. } => "ServiceFull",
            Self::NoneReady { .. } => "NoneReady",
            Self::EndpointsTruncated => "EndpointsTruncated",
            Self::AttributeLimit { .. } => "AttributeLimit",
            Self::NotAdopted { .. } | Self::ExportNotAdopted { .. } => "NotAdopted",
            Self::Policy { .. } => "Policy",
            Self::Guard { .. } => "Guard",
            Self::Waiting { .. } => "Waiting",
            Self::AddressTaken { .. } => "AddressTaken",
            Self::InvalidInput(_) => "InvalidInput",
            Self::LimitExceeded { .. } | Self::QuotaExceeded(_) => "LimitExceeded",
            Self::Setting(setting) => setting.code(),
            Self::NamespaceInDeletion(_) => "NamespaceInDeletion",
            Self::ServiceInUse => "ServiceInUse",
            Self::Unreadable(_) => "Unreadable",
        }
    }

    /// The reason for which Cloud Map may refuse an instance with addresses of one family if the records of the service
    /// are of both; `None` in all other cases.
    pub fn of_one_family(kind: ServiceKind, attributes: &Attributes) -> Option<Self> {
        let ServiceKind::Dns(Records { a: true, aaaa: true, .. }) = kind else { return None };
        let addresses = [IPV4, IPV6].into_iter().filter_map(|key| attributes.get(key));
        let addresses: Vec<&str> = addresses.collect();
        let [address] = addresses.as_slice() else { return None };
        Some(Self::RecordTypeMismatch { records: kind.to_string(), addresses: (*address).into() })
    }

    /// Whether the reason keeps an endpoint out of a name. An address that is never published is not missing, and an
    /// endpoint beyond the maximum is not requested.
    pub fn keeps_out(&self) -> bool {
        let never = matches!(self, Self::NotPublishable(_) | Self::AddressNotAllowed { .. });
        !never && !self.is_remark() && !matches!(self, Self::Maximum { .. })
    }

    /// Whether the owner of the Service can solve it, and so should get an event. Not for the guard: if many Services
    /// lose instances at once, the operators of the function have to judge it.
    pub fn concerns_owner(&self) -> bool {
        let not_theirs = matches!(
            self,
            Self::Policy { .. }
                | Self::Guard { .. }
                | Self::Waiting { .. }
                | Self::ExportNotAdopted { .. }
                | Self::Namespace(UnresolvedNamespace::Ambiguous { is_left: true, .. })
        );
        let as_asked = matches!(
            self,
            Self::Maximum { set_by: SetBy::Annotation, .. } | Self::NotAdopted { .. }
        );
        !not_theirs && !as_asked && !self.is_failure()
    }

    /// Whether the reason is the capacity of Cloud Map.
    pub fn is_about_capacity(&self) -> bool {
        matches!(self, Self::ServiceFull { .. } | Self::LimitExceeded { .. })
    }

    /// Whether a retry may help, so that the run counts as incomplete.
    pub fn is_failure(&self) -> bool {
        match self {
            Self::Unreadable(_) => true,
            Self::Setting(setting) => setting.is_failure(),
            _ => false,
        }
    }

    /// Whether it is about the service as a whole and holds back no instance.
    pub fn is_remark(&self) -> bool {
        matches!(self, Self::Setting(_))
    }
}
