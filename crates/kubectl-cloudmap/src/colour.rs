//! The colours of a table's lines, by the sign at the start of each line, as in Terraform. A line without a sign and
//! without indentation is bold.

const RESET: &str = "\x1b[0m";
const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const MAGENTA: &str = "\x1b[35m";

pub fn colour_lines(table: &str) -> String {
    table.split_inclusive('\n').map(colour_line).collect()
}

fn colour_line(line: &str) -> String {
    let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
    let text = line.trim_start();
    let colour = match text.split_once(' ').map_or(text, |(first, _)| first) {
        "+" => GREEN,
        "~" => YELLOW,
        "-" => RED,
        "!" => MAGENTA,
        "=" => DIM,
        _ if text.len() == line.len() => BOLD,
        _ => return format!("{line}{end}"),
    };
    let indent = &line[..line.len() - text.len()];
    format!("{indent}{colour}{text}{RESET}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_the_colour_of_its_sign() {
        let table = "cluster blue\n  shop.local/web\n    + register a\n    ~ rewrite b\n    \
                     - deregister c\n    ! held back d\n    = 1 unchanged\n";
        let shown = colour_lines(table).replace('\x1b', "^");
        assert_eq!(
            shown,
            "^[1mcluster blue^[0m\n  shop.local/web\n    ^[32m+ register a^[0m\n    \
             ^[33m~ rewrite b^[0m\n    ^[31m- deregister c^[0m\n    ^[35m! held back d^[0m\n    \
             ^[2m= 1 unchanged^[0m\n"
        );
    }
}
