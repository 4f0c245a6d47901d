//! Whole syncs, `cargo bench --bench syncs`: the release binary of the function as a process of its own, started as
//! Lambda starts it, against the sandbox's servers in this one, where every call to Cloud Map takes 20 ms. It writes
//! BENCHMARKS.md. `cargo bench --bench syncs -- <part of a world's name>` runs those worlds and prints their tables;
//! one takes seven minutes, and only runs where it is asked for so.

#![allow(missing_docs, reason = "a program")]

#[path = "../../tests/end_to_end/runtime_api.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the tests, which use other parts")]
mod runtime_api;
#[path = "../../tests/sandbox/mod.rs"]
#[allow(dead_code, unused_imports, unreachable_pub, reason = "as above")]
mod sandbox;

mod function;
mod report;
mod start;
mod world;

use std::process::ExitCode;

use function::Binary;
use report::Report;
use start::Start;
use world::WORLDS;

#[tokio::main]
async fn main() -> ExitCode {
    // Cargo says `--bench` itself.
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let (binary, bare) = match Binary::build().and_then(|it| Ok((it, Binary::bare()?))) {
        Ok(binaries) => binaries,
        Err(problem) => {
            eprintln!("the function cannot be built: {problem}");
            return ExitCode::FAILURE;
        }
    };
    let mut report = Report { tables: Vec::new(), start: Start::measure(&binary, &bare).await };
    for world in WORLDS.iter().filter(|world| world.is_asked_for(filter.as_deref())) {
        eprintln!("{} ...", world.name);
        let table = world.run(&binary).await;
        eprintln!("{table}");
        report.tables.push(table);
        if filter.is_none()
            && let Err(error) = report.write("BENCHMARKS.md", &binary)
        {
            eprintln!("cannot write BENCHMARKS.md: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
