//! `cargo run --example scale` writes the tables and pictures of docs/sizing.md. `crates/testbed/tests/readme` compares them.

#[path = "../tests/scale/mod.rs"]
#[allow(dead_code, reason = "shared with the scenarios, which use other parts")]
mod scale;

use std::path::Path;

fn main() -> std::io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (path, text) in scale::files(root)? {
        std::fs::write(root.join(path), text)?;
        println!("{path}");
    }
    Ok(())
}
