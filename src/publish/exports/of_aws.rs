//! The signs of AWS's controller on the exports of a cluster, and the commands that take them off. It deregisters
//! everything under its cluster id that it did not register, so the two never run for one cluster.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::model::{Desired, ServiceRef};

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
