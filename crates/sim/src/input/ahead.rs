//! Reading ahead: a trace is decompressed and parsed on a thread of its own, which hands over batches of requests.

use forebay_trace::{Names, Reader, Request, Result};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::time::{Duration, Instant};

/// Requests handed over at once: waking the other thread costs some 10 µs, so it must be rare, and 40 bytes each.
const HANDED_OVER: usize = 1 << 14;
/// Batches that may wait.
const WAITING: usize = 4;

/// The requests of a trace, in the order in which they are read.
pub(crate) struct Batches {
    full: Receiver<Result<(Vec<Request>, Option<f64>)>>,
    /// Batches done with, to be filled again.
    empty: Sender<Vec<Request>>,
    /// The share of the trace that is read, where that is known.
    pub(crate) share: Option<f64>,
}

impl Batches {
    /// Puts the next requests in place of those in `batch`; `false` once the trace has ended.
    pub(crate) fn next(&mut self, batch: &mut Vec<Request>) -> Result<bool> {
        let Ok(next) = self.full.recv() else { return Ok(false) };
        let (next, share) = next?;
        self.share = share;
        // If the reader has ended it needs no more batches.
        let _ = self.empty.send(std::mem::replace(batch, next));
        Ok(true)
    }
}

/// What reading gave besides the requests.
pub(crate) struct Read {
    pub(crate) names: Names,
    /// The time that it took, without the time in which it waited.
    pub(crate) time: Duration,
}

/// Reads a trace while `consume` takes its requests, which may end before the trace does.
pub(crate) fn read_ahead<T>(reader: &mut dyn Reader, consume: impl FnOnce(Batches) -> T) -> (T, Read) {
    let (to_consumer, full) = sync_channel(WAITING);
    let (empty, from_consumer) = channel();
    std::thread::scope(|scope| {
        let reading = scope.spawn(move || {
            let mut read = Read { names: Names::new(), time: Duration::ZERO };
            let mut more = true;
            while more {
                let mut batch: Vec<Request> = from_consumer.try_recv().unwrap_or_default();
                let start = Instant::now();
                batch.clear();
                let filled = reader.fill(&mut read.names, HANDED_OVER, &mut batch);
                read.time += start.elapsed();
                more = matches!(filled, Ok(true));
                // What was read before an error still counts: the error comes after it.
                let sent = to_consumer.send(Ok((batch, reader.share()))).is_ok();
                if let (true, Err(error)) = (sent, filled) {
                    // Nobody is left to be told if the consumer has ended.
                    let _ = to_consumer.send(Err(error));
                }
                more &= sent;
            }
            read
        });
        let consumed = consume(Batches { full, empty, share: None });
        (consumed, reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_trace::{Input, Options};

    fn reader(text: String) -> Box<dyn Reader> {
        forebay_trace::reader::read(Input::from_bytes("test", text).unwrap(), &Options::default()).unwrap().1
    }

    fn blocks(text: String) -> (Vec<u64>, Result<bool>) {
        let (read, _) = read_ahead(reader(text).as_mut(), |mut batches| {
            let (mut batch, mut all) = (Vec::new(), Vec::new());
            loop {
                match batches.next(&mut batch) {
                    Ok(true) => all.extend(batch.iter().map(|request| request.offset)),
                    end => return (all, end),
                }
            }
        });
        read
    }

    fn lines(numbers: std::ops::Range<u64>) -> String {
        numbers.map(|number| format!("{number} 1 0 0\n")).collect()
    }

    #[test]
    fn every_request_comes_once_and_in_order() {
        let (seen, end) = blocks(lines(0..3 * HANDED_OVER as u64 + 7));
        assert!(seen.into_iter().eq(0..3 * HANDED_OVER as u64 + 7) && !end.unwrap());
    }

    #[test]
    fn an_error_comes_after_the_requests_before_it() {
        let (seen, end) = blocks(lines(0..100_000) + "x\n");
        assert_eq!((seen.len(), end.unwrap_err().to_string().contains("line 100001")), (100_000, true));
    }

    #[test]
    fn who_has_seen_enough_may_end_before_the_trace() {
        let mut reader = forebay_trace::open("scan:references=1G".as_ref(), &Options::default()).unwrap().1;
        let (first, _) = read_ahead(reader.as_mut(), |mut batches| {
            let mut batch = Vec::new();
            batches.next(&mut batch).unwrap();
            batch.len()
        });
        assert_eq!(first, HANDED_OVER);
    }
}
