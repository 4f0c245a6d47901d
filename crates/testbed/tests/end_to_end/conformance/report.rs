//! The suite's own report, as the table of `docs/multi-cluster-reference.md`.

use std::fmt;
use std::fs;
use std::path::Path;

use serde::Deserialize;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/multi-cluster-reference.md");
const BEGIN: &str = "<!-- conformance -->\n";
const END: &str = "<!-- end -->";

/// What is of interest of `report.yaml`.
#[derive(Debug, Deserialize)]
pub(super) struct Report {
    groups: Vec<Group>,
    passed: usize,
    total: usize,
    #[serde(skip)]
    is_whole: bool,
}

#[derive(Debug, Deserialize)]
struct Group {
    name: String,
    tests: Vec<Spec>,
}

#[derive(Debug, Deserialize)]
struct Spec {
    desc: String,
    passed: bool,
    skipped: bool,
    conformant: bool,
}

impl Report {
    /// Reads it where the suite has left it; whole, if no filter kept specs out.
    pub(super) fn read(folder: &Path, is_whole: bool) -> Self {
        let text =
            fs::read_to_string(folder.join("report.yaml")).expect("the suite has left a report");
        let report = serde_saphyr::from_str(&text).expect("a report of the suite's form");
        Self { is_whole, ..report }
    }

    /// Every spec has passed that was not kept out; the page shows the whole report.
    pub(super) fn assert_that_all_passed(&self) {
        let specs = || self.groups.iter().flat_map(|group| &group.tests);
        let skipped = if self.is_whole { 0 } else { specs().filter(|it| it.skipped).count() };
        assert_eq!(self.passed + skipped, self.total, "the suite is not content");
        assert!(self.passed > 0, "no spec has run");
        if self.is_whole {
            self.check_page();
        }
    }

    fn check_page(&self) {
        let page = fs::read_to_string(PAGE).expect("the page");
        let start = page.find(BEGIN).expect("the beginning of the report") + BEGIN.len();
        let end = start + page[start..].find(END).expect("the end of the report");
        let report = self.to_string();
        if std::env::var_os("UPDATE_README").is_some() {
            let updated = format!("{}{report}{}", &page[..start], &page[end..]);
            fs::write(PAGE, updated).expect("the page can be written");
        } else {
            assert_eq!(
                &page[start..end],
                report,
                "{PAGE} has another report; UPDATE_README=1 writes it"
            );
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{} of {} specs passed.\n", self.passed, self.total)?;
        writeln!(out, "| | Passed | By DNS and kube-proxy's code |\n|---|---|---|")?;
        for Group { name, tests } in &self.groups {
            let passed = || tests.iter().filter(|spec| spec.passed && spec.conformant);
            let without_packets = passed().filter(|spec| spec.is_of_connections()).count();
            writeln!(
                out,
                "| {name} | {} of {} | {without_packets} |",
                passed().count(),
                tests.len()
            )?;
        }
        Ok(())
    }
}

impl Spec {
    /// Whether it connects. Pods do not run, so that kube-proxy's code decides where a connection would go.
    fn is_of_connections(&self) -> bool {
        self.desc.starts_with("Connectivity")
    }
}
