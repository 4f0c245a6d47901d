//! The pictures of docs/sizing.md: time of a round, calls and cost of an hour against the number of clusters.

use super::deployment::{Deployment, LONGEST, count};
use super::money::Hour;
use super::picture::{Curve, Picture, Place};
use super::variants::{CLUSTERS, Layout};

/// Paths from the root, and the pictures.
pub fn pictures() -> [(&'static str, String); 3] {
    [
        ("docs/pictures/scale-time.svg", time().to_svg()),
        ("docs/pictures/scale-calls.svg", calls().to_svg()),
        ("docs/pictures/scale-cost.svg", cost().to_svg()),
    ]
}

fn time() -> Picture<'static> {
    Picture {
        title: "Least time of a round of full syncs, 2,000 Services in each cluster",
        unit: "seconds",
        from: 10.0,
        to: 1e4,
        ticks: &[(10.0, "10"), (100.0, "100"), (1e3, "1,000"), (1e4, "10,000")],
        limits: &[
            (60.0, "a minute: the shortest schedule", Place::RightBelow),
            (LONGEST, "15 minutes: the longest invocation", Place::LeftAbove),
            (3600.0, "an hour: the longest schedule", Place::LeftAbove),
        ],
        curves: curves(|deployment| Some(deployment.time()?.seconds)),
    }
}

fn calls() -> Picture<'static> {
    Picture {
        title: "Calls of an hour of full syncs, with the shortest schedule that they fit into",
        unit: "calls an hour; a cross: no schedule fits more clusters",
        from: 1e4,
        to: 1e7,
        ticks: &[(1e4, "10,000"), (1e5, "100,000"), (1e6, "1 million"), (1e7, "10 million")],
        limits: &[],
        curves: curves(|deployment| Some(deployment.calls_an_hour(deployment.schedule()?))),
    }
}

fn cost() -> Picture<'static> {
    Picture {
        title: "Cost of an hour of full syncs, with the shortest schedule that they fit into",
        unit: "dollars an hour, without registered instances; a cross: no schedule fits more clusters",
        from: 0.01,
        to: 10.0,
        ticks: &[(0.01, "0.01"), (0.1, "0.1"), (1.0, "1"), (10.0, "10")],
        limits: &[],
        curves: curves(|deployment| Some(Hour::of(deployment)?.sum())),
    }
}

/// A curve for each layout, as far as there are values.
fn curves(value: impl Fn(&Deployment) -> Option<f64>) -> Vec<Curve> {
    let curve = |layout: Layout| {
        let points = (1..=CLUSTERS).map_while(|clusters| {
            let value = value(&layout.with(clusters))?;
            Some((count(clusters), value.max(f64::MIN_POSITIVE)))
        });
        let points: Vec<(f64, f64)> = points.collect();
        let is_ended = points.len() < CLUSTERS;
        Curve { name: layout.name(), points, is_ended }
    };
    Layout::ALL.map(curve).into()
}
