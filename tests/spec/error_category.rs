//! What an answer means, whoever gave it.

use crate::bench::{Bench, Says, chat_rules, run};
use crate::{Row, check, row};
use squall::base::rules::{Api, ChainUse};
use squall::base::{Outcome, WallTime};
use squall::wire::{Reading, read};

/// A chat answer of an entry whose key never worked.
fn answer(status: u16, body: &str) -> Outcome {
    let about = Reading {
        api: Api::Openai,
        use_: ChainUse::Chat,
        model: None,
        inputs: 0,
        dims: None,
        key_worked: false,
        now: WallTime(0),
    };
    read(&about, status, &[], body.as_bytes()).outcome
}

fn error(status: u16, message: &str) -> Outcome {
    answer(status, &format!(r#"{{"error":{{"message":"{message}"}}}}"#))
}

/// Neither the entry's fault nor worth another try there.
fn is_permanent(outcome: Outcome) -> bool {
    !outcome.is_failure() && matches!(outcome, Outcome::BadKey | Outcome::CallersFault | Outcome::Unfit)
}

pub fn rows() -> Vec<Row> {
    vec![
        row("RT-001", "401 and 404 are permanent", || {
            assert!(is_permanent(error(401, "bad key")) && is_permanent(error(404, "no such thing")));
        }),
        row("RT-003", "403 without a word of quota is permanent", || {
            assert!(is_permanent(error(403, "access denied")) && is_permanent(answer(403, "")));
        }),
        row("RT-005", "429 is a class of its own", || assert_eq!(error(429, "slow down"), Outcome::Throttled)),
        row("RT-008", "a refused connection is a passing fault", || {
            run(chat_rules(&["a"]), async |bench: &Bench| {
                bench.call().await;
                assert_eq!(bench.outcomes("a"), [Outcome::ProviderFault; 2], "tried again here");
            });
        }),
        row("RT-009", "malformed, partial and truncated answers are faults of the provider", || {
            for body in ["<html>", "{\"choices\":[]}", "{\"choices\":[{\"message\":{\"content\":\"hel", ""] {
                assert_eq!(answer(200, body), Outcome::ProviderFault, "{body:?}");
            }
            run(chat_rules(&["a", "b"]), async |bench: &Bench| {
                bench.says("a", Says::hello().body("{\"choices\":[{"));
                bench.says("b", Says::hello());
                assert_eq!(bench.answered_by().await.as_deref(), Some("b"));
            });
        }),
    ]
}

#[test]
fn table() {
    check(&rows());
}
