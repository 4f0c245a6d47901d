//! Ids in the form of the service: `ns-` and `srv-` with 16 lower-case letters or digits, operations with 32 and 8.
//! Each is the hash of a counter for its kind. So the third service has the same id in every run, and no test can guess
//! an id.
//!
//! ARNs of namespaces and services. The API accepts an ARN in place of every id. The ARN of an object in a namespace
//! that another account shares contains the number of that account, and is the only reference to the object.
//!
//! The patterns of the service model (version 2017-03-14) for names, ids and attributes, each as a predicate.
//! The comment above each is the model's own regular expression.

use std::collections::BTreeMap;

use super::state::State;

/// A source of ids; two with different seeds never give the same.
pub struct Ids {
    seed: u64,
    given: BTreeMap<&'static str, u64>,
}

impl Ids {
    /// A source for one account and Region.
    pub fn new(seed: &str) -> Self {
        Self { seed: hash(seed), given: BTreeMap::new() }
    }

    /// A namespace's id.
    pub fn namespace(&mut self) -> String {
        format!("ns-{}", self.word("namespace", 16))
    }

    /// A service's id.
    pub fn service(&mut self) -> String {
        format!("srv-{}", self.word("service", 16))
    }

    /// An operation's id.
    pub fn operation(&mut self) -> String {
        format!("{}-{}", self.word("operation", 32), self.word("operation", 8))
    }

    /// The id of a hosted zone of Route 53.
    pub fn hosted_zone(&mut self) -> String {
        format!("Z{}", self.word("hosted zone", 20).to_uppercase())
    }

    /// The id of a VPC.
    pub fn vpc(&mut self) -> String {
        format!("vpc-{}", self.word("vpc", 17))
    }

    /// What tells an `HttpName` from another namespace's equal name: 16 characters (aws/aws-cdk 25616).
    pub fn suffix(&mut self) -> String {
        self.word("suffix", 16)
    }

    /// The id of a request, as `x-amzn-requestid` has it.
    pub fn request(&mut self) -> String {
        [8, 4, 4, 4, 12].map(|length| self.word("request", length)).join("-")
    }

    fn word(&mut self, kind: &'static str, length: usize) -> String {
        const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
        let given = self.given.entry(kind).or_default();
        *given += 1;
        let mut state = self.seed ^ hash(kind) ^ mix(*given);
        (0..length)
            .map(|_| {
                state = mix(state);
                char::from(ALPHABET[usize::try_from(state % 36).expect("below 36")])
            })
            .collect()
    }
}

/// A number that depends on every byte of the text (FNV-1a, then mixed).
pub fn hash(text: &str) -> u64 {
    let fold = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    mix(text.bytes().fold(0xcbf2_9ce4_8422_2325, fold))
}

/// One step of splitmix64.
pub fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

impl State {
    /// The ARN of a namespace.
    pub fn namespace_arn(&self, id: &str) -> String {
        self.arn(self.owner_of(id), "namespace", id)
    }

    /// The ARN of a service in a namespace.
    pub fn service_arn(&self, namespace: &str, id: &str) -> String {
        self.arn(self.owner_of(namespace), "service", id)
    }

    /// The account that a namespace belongs to; this one's where the namespace is yet to be created.
    pub fn owner_of(&self, namespace: &str) -> &str {
        self.namespaces.get(namespace).map_or(&self.account, |namespace| &namespace.owner)
    }

    /// The namespace in what a request gave as id or ARN; `None` where it names none here.
    pub fn known_namespace<'a>(&self, given: &'a str) -> Option<&'a str> {
        let id = last_part(given);
        let namespace = self.namespaces.get(id).filter(|namespace| !namespace.is_leaving)?;
        self.goes_by(given, &namespace.owner, &self.namespace_arn(id)).then_some(id)
    }

    /// The service in what a request gave as id or ARN; `None` where it names none here.
    pub fn known_service<'a>(&self, given: &'a str) -> Option<&'a str> {
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
pub fn last_part(id_or_arn: &str) -> &str {
    id_or_arn.rsplit('/').next().unwrap_or(id_or_arn)
}

/// `^(?!arn:)[!-~]{1,1024}$`, with the length of the namespace kind.
pub fn is_namespace_name(name: &str, longest: usize) -> bool {
    !name.starts_with("arn:")
        && (1..=longest).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_graphic())
}

/// `^([a-zA-Z0-9]([a-zA-Z0-9\-]{0,61}[a-zA-Z0-9])?\.)+...$`: at least two DNS labels.
pub fn is_public_domain(name: &str) -> bool {
    name.len() <= 253 && name.contains('.') && name.split('.').all(is_dns_label)
}

fn is_dns_label(label: &str) -> bool {
    let bytes = label.as_bytes();
    (1..=63).contains(&bytes.len())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
        && bytes[0] != b'-'
        && bytes[bytes.len() - 1] != b'-'
}

/// `((?=^.{1,127}$)^([a-zA-Z0-9_][a-zA-Z0-9-_]{0,61}[a-zA-Z0-9_]|[a-zA-Z0-9])(\.(...))*$)|(^\.$)`.
pub fn is_service_name(name: &str) -> bool {
    name == "." || ((1..=127).contains(&name.len()) && name.split('.').all(is_service_label))
}

/// A single character must be a letter or digit; a longer label may also begin and end with an underscore.
fn is_service_label(label: &str) -> bool {
    let word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    match label.as_bytes() {
        [only] => only.is_ascii_alphanumeric(),
        [first, middle @ .., last] => {
            middle.len() <= 61
                && word(first)
                && word(last)
                && middle.iter().all(|byte| word(byte) || *byte == b'-')
        }
        [] => false,
    }
}

/// `^[0-9a-zA-Z_/:.@-]+$`, at most 64.
pub fn is_instance_id(id: &str) -> bool {
    (1..=64).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_/:.@-".contains(&byte))
}

/// `^[a-zA-Z0-9!-~]+$`, at most 255: printable ASCII without the space.
pub fn is_attribute_key(key: &str) -> bool {
    (1..=255).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic())
}

/// `^([a-zA-Z0-9!-~][ \ta-zA-Z0-9!-~]*){0,1}[a-zA-Z0-9!-~]{0,1}$`, at most 1024: may be empty, may end with
/// a space, may not begin with one.
pub fn is_attribute_value(value: &str) -> bool {
    value.len() <= 1024
        && value.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ' || byte == b'\t')
        && !value.starts_with([' ', '\t'])
}
