//! How the binary comes up, or says why it does not: to a person who runs it by hand, and to Lambda.

use std::process::Command;

use crate::lambda::{Lambda, binary};

#[test]
fn binary_outside_lambda_says_in_one_line_how_to_try_it_and_ends_with_2() {
    let output = Command::new(binary()).env_clear().output().expect("the binary starts");

    assert_eq!(output.status.code(), Some(2));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("`cargo run --example sandbox`"), "{said}");
}

#[tokio::test]
async fn settings_with_mistakes_are_an_init_error_that_names_each_of_them() {
    let variables = [("POLICY", "upsert"), ("DRY_RUN", "maybe")];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));

    let (status, init_errors, log) = Lambda::start(&variables).await.end().await;

    assert_eq!(status, Some(1), "{log}");
    let [failure] = init_errors.as_slice() else {
        panic!("one word to Lambda, not {init_errors:?}\n{log}")
    };
    assert_eq!(failure.error_type, "InvalidSettings");
    for variable in ["CLUSTERS", "POLICY", "DRY_RUN"] {
        let example = format!("(example: {variable}=");
        assert!(failure.error_message.contains(&example), "{}", failure.error_message);
        assert!(log.contains(&example), "{log}");
    }
}
