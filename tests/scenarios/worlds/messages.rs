//! A round that ends with messages: trouble is over, each annotated Service has changed, and each process gets a batch
//! about some of them.

use std::collections::BTreeSet;

use serde_json::json;

use super::oracle::{is_served, publish};
use super::play::Scene;
use super::rest::{REST, Unread};
use super::world::{CLUSTERS, NAMES, SHOP};
use crate::queue::{batch, message};
use testbed::cloud_map::Behaviour;

impl Scene {
    /// What is under way has come to its end before, and so has nothing else a part in what the messages lead to.
    pub async fn hear_of_all(&mut self) -> Result<Option<Unread>, String> {
        let is_certain = self.most_reads.is_none() && !self.is_long;
        if self.world.settings.is_dry || self.world.clusterset.is_on || !is_certain {
            return Ok(None);
        }
        self.finish(std::time::Duration::ZERO).await?;
        // Until it lists them anew, a process does not know of a second namespace of a name.
        let names: BTreeSet<_> = self.world.namespaces.iter().map(|it| it.name).collect();
        let has_twins = names.len() < self.world.namespaces.len();
        let under_way = self.slowest + self.behaviour.list_lag;
        self.finish(if has_twins { REST } else { under_way }).await?;
        self.heal();
        self.behave(|it| *it = Behaviour::default());
        (0..CLUSTERS.len()).for_each(|number| self.cluster(number).give_back());
        for place in self.world.services.keys().copied().collect::<Vec<_>>() {
            self.change(place, |it| it.claim.team = Some("late"));
        }
        let before = self.registry();
        let mut is_read = true;
        for process in 0..self.agreeing() {
            let served = self.world.services.keys().filter(|it| is_served(&self.world, it.0));
            let of_process = served.filter(|it| (it.0 + it.1) % self.agreeing() == process);
            let messages = of_process.map(|(cluster, name)| {
                let (cluster, name) = (CLUSTERS[*cluster], NAMES[*name]);
                let body = json!({"cluster": cluster, "namespace": SHOP, "service": name});
                message(&format!("{cluster}-{name}"), &body)
            });
            let messages: Vec<_> = messages.collect();
            if !messages.is_empty() {
                let report = self.alone(process, batch(&messages)).await?;
                // A process may remember for a while that it may not read something.
                is_read &= report.clusters.iter().all(|it| it.error.is_none());
                is_read &= self.unread(&report).is_empty();
            }
        }
        if is_read {
            publish::after_messages(&self.world, &before, &self.registry())?;
        }
        Ok(None)
    }
}
