//! GetOperation and ListOperations. A list contains only the id and status of an operation.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::dispatch::Output;
use super::error::ApiError;
use super::input::Input;
use super::namespace_reads::with_token;
use super::operation::{Operation, Targets};
use super::page::{Filter, Page};
use super::state::State;

const FILTERS: [(&str, &[&str]); 5] = [
    ("NAMESPACE_ID", &["EQ"]),
    ("SERVICE_ID", &["EQ"]),
    ("STATUS", &["EQ", "IN"]),
    ("TYPE", &["EQ", "IN"]),
    ("UPDATE_DATE", &["BETWEEN"]),
];

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

    pub(super) fn list_operations(&mut self, input: Input<'_>) -> Output {
        let filters = Filter::read(input, &FILTERS)?;
        let (page, token) = Page::read(input, "operations", self.behaviour.page_limit)?
            .cut(self.listed_operations().map(|(id, operation)| (id, (id, operation))));
        let shown: Vec<Value> = page
            .into_iter()
            .filter(|(_, operation)| filters.iter().all(|filter| self.passes(filter, operation)))
            .map(|(id, operation)| json!({ "Id": id, "Status": operation.status(self.now).0 }))
            .collect();
        Ok(with_token(json!({ "Operations": shown }), token))
    }

    /// Those of a namespace that was deleted are gone (comments in the tests of getmoto/moto).
    fn listed_operations(&self) -> impl Iterator<Item = (&String, &Operation)> {
        let all = self.operations.all();
        let is_deletion =
            |it: &&Operation| it.effect.call() == "DeleteNamespace" && it.succeeded().is_some();
        let deleted = all.values().filter(is_deletion).map(|it| &it.targets.namespace);
        let deleted: BTreeSet<&String> = deleted.collect();
        all.iter().filter(move |(_, it)| !deleted.contains(&it.targets.namespace))
    }

    fn passes(&self, filter: &Filter, operation: &Operation) -> bool {
        let (status, since) = operation.status(self.now);
        match filter.name.as_str() {
            "NAMESPACE_ID" => filter.passes(&operation.targets.namespace),
            "SERVICE_ID" => {
                operation.targets.service.as_deref().is_some_and(|id| filter.passes(id))
            }
            // The documentation's prose spells the status SUCCEED, the model SUCCESS.
            "STATUS" => filter.passes(status) || (status == "SUCCESS" && filter.passes("SUCCEED")),
            "TYPE" => filter.passes(operation.effect.word()),
            _ => {
                let bound = |index: usize| filter.values[index].parse::<f64>().unwrap_or(f64::NAN);
                (bound(0)..=bound(1)).contains(&self.timestamp(since))
            }
        }
    }
}

fn show_targets(targets: &Targets) -> BTreeMap<&'static str, &str> {
    let service = targets.service.as_deref().map(|id| ("SERVICE", id));
    let instance = targets.instance.as_deref().map(|id| ("INSTANCE", id));
    [("NAMESPACE", targets.namespace.as_str())].into_iter().chain(service).chain(instance).collect()
}
