//! Whole syncs, `cargo bench -p testbed --bench syncs`: the release binary of the function as a process of its own, started as
//! Lambda starts it, against the sandbox's servers in this one, where every call to Cloud Map takes 20 ms. It writes
//! BENCHMARKS.md, after each world anew, and target/benchmarks.md with every kind of call. `cargo bench -p testbed
//! --bench syncs -- <part of a world's name>` runs those worlds and prints their tables and aims.
//! `CLOUD_MAP_SYNC_BINARY` names a function that is built; `EXTERNAL_DNS_BINARY` names an ExternalDNS that is measured
//! beside it.

mod aims;
mod clustersets;
mod external_dns;
mod function;
mod growth;
mod overlapping;
mod report;
mod runs;
mod shared_registry;
mod sizes;
mod table;
mod world;

use std::process::ExitCode;

use external_dns::ExternalDns;
use function::{Binary, Start};
use growth::Growth;
use report::Report;
use sizes::Sizes;
use table::Table;
use world::{Beside, GROWING, WORLDS};

#[tokio::main]
async fn main() -> ExitCode {
    // Cargo says `--bench` itself.
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    match measure(filter.as_deref()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(filter: Option<&str>) -> Result<(), String> {
    let external_dns = ExternalDns::from_environment()?;
    let binary = Binary::build()?;
    let start = match filter {
        None => Some(Start::measure(&binary, &Binary::bare()?).await),
        Some(_) => None,
    };
    // A part of a world's name asks for it.
    let is_asked_for = |name: &str| filter.is_none_or(|filter| name.contains(filter));
    let mut report = Report { binary, external_dns, tables: Vec::new(), start };
    for world in WORLDS.iter().chain(GROWING).filter(|world| is_asked_for(world.name)) {
        eprintln!("{} ...", world.name);
        let table = runs::run(world, &report.binary).await;
        add(&mut report, table, filter)?;
        let is_beside =
            world.beside == Beside::Always || filter.is_some() && world.beside == Beside::Asked;
        if let Some(external_dns) = report.external_dns.as_ref().filter(|_| is_beside) {
            let table = external_dns.run(world).await;
            add(&mut report, table, filter)?;
        }
    }
    if is_asked_for(overlapping::THREE_SYNCS) {
        let table = overlapping::three_syncs(&report.binary).await;
        add(&mut report, table, filter)?;
    }
    if is_asked_for(overlapping::BESIDE_A_FIRST_SYNC) {
        let table = overlapping::beside_a_first_sync(&report.binary).await;
        add(&mut report, table, filter)?;
    }
    for world in shared_registry::WORLDS.iter().filter(|world| is_asked_for(world.name)) {
        eprintln!("{} ...", world.name);
        let table = world.run(&report.binary).await;
        add(&mut report, table, filter)?;
    }
    let clustersets = clustersets::WORLDS.iter().chain(clustersets::GROWING);
    for world in clustersets.filter(|world| is_asked_for(world.name)) {
        eprintln!("{} ...", world.name);
        let table = world.run(&report.binary).await;
        add(&mut report, table, filter)?;
    }
    if filter.is_some() {
        println!("{}", Sizes::of(&report));
        if let Some(growth) = Growth::of(&report) {
            println!("{growth}");
        }
        println!("{}", report.aims());
    }
    Ok(())
}

/// Adds a table and writes the file, or prints the table if worlds were asked for.
fn add(report: &mut Report, table: Table, filter: Option<&str>) -> Result<(), String> {
    if filter.is_some() {
        println!("{table}");
    }
    report.tables.push(table);
    if filter.is_some() {
        return Ok(());
    }
    report.write().map_err(|error| format!("cannot write BENCHMARKS.md: {error}"))
}
