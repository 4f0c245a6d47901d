//! The completion of `kubectl cloudmap` by Tab. kubectl's own completion, in bash, zsh and fish alike, runs a program
//! `kubectl_complete-cloudmap` with the words so far, and reads the choices from it, one a line, each with a description
//! after a tab, and in the last line what else the shell may offer.
//! <https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/>

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory, ValueHint};

use super::arguments::Arguments;

/// That program.
const PROGRAM: &str = "#!/bin/sh\nexec kubectl-cloudmap completion -- \"$@\"\n";

/// Cobra's directives: the shell completes the names of files, or nothing.
const FILES: &str = ":0\n";
const NOTHING_ELSE: &str = ":4\n";

/// The choices for the last word; without any word that program.
pub fn choices(words: &[String]) -> String {
    let Some((last, before)) = words.split_last() else { return PROGRAM.to_owned() };
    let mut command = Arguments::command();
    command.build();
    let verb = before.iter().find_map(|word| command.find_subcommand(word));
    let Some(verb) = verb else { return lines(last, verbs(&command)) };
    if let Some(option) = before.last().and_then(|word| find_option(verb, word)) {
        return values(option, "", last);
    }
    match last.split_once('=') {
        Some((name, value)) if name.starts_with("--") => {
            let option = find_option(verb, name);
            option.map_or(NOTHING_ELSE.to_owned(), |it| values(it, &format!("{name}="), value))
        }
        _ if last.starts_with('-') => lines(last, options(verb)),
        _ => NOTHING_ELSE.to_owned(),
    }
}

fn verbs(command: &Command) -> impl Iterator<Item = (String, String)> {
    let about = |it: &Command| it.get_about().map(ToString::to_string).unwrap_or_default();
    let shown = command.get_subcommands().filter(|it| !it.is_hide_set());
    shown.map(move |it| (it.get_name().to_owned(), about(it)))
}

fn options(verb: &Command) -> impl Iterator<Item = (String, String)> {
    let shown = verb.get_arguments().filter(|it| !it.is_hide_set());
    shown.filter_map(|it| Some((format!("--{}", it.get_long()?), help(it))))
}

fn help(option: &Arg) -> String {
    option.get_help().map(ToString::to_string).unwrap_or_default()
}

/// The option of this name, if a value follows it.
fn find_option<'a>(verb: &'a Command, word: &str) -> Option<&'a Arg> {
    let is_named = |it: &&Arg| {
        let long = it.get_long().is_some_and(|long| word.strip_prefix("--") == Some(long));
        let short = it.get_short().is_some_and(|short| word == format!("-{short}"));
        (long || short) && it.get_action().takes_values()
    };
    verb.get_arguments().find(is_named)
}

fn values(option: &Arg, before: &str, begun: &str) -> String {
    if option.get_value_hint() == ValueHint::AnyPath {
        return FILES.to_owned();
    }
    let help = |it: &clap::builder::PossibleValue| {
        it.get_help().map(ToString::to_string).unwrap_or_default()
    };
    let possible = option.get_possible_values().into_iter();
    let possible = possible.map(|it| (format!("{before}{}", it.get_name()), help(&it)));
    lines(&format!("{before}{begun}"), possible)
}

/// The choices that begin as the word does.
fn lines(begun: &str, choices: impl Iterator<Item = (String, String)>) -> String {
    let mut text = String::new();
    for (choice, help) in choices.filter(|(choice, _)| choice.starts_with(begun)) {
        let _ = writeln!(text, "{choice}\t{help}");
    }
    text + NOTHING_ELSE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The choices without their descriptions, and the directive.
    fn chosen(words: &str) -> String {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let text = choices(&words);
        let names = text.lines().map(|line| line.split('\t').next().unwrap_or_default());
        names.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn verbs_options_and_their_values_are_completed() {
        let rows = [
            ("st", "status :4"),
            ("wa", "wait :4"),
            ("plan -o ", "table wide json yaml md name :4"),
            ("plan --output=j", "--output=json :4"),
            ("plan --fail-on h", "held-back :4"),
            ("wait --for ", "registered empty :4"),
            ("status --watch --na", "--namespace :4"),
            ("plan -n ", ":4"),
            ("plan --kubeconfig ", ":0"),
            ("validate -f ", ":0"),
            ("plan ser", ":4"),
            ("nothing --", ":4"),
        ];
        for (words, expected) in rows {
            assert_eq!(chosen(words), expected, "{words}");
        }
        let all = chosen("");
        assert!(all.starts_with("plan sync ") && all.ends_with(" :4"), "{all}");
        assert!(
            choices(&["plan".to_owned(), "--all-c".to_owned()])
                .starts_with("--all-clusters\tAll configured")
        );
    }
}
