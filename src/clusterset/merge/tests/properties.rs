//! Type, affinity, policies, labels and annotations: whose count, and who disagrees.

use insta::assert_snapshot;

use super::notation::{merged, messages};

#[test]
fn single_export_decides_everything() {
    let export =
        "blue@1 http:80=h2c v6 v4 ClientIP/60 Local PreferClose label.app=web note.team=one";
    assert_snapshot!(merged(export), @r"
    ClusterSetIP v6 v4 ClientIP/60 Local PreferClose label.app=web note.team=one of blue
      http:80/TCP=h2c <- blue
    ");
}

#[test]
fn oldest_decides_the_type() {
    assert_snapshot!(merged("blue@2 Headless http:80\ngreen@1 http:80\nred@3 http:80"), @r"
    ClusterSetIP v4 of blue, green, red
      http:80/TCP <- blue, green, red
    TypeConflict: blue against green
    ");
    assert_snapshot!(merged("blue@1 Headless http:80\ngreen@2 http:80"), @r"
    Headless v4 of blue, green
      http:80/TCP <- blue, green
    TypeConflict: green against blue
    ");
}

#[test]
fn oldest_decides_affinity_and_its_timeout() {
    assert_snapshot!(merged("blue@1 http:80\ngreen@2 http:80 ClientIP/60"), @r"
    ClusterSetIP v4 of blue, green
      http:80/TCP <- blue, green
    SessionAffinityConflict: green against blue
    ");
    assert_snapshot!(merged("blue@1 http:80 ClientIP/60\ngreen@2 http:80\nred@3 http:80 ClientIP/90"), @r"
    ClusterSetIP v4 ClientIP/60 of blue, green, red
      http:80/TCP <- blue, green, red
    SessionAffinityConflict: green against blue
    SessionAffinityConfigConflict: red against blue
    ");
}

#[test]
fn timeouts_are_compared_only_if_the_import_has_affinity() {
    let all = "blue@1 http:80\ngreen@2 http:80 ClientIP/60\nred@3 http:80 ClientIP/90";
    assert_snapshot!(merged(all), @r"
    ClusterSetIP v4 of blue, green, red
      http:80/TCP <- blue, green, red
    SessionAffinityConflict: green, red against blue
    ");
}

#[test]
fn missing_timeout_is_the_default_one() {
    assert_snapshot!(merged("blue@1 http:80 ClientIP\ngreen@2 http:80 ClientIP/10800"), @r"
    ClusterSetIP v4 ClientIP/ of blue, green
      http:80/TCP <- blue, green
    ");
}

#[test]
fn oldest_decides_policy_and_distribution() {
    assert_snapshot!(merged("blue@1 http:80\ngreen@2 http:80 Local PreferClose"), @r"
    ClusterSetIP v4 of blue, green
      http:80/TCP <- blue, green
    InternalTrafficPolicyConflict: green against blue
    TrafficDistributionConflict: green against blue
    ");
    let all = "blue@1 http:80 Local PreferClose\ngreen@2 http:80 Local\nred@3 http:80 PreferClose";
    assert_snapshot!(merged(all), @r"
    ClusterSetIP v4 Local PreferClose of blue, green, red
      http:80/TCP <- blue, green, red
    InternalTrafficPolicyConflict: red against blue
    TrafficDistributionConflict: green against blue
    ");
}

#[test]
fn labels_and_annotations_are_decided_as_sets() {
    let all = "blue@1 http:80 label.app=web label.tier=1 note.team=one
        green@2 http:80 label.tier=2 label.app=web note.team=one
        red@3 http:80 label.app=web label.tier=1 note.owner=two";
    assert_snapshot!(merged(all), @r"
    ClusterSetIP v4 label.app=web label.tier=1 note.team=one of blue, green, red
      http:80/TCP <- blue, green, red
    LabelsConflict: green against blue
    AnnotationsConflict: red against blue
    ");
}

#[test]
fn export_without_record_states_only_type_ports_and_age() {
    let all = "blue@1 http:80 AWS
        green@2 http:80 ClientIP/60 Local PreferClose label.app=web note.team=one
        red@3 http:80 ClientIP/60 Local PreferClose label.app=shop note.team=one";
    assert_snapshot!(merged(all), @r"
    ClusterSetIP v4 ClientIP/60 Local PreferClose label.app=web note.team=one of blue, green, red
      http:80/TCP <- blue, green, red
    LabelsConflict: red against green
    ");
    assert_snapshot!(merged("blue@1 http:80 AWS\ngreen@2 http:80 AWS"), @r"
    ClusterSetIP v4 of blue, green
      http:80/TCP <- blue, green
    ");
}

#[test]
fn affinity_and_policies_mean_nothing_beside_another_type() {
    let routing = "ClientIP/60 Local PreferClose";
    let headless_differs = format!("blue@1 http:80\ngreen@2 Headless http:80 {routing}");
    assert_snapshot!(merged(&headless_differs), @r"
    ClusterSetIP v4 of blue, green
      http:80/TCP <- blue, green
    TypeConflict: green against blue
    ");
    let import_is_headless = format!(
        "blue@1 Headless http:80\ngreen@2 http:80 {routing}\nred@3 Headless http:80 {routing}"
    );
    assert_snapshot!(merged(&import_is_headless), @r"
    Headless v4 of blue, green, red
      http:80/TCP <- blue, green, red
    TypeConflict: green against blue
    ");
}

#[test]
fn headless_export_does_not_decide_the_affinity_of_a_virtual_ip() {
    let all =
        "blue@1 http:80 AWS\ngreen@2 Headless http:80 label.app=web\nred@3 http:80 ClientIP/60";
    assert_snapshot!(merged(all), @r"
    ClusterSetIP v4 ClientIP/60 label.app=web of blue, green, red
      http:80/TCP <- blue, green, red
    TypeConflict: green against blue
    LabelsConflict: red against green
    ");
}

#[test]
fn all_conflicts_come_in_the_order_of_the_api() {
    let all = "blue@1 http:80 v4 v6 ClientIP/60 Local PreferClose label.app=web note.team=one
        green@2 web:80 ClientIP/90
        red@3 http:80 v4 v6 label.app=web note.team=one
        white@4 Headless http:80 v4 v6 label.app=web note.team=one";
    assert_snapshot!(merged(all), @r"
    ClusterSetIP v4 v6 ClientIP/60 Local PreferClose label.app=web note.team=one of blue, green, red, white
      http:80/TCP <- blue, green, red, white
    PortConflict: green against blue
    TypeConflict: white against blue
    SessionAffinityConflict: red against blue
    SessionAffinityConfigConflict: green against blue
    LabelsConflict: green against blue
    AnnotationsConflict: green against blue
    InternalTrafficPolicyConflict: green, red against blue
    TrafficDistributionConflict: green, red against blue
    IPFamilyConflict: green against blue
    ");
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
