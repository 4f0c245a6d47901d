//! The pages of the repository, and the texts and links in one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use testbed::programs::files_below;

pub const README: &str = "README.md";
/// Folders with pages, beside the root; `docs` is the one for users about the function.
const FOLDERS: [&str; 5] = [".github", "deploy", "docs", "events", "tests"];

/// Every page of the repository, by its path from the root.
pub fn all_pages() -> BTreeMap<String, String> {
    let root = Path::new(testbed::ROOT);
    let entries = std::fs::read_dir(root).expect("a folder");
    let beside = entries.map(|entry| entry.expect("an entry").path());
    let below = FOLDERS.iter().flat_map(|folder| files_below(&root.join(folder)));
    let is_page = |path: &PathBuf| path.extension().is_some_and(|it| it == "md");
    let pages = beside.chain(below).filter(is_page).map(|path| {
        let name = path.strip_prefix(root).expect("a path in the repository");
        let text = std::fs::read_to_string(&path).expect("text");
        (name.to_str().expect("a name").to_owned(), text)
    });
    pages.collect()
}

/// Every page for users about the function: README.md and docs/.
pub fn pages() -> BTreeMap<String, String> {
    let mut pages = all_pages();
    pages.retain(|page, _| page == README || page.starts_with("docs/"));
    assert!(pages.len() > 15, "{:?}", pages.keys());
    pages
}

/// The texts between backticks, without code blocks.
pub fn quoted(text: &str) -> Vec<&str> {
    text.split("```").step_by(2).flat_map(|it| it.split('`').skip(1).step_by(2)).collect()
}

/// The links of a page to files of the repository: the file, if it is another one, and the section.
pub fn links(text: &str) -> Vec<(&str, &str)> {
    let prose = text.split("```").step_by(2);
    let links = prose.flat_map(|it| it.split("](").skip(1)).filter_map(|it| it.split(')').next());
    let links = links.filter(|link| !link.starts_with("http"));
    links.map(|link| link.split_once('#').unwrap_or((link, ""))).collect()
}
