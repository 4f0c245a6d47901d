//! ARNs of namespaces and services. Wherever the API takes an id it takes the ARN too; one of another account or
//! Region names nothing here.

use super::state::State;

impl State {
    /// The ARN of a `namespace` or a `service`.
    pub(super) fn arn(&self, kind: &str, id: &str) -> String {
        let partition = match &self.region {
            region if region.starts_with("cn-") => "aws-cn",
            region if region.starts_with("us-gov-") => "aws-us-gov",
            _ => "aws",
        };
        format!("arn:{partition}:servicediscovery:{}:{}:{kind}/{id}", self.region, self.account)
    }

    /// The id in what a request gave as id or ARN; `None` when the ARN is not of this kind, account and Region.
    pub(super) fn own_id<'a>(&self, id_or_arn: &'a str, kind: &str) -> Option<&'a str> {
        if id_or_arn.starts_with("arn:") {
            id_or_arn.strip_prefix(&self.arn(kind, ""))
        } else {
            Some(id_or_arn)
        }
    }
}
