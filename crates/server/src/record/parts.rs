//! The parts of a trace that is being recorded: files beside it, which are whole.

use super::queue::{End, Queue};
use forebay_trace::{ConvertOptions, Names, Options, Reader, Request, Unit, convert, open};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The whole parts of a trace.
#[derive(Clone)]
pub(super) struct Parts {
    path: PathBuf,
    parts: Vec<PathBuf>,
}

impl Parts {
    pub(super) fn of(path: &Path) -> Self {
        Self { path: path.to_owned(), parts: Vec::new() }
    }

    /// The next part's file: `data.parquet` has `data.part-1.parquet`.
    fn next(&self) -> PathBuf {
        let extension = self.path.extension().unwrap_or_default().to_string_lossy();
        self.path.with_extension(format!("part-{}.{extension}", self.parts.len() + 1))
    }

    /// Writes what comes until nobody sends any more; `count` is told how many references those are.
    pub(super) fn write(mut self, queue: &mut Queue, count: &AtomicU64) -> forebay_trace::Result<Self> {
        loop {
            let before = count.load(Ordering::Relaxed);
            let mut progress = |written| count.store(before + written, Ordering::Relaxed);
            let part = self.next();
            convert(queue, &part, &ConvertOptions::default(), &mut progress)?;
            self.parts.push(part);
            match queue.next_part() {
                // Who has asked may have gone.
                End::Cut(answer) => drop(answer.send(self.clone())),
                End::Stopped => return Ok(self),
            }
        }
    }

    /// Writes all parts as one trace, and returns its references; `copied` grows by as many.
    pub(super) fn copy_to(&self, path: &Path, copied: &AtomicU64) -> forebay_trace::Result<u64> {
        let mut all = Joined { left: self.parts.clone().into_iter(), part: None };
        let before = copied.load(Ordering::Relaxed);
        let mut progress = |written| copied.store(before + written, Ordering::Relaxed);
        convert(&mut all, path, &ConvertOptions::default(), &mut progress)
    }

    /// Makes the parts the trace that was asked for.
    pub(super) fn complete(self, copied: &AtomicU64) -> forebay_trace::Result<()> {
        if let [part] = &self.parts[..]
            && !self.path.exists()
            && std::fs::rename(part, &self.path).is_ok()
        {
            return Ok(());
        }
        self.copy_to(&self.path, copied)?;
        for part in &self.parts {
            if let Err(error) = std::fs::remove_file(part) {
                tracing::warn!("{}: cannot be removed: {error}", part.display());
            }
        }
        Ok(())
    }
}

/// Traces read one behind the other.
struct Joined {
    left: std::vec::IntoIter<PathBuf>,
    part: Option<Box<dyn Reader>>,
}

impl Reader for Joined {
    fn unit(&self) -> Unit {
        Unit::Bytes
    }

    fn next(&mut self, names: &mut Names) -> forebay_trace::Result<Option<Request>> {
        loop {
            if let Some(part) = &mut self.part
                && let Some(request) = part.next(names)?
            {
                return Ok(Some(request));
            }
            let Some(path) = self.left.next() else { return Ok(None) };
            self.part = Some(open(&path, &Options::default())?.1);
        }
    }
}
