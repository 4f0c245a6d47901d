//! A gate before the stand-ins: it holds the calls of some processes, each known by its access key, and lets them in one
//! by one as a test asks for it. So two invocations can be interleaved call by call. A stand-in without a gate, and a
//! process that it does not hold, wait for nothing.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::http::HeaderMap;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tokio::sync::oneshot;

/// Clones share it.
#[derive(Clone)]
pub struct Gate(Arc<Mutex<Vec<Held>>>);

/// A process and its calls, in the order in which they came.
struct Held {
    access_key: String,
    calls: VecDeque<oneshot::Sender<()>>,
}

impl Gate {
    /// One that holds the processes with these access keys.
    pub fn holding(access_keys: &[&str]) -> Self {
        let held = |key: &&str| Held { access_key: (*key).to_owned(), calls: VecDeque::new() };
        Self(Arc::new(Mutex::new(access_keys.iter().map(held).collect())))
    }

    /// Returns when the call may come in.
    pub async fn pass(&self, access_key: Option<&str>) {
        let entry = {
            let mut processes = self.lock();
            let Some(process) =
                processes.iter_mut().find(|process| Some(&*process.access_key) == access_key)
            else {
                return;
            };
            let (entry, entered) = oneshot::channel();
            process.calls.push_back(entry);
            entered
        };
        // Without its sender the gate is open.
        _ = entry.await;
    }

    /// Lets the oldest call of a process in. Returns whether it had one.
    pub fn admit(&self, process: usize) -> bool {
        while let Some(entry) = self.lock()[process].calls.pop_front() {
            // A caller that has gone is no call.
            if entry.send(()).is_ok() {
                return true;
            }
        }
        false
    }

    /// Holds nothing any more.
    pub fn open(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Held>> {
        self.0.lock().expect("no poisoned lock")
    }
}

/// The access key of a signed request, or of a request with a token of EKS, which is a signed URL.
pub fn access_key(headers: &HeaderMap) -> Option<String> {
    let authorization = headers.get("authorization")?.to_str().ok()?;
    let (credential, end) = match authorization.split_once("k8s-aws-v1.") {
        Some((_, token)) => {
            let url = String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
            (url.split("X-Amz-Credential=").nth(1)?.to_owned(), "%2F")
        }
        None => (authorization.split("Credential=").nth(1)?.to_owned(), "/"),
    };
    credential.split(end).next().map(str::to_owned)
}
