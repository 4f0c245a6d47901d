//! One account's AWS Cloud Map in one Region: [`read`], [`instances`] and [`tag`] ask, [`namespace`], [`service`] and
//! [`mod@write`] make one change each, [`operation`] waits for what a change set in motion, `health` both
//! asks and reports. Nothing here decides anything. Every call waits for its leave (`quota`).
//!
//! Services and namespaces are named by ARN throughout: it is accepted wherever an id is, and for
//! namespaces shared from another account it is the only way.

pub mod admission;
mod bucket;
pub mod call;
pub mod discover;
mod error;
mod health;
pub mod instances;
mod lane;
mod meter;
pub mod namespace;
pub mod operation;
mod page;
pub mod quota;
pub mod read;
pub mod service;
mod summary;
pub mod tag;
mod throttle;
mod timing;
pub mod write;

use std::sync::Arc;

use aws_sdk_servicediscovery::{Client, config};

pub use call::Call;
pub use error::{Class, Error};
pub use lane::{Gate, Planned};
pub use quota::{Permit, QuotaShare, Quotas, Urgency};

/// How many services are read side by side at most; their quotas bound the calls.
pub const SIDE_BY_SIDE: usize = 128;

/// A Cloud Map client. Clones share the account's quotas, and what was reported and learnt lately.
#[derive(Clone, Debug)]
pub struct CloudMap {
    client: Client,
    quotas: Arc<Quotas>,
    urgency: Urgency,
    reported: Arc<health::Reported>,
    timings: Arc<operation::Timings>,
}

impl CloudMap {
    /// Calls by a client of this configuration, within these quotas.
    pub fn new(config: config::Builder, quotas: Arc<Quotas>) -> Self {
        let config = config.interceptor(throttle::Tries(quotas.clone())).build();
        Self {
            client: Client::from_conf(config),
            quotas,
            urgency: Urgency::Bulk,
            reported: Arc::default(),
            timings: Arc::default(),
        }
    }

    /// The same client, whose calls go first or after others.
    #[must_use]
    pub fn with(&self, urgency: Urgency) -> Self {
        Self { urgency, ..self.clone() }
    }

    /// Waits until calls of a turn would be made at once.
    pub async fn gate(&self, call: Call) -> Gate {
        self.quotas.gate(call, self.urgency).await
    }

    /// Counts a call that waits for something else first.
    pub fn plan(&self, call: Call) -> Planned<'_> {
        self.quotas.plan(call)
    }

    /// Leave to make one call.
    pub async fn permit(&self, call: Call) -> Permit<'_> {
        self.quotas.permit(call, self.urgency).await
    }
}
