//! Ids in the form of the service: `ns-` and `srv-` with 16 lower-case letters or digits, operations with 32 and 8.
//! Each is the hash of a counter for its kind. So the third service has the same id in every run, and no test can guess
//! an id.

use std::collections::BTreeMap;

/// A source of ids; two with different seeds never give the same.
pub(super) struct Ids {
    seed: u64,
    given: BTreeMap<&'static str, u64>,
}

impl Ids {
    /// A source for one account and Region.
    pub(super) fn new(seed: &str) -> Self {
        Self { seed: hash(seed), given: BTreeMap::new() }
    }

    /// A namespace's id.
    pub(super) fn namespace(&mut self) -> String {
        format!("ns-{}", self.word("namespace", 16))
    }

    /// A service's id.
    pub(super) fn service(&mut self) -> String {
        format!("srv-{}", self.word("service", 16))
    }

    /// An operation's id.
    pub(super) fn operation(&mut self) -> String {
        format!("{}-{}", self.word("operation", 32), self.word("operation", 8))
    }

    /// The id of a hosted zone of Route 53.
    pub(super) fn hosted_zone(&mut self) -> String {
        format!("Z{}", self.word("hosted zone", 20).to_uppercase())
    }

    /// The id of a VPC.
    pub(super) fn vpc(&mut self) -> String {
        format!("vpc-{}", self.word("vpc", 17))
    }

    /// What tells an `HttpName` from another namespace's equal name: 16 characters (aws/aws-cdk 25616).
    pub(super) fn suffix(&mut self) -> String {
        self.word("suffix", 16)
    }

    /// The id of a request, as `x-amzn-requestid` has it.
    pub(super) fn request(&mut self) -> String {
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
pub(super) fn hash(text: &str) -> u64 {
    let fold = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    mix(text.bytes().fold(0xcbf2_9ce4_8422_2325, fold))
}

/// One step of splitmix64.
pub(super) fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
