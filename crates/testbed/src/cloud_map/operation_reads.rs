//! GetOperation.

use std::collections::BTreeMap;

use serde_json::json;

use super::dispatch::Output;
use super::error::ApiError;
use super::input::Input;
use super::operation::Targets;
use super::state::State;

impl State {
    pub(super) fn get_operation(&mut self, input: Input<'_>) -> Output {
        let id = input.text("OperationId", 255)?;
        let asked = input.optional_text("OwnerAccount", 12)?.unwrap_or(&self.account);
        let operation = self.operations.all().get(id);
        let operation = operation
            .filter(|operation| self.owner_of(&operation.targets.namespace) == asked)
            .ok_or_else(|| ApiError::missing("OperationNotFound", id))?;
        let (status, since) = operation.status(self.now);
        let mut shown = json!({
            "Id": id,
            "OwnerAccount": self.owner_of(&operation.targets.namespace),
            "Type": operation.effect.word(),
            "Status": status,
            "CreateDate": self.timestamp(operation.submitted),
            "UpdateDate": self.timestamp(since),
            "Targets": show_targets(&operation.targets),
        });
        if let Some(failure) = operation.failure.as_ref().filter(|_| status == "FAIL") {
            shown["ErrorCode"] = json!(failure.code);
            shown["ErrorMessage"] = json!(failure.message);
        }
        Ok(json!({ "Operation": shown }))
    }
}

fn show_targets(targets: &Targets) -> BTreeMap<&'static str, &str> {
    let service = targets.service.as_deref().map(|id| ("SERVICE", id));
    let instance = targets.instance.as_deref().map(|id| ("INSTANCE", id));
    [("NAMESPACE", targets.namespace.as_str())].into_iter().chain(service).chain(instance).collect()
}
