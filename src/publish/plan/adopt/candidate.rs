//! The conditions under which an instance of another owner may become ours.

use std::fmt;

use crate::clusterset::attributes::is_of_a_clusterset;
use crate::model::attributes::{EC2_INSTANCE, MARK_PREFIX, ORPHANED, SIGHTING};
use crate::model::{Attributes, Owner};
use crate::publish::plan::Foreign;
use crate::publish::plan::instances::rewrite;
use crate::publish::plan::instances::wanted::Wanted;
use crate::publish::plan::ownership::{foreign, is_ecs, may_be_ecs};

/// The instances that the caller allows us to adopt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Adoption {
    /// The former `OWNER_ID` in their marks; `None` means instances without marks.
    pub owner: Option<String>,
    /// Whether the exports of the cluster are adopted, too. Then the annotated Services leave the instances of exports
    /// alone.
    pub exports: bool,
}

/// The owner of an instance before its adoption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Former {
    /// The instance had no marks of this function.
    Unmarked(Foreign),
    /// The instance had marks with this `OWNER_ID`, for the same cluster.
    Owner(String),
}

/// The reason why an instance is not adopted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum NotAdopted {
    /// ECS deregisters its own instances.
    #[error("it is a task of ECS")]
    Ecs,
    /// The id of an unmarked instance is one that tasks of ECS have.
    #[error("it may be a task of ECS, since its id is a UUID")]
    MaybeEcs,
    /// It has marks, and the caller named no former owner.
    #[error("it is marked as another cluster's or another owner's")]
    Marked,
    /// It has no marks of the named owner for this cluster.
    #[error("it is not marked as {0}'s for this cluster")]
    NotOf(String),
    /// Cloud Map accepts no attributes besides this one, so no marks.
    #[error("Cloud Map allows no marks together with its AWS_EC2_INSTANCE_ID")]
    Ec2Instance,
    /// The Service does not request it.
    #[error("the Service has no ready endpoint with this address and port to register")]
    NotWanted,
    /// With our marks it would exceed Cloud Map's limits for attributes.
    #[error("with our marks it would have {0}")]
    BeyondLimits(String),
    /// AWS's controller registered it for a `ServiceExport`.
    #[error("it belongs to a ServiceExport")]
    Exported,
    /// Another writer changed it after it was read.
    #[error("it was changed or deregistered a moment ago")]
    Changed,
}

impl Adoption {
    /// The former owner of the instance, and its attributes after the adoption.
    pub(super) fn of(
        &self,
        instance: &str,
        present: &Attributes,
        wanted: &Wanted,
        owner: &Owner,
    ) -> Result<(Former, Attributes), NotAdopted> {
        let former = self.former(instance, present, owner)?;
        if present.contains_key(EC2_INSTANCE) {
            return Err(NotAdopted::Ec2Instance);
        }
        let identity = wanted.identity_of(present);
        let mut instances = wanted.instances.values();
        let (_, attributes) =
            instances.find(|(wanted, _)| *wanted == identity).ok_or(NotAdopted::NotWanted)?;
        let mut attributes = rewrite::carry_over(present, attributes);
        // The notes of another owner concern its own runs.
        for note in [SIGHTING, ORPHANED] {
            attributes.remove(note);
        }
        match rewrite::beyond_limits(&attributes) {
            Some(problem) => Err(NotAdopted::BeyondLimits(problem)),
            None => Ok((former, attributes)),
        }
    }

    fn former(
        &self,
        instance: &str,
        present: &Attributes,
        owner: &Owner,
    ) -> Result<Former, NotAdopted> {
        if is_ecs(instance, present) {
            return Err(NotAdopted::Ecs);
        }
        if may_be_ecs(instance, present) {
            return Err(NotAdopted::MaybeEcs);
        }
        let marked = present.keys().any(|key| key.starts_with(MARK_PREFIX));
        match (&self.owner, foreign(instance, present, owner)) {
            (Some(id), _) => {
                let is_former = owner.formerly(id).owns(present);
                is_former
                    .then(|| Former::Owner(id.clone()))
                    .ok_or_else(|| NotAdopted::NotOf(id.clone()))
            }
            (None, Some(_)) if self.exports && is_of_a_clusterset(present) => {
                Err(NotAdopted::Exported)
            }
            (None, Some(kind)) if !marked => Ok(Former::Unmarked(kind)),
            (None, _) => Err(NotAdopted::Marked),
        }
    }
}

impl fmt::Display for Former {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unmarked(unknown @ Foreign::Unknown) => unknown.fmt(f),
            Self::Unmarked(controller) => {
                write!(f, "of the {controller}, which must not run any more")
            }
            Self::Owner(id) => write!(f, "of the owner {id}"),
        }
    }
}
