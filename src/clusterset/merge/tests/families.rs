//! The address families of an import.

use insta::assert_snapshot;

use super::notation::{exports, merge_all, merged};
use crate::model::Family::{V4, V6};

#[test]
fn oldest_decides_the_families_of_a_virtual_ip() {
    assert_snapshot!(merged("blue@1 http:80 v6 v4\ngreen@2 http:80 v4 v6"), @r"
    ClusterSetIP v6 v4 of blue, green
      http:80/TCP <- blue, green
    ");
    assert_snapshot!(merged("blue@1 http:80 v4\ngreen@2 http:80 v6 v4"), @r"
    ClusterSetIP v4 of blue, green
      http:80/TCP <- blue, green
    ");
}

#[test]
fn exporter_without_a_family_of_the_oldest_is_in_conflict() {
    assert_snapshot!(merged("blue@1 http:80 v4 v6\ngreen@2 http:80 v4\nred@3 http:80 v6 AWS"), @r"
    ClusterSetIP v4 v6 of blue, green, red
      http:80/TCP <- blue, green, red
    IPFamilyConflict: green, red against blue
    ");
    assert_snapshot!(merged("blue@1 http:80 v6\ngreen@2 http:80 v4"), @r"
    ClusterSetIP v6 of blue, green
      http:80/TCP <- blue, green
    IPFamilyConflict: green against blue
    ");
}

#[test]
fn headless_service_has_the_families_of_all_exports() {
    assert_snapshot!(merged("blue@1 Headless v6\ngreen@2 Headless v4 v6\nred@3 Headless v4"), @r"
    Headless v6 v4 of blue, green, red
    ");
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
