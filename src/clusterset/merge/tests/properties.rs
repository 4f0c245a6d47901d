//! Type, affinity, policies, labels and annotations: the deciding exporters, and the conflicts.

use insta::assert_snapshot;

use super::notation::{merged, messages};

#[test]
fn the_oldest_export_decides_type_and_properties() {
    for (case, exports, expected) in [
        (
            "single export decides everything",
            "blue@1 http:80=h2c v6 v4 ClientIP/60 Local PreferClose label.app=web note.team=one",
            "v6 v4 ClientIP/60 Local PreferClose label.app=web note.team=one of blue; http:80=h2c <- blue",
        ),
        (
            "oldest decides the type",
            "blue@2 Headless http:80\ngreen@1 http:80\nred@3 http:80",
            "v4 of blue, green, red; http:80 <- blue, green, red; TypeConflict: blue against green",
        ),
        (
            "oldest decides the type",
            "blue@1 Headless http:80\ngreen@2 http:80",
            "Headless v4 of blue, green; http:80 <- blue, green; TypeConflict: green against blue",
        ),
        (
            "oldest decides affinity and its timeout",
            "blue@1 http:80\ngreen@2 http:80 ClientIP/60",
            "v4 of blue, green; http:80 <- blue, green; SessionAffinityConflict: green against blue",
        ),
        (
            "oldest decides affinity and its timeout",
            "blue@1 http:80 ClientIP/60\ngreen@2 http:80\nred@3 http:80 ClientIP/90",
            "v4 ClientIP/60 of blue, green, red; http:80 <- blue, green, red; SessionAffinityConflict: green against blue; SessionAffinityConfigConflict: red against blue",
        ),
        (
            "timeouts are compared only if the import has affinity",
            "blue@1 http:80\ngreen@2 http:80 ClientIP/60\nred@3 http:80 ClientIP/90",
            "v4 of blue, green, red; http:80 <- blue, green, red; SessionAffinityConflict: green, red against blue",
        ),
        (
            "missing timeout is the default one",
            "blue@1 http:80 ClientIP\ngreen@2 http:80 ClientIP/10800",
            "v4 ClientIP/ of blue, green; http:80 <- blue, green",
        ),
        (
            "oldest decides policy and distribution",
            "blue@1 http:80\ngreen@2 http:80 Local PreferClose",
            "v4 of blue, green; http:80 <- blue, green; InternalTrafficPolicyConflict: green against blue; TrafficDistributionConflict: green against blue",
        ),
        (
            "oldest decides policy and distribution",
            "blue@1 http:80 Local PreferClose\ngreen@2 http:80 Local\nred@3 http:80 PreferClose",
            "v4 Local PreferClose of blue, green, red; http:80 <- blue, green, red; InternalTrafficPolicyConflict: red against blue; TrafficDistributionConflict: green against blue",
        ),
        (
            "labels and annotations are decided as sets",
            "blue@1 http:80 label.app=web label.tier=1 note.team=one\ngreen@2 http:80 label.tier=2 label.app=web note.team=one\nred@3 http:80 label.app=web label.tier=1 note.owner=two",
            "v4 label.app=web label.tier=1 note.team=one of blue, green, red; http:80 <- blue, green, red; LabelsConflict: green against blue; AnnotationsConflict: red against blue",
        ),
        (
            "export without record states only type ports and age",
            "blue@1 http:80 AWS\ngreen@2 http:80 ClientIP/60 Local PreferClose label.app=web note.team=one\nred@3 http:80 ClientIP/60 Local PreferClose label.app=shop note.team=one",
            "v4 ClientIP/60 Local PreferClose label.app=web note.team=one of blue, green, red; http:80 <- blue, green, red; LabelsConflict: red against green",
        ),
        (
            "export without record states only type ports and age",
            "blue@1 http:80 AWS\ngreen@2 http:80 AWS",
            "v4 of blue, green; http:80 <- blue, green",
        ),
        (
            "headless export does not decide the affinity of a virtual ip",
            "blue@1 http:80 AWS\ngreen@2 Headless http:80 label.app=web\nred@3 http:80 ClientIP/60",
            "v4 ClientIP/60 label.app=web of blue, green, red; http:80 <- blue, green, red; TypeConflict: green against blue; LabelsConflict: red against green",
        ),
    ] {
        assert_eq!(merged(exports), expected, "{case}");
    }
}

#[test]
fn affinity_and_policies_mean_nothing_beside_another_type() {
    let routing = "ClientIP/60 Local PreferClose";
    let headless_differs = format!("blue@1 http:80\ngreen@2 Headless http:80 {routing}");
    assert_snapshot!(merged(&headless_differs), @r"v4 of blue, green; http:80 <- blue, green; TypeConflict: green against blue");
    let import_is_headless = format!(
        "blue@1 Headless http:80\ngreen@2 http:80 {routing}\nred@3 Headless http:80 {routing}"
    );
    assert_snapshot!(merged(&import_is_headless), @r"Headless v4 of blue, green, red; http:80 <- blue, green, red; TypeConflict: green against blue");
}

#[test]
fn all_conflicts_come_in_the_order_of_the_api() {
    let all = "blue@1 http:80 v4 v6 ClientIP/60 Local PreferClose label.app=web note.team=one
        green@2 web:80 ClientIP/90
        red@3 http:80 v4 v6 label.app=web note.team=one
        white@4 Headless http:80 v4 v6 label.app=web note.team=one";
    assert_snapshot!(merged(all), @r"v4 v6 ClientIP/60 Local PreferClose label.app=web note.team=one of blue, green, red, white; http:80 <- blue, green, red, white; PortConflict: green against blue; TypeConflict: white against blue; SessionAffinityConflict: red against blue; SessionAffinityConfigConflict: green against blue; LabelsConflict: green against blue; AnnotationsConflict: green against blue; InternalTrafficPolicyConflict: green, red against blue; TrafficDistributionConflict: green, red against blue; IPFamilyConflict: green against blue");
    assert_snapshot!(messages(all), @r#"
    Conflicting ports. Using "http 80/TCP", with precedence to those from oldest service export in "blue". 1/4 clusters disagree.
    Conflicting type. Using "ClusterSetIP" from oldest service export in "blue". 1/4 clusters disagree.
    Conflicting session affinity. Using "ClientIP" from oldest service export in "blue". 1/4 clusters disagree.
    Conflicting session affinity timeout. Using "60s" from oldest service export in "blue". 1/4 clusters disagree.
    Conflicting labels "app". Using those from oldest service export in "blue". 1/4 clusters disagree.
    Conflicting annotations "team". Using those from oldest service export in "blue". 1/4 clusters disagree.
    Conflicting internal traffic policy. Using "Local" from oldest service export in "blue". 2/4 clusters disagree.
    Conflicting traffic distribution. Using "PreferClose" from oldest service export in "blue". 2/4 clusters disagree.
    Conflicting IP families. Using "IPv4, IPv6" from oldest service export in "blue". 1/4 clusters disagree.
    "#);
}

#[test]
fn messages_name_the_values_in_use() {
    let all = "blue@1 :80 http:443=h2c
        green@2 http:443 Headless label.app=web label.b=1
        red@3 ClientIP PreferClose :80 http:443 label.app=shop";
    assert_snapshot!(messages(all), @r#"
    Conflicting ports. Using "tcp-80 80/TCP, http 443/TCP h2c", with precedence to those from oldest service export in "blue". 2/3 clusters disagree.
    Conflicting type. Using "ClusterSetIP" from oldest service export in "blue". 1/3 clusters disagree.
    Conflicting session affinity. Using "None" from oldest service export in "blue". 1/3 clusters disagree.
    Conflicting labels "app", "b". Using those from oldest service export in "blue". 2/3 clusters disagree.
    Conflicting traffic distribution. Using none from oldest service export in "blue". 1/3 clusters disagree.
    "#);
}
