//! The arrows between the folders of `src/`: which may import which. A folder that any other may use imports no flow,
//! each outside system is alone, and no two folders import each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Folders and files of `src/`, each with all that it may import besides itself.
const LIMITED: &[(&str, &[&str])] = &[
    ("error", &[]),
    ("model", &[]),
    ("connections", &[]),
    ("cloud_map", &["error", "model"]),
    ("kubernetes", &["error", "model", "connections"]),
    ("eks", &["error", "model"]),
    ("report", &["error", "model"]),
    ("clusterset", &["error", "model"]),
    ("event", &["error", "model"]),
    ("guard", &["model"]),
    ("settings", &["error", "model", "cloud_map", "report"]),
    ("publish/plan", &["error", "model", "clusterset", "guard"]),
    ("import/plan", &["error", "model", "clusterset", "guard"]),
    ("import/sources", &["error", "model", "clusterset", "guard", "import/plan"]),
    ("import/observe", &["error", "model", "clusterset", "kubernetes", "import/plan"]),
    (
        "import/apply",
        &[
            "error",
            "model",
            "clusterset",
            "guard",
            "kubernetes",
            "time",
            "import/observe",
            "import/plan",
        ],
    ),
    ("publish/group", &["model", "guard", "publish/plan"]),
    (
        "publish/observe",
        &["error", "model", "cloud_map", "kubernetes", "time", "clusterset", "publish/plan"],
    ),
    ("publish/apply", &["error", "model", "cloud_map", "time", "publish/group", "publish/plan"]),
];

/// Folders with those that they must not import, whatever is between them.
const NEVER: &[(&str, &[&str])] = &[
    ("publish", &["actions", "function", "import", "reconcile", "settings"]),
    ("import", &["actions", "function", "publish", "reconcile", "settings"]),
    ("actions", &["function"]),
];

/// The programs, and the map of the library.
const ROOTS: [&str; 2] = ["lib", "main"];

/// An import, with the line that makes it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Import {
    /// The module that imports, as a path below `src/` without its ending.
    from: Vec<String>,
    /// The imported path below `crate`.
    to: Vec<String>,
    /// File and line.
    line: String,
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") {
            found.push(path);
        }
    }
}

/// The path of a module, without `mod`.
fn module(path: &Path) -> Vec<String> {
    let path = path.with_extension("");
    let names = path.iter().map(|it| it.to_string_lossy().into_owned());
    names.filter(|it| it != "mod").collect()
}

/// The text without tests and comments, line by line.
fn code(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().collect();
    let tests = lines.windows(2).position(|pair| {
        pair[0].trim() == "#[cfg(test)]"
            && pair[1].trim_start().starts_with("mod ")
            && pair[1].ends_with('{')
    });
    let lines = lines[..tests.unwrap_or(lines.len())].iter();
    lines.map(|line| line.split("//").next().unwrap_or_default()).collect()
}

/// The paths of a `use` tree.
fn paths(tree: &str) -> Vec<Vec<String>> {
    let Some((start, rest)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        return vec![path.split("::").map(|it| it.trim().to_owned()).collect()];
    };
    let before: Vec<String> =
        start.split("::").map(|it| it.trim().to_owned()).filter(|it| !it.is_empty()).collect();
    let rest = rest.rsplit_once('}').map_or(rest, |(rest, _)| rest);
    let mut depth = 0;
    let mut parts = vec![String::new()];
    for letter in rest.chars() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut().expect("a part").push(letter);
    }
    let parts = parts.iter().map(|it| it.trim()).filter(|it| !it.is_empty());
    parts.flat_map(paths).map(|path| [before.clone(), path].concat()).collect()
}

/// The path below `crate` that a path means in the module `from`.
fn resolved(from: &[String], path: &[String]) -> Option<Vec<String>> {
    match path.first()?.as_str() {
        "crate" => Some(path[1..].to_vec()),
        "super" => {
            let up = path.iter().take_while(|it| *it == "super").count();
            let base = &from[..from.len().checked_sub(up)?];
            Some([base, &path[up..]].concat())
        }
        _ => None,
    }
}

/// The paths that a line imports or names. A `use` may take several lines, so `rest` is all from this one on.
fn paths_of_line(line: &str, rest: &str) -> Vec<Vec<String>> {
    let line = line.trim_start();
    if line.strip_prefix("pub ").unwrap_or(line).starts_with("use ") {
        let (_, tree) = rest.split_once("use ").expect("in this line");
        return paths(tree.split(';').next().unwrap_or_default());
    }
    let ends = |it: char| !it.is_alphanumeric() && it != '_' && it != ':';
    let path = |(at, _): (usize, &str)| line[at..].split(ends).next().unwrap_or_default();
    line.match_indices("crate::")
        .map(|found| path(found).split("::").map(str::to_owned).collect())
        .collect()
}

fn imports_of(file: &Path, text: &str) -> Vec<Import> {
    let from = module(file);
    let text = code(text).join("\n");
    let mut start = 0;
    let mut imports = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let found = paths_of_line(line, &text[start..]);
        start += line.len() + 1;
        let line = format!("{}:{}", file.display(), number + 1);
        let found = found.iter().filter_map(|path| resolved(&from, path));
        imports.extend(found.map(|to| Import { from: from.clone(), to, line: line.clone() }));
    }
    imports
}

fn imports() -> Vec<Import> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&root, &mut files);
    let is_test = |path: &PathBuf| path.iter().any(|it| it == "tests" || it == "tests.rs");
    let files = files.iter().filter(|path| !is_test(path));
    let all = files.flat_map(|path| {
        let text = fs::read_to_string(path).expect("a source");
        imports_of(path.strip_prefix(&root).expect("below src"), &text)
    });
    all.filter(|it| !it.to.is_empty() && !it.from.is_empty()).collect()
}

/// Whether a path is in a folder or file, as its name is written above.
fn is_in(path: &[String], room: &str) -> bool {
    let room: Vec<&str> = room.split('/').collect();
    path.len() >= room.len() && path.iter().zip(room).all(|(one, other)| one == other)
}

#[test]
fn folders_import_only_what_they_may() {
    let imports = imports();
    let mut broken = Vec::new();
    for Import { from, to, line } in &imports {
        for (room, may) in LIMITED.iter().filter(|(room, _)| is_in(from, room) && !is_in(to, room))
        {
            if !may.iter().any(|it| is_in(to, it)) {
                broken.push(format!("{line}: {room} must not import {}", to.join("/")));
            }
        }
        for (room, not) in NEVER.iter().filter(|(room, _)| is_in(from, room)) {
            if not.iter().any(|it| is_in(to, it)) {
                broken.push(format!("{line}: {room} must never import {}", to.join("/")));
            }
        }
    }
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}

/// The arrows between the children of a folder, with a line for each.
fn arrows<'a>(imports: &'a [Import], folder: &[String]) -> BTreeMap<(&'a str, &'a str), &'a str> {
    let depth = folder.len();
    let is_below = |path: &[String]| path.len() > depth && path[..depth] == *folder;
    let below = imports.iter().filter(|it| is_below(&it.from) && is_below(&it.to));
    let ends = below.map(|it| ((it.from[depth].as_str(), it.to[depth].as_str()), it.line.as_str()));
    ends.filter(|((from, to), _)| from != to && !ROOTS.contains(from)).collect()
}

/// Whether a way of arrows leads from one child to the other.
fn leads(arrows: &BTreeMap<(&str, &str), &str>, from: &str, to: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(name) = open.pop() {
        let next = arrows.keys().filter(|(from, _)| *from == name).map(|(_, to)| *to);
        open.extend(next.filter(|it| seen.insert(*it)));
    }
    seen.contains(to)
}

/// The folders in which no way of imports leads from a child back to it.
const WITHOUT_CIRCLES: [&[&str]; 2] = [&[], &["publish"]];

#[test]
fn no_two_folders_import_each_other() {
    let imports = imports();
    let mut broken = Vec::new();
    for folder in WITHOUT_CIRCLES {
        let folder: Vec<String> = folder.iter().map(|it| (*it).to_owned()).collect();
        let arrows = arrows(&imports, &folder);
        let back = arrows.iter().filter(|((from, to), _)| leads(&arrows, to, from));
        broken.extend(back.map(|((from, to), line)| {
            format!("{line}: {from} imports {to}, which leads back to {from}")
        }));
    }
    for ((from, to), line) in folder_arrows(&imports) {
        if folder_arrows(&imports).contains_key(&(to.clone(), from.clone())) {
            broken.push(format!("{line}: {from} and {to} import each other"));
        }
    }
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}

/// The arrows between folders that are beside each other, wherever they are, with a line for each.
fn folder_arrows(imports: &[Import]) -> BTreeMap<(String, String), &str> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let is_folder =
        |path: &[String]| path.iter().fold(root.clone(), |all, it| all.join(it)).is_dir();
    let mut found = BTreeMap::new();
    for Import { from, to, line } in imports {
        let common = from.iter().zip(to).take_while(|(one, other)| one == other).count();
        let ends = (from.get(..=common), to.get(..=common));
        if let (Some(from), Some(to)) = ends
            && is_folder(from)
            && is_folder(to)
        {
            found.insert((from.join("/"), to.join("/")), line.as_str());
        }
    }
    found
}

#[test]
fn imports_are_read_with_their_lines() {
    let text = "use super::{One, two::{self, Three}};\nuse crate::publish::plan::Plan;\nfn f() { crate::time::now() }\n";
    let found = imports_of(Path::new("report/line.rs"), text).into_iter();
    let found: Vec<String> = found.map(|it| format!("{} {}", it.to.join("::"), it.line)).collect();
    let expected = [
        "report::One report/line.rs:1",
        "report::two::self report/line.rs:1",
        "report::two::Three report/line.rs:1",
        "publish::plan::Plan report/line.rs:2",
        "time::now report/line.rs:3",
    ];
    assert_eq!(found, expected);
}

/// The function's crates as Cargo selects them for a build of the function alone: its own dependencies with their
/// features, then the names of all others.
fn crates_of_the_function() -> String {
    let tree = |depth: &str, format: &str| {
        let mut cargo = std::process::Command::new(env!("CARGO"));
        cargo.args(["tree", "--locked", "--offline", "--package", "cloud-map-sync"]);
        cargo.args(["--edges", "normal", "--target", "x86_64-unknown-linux-gnu"]);
        cargo.args(["--prefix", "none", "--depth", depth, "--format", format]);
        cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
        let output = cargo.output().expect("cargo");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    // A line begins with name and version. The first is the function itself.
    let own = tree("1", "{p}|{f}");
    let own: BTreeMap<&str, &str> = own
        .lines()
        .skip(1)
        .map(|line| (line.split(' ').next().unwrap_or_default(), line.split('|').nth(1)))
        .map(|(name, features)| (name, features.unwrap_or_default()))
        .collect();
    let all = tree("99", "{p}");
    let others: BTreeSet<&str> = all
        .lines()
        .skip(1)
        .filter_map(|line| line.split(' ').next())
        .filter(|name| !name.is_empty() && !own.contains_key(name))
        .collect();
    let own = own.iter().map(|(name, features)| format!("{name} [{features}]"));
    own.chain(others.iter().map(|name| (*name).to_owned()))
        .fold(String::new(), |all, line| all + &line + "\n")
}

#[test]
fn the_function_is_built_from_the_crates_that_are_listed() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dependencies.txt");
    let made = crates_of_the_function();
    if std::env::var_os("UPDATE_DEPENDENCIES").is_some() {
        fs::write(&path, &made).expect("the list can be written");
    }
    let listed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        listed == made,
        "the function has other crates than {} lists; if they are meant, run: \
         UPDATE_DEPENDENCIES=1 cargo test --test architecture",
        path.display()
    );
}
