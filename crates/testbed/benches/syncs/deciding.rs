//! How long deciding alone takes: what `cargo bench -p testbed --bench planning` left, where it measured this build.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;

/// What Criterion measured.
pub struct Deciding(Vec<Size>);

/// One size of world.
struct Size {
    name: String,
    /// In milliseconds, the medians.
    nothing_registered: f64,
    in_step: f64,
}

impl Deciding {
    /// `None` where it was not measured since this build.
    pub fn measured() -> Option<Self> {
        let built = std::env::current_exe().ok()?;
        let since = std::fs::metadata(&built).ok()?.modified().ok()?;
        // target/release/deps/syncs-<hash>
        let criterion = built.ancestors().nth(3)?.join("criterion/plan");
        let sizes = ["1000 x 20", "10000 x 50"].map(|name| Size::measured(&criterion, name, since));
        Some(Self(sizes.into_iter().collect::<Option<_>>()?))
    }
}

impl Size {
    fn measured(criterion: &Path, name: &str, since: SystemTime) -> Option<Self> {
        let estimates = |world: &str| criterion.join(world).join(name).join("new/estimates.json");
        let nothing_registered = median(&estimates("nothing registered"), since)?;
        let in_step = median(&estimates("in step"), since)?;
        Some(Self { name: name.to_owned(), nothing_registered, in_step })
    }
}

/// In milliseconds.
fn median(estimates: &PathBuf, since: SystemTime) -> Option<f64> {
    let written = std::fs::metadata(estimates).ok()?.modified().ok()?;
    let text = std::fs::read_to_string(estimates).ok().filter(|_| written >= since)?;
    let estimates: Value = serde_json::from_str(&text).ok()?;
    Some(estimates["median"]["point_estimate"].as_f64()? / 1e6)
}

impl fmt::Display for Deciding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| Services x pods | nothing registered | in step |\n|---|---|---|")?;
        for Size { name, nothing_registered, in_step } in &self.0 {
            writeln!(f, "| {name} | {nothing_registered:.1} ms | {in_step:.1} ms |")?;
        }
        Ok(())
    }
}
