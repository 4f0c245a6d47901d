//! The rights of the function's group: those of `deploy/rbac.yaml`, and the ClusterRoles of the multi-cluster flow in
//! `deploy/rbac-multi-cluster.yaml`.

use std::path::PathBuf;
use std::sync::LazyLock;

use serde_json::Value;

use super::access::BOUND_GROUP;
use super::resource::Target;

/// The ClusterRole for what a cluster offers.
pub const EXPORT_ROLE: &str = "cloud-map-sync-export";
/// The ClusterRole for what a cluster takes over.
pub const IMPORT_ROLE: &str = "cloud-map-sync-import";

/// The rights that the group always has.
pub static ALWAYS: LazyLock<Vec<Rule>> =
    LazyLock::new(|| of_file("deploy/rbac.yaml", "cloud-map-sync"));

/// One rule of a ClusterRole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    group: String,
    /// With the sub-resource, as in `serviceexports/status`.
    resources: Vec<String>,
    /// The only objects it is about; empty for all.
    names: Vec<String>,
    verbs: Vec<String>,
}

impl Rule {
    /// Whether it grants a verb on a target.
    pub fn grants(&self, verb: &str, target: &Target) -> bool {
        self.group == target.group
            && self.resources.contains(&target.qualified())
            && self.verbs.iter().any(|known| known == verb)
            && (self.names.is_empty() || self.names.contains(&target.name))
    }

    fn read(rule: &Value) -> Vec<Self> {
        let texts = |key: &str| -> Vec<String> {
            let texts = rule[key].as_array().into_iter().flatten().filter_map(Value::as_str);
            texts.map(ToOwned::to_owned).collect()
        };
        let of = |group: String| Self {
            group,
            resources: texts("resources"),
            names: texts("resourceNames"),
            verbs: texts("verbs"),
        };
        texts("apiGroups").into_iter().map(of).collect()
    }
}

/// The rules of a ClusterRole of the multi-cluster flow by its name.
pub fn of_role(role: &str) -> Vec<Rule> {
    of_file("deploy/rbac-multi-cluster.yaml", role)
}

fn of_file(file: &str, role: &str) -> Vec<Rule> {
    let path = PathBuf::from(crate::ROOT).join(file);
    of_documents(&std::fs::read_to_string(path).expect("the rights of the deployment"), role)
}

/// The rules of a ClusterRole that a ClusterRoleBinding gives to the group.
fn of_documents(text: &str, role: &str) -> Vec<Rule> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).expect("YAML of the deployment");
    let is_bound = documents.iter().any(|document| {
        let subjects = document["subjects"].as_array().into_iter().flatten();
        document["kind"] == "ClusterRoleBinding"
            && document["roleRef"]["name"] == role
            && subjects
                .into_iter()
                .any(|subject| subject["kind"] == "Group" && subject["name"] == BOUND_GROUP)
    });
    let roles = documents.iter().filter(|document| document["kind"] == "ClusterRole");
    let role = roles.filter(|document| is_bound && document["metadata"]["name"] == role);
    let rules = role.flat_map(|role| role["rules"].as_array().into_iter().flatten());
    rules.flat_map(Rule::read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_granted(role: &str, verb: &str, path: &str) -> bool {
        let target = Target::of_path(path).expect("a resource");
        of_role(role).iter().any(|rule| rule.grants(verb, &target))
    }

    #[test]
    fn each_role_grants_its_side_and_no_more() {
        let export = "/apis/multicluster.x-k8s.io/v1beta1/namespaces/shop/serviceexports/web";
        let import = "/apis/multicluster.x-k8s.io/v1beta1/namespaces/shop/serviceimports/web";
        let property = "/apis/about.k8s.io/v1alpha1/clusterproperties/clusterset.k8s.io";
        let status = |path: &str| format!("{path}/status");
        for (verb, path, expected) in [
            ("get", export.to_owned(), [true, false]),
            ("patch", export.to_owned(), [false, false]),
            ("patch", status(export), [true, false]),
            ("create", import.to_owned(), [false, true]),
            ("update", import.to_owned(), [false, false]),
            ("patch", status(import), [false, true]),
            ("delete", "/api/v1/namespaces/shop/services/web".to_owned(), [false, true]),
            ("update", "/api/v1/namespaces/shop/services/web".to_owned(), [false, false]),
            ("list", "/api/v1/namespaces".to_owned(), [false, true]),
            ("get", property.to_owned(), [true, true]),
            ("get", property.replace("clusterset.", "other."), [false, false]),
        ] {
            let found = [EXPORT_ROLE, IMPORT_ROLE].map(|role| is_granted(role, verb, &path));
            assert_eq!(found, expected, "{verb} {path}");
        }
    }

    #[test]
    fn a_role_in_a_file_counts_only_if_it_is_bound_to_the_group() {
        let role = "kind: ClusterRole\nmetadata: {name: it}\nrules:\n- {apiGroups: [''], resources: \
                    [pods], verbs: [get]}\n";
        let binding = |group: &str| {
            format!(
                "---\nkind: ClusterRoleBinding\nroleRef: {{name: it}}\nsubjects:\n- {{kind: Group, \
                 name: {group}}}\n"
            )
        };
        for (group, expected) in [(BOUND_GROUP, 1), ("other", 0)] {
            let text = format!("{role}{}", binding(group));
            assert_eq!(of_documents(&text, "it").len(), expected, "{group}");
            assert_eq!(of_documents(&text, "other").len(), 0);
        }
    }
}
