//! A round that ends with messages: trouble is over, each annotated Service has changed, and one batch is about all of
//! them.

use serde_json::json;

use super::oracle::{is_served, publish};
use super::play::Scene;
use super::rest::Unread;
use super::world::{CLUSTERS, NAMES, SHOP};
use crate::queue::{batch, message};
use testbed::cloud_map::Behaviour;

impl Scene {
    /// What is under way has come to its end before, and so has nothing else a part in what the messages lead to.
    pub async fn hear_of_all(&mut self, last: usize) -> Result<Option<Unread>, String> {
        let is_certain = self.most_reads.is_none() && !self.is_long;
        if self.world.settings.is_dry || self.world.clusterset.is_on || !is_certain {
            return Ok(None);
        }
        self.finish(std::time::Duration::ZERO).await?;
        self.finish(self.slowest + self.behaviour.list_lag).await?;
        self.heal();
        self.behave(|it| *it = Behaviour::default());
        (0..CLUSTERS.len()).for_each(|number| self.cluster(number).give_back());
        for place in self.world.services.keys().copied().collect::<Vec<_>>() {
            self.change(place, |it| it.claim.team = Some("late"));
        }
        let served = self.world.services.keys().filter(|it| is_served(&self.world, it.0));
        let bodies = served.map(|(cluster, name)| {
            let body =
                json!({"cluster": CLUSTERS[*cluster], "namespace": SHOP, "service": NAMES[*name]});
            message(&format!("{cluster}-{name}"), &body)
        });
        let bodies: Vec<_> = bodies.collect();
        if bodies.is_empty() {
            return Ok(None);
        }
        let before = self.registry();
        let report = self.alone(last % self.agreeing(), batch(&bodies)).await?;
        // A process may remember for a while that it may not read something.
        let is_read = report.clusters.iter().all(|it| it.error.is_none());
        if is_read && self.unread(&report).is_empty() {
            let broken = publish::after_messages(&self.world, &before, &self.registry());
            broken.map_err(|broken| format!("{broken}\n{report}"))?;
        }
        Ok(None)
    }
}
