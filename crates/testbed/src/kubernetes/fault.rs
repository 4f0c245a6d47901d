//! Injected faults of a cluster's API. A fault applies to the next requests with its path prefix, for a given number of
//! requests.

use std::time::Duration;

use axum::http::Method;

/// A fault with its reach.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The only method that is hit, if there is one.
    pub method: Option<Method>,
    /// Paths that begin so are hit.
    pub path_prefix: String,
    /// How many requests that it could hit pass first.
    pub after: usize,
    /// How many requests are left to hit.
    pub times: usize,
    /// What happens to them.
    pub kind: FaultKind,
}

/// What happens to a request.
#[derive(Clone, Debug)]
pub enum FaultKind {
    /// A `Status` of that code (401, 403, 429 with Retry-After, 500, 503, 504).
    Status(u16),
    /// The refusal of an admission policy or webhook, with that code and these words.
    Denied(u16, &'static str),
    /// 429 with that many seconds in Retry-After.
    RetryAfter(u32),
    /// The connection is closed when half of the body is out.
    TruncatedBody,
    /// Pages after the first answer 500.
    SecondPageFails,
    /// Continue tokens answer 410 Gone.
    Expired410OnContinue,
    /// The request is looked at that much later.
    Slow(Duration),
    /// It is done, and the answer comes that much later.
    Late(Duration),
    /// The body comes byte by byte, with this pause before each.
    Dribble(Duration),
    /// It is done, and the answer is a 500.
    FailAfterEffect,
    /// An HTML page with status 200, as a proxy in between would send.
    NotJson,
    /// This JSON with status 200.
    Json(&'static str),
}

impl Fault {
    /// Hits the next request below the path.
    pub fn once(path_prefix: &str, kind: FaultKind) -> Self {
        Self { method: None, path_prefix: path_prefix.to_owned(), after: 0, times: 1, kind }
    }

    /// Hits every request below the path until the faults are cleared.
    pub fn always(path_prefix: &str, kind: FaultKind) -> Self {
        Self { times: usize::MAX, ..Self::once(path_prefix, kind) }
    }

    /// Lets so many requests pass first that it could hit.
    #[must_use]
    pub fn after(self, requests: usize) -> Self {
        Self { after: requests, ..self }
    }

    /// Hits only requests with this method.
    #[must_use]
    pub fn of_method(self, method: &str) -> Self {
        Self { method: Some(method.parse().expect("a method")), ..self }
    }

    fn hits(&self, method: &Method, path: &str, continued: bool) -> bool {
        let later_page =
            matches!(self.kind, FaultKind::SecondPageFails | FaultKind::Expired410OnContinue);
        self.times > 0
            && self.method.as_ref().is_none_or(|wanted| wanted == method)
            && path.starts_with(&self.path_prefix)
            && (!later_page || continued && method == Method::GET)
    }
}

/// The first fault that hits the request; it wears out by one.
pub fn take(
    faults: &mut [Fault],
    method: &Method,
    path: &str,
    continued: bool,
) -> Option<FaultKind> {
    let hit = |fault: &&mut Fault| fault.hits(method, path, continued);
    let fault = faults.iter_mut().find(hit)?;
    if fault.after > 0 {
        fault.after -= 1;
        return None;
    }
    if fault.times != usize::MAX {
        fault.times -= 1;
    }
    Some(fault.kind.clone())
}
