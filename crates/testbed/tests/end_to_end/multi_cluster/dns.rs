//! The names in `clusterset.local`, which a real CoreDNS in each member answers over the wire, and the end of an
//! export, with which its record, instances and imports go.

use serde_json::{Value, json};

use super::Story;
use super::imports::{import, slices, wait_until_nothing_is_left};
use crate::control_plane::Nameserver;
use crate::real_cluster::RealCluster;
use crate::real_cluster::member::{IMPORTS, SERVICES, SLICES};

/// A name below `shop.svc.clusterset.local`, a type of record, and the answer.
type Question<'a> = (&'a str, &'a str, &'a [&'a str]);

impl Story {
    pub(super) async fn names_in_clusterset_local_lead_to_the_imports(&mut self) {
        let dns =
            [self.blue.control_plane.start_dns().await, self.green.control_plane.start_dns().await];
        for (cluster, server) in self.members().into_iter().zip(dns) {
            let web = ips(cluster, "web").await;
            let both = ips(cluster, "both").await;
            let six: Vec<&str> = both.iter().skip(1).map(String::as_str).collect();
            let questions: [Question<'_>; 6] = [
                ("web", "A", &[&web[0]]),
                ("web", "SRV", &["80 web.shop.svc.clusterset.local."]),
                ("both", "A", &[&both[0]]),
                // Without IPv6 the cluster's import has no such address.
                ("both", "AAAA", &six),
                // Two ports of one number.
                ("both", "SRV", &["53 both.shop.svc.clusterset.local."]),
                ("bare", "A", &["10.0.5.1"]),
            ];
            assert_answers(cluster, server, &questions).await;
        }
        self.headless_service_of_a_stateful_set_comes().await;
        self.assert_answers_of_both(dns, &OF_STATEFUL_SET).await;

        self.headless_services_of_both_members_have_other_ports().await;
        self.assert_answers_of_both(dns, &OF_BOTH_MEMBERS).await;

        self.blue.readiness("pair-0", false).await;
        self.blue.wait_for_ready("pair", &["10.0.7.2", "fd00::7:2"]).await;
        self.sync_service("blue", "pair").await;
        self.assert_answers_of_both(dns, &[("pair", "A", &["10.0.7.2"])]).await;
        for (cluster, name) in [(&self.blue, "pair"), (&self.blue, "split"), (&self.green, "split")]
        {
            cluster.end_export(name).await;
            cluster.delete_service(name).await;
        }
        self.sync().await;
        self.assert_answers_of_both(dns, &[("pair", "A", &[])]).await;
        wait_until_nothing_is_left(&self.blue, "pair", "none").await;
        self.converge().await;
    }

    async fn assert_answers_of_both(&self, dns: [Nameserver; 2], questions: &[Question<'_>]) {
        for (cluster, server) in self.members().into_iter().zip(dns) {
            assert_answers(cluster, server, questions).await;
        }
    }

    async fn headless_service_of_a_stateful_set_comes(&mut self) {
        let of_both = json!({"clusterIP": "None", "ipFamilyPolicy": "RequireDualStack"});
        self.blue.service("pair", &json!({}), &of_both).await;
        self.blue.stateful_pod("pair", "pair-0", &["10.0.7.1", "fd00::7:1"]).await;
        self.blue.stateful_pod("pair", "pair-1", &["10.0.7.2", "fd00::7:2"]).await;
        self.blue.export("pair", &json!({})).await;
        let ready = ["10.0.7.1", "10.0.7.2", "fd00::7:1", "fd00::7:2"];
        self.blue.wait_for_ready("pair", &ready).await;
        self.converge().await;
    }

    async fn headless_services_of_both_members_have_other_ports(&mut self) {
        let headless =
            |port: u16| json!({"clusterIP": "None", "ports": [{"name": "http", "port": port}]});
        self.blue.service("split", &json!({}), &headless(8080)).await;
        self.blue.stateful_pod("split", "split-0", &["10.0.8.1"]).await;
        self.blue.export("split", &json!({})).await;
        self.blue.wait_for_ready("split", &["10.0.8.1"]).await;
        let mut of_green = headless(9090);
        of_green["selector"] = Value::Null;
        self.green.service("split", &json!({}), &of_green).await;
        let slice = json!({
            "metadata": {"name": "split-1", "labels": {"kubernetes.io/service-name": "split"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.1.8.1"], "conditions": {"ready": true}}],
            "ports": [{"name": "http", "protocol": "TCP", "port": 9090}],
        });
        self.green.create_object(SLICES, slice).await;
        self.green.export("split", &json!({})).await;
        self.converge().await;
    }
}

/// Each endpoint has the port of its own exporter, also of the one that lost the conflict.
const OF_BOTH_MEMBERS: [Question<'_>; 2] = [
    ("split", "A", &["10.0.8.1", "10.1.8.1"]),
    (
        "split",
        "SRV",
        &[
            "8080 split-0.blue.split.shop.svc.clusterset.local.",
            "9090 10-1-8-1.green.split.shop.svc.clusterset.local.",
        ],
    ),
];

const OF_STATEFUL_SET: [Question<'_>; 5] = [
    ("pair", "A", &["10.0.7.1", "10.0.7.2"]),
    ("pair", "AAAA", &["fd00::7:1", "fd00::7:2"]),
    ("pair-0.blue.pair", "A", &["10.0.7.1"]),
    ("pair-1.blue.pair", "AAAA", &["fd00::7:2"]),
    // One for each pod, as its name has the addresses of both families.
    (
        "pair",
        "SRV",
        &[
            "8080 pair-0.blue.pair.shop.svc.clusterset.local.",
            "8080 pair-1.blue.pair.shop.svc.clusterset.local.",
        ],
    ),
];

async fn ips(cluster: &RealCluster, name: &str) -> Vec<String> {
    let import = import(cluster, name).await;
    let ips = import["spec"]["ips"].as_array().expect("addresses").iter();
    ips.map(|ip: &Value| ip.as_str().expect("an address").to_owned()).collect()
}

/// CoreDNS follows the API server a moment behind, and keeps an answer for seconds.
async fn assert_answers(cluster: &RealCluster, server: Nameserver, questions: &[Question<'_>]) {
    for (name, kind, expected) in questions {
        let full = format!("{name}.shop.svc.clusterset.local.");
        let what = format!("for {kind} of {full} to be {expected:?}");
        let answered = async || cluster.control_plane.look_up(server, kind, &full) == *expected;
        cluster.control_plane.wait_until(&what, answered).await;
    }
}

impl Story {
    pub(super) async fn export_without_its_service_is_invalid_and_has_no_import(&mut self) {
        self.blue.delete_service("db").await;
        self.sync().await;
        assert_eq!(self.blue.condition("db", "Valid").await, "False NoService");
        assert_eq!(self.blue.condition("db", "Ready").await, "False Pending");
        for cluster in self.members() {
            assert_eq!(cluster.object(IMPORTS, "db").await, None);
        }
        assert_eq!(self.instances("db").len(), 0);
    }

    /// Where no garbage collector runs, the next sync does its work.
    pub(super) async fn ended_export_leaves_nothing_behind(&mut self) {
        const NAMES: [&str; 5] = ["both", "six", "bare", "mail", "web"];
        // Not at once, which would be a mass deletion.
        for names in [&NAMES[..4], &NAMES[4..]] {
            for name in names {
                self.blue.end_export(name).await;
            }
            self.sync().await;
        }
        for cluster in self.members() {
            assert_eq!(cluster.objects(IMPORTS).await, [json!(null); 0]);
        }
        assert!(
            !slices(&self.green, "web").await.is_empty(),
            "the garbage collector has not taken it"
        );
        let collected = async || ours(&self.blue).await.is_empty();
        self.blue.control_plane.wait_until("for the garbage collector", collected).await;
        for name in NAMES {
            assert_eq!(self.instances(name).len(), 0);
        }
        assert_eq!(self.world.instances("clusterset.shop-set", "blue").len(), 1);

        self.converge().await;
        for cluster in self.members() {
            assert_eq!(ours(cluster).await, [""; 0]);
        }
        // The Services of the cluster itself are still there.
        assert!(self.blue.object(SERVICES, "web").await.is_some());
        assert!(self.green.object(SERVICES, "web").await.is_some());
    }
}

/// The objects of imports that are left.
async fn ours(cluster: &RealCluster) -> Vec<String> {
    let all = cluster.versions().await.into_iter();
    all.filter(|it| it.contains("/derived-") || it.contains("/imported-")).collect()
}
