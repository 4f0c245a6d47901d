//! What every page has to say, or must not.

use crate::pages::{README, all_pages, pages};

/// How long README.md may be, in bytes.
const README_LIMIT: usize = 10 * 1024;

#[test]
fn the_readme_stays_short() {
    let size = pages()[README].len();
    assert!(size <= README_LIMIT, "README.md has {size} bytes: give it a line and docs/ a page");
}

/// The pages of `docs` for users are few enough to be read: a subject gets a section before it gets a page.
const MOST_PAGES: usize = 18;
const MOST_WORDS: usize = 22_000;

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
