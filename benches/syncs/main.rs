//! Whole syncs, `cargo bench --bench syncs`: the release binary of the function as a process of its own, started as
//! Lambda starts it, against the sandbox's servers in this one, where every call to Cloud Map takes 20 ms. It writes
//! BENCHMARKS.md. `cargo bench --bench syncs -- <part of a world's name>` runs those worlds and prints their tables.

#![allow(missing_docs, reason = "a program")]

#[path = "../../tests/end_to_end/runtime_api.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the tests, which use other parts")]
mod runtime_api;
#[path = "../../tests/sandbox/mod.rs"]
#[allow(dead_code, unused_imports, unreachable_pub, reason = "as above")]
mod sandbox;

mod function;
mod report;
mod world;

use std::process::ExitCode;

use function::Binary;
use report::{Report, Table};
use world::WORLDS;

#[tokio::main]
async fn main() -> ExitCode {
    // Cargo says `--bench` itself.
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let binary = match Binary::build() {
        Ok(binary) => binary,
        Err(problem) => {
            eprintln!("the function cannot be built: {problem}");
            return ExitCode::FAILURE;
        }
    };
    let mut tables: Vec<Table> = Vec::new();
    for world in WORLDS {
        if filter.as_ref().is_none_or(|filter| world.name.contains(filter.as_str())) {
            eprintln!("{} ...", world.name);
            let table = world.run(&binary).await;
            eprintln!("{table}");
            tables.push(table);
        }
    }
    if filter.is_some() {
        return ExitCode::SUCCESS;
    }
    let start = binary.time_to_start().await;
    Report { tables, start, binary }.write("BENCHMARKS.md")
}
