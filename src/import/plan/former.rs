//! The adoption of the objects of an import from a former `OWNER_ID`: they get our label and stay as they are, so its
//! IPs stay, too. The ServiceImport is the last: while it is another owner's, no sync changes the import.

use serde_json::json;

use super::change::{Change, Content, Kind, ObjectRef, Stage, Write};
use super::ownership::{OWNER_LABEL, OwnerLabel};
use super::present::{Metadata, Present};
use super::{HeldBack, Plan};
use crate::model::ServiceRef;

/// Plans the adoption of one import.
pub fn adopt_former(
    (former, owner): (&OwnerLabel, &OwnerLabel),
    service: &ServiceRef,
    present: &Present,
) -> Plan {
    let slices = present.slices.iter().map(|it| (Kind::EndpointSlice, &it.metadata));
    let derived = present.derived.iter().map(|it| (Kind::Service, &it.metadata));
    let import = present.import.iter().map(|it| (Kind::ServiceImport, &it.metadata));
    let is_adopted = |it: &Metadata| former.owns(it) && !owner.owns(it) && !it.is_terminating;
    let all = slices.chain(derived).chain(import).filter(|(_, metadata)| is_adopted(metadata));
    let changes = all.map(|(kind, metadata)| {
        let (namespace, name) = (service.namespace.clone(), metadata.name.clone());
        let body = json!({"metadata": {"labels": {OWNER_LABEL: owner.as_str()}}});
        Change {
            stage: Stage::UpdateImport,
            object: ObjectRef { kind, namespace, name },
            write: Write::Patch(Content { body, ..Content::default() }),
            detail: format!("taken over from the owner {}", former.as_str()),
        }
    });
    Plan { changes: changes.collect(), held_back: Vec::<HeldBack>::new() }
}
