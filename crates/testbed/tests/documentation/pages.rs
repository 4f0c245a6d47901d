//! The pages of the repository, and the texts and links in one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub const README: &str = "README.md";
/// Folders with pages, beside the root; `docs` is the one for users about the function.
const FOLDERS: [&str; 5] = [".github", "deploy", "docs", "events", "tests"];

/// Every page of the repository, by its path from the root.
pub fn all_pages() -> BTreeMap<String, String> {
    let root = Path::new(testbed::ROOT);
    let mut pages = BTreeMap::new();
    let mut folders: Vec<PathBuf> = FOLDERS.iter().map(|folder| root.join(folder)).collect();
    let mut files = entries(root);
    while let Some(folder) = folders.pop() {
        for path in entries(&folder) {
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    for path in files.iter().filter(|path| path.extension().is_some_and(|it| it == "md")) {
        let name = path.strip_prefix(root).expect("a path in the repository");
        let text = std::fs::read_to_string(path).expect("text");
        pages.insert(name.to_str().expect("a name").to_owned(), text);
    }
    pages
}

/// What a folder has.
pub fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    entries.map(|entry| entry.expect("an entry").path()).collect()
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
