//! The watches against an API server that refuses requests for a while, with time that does not pass by itself.

use axum::body::Body as Answer;
use futures_util::stream;
use http::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::watch::{Receiver, Sender, channel};
use tokio::time::sleep;

use super::*;

/// The requests that the server refuses, by a part of their URL, and its status. All watches end when it changes.
type Refused = Option<(&'static str, u16)>;

/// A forwarder whose queue accepts messages.
struct Scene {
    health: PodHealth,
    refused: Sender<Refused>,
}

impl Scene {
    fn begin() -> Self {
        let (refused, is_refused) = channel(None);
        let server = service_fn(move |request: Request<Body>| {
            let answer = answer(&request, is_refused.clone());
            async { Ok::<_, kube::Error>(answer) }
        });
        let client = Client::new(server, "default");
        let health = PodHealth::default();
        health.delivered(&[Duration::ZERO], 0, None);
        let of_watches = health.clone();
        tokio::spawn(async move {
            follow(client, &settings(), &of_watches, |_| ()).await;
        });
        Self { health, refused }
    }

    async fn readiness_after(&self, seconds: u64) -> (u16, String) {
        sleep(Duration::from_secs(seconds)).await;
        let (status, text) = self.health.answer();
        (status.as_u16(), text)
    }
}

fn settings() -> ForwarderSettings {
    let read = ForwarderSettings::read(|name| {
        let value = match name {
            "QUEUE_URL" => "https://sqs.eu-central-1.amazonaws.com/111122223333/cloud-map-sync",
            "CLUSTER" => "blue",
            "MULTI_CLUSTER" => "on",
            _ => return None,
        };
        Some(value.to_owned())
    });
    read.expect("valid")
}

/// Lists are empty. The server has no ServiceExports.
fn answer(request: &Request<Body>, mut refused: Receiver<Refused>) -> Response<Answer> {
    let url = request.uri().to_string();
    let status = |code: u16, body: Value| {
        let response = Response::builder().status(StatusCode::from_u16(code).expect("a status"));
        response.body(Answer::from(body.to_string())).expect("a response")
    };
    let failure = |code| {
        let message = format!("refused with {code}");
        status(
            code,
            json!({"kind": "Status", "status": "Failure", "message": message, "code": code}),
        )
    };
    let now = *refused.borrow_and_update();
    match now {
        Some((part, code)) if url.contains(part) => failure(code),
        _ if url.contains("serviceexports") => failure(404),
        _ if url.contains("watch=true") => {
            let ended = stream::once(async move {
                let _ = refused.changed().await;
                Ok::<_, std::io::Error>("")
            });
            Response::new(Answer::from_stream(ended))
        }
        _ => status(
            200,
            json!({
                "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                "metadata": {"resourceVersion": "7"}, "items": [],
            }),
        ),
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_not_ready_a_minute_after_everything_is_refused_until_it_is_accepted() {
    let scene = Scene::begin();
    let ready = (200, "ready\n".to_owned());
    assert_eq!(scene.readiness_after(300).await, ready);
    scene.refused.send_replace(Some(("/apis", 403)));
    assert_eq!(scene.readiness_after(59).await, ready, "it may be an API server that restarts");
    let (status, why) = scene.readiness_after(2).await;
    assert_eq!(status, 503);
    assert_eq!(why.matches("the watch of EndpointSlices ").count(), 3, "{why}");
    assert_eq!(why.matches(" has failed for 61 s: ").count(), 3, "{why}");
    assert_eq!(why.matches("(is the ClusterRole cloud-map-forwarder bound").count(), 3, "{why}");
    scene.refused.send_replace(None);
    assert_eq!(scene.readiness_after(6).await, ready, "each pause is at most 5 s");
}

#[tokio::test(start_paused = true)]
async fn a_list_without_its_watch_does_not_make_a_pod_ready() {
    let scene = Scene::begin();
    scene.refused.send_replace(Some(("services?&watch=true", 403)));
    let (status, why) = scene.readiness_after(61).await;
    assert_eq!(status, 503);
    assert!(why.starts_with("the watch of Services has failed for 6"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn interruptions_of_less_than_a_minute_do_not_add_up() {
    let scene = Scene::begin();
    for _ in 0..5 {
        scene.refused.send_replace(Some(("watch=true", 503)));
        assert_eq!(scene.readiness_after(50).await.0, 200);
        scene.refused.send_replace(None);
        assert_eq!(scene.readiness_after(6).await.0, 200);
    }
}

#[tokio::test(start_paused = true)]
async fn pauses_double_up_to_the_maximum_until_a_quiet_time() {
    let mut backoff = WatchBackoff::default();
    let mut pauses = Vec::new();
    for _ in 0..7 {
        let pause = backoff.next().expect("it never gives up");
        pauses.push(pause.as_millis());
        backoff.reset();
        tokio::time::advance(pause + Duration::from_secs(5)).await;
    }
    assert_eq!(pauses, [250, 500, 1000, 2000, 4000, 5000, 5000]);
    tokio::time::advance(WatchBackoff::QUIET).await;
    assert_eq!(backoff.next(), Some(WatchBackoff::FIRST));
}
