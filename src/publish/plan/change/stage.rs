//! The order in which the changes of one Service are made.

use super::Change;

/// The order of one Service's changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Cloud Map namespaces.
    CreateNamespace,
    /// Cloud Map services.
    Create,
    /// Instances of others that become ours.
    Adopt,
    /// New and rewritten instances.
    Register,
    /// The health of instances.
    Health,
    /// Settings of Cloud Map services: a pod that can be found matters more.
    Update,
    /// Instances that go.
    Deregister,
}

impl Stage {
    /// All of them, in their order.
    pub const ALL: [Self; 7] = [
        Self::CreateNamespace,
        Self::Create,
        Self::Adopt,
        Self::Register,
        Self::Health,
        Self::Update,
        Self::Deregister,
    ];
}

impl Change {
    /// When it is made, among the changes of its Service.
    pub fn stage(&self) -> Stage {
        match self {
            Self::CreateNamespace { .. } => Stage::CreateNamespace,
            Self::CreateService { .. } => Stage::Create,
            Self::UpdateService { .. } => Stage::Update,
            Self::Adopt { .. } => Stage::Adopt,
            Self::Register { .. } | Self::Rewrite { .. } => Stage::Register,
            Self::Health { .. } => Stage::Health,
            Self::Deregister { .. } => Stage::Deregister,
        }
    }

    /// What changes are sorted by: place, then the order in which they are made, then instance.
    pub fn order(&self) -> impl Ord {
        (self.place(), self.stage(), self.instance())
    }
}
