use super::*;
use crate::check::drain::tests::{queued, run};
use crate::check::testing::*;
use squall::event::OpenWhy;

fn check() -> StatusFile {
    StatusFile::default()
}

fn seen(cloud: Level) -> SeenStatus {
    let state = AxisLevels { cloud, ..AxisLevels::NORMAL };
    let degraded = cloud != Level::Normal;
    let newest = degraded.then(|| ("cloud".to_owned(), "NORMAL".to_owned(), cloud.name().to_owned()));
    SeenStatus {
        parses: true,
        state: Some(state),
        degradation_level: Some(crate::model::legacy::legacy(&state)),
        holds: Default::default(),
        history_len: Some(u64::from(degraded)),
        newest,
        suppressed: Some(0),
        deferred: Default::default(),
        not_closed: vec![],
        undelivered_notices: Some(0),
    }
}

fn file(seen: SeenStatus) -> Outside {
    Outside::StatusFile { seen: Box::new(seen) }
}

fn began() -> Story {
    Story::new().at(0, file(seen(Level::Normal)))
}

fn changed_cloud() -> Story {
    began().at(9, changed(Axis::Cloud, Level::Normal, Level::Fallback))
}

#[test]
fn a_file_or_a_failure_after_each_transition_is_accepted() {
    changed_cloud().at(9, file(seen(Level::Fallback))).accepted(check());
    changed_cloud().at(9, Event::StatusFailed { why: "disk full".into() }).accepted(check());
    began()
        .at(9, file(seen(Level::Fallback)))
        .at(9, changed(Axis::Cloud, Level::Normal, Level::Fallback))
        .accepted(check());
}

#[test]
fn a_transition_without_a_file_or_with_an_old_one_is_rejected() {
    changed_cloud().rejected(check(), "neither by a status file");
    changed_cloud().at(9, file(seen(Level::Normal))).rejected(check(), "has other levels");
    let journal = Story::journal(rules()).at(9, changed(Axis::Cloud, Level::Normal, Level::Fallback));
    journal.clone().at(9, Event::StatusWritten { why: "transition".into() }).accepted(check());
    journal.rejected(check(), "neither by a status file");
}

#[test]
fn a_torn_file_is_rejected() {
    began()
        .at(5, file(SeenStatus { parses: false, state: None, ..seen(Level::Normal) }))
        .rejected(check(), "does not parse");
}

#[test]
fn a_file_with_old_levels_holds_history_or_breakers_is_rejected() {
    let after = |seen: SeenStatus| changed_cloud().at(9, file(self::seen(Level::Fallback))).at(50, file(seen));
    after(seen(Level::Fallback)).accepted(check());
    let normal = SeenStatus { state: Some(AxisLevels::NORMAL), ..seen(Level::Fallback) };
    after(normal).rejected(check(), "state has cloud at NORMAL, expected FALLBACK");
    let held = SeenStatus { holds: [("cloud".to_owned(), 600_009)].into(), ..seen(Level::Fallback) };
    after(held).rejected(check(), "holds have cloud until Some(600009), expected None");
    after(SeenStatus { history_len: Some(0), ..seen(Level::Fallback) })
        .rejected(check(), "has 0 transitions, expected 1");
    after(SeenStatus { suppressed: Some(1), ..seen(Level::Fallback) })
        .rejected(check(), "suppressed_count is 1, expected 0");
    after(SeenStatus { newest: None, ..seen(Level::Fallback) })
        .rejected(check(), "expected cloud from NORMAL to FALLBACK");
    began()
        .at(7, opened("alpha", 1, 120_007, OpenWhy::Consecutive))
        .at(8, file(seen(Level::Normal)))
        .rejected(check(), "expected [\"alpha\"]");
}

#[test]
fn the_counts_are_those_of_the_ledger() {
    let with = |counts: &[(&str, u64)]| {
        let deferred = counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        let story = began().at(1, queued(1, 50, &[])).at(2, queued(2, 50, &[])).at(3, run(1));
        story.at(9, file(SeenStatus { deferred, ..seen(Level::Normal) }))
    };
    with(&[("pending", 1), ("leased", 1), ("done", 0)]).accepted(check());
    with(&[("scheduled", 1), ("leased", 1)]).accepted(check());
    with(&[("pending", 2)]).rejected(check(), "has 2 scheduled and pending items, expected 1");
    with(&[("pending", 1), ("leased", 1), ("done", 1)]).rejected(check(), "has 1 done items, expected 0");
}

#[test]
fn a_missing_heartbeat_is_rejected() {
    let quiet = |t| began().at(t, Event::Tick { caught_up: false }).at(t + 1_000, Event::Tick { caught_up: false });
    quiet(60_000).accepted(check());
    quiet(61_001).rejected(check(), "no status file since 0 ms");
    began().at(61_001, Event::Tick { caught_up: true }).at(61_001, file(seen(Level::Normal))).accepted(check());
}

#[test]
fn views_that_disagree_for_longer_than_a_change_takes_are_rejected() {
    let read = || Outside::StatusRead { load: 1, client: "ops".into(), status: 200, agree: false };
    let story = changed_cloud().at(9, file(seen(Level::Fallback)));
    story.clone().at(1_009, read()).accepted(check());
    story.at(1_010, read()).rejected(check(), "ops read different levels");
}

#[test]
fn the_list_of_what_reached_nobody_is_what_was_said_to() {
    let lost = |at| Event::WebhookUndelivered { transition: at, tries: 4, why: "down".into() };
    let lists = |count| file(SeenStatus { undelivered_notices: Some(count), ..seen(Level::Normal) });
    let story = began().at(9, lost(1)).at(20, lost(2));
    story.clone().at(20, lists(2)).accepted(check());
    story.at(20, lists(1)).rejected(check(), "undelivered_notices lists 1, expected 2");
}
