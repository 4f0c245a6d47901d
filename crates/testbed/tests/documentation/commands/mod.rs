//! Every command of the pages is one that its program takes. bash reads the blocks (`scripts`, `shell`); then the program's
//! own parser judges the arguments where it is there: the plugin's and the function's here, those of the AWS CLI and SAM
//! by `.ci/arguments.py`; of those for kubectl and Helm, whether the files that they name are there;
//! `crates/testbed/tests/end_to_end/commands` runs those. Of other programs `usage` has what
//! the pages may say. A program without a rule fails the test, since bash does not find it.

mod elsewhere;
pub mod scripts;
pub mod shell;
mod usage;

use clap::Parser as _;
use clap::error::ErrorKind;
use cloud_map_sync::event;
use kubectl_cloudmap::arguments::Arguments;
use serde_json::Value;

use crate::pages::{all_pages, quoted};
use shell::{Command, Shell};

/// Programs whose own parser judges them.
const WITH_PARSER: [&str; 4] = ["aws", "helm", "kubectl", "sam"];

/// Every program that has a rule.
fn programs() -> Vec<&'static str> {
    WITH_PARSER.into_iter().chain(usage::USAGES.iter().map(|it| it.0)).collect()
}

/// The commands of all pages. Those in `tests` are for who works on them.
fn commands() -> (Vec<Command>, Vec<String>) {
    let programs = programs();
    let shell = Shell::new(&programs);
    let mut commands = Vec::new();
    let mut mistakes = Vec::new();
    for (page, text) in all_pages().iter().filter(|(page, _)| !page.starts_with("tests/")) {
        for script in scripts::scripts(page, text, &programs) {
            match shell.calls(&script) {
                Ok(calls) => commands.extend(calls),
                Err(mistake) => mistakes.push(mistake),
            }
        }
    }
    (commands, mistakes)
}

#[test]
fn every_command_of_a_page_is_one_that_its_program_takes() {
    let (commands, mut mistakes) = commands();
    assert!(commands.len() > 120, "{}", commands.len());
    let mut for_others = Vec::new();
    for command in commands {
        let judged = match (command.program.as_str(), command.arguments.first()) {
            ("kubectl", Some(verb)) if verb == "cloudmap" => plugin(&command),
            ("kubectl" | "helm", _) => elsewhere::names_what_is_there(&command),
            ("aws" | "sam", _) => {
                let payload = payload(&command);
                for_others.push(command.clone());
                payload
            }
            _ => usage::check(&command),
        };
        if let Err(why) = judged {
            mistakes.push(format!("{command}\n  {why}"));
        }
    }
    mistakes.extend(elsewhere::judged_by_python(&for_others).unwrap_or_default());
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

/// The plugin's own parser.
fn plugin(command: &Command) -> Result<(), String> {
    let named = command.function.iter().flat_map(|name| ["--function", name]);
    let named = command.arguments.iter().map(String::as_str).chain(named);
    let arguments: Vec<&str> = match command.arguments.get(1).map(String::as_str) {
        Some("admission" | "diff" | "validate") => {
            command.arguments.iter().map(String::as_str).collect()
        }
        _ => named.collect(),
    };
    let Err(refusal) = Arguments::try_parse_from(arguments) else { return Ok(()) };
    let is_part = matches!(
        refusal.kind(),
        ErrorKind::MissingRequiredArgument | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    if is_part && !command.is_whole { Ok(()) } else { Err(refusal.to_string()) }
}

/// The payload of an invocation, by the function's own parser.
fn payload(command: &Command) -> Result<(), String> {
    let mut words = command.arguments.iter().skip_while(|word| *word != "--payload");
    let Some(text) = words.nth(1) else { return Ok(()) };
    let payload: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    event::read(&payload).map(drop).map_err(|error| error.to_string())
}

#[test]
fn every_payload_in_the_text_of_a_page_is_one_that_the_function_takes() {
    let mut found = 0;
    for (page, text) in all_pages() {
        let payloads = quoted(&text).into_iter().filter(|it| it.starts_with("{\"action\""));
        for payload in payloads {
            let names = payload.replace('…', "blue");
            // Of some only the names of the fields are given.
            let Ok(payload) = serde_json::from_str(&names) else {
                assert!(names.contains("\",\"") || names.contains("\"?"), "{page}: {payload}");
                continue;
            };
            if let Err(refusal) = event::read(&payload) {
                let needs_more =
                    matches!(refusal, event::Error::Scope(_) | event::Error::InvalidField { .. });
                assert!(needs_more, "{page}: {names}: {refusal}");
            }
            found += 1;
        }
    }
    assert!(found > 15, "{found}");
}

#[test]
fn mistakes_of_each_kind_are_found() {
    let rows = [
        ("kubectl cloudmap plan --all-cluster", "unexpected argument '--all-cluster'"),
        ("kubectl cloudmap plan -A", "--function <NAME>"),
        ("kubectl apply -f deploy/roles.yaml", "there is no deploy/roles.yaml"),
        ("kubectl apply -k deploy/forwarders", "there is no deploy/forwarders/kustomization.yaml"),
        ("helm install x deploy/charts/cloud-map-forwarder --set queueURL=Q", "no value queueURL"),
        (
            "helm install x cloud-map-forwarder-0.0.0.tgz",
            "there is no cloud-map-forwarder-0.0.0.tgz",
        ),
        (
            "aws lambda invoke --payload '{\"action\":\"plann\"}' out",
            "the command's action is unknown",
        ),
        ("docker run image", "is none of the usages"),
        ("hlem install", "command not found"),
        ("cp 'a", "unexpected EOF"),
    ];
    let shell = Shell::new(&programs());
    for (text, words) in rows {
        let script = scripts::Script { at: "page:1".into(), text: text.into(), is_whole: true };
        let judged = shell.calls(&script).and_then(|calls| match &calls[..] {
            [it] if it.arguments[0] == "cloudmap" => plugin(it),
            [it] if it.program == "aws" => payload(it),
            [it] if WITH_PARSER.contains(&it.program.as_str()) => {
                elsewhere::names_what_is_there(it)
            }
            [it] => usage::check(it),
            other => Err(format!("{other:?}")),
        });
        let why = judged.expect_err(text);
        assert!(why.contains(words), "{text}: {why}");
    }
}
