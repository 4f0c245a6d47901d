//! Changes all imports of an owner in a cluster, each without a look at the exports: a purge takes out the ServiceImports,
//! and with them their Services and slices, and an adoption takes them over.

use super::Imported;
use super::apply::{Made, apply};
use super::observe::Objects;
use super::plan::{OwnerLabel, Plan, Present};
use crate::kubernetes::Kubernetes;
use crate::model::ServiceRef;
use crate::time::Deadline;

/// The imports of an owner.
pub struct EachImport<'a> {
    pub kubernetes: &'a Kubernetes,
    pub owner: &'a OwnerLabel,
    pub objects: &'a Objects,
    /// Whether the plans are carried out.
    pub writes: bool,
    pub deadline: Deadline,
}

impl EachImport<'_> {
    pub async fn run(&self, decide: impl Fn(&ServiceRef, &Present) -> Plan) -> Imported {
        let Self { kubernetes, owner, objects, writes, deadline } = *self;
        let mut all = Imported::default();
        for name in objects.names(owner) {
            let mut present = match objects.present(&name) {
                Ok(present) => present,
                Err(problem) => {
                    all.unreadable.push((name, problem.to_string()));
                    continue;
                }
            };
            let Plan { changes, held_back } = decide(&name, &present);
            all.held_back.extend(held_back);
            if writes {
                let made = apply(kubernetes, &name, &mut present, changes, deadline).await.made;
                all.made.extend(made);
            } else {
                all.made.extend(changes.into_iter().map(Made::planned));
            }
        }
        all
    }
}
