//! The effect of an asynchronous operation when it ends. It can fail at that time only, since the registry may have
//! changed after it was accepted.

use std::sync::Arc;

use serde_json::Value;
use tokio::time::Instant;

use super::operation::{Failure, Targets};
use super::resource::{DnsConfig, Instance, Namespace, NamespaceKind};
use super::state::State;

/// What an operation changes when it succeeds.
#[derive(Clone)]
pub(super) enum Effect {
    CreateNamespace(Box<Namespace>),
    DeleteNamespace,
    UpdateService {
        description: Option<String>,
        dns: Option<DnsConfig>,
        health_check: Option<Value>,
    },
    /// `adds`: the id was free when the registration was accepted.
    Register {
        instance: Arc<Instance>,
        adds: bool,
    },
    Deregister,
}

impl Effect {
    /// The operation's type in the API's words.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::CreateNamespace(_) => "CREATE_NAMESPACE",
            Self::DeleteNamespace => "DELETE_NAMESPACE",
            Self::UpdateService { .. } => "UPDATE_SERVICE",
            Self::Register { .. } => "REGISTER_INSTANCE",
            Self::Deregister => "DEREGISTER_INSTANCE",
        }
    }

    /// The call that began it, as DuplicateRequest names it.
    pub(super) fn call(&self) -> &'static str {
        match self {
            Self::CreateNamespace(namespace) => match namespace.kind {
                NamespaceKind::Http => "CreateHttpNamespace",
                NamespaceKind::DnsPrivate => "CreatePrivateDnsNamespace",
                NamespaceKind::DnsPublic => "CreatePublicDnsNamespace",
            },
            Self::DeleteNamespace => "DeleteNamespace",
            Self::UpdateService { .. } => "UpdateService",
            Self::Register { .. } => "RegisterInstance",
            Self::Deregister => "DeregisterInstance",
        }
    }
}

impl State {
    /// Does what an operation was accepted for, as of `ended`.
    pub(super) fn apply(
        &mut self,
        effect: Effect,
        targets: &Targets,
        ended: Instant,
    ) -> Result<(), Failure> {
        let service = targets.service.as_deref().unwrap_or_default();
        let instance = targets.instance.as_deref().unwrap_or_default();
        match effect {
            Effect::CreateNamespace(namespace) => {
                self.finish_create_namespace(&targets.namespace, *namespace, ended)
            }
            Effect::DeleteNamespace => self.finish_delete_namespace(&targets.namespace, ended),
            Effect::UpdateService { description, dns, health_check } => {
                self.finish_update_service(service, description, dns, health_check)
            }
            Effect::Register { instance: new, .. } => {
                self.finish_register(service, instance, new, ended)
            }
            Effect::Deregister => self.finish_deregister(service, instance, ended),
        }
    }
}
