//! Several Services claim one name. The API server dates them, in whole seconds, and its Events are what
//! their owners see.

use serde_json::{Value, json};

use super::{Story, claim, headless, held_back};

/// What the younger one is told.
const TOLD: &str =
    "Service shop/zebra of this cluster holds the name; this one takes over when that ends";

impl Story {
    /// The younger one comes first in every list.
    pub(super) async fn older_of_two_claimants_holds_the_name_and_the_other_hears_of_it(&self) {
        let cluster = &self.cluster;
        cluster.service("zebra", &claim("prod", "zoo"), &headless()).await;
        cluster.wait_to_be_younger_than("zebra").await;
        cluster.service("ant", &claim("prod", "zoo"), &headless()).await;
        for (app, address) in [("zebra", "10.0.1.1"), ("ant", "10.0.1.2")] {
            cluster.pod(app, &format!("{app}-a"), &[address]).await;
            cluster.wait_for_ready(app, &[address]).await;
        }

        let plan = self.invoke(json!({"action": "plan"})).await;
        let told = held_back(&plan, "ant");
        assert_eq!(told, [("DomainConflict".to_owned(), TOLD.to_owned())], "{plan}");
        self.converge().await;

        assert_eq!(self.world.addresses("prod", "zoo"), ["10.0.1.1"]);
        let events = cluster.events("ant").await;
        let [(reason, note)] = events.as_slice() else { panic!("one Event: {events:?}") };
        assert!(reason == "DomainConflict" && note.contains(TOLD), "{note}");
        let news = cluster.events("zebra").await;
        let registered = ("Registered".to_owned(), "1 registered under prod/zoo".to_owned());
        assert_eq!(news, [registered], "and the holder is told of its own");
    }

    pub(super) async fn next_claimant_is_promoted_in_the_sync_that_finds_the_holder_gone(&self) {
        self.cluster.delete_service("zebra").await;
        assert_eq!(self.writes().await, ["RegisterInstance zoo", "DeregisterInstance zoo"]);
        assert_eq!(self.world.addresses("prod", "zoo"), ["10.0.1.2"]);
    }

    /// The one that comes back finds its pods waiting, and is the younger one now.
    pub(super) async fn claim_that_all_share_is_a_union_until_one_of_them_leaves_it(&self) {
        let shared = json!({"cloudmap.controller/claim": "shared"});
        self.cluster.service("zebra", &claim("prod", "zoo"), &headless()).await;
        self.cluster.annotate("zebra", &shared).await;
        self.cluster.wait_for_ready("zebra", &["10.0.1.1"]).await;
        let report = self.converge().await;
        let [(reason, why)] = held_back(&report, "zebra").try_into().expect("one line");
        assert!(reason == "DomainConflict" && why.ends_with("without it: shop/ant"), "{why}");
        assert_eq!(self.world.addresses("prod", "zoo"), ["10.0.1.2"]);

        self.cluster.annotate("ant", &shared).await;
        self.converge().await;
        assert_eq!(self.world.addresses("prod", "zoo"), ["10.0.1.1", "10.0.1.2"]);

        let alone = json!({"cloudmap.controller/claim": Value::Null});
        self.cluster.annotate("zebra", &alone).await;
        self.converge().await;
        assert_eq!(self.world.addresses("prod", "zoo"), ["10.0.1.2"], "the older one's");
        for service in ["ant", "zebra"] {
            self.cluster.delete_service(service).await;
        }
        self.converge().await;
        assert_eq!(self.world.addresses("prod", "zoo"), [""; 0]);
    }
}
