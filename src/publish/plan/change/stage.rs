//! The order in which the changes of one Service are made: creations first, then registrations, and removals last.
//! Changes are sorted by it before they are carried out.

use super::Change;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Cloud Map namespaces.
    CreateNamespace,
    /// Cloud Map services.
    Create,
    /// Instances of other owners that become ours.
    Adopt,
    /// New and rewritten instances.
    Register,
    /// The health of instances.
    Health,
    /// Settings of Cloud Map services, after the registrations: finding a pod matters more.
    Update,
    /// Removals of instances.
    Deregister,
}

impl Stage {
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
    /// The stage in which the change is made.
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

    /// The sort key of changes: place, then stage, then instance.
    pub fn order(&self) -> impl Ord {
        (self.place(), self.stage(), self.instance())
    }
}
