//! What can serve now, and so which levels should be measured.
//!
//! Fed with what happened to entries, it says for each axis between which two levels the measured one must be: the
//! same level twice where the specification leaves one reading only. Open readings are: whether answers before a
//! park's end, of another entry in its scope, or of the caller's fault confirm that it is gone; whether a park that
//! was prolonged is as long as its parts; what an engine forgot that was killed within its commit interval.
//! **Source:** engine.md 2.1, 3 "Park", 5.

use super::topology::{Reach, Topology};
use squall::base::rules::Rules;
use squall::base::{Axis, Level};
use std::collections::BTreeMap;

/// A park longer than this counts for the cloud axis like a breaker that is not closed.
pub const LONG_PARK_MS: u64 = 60_000;

/// Which way an open question is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    Best,
    Worst,
}

/// What an attempt says about the entry that it went to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Good,
    /// It answered, but not to the point: the caller's fault, or not able to serve this request.
    Neutral,
    Bad,
}

#[derive(Clone, Debug)]
pub struct Supply {
    pub topology: Topology,
    states: Vec<State>,
    confirmations: u32,
    dead_letters_max: usize,
    /// Dead letters of LLM work that are not settled.
    dead: std::collections::BTreeSet<u64>,
    /// Memories that wait for their embedding.
    backlog: BTreeMap<u64, Waiting>,
    backlog_attempts_max: u32,
    backlog_retry_ms: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    failures: u32,
    failed_ms: Option<u64>,
}

#[derive(Clone, Debug)]
struct State {
    disabled: bool,
    closed: bool,
    /// Parks in force, by the entry that they were made at: their begin.
    parks: BTreeMap<usize, u64>,
    long: [bool; 2],
    /// After a park, until confirmed: where it was made, when it ended, and the answers in a row.
    proof: Option<Proof>,
    /// The engine may have forgotten what is known here.
    unsure: bool,
}

#[derive(Clone, Copy, Debug)]
struct Proof {
    source: usize,
    ended_ms: u64,
    answers: [u32; 2],
}

impl Supply {
    pub fn new(rules: &Rules) -> Supply {
        let topology = Topology::new(rules);
        let fresh = State {
            disabled: false,
            closed: true,
            parks: BTreeMap::new(),
            long: [false; 2],
            proof: None,
            unsure: false,
        };
        Supply {
            states: vec![fresh; topology.places.len()],
            topology,
            confirmations: rules.park.confirmations,
            dead_letters_max: rules.cloud.dead_letters_max as usize,
            dead: Default::default(),
            backlog: BTreeMap::new(),
            backlog_attempts_max: rules.backlog.attempts_max,
            backlog_retry_ms: rules.backlog.retry_every.ms(),
        }
    }

    pub fn breaker(&mut self, at: usize, closed: bool) {
        self.states[at].closed = closed;
        self.states[at].unsure = false;
    }

    pub fn disabled(&mut self, provider: &str) {
        for (place, state) in self.topology.places.iter().zip(&mut self.states) {
            state.disabled |= place.name.provider() == provider;
        }
    }

    pub fn parked(&mut self, source: usize, reach: Reach, now_ms: u64, until_ms: u64) {
        for at in 0..self.states.len() {
            if !self.topology.reaches(source, reach, at) {
                continue;
            }
            let state = &mut self.states[at];
            let begin_ms = *state.parks.entry(source).or_insert(now_ms);
            state.long[Reading::Best as usize] = until_ms.saturating_sub(now_ms) > LONG_PARK_MS;
            state.long[Reading::Worst as usize] |= until_ms.saturating_sub(begin_ms) > LONG_PARK_MS;
            state.proof = None;
            state.unsure = false;
        }
    }

    pub fn park_ended(&mut self, source: usize, now_ms: u64) {
        for state in &mut self.states {
            if state.parks.remove(&source).is_some() && state.parks.is_empty() {
                state.proof = Some(Proof { source, ended_ms: now_ms, answers: [0; 2] });
            }
        }
    }

    /// `sent_ms`: when the attempt was sent, where known.
    pub fn answered(&mut self, at: usize, answer: Answer, sent_ms: Option<u64>) {
        self.confirm(at, answer, Reading::Best);
        let after_the_park =
            self.states[at].proof.is_none_or(|proof| sent_ms.is_some_and(|sent| sent >= proof.ended_ms));
        let strict = if after_the_park || answer == Answer::Bad { answer } else { return };
        self.confirm(at, strict, Reading::Worst);
    }

    /// The first token of a streamed answer: the best reading takes it for an answer.
    pub fn first_token(&mut self, at: usize) {
        self.confirm(at, Answer::Good, Reading::Best);
    }

    /// The end of a stream whose first token the best reading has taken already.
    pub fn stream_ended(&mut self, at: usize, answer: Answer) {
        self.confirm(at, answer, Reading::Worst);
    }

    fn confirm(&mut self, at: usize, answer: Answer, reading: Reading) {
        let Some(Proof { source, .. }) = self.states[at].proof else { return };
        let confirmations = self.confirmations;
        for (other, state) in self.states.iter_mut().enumerate() {
            let Some(proof) = &mut state.proof else { continue };
            let same = other == at || (reading == Reading::Best && proof.source == source);
            if !same {
                continue;
            }
            let row = &mut proof.answers[reading as usize];
            if *row >= confirmations {
                continue; // Confirmed in this reading: what comes now is the breaker's business.
            }
            *row = match (answer, reading) {
                (Answer::Good, Reading::Best | Reading::Worst) | (Answer::Neutral, Reading::Best) => *row + 1,
                (Answer::Bad, Reading::Best) if other != at => *row,
                (Answer::Bad, Reading::Best | Reading::Worst) | (Answer::Neutral, Reading::Worst) => 0,
            };
            if *row >= confirmations {
                state.long[reading as usize] = false;
                if proof.answers[Reading::Worst as usize] >= confirmations {
                    state.proof = None;
                    state.long = [false; 2];
                }
            }
        }
    }

    /// What the engine decided less than its commit interval before it was killed may be forgotten.
    pub fn forget_maybe(&mut self, at: usize) {
        self.states[at].unsure = true;
    }

    /// Answers in a row are counted anew in the worst case.
    pub fn restarted(&mut self) {
        for state in &mut self.states {
            if let Some(proof) = &mut state.proof {
                proof.answers[Reading::Worst as usize] = 0;
            }
        }
    }

    pub fn dead_added(&mut self, id: u64) {
        self.dead.insert(id);
    }

    pub fn dead_settled(&mut self, id: u64) {
        self.dead.remove(&id);
    }

    pub fn embedding_waits(&mut self, memory: u64) {
        self.backlog.entry(memory).or_default();
    }

    pub fn embedding_failed(&mut self, memory: u64, now_ms: u64) {
        let waiting = self.backlog.entry(memory).or_default();
        waiting.failures += 1;
        waiting.failed_ms = Some(now_ms);
        if waiting.failures > self.backlog_attempts_max {
            self.backlog.remove(&memory);
        }
    }

    pub fn embedded(&mut self, memory: u64) {
        self.backlog.remove(&memory);
    }

    /// Memories that wait and have tries left.
    pub fn backlog_len(&self) -> usize {
        self.backlog.values().filter(|waiting| waiting.failures < self.backlog_attempts_max).count()
    }

    /// Whether the engine may have forgotten what is known of the entry.
    pub fn unsure(&self, at: usize) -> bool {
        self.states[at].unsure
    }

    pub fn closed(&self, at: usize) -> bool {
        self.states[at].closed
    }

    pub fn parked_now(&self, at: usize) -> bool {
        !self.states[at].parks.is_empty()
    }

    /// Of an entry whose park is over: how many answers confirm that, while they are too few.
    pub fn confirming(&self, at: usize) -> Option<u32> {
        self.states[at].proof.map(|proof| proof.answers[Reading::Worst as usize])
    }

    /// When the park ended that the entry's answers are to confirm.
    pub fn park_ended_ms(&self, at: usize) -> Option<u64> {
        self.states[at].proof.map(|proof| proof.ended_ms)
    }

    /// Whether answers matter for some entry now.
    pub fn any_confirming(&self) -> bool {
        self.states.iter().any(|state| state.proof.is_some())
    }

    pub fn serves(&self, at: usize, reading: Reading) -> bool {
        let state = &self.states[at];
        if state.disabled || !self.topology.places[at].enabled {
            return false;
        }
        if state.unsure {
            return reading == Reading::Best;
        }
        let confirmed = state.proof.is_none_or(|proof| proof.answers[reading as usize] >= self.confirmations);
        state.closed && state.parks.is_empty() && confirmed
    }

    /// Whether a chain with this entry in it has none that serves, in some reading; a vector store is a chain of one.
    pub fn last_resort(&self, at: usize) -> bool {
        let none_serves = |places: &[usize]| !places.iter().any(|place| self.serves(*place, Reading::Worst));
        none_serves(&[at]) && self.topology.places[at].vector
            || self.topology.chains.iter().any(|chain| chain.places.contains(&at) && none_serves(&chain.places))
    }

    /// The best and the worst level that may be measured at `now_ms`; `None` where nothing is known.
    pub fn range(&self, axis: Axis, now_ms: u64) -> Option<(Level, Level)> {
        let both = |level: &dyn Fn(Reading) -> Level| Some((level(Reading::Best), level(Reading::Worst)));
        match axis {
            Axis::Cloud => both(&|reading| self.cloud(reading)),
            Axis::Embedding => both(&|reading| self.embedding(reading, now_ms)),
            Axis::Memory => both(&|reading| self.memory(reading)),
            Axis::Cc => None,
        }
    }

    fn cloud(&self, reading: Reading) -> Level {
        let configured = || self.topology.places.iter().zip(&self.states).filter(|(place, _)| place.counted);
        if configured().next().is_none() {
            return Level::Normal;
        }
        let (mut counted, mut open, mut bad) = (0, 0, 0);
        for (_, state) in configured().filter(|(_, state)| !state.disabled) {
            counted += 1;
            let (closed, long) = match (state.unsure, reading) {
                (true, Reading::Best) => (true, false),
                (true, Reading::Worst) => (false, false),
                (false, Reading::Best | Reading::Worst) => (state.closed, state.long[reading as usize]),
            };
            open += usize::from(!closed);
            bad += usize::from(!closed || long);
        }
        let places = &self.topology.places;
        let starved = self.topology.chains.iter().any(|chain| {
            chain.essential
                && chain.places.iter().any(|at| !places[*at].local)
                && !chain.places.iter().any(|at| self.serves(*at, reading))
        });
        let letters = self.dead.len() > self.dead_letters_max;
        if open == counted {
            Level::Offline
        } else if starved || letters {
            Level::Essential
        } else if bad >= 2 {
            Level::Reduced
        } else if bad == 1 {
            Level::Fallback
        } else {
            Level::Normal
        }
    }

    fn embedding_serves(&self, reading: Reading) -> bool {
        (0..self.states.len()).any(|at| self.topology.places[at].embedding && self.serves(at, reading))
    }

    fn embedding(&self, reading: Reading, now_ms: u64) -> Level {
        if !self.topology.embeds() {
            return Level::Normal;
        }
        if !self.embedding_serves(reading) {
            return Level::Unavailable;
        }
        let breaker = self.topology.places.iter().zip(&self.states).any(|(place, state)| {
            let out = if state.unsure { reading == Reading::Worst } else { !state.closed };
            place.embedding && place.enabled && !state.disabled && out
        });
        // A memory that was deleted leaves no trace, so in the best case only a fresh failure is sure to wait.
        let waits = match reading {
            Reading::Worst => !self.backlog.is_empty(),
            Reading::Best => self.backlog.values().any(|waiting| {
                let fresh = waiting.failed_ms.is_some_and(|failed| now_ms < failed + self.backlog_retry_ms);
                fresh && waiting.failures < self.backlog_attempts_max
            }),
        };
        if breaker || waits { Level::Queued } else { Level::Normal }
    }

    fn memory(&self, reading: Reading) -> Level {
        let store_out = self.topology.places.iter().zip(&self.states).any(|(place, state)| {
            let out = if state.unsure { reading == Reading::Worst } else { !state.closed };
            place.vector && place.enabled && out
        });
        if store_out {
            Level::WriteQueued
        } else if !self.topology.embeds() || !self.embedding_serves(reading) {
            Level::FtsOnly
        } else {
            Level::Normal
        }
    }
}
