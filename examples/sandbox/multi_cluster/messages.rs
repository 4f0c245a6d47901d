//! Messages in one batch, each about a cluster and a name of its own, and a message that reaches the Cloud Map of
//! another account.

use serde_json::{Value, json};

use super::{BOTH, Clusterset, SETTINGS, addresses, show_imports};
use crate::story::show;
use testbed::function::invoke;

const ACCOUNT: &str = "777788889999";

impl Clusterset {
    pub(super) async fn one_batch_about_two_clusters(&mut self) {
        self.begin_step("One batch has messages about another name of blue and about web of green: web keeps the pods of both.");
        let record = |(id, body): (usize, Value)| {
            json!({
                "messageId": id.to_string(), "body": body.to_string(), "eventSource": "aws:sqs",
                "eventSourceARN": "arn:aws:sqs:eu-central-1:111122223333:cloud-map-sync",
            })
        };
        let about = |cluster: &str, service: &str| json!({ "action": "sync", "cluster": cluster, "namespace": "shop", "service": service });
        let bodies = [about("blue", "api"), about("green", "web")];
        let records: Vec<Value> = bodies.into_iter().enumerate().map(record).collect();
        let answer = self.run(&json!({ "Records": records })).await;
        let is_done = answer.response.is_ok_and(|it| it["batchItemFailures"] == json!([]));
        self.expect("no message returns", is_done);
        self.expect_web_of_both();
        self.settled().await;

        self.begin_step("By mistake the function gets the Cloud Map of another account, and a message about a name that nobody exports.");
        let role = format!("arn:aws:iam::{ACCOUNT}:role/registry-writer");
        self.sandbox.role(&role, None);
        let elsewhere = self.sandbox.cloud_map_of("eu-central-1", ACCOUNT);
        let clusters = json!([{ "cluster": "blue", "registryRoleArn": role }]).to_string();
        let settings: Vec<_> = SETTINGS.into_iter().chain([("CLUSTERS", &*clusters)]).collect();
        let mistaken = self.sandbox.function(&settings).await.with_clock(self.clock.clock());
        for payload in [about("blue", "api"), json!({ "action": "sync" })] {
            let answer = invoke(&mistaken, &payload).await;
            show(&answer);
            self.expect("no record is written there", elsewhere.writes() == 0);
            self.expect_web_of_both();
        }
        println!("   the function has its own Cloud Map again:");
        self.sync().await;
    }

    fn expect_web_of_both(&self) {
        for cluster in [&self.blue, &self.green] {
            show_imports(cluster);
            self.expect("web leads to both", addresses(cluster, "web") == BOTH);
        }
        println!();
    }
}
