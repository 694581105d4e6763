//! The folder of a run, and the history on its way there.
//!
//! A run writes into a folder with a name of its own (`.part`) and is given its real name when it is complete: whoever
//! finds `<scenario>-<seed>/` finds it whole. Two sweeps into the same folder at once are not supported.
//! **Source:** harness.md "A run" (`RUN_DIR`).

use super::verdict::{HistoryFacts, Timing, Verdict};
use crate::history::{Entry, Sink};
use serde::Serialize;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Where runs are kept, and which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keep {
    Nothing,
    /// The first run of each scenario, and every run that did not hold.
    Telling(PathBuf),
    All(PathBuf),
}

impl Keep {
    pub fn dir(&self) -> Option<&Path> {
        match self {
            Keep::Nothing => None,
            Keep::Telling(dir) | Keep::All(dir) => Some(dir),
        }
    }
}

/// Bytes of history that wait to be hashed and written.
const WAITING_MAX: usize = 1 << 16;

/// Hashes the history's bytes, and writes them on if there is somewhere to.
pub struct HistoryFile {
    hasher: blake3::Hasher,
    /// Hashed and written at once: many lines together cost far less than each alone.
    waiting: Vec<u8>,
    out: Option<File>,
    events: u64,
    /// The first write that failed: a run whose history is not whole is not worth judging.
    failed: Option<io::Error>,
}

impl HistoryFile {
    pub fn nowhere() -> HistoryFile {
        let waiting = Vec::with_capacity(WAITING_MAX);
        HistoryFile { hasher: blake3::Hasher::new(), waiting, out: None, events: 0, failed: None }
    }

    pub fn create(path: &Path) -> io::Result<HistoryFile> {
        Ok(HistoryFile { out: Some(File::create(path)?), ..HistoryFile::nowhere() })
    }

    fn flush(&mut self) {
        self.hasher.update(&self.waiting);
        if let Some(out) = &mut self.out
            && let Err(error) = out.write_all(&self.waiting)
        {
            self.failed.get_or_insert(error);
        }
        self.waiting.clear();
    }

    /// **Errors:** the first write that failed.
    pub fn finish(&mut self) -> io::Result<HistoryFacts> {
        self.flush();
        if let Some(failed) = self.failed.take() {
            return Err(failed);
        }
        Ok(HistoryFacts { events: self.events, hash: self.hasher.finalize().to_hex().to_string() })
    }
}

impl Sink for HistoryFile {
    fn entry(&mut self, _entry: &Entry, line: &str) {
        self.events += 1;
        if self.waiting.len() + line.len() >= WAITING_MAX {
            self.flush();
        }
        self.waiting.extend_from_slice(line.as_bytes());
        self.waiting.push(b'\n');
    }
}

/// A run's folder while it is being written.
pub struct RunDir {
    part: PathBuf,
    whole: PathBuf,
}

/// `scenarios/smoke/total-outage.toml` -> `smoke-total-outage`: short, and still unique in a library of drills.
pub fn slug(scenario: &str) -> String {
    let path = Path::new(scenario);
    let name = |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned());
    let folder = name(path.parent().and_then(Path::file_name)).filter(|name| name != "..");
    let parts = folder.into_iter().chain(name(path.file_stem()));
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    parts.collect::<Vec<_>>().join("-").chars().map(plain).collect()
}

impl RunDir {
    pub fn begin(dir: &Path, scenario: &str, seed: u64) -> io::Result<RunDir> {
        let name = format!("{}-{seed}", slug(scenario));
        let run = RunDir { part: dir.join(format!(".{name}.part")), whole: dir.join(name) };
        remove(&run.part)?;
        fs::create_dir_all(&run.part)?;
        Ok(run)
    }

    pub fn history(&self) -> PathBuf {
        self.part.join("history.jsonl")
    }

    pub fn write(&self, name: &str, value: &impl Serialize) -> io::Result<()> {
        let mut text = serde_json::to_string_pretty(value).map_err(io::Error::other)?;
        text.push('\n');
        fs::write(self.part.join(name), text)
    }

    /// Gives the folder its real name, in place of an older run of that name.
    pub fn keep(self, verdict: &Verdict, timing: &Timing) -> io::Result<PathBuf> {
        self.write("verdict.json", verdict)?;
        self.write("timing.json", timing)?;
        remove(&self.whole)?;
        fs::rename(&self.part, &self.whole)?;
        Ok(self.whole)
    }

    pub fn discard(self) -> io::Result<()> {
        remove(&self.part)
    }
}

fn remove(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{What, World};

    #[test]
    fn a_folder_is_named_after_the_scenario_and_its_folder() {
        assert_eq!(slug("scenarios/smoke/total-outage.toml"), "smoke-total-outage");
        assert_eq!(slug("../my drill.toml"), "my-drill");
        assert_eq!(slug("drill.toml"), "drill");
    }

    #[test]
    fn the_hash_is_that_of_the_bytes_of_the_file() {
        let mut history = HistoryFile::nowhere();
        for n in 0..2 {
            history.entry(&Entry { n, t_ms: 0, what: What::World(World::Healed) }, "{}");
        }
        let facts = history.finish().unwrap();
        assert_eq!((facts.events, facts.hash.as_str()), (2, blake3::hash(b"{}\n{}\n").to_hex().as_str()));
    }
}
