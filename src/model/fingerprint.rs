//! A short hash that identifies several texts, for names that must be the same in every run.

use sha2::{Digest, Sha256};

/// The first `BYTES` bytes of a SHA-256 of the parts, in hexadecimal digits. Each part is hashed after its length, so
/// that `a/b` + `c` differs from `a` + `b/c`.
pub fn fingerprint<const BYTES: usize>(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    let mut digits = String::with_capacity(2 * BYTES);
    for byte in &hash.finalize()[..BYTES] {
        for digit in [byte >> 4, byte & 15] {
            digits.extend(char::from_digit(u32::from(digit), 16));
        }
    }
    digits
}
