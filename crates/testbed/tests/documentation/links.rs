//! Every link between pages leads somewhere, and README.md leads to every page. Links to other sites are not checked: the
//! tests have no network.
//!
//! What every page has to say, or must not.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::pages::{README, all_pages, links, pages};
use testbed::programs::files_below;

#[test]
fn the_readme_leads_to_every_page() {
    let pages = pages();
    let linked: BTreeSet<&str> = links(&pages[README]).into_iter().map(|(file, _)| file).collect();
    for page in pages.keys().filter(|page| *page != README) {
        assert!(linked.contains(page.as_str()), "no link to {page}");
    }
}

#[test]
fn every_link_leads_to_a_file_and_a_section() {
    let root = Path::new(testbed::ROOT);
    let pages = all_pages();
    let mut found = 0;
    for (page, text) in &pages {
        for (file, section) in links(text) {
            let path = if file.is_empty() { page.into() } else { beside(page, file) };
            assert!(root.join(&path).exists(), "{page}: {file}");
            if !section.is_empty() {
                let target = path.to_str().and_then(|path| pages.get(path));
                let target = target.unwrap_or_else(|| panic!("{page}: {file} has no sections"));
                assert!(anchors(target).contains(section), "{page}: {file}#{section}");
            }
            found += 1;
        }
    }
    assert!(found > 100, "{found}");
}

/// A message that names a page helps only while the page is there.
#[test]
fn every_page_that_code_and_manifests_name_exists() {
    let mut files = texts(&["src", "crates", "deploy", "examples"]);
    files.extend(["template.yaml", "samconfig.example.toml"].map(text));
    let mut found = 0;
    for (path, text) in files {
        for rest in text.split("docs/").skip(1) {
            let of_name = |c: char| c.is_ascii_lowercase() || matches!(c, '-' | '/' | '.');
            let name = rest.split(|c: char| !of_name(c)).next().unwrap_or_default();
            if let Some((page, _)) = name.split_once(".md") {
                let page = format!("docs/{page}.md");
                assert!(
                    Path::new(testbed::ROOT).join(&page).exists(),
                    "{}: {page}",
                    path.display()
                );
                found += 1;
            }
        }
    }
    assert!(found > 20, "{found}");
}

/// A file by its path from the root.
fn text(file: &str) -> (PathBuf, String) {
    let path = Path::new(testbed::ROOT).join(file);
    let text = std::fs::read_to_string(&path).expect("text");
    (path, text)
}

/// The files below these folders that are text.
fn texts(folders: &[&str]) -> Vec<(PathBuf, String)> {
    let files = folders.iter().flat_map(|it| files_below(&Path::new(testbed::ROOT).join(it)));
    files.filter_map(|path| std::fs::read_to_string(&path).ok().map(|text| (path, text))).collect()
}

/// The path that a link of a page means.
fn beside(page: &str, file: &str) -> PathBuf {
    let mut path = PathBuf::from(page);
    path.pop();
    for component in Path::new(file).components() {
        match component {
            Component::ParentDir => _ = path.pop(),
            component => path.push(component),
        }
    }
    path
}

/// The sections of a page as Markdown links to them.
fn anchors(page: &str) -> BTreeSet<String> {
    let prose = page.split("```").step_by(2).flat_map(str::lines);
    let headings = prose.filter(|line| line.starts_with('#'));
    let headings = headings.map(|line| line.trim_start_matches('#').trim().to_lowercase());
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    headings.map(|text| text.chars().filter(kept).collect::<String>().replace(' ', "-")).collect()
}

/// How long README.md may be, in bytes.
const README_LIMIT: usize = 10 * 1024;

#[test]
fn the_readme_stays_short() {
    let size = pages()[README].len();
    assert!(size <= README_LIMIT, "README.md has {size} bytes: give it a line and docs/ a page");
}

/// The pages of `docs` for users are few enough to be read: a subject gets a section before it gets a page.
const MOST_PAGES: usize = 18;
const MOST_WORDS: usize = 17_000;

#[test]
fn the_pages_can_be_read_in_an_afternoon() {
    let mut pages = pages();
    pages.remove(README);
    assert!(pages.len() <= MOST_PAGES, "{} pages", pages.len());
    // The bars of tables are no words.
    let is_word = |it: &&str| it.contains(char::is_alphanumeric);
    let words: usize =
        pages.values().map(|text| text.split_whitespace().filter(is_word).count()).sum();
    assert!(words <= MOST_WORDS, "{words} words");
}

/// After a minute without an answer the AWS CLI gives up and calls again, while the first run goes on.
#[test]
fn every_example_of_an_invocation_waits_for_its_answer() {
    let mut found = 0;
    for (page, text) in all_pages() {
        for command in text.split("aws lambda invoke --").skip(1) {
            let command = command.split("```").next().unwrap_or_default();
            assert!(command.contains("--cli-read-timeout 0"), "{page}: {command}");
            found += 1;
        }
    }
    assert!(found > 3, "{found}");
}

#[test]
fn no_page_has_a_deployment_that_the_next_one_undoes() {
    for (page, text) in pages() {
        assert!(!text.contains("sam deploy --parameter-overrides"), "{page}");
    }
}

#[test]
fn pages_about_operation_lead_to_the_upgrade() {
    for operation in [README, "docs/deploying.md", "docs/runbook.md"] {
        assert!(pages()[operation].contains("upgrading.md#upgrade)"), "{operation}");
    }
}

#[test]
fn every_page_gives_a_second_installation_an_owner_id_of_its_own() {
    let mut found = 0;
    for (page, text) in pages() {
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let of_several = ["one function in each", "installation for each", "wo installations"];
            if of_several.iter().any(|words| line.contains(words)) {
                assert!(line.contains("`OWNER_ID`"), "{page}: {line}");
                assert!(!line.contains("not needed"), "{page}: {line}");
                found += 1;
            }
        }
    }
    assert!(found > 2, "{found}");
}
