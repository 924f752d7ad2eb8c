//! The uses of files, recorded: by whom, of which file.

use crate::record::Recorder;
use forebay_basis::Operation;
use forebay_kernel::Users;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a process is known by its name: it may run another program then, or another process have its number.
const KNOWN: Duration = Duration::from_secs(1);

/// Processes that are known at a time.
const MOST: usize = 4096;

/// Writes uses to a recorder, under the names that a mount's recordings have.
pub(crate) struct Uses {
    recorder: Arc<Recorder>,
    /// Uses that were recorded so far, and the most that are.
    seen: Arc<AtomicU64>,
    limit: u64,
    owners: RefCell<HashMap<u32, (Instant, u32)>>,
}

impl Uses {
    /// At most `limit` uses.
    pub(crate) fn new(recorder: Arc<Recorder>, limit: u64) -> Self {
        Self { recorder, seen: Arc::default(), limit, owners: RefCell::default() }
    }

    /// How many uses were recorded so far.
    pub(crate) fn seen(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.seen)
    }

    /// The number of a process in the trace. One that has ended keeps the name that it had.
    fn owner(&self, process: u32, now: Instant) -> u32 {
        let mut owners = self.owners.borrow_mut();
        let known = owners.get(&process).copied();
        if let Some((since, number)) = known
            && now.duration_since(since) < KNOWN
        {
            return number;
        }
        if owners.len() >= MOST {
            owners.retain(|_, (since, _)| now.duration_since(*since) < KNOWN);
        }
        if owners.len() >= MOST {
            owners.clear();
        }
        let program = fs::read_to_string(format!("/proc/{process}/comm")).ok();
        let number = match (program, known) {
            (None, Some((_, number))) => number,
            (program, _) => {
                let name = format!("{} {process}", program.as_deref().unwrap_or_default().trim_end());
                self.recorder.number(name.trim_start())
            }
        };
        owners.insert(process, (now, number));
        number
    }
}

impl Users for Uses {
    fn wants(&self) -> bool {
        self.recorder.records() && self.seen.load(Ordering::Relaxed) < self.limit
    }

    fn file(&self, path: &str) -> u32 {
        self.recorder.number(path)
    }

    fn reference(&self, file: (u32, u64), process: u32, (offset, length): (u64, u64), operation: Operation) {
        self.seen.fetch_add(1, Ordering::Relaxed);
        self.recorder.record_of(|| self.owner(process, Instant::now()), file, offset, length, operation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_named_after_its_program_and_keeps_its_name_when_it_has_ended() {
        let recorder = Arc::new(Recorder::new(4096));
        let recorded = Uses::new(Arc::clone(&recorder), u64::MAX);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let begin = Instant::now();
        let name = || fs::read_to_string(format!("/proc/{}/comm", child.id())).unwrap();
        while name() != "sleep\n" {
            assert!(begin.elapsed() < Duration::from_secs(60), "it runs another program: {}", name());
        }
        let now = Instant::now();
        let number = recorded.owner(child.id(), now);
        assert_eq!(recorder.number(&format!("sleep {}", child.id())), number);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(recorded.owner(child.id(), now + 2 * KNOWN), number);
        let unknown = recorded.owner(u32::MAX, now);
        assert_eq!(recorder.number(&u32::MAX.to_string()), unknown, "one that nobody has seen");
    }

    #[test]
    fn a_crowd_of_processes_is_forgotten() {
        let recorded = Uses::new(Arc::new(Recorder::new(4096)), u64::MAX);
        let now = Instant::now();
        for process in 0..2 * MOST as u32 {
            recorded.owner(u32::MAX - process, now);
        }
        assert!(recorded.owners.borrow().len() <= MOST);
    }
}
