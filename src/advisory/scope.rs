//! Who has been told what, and so who gets the full text and who the short reminder.
//!
//! [`Told::pending`] looks; [`Told::delivered`] records, once the response went out: a text that was built and never
//! reached its reader has told nobody. Invariants: ADVISORY-2, ADVISORY-3. **Source:** engine.md 10.

use crate::base::rules::AdvisoryRules;
use crate::event::{AdvisoryForm, AdvisoryScope, Severity};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Characters of a declared key at most.
pub const KEY_CHARS_MAX: usize = 256;

/// A session key that a client declared: trimmed, not empty, at most 256 characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeclaredKey(String);

impl DeclaredKey {
    /// `None` for an empty or too long text: as if no key had been declared. Cutting it could make two sessions one.
    pub fn new(text: &str) -> Option<DeclaredKey> {
        let text = text.trim();
        let fits = !text.is_empty() && text.chars().count() <= KEY_CHARS_MAX;
        fits.then(|| DeclaredKey(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audience {
    /// The process serves several sessions (HTTP), not one (stdio).
    pub shared: bool,
    pub key: Option<DeclaredKey>,
}

/// An advisory that should be given; recorded by [`Told::delivered`] once it went out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    pub severity: Severity,
    pub form: AdvisoryForm,
    pub scope: AdvisoryScope,
    audience: Audience,
    /// Which outage it speaks of: delivered after that outage's end it has told nothing about the next.
    outage: u64,
}

/// Who got the full text of one severity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Readers {
    process: bool,
    /// In the order in which they were told.
    keys: VecDeque<DeclaredKey>,
}

impl Readers {
    fn know(&self, audience: &Audience) -> bool {
        match &audience.key {
            Some(key) => self.keys.contains(key),
            None => self.process,
        }
    }

    fn learn(&mut self, audience: &Audience, keys_max: usize) {
        match &audience.key {
            Some(key) => {
                if !self.keys.contains(key) {
                    self.keys.push_back(key.clone());
                }
                while self.keys.len() > keys_max {
                    self.keys.pop_front();
                }
            }
            None => self.process = true,
        }
    }
}

/// Who has been told what. Persisted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    hint: Readers,
    fault: Readers,
    outage: u64,
}

impl Told {
    /// What `audience` should get at this severity. Looks only.
    pub fn pending(&self, severity: Severity, audience: &Audience) -> Pending {
        let known = match severity {
            Severity::Hint => self.hint.know(audience),
            // Who in a shared process has read it is anybody's guess, so everyone gets all of it.
            Severity::Fault if audience.shared && audience.key.is_none() => false,
            Severity::Fault => self.fault.know(audience),
        };
        Pending {
            severity,
            form: if known { AdvisoryForm::Short } else { AdvisoryForm::Full },
            scope: if audience.shared && audience.key.is_none() {
                AdvisoryScope::Process
            } else {
                AdvisoryScope::Session
            },
            audience: audience.clone(),
            outage: self.outage,
        }
    }

    /// The response with it went out.
    pub fn delivered(&mut self, pending: &Pending, rules: &AdvisoryRules) {
        let keys_max = rules.keys_max as usize;
        match (pending.severity, pending.form) {
            (Severity::Hint | Severity::Fault, AdvisoryForm::Short) => {}
            (Severity::Hint, AdvisoryForm::Full) => self.hint.learn(&pending.audience, keys_max),
            (Severity::Fault, AdvisoryForm::Full) => {
                if pending.outage == self.outage {
                    self.fault.learn(&pending.audience, keys_max);
                }
            }
        }
    }

    /// After a restart: what declared keys were told stays told; a process that was told is gone with its readers.
    pub fn restarted(&mut self) {
        self.hint.process = false;
        self.fault.process = false;
    }

    /// The fault is over: everyone gets the full text of the next one.
    pub fn rearm(&mut self) {
        self.outage += 1;
        self.fault = Readers::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use AdvisoryForm::{Full, Short};
    use Severity::{Fault, Hint};

    fn audience(shared: bool, key: Option<&str>) -> Audience {
        Audience { shared, key: key.and_then(DeclaredKey::new) }
    }

    /// Asks and delivers.
    fn tell(told: &mut Told, severity: Severity, audience: &Audience) -> AdvisoryForm {
        let pending = told.pending(severity, audience);
        told.delivered(&pending, &AdvisoryRules::default());
        pending.form
    }

    #[test]
    fn a_process_with_one_session_gets_the_fault_in_full_once() {
        let (mut told, one) = (Told::default(), audience(false, None));
        assert_eq!([(); 3].map(|()| tell(&mut told, Fault, &one)), [Full, Short, Short]);
        assert_eq!(told.pending(Fault, &one).scope, AdvisoryScope::Session);
    }

    #[test]
    fn a_shared_process_gets_the_fault_in_full_every_time() {
        // AD-021
        let (mut told, many) = (Told::default(), audience(true, None));
        assert_eq!([(); 3].map(|()| tell(&mut told, Fault, &many)), [Full; 3]);
        assert_eq!(told.pending(Fault, &many).scope, AdvisoryScope::Process);
    }

    #[test]
    fn a_declared_key_gets_it_in_full_once_and_does_not_speak_for_others() {
        let mut told = Told::default();
        let (a, b) = (audience(true, Some(" a ")), audience(true, Some("b")));
        assert_eq!([&a, &a, &b, &a, &b].map(|who| tell(&mut told, Fault, who)), [Full, Short, Full, Short, Short]);
        assert_eq!(told.pending(Fault, &a).scope, AdvisoryScope::Session);
        assert_eq!(told.pending(Fault, &audience(true, Some("a"))).form, Short, "keys are trimmed");
    }

    #[test]
    fn a_hint_is_given_in_full_once_per_process_or_key_in_every_transport() {
        for shared in [false, true] {
            let (mut told, nobody, key) = (Told::default(), audience(shared, None), audience(shared, Some("k")));
            assert_eq!(
                [&nobody, &nobody, &key, &key].map(|who| tell(&mut told, Hint, who)),
                [Full, Short, Full, Short]
            );
        }
    }

    #[test]
    fn who_read_the_hint_has_not_read_the_fault() {
        let (mut told, one) = (Told::default(), audience(false, None));
        tell(&mut told, Hint, &one);
        assert_eq!(told.pending(Fault, &one).form, Full);
    }

    #[test]
    fn looking_uses_nothing_up() {
        // AD-018 differs on purpose: delivery counts when it happened, not when the text was built.
        let (told, one) = (Told::default(), audience(false, None));
        assert_eq!([(); 2].map(|()| told.pending(Fault, &one).form), [Full; 2]);
    }

    #[test]
    fn the_end_of_a_fault_arms_the_full_text_again_but_not_the_hints() {
        let (mut told, one) = (Told::default(), audience(false, None));
        tell(&mut told, Fault, &one);
        tell(&mut told, Hint, &one);
        let late = told.pending(Fault, &one);
        told.rearm();
        told.delivered(&late, &AdvisoryRules::default());
        assert_eq!(tell(&mut told, Fault, &one), Full);
        assert_eq!(tell(&mut told, Hint, &one), Short);
    }

    #[test]
    fn a_restart_forgets_the_process_and_remembers_the_keys() {
        let (mut told, one, key) = (Told::default(), audience(false, None), audience(true, Some("k")));
        for severity in [Hint, Fault] {
            tell(&mut told, severity, &one);
            tell(&mut told, severity, &key);
        }
        let mut told: Told = serde_json::from_str(&serde_json::to_string(&told).unwrap()).unwrap();
        told.restarted();
        for severity in [Hint, Fault] {
            assert_eq!((told.pending(severity, &one).form, told.pending(severity, &key).form), (Full, Short));
        }
    }

    #[test]
    fn a_full_text_delivered_after_its_outage_ended_told_nothing_about_the_next() {
        let (mut told, one) = (Told::default(), audience(false, None));
        let late = told.pending(Fault, &one);
        told.rearm();
        told.delivered(&late, &AdvisoryRules::default());
        assert_eq!(told.pending(Fault, &one).form, Full);
    }

    #[test]
    fn the_257th_key_makes_the_oldest_forgotten() {
        // AD-023
        let mut told = Told::default();
        let key = |n: usize| audience(true, Some(&format!("key {n}")));
        (0..256).for_each(|n| assert_eq!(tell(&mut told, Fault, &key(n)), Full));
        assert_eq!(told.pending(Fault, &key(0)).form, Short);
        tell(&mut told, Fault, &key(256));
        assert_eq!(told.pending(Fault, &key(0)).form, Full);
        assert_eq!(told.pending(Fault, &key(1)).form, Short);
    }

    #[test]
    fn a_key_has_1_to_256_characters_after_trimming() {
        assert_eq!(DeclaredKey::new("  "), None);
        assert_eq!(DeclaredKey::new(&"ä".repeat(257)), None);
        assert_eq!(DeclaredKey::new(&format!(" {} ", "ä".repeat(256))).map(|key| key.0.chars().count()), Some(256));
    }
}
