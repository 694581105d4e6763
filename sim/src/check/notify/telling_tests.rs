//! Hand-written histories of notices and of the webhook.

use super::Notified;
use crate::check::testing::*;
use crate::history::{Outside, World};
use squall::base::{Axis, Level, NoticePart, NoticeWhat, Rules};
use squall::event::{Event, OpenWhy};

const REDUCED: NoticeWhat = NoticeWhat::Level(Level::Reduced);
const OFFLINE: NoticeWhat = NoticeWhat::Level(Level::Offline);

fn check() -> Notified {
    Notified::default()
}

fn told(what: NoticeWhat, also: &[(Axis, NoticeWhat)]) -> Event {
    let also = also.iter().map(|(axis, what)| NoticePart { axis: *axis, what: *what, entry: None }).collect();
    let (axis, way, occasion) = (Axis::Cloud, "status_file".to_owned(), "o".to_owned());
    Event::NoticeSent { axis, what, entry: None, way, occasion, also }
}

/// The file after a transition is another part's business.
fn to(story: Story, t_ms: u64, was: Level, to: Level) -> Story {
    story.at(t_ms, changed(Axis::Cloud, was, to)).at(t_ms, Event::StatusFailed { why: "none".into() })
}

fn down() -> Story {
    to(Story::new(), 10_000, Level::Normal, Level::Reduced)
}

#[test]
fn one_notice_down_and_one_up_are_accepted() {
    let story = down().at(15_000, told(REDUCED, &[]));
    let story = to(story, 20_000, Level::Reduced, Level::Fallback);
    let story = to(story, 30_000, Level::Fallback, Level::Reduced);
    let story = to(story, 40_000, Level::Reduced, Level::Offline).at(45_100, told(OFFLINE, &[]));
    to(story, 90_000, Level::Offline, Level::Normal).at(95_000, told(NoticeWhat::Up, &[])).accepted(check());
}

#[test]
fn what_happens_within_five_seconds_is_told_together() {
    let both = to(down(), 14_000, Level::Reduced, Level::Offline);
    both.clone().at(15_000, told(REDUCED, &[(Axis::Cloud, OFFLINE)])).accepted(check());
    both.at(15_000, told(REDUCED, &[])).rejected(check(), "leaves out cloud OFFLINE");
    let late = to(down(), 15_001, Level::Reduced, Level::Offline);
    late.at(21_000, told(REDUCED, &[(Axis::Cloud, OFFLINE)])).rejected(check(), "5001 ms after its first change");
}

#[test]
fn a_notice_that_nothing_calls_for_is_rejected() {
    down().at(15_000, told(REDUCED, &[])).at(20_000, told(REDUCED, &[])).rejected(check(), "expected nothing");
    down().at(14_999, told(REDUCED, &[])).rejected(check(), "before 15000 ms");
    let mild = to(Story::new(), 10_000, Level::Normal, Level::Fallback);
    to(mild, 20_000, Level::Fallback, Level::Normal)
        .at(25_000, told(NoticeWhat::Up, &[]))
        .rejected(check(), "tells cloud up, expected nothing");
    Story::new()
        .at(10_000, suppressed(Axis::Cloud, Level::Reduced, Level::Normal))
        .at(15_000, told(NoticeWhat::Up, &[]))
        .rejected(check(), "expected nothing");
}

#[test]
fn an_end_or_a_beginning_that_nobody_is_told_is_rejected() {
    let hours = |story: Story| story.at(7_200_000, World::Healed);
    hours(down()).rejected(check(), "nobody was told cloud REDUCED");
    let over = to(down().at(15_000, told(REDUCED, &[])), 60_000, Level::Reduced, Level::Normal);
    hours(over).rejected(check(), "nobody was told cloud up");
}

#[test]
fn the_fifth_trip_is_told() {
    let mut story = Story::new();
    for trip in 1..=5 {
        let why = if trip == 1 { OpenWhy::Consecutive } else { OpenWhy::TrialFailed };
        story = story.at(u64::from(trip) * 1_000, opened("alpha", trip, 0, why));
    }
    let notice = |entry: &str| Event::NoticeSent {
        axis: Axis::Cloud,
        what: NoticeWhat::Tripping,
        entry: Some(name(entry)),
        way: "stderr".into(),
        occasion: "o".into(),
        also: vec![],
    };
    story.clone().at(10_000, notice("alpha")).accepted(check());
    story.at(10_000, notice("beta")).rejected(check(), "tells tripping beta, expected tripping alpha");
}

fn hooked() -> Story {
    let mut rules: Rules = rules();
    rules.notify.webhook_url = "http://hook/".into();
    let story = to(Story::with(rules), 10_000, Level::Normal, Level::Fallback);
    to(story, 11_000, Level::Fallback, Level::Normal)
}

fn posted(number: u64, status: u16) -> Outside {
    let (was, to) = if number == 1 { ("NORMAL", "FALLBACK") } else { ("FALLBACK", "NORMAL") };
    Outside::WebhookRequest {
        server: "hook".into(),
        key: Some(format!("k{number}")),
        kind: "transition".into(),
        transition: Some(number),
        axis: "cloud".into(),
        was: was.into(),
        to: to.into(),
        what: String::new(),
        r#try: 1,
        repeated: false,
        status,
    }
}

fn delivered(transition: u64, tries: u32) -> Event {
    Event::WebhookDelivered { transition, tries }
}

fn given_up(transition: u64, tries: u32) -> Event {
    Event::WebhookUndelivered { transition, tries, why: "down".into() }
}

#[test]
fn posts_in_order_with_an_end_each_are_accepted() {
    let story = hooked().at(11_100, posted(1, 503)).at(12_200, posted(1, 200)).at(12_300, delivered(1, 2));
    story.clone().at(12_400, posted(2, 200)).at(12_500, delivered(2, 1)).accepted(check());
    // All tries of the second are lost on their way.
    story.at(40_000, given_up(2, 4)).accepted(check());
}

#[test]
fn posts_out_of_order_too_often_or_for_nothing_are_rejected() {
    hooked().at(11_100, posted(2, 200)).rejected(check(), "posted before 1 came to its end");
    hooked().all(11_100, (0..5).map(|_| posted(1, 503))).rejected(check(), "5 times, expected at most 4");
    hooked().at(11_100, posted(3, 200)).rejected(check(), "has not happened");
    hooked().at(11_100, posted(1, 503)).at(11_200, delivered(1, 1)).rejected(check(), "was not taken");
    hooked().at(11_200, given_up(1, 3)).rejected(check(), "given up after 3 tries, expected 4");
    hooked().at(11_200, given_up(1, 0)).rejected(check(), "given up without a try");
}

#[test]
fn a_transition_that_silently_goes_nowhere_is_rejected() {
    let story = hooked().at(11_100, posted(1, 200)).at(11_200, delivered(1, 1));
    story.at(3_000_000, World::Healed).rejected(check(), "transition 2 was neither delivered nor given up");
}
