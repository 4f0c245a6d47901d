//! The adoption of the exports that AWS's controller registered for a cluster:
//!
//! ```text
//! records of the exports that have its instances, and of the cluster ─> our marks on its instances
//! ```
//!
//! The records come first. Without one, an instance with our marks counts for no member, and with one all complete
//! instances of the cluster count, whoever's they are: so at no time has a name lost an endpoint, for any reader.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::timeout_at;

use super::outcome::Stands;
use super::records::Kept;
use super::{Exported, Imports, Offer, Refused, make, refuse};
use crate::clusterset::conditions::ExportOutcome;
use crate::model::clusterset::{Member, Overlay};
use crate::model::{Desired, Selection, ServiceRef};
use crate::publish::observe::World;
use crate::publish::plan::{Claimed, ExportAdoption, Leaving, to_adopt};
use crate::publish::{Options, Task, carry_out, observe};

/// Adopts the instances of AWS's controller for a member, or plans it. The next sync registers what is missing, and
/// deregisters those that no endpoint asks for.
///
/// # Errors
/// Returns an error if the cluster or the registry could not be read completely, and the reason if the controller may
/// still run, or the member's id is held by another. Nothing was changed then.
pub async fn adopt(
    world: &World<'_>,
    (member, imports): (&Member, Imports),
    options: Options,
    offer: oneshot::Sender<Offer>,
) -> Result<Result<Exported, Refused>, observe::Error> {
    let read = async {
        let observed = Box::pin(world.observe(&Selection::Everything)).await?;
        Ok::<_, observe::Error>((observed, world.observe_records(member, None).await?))
    };
    let (observed, records) = timeout_at(options.deadline.stop(), read).await??;
    if let Some(finalized) = Finalized::of(&observed.observation.desired) {
        return Ok(refuse(offer, Refused::NotReleased(finalized)));
    }
    let kept = match Kept::new(world, member, records) {
        Ok(kept) if !kept.has_cluster_record() && imports.stand(world).await => {
            return Ok(Err(Refused::UnfamiliarRegistry));
        }
        Ok(kept) => kept,
        Err(refused) => return Ok(refuse(offer, refused)),
    };
    let stands = to_adopt(observed.basis(), member).into_iter();
    let stands: BTreeMap<_, _> = stands
        .map(|service| (service, Stands::Exported { remark: String::new(), is_empty: false }))
        .collect();
    let selection = &Selection::Everything;
    let written = kept.write(&observed.observation, stands, (selection, options)).await;
    let is_recorded = |outcome: &ExportOutcome| matches!(outcome, ExportOutcome::Exported(_));
    let recorded = written.outcomes.iter().filter(|(_, outcome)| is_recorded(outcome));
    let recorded = recorded.map(|(service, _)| service.clone()).collect();
    let adoption = ExportAdoption { member: member.clone(), recorded };
    let task = Task::AdoptExports(world, &adoption);
    let adopted = carry_out(&task, observed.basis(), options).await.report;
    let claimed = Claimed::of(&observed.observation, Leaving::default());
    let (report, desired) = (written.report.with(adopted), observed.observation.desired);
    let overlay = Overlay::new(world.owner.cluster.clone(), desired, selection.clone());
    let has_cluster_record = written.has_cluster_record;
    // Imports are taken over after all exports were.
    let offered = if report.is_complete() {
        Offer::Exports { overlay: overlay.clone(), has_cluster_record }
    } else {
        Offer::Nothing
    };
    make(offer, offered);
    Ok(Ok(Exported { report, claimed, overlay, outcomes: BTreeMap::new() }))
}

// The signs of AWS's controller on the exports of a cluster, and the commands that take them off. It deregisters
// everything under its cluster id that it did not register, so the two never run for one cluster.

/// The finalizer of AWS's controller on ServiceExports.
const FINALIZER: &str = "multicluster.k8s.aws/service-export-finalizer";

/// The exports that carry the finalizer of AWS's controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finalized {
    /// All finalizers of each.
    exports: BTreeMap<ServiceRef, Vec<String>>,
}

impl Finalized {
    /// `None` if no export carries it.
    pub fn of(desired: &Desired) -> Option<Self> {
        let is_of_aws = |all: &Vec<String>| all.iter().any(|it| it == FINALIZER);
        let found = desired.finalizers.iter().filter(|(_, all)| is_of_aws(all));
        let exports: BTreeMap<_, _> = found.map(|(it, all)| (it.clone(), all.clone())).collect();
        (!exports.is_empty()).then_some(Self { exports })
    }

    pub fn first(&self) -> Option<&ServiceRef> {
        self.exports.keys().next()
    }

    /// The commands that take the finalizer off: one for each namespace, and one for each export that has others, too.
    pub fn commands(&self) -> Vec<String> {
        let mut alone: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut beside = Vec::new();
        for (export, all) in &self.exports {
            let ServiceRef { namespace, name } = export;
            if all.len() == 1 {
                alone.entry(namespace).or_default().push(name);
                continue;
            }
            let index = all.iter().position(|it| it == FINALIZER).unwrap_or_default();
            let path = format!("/metadata/finalizers/{index}");
            let patch = json!([
                {"op": "test", "path": path, "value": FINALIZER},
                {"op": "remove", "path": path},
            ]);
            beside.push(command(namespace, &[name], "json", &patch.to_string()));
        }
        let none = json!({"metadata": {"finalizers": null}}).to_string();
        let alone =
            alone.iter().map(|(namespace, names)| command(namespace, names, "merge", &none));
        alone.chain(beside).collect()
    }
}

/// Whether a ServiceExport carries it.
pub fn is_of_aws(export: &Value) -> bool {
    let finalizers = export["metadata"]["finalizers"].as_array();
    finalizers.into_iter().flatten().any(|it| it == FINALIZER)
}

fn command(namespace: &str, names: &[&str], kind: &str, patch: &str) -> String {
    let names = names.join(" ");
    format!(
        "kubectl patch serviceexports.multicluster.x-k8s.io {names} --namespace {namespace} --type {kind} --patch '{patch}'"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_finalizer_is_taken_off_alone() {
        let export = |name: &str, finalizers: &[&str]| {
            let finalizers = finalizers.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
            (ServiceRef::new("shop", name), finalizers)
        };
        let exports = [
            export("api", &[FINALIZER]),
            export("cart", &["example.org/wait"]),
            export("mail", &["example.org/wait", FINALIZER]),
            export("web", &[FINALIZER]),
        ];
        let desired = Desired { finalizers: exports.into(), ..Desired::default() };
        let finalized = Finalized::of(&desired).expect("some carry it");
        insta::assert_snapshot!(finalized.commands().join("\n"), @r#"
        kubectl patch serviceexports.multicluster.x-k8s.io api web --namespace shop --type merge --patch '{"metadata":{"finalizers":null}}'
        kubectl patch serviceexports.multicluster.x-k8s.io mail --namespace shop --type json --patch '[{"op":"test","path":"/metadata/finalizers/1","value":"multicluster.k8s.aws/service-export-finalizer"},{"op":"remove","path":"/metadata/finalizers/1"}]'
        "#);
        let finalizers = [export("cart", &["example.org/wait"])].into();
        assert_eq!(Finalized::of(&Desired { finalizers, ..Desired::default() }), None);
    }
}
