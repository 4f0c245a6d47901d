//! The pace of a turn's registrations. One at a time waits for its token: the others do not grow old in the queue of the
//! rate, and an endpoint that is gone by then takes no token. Nothing else is held while the slices are read, so a cluster
//! that answers late holds up no other.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::SetOnce;
use tokio::time::Instant;

use super::{Calls, TurnCalls};
use crate::cloud_map::admission::Admission;
use crate::cloud_map::{Call, Permit, Token};
use crate::model::{InstanceKey, Outcome};
use crate::publish::passes::Effect;
use crate::publish::plan::{Change, Stage};

/// A registration rests on a read that is not older: pods come and go, and other runs register.
pub const FRESH: Duration = Duration::from_secs(5);

/// The last look at the endpoints of a turn.
pub(super) struct Pace {
    /// The token of the first registration.
    token: Option<Token>,
    /// The start of the last read.
    read: Instant,
    /// The registrations that are wanted since, if endpoints have changed.
    wanted: Result<Option<BTreeMap<InstanceKey, Change>>, Outcome>,
}

impl Pace {
    pub fn new(token: Option<Token>, read: Instant) -> Self {
        Self { token, read, wanted: Ok(None) }
    }

    /// The effect on a registration that is not made.
    fn refuse(&self, change: &Change) -> Result<(), Effect> {
        let is_wanted = |wanted: &BTreeMap<InstanceKey, Change>| {
            change.instance_key().is_some_and(|key| wanted.get(&key) == Some(change))
        };
        match &self.wanted {
            Err(outcome) => Err(Effect::Is(outcome.clone())),
            Ok(Some(wanted)) if !is_wanted(wanted) => Err(Effect::Outdated),
            Ok(_) => Ok(()),
        }
    }
}

impl TurnCalls<'_> {
    /// Waits until the call of a change may be made.
    pub(super) async fn permit(
        &self,
        call: Call,
        change: &Change,
    ) -> Result<(Permit<'_>, Option<Admission>), Effect> {
        let Calls { cloud_map, admissions, look, .. } = self.calls;
        if change.stage() != Stage::Register {
            return Ok((cloud_map.permit(call).await, None));
        }
        let mut pace = self.pace.lock().await;
        pace.refuse(change)?;
        let token = match pace.token.take() {
            Some(token) => token,
            None => cloud_map.token(call).await,
        };
        if pace.read.elapsed() >= FRESH {
            pace.read = Instant::now();
            pace.wanted = look().await.map(|read| self.turn.registrations_on(read));
            pace.refuse(change)?;
        }
        let admission = match change {
            // In a namespace known to be full, a Service takes the place that it freed itself, without an admission.
            Change::Register { place, .. } if !self.knows_full(&place.key) => {
                let _waiting = cloud_map.plan(call);
                let admitted = admissions.admit(&place.key.namespace).await;
                Some(admitted.map_err(Effect::Full)?)
            }
            _ => None,
        };
        drop(pace);
        Ok((cloud_map.permit_with(token).await, admission))
    }
}

/// The answer to the first registration: whether no other run was at the same instance.
pub(super) type Lead = SetOnce<bool>;
