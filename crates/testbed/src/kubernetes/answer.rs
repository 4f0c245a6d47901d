//! Handles one request: fault, authentication, authorisation, then the resource, in the order of a real API server.
//! Every request is in the request log with its status.
//!
//! What the server answers, in JSON or in plain text, whole or cut.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Query;
use axum::http::{HeaderMap, Method, Request, StatusCode, Uri};
use axum::response::Response;
use futures_util::{StreamExt, stream};
use serde_json::Value;

use super::access::User;
use super::fault::FaultKind;
use super::list::Parameters;
use super::resource::{ENDPOINTS, Resource, Target};
use super::status::Failure;
use super::world::World;
use super::writes::Write;
use super::{RequestLine, access, discovery, fault, list, writes};
use crate::clock;
use crate::gate::access_key;

const DEPRECATION: &str =
    "299 - \"v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice\"";

/// A request, read whole.
struct Call {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
    parameters: Parameters,
}

/// Serves one request.
pub async fn serve(world: Arc<Mutex<World>>, request: Request<Bytes>) -> Response {
    let call = Call::read(request);
    let gate = world.lock().expect("no poisoned lock").gate.clone();
    if let Some(gate) = gate {
        gate.pass(access_key(&call.headers).as_deref()).await;
    }
    let fault = {
        let mut world = world.lock().expect("no poisoned lock");
        let continued = !call.parameters.r#continue.is_empty();
        fault::take(&mut world.faults, &call.method, call.uri.path(), continued)
    };
    if let Some(FaultKind::Slow(delay)) = fault {
        tokio::time::sleep(delay).await;
    }
    let answer = {
        let mut world = world.lock().expect("no poisoned lock");
        let (mut answer, refusal) = answer(&mut world, &call, fault.as_ref());
        if let Some(FaultKind::FailAfterEffect) = fault {
            answer = Failure::of_code(StatusCode::INTERNAL_SERVER_ERROR).into();
        }
        world.requests.push(RequestLine {
            method: call.method.to_string(),
            path: call.uri.path().to_owned(),
            query: call.uri.query().unwrap_or_default().to_owned(),
            status: answer.status.as_u16(),
            refusal,
        });
        answer
    };
    if let Some(FaultKind::Late(delay)) = fault {
        tokio::time::sleep(delay).await;
    }
    answer.into_response(fault.as_ref())
}

/// The answer, and for a refused token why it was refused.
fn answer(world: &mut World, call: &Call, fault: Option<&FaultKind>) -> (Answer, Option<String>) {
    if let Some(answer) = fault.and_then(injected) {
        return (answer, None);
    }
    let user = match world.access.authenticate(&call.headers, &world.identity, clock::now()) {
        Ok(user) => user,
        Err(refusal) => return (Failure::unauthorized().into(), Some(refusal)),
    };
    (answer_to(world, call, &user), None)
}

/// The answer to a user whose token was checked.
fn answer_to(world: &mut World, call: &Call, user: &User) -> Answer {
    if call.method == Method::POST && call.uri.path() == access::PATH {
        let answer = access::answer(user, &call.body);
        return answer.map_or_else(Answer::from, |body| Answer::json(StatusCode::CREATED, &body));
    }
    let answer = match Target::of_path(call.uri.path()) {
        Some(target) => {
            let watch = matches!(call.parameters.watch.as_str(), "true" | "1");
            let verb = target.verb(&call.method, watch);
            user.check_resource(verb, &target)
                .and_then(|()| on_resource(world, call, user, &target, verb))
        }
        None => user
            .check_path(&call.method, call.uri.path())
            .map(|()| elsewhere(world, call.uri.path())),
    };
    answer.unwrap_or_else(Answer::from)
}

/// Status and body of the answer to a user, past the check of tokens.
#[cfg(test)]
pub(super) fn ask(world: &mut World, user: &User, request: Request<Bytes>) -> (u16, Value) {
    let answer = answer_to(world, &Call::read(request), user);
    let body = String::from_utf8(answer.body).expect("text");
    (answer.status.as_u16(), serde_json::from_str(&body).unwrap_or(Value::String(body)))
}

fn injected(fault: &FaultKind) -> Option<Answer> {
    let (content_type, body) = match fault {
        FaultKind::NotJson => ("text/html", "<html><body>Please log in to continue.</body></html>"),
        FaultKind::Json(body) => ("application/json", *body),
        fault => return refused(fault).map(Answer::from),
    };
    Some(Answer { content_type, ..Answer::text(StatusCode::OK, body) })
}

fn refused(fault: &FaultKind) -> Option<Failure> {
    let status = |code: u16| Failure::of_code(StatusCode::from_u16(code).expect("a status code"));
    match fault {
        FaultKind::Status(code) => Some(status(*code)),
        FaultKind::SecondPageFails => Some(status(500)),
        FaultKind::Denied(code, text) => Some(Failure::denied(*code, text)),
        FaultKind::RetryAfter(seconds) => Some(Failure::too_many_requests(*seconds)),
        FaultKind::Expired410OnContinue => Some(Failure::expired()),
        _ => None,
    }
}

fn on_resource(
    world: &mut World,
    call: &Call,
    user: &User,
    target: &Target,
    verb: &str,
) -> Result<Answer, Failure> {
    let served = target.resource().filter(|known| world.serves(known, &target.version));
    let Some(resource) = served else { return Ok(page_not_found()) };
    let mut body = match verb {
        "list" => {
            list::list(&world.store, resource, &target.namespace, &call.parameters, world.minor)?
        }
        "get" => world.present(resource, target)?,
        "watch" => return Err(Failure::method_not_allowed()),
        _ => writes::write(world, &call.method, &call.write(user, resource, target))?,
    };
    if resource.custom && body["kind"] != "Status" {
        body["apiVersion"] = resource.api_version_of(&target.version).into();
    }
    let status = if verb == "create" { StatusCode::CREATED } else { StatusCode::OK };
    let mut answer = Answer::json(status, &body);
    if *resource == ENDPOINTS && world.minor >= 33 {
        answer.headers.push(("warning", DEPRECATION.to_owned()));
    }
    Ok(answer)
}

fn elsewhere(world: &World, path: &str) -> Answer {
    if matches!(path, "/readyz" | "/livez" | "/healthz") {
        return Answer::text(StatusCode::OK, "ok");
    }
    match discovery::document(path, world) {
        Some(document) => Answer::json(StatusCode::OK, &document),
        None => page_not_found(),
    }
}

/// A group that is not installed is answered outside the API machinery, without a Status.
fn page_not_found() -> Answer {
    Answer::text(StatusCode::NOT_FOUND, "404 page not found\n")
}

impl Call {
    fn read(request: Request<Bytes>) -> Self {
        let (parts, body) = request.into_parts();
        let parameters = Query::try_from_uri(&parts.uri).map(|Query(parameters)| parameters);
        Self {
            parameters: parameters.unwrap_or_default(),
            method: parts.method,
            uri: parts.uri,
            headers: parts.headers,
            body,
        }
    }

    fn write<'a>(
        &'a self,
        user: &'a User,
        resource: &'static Resource,
        target: &'a Target,
    ) -> Write<'a> {
        let Self { uri, parameters, headers, body, .. } = self;
        Write { user, resource, target, uri, parameters, headers, body }
    }
}

/// What goes out, before a fault may cut it.
pub struct Answer {
    pub status: StatusCode,
    pub content_type: &'static str,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(status: StatusCode, body: &Value) -> Self {
        let body = serde_json::to_vec(body).expect("JSON of a JSON value");
        Self { status, content_type: "application/json", headers: Vec::new(), body }
    }

    pub fn text(status: StatusCode, body: &str) -> Self {
        let body = body.as_bytes().to_vec();
        Self { status, content_type: "text/plain; charset=utf-8", headers: Vec::new(), body }
    }

    /// The response, cut or slowed down by the fault.
    pub fn into_response(self, fault: Option<&FaultKind>) -> Response {
        let mut builder = Response::builder()
            .status(self.status)
            .header("content-type", self.content_type)
            .header("content-length", self.body.len());
        for (name, value) in self.headers {
            builder = builder.header(name, value);
        }
        let body = match fault {
            Some(FaultKind::TruncatedBody) => half(self.body),
            Some(FaultKind::Dribble(pause)) => dribble(self.body, *pause),
            _ => self.body.into(),
        };
        builder.body(body).expect("valid headers")
    }
}

impl From<Failure> for Answer {
    fn from(failure: Failure) -> Self {
        let mut answer = Self::json(failure.code, &failure.status());
        if let Some(seconds) = failure.retry_after {
            answer.headers.push(("retry-after", seconds.to_string()));
        }
        answer
    }
}

/// One byte after the other, each after a pause.
fn dribble(body: Vec<u8>, pause: Duration) -> Body {
    let bytes = stream::iter(body).then(move |byte| async move {
        tokio::time::sleep(pause).await;
        Ok::<_, std::io::Error>(vec![byte])
    });
    Body::from_stream(bytes)
}

/// The first half of a body, then a closed connection. The pause between lets the half reach the
/// wire.
fn half(mut body: Vec<u8>) -> Body {
    body.truncate(body.len() / 2);
    Body::from_stream(stream::unfold(Some(body), |rest| async move {
        match rest {
            Some(body) if !body.is_empty() => Some((Ok(body), Some(Vec::new()))),
            Some(_) => {
                tokio::task::yield_now().await;
                Some((Err(std::io::Error::other("cut by the sandbox")), None))
            }
            None => None,
        }
    }))
}
