//! The bytes of one file, and what a power loss may take from them.
//!
//! Durable is what a sync has reached. Every sector of 512 bytes that was written or cut off since is *unsynced*: its
//! durable bytes are kept at its first change, so the log is never longer than the file. A kill loses nothing, for
//! the system's cache outlives the process; a power loss ([`Contents::lose`]) decides for each unsynced sector.
//!
//! A failed sync condemns what it should have written: the system has marked it clean, no later sync writes it again,
//! and only a new write of the same sector saves it. **Source:** storage.md B.1, B.6.

use crate::seed::Stream;

/// What a disk writes as one.
pub const SECTOR: usize = 512;

#[derive(Clone, Debug, Default)]
pub struct Contents {
    bytes: Vec<u8>,
    /// Length at the last sync.
    durable_len: usize,
    /// By sector: its place in `unsynced` plus one; 0: it is durable.
    places: Vec<u32>,
    unsynced: Vec<Unsynced>,
    /// Durable bytes of the unsynced sectors, one after the other.
    durable: Vec<u8>,
}

/// A sector that changed since the last sync.
#[derive(Clone, Copy, Debug)]
struct Unsynced {
    sector: usize,
    /// Its durable bytes: `durable[from..from + len]`, shorter than a sector where the file ended.
    from: usize,
    len: usize,
    /// The part that was written: whatever happens to a write, the bytes beside it are safe.
    written: (usize, usize),
    condemned: bool,
}

/// What a power loss does to the sectors that no sync has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// All of them are as at the last sync.
    All,
    /// None is lost: the disk had written everything by itself.
    Nothing,
    /// Each is lost or not, by a draw of its own.
    Torn,
}

impl Loss {
    pub fn drawn(stream: &mut Stream) -> Loss {
        match stream.below(4) {
            0 => Loss::All,
            1 => Loss::Nothing,
            _ => Loss::Torn,
        }
    }
}

impl Contents {
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn write(&mut self, at: usize, data: &[u8]) {
        let end = at + data.len();
        if at > self.bytes.len() {
            // The hole before it is part of the change: zeros that are not durable either.
            self.touch(self.bytes.len(), at);
        }
        self.touch(at, end);
        if at == self.bytes.len() {
            self.bytes.extend_from_slice(data);
            return;
        }
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[at..end].copy_from_slice(data);
    }

    /// Cuts the file off at `len`, or fills it up with zeros.
    pub fn truncate(&mut self, len: usize) {
        let own = self.bytes.len();
        self.touch(len.min(own), len.max(own));
        self.bytes.resize(len, 0);
    }

    /// Everything written so far is durable, but for what an earlier sync has failed to write.
    pub fn sync(&mut self) {
        self.durable_len = self.bytes.len();
        let condemned: Vec<Unsynced> = self.unsynced.iter().filter(|one| one.condemned).copied().collect();
        let old = std::mem::take(&mut self.durable);
        for one in self.unsynced.drain(..) {
            self.places[one.sector] = 0;
        }
        for one in condemned {
            let from = self.durable.len();
            self.durable.extend_from_slice(&old[one.from..one.from + one.len]);
            self.unsynced.push(Unsynced { from, ..one });
            self.places[one.sector] = self.unsynced.len() as u32;
        }
        if self.durable.is_empty() {
            // Keeps its room: the next commit is as long as the last.
            self.durable = old;
            self.durable.clear();
        }
    }

    /// A sync that failed: what it should have written is lost with the next power loss, whatever is synced later.
    pub fn sync_failed(&mut self) {
        for one in &mut self.unsynced {
            one.condemned = true;
        }
    }

    pub fn is_durable(&self) -> bool {
        self.unsynced.is_empty() && self.durable_len == self.bytes.len()
    }

    /// The power is cut. `garble`: a quarter of the unsynced sectors is neither old nor new, but noise.
    pub fn lose(&mut self, loss: Loss, garble: bool, stream: &mut Stream) {
        let mut unsynced = std::mem::take(&mut self.unsynced);
        unsynced.sort_unstable_by_key(|one| one.sector);
        let cut_lost = match loss {
            Loss::All => true,
            Loss::Nothing => false,
            Loss::Torn => stream.chance(0.5),
        };
        let new_len = self.bytes.len();
        // As far as the file reaches in the end: a file that was cut may have its old length again, one that grew ends
        // with the last sector that was kept.
        let mut len = match cut_lost || self.durable_len < new_len {
            true => self.durable_len,
            false => new_len,
        };
        self.bytes.resize(new_len.max(self.durable_len), 0);
        for one in &unsynced {
            let kept = match loss {
                Loss::All => false,
                Loss::Nothing => true,
                Loss::Torn => stream.chance(0.5),
            };
            let start = one.sector * SECTOR;
            if kept && !one.condemned {
                let end = (start + SECTOR).min(new_len);
                len = len.max(end.min(start + one.written.1));
                if cut_lost && start + one.len > new_len {
                    // The cut did not happen: what lay behind it is there as before.
                    let behind = new_len.max(start);
                    let old = one.from + (behind - start);
                    self.bytes[behind..start + one.len].copy_from_slice(&self.durable[old..one.from + one.len]);
                }
            } else {
                let end = (start + SECTOR).min(self.bytes.len());
                self.bytes.get_mut(start..end).unwrap_or_default().fill(0);
                let start = start.min(end);
                self.bytes[start..start + one.len].copy_from_slice(&self.durable[one.from..one.from + one.len]);
            }
            if garble && stream.chance(0.25) {
                let (from, to) = (start + one.written.0, (start + one.written.1).min(self.bytes.len()));
                for byte in self.bytes.get_mut(from..to).unwrap_or_default() {
                    *byte ^= stream.below(256) as u8;
                }
            }
        }
        self.bytes.truncate(len);
        *self = Contents { durable_len: len, bytes: std::mem::take(&mut self.bytes), ..Contents::default() };
    }

    /// The sectors of `from..to` are about to change: keeps what is durable of those that did not change before.
    fn touch(&mut self, from: usize, to: usize) {
        if from == to {
            return;
        }
        let last = (to - 1) / SECTOR;
        if self.places.len() <= last {
            self.places.resize(last + 1, 0);
        }
        for sector in from / SECTOR..=last {
            let start = sector * SECTOR;
            let written = (from.max(start) - start, to.min(start + SECTOR) - start);
            match self.places[sector] {
                0 => {
                    let end = (start + SECTOR).min(self.durable_len);
                    let at = self.durable.len();
                    self.durable.extend_from_slice(self.bytes.get(start..end).unwrap_or_default());
                    let len = self.durable.len() - at;
                    let one = Unsynced { sector, from: at, len, written, condemned: false };
                    self.unsynced.push(one);
                    self.places[sector] = self.unsynced.len() as u32;
                }
                place => {
                    let one = &mut self.unsynced[place as usize - 1];
                    one.written = (one.written.0.min(written.0), one.written.1.max(written.1));
                    one.condemned = false;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;

    fn stream(seed: u64) -> Stream {
        Seed::new(seed).stream("loss")
    }

    fn synced(bytes: &[u8]) -> Contents {
        let mut contents = Contents::default();
        contents.write(0, bytes);
        contents.sync();
        contents
    }

    fn after(contents: &Contents, loss: Loss, seed: u64) -> Vec<u8> {
        let mut contents = contents.clone();
        contents.lose(loss, false, &mut stream(seed));
        assert!(contents.is_durable());
        contents.bytes
    }

    #[test]
    fn what_is_synced_survives_whatever_is_lost() {
        let contents = synced(&[7; 3_000]);
        assert!(contents.is_durable());
        for loss in [Loss::All, Loss::Nothing, Loss::Torn] {
            assert_eq!(after(&contents, loss, 1), [7; 3_000]);
        }
    }

    #[test]
    fn without_a_sync_all_is_as_it_was_or_as_it_is_now() {
        let mut contents = synced(&[1; 3_000]);
        contents.write(700, &[2; 100]);
        contents.write(2_900, &[3; 2_000]);
        contents.truncate(4_000);
        contents.write(710, &[4; 5]);
        let now = contents.bytes.clone();
        assert_eq!(after(&contents, Loss::All, 1), [1; 3_000]);
        assert_eq!(after(&contents, Loss::Nothing, 1), now);
        contents.truncate(10);
        contents.write(30, &[9; 10]);
        assert_eq!(after(&contents, Loss::All, 1), [1; 3_000]);
        assert_eq!(after(&contents, Loss::Nothing, 1), contents.bytes);
    }

    #[test]
    fn a_torn_write_is_old_or_new_in_each_sector_and_both_are_seen() {
        let mut contents = synced(&[1; 8 * SECTOR]);
        contents.write(100, &[2; 6 * SECTOR]);
        let (mut olds, mut news, mut mixed) = (0, 0, 0);
        for seed in 0..100 {
            let bytes = after(&contents, Loss::Torn, seed);
            assert_eq!(bytes.len(), 8 * SECTOR);
            assert!(bytes[..100].iter().chain(&bytes[100 + 6 * SECTOR..]).all(|byte| *byte == 1), "beside the write");
            let sectors = bytes[SECTOR..6 * SECTOR].chunks(SECTOR);
            let new: Vec<bool> = sectors.map(|sector| sector[0] == 2).collect();
            for (sector, new) in bytes[SECTOR..6 * SECTOR].chunks(SECTOR).zip(&new) {
                assert!(sector.iter().all(|byte| *byte == if *new { 2 } else { 1 }), "a sector is written as one");
            }
            olds += usize::from(new.contains(&false));
            news += usize::from(new.contains(&true));
            mixed += usize::from(new.contains(&true) && new.contains(&false));
        }
        assert!(olds > 50 && news > 50 && mixed > 50, "{olds} {news} {mixed}");
    }

    #[test]
    fn a_torn_append_ends_with_a_sector_that_was_kept() {
        let mut contents = synced(&[1; 100]);
        contents.write(100, &[2; 2_000]);
        let lengths: std::collections::BTreeSet<usize> =
            (0..100).map(|seed| after(&contents, Loss::Torn, seed).len()).collect();
        assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [100, 512, 1_024, 1_536, 2_048, 2_100]);
    }

    #[test]
    fn what_a_failed_sync_left_out_no_later_sync_brings_back() {
        let mut contents = synced(&[1; 2_048]);
        contents.write(0, &[2; 512]);
        contents.write(512, &[3; 512]);
        contents.sync_failed();
        contents.write(512, &[4; 512]);
        contents.write(1_024, &[5; 512]);
        contents.sync();
        let left = after(&contents, Loss::Nothing, 1);
        assert_eq!([left[0], left[512], left[1_024], left[1_536]], [1, 4, 5, 1]);
    }

    #[test]
    fn noise_stands_only_where_something_was_written() {
        let mut contents = synced(&[1; 4 * SECTOR]);
        contents.write(600, &[2; 300]);
        let noisy = |seed| {
            let mut contents = contents.clone();
            contents.lose(Loss::Nothing, true, &mut stream(seed));
            contents.bytes
        };
        let changed = (0..50).filter(|seed| noisy(*seed)[600..900] != [2; 300]).count();
        assert!((5..30).contains(&changed), "{changed}");
        for seed in 0..50 {
            let bytes = noisy(seed);
            assert!(bytes[..600].iter().chain(&bytes[900..]).all(|byte| *byte == 1));
        }
    }
}
