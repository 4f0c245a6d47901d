//! Least privilege: each right that the function is given is taken away by itself, with all else in order. The log has
//! one line with the missing right and the thing that needs it, nothing is lost, and when the right is back one run
//! leads to the wanted state and the next one writes nothing.
//!
//! The rights are read from `template.yaml` (`iam`) and from the manifests in `deploy` (`rbac`): a right without a case
//! fails a test, and so does a case without its right. `play` takes a right away.

mod clusterset;
mod iam;
mod play;
mod queue;
mod rbac;
mod settings;

use std::collections::BTreeSet;

/// Which rights have no case, and which cases no right.
fn assert_same(given: &BTreeSet<String>, played: &BTreeSet<String>) {
    let missing: Vec<_> = given.difference(played).collect();
    let stale: Vec<_> = played.difference(given).collect();
    assert!(missing.is_empty(), "no case takes away {missing:?}");
    assert!(stale.is_empty(), "nothing gives the function {stale:?}");
}
