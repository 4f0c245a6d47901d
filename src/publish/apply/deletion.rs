//! The call that deletes a Cloud Map service. It is made in no Service's turn, since no Service claims the deleted
//! name.

use tokio::time::timeout_at;

use crate::cloud_map::{Call, Class, CloudMap};
use crate::model::Place;
use crate::publish::passes::{NO_TIME, Outcome};
use crate::publish::plan::Reason;
use crate::time::Deadline;

/// Deletes a service, and returns the outcome.
pub async fn delete(cloud_map: &CloudMap, deadline: Deadline, arn: &str, place: &Place) -> Outcome {
    let permit = match timeout_at(deadline.stop(), cloud_map.permit(Call::DeleteService)).await {
        Ok(permit) if deadline.is_open() => permit,
        _ => return Outcome::Undone(NO_TIME.to_owned()),
    };
    let deleted = timeout_at(deadline.end(), cloud_map.delete_service(permit, arn, place)).await;
    match deleted {
        Ok(Ok(())) => Outcome::Applied,
        // A missing service is the wanted result.
        Ok(Err(error)) if error.class == Class::NotFound => Outcome::Applied,
        Ok(Err(error)) if error.class == Class::InUse => Outcome::HeldBack(Reason::ServiceInUse),
        Ok(Err(error)) => Outcome::Failed(error.in_full()),
        Err(_) => {
            Outcome::Failed(format!("cannot delete {place}: Cloud Map did not answer in time"))
        }
    }
}
