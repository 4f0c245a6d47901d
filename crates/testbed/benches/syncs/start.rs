//! From exec to the first poll for work: of the function, and of one that does nothing, built in the same way.

use crate::function::Binary;
use testbed::Sandbox;

/// How often each is started, in turns.
const STARTS: usize = 40;

/// In milliseconds.
pub struct Start {
    /// The function: the middle, and the least.
    pub function: (f64, f64),
    /// The one that does nothing.
    pub bare: (f64, f64),
}

impl Start {
    /// Starts both, again and again.
    pub async fn measure(function: &Binary, bare: &Binary) -> Self {
        let sandbox = Sandbox::start().await.cluster("blue").await;
        let (mut of_function, mut of_bare) = (Vec::new(), Vec::new());
        for _ in 0..STARTS {
            of_function.push(function.time_to_start(&sandbox).await);
            of_bare.push(bare.time_to_start(&sandbox).await);
        }
        Self { function: middle_and_least(of_function), bare: middle_and_least(of_bare) }
    }
}

fn middle_and_least(mut times: Vec<f64>) -> (f64, f64) {
    times.sort_by(f64::total_cmp);
    (times[times.len() / 2], times[0])
}
