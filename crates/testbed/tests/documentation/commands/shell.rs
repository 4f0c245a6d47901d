//! What a shell makes of a script: the programs that it would start, with their arguments. bash reads the script; in the
//! place of each program is one that only writes down how it was called. A program that is not among them is not found.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::scripts::Script;

const RECORDER: &str = r#"#!/bin/sh
printf '%s\0' $# "${CLOUD_MAP_SYNC_FUNCTION-}" "${0#"$PATH/"}" "$@" >>"$RECORD"
"#;

/// A call of a program.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Command {
    /// The page and its line.
    pub at: String,
    pub program: String,
    pub arguments: Vec<String>,
    /// The function's name, if the reader has set it for the plugin.
    pub function: Option<String>,
    /// See [`Script::is_whole`].
    pub is_whole: bool,
}

impl std::fmt::Display for Command {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {} {}", self.at, self.program, self.arguments.join(" "))
    }
}

/// A shell in a folder of its own.
pub struct Shell(PathBuf);

impl Shell {
    /// With these programs. One with a slash is a script of the repository.
    pub fn new(programs: &[&str]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("commands-{}-{number}", std::process::id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        for program in programs {
            let place = if program.contains('/') { "here" } else { "programs" };
            let path = folder.join(place).join(program);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a new folder");
            std::fs::write(&path, RECORDER).expect("a new file");
            let executable = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(&path, executable).expect("of a new file");
        }
        std::fs::create_dir_all(folder.join("here")).expect("a new folder");
        Self(folder)
    }

    /// The calls of a script, or the words of bash about it.
    pub fn calls(&self, script: &Script) -> Result<Vec<Command>, String> {
        let record = self.0.join("record");
        std::fs::write(&record, "").expect("the own folder");
        let programs = self.0.join("programs");
        let done = std::process::Command::new("bash")
            .arg("-c")
            .arg(format!("PATH={}\nset -eu\n{}", programs.display(), script.text))
            .current_dir(self.0.join("here"))
            .env("RECORD", &record)
            .output()
            .expect("bash");
        if !done.status.success() || !done.stderr.is_empty() {
            return Err(format!("{}: {}", script.at, String::from_utf8_lossy(&done.stderr)));
        }
        let recorded = std::fs::read_to_string(&record).expect("text");
        let mut words = recorded.split('\0').map(str::to_owned);
        let mut calls = Vec::new();
        while let Some(number) = words.next().and_then(|it| it.parse().ok()) {
            calls.push(Command {
                at: script.at.clone(),
                function: words.next().filter(|name| !name.is_empty()),
                program: words.next().expect("a name"),
                arguments: words.by_ref().take(number).collect(),
                is_whole: script.is_whole,
            });
        }
        Ok(calls)
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // What is left there is in no test's way.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn calls_have_the_words_that_bash_makes_of_them() {
    let script = |text: &str| Script { at: "page:1".into(), text: text.into(), is_whole: true };
    let shell = Shell::new(&["aws", "tests/run"]);
    let text = "A='x y'\naws \"$A\" '' >out && X=1 tests/run # why\naws | aws b";
    let calls = shell.calls(&script(text)).expect("a script");
    let calls: Vec<_> =
        calls.iter().map(|it| (it.program.as_str(), it.arguments.join("|"))).collect();
    assert_eq!(calls[..2], [("aws", "x y|".to_owned()), ("tests/run", String::new())]);
    assert_eq!(calls.len(), 4);
    for (wrong, words) in
        [("aws 'x", "unexpected EOF"), ("hlem install", "hlem: command not found")]
    {
        let refused = shell.calls(&script(wrong)).expect_err(wrong);
        assert!(refused.starts_with("page:1: ") && refused.contains(words), "{refused}");
    }
}
