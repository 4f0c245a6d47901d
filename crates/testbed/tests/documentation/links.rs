//! Every link between pages leads somewhere, and README.md leads to every page. Links to other sites are not checked: the
//! tests have no network.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::pages::{README, all_pages, links, pages};

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

/// The path that a link of a page means.
fn beside(page: &str, file: &str) -> PathBuf {
    let mut path = PathBuf::from(page);
    path.pop();
    for component in Path::new(file).components() {
        match component {
            Component::ParentDir => {
                path.pop();
            }
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
