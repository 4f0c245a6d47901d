//! Takes all objects of imports out of a cluster: the ServiceImports, and with them their Services and slices.

use super::Imported;
use super::apply::{self, Made, Outcome};
use super::aws::DerivedOfAws;
use super::observe::Objects;
use super::plan::{Known, OwnerLabel, Plan, Removal};
use crate::kubernetes::Kubernetes;
use crate::model::ServiceRef;
use crate::time::Deadline;

/// A cluster whose imports are purged, with all that was read of it.
pub struct Purging<'a> {
    pub kubernetes: &'a Kubernetes,
    pub owner: &'a OwnerLabel,
    pub objects: &'a Objects,
    pub of_aws: &'a DerivedOfAws,
    /// Whether AWS's controller serves the cluster again.
    pub is_aws_back: bool,
    /// Whether the plan is carried out.
    pub writes: bool,
    pub deadline: Deadline,
}

impl Purging<'_> {
    pub async fn run(&self) -> Imported {
        let mut purged = Imported::default();
        for name in self.objects.names(self.owner) {
            match self.objects.present(&name) {
                Ok(present) => {
                    let removal = Removal {
                        owner: self.owner,
                        service: &name,
                        present: &present,
                        of_aws: self.of_aws.names(&name),
                        annotation: self.of_aws.annotation(&name),
                        is_back: self.is_aws_back,
                    };
                    let Plan { changes, held_back } = removal.plan();
                    purged.held_back.extend(held_back);
                    let mut known = Known::of(&present);
                    purged.made.extend(if self.writes {
                        self.apply(&name, &mut known, &changes).await
                    } else {
                        let planned = changes.into_iter();
                        let planned =
                            planned.map(|change| Made { change, outcome: Outcome::Planned });
                        planned.collect()
                    });
                }
                Err(problem) => purged.unreadable.push((name, problem.to_string())),
            }
        }
        purged
    }

    async fn apply(
        &self,
        name: &ServiceRef,
        known: &mut Known,
        changes: &[super::plan::Change],
    ) -> Vec<Made> {
        apply::apply(self.kubernetes, &name.name, known, changes, self.deadline).await.made
    }
}
