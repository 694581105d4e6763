//! Streamed attempts: nothing is passed on before the first token, everything after it.
//!
//! Until its first token a streamed attempt is like any other: it may fail and the walk goes on. With it the entry is
//! chosen; a later break is returned as a truncated answer, never replayed.
//! **Source:** engine.md 3 ("after the first streamed token no other entry is tried").

use super::Engine;
use super::api::ChatPiece;
use super::attempt::{Ended, Order, Ready, Underway};
use super::call::Running;
use super::outbound::HttpStream;
use crate::base::{CallOutcome, EntryName, Outcome};
use crate::breaker::Evidence;
use crate::event::ParkScope;
use crate::wire::{self, StreamItem, StreamReader};
use std::collections::VecDeque;
use tokio::sync::mpsc;
use tokio::task::spawn_local;

/// Pieces that may wait for a slow reader.
const PIECES_MAX: usize = 64;

/// A stream whose first token has come.
pub(super) struct Started {
    underway: Underway,
    pub running: Option<Running>,
    entry: EntryName,
    stream: HttpStream,
    reader: StreamReader,
    items: VecDeque<StreamItem>,
}

impl std::fmt::Debug for Started {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Started").field("entry", &self.entry).finish_non_exhaustive()
    }
}

impl Engine {
    /// One streamed attempt, up to its first token.
    pub(super) async fn attempt_stream(&self, order: &Order<'_>) -> Result<Started, Ended> {
        let Ready { mut underway, target, http, limits } = self.ready(order).map_err(|ended| *ended)?;
        let token_by = self.now() + limits.first_byte;
        let first = async {
            let mut stream = match self.0.outbound.open(&target, &http, &limits).await {
                Ok(stream) => stream,
                Err(error) => return Err((Ended::of_transport(&error), ParkScope::Model)),
            };
            if !(200..300).contains(&stream.status) {
                let (status, headers) = (stream.status, stream.headers.clone());
                let body = stream.collect().await;
                return Err(match body {
                    Ok(body) => {
                        let read = self.read(order, |about| wire::read(about, status, &headers, &body));
                        let scope = read.scope;
                        (Ended::of_answer(read, status), scope)
                    }
                    Err(error) => (Ended::of_transport(&error), ParkScope::Model),
                });
            }
            let mut reader = self.read(order, |about| StreamReader::new(about, &stream.headers));
            let mut items = VecDeque::new();
            loop {
                match items.front() {
                    Some(StreamItem::Text(_) | StreamItem::Done { .. }) => return Ok((stream, reader, items)),
                    Some(StreamItem::Error(answer)) => {
                        let (read, status) = (answer.clone(), stream.status);
                        let scope = read.scope;
                        return Err((Ended::of_answer(read, status), scope));
                    }
                    None => {}
                }
                match stream.next_chunk().await {
                    Some(Ok(chunk)) => items.extend(reader.push(&chunk)),
                    Some(Err(error)) => return Err((Ended::of_transport(&error), ParkScope::Model)),
                    None => items.extend(reader.end()),
                }
            }
        };
        let outcome = tokio::select! {
            biased;
            outcome = first => outcome,
            () = self.0.ports.clock.sleep_until(token_by) => {
                let reason = "no token in time".to_owned();
                let outcome = Outcome::ProviderFault;
                Err((Ended { outcome, hint: None, reason, status: 0, content: None }, ParkScope::Model))
            }
        };
        match outcome {
            Ok((stream, reader, items)) => {
                underway.first_token();
                let entry = order.entry.clone();
                Ok(Started { underway, running: None, entry, stream, reader, items })
            }
            Err((ended, scope)) => {
                underway.settle(ended.outcome, Evidence { hint: ended.hint, scope });
                Err(ended)
            }
        }
    }

    /// Passes the rest of a stream on, in a task of its own: a decision needs nothing of it but its end.
    pub(super) fn pump(&self, started: Started, attempts: u32) -> mpsc::Receiver<ChatPiece> {
        let (sender, receiver) = mpsc::channel(PIECES_MAX);
        let Started { underway, running, entry, mut stream, mut reader, mut items } = started;
        spawn_local(async move {
            let (outcome, evidence) = loop {
                match items.pop_front() {
                    Some(StreamItem::Text(text)) => {
                        if sender.send(ChatPiece::Text(text)).await.is_err() {
                            return; // The caller went away: attempt and call end as cancelled by being dropped.
                        }
                        continue;
                    }
                    Some(StreamItem::Done { .. }) => break (Outcome::Success, Evidence::NONE),
                    Some(StreamItem::Error(answer)) => {
                        break (answer.outcome, Evidence { hint: answer.hint, scope: answer.scope });
                    }
                    None => {}
                }
                match stream.next_chunk().await {
                    Some(Ok(chunk)) => items.extend(reader.push(&chunk)),
                    Some(Err(_)) => break (Outcome::ProviderFault, Evidence::NONE),
                    None => items.extend(reader.end()),
                }
            };
            underway.settle(outcome, evidence);
            let outcome = if outcome == Outcome::Success { CallOutcome::Ok } else { CallOutcome::Truncated };
            if let Some(running) = running {
                running.finish(outcome, Some(entry.clone()), None);
            }
            // Nobody left to tell: the call itself is over and recorded.
            let _ = sender.send(ChatPiece::End { outcome, entry, attempts }).await;
        });
        receiver
    }
}
