//! The exports of a cluster that an invocation read in the cluster itself.

use std::collections::BTreeSet;

use crate::model::{ClusterArn, Desired, Selection, ServiceRef};

/// The exports of a cluster as an invocation read them there, in place of what Cloud Map says of these names.
#[derive(Clone, Debug)]
pub struct Overlay {
    pub arn: ClusterArn,
    pub desired: Desired,
    /// The names that were read in the cluster: of any other, Cloud Map says what it exports.
    pub covers: Selection,
    /// The names of which the guard holds a loss: their endpoints come, and none goes.
    pub held: BTreeSet<ServiceRef>,
    /// Whether the guard let a large loss of exports pass in this run.
    pub let_pass: bool,
}

impl Overlay {
    /// The exports if the guard has nothing to decide.
    pub fn new(arn: ClusterArn, desired: Desired, covers: Selection) -> Self {
        Self { arn, desired, covers, held: BTreeSet::new(), let_pass: false }
    }

    /// Whether the cluster was asked for this name.
    pub fn covers(&self, name: &ServiceRef) -> bool {
        self.covers.contains(name)
    }
}
