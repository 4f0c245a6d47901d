//! The runs of the function in the story. Each is shown, and leaves everything that is not ours as it was.

use cloud_map_sync::actions::status::Status;
use cloud_map_sync::report::Report;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Clusterset;
use super::foreign::Foreign;
use crate::story::show;
use testbed::function::{Answer, event, invoke};
use testbed::kubernetes::KubernetesServer;

impl Clusterset {
    /// A full sync, and one more that writes nothing.
    pub(super) async fn sync(&self) {
        self.complete(&event("direct-sync")).await;
        self.settled().await;
    }

    /// A run in which nothing fails.
    pub(super) async fn complete(&self, payload: &Value) -> Report {
        let report = self.run(payload).await.report.expect("a report");
        self.expect("the run is complete", report.ok);
        report
    }

    /// A plan, which writes nothing.
    pub(super) async fn plan(&self, payload: &Value) {
        self.forget();
        self.run(payload).await;
        self.expect_no_write("a plan");
        println!("   the plan writes nothing\n");
    }

    /// The members of the clusterset, as `status` has them.
    pub(super) async fn status(&self) -> Status {
        self.forget();
        let answer = invoke(&self.function, &json!({ "action": "status" })).await;
        self.expect_no_write("a status");
        let status = Status::deserialize(answer.response.expect("a status")).expect("a status");
        status.to_string().lines().for_each(|line| println!("   {line}"));
        println!();
        status
    }

    /// One more full sync writes nothing.
    pub(super) async fn settled(&self) {
        self.forget();
        let before = self.foreign();
        invoke(&self.function, &event("direct-sync")).await;
        self.expect_no_write("the next sync");
        self.expect_unchanged_since(&before);
        println!("   the next sync writes nothing\n");
    }

    /// A run that changes nothing that is not ours.
    pub(super) async fn run(&self, payload: &Value) -> Answer {
        let before = self.foreign();
        let answer = invoke(&self.function, payload).await;
        show(&answer);
        self.expect_unchanged_since(&before);
        answer
    }

    fn expect_unchanged_since(&self, before: &Foreign) {
        let changed = self.changed_since(before);
        self.expect(&format!("these are not changed: {changed:?}"), changed.is_empty());
        let violations = self.sandbox.cloud_map().violations();
        self.expect(&format!("nothing tries to: {violations:?}"), violations.is_empty());
    }

    fn forget(&self) {
        self.sandbox.cloud_map().forget_calls();
        self.clusters().into_iter().for_each(KubernetesServer::forget_requests);
    }

    fn expect_no_write(&self, run: &str) {
        let writes = self.sandbox.cloud_map().writes();
        self.expect(&format!("{run} writes nothing to Cloud Map"), writes == 0);
        for cluster in self.clusters() {
            let mut requests = cluster.requests().into_iter();
            let writes = requests.any(|it| it.method != "GET" && !it.path.contains("/events"));
            self.expect(&format!("{run} writes nothing to a cluster"), !writes);
        }
    }

    fn clusters(&self) -> [&KubernetesServer; 3] {
        [&self.blue, &self.green, &self.amber]
    }
}
