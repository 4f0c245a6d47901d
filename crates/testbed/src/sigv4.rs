//! Verifies AWS Signature Version 4: the signature is recomputed with the secret that the sandbox issued, and must
//! match. It is written from the specification, without the crate that the product signs with.
//!
//! The pure half of AWS Signature Version 4: encoding, hashing, key derivation, dates.

use std::collections::BTreeMap;
use std::fmt::Write;

use axum::http::HeaderMap;
use hmac::{Hmac, KeyInit, Mac};
use k8s_openapi::jiff::{Span, Timestamp};
use sha2::{Digest, Sha256};

use super::identity::{AccessKey, Identities, Principal};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// A request whose signature holds.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Whose key signed.
    pub principal: Principal,
    /// Region of the credential scope.
    pub region: String,
    /// Service of the credential scope.
    pub service: String,
}

/// Why a signature does not hold: the error code that AWS uses and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// `InvalidSignatureException`, `ExpiredTokenException`, ...
    pub code: &'static str,
    pub message: String,
}

/// What of a request is signed.
pub struct SignedRequest<'a> {
    /// `GET`, `POST`
    pub method: &'a str,
    /// Path as sent.
    pub path: &'a str,
    /// Decoded query pairs.
    pub query: &'a [(String, String)],
    /// All headers; only the signed ones count.
    pub headers: &'a HeaderMap,
    /// The body as sent.
    pub body: &'a [u8],
}

/// The parts of `Authorization`, or of a presigned URL's `X-Amz-*` parameters.
struct Claim {
    credential: String,
    signed_headers: String,
    signature: String,
    date: String,
    session_token: String,
}

impl SignedRequest<'_> {
    /// Checks a request signed by its `Authorization` header.
    pub fn verify_header(
        &self,
        identities: &Identities,
        now: Timestamp,
    ) -> Result<Caller, Refusal> {
        let claim = self.header_claim().ok_or_else(|| {
            refuse("MissingAuthenticationTokenException", "Missing Authentication Token")
        })?;
        self.verify(&claim, self.query, identities, now)
    }

    /// Checks a presigned request, whose signature is part of its query.
    pub fn verify_presigned(
        &self,
        identities: &Identities,
        now: Timestamp,
    ) -> Result<Caller, Refusal> {
        let parameter = |name: &str| {
            let found = self.query.iter().find(|(key, _)| key == name);
            found.map(|(_, value)| value.clone()).unwrap_or_default()
        };
        let claim = Claim {
            credential: parameter("X-Amz-Credential"),
            signed_headers: parameter("X-Amz-SignedHeaders"),
            signature: parameter("X-Amz-Signature"),
            date: parameter("X-Amz-Date"),
            session_token: parameter("X-Amz-Security-Token"),
        };
        let mut query = self.query.to_vec();
        query.retain(|(key, _)| key != "X-Amz-Signature");
        self.verify(&claim, &query, identities, now)
    }

    fn header_claim(&self) -> Option<Claim> {
        let fields = self.header("authorization").strip_prefix(ALGORITHM)?.to_owned();
        let field = |name: &str| {
            let mut parts = fields.split(',').map(str::trim);
            parts.find_map(|part| part.strip_prefix(name).map(ToOwned::to_owned))
        };
        Some(Claim {
            credential: field("Credential=")?,
            signed_headers: field("SignedHeaders=")?,
            signature: field("Signature=")?,
            date: self.header("x-amz-date").to_owned(),
            session_token: self.header("x-amz-security-token").to_owned(),
        })
    }

    fn verify(
        &self,
        claim: &Claim,
        query: &[(String, String)],
        identities: &Identities,
        now: Timestamp,
    ) -> Result<Caller, Refusal> {
        let scope: Vec<&str> = claim.credential.split('/').collect();
        let [key_id, day, region, service, "aws4_request"] = scope[..] else {
            return Err(mismatch("Credential must have 5 parts ending in aws4_request"));
        };
        let key = known_key(identities, key_id, &claim.session_token, now)?;
        check_date(&claim.date, day, now)?;
        if !identities.are_trusted() {
            self.check_signature(claim, query, &key.secret, [day, region, service])?;
        }
        Ok(Caller {
            principal: key.principal,
            region: region.to_owned(),
            service: service.to_owned(),
        })
    }

    fn check_signature(
        &self,
        claim: &Claim,
        query: &[(String, String)],
        secret: &str,
        [day, region, service]: [&str; 3],
    ) -> Result<(), Refusal> {
        let canonical = self.canonical(query, &claim.signed_headers)?;
        let scope = format!("{day}/{region}/{service}/aws4_request");
        let text =
            format!("{ALGORITHM}\n{}\n{scope}\n{}", claim.date, digest(canonical.as_bytes()));
        if hexadecimal(&sign(secret, &[day, region, service, "aws4_request", &text]))
            != claim.signature
        {
            return Err(mismatch(&format!(
                "The request signature we calculated does not match the signature you provided. \
                 The canonical request should have been\n{canonical}"
            )));
        }
        Ok(())
    }

    fn canonical(
        &self,
        query: &[(String, String)],
        signed_headers: &str,
    ) -> Result<String, Refusal> {
        // Every service but S3 encodes the path as sent once more.
        let path = encode(self.path, true);
        let mut lines = BTreeMap::new();
        for name in signed_headers.split(';') {
            if !self.headers.contains_key(name) {
                return Err(mismatch(&format!("signed header {name} was not sent")));
            }
            lines.insert(name, format!("{name}:{}", self.header_values(name)));
        }
        if !lines.contains_key("host") {
            return Err(mismatch("'Host' must be a 'SignedHeader' in the AWS Authorization."));
        }
        let lines = lines.into_values().collect::<Vec<_>>().join("\n");
        Ok(format!(
            "{}\n{path}\n{}\n{lines}\n\n{signed_headers}\n{}",
            self.method,
            canonical_query(query),
            digest(self.body)
        ))
    }

    fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default()
    }

    fn header_values(&self, name: &str) -> String {
        let values = self.headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        let folded = values.map(|value| value.split_whitespace().collect::<Vec<_>>().join(" "));
        folded.collect::<Vec<_>>().join(",")
    }
}

fn known_key(
    identities: &Identities,
    id: &str,
    session_token: &str,
    now: Timestamp,
) -> Result<AccessKey, Refusal> {
    let invalid = "The security token included in the request is invalid.";
    let expired = "The security token included in the request is expired";
    match identities.key(id).filter(|key| key.session_token == session_token) {
        None => Err(refuse("UnrecognizedClientException", invalid)),
        Some(key) if key.expires < now => Err(refuse("ExpiredTokenException", expired)),
        Some(key) => Ok(key),
    }
}

/// Sorted by name and then by value, both as encoded.
fn canonical_query(query: &[(String, String)]) -> String {
    let encoded = query.iter().map(|(key, value)| (encode(key, false), encode(value, false)));
    let mut pairs: Vec<_> = encoded.collect();
    pairs.sort();
    let pairs: Vec<String> =
        pairs.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
    pairs.join("&")
}

/// STS and the other services allow 15 minutes either way, whatever `X-Amz-Expires` says.
fn check_date(date: &str, day: &str, now: Timestamp) -> Result<(), Refusal> {
    let signed =
        parse_date(date).ok_or_else(|| mismatch("Date must be in ISO-8601 'basic format'"))?;
    if !date.starts_with(day) {
        return Err(mismatch(
            "Date in Credential scope does not match YYYYMMDD of the request date",
        ));
    }
    let allowed = Span::new().minutes(15);
    if signed + allowed < now {
        return Err(mismatch(&format!(
            "Signature expired: {date} is now earlier than ({now} - 15 min.)"
        )));
    }
    if signed > now + allowed {
        return Err(mismatch(&format!(
            "Signature not yet current: {date} is still later than ({now} + 15 min.)"
        )));
    }
    Ok(())
}

fn mismatch(message: &str) -> Refusal {
    refuse("InvalidSignatureException", message)
}

fn refuse(code: &'static str, message: &str) -> Refusal {
    Refusal { code, message: message.to_owned() }
}

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
