//! The commands of a page as they stand there: blocks for a shell, lines of a session, and commands in the text.

/// Languages of blocks that a reader runs.
const SHELL: [&str; 2] = ["sh", "console"];
/// A session is one in the sandbox, which prints this line for its reader.
pub const OF_THE_SANDBOX: &str = "export CLOUD_MAP_SYNC_FUNCTION='cloud-map-sync'\n";
/// Languages of other blocks.
const OTHER: [&str; 7] = ["hcl", "json", "mermaid", "sql", "text", "toml", "yaml"];

/// Lines for a shell.
#[derive(Debug)]
pub struct Script {
    /// The page and its line.
    pub at: String,
    pub text: String,
    /// A block is to be run as it is. A command in the text may only name the options that it is about.
    pub is_whole: bool,
}

/// The scripts of a page; a block has the variables of those before it. In the text, whatever begins with one of the
/// programs and has a second word.
pub fn scripts(page: &str, text: &str, programs: &[&str]) -> Vec<Script> {
    let mut scripts = Vec::new();
    let mut block: Option<(usize, &str, Vec<&str>)> = None;
    let mut exported = String::new();
    for (index, line) in text.lines().enumerate() {
        let fence = line.trim_start().strip_prefix("```");
        match (fence, &mut block) {
            (Some(language), None) => {
                let is_known = SHELL.contains(&language) || OTHER.contains(&language);
                assert!(is_known, "{page}:{}: is a block of {language:?} for a shell?", index + 1);
                block = Some((index + 2, language, Vec::new()));
            }
            (Some(_), Some(_)) => {
                let (number, language, lines) = block.take().expect("just seen");
                if SHELL.contains(&language) {
                    let text = exported.clone() + &commands_of(language, &lines);
                    scripts.push(Script { at: format!("{page}:{number}"), text, is_whole: true });
                    let exports = lines.iter().filter(|line| line.starts_with("export "));
                    exported.extend(exports.flat_map(|line| [line, "\n"]));
                }
            }
            (None, Some((_, _, lines))) => lines.push(line),
            (None, None) => {
                let spans = line.split('`').skip(1).step_by(2);
                scripts.extend(spans.filter(|span| is_command(span, programs)).map(|span| {
                    Script {
                        at: format!("{page}:{}", index + 1),
                        text: span.to_owned(),
                        is_whole: false,
                    }
                }));
            }
        }
    }
    assert!(block.is_none(), "{page}: a block has no end");
    scripts
}

/// Of a session only the lines after a prompt.
fn commands_of(language: &str, lines: &[&str]) -> String {
    if language != "console" {
        return lines.join("\n");
    }
    let typed = lines.iter().filter_map(|line| line.trim_start().strip_prefix("$ "));
    OF_THE_SANDBOX.to_owned() + &typed.collect::<Vec<_>>().join("\n")
}

fn is_command(span: &str, programs: &[&str]) -> bool {
    let is_variable = |word: &&str| {
        let name = word.split_once('=').map(|(name, _)| name);
        name.is_some_and(|it| it.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_'))
    };
    let mut words = span.split(' ').skip_while(is_variable);
    let program = words.next().unwrap_or_default();
    programs.contains(&program) && (program.contains('/') || words.next().is_some())
}

#[test]
fn blocks_sessions_and_commands_in_the_text_are_found() {
    let page = "Run `A=1 aws s3 ls`, not `aws`.\n\n  ```sh\n  aws \\\n    one\n  ```\n\n```console\n$ aws two\nits output\n```\n";
    let found = scripts("page", page, &["aws"]);
    let found: Vec<_> = found.iter().map(|it| (it.at.as_str(), it.text.as_str())).collect();
    let session = format!("{OF_THE_SANDBOX}aws two");
    let expected =
        [("page:1", "A=1 aws s3 ls"), ("page:4", "  aws \\\n    one"), ("page:9", &session)];
    assert_eq!(found, expected);
    let page = "```sh\nexport A=1\n```\n\n```sh\naws $A\n```\n";
    assert_eq!(scripts("page", page, &["aws"])[1].text, "export A=1\naws $A");
}
