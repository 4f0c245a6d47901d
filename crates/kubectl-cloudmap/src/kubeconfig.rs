//! Finds the EKS cluster of a kubeconfig's context. `aws eks update-kubeconfig` names cluster and context by the
//! cluster's ARN; with eksctl and renamed contexts the name is in the arguments of the credential command. Pure.

use kube::config::{ExecConfig, Kubeconfig};

use cloud_map_sync::model::ClusterArn;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    pub name: String,
    /// The EKS cluster's ARN, or its name.
    pub cluster: Option<String>,
    /// The default namespace of kubectl.
    pub namespace: String,
}

/// Finds a context, or the current one; `None` if it does not exist.
pub fn find_context(kubeconfig: &Kubeconfig, name: Option<&str>) -> Option<Context> {
    let name = name.or(kubeconfig.current_context.as_deref()).filter(|name| !name.is_empty())?;
    let found = kubeconfig.contexts.iter().find(|context| context.name == name)?;
    let context = found.context.as_ref()?;
    let arn = ClusterArn::parse(&context.cluster).map(|arn| arn.as_str().to_owned());
    let user = kubeconfig.auth_infos.iter().find(|user| Some(&user.name) == context.user.as_ref());
    let exec = user.and_then(|user| user.auth_info.as_ref()?.exec.as_ref());
    Some(Context {
        name: name.to_owned(),
        cluster: arn.or_else(|| exec.and_then(cluster_in_command)),
        namespace: context.namespace.clone().unwrap_or_else(|| "default".to_owned()),
    })
}

/// The cluster's name in the arguments of `aws eks get-token` or `aws-iam-authenticator token`.
fn cluster_in_command(exec: &ExecConfig) -> Option<String> {
    let command = exec.command.as_deref().unwrap_or_default();
    let program = command.rsplit(['/', '\\']).next().unwrap_or_default();
    let options: &[&str] = match program.trim_end_matches(".exe") {
        "aws" => &["--cluster-name", "--cluster-id"],
        "aws-iam-authenticator" => &["-i", "--cluster-id"],
        _ => return None,
    };
    let arguments = exec.args.as_deref().unwrap_or_default();
    options.iter().find_map(|option| option_value(arguments, option))
}

/// The value of an option: `--option value` or `--option=value`.
fn option_value(arguments: &[String], option: &str) -> Option<String> {
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == option {
            return rest.next().cloned();
        }
        let joined = argument.strip_prefix(option).and_then(|rest| rest.strip_prefix('='));
        if let Some(value) = joined {
            return Some(value.to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ARN: &str = "arn:aws:eks:eu-central-1:111122223333:cluster/blue";

    fn kubeconfig(cluster: &str, command: &str, arguments: &[&str]) -> Kubeconfig {
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "work",
            "contexts": [
                {"name": "work", "context": {"cluster": cluster, "user": "me"}},
                {"name": "shop", "context": {"cluster": cluster, "user": "me", "namespace": "shop"}},
            ],
            "clusters": [{"name": cluster, "cluster": {"server": "https://localhost"}}],
            "users": [{"name": "me", "user": {"exec": {
                "apiVersion": "client.authentication.k8s.io/v1beta1",
                "command": command, "args": arguments,
            }}}],
        });
        serde_json::from_value(kubeconfig).expect("a kubeconfig")
    }

    #[test]
    fn a_contexts_cluster_is_in_its_name_or_its_sign_in_command() {
        let token = ["--region", "eu-central-1", "eks", "get-token", "--cluster-name", "blue"];
        let rows: [(&str, &str, &[&str], Option<&str>); 7] = [
            (ARN, "aws", &token, Some(ARN)),
            ("blue.eu-central-1.eksctl.io", "aws", &token, Some("blue")),
            (
                "work",
                "/usr/local/bin/aws",
                &["eks", "get-token", "--cluster-name=blue"],
                Some("blue"),
            ),
            ("work", "aws-iam-authenticator", &["token", "-i", "blue"], Some("blue")),
            ("work", "aws", &["eks", "get-token"], None),
            ("work", "aws", &["eks", "get-token", "--cluster-name"], None),
            ("kind-kind", "gke-gcloud-auth-plugin", &["--cluster-name", "blue"], None),
        ];
        for (cluster, command, arguments, expected) in rows {
            let context =
                find_context(&kubeconfig(cluster, command, arguments), None).expect("current");
            assert_eq!(context.cluster.as_deref(), expected, "{cluster} {command} {arguments:?}");
        }
    }

    #[test]
    fn the_named_context_is_used_with_its_namespace() {
        let kubeconfig = kubeconfig(ARN, "aws", &[]);
        let namespace = |name| find_context(&kubeconfig, name).map(|context| context.namespace);
        assert_eq!(namespace(None).as_deref(), Some("default"));
        assert_eq!(namespace(Some("shop")).as_deref(), Some("shop"));
        assert_eq!(namespace(Some("away")), None);
    }
}
