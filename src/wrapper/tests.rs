use super::*;

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn the_same_work_has_the_same_key_and_other_work_another() {
    let key = |class, command: &[&str]| key_of(class, &words(command));
    let own = key(SessionClass::Background, &["claude", "-p", "tidy up"]);
    assert_eq!(own, key(SessionClass::Background, &["claude", "-p", "tidy up"]));
    assert_ne!(own, key(SessionClass::Foreground, &["claude", "-p", "tidy up"]));
    assert_ne!(own, key(SessionClass::Background, &["claude", "-p", "tidy", "up"]));
    assert_ne!(key(SessionClass::Background, &["ab", "c"]), key(SessionClass::Background, &["a", "bc"]));
}

#[test]
fn the_commands_exit_code_is_ours_and_what_did_not_run_has_codes_of_its_own() {
    let ran = |exit| Ended::Ran { session: Some(1), outcome: SessionOutcome::Failed, exit };
    assert_eq!(ran(0).exit_code(), 0);
    assert_eq!(ran(137).exit_code(), 137);
    assert_eq!(Ended::Deferred { session: 1, reason: String::new() }.exit_code(), 75);
    assert_eq!(Ended::Elsewhere { session: None, why: String::new() }.exit_code(), 75);
    assert_eq!(Ended::Unreachable { why: String::new() }.exit_code(), 69);
    assert_eq!(Ended::Refused { why: String::new() }.exit_code(), 70);
}
