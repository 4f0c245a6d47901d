//! The programs of the workspace, which `cargo test --workspace` builds beside the tests. Cargo gives the path of a program
//! only to the tests of its own package, and the tests of whole stories run all three.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::ROOT;

/// Whether no test may be skipped, and the binary under test is the release one.
pub fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}

/// Says why a test passes without having tested anything, which no test does in CI.
pub fn skip(why: &str) {
    assert!(!is_ci(), "with CI=true nothing is skipped: {why}");
    // Not eprintln, which the test harness keeps to itself if a test passes.
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// The program of a package.
///
/// # Panics
///
/// If it is not built, or older than its sources, with the command that builds it.
pub fn program(package: &str) -> PathBuf {
    built(package, &["src", &format!("crates/{package}/src")])
}

/// The function's binary under test: in CI the one that is deployed, which is built before the tests run.
///
/// # Panics
///
/// If it is not built.
pub fn function() -> PathBuf {
    let own = program("cloud-map-sync");
    if !is_ci() {
        return own;
    }
    let profiles = own.parent().and_then(Path::parent).expect("target/<profile>/<binary>");
    let release = profiles.join("release").join("cloud-map-sync");
    assert!(
        release.is_file(),
        "with CI=true the release binary is tested and {} is not there: run \
         `cargo build --release` first",
        release.display()
    );
    release
}

/// Builds the function's binary as `sam build` does, unless `CLOUD_MAP_SYNC_BINARY` names one that was built before.
pub fn release_function() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("CLOUD_MAP_SYNC_BINARY") {
        return Ok(path.into());
    }
    let root = Path::new(ROOT);
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--bin", "cloud-map-sync"]).current_dir(root);
    let status = cargo.status().map_err(|error| format!("cargo: {error}"))?;
    if !status.success() {
        return Err("cargo build failed".to_owned());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    Ok(root.join(target).join("release/cloud-map-sync"))
}

/// An example of the function's package.
///
/// # Panics
///
/// As `program` does.
pub fn example(name: &str) -> PathBuf {
    built(&format!("examples/{name}"), &["src", "crates/testbed/src", &format!("examples/{name}")])
}

/// A file of the profile's folder, in which this test is below `deps`.
fn built(file: &str, sources: &[&str]) -> PathBuf {
    let test = std::env::current_exe().expect("this test's path");
    let profile = test.ancestors().nth(2).expect("the profile's folder");
    let built = profile.join(format!("{file}{}", std::env::consts::EXE_SUFFIX));
    let modified = fs::metadata(&built).and_then(|metadata| metadata.modified());
    let folders = sources.iter().map(|folder| Path::new(ROOT).join(folder));
    let mut sources =
        folders.filter(|folder| folder.is_dir()).flat_map(|folder| files_below(&folder));
    let written = |source: PathBuf| fs::metadata(source).and_then(|metadata| metadata.modified());
    let is_fresh = modified.is_ok_and(|modified| {
        sources.all(|source| written(source).expect("the time of a source") <= modified)
    });
    assert!(
        is_fresh,
        "{} is not built, or older than its sources: run `cargo test --workspace --no-run` first",
        built.display()
    );
    built
}

/// The files of a folder and of those below it.
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut folders = vec![folder.to_owned()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder);
        for entry in entries.unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.expect("an entry").path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files
}
