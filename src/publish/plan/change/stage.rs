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
    /// Notes on Cloud Map services for later runs.
    Note,
    /// Removals of instances.
    Deregister,
    /// Removals of such notes: if an instance is left, so is the note.
    Forget,
}

impl Stage {
    pub const ALL: [Self; 9] = [
        Self::CreateNamespace,
        Self::Create,
        Self::Adopt,
        Self::Register,
        Self::Health,
        Self::Update,
        Self::Note,
        Self::Deregister,
        Self::Forget,
    ];
}

impl Change {
    /// The stage in which the change is made.
    pub fn stage(&self) -> Stage {
        match self {
            Self::CreateNamespace { .. } => Stage::CreateNamespace,
            Self::CreateService { .. } => Stage::Create,
            Self::UpdateService { .. } => Stage::Update,
            Self::NoteOnService { text: Some(_), .. } => Stage::Note,
            Self::NoteOnService { text: None, .. } => Stage::Forget,
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
