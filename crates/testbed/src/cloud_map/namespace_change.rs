//! Deletes namespaces, as operations.

use tokio::time::Instant;

use super::arn::last_part;
use super::dispatch::Output;
use super::effect::Effect;
use super::error::ApiError;
use super::input::Input;
use super::operation::{Failure, Targets};
use super::state::State;

const LONGEST_ARN: usize = 255;

impl State {
    /// From its acceptance on no read shows the namespace. A second deletion meanwhile is a DuplicateRequest (comments in
    /// the tests of getmoto/moto).
    pub(super) fn delete_namespace(&mut self, input: Input<'_>) -> Output {
        let given = input.text("Id", LONGEST_ARN)?;
        let targets = |id: &str| Targets { namespace: id.to_owned(), ..Targets::default() };
        self.refuse_duplicate(&targets(last_part(given)))?;
        let id = self.namespace_id(input, "Id")?;
        self.refuse_with_services(&id)?;
        let accepted = self.submit(Effect::DeleteNamespace, targets(&id), None)?;
        self.leave(&id, true);
        Ok(accepted)
    }

    /// Hides a namespace, or shows it again since its deletion has failed.
    pub(super) fn leave(&mut self, id: &str, is_leaving: bool) {
        if let Some(namespace) = self.namespaces.get_mut(id) {
            namespace.is_leaving = is_leaving;
        }
    }

    fn refuse_with_services(&self, id: &str) -> Result<(), ApiError> {
        match self.services.values().filter(|service| service.namespace == id).count() {
            0 => Ok(()),
            count => {
                Err(ApiError::in_use(format!("The namespace {id} still holds {count} services")))
            }
        }
    }

    pub(super) fn finish_delete_namespace(
        &mut self,
        id: &str,
        ended: Instant,
    ) -> Result<(), Failure> {
        self.refuse_with_services(id)
            .map_err(|error| Failure { code: "INTERNAL_FAILURE", message: error.message })?;
        self.leave(id, true);
        let free_from = ended + self.behaviour.deleted_name_stays;
        if let Some(namespace) = self.namespaces.get_mut(id) {
            namespace.free_from = Some(free_from);
        }
        self.forget_deleted_namespaces();
        Ok(())
    }

    /// Frees the names of namespaces that were deleted.
    pub(super) fn forget_deleted_namespaces(&mut self) {
        let now = self.now;
        let is_gone = |at: &Instant| *at <= now;
        self.namespaces.retain(|_, namespace| !namespace.free_from.as_ref().is_some_and(is_gone));
    }

    /// The namespace that a member of a request names by id or ARN.
    pub(super) fn namespace_id(&self, input: Input<'_>, member: &str) -> Result<String, ApiError> {
        let given = input.text(member, LONGEST_ARN)?;
        let id = self.known_namespace(given);
        id.map(str::to_owned).ok_or_else(|| ApiError::missing("NamespaceNotFound", given))
    }
}
