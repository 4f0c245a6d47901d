//! One account's AWS Cloud Map in one Region: [`read`] and [`tag`] ask, [`namespace`], [`service`] and
//! [`mod@write`] make one change each, [`operation`] waits for what a change set in motion, `health` both
//! asks and reports. Nothing here decides anything.
//!
//! Services and namespaces are named by ARN throughout: it is accepted wherever an id is, and for
//! namespaces shared from another account it is the only way.

pub mod discover;
mod error;
mod health;
pub mod namespace;
pub mod operation;
pub mod read;
pub mod service;
mod summary;
pub mod tag;
pub mod write;

use std::sync::Arc;

use aws_sdk_servicediscovery::Client;
use tokio::sync::{Semaphore, SemaphorePermit};

pub use error::{Class, Error};

/// How many calls run at once, whoever makes them.
const CONCURRENCY: usize = 16;

/// A Cloud Map client. Clones share one bound on the calls under way, and what was reported lately.
#[derive(Clone, Debug)]
pub struct CloudMap {
    client: Client,
    reported: Arc<health::Reported>,
    calls: Arc<Semaphore>,
}

/// Leave to make one call; held until the call is answered.
#[derive(Debug)]
pub struct Permit<'a> {
    _held: Option<SemaphorePermit<'a>>,
}

impl CloudMap {
    /// Calls through `client`.
    pub fn new(client: Client) -> Self {
        Self { client, reported: Arc::default(), calls: Arc::new(Semaphore::new(CONCURRENCY)) }
    }

    /// Leave to make one call. The semaphore is never closed, so the error, which would only mean
    /// that, is no permit and no harm.
    pub async fn permit(&self) -> Permit<'_> {
        Permit { _held: self.calls.acquire().await.ok() }
    }
}
