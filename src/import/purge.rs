//! Changes all imports of an owner in a cluster ([`EachImport`]); a purge takes out the ServiceImports, and with them
//! their Services and slices.

use super::Imported;
use super::apply::{self, Made, Outcome};
use super::aws::DerivedOfAws;
use super::observe::Objects;
use super::plan::{Known, OwnerLabel, Plan, Present, Removal};
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

/// The imports of an owner, each changed without a look at the exports.
pub struct EachImport<'a> {
    pub kubernetes: &'a Kubernetes,
    pub owner: &'a OwnerLabel,
    pub objects: &'a Objects,
    /// Whether the plans are carried out.
    pub writes: bool,
    pub deadline: Deadline,
}

impl Purging<'_> {
    pub async fn run(&self) -> Imported {
        let Self { kubernetes, owner, objects, of_aws, writes, deadline, .. } = *self;
        let each = EachImport { kubernetes, owner, objects, writes, deadline };
        let removal = |service: &ServiceRef, present: &Present| {
            let (of_aws, annotation) = (of_aws.names(service), of_aws.annotation(service));
            Removal { owner, service, present, of_aws, annotation, is_back: self.is_aws_back }
                .plan()
        };
        each.run(removal).await
    }
}

impl EachImport<'_> {
    pub async fn run(&self, decide: impl Fn(&ServiceRef, &Present) -> Plan) -> Imported {
        let Self { kubernetes, owner, objects, writes, deadline } = *self;
        let mut all = Imported::default();
        for name in objects.names(owner) {
            let present = match objects.present(&name) {
                Ok(present) => present,
                Err(problem) => {
                    all.unreadable.push((name, problem.to_string()));
                    continue;
                }
            };
            let Plan { changes, held_back } = decide(&name, &present);
            all.held_back.extend(held_back);
            let mut known = Known::of(&present);
            if writes {
                let made = apply::apply(kubernetes, &name.name, &mut known, &changes, deadline);
                all.made.extend(made.await.made);
            } else {
                let planned = |change| Made { change, outcome: Outcome::Planned };
                all.made.extend(changes.into_iter().map(planned));
            }
        }
        all
    }
}
