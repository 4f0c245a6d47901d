//! Processor time and memory of a run, from BENCHMARKS.md and docs/sizing.md: each figure was
//! measured there. They grow with the number of instances that a run reads.

const BENCHMARKS: &str = include_str!("../../BENCHMARKS.md");
const COST: &str = include_str!("../../docs/sizing.md");

/// Worlds with the same instances in one registry, of one cluster and of many, and a world with hardly any.
const ONE: &str = "1 cluster of one registry, 1,600 x 10, no quotas";
const EIGHT: &str = "8 clusters of one registry, 1,600 x 10 in all, no quotas";
const MANY: &str = "32 clusters of one registry, 1,600 x 10 in all, no quotas";
const INSTANCES: f64 = 16_000.0;
const RUN: &str = "in step, warm";
const SMALLEST: &str = "1 x 10, operations of two seconds, no quotas";
/// The memory with which Lambda gives one whole processor, in MB (Lambda's guide for developers, "Configure memory").
/// The function uses no more than one.
pub const ONE_PROCESSOR: f64 = 1769.0;
/// The memory sizes to choose from, the smallest one that of the template, the largest one Lambda's limit.
pub const SIZES: [f64; 7] = [256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 10_240.0];
/// The part of the memory that a run may use at its peak.
const USED: f64 = 0.8;
/// The figures of a cell.
const PROCESSOR: usize = 1;
const MEMORY: usize = 2;

/// The clusters that are synced at once in the measured worlds, and in all of the largest one.
const AT_ONCE: f64 = 8.0;
const CLUSTERS: f64 = 32.0;

/// The work of one invocation, in instances: each is read, and each cluster plans with a copy of all of its registry.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub clusters: f64,
    pub instances: f64,
    /// Of all copies.
    pub copied: f64,
    /// Of the copies at once.
    pub copied_at_once: f64,
}

impl Load {
    /// The seconds of a whole processor.
    fn processor(&self) -> f64 {
        let [one, many] = [ONE, MANY].map(|world| cell(world, RUN, PROCESSOR) / INSTANCES);
        let copy = (many - one) / (CLUSTERS - 1.0);
        self.instances * (one - copy) + self.copied * copy
    }

    /// The seconds in which the processor of that memory is used.
    pub fn processing(&self, memory: f64) -> f64 {
        self.processor() / (memory / ONE_PROCESSOR).min(1.0)
    }

    /// The peak of the memory, in MB: of the process, each cluster, each instance and its copies.
    fn peak(&self) -> f64 {
        let [least, one, eight, many] =
            [SMALLEST, ONE, EIGHT, MANY].map(|world| cell(world, RUN, MEMORY));
        let cluster = (many - eight) / (CLUSTERS - AT_ONCE);
        let copy = ((eight - one) / (AT_ONCE - 1.0) - cluster) / INSTANCES;
        let instance = (one - least) / INSTANCES - copy;
        least
            + cluster * (self.clusters - 1.0)
            + self.instances * instance
            + self.copied_at_once * copy
    }

    /// Whether a memory size is enough.
    pub fn fits(&self, memory: f64) -> bool {
        self.peak() <= memory * USED
    }
}

/// The kB in the log of a full sync in step of one cluster.
pub fn log() -> f64 {
    let row = COST.lines().find(|line| line.starts_with("| a full sync in step |"));
    number(row.expect("the row").split('|').nth(2).expect("its cell"))
}

/// A figure of a run in a world.
fn cell(world: &str, run: &str, figure: usize) -> f64 {
    let mut rows =
        BENCHMARKS.lines().skip_while(|line| !line.starts_with("| world | first sync |"));
    let runs = rows.next().expect("the table").split('|');
    let column = runs.into_iter().position(|it| it.trim() == run).expect("a measured run");
    let mut rows = rows.take_while(|line| line.starts_with('|'));
    let row =
        rows.find(|line| line.starts_with(&format!("| {world} |"))).expect("a measured world");
    let cell = row.split('|').nth(column).expect("its cell");
    number(cell.split(';').nth(figure).expect("its figure"))
}

/// The number at the beginning of a text.
fn number(text: &str) -> f64 {
    let text = text.trim().split(' ').next().expect("a word");
    text.parse().unwrap_or_else(|_| panic!("{text:?} is no number"))
}
