//! The connection to the cluster of a run.

use tokio::time::timeout_at;

use super::{Error, Invocation};
use crate::clients::Connection;
use crate::publish::observe;
use crate::settings::Cluster;

impl Invocation<'_> {
    /// Runs something with a connection to a cluster. The cluster may have been created again under its name since it
    /// was described: then it is described again, once.
    pub(crate) async fn connected<T>(
        &self,
        cluster: &Cluster,
        run: impl AsyncFn(&Connection) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let stop = self.deadline.stop();
        let connected = timeout_at(stop, self.clients.connect(cluster)).await;
        let connection = connected.map_err(|_| observe::Error::Deadline)??;
        match run(&connection).await {
            Err(Error::Observe(observe::Error::Kubernetes(error)))
                if connection.reused && error.may_be_stale() =>
            {
                let connected = timeout_at(stop, self.clients.reconnect(cluster)).await;
                run(&connected.map_err(|_| observe::Error::Deadline)??).await
            }
            result => result,
        }
    }
}
