//! One account's AWS Cloud Map in one Region. `read`, `instances` and `tag` read; `namespace` and `write` make
//! one change each; `operation` waits for the operation that a change starts; `health` reads and
//! reports. Nothing here decides anything. Every call waits for a permit of its rate limit (`quota`).
//!
//! Services and namespaces are referenced by ARN: it is accepted in place of an id, and a namespace that is shared by
//! another account has no other reference.

mod bucket;
mod error;
mod health;
mod instances;
mod namespace;
mod operation;
mod quota;
mod read;
mod results;
mod tag;
mod timing;
mod write;

use std::collections::BTreeSet;
use std::sync::Arc;

use aws_sdk_servicediscovery::{Client, config};
use futures_util::{StreamExt, stream};

use crate::model::{CloudMapService, Registry, ServiceKey};

pub use bucket::{Token, Waiting};
pub use error::{Class, Error};
pub use instances::{Reading, Unread};
pub use operation::Ended;
pub use quota::{Call, Permit, QuotaShare, Quotas, Urgency};
pub use read::{ListedNamespace, ListedService, LocalHost};
pub use results::{Admission, Created, SharedResults};
pub use tag::{CustomTags, OWNER_TAG};
pub use write::{Accepted, NewServiceId};

/// The concurrency limit of reads of services; the quotas limit the calls.
pub const SIDE_BY_SIDE: usize = 128;

/// Reads something of each service of a registry under `keys`, of many at the same time.
async fn read_each<T>(
    registry: &Registry,
    keys: &BTreeSet<ServiceKey>,
    read: impl AsyncFn(&CloudMapService) -> T,
) -> Vec<(ServiceKey, T)> {
    let services = keys.iter().filter_map(|key| Some((key, registry.services.get(key)?)));
    let read = &read;
    let reads = stream::iter(services)
        .map(|(key, service)| async move { (key.clone(), read(service).await) });
    reads.buffer_unordered(SIDE_BY_SIDE).collect().await
}

/// A Cloud Map client. Clones share the account's quotas, its recent health reports and its operation timings.
#[derive(Clone, Debug)]
pub struct CloudMap {
    client: Client,
    quotas: Arc<Quotas>,
    urgency: Urgency,
    reported: Arc<health::Reported>,
    timings: Arc<operation::Timings>,
    custom_tags: Arc<CustomTags>,
}

impl CloudMap {
    pub fn new(config: config::Builder, quotas: Arc<Quotas>, custom_tags: Arc<CustomTags>) -> Self {
        let config = config.interceptor(quota::AttemptObserver(quotas.clone())).build();
        Self {
            client: Client::from_conf(config),
            quotas,
            urgency: Urgency::Bulk,
            reported: Arc::default(),
            timings: Arc::default(),
            custom_tags,
        }
    }

    /// The same client with this priority.
    #[must_use]
    pub fn with(&self, urgency: Urgency) -> Self {
        Self { urgency, ..self.clone() }
    }

    /// Waits until the rate allows one call, which need not be made.
    pub async fn token(&self, call: Call) -> Token {
        self.quotas.token(call, self.urgency.later_calls()).await
    }

    /// The same for the first call of a turn.
    pub async fn first_token(&self, call: Call) -> Token {
        self.quotas.token(call, self.urgency.first_call()).await
    }

    /// The permit to make the call of a token.
    pub async fn permit_with(&self, token: Token) -> Permit<'_> {
        self.quotas.permit_with(token).await
    }

    /// Counts a call that waits for something else first, so that no turn begins before it.
    pub fn plan(&self, call: Call) -> Waiting<'_> {
        self.quotas.plan(call, self.urgency)
    }

    /// Waits for a permit to make one call.
    pub async fn permit(&self, call: Call) -> Permit<'_> {
        self.quotas.permit(call, self.urgency).await
    }
}
