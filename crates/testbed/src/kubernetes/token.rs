//! Checks a bearer token like aws-iam-authenticator's verifier (pkg/token/token.go), in the same order. Instead of
//! calling STS it recomputes the signature of the URL in the token.

use axum::extract::Query;
use axum::http::{HeaderMap, Uri};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use k8s_openapi::jiff::{Span, Timestamp};

use super::super::identity::{Identities, Principal};
use super::super::sigv4::{SignedRequest, parse_date};

const PREFIX: &str = "k8s-aws-v1.";
const CLUSTER_HEADER: &str = "x-k8s-aws-id";
const ALLOWED: [&str; 9] = [
    "action",
    "version",
    "x-amz-algorithm",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-expires",
    "x-amz-security-token",
    "x-amz-signature",
    "x-amz-signedheaders",
];

/// Who a token names, or why it is refused, in the verifier's words.
pub fn verify(
    token: &str,
    cluster: &str,
    region: &str,
    identities: &Identities,
    now: Timestamp,
) -> Result<Principal, String> {
    let url = decode(token)?;
    let uri: Uri = url.parse().map_err(|error| format!("{error}"))?;
    check_place(&uri, region)?;
    let query = Query::<Vec<(String, String)>>::try_from_uri(&uri)
        .map_err(|_| "malformed query parameter".to_owned())?
        .0;
    check_query(&query, now)?;
    let host = uri.authority().map(ToString::to_string).unwrap_or_default();
    let mut headers = HeaderMap::new();
    for (name, value) in [("host", host.as_str()), (CLUSTER_HEADER, cluster)] {
        headers.insert(name, value.parse().map_err(|error| format!("{error}"))?);
    }
    let request =
        SignedRequest { method: "GET", path: "/", query: &query, headers: &headers, body: b"" };
    let caller = request
        .verify_presigned(identities, now)
        .map_err(|refusal| format!("error from AWS: {}: {}", refusal.code, refusal.message))?;
    if caller.service != "sts" || caller.region != region {
        return Err(format!("signed for {} in {}", caller.service, caller.region));
    }
    Ok(caller.principal)
}

fn decode(token: &str) -> Result<String, String> {
    if token.len() > 4096 {
        return Err("token is too large".to_owned());
    }
    let body = token
        .strip_prefix(PREFIX)
        .ok_or_else(|| format!("token is missing expected {PREFIX:?} prefix"))?;
    let bytes = URL_SAFE_NO_PAD.decode(body).map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

/// The verifier takes any STS host of the partition. Here it must be one of the cluster's own
/// Region, which is what the function promises to sign for.
fn check_place(uri: &Uri, region: &str) -> Result<(), String> {
    if uri.scheme_str() != Some("https") {
        return Err(format!("unexpected scheme {:?} in pre-signed URL", uri.scheme_str()));
    }
    let host = uri.authority().map_or("", |authority| authority.as_str());
    if !sts_hosts(region).iter().any(|known| known == host) {
        return Err(format!("unexpected hostname {host:?} in pre-signed URL"));
    }
    if uri.path() != "/" {
        return Err("unexpected path in pre-signed URL".to_owned());
    }
    Ok(())
}

/// STS hosts of a Region: standard, FIPS where there is one, dual stack.
fn sts_hosts(region: &str) -> Vec<String> {
    let (suffix, dual_stack) = match region.split('-').next() {
        Some("cn") => ("amazonaws.com.cn", "api.amazonwebservices.com.cn"),
        Some("eusc") => ("amazonaws.eu", "api.amazonwebservices.eu"),
        _ => ("amazonaws.com", "api.aws"),
    };
    let mut hosts = vec![format!("sts.{region}.{suffix}"), format!("sts.{region}.{dual_stack}")];
    if region.starts_with("us-") {
        hosts.push(format!("sts-fips.{region}.{suffix}"));
    }
    hosts
}

fn check_query(query: &[(String, String)], now: Timestamp) -> Result<(), String> {
    for (key, _) in query {
        if !ALLOWED.contains(&key.to_lowercase().as_str()) {
            return Err(format!("non-whitelisted query parameter {key:?}"));
        }
        if query.iter().filter(|(other, _)| other == key).count() > 1 {
            return Err("query parameter with multiple values not supported".to_owned());
        }
    }
    let value = |name: &str| {
        let found = query.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map_or("", |(_, value)| value.as_str())
    };
    if value("action") != "GetCallerIdentity" {
        return Err("unexpected action parameter in pre-signed URL".to_owned());
    }
    let mut signed = value("x-amz-signedheaders").split(';');
    if !signed.any(|header| header.eq_ignore_ascii_case(CLUSTER_HEADER)) {
        return Err(format!(
            "client did not sign the {CLUSTER_HEADER} header in the pre-signed URL"
        ));
    }
    if !value("x-amz-expires").parse().is_ok_and(|seconds: i64| (0..=900).contains(&seconds)) {
        return Err("invalid X-Amz-Expires parameter in pre-signed URL".to_owned());
    }
    let date = parse_date(value("x-amz-date")).ok_or("error parsing X-Amz-Date parameter")?;
    if now > date + Span::new().minutes(15) {
        return Err(format!("X-Amz-Date parameter is expired (15 minute expiration) {date}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERY: &str = "Action=GetCallerIdentity&Version=2011-06-15\
                         &X-Amz-SignedHeaders=host%3Bx-k8s-aws-id\
                         &X-Amz-Expires=60&X-Amz-Date=20261121T074200Z";

    fn refusal(url: &str) -> String {
        let token = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(url));
        let now = "2026-11-21T07:56:59Z".parse().unwrap();
        verify(&token, "blue", "eu-central-1", &Identities::default(), now).unwrap_err()
    }

    #[test]
    fn a_token_is_refused_for_anything_that_the_verifier_does_not_know() {
        let host = "https://sts.eu-central-1.amazonaws.com";
        for (url, expected) in [
            (format!("{host}/?{QUERY}&x-id=GetCallerIdentity"), "non-whitelisted"),
            (format!("{host}/?{QUERY}&X-Amz-Date=20261121T074200Z"), "multiple values"),
            (format!("{host}/x?{QUERY}"), "unexpected path"),
            (format!("http://127.0.0.1:4566/?{QUERY}"), "unexpected scheme"),
            (format!("https://sts.amazonaws.com/?{QUERY}"), "unexpected hostname"),
            (format!("{host}/?{}", QUERY.replace("=60", "=901")), "X-Amz-Expires"),
            (format!("{host}/?{}", QUERY.replace("%3Bx-k8s-aws-id", "")), "did not sign"),
            (format!("{host}/?{}", QUERY.replace("T0742", "T0741")), "expired"),
            // What passes all of these fails at the signature.
            (format!("{host}/?{QUERY}"), "error from AWS"),
        ] {
            let refusal = refusal(&url);
            assert!(refusal.contains(expected), "{url}: {refusal}");
        }
    }
}
