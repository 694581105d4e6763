//! Rows of the queue: order, leases, and who may take what.

use super::*;
use crate::store::Store;

fn store() -> Store {
    Store::new(Connection::open_in_memory().unwrap()).unwrap()
}

fn item(text: &str, priority: u8, axes: &[Axis]) -> NewItem {
    NewItem {
        work_type: "llm_call".into(),
        call_site: "test".into(),
        priority,
        payload: format!("{{\"content\":{text:?}}}"),
        depends_on: AxisSet::of(axes),
        policy: Policy::Drain,
        ttl: None,
        reason: "test".into(),
        not_before: MonoTime(0),
        expires_at: None,
        attempts_max: 5,
    }
}

fn put(store: &mut Store, item: NewItem, at: u64) -> Queued {
    store.write(|tx| insert(tx, &item, MonoTime(at), WallTime(0))).unwrap()
}

fn take(store: &mut Store, runnable: &[(AxisSet, u8)]) -> Option<Claimed> {
    store.write(|tx| claim(tx, runnable, 1, MonoTime(120_000))).unwrap()
}

#[test]
fn the_smaller_priority_goes_first_then_the_older_then_the_smaller_id() {
    let mut store = store();
    let late = put(&mut store, item("late", 40, &[]), 20);
    let early = put(&mut store, item("early", 40, &[]), 10);
    let twin = put(&mut store, item("same time", 40, &[]), 10);
    let urgent = put(&mut store, item("urgent", 20, &[Axis::Cloud]), 30);
    let all: Vec<_> = AxisSet::all().map(|set| (set, 100)).collect();
    let order: Vec<u64> = std::iter::from_fn(|| take(&mut store, &all)).map(|claimed| claimed.id).collect();
    assert_eq!(order, [urgent.id, early.id, twin.id, late.id]);
}

#[test]
fn an_item_whose_axis_does_not_serve_blocks_nobody() {
    let mut store = store();
    put(&mut store, item("cloud", 10, &[Axis::Cloud]), 0);
    let free = put(&mut store, item("free", 80, &[]), 0);
    assert_eq!(take(&mut store, &[(AxisSet::of(&[]), 100)]).unwrap().id, free.id);
    assert!(take(&mut store, &[(AxisSet::of(&[]), 100)]).is_none());
    assert!(take(&mut store, &[(AxisSet::of(&[Axis::Cloud]), 9)]).is_none(), "shed by priority");
}

#[test]
fn the_same_unfinished_content_is_merged_with_the_better_priority() {
    let mut store = store();
    let first = put(&mut store, item("a", 50, &[]), 0);
    let again = put(&mut store, item("a", 20, &[]), 5);
    assert_eq!(again, Queued { id: first.id, merged: true });
    let claimed = take(&mut store, &[(AxisSet(0), 100)]).unwrap();
    assert_eq!((claimed.id, claimed.priority, claimed.intact), (first.id, 20, true));
    store.write(|tx| finish(tx, claimed.id, claimed.token, ItemStatus::Done, 0, MonoTime(9), None)).unwrap();
    assert!(!put(&mut store, item("a", 50, &[]), 10).merged, "a finished twin is no twin");
}

#[test]
fn a_late_worker_changes_nothing() {
    let mut store = store();
    put(&mut store, item("a", 50, &[]), 0);
    let first = take(&mut store, &[(AxisSet(0), 100)]).unwrap();
    assert_eq!(store.write(free_leases).unwrap(), [first.id]);
    let second = take(&mut store, &[(AxisSet(0), 100)]).unwrap();
    assert!(second.token > first.token);
    let late = store.write(|tx| finish(tx, first.id, first.token, ItemStatus::Dead, 1, MonoTime(9), None)).unwrap();
    assert!(!late);
    assert!(store.write(|tx| renew(tx, second.id, second.token, MonoTime(300_000))).unwrap());
}

fn session(text: &str) -> NewItem {
    NewItem { work_type: "session".into(), ..item(text, 10, &[Axis::Cc]) }
}

#[test]
fn a_session_is_left_to_its_waiter_and_costs_a_claim_nothing() {
    let mut store = store();
    let own = put(&mut store, session("a"), 0);
    let work = put(&mut store, item("cc", 80, &[Axis::Cc]), 1);
    let all: Vec<_> = AxisSet::all().map(|set| (set, 100)).collect();
    assert_eq!(take(&mut store, &all).unwrap().id, work.id);
    assert!(take(&mut store, &all).is_none());
    let plan: String =
        store.reader().query_row(&format!("EXPLAIN QUERY PLAN {NEXT}"), (8, 100), |row| row.get(3)).unwrap();
    assert!(plan.contains("USING INDEX queue_ready (depends_on=? AND priority<?)"), "{plan}");
    let leased = store.write(|tx| lease(tx, own.id, 1, None)).unwrap().unwrap();
    assert!(leased.intact);
    assert!(store.write(|tx| lease(tx, own.id, 1, None)).unwrap().is_none(), "it is leased");
    assert_eq!(store.write(free_leases).unwrap(), [work.id], "whoever runs it may be there still");
    let listed = session_items(store.reader()).unwrap();
    assert_eq!(listed.iter().map(|item| (item.id, item.claim)).collect::<Vec<_>>(), [(own.id, Some(leased.token))]);
}

#[test]
fn an_item_that_was_rewritten_is_intact_and_one_that_is_leased_is_not_ended_as_pending() {
    let mut store = store();
    let own = put(&mut store, session("a"), 0);
    let end = |store: &mut Store| {
        store.write(|tx| end_pending(tx, own.id, ItemStatus::Discarded, MonoTime(9), "cancelled")).unwrap()
    };
    let first = store.write(|tx| lease(tx, own.id, 1, None)).unwrap().unwrap();
    assert!(!store.write(|tx| rewrite(tx, own.id, first.token + 1, "{}")).unwrap(), "another's lease");
    assert!(store.write(|tx| rewrite(tx, own.id, first.token, "{\"half\":true}")).unwrap());
    assert!(!end(&mut store));
    store.write(|tx| release(tx, own.id, first.token, 0, MonoTime(5), MonoTime(5), "limit")).unwrap();
    let second = store.write(|tx| lease(tx, own.id, 1, None)).unwrap().unwrap();
    assert_eq!((second.payload.as_str(), second.intact), ("{\"half\":true}", true));
    store.write(|tx| release(tx, own.id, second.token, 0, MonoTime(5), MonoTime(5), "limit")).unwrap();
    assert!(end(&mut store) && !end(&mut store));
}

#[test]
fn a_damaged_row_is_noticed_at_the_claim() {
    let mut store = store();
    put(&mut store, item("a", 50, &[]), 0);
    store
        .write(|tx| {
            tx.execute("UPDATE deferred_work_queue SET payload = '{}'", []).map_err(failed("damaging"))?;
            Ok(())
        })
        .unwrap();
    assert!(!take(&mut store, &[(AxisSet(0), 100)]).unwrap().intact);
}

#[test]
fn stale_items_end_by_their_policy_at_the_millisecond() {
    let mut store = store();
    let mut ttl = item("ttl", 50, &[]);
    (ttl.policy, ttl.ttl, ttl.expires_at) = (Policy::Ttl, Some(Span::from_ms(100)), Some(MonoTime(100)));
    let mut old = item("old", 50, &[]);
    (old.policy, old.expires_at) = (Policy::Discard, Some(MonoTime(100)));
    let (ttl, old) = (put(&mut store, ttl, 0), put(&mut store, old, 0));
    assert_eq!(store.write(|tx| sweep_stale(tx, MonoTime(99))).unwrap(), []);
    let swept = store.write(|tx| sweep_stale(tx, MonoTime(100))).unwrap();
    let ended = |id, status| Swept { id, was: ItemStatus::Pending, status };
    assert_eq!(swept, [ended(ttl.id, ItemStatus::Expired), ended(old.id, ItemStatus::Discarded)]);
}
