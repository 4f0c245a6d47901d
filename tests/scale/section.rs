//! The parts of a page that a command writes, each between its marker and the next `<!-- end -->`.

use std::ops::Range;

/// The place of a section's text in the page; `None` if the page lacks a marker.
pub fn place(page: &str, section: &str) -> Option<Range<usize>> {
    let begin = format!("<!-- {section} -->\n");
    let start = page.find(&begin)? + begin.len();
    Some(start..start + page[start..].find("<!-- end -->")?)
}
