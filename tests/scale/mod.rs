//! Fleets of up to a thousand clusters by simulation: `calls` (the formulas that a scenario holds), `deployment` (the
//! least time of a round), `measured` (processor and memory), `money`, and `variants` with the number of clusters that
//! each ends at. `turns` has the runs of a Cloud Map that is too large for the time of one. `page` and `curves` make the
//! tables and pictures of docs/sizing.md of them.

pub mod calls;
mod curves;
pub mod deployment;
mod measured;
mod money;
pub mod page;
mod picture;
pub mod section;
pub mod turns;
mod variants;

use std::path::Path;

const PAGE: &str = "docs/sizing.md";

/// The page and its pictures as the figures have them, by their paths.
pub fn files(root: &Path) -> std::io::Result<Vec<(&'static str, String)>> {
    let mut text = std::fs::read_to_string(root.join(PAGE))?;
    for (name, table) in page::sections() {
        let place = section::place(&text, name).ok_or(std::io::ErrorKind::InvalidData)?;
        text.replace_range(place, &table);
    }
    let mut files = vec![(PAGE, text)];
    files.extend(curves::pictures());
    Ok(files)
}
