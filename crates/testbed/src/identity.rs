//! The AWS access keys of the sandbox with their identities: the function's own role session, and the sessions of
//! AssumeRole. The signature check, the STS stand-in and the Kubernetes token check use it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::clock;
use super::sigv4::digest;

/// Access keys and assumable roles of all accounts; clones share them.
#[derive(Clone, Default)]
pub struct Identities(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    keys: BTreeMap<String, AccessKey>,
    /// The roles that may be assumed, each with its external id if it has one.
    roles: BTreeMap<String, Option<String>>,
    assumed: Vec<AssumedRole>,
    are_trusted: bool,
}

/// An access key with its secrets and whose it is.
#[derive(Clone, Debug)]
pub struct AccessKey {
    /// `AWS_ACCESS_KEY_ID`
    pub id: String,
    /// `AWS_SECRET_ACCESS_KEY`
    pub secret: String,
    /// `AWS_SESSION_TOKEN`
    pub session_token: String,
    /// End of the session.
    pub expires: Timestamp,
    /// The role session that the key belongs to.
    pub principal: Principal,
}

/// A role session as GetCallerIdentity tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// Twelve digits.
    pub account: String,
    /// `arn:aws:iam::<account>:role/<name>`: what an EKS access entry names.
    pub role_arn: String,
    pub session: String,
}

/// One AssumeRole that was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssumedRole {
    /// The role that asked.
    pub by: String,
    /// The role that was assumed.
    pub role_arn: String,
    /// The external id that was sent.
    pub external_id: Option<String>,
    /// The session name that was sent.
    pub session: String,
}

impl Principal {
    /// `arn:aws:sts::<account>:assumed-role/<name>/<session>`; a role's path is not part of it.
    pub fn arn(&self) -> String {
        let partition = self.role_arn.split(':').nth(1).unwrap_or("aws");
        let role = self.role_arn.rsplit('/').next().unwrap_or_default();
        format!("arn:{partition}:sts::{}:assumed-role/{role}/{}", self.account, self.session)
    }

    /// `<role id>:<session>`
    pub fn user_id(&self) -> String {
        let id = digest(self.role_arn.as_bytes()).to_uppercase();
        format!("AROA{}:{}", &id[..17], self.session)
    }
}

impl Identities {
    /// Issues a key for a session of a role.
    pub fn issue(&self, role_arn: &str, session: &str, lifetime: Duration) -> AccessKey {
        let mut known = self.known();
        let number = known.keys.len() + 1;
        let id = format!("ASIASANDBOX{number:09}");
        let key = AccessKey {
            secret: digest(format!("secret of {id}").as_bytes())[..40].to_owned(),
            // Real session tokens hold +, / and =, which show whether a client encodes its query
            // right.
            session_token: format!("IQoJb3JpZ2luX2Vj//{}+=", digest(id.as_bytes())),
            expires: clock::now() + lifetime,
            principal: Principal {
                account: role_arn.split(':').nth(4).unwrap_or_default().to_owned(),
                role_arn: role_arn.to_owned(),
                session: session.to_owned(),
            },
            id,
        };
        known.keys.insert(key.id.clone(), key.clone());
        key
    }

    /// From now on a request is known by the id of its key, and its signature is not computed again: tests that are not
    /// about access need a quarter less time without.
    pub fn trust(&self) {
        self.known().are_trusted = true;
    }

    pub(super) fn are_trusted(&self) -> bool {
        self.known().are_trusted
    }

    /// The key of that id, if the sandbox issued it.
    pub fn key(&self, id: &str) -> Option<AccessKey> {
        self.known().keys.get(id).cloned()
    }

    /// The texts that authorize a request, each with what it is. No log may have one.
    pub fn secrets(&self) -> Vec<(&'static str, String)> {
        let signed = [("a bearer token", "k8s-aws-v1."), ("a signature", "X-Amz-Signature=")];
        let signed = signed.map(|(what, text)| (what, text.to_owned()));
        let known = self.known();
        let of_keys = known.keys.values().flat_map(|key| {
            // The part that is the same also where the token is percent-encoded.
            let parts =
                key.session_token.split(|character: char| !character.is_ascii_alphanumeric());
            let token = parts.max_by_key(|part| part.len()).expect("a part").to_owned();
            [("a secret key", key.secret.clone()), ("a session token", token)]
        });
        of_keys.chain(signed).collect()
    }

    /// Lets every principal assume the role, where an external id is given only with that one.
    pub fn assumable_role(&self, role_arn: &str, external_id: Option<&str>) {
        let external_id = external_id.map(ToOwned::to_owned);
        self.known().roles.insert(role_arn.to_owned(), external_id);
    }

    /// Takes from every principal the right to assume the role.
    pub fn refuse_role(&self, role_arn: &str) {
        self.known().roles.remove(role_arn);
    }

    /// Answers AssumeRole: a key of the role's session, or nothing where its trust policy refuses.
    pub fn assume(&self, request: &AssumedRole, lifetime: Duration) -> Option<AccessKey> {
        {
            let mut known = self.known();
            let external_id = known.roles.get(&request.role_arn)?;
            if external_id.is_some() && *external_id != request.external_id {
                return None;
            }
            known.assumed.push(request.clone());
        }
        Some(self.issue(&request.role_arn, &request.session, lifetime))
    }

    /// Every role assumed so far, in order.
    pub fn assumed(&self) -> Vec<AssumedRole> {
        self.known().assumed.clone()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().expect("no poisoned lock")
    }
}
