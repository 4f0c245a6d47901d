//! Hostile input: all that others write and this function reads. Each file has one reader. Its inputs are valid ones that
//! were damaged, as structures and as bytes (`random`), and `rules` has what holds for all of them: no panic, no answer
//! that grows beyond its input, a refusal in one line without control characters, and nothing accepted that Cloud Map
//! would refuse.
//!
//! An input is made from its number alone. `HOSTILE_INPUTS=10000000 cargo test --profile bench --lib hostile` tries so
//! many for each reader instead of a thousand; a failure prints the number, and `HOSTILE_FIRST` begins with it.

mod annotations;
mod attributes;
mod events;
mod instances;
mod name_policy;
mod random;
mod records;
mod rules;
mod settings;
mod slices;

use random::Random;

/// The function whose settings are read.
const FUNCTION_ARN: &str = "arn:aws:lambda:eu-central-1:111122223333:function:sync";
/// The number of inputs for each reader if `HOSTILE_INPUTS` is not set.
const FEW: u64 = 1_000;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Prints the number of the input that broke a rule.
struct Tried {
    reader: &'static str,
    number: u64,
}

impl Drop for Tried {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { reader, number } = self;
            eprintln!("{reader}: HOSTILE_FIRST={number} HOSTILE_INPUTS=1 repeats it");
        }
    }
}

/// Tries the inputs of a reader, each from a source of its own. Returns how many of them it accepted.
fn tried(reader: &'static str, is_accepted: impl Fn(&mut Random) -> bool) -> u64 {
    let first = number("HOSTILE_FIRST");
    let count = number("HOSTILE_INPUTS");
    let first = first.unwrap_or(0);
    let inputs = first..first + count.unwrap_or(FEW);
    let mut accepted = 0;
    for number in inputs.clone() {
        let _tried = Tried { reader, number };
        accepted += u64::from(is_accepted(&mut Random::new(reader, number)));
    }
    println!("{reader}: {} inputs, {accepted} of them accepted", inputs.count());
    accepted
}

/// Tries the inputs of a reader. Both kinds are among them, or a rule on one of them would never be tried.
fn try_all(reader: &'static str, is_accepted: impl Fn(&mut Random) -> bool) {
    let accepted = tried(reader, is_accepted);
    if number("HOSTILE_INPUTS").is_none_or(|count| count >= FEW) {
        let count = number("HOSTILE_INPUTS").unwrap_or(FEW);
        assert!(accepted > 0 && accepted < count, "{reader}: {accepted} of {count} accepted");
    }
}
