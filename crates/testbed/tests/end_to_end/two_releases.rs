//! Two releases of the function at the same names, as during a canary or an upgrade: a full sync of one and a message of
//! the other, or the other way round, interleaved call by call while the world changes. Nothing foreign is touched, no
//! endpoint that stays ready is away for a moment, and a full sync of the newer one leads to the wanted state.
//!
//! `OLD_RELEASE` names the binary of the older release; many orders are played with it. Without it a few are, and the
//! binary under test is both.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::cold_start::stand_in;
use crate::lambda::Lambda;
use crate::world::World;
use testbed::function::event;
use testbed::gate::Gate;
use testbed::kubernetes::{Headless, KubernetesServer, Pod};
use testbed::programs;

/// If no call has come or gone for so long, both processes wait for the gate or have ended.
const QUIET: Duration = Duration::from_millis(25);

/// More than the calls of an invocation.
const ALL: usize = usize::MAX;

/// One process makes so many calls, then the other one so many; then the first goes on to its end.
#[derive(Clone, Copy, Debug)]
struct Order {
    /// Whether the full sync is the older release's, and the message the newer one's.
    old_syncs: bool,
    /// Whether the full sync begins.
    sync_begins: bool,
    first: usize,
    second: usize,
    /// The number of calls before the world changes.
    change_after: usize,
}

#[tokio::test]
async fn two_releases_at_the_same_names_lose_nothing() {
    let old = std::env::var_os("OLD_RELEASE").map(PathBuf::from);
    let (first, second, change_after): (&[usize], &[usize], &[usize]) = match old {
        Some(_) => (&[0, 3, 6, 9, 12], &[2, 6, ALL], &[0, 6]),
        None => (&[6], &[4], &[3]),
    };
    let old = old.unwrap_or_else(programs::function);
    let (mut count, mut broken) = (0, Vec::new());
    for (old_syncs, sync_begins) in [(true, true), (true, false), (false, true), (false, false)] {
        for &first in first {
            for &second in second {
                for &change_after in change_after {
                    let order = Order { old_syncs, sync_begins, first, second, change_after };
                    broken.extend(play(&old, order).await.err());
                    count += 1;
                }
            }
        }
    }
    println!("two releases: {count} orders");
    assert!(broken.is_empty(), "{} of {count} broke:\n{}", broken.len(), broken.join("\n\n"));
}

async fn play(old: &Path, order: Order) -> Result<(), String> {
    let (world, blue) = stand_in().await;
    put(&blue);
    let keys = [(); 2].map(|()| world.sandbox.another_process().access_key().clone());
    let mut lambdas = Vec::new();
    for (binary, key) in [old.to_owned(), programs::function()].into_iter().zip(&keys) {
        lambdas.push(world.lambda_of(&binary, key).await);
    }
    let [old, new] = lambdas.as_mut_slice() else { unreachable!("two releases") };
    // The older one has been there before.
    sync(old).await?;
    world.cloud_map.keep("prod.local", "web", ["10.0.1.1".to_owned()].into());
    let gate = Gate::holding(&[&keys[0].id, &keys[1].id]);
    world.cloud_map.hold_at(&gate);
    blue.hold_at(&gate);
    let causes = [json!({ "action": "sync" }), event("sqs-own-message")];
    let [of_old, of_new] = if order.old_syncs { [0, 1] } else { [1, 0] };
    let runs = async {
        let runs = [(&*old, of_old), (&*new, of_new)];
        let runs = runs.map(|(lambda, cause)| lambda.handler()(causes[cause].clone(), None));
        futures_util::future::join_all(runs).await
    };
    // The first in the gate's order is the older release.
    let begins = usize::from(order.old_syncs != order.sync_begins);
    let mut steps = Vec::new();
    tokio::select! {
        answers = runs => drop(answers),
        () = conduct(&gate, begins, order, &mut steps, || change(&blue)) => {}
    }
    gate.open();
    let in_full = |problem: String| format!("{order:?}: {problem}\n{}", steps.join("\n"));
    let rest = rest(&world, old, new).await;
    let violations = world.cloud_map.take_violations();
    let untouched = if violations.is_empty() { Ok(()) } else { Err(violations.join("\n")) };
    untouched.and(rest).map_err(in_full)
}

/// `shop/web` has two pods, and `shop/cart` one.
fn put(blue: &KubernetesServer) {
    blue.pods("shop", "web", &[Pod::new("web-a", "10.0.1.1"), Pod::new("web-b", "10.0.1.2")]);
    blue.service(Headless::new("shop", "cart").claim("cart", "prod"));
    blue.pods("shop", "cart", &[Pod::new("cart-a", "10.0.1.5")]);
}

/// One pod of each Service is replaced.
fn change(blue: &KubernetesServer) {
    blue.pods("shop", "web", &[Pod::new("web-a", "10.0.1.1"), Pod::new("web-c", "10.0.1.3")]);
    blue.pods("shop", "cart", &[Pod::new("cart-b", "10.0.1.6")]);
}

/// Lets the calls in, in the order. It never returns if it has let all in: the invocations end by themselves.
async fn conduct(
    gate: &Gate,
    begins: usize,
    order: Order,
    steps: &mut Vec<String>,
    change: impl Fn(),
) {
    let other = 1 - begins;
    let mut left = [(begins, order.first), (other, order.second), (begins, ALL), (other, ALL)];
    let mut is_changed = false;
    loop {
        sleep(QUIET).await;
        if !is_changed && steps.len() >= order.change_after {
            is_changed = true;
            change();
            steps.push("the world changes".to_owned());
        }
        let waiting = gate.waiting();
        // One that has ended, or waits for a time of its own, does not keep the other one.
        let turn = left.iter().position(|(process, calls)| *calls > 0 && waiting[*process]);
        let Some(turn) = turn else { continue };
        left[turn].1 -= 1;
        let process = left[turn].0;
        let call = gate.admit(process).unwrap_or_default();
        steps.push(format!("{} {call}", ["old", "new"][process]));
    }
}

/// The newer release leads to the wanted state and then writes nothing; the older one takes nothing away after it.
async fn rest(world: &World, old: &mut Lambda, new: &mut Lambda) -> Result<(), String> {
    sync(new).await?;
    let wanted =
        [("prod.local", "web", vec!["10.0.1.1", "10.0.1.3"]), ("prod", "cart", vec!["10.0.1.6"])];
    let is_wanted = |when: &str| {
        for (namespace, service, addresses) in &wanted {
            let is = world.addresses(namespace, service);
            if is != *addresses {
                return Err(format!("{when}: {service} has {is:?}, not {addresses:?}"));
            }
        }
        Ok(())
    };
    is_wanted("after a full sync of the newer release")?;
    let before = all(world);
    world.cloud_map.forget_calls();
    sync(new).await?;
    if !world.writes().is_empty() || all(world) != before {
        return Err(format!("at rest it writes {:?}", world.writes()));
    }
    sync(old).await?;
    is_wanted("after a full sync of the older release")
}

type Instances = BTreeMap<String, BTreeMap<String, String>>;

fn all(world: &World) -> Vec<Instances> {
    [("prod.local", "web"), ("prod", "cart")].map(|(at, name)| world.instances(at, name)).into()
}

async fn sync(lambda: &mut Lambda) -> Result<(), String> {
    let report: Value =
        lambda.invoke(json!({ "action": "sync" })).await.map_err(|it| format!("{it:?}"))?;
    if report["ok"] == json!(true) { Ok(()) } else { Err(format!("a full sync reports {report}")) }
}
