//! ECS: tasks that it starts, registers, takes out of Cloud Map and ends.

use std::net::Ipv4Addr;
use std::time::SystemTime;

use super::{Life, SERVICE, Stage};
use crate::server::Server;

impl Stage {
    /// Starts tasks, which ECS registers once they run.
    pub async fn start_tasks(&self, count: usize) {
        for _ in 0..count {
            let address = self.new_address(90);
            let server = Server::start(address).await;
            let mut world = self.world();
            world.tasks.insert(address, server);
            world.lives.push(Life { address, ready: SystemTime::now(), ended: None });
            drop(world);
            let id = task_id(address);
            let address = address.to_string();
            let attributes = [
                ("AWS_INSTANCE_IPV4", address.as_str()),
                ("AWS_INIT_HEALTH_STATUS", "HEALTHY"),
                ("AVAILABILITY_ZONE", "eu-central-1a"),
                ("REGION", "eu-central-1"),
                ("ECS_CLUSTER_NAME", "shop"),
                ("ECS_SERVICE_NAME", SERVICE),
                ("ECS_TASK_DEFINITION_FAMILY", SERVICE),
            ];
            self.0.cloud_map.instance(&self.0.service, &id, &attributes);
        }
    }

    /// ECS takes all tasks out of Cloud Map and tells them to end, which they do after so many seconds.
    pub async fn stop_tasks(&self, seconds: u32) {
        let tasks = std::mem::take(&mut self.world().tasks);
        for address in tasks.keys() {
            let id = task_id(*address);
            self.0.cloud_map.withdraw(&self.0.service, &id);
            self.record_end(*address);
        }
        self.wait(seconds).await;
        for server in tasks.into_values() {
            server.stop().await;
        }
    }
}

/// The id of the task in Cloud Map, in the form of ECS.
fn task_id(address: Ipv4Addr) -> String {
    format!("5f3c1e0b7a9d4c2e8b6f0a1d2c3e4f{:02}", address.octets()[3])
}
