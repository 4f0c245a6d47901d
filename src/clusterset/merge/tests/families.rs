//! The address families of an import.

use super::notation::{exports, merge_all, merged};
use crate::model::Family::{V4, V6};

#[test]
fn the_oldest_export_decides_the_families() {
    for (case, exports, expected) in [
        (
            "oldest decides the families of a virtual ip",
            "blue@1 http:80 v6 v4\ngreen@2 http:80 v4 v6",
            "v6 v4 of blue, green; http:80 <- blue, green",
        ),
        (
            "oldest decides the families of a virtual ip",
            "blue@1 http:80 v4\ngreen@2 http:80 v6 v4",
            "v4 of blue, green; http:80 <- blue, green",
        ),
        (
            "exporter without a family of the oldest is in conflict",
            "blue@1 http:80 v4 v6\ngreen@2 http:80 v4\nred@3 http:80 v6 AWS",
            "v4 v6 of blue, green, red; http:80 <- blue, green, red; IPFamilyConflict: green, red against blue",
        ),
        (
            "exporter without a family of the oldest is in conflict",
            "blue@1 http:80 v6\ngreen@2 http:80 v4",
            "v6 of blue, green; http:80 <- blue, green; IPFamilyConflict: green against blue",
        ),
        (
            "headless service has the families of all exports",
            "blue@1 Headless v6\ngreen@2 Headless v4 v6\nred@3 Headless v4",
            "Headless v6 v4 of blue, green, red",
        ),
    ] {
        assert_eq!(merged(exports), expected, "{case}");
    }
}

#[test]
fn export_that_states_no_families_neither_decides_nor_disagrees() {
    let mut exports = exports("blue@1 http:80\ngreen@2 http:80 v6 v4\nred@3 http:80");
    exports[0].families.clear();
    exports[2].families.clear();
    let merged = merge_all(&exports);
    assert_eq!((merged.service.families, merged.conflicts.len()), (vec![V6, V4], 0));
}

#[test]
fn repeated_family_counts_once() {
    let repeated = exports("blue@1 http:80 v4 v4 v6");
    assert_eq!(merge_all(&repeated).service.families, [V4, V6]);
}
