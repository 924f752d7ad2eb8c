//! Volumes that are made durable side by side: one whose device hangs keeps none waiting.

use crate::error::Error;
use crate::volumes::attached::Attached;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How often to look whether devices go on.
const LOOK: Duration = Duration::from_millis(100);

/// Flushes under way, each on a thread of its own. One that nobody waits for goes on.
pub(crate) struct Flushes {
    volumes: Vec<Arc<Attached>>,
    began: Instant,
    /// The bytes that had been written of each volume by then.
    written: Vec<u64>,
    /// By the volume's place, why it could not be made durable.
    results: Receiver<(usize, Result<(), Error>)>,
}

impl Flushes {
    pub(crate) fn begin(volumes: Vec<Arc<Attached>>) -> Self {
        let (sender, results) = channel();
        let began = Instant::now();
        let written = volumes.iter().map(|attached| attached.volume.bytes_written()).collect();
        for (place, attached) in volumes.iter().enumerate() {
            let flush = || {
                let (answer, volume) = (sender.clone(), Arc::clone(attached));
                move || {
                    let flushed = volume.make_durable();
                    // Nobody may wait any more.
                    let _ = answer.send((place, flushed.map_err(Error::from)));
                }
            };
            if let Err(error) = std::thread::Builder::new().name("flush".to_owned()).spawn(flush()) {
                // The others wait for it then, however long its device takes: nothing is lost for want of a thread.
                tracing::warn!("volume {}: no thread to flush it: {error}", attached.options.name);
                flush()();
            }
        }
        Self { volumes, began, written, results }
    }

    /// Waits until all have ended, or nothing more has been written for so long of those that have not.
    ///
    /// # Errors
    /// What is not known to be durable, and why.
    pub(crate) fn wait(self, limit: Duration) -> Result<(), Error> {
        let mut outcomes: Vec<_> = self.volumes.iter().map(|_| None).collect();
        let (mut last, mut written) = (self.began, self.written);
        let late = loop {
            match self.results.recv_timeout(LOOK) {
                Ok((place, result)) => {
                    outcomes[place] = Some(result);
                    last = Instant::now();
                }
                Err(RecvTimeoutError::Disconnected) => break "its flush failed inside".to_owned(),
                Err(RecvTimeoutError::Timeout) => {
                    for ((attached, outcome), before) in self.volumes.iter().zip(&outcomes).zip(&mut written) {
                        let now = attached.volume.bytes_written();
                        if outcome.is_none() && *before != now {
                            (*before, last) = (now, Instant::now());
                        }
                    }
                    if last.elapsed() > limit {
                        let limit = humantime::format_duration(limit);
                        break format!("its device has taken nothing for {limit}: it hangs");
                    }
                }
            }
        };
        let unknown = || Err(Error::Failed(format!("what was written to it is not durable: {late}")));
        let outcomes = self.volumes.iter().zip(outcomes);
        Error::of_all(outcomes.filter_map(|(attached, outcome)| {
            Some(outcome.unwrap_or_else(unknown).err()?.of_volume(&attached.options.name))
        }))
    }
}
