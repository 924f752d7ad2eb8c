//! Volumes that are made durable side by side: one whose device hangs keeps none waiting.

use crate::attached::Attached;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Flushes under way, each on a thread of its own. One that nobody waits for goes on.
pub(crate) struct Flushes {
    volumes: Vec<Arc<Attached>>,
    /// By the volume's place, why it could not be made durable.
    results: Receiver<(usize, Result<(), String>)>,
}

impl Flushes {
    pub(crate) fn begin(volumes: Vec<Arc<Attached>>) -> Self {
        let (sender, results) = channel();
        for (place, attached) in volumes.iter().enumerate() {
            let (answer, volume) = (sender.clone(), Arc::clone(attached));
            let flush = move || {
                let flushed = volume.cache.pool.flush_volume(&volume.volume);
                // Nobody may wait any more.
                let _ = answer.send((place, flushed.map_err(|error| error.to_string())));
            };
            if let Err(error) = std::thread::Builder::new().name("flush".to_owned()).spawn(flush) {
                let why = format!("volume {}: no thread to flush it: {error}", attached.options.name);
                sender.send((place, Err(why))).expect("its other end is here");
            }
        }
        Self { volumes, results }
    }

    /// Waits until all have ended, or for so long: what is not known to be durable, and why.
    pub(crate) fn wait(self, limit: Option<Duration>) -> Vec<String> {
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut outcomes = vec![None; self.volumes.len()];
        let next = || match deadline {
            Some(deadline) => self.results.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok(),
            None => self.results.recv().ok(),
        };
        while let Some((place, result)) = next() {
            outcomes[place] = Some(result);
        }
        let late = limit.map_or_else(
            || "its flush failed inside".to_owned(),
            |limit| {
                format!(
                    "its flush has not ended within {}: its device hangs or is slow",
                    humantime::format_duration(limit)
                )
            },
        );
        let unknown = |name: &str| Err(format!("volume {name}: what was written to it is not durable: {late}"));
        let outcomes = self.volumes.iter().zip(outcomes);
        outcomes
            .filter_map(|(attached, outcome)| outcome.unwrap_or_else(|| unknown(&attached.options.name)).err())
            .collect()
    }
}
