//! The programs of the workspace, which `cargo test --workspace` builds beside the tests. Cargo gives the path of a program
//! only to the tests of its own package, and the tests of whole stories run all three.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::ROOT;

/// The program of a package.
///
/// # Panics
///
/// If it is not built, or older than its sources, with the command that builds it.
pub fn program(package: &str) -> PathBuf {
    built(package, &["src", &format!("crates/{package}/src")])
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
    let modified = fs::metadata(&built).and_then(|it| it.modified());
    let is_fresh = modified.is_ok_and(|modified| {
        sources.iter().all(|folder| newest(&Path::new(ROOT).join(folder)) <= modified)
    });
    assert!(
        is_fresh,
        "{} is not built, or older than its sources: run `cargo test --workspace --no-run` first",
        built.display()
    );
    built
}

/// When the newest file below a folder was written.
fn newest(folder: &Path) -> SystemTime {
    let Ok(entries) = fs::read_dir(folder) else { return SystemTime::UNIX_EPOCH };
    let times = entries.map(|entry| {
        let entry = entry.expect("a source");
        let metadata = entry.metadata().expect("a source");
        if metadata.is_dir() {
            newest(&entry.path())
        } else {
            metadata.modified().expect("the time of a source")
        }
    });
    times.max().unwrap_or(SystemTime::UNIX_EPOCH)
}
