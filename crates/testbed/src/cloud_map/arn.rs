//! ARNs of namespaces and services. The API accepts an ARN in place of every id. The ARN of an object in a namespace
//! that another account shares contains the number of that account, and is the only reference to the object.

use super::state::State;

impl State {
    /// The ARN of a namespace.
    pub(super) fn namespace_arn(&self, id: &str) -> String {
        self.arn(self.owner_of(id), "namespace", id)
    }

    /// The ARN of a service in a namespace.
    pub(super) fn service_arn(&self, namespace: &str, id: &str) -> String {
        self.arn(self.owner_of(namespace), "service", id)
    }

    /// The account that a namespace belongs to; this one's where the namespace is yet to be created.
    pub(super) fn owner_of(&self, namespace: &str) -> &str {
        self.namespaces.get(namespace).map_or(&self.account, |namespace| &namespace.owner)
    }

    /// The namespace in what a request gave as id or ARN; `None` where it names none here.
    pub(super) fn known_namespace<'a>(&self, given: &'a str) -> Option<&'a str> {
        let id = last_part(given);
        let namespace = self.namespaces.get(id).filter(|namespace| !namespace.is_leaving)?;
        self.goes_by(given, &namespace.owner, &self.namespace_arn(id)).then_some(id)
    }

    /// The service in what a request gave as id or ARN; `None` where it names none here.
    pub(super) fn known_service<'a>(&self, given: &'a str) -> Option<&'a str> {
        let id = last_part(given);
        let namespace = &self.services.get(id)?.namespace;
        self.goes_by(given, self.owner_of(namespace), &self.service_arn(namespace, id))
            .then_some(id)
    }

    fn goes_by(&self, given: &str, owner: &str, arn: &str) -> bool {
        if given.starts_with("arn:") { given == arn } else { owner == self.account }
    }

    fn arn(&self, account: &str, kind: &str, id: &str) -> String {
        let partition = match &self.region {
            region if region.starts_with("cn-") => "aws-cn",
            region if region.starts_with("us-gov-") => "aws-us-gov",
            _ => "aws",
        };
        format!("arn:{partition}:servicediscovery:{}:{account}:{kind}/{id}", self.region)
    }
}

/// The id in what may be an ARN.
pub(super) fn last_part(id_or_arn: &str) -> &str {
    id_or_arn.rsplit('/').next().unwrap_or(id_or_arn)
}
