//! The pure half of AWS Signature Version 4: encoding, hashing, key derivation, dates.

use std::fmt::Write;

use hmac::{Hmac, KeyInit, Mac};
use k8s_openapi::jiff::Timestamp;
use sha2::{Digest, Sha256};

/// Reads `20261121T074200Z`.
pub fn parse_date(date: &str) -> Option<Timestamp> {
    let zoned = format!("{}+0000", date.strip_suffix('Z')?);
    Timestamp::strptime("%Y%m%dT%H%M%S%z", zoned).ok()
}

/// The signature of the last step, whose key is derived from the secret by the steps before.
pub fn sign(secret: &str, steps: &[&str]) -> Vec<u8> {
    steps.iter().fold(format!("AWS4{secret}").into_bytes(), |key, step| {
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("HMAC takes keys of any length");
        mac.update(step.as_bytes());
        mac.finalize().into_bytes().to_vec()
    })
}

/// Percent-encoding as the specification has it: everything but unreserved characters.
pub fn encode(text: &str, keep_slash: bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                encoded.push(byte.into());
            }
            b'/' if keep_slash => encoded.push('/'),
            _ => write!(encoded, "%{byte:02X}").expect("writing to a string"),
        }
    }
    encoded
}

/// SHA-256 in lower-case hexadecimal.
pub fn digest(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

/// Bytes in lower-case hexadecimal.
pub fn hexadecimal(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from(b"0123456789abcdef"[usize::from(half)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
