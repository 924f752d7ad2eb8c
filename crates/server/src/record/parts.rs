//! The parts of a trace that is being recorded: files beside it, which are whole.

use super::queue::{End, Queue};
use forebay_trace::write::folder_of;
use forebay_trace::{
    AtEnd, Circumstances, ConvertOptions, Error, Names, Options, Reader, Request, Unit, convert, open,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The whole parts of a trace.
#[derive(Clone)]
pub(super) struct Parts {
    path: PathBuf,
    page_size: u64,
    circumstances: Circumstances,
    at_end: AtEnd,
    parts: Vec<PathBuf>,
    /// The number of the part that was begun last.
    number: u32,
}

impl Parts {
    pub(super) fn of(path: &Path, page_size: u64, circumstances: Circumstances, at_end: AtEnd) -> Self {
        Self { path: path.to_owned(), page_size, circumstances, at_end, parts: Vec::new(), number: 0 }
    }

    fn options(&self) -> ConvertOptions {
        let circumstances = Some(self.circumstances.clone());
        ConvertOptions {
            page_size: Some(self.page_size),
            force: false,
            circumstances,
            at_end: Some(self.at_end.clone()),
        }
    }

    /// The next part's file: `data.parquet` has `data.part-1.parquet`. One that is left of a server that was killed is kept.
    fn next(&mut self) -> PathBuf {
        let extension = self.path.extension().unwrap_or_default().to_string_lossy();
        loop {
            self.number += 1;
            let part = self.path.with_extension(format!("part-{}.{extension}", self.number));
            let Some(left) = left_of(&part) else { return part };
            tracing::warn!("{}: is left of a recording that was not completed, and stays as it is", left.display());
        }
    }

    /// Whether a file of this name would be in the way of the trace or of one of its parts.
    pub(super) fn take(trace: &Path, name: &Path) -> bool {
        let folder = |path: &Path| folder_of(path).canonicalize().ok();
        let part = || {
            let (stem, name) = (trace.file_stem()?.to_str()?, name.file_stem()?.to_str()?);
            name.strip_prefix(stem)?.strip_prefix(".part-")?.parse::<u32>().ok()
        };
        let named = name.file_name() == trace.file_name() || name.extension() == trace.extension() && part().is_some();
        named && folder(name) == folder(trace)
    }

    /// Where to find what was recorded, if the trace could not be completed.
    pub(super) fn kept(&self) -> String {
        let parts: Vec<String> = self.parts.iter().map(|part| part.display().to_string()).collect();
        if parts.is_empty() {
            return "nothing of the recording could be kept".to_owned();
        }
        format!("what could be recorded is in {}", parts.join(", "))
    }

    /// Writes what comes until nobody sends any more; `count` is told how many references those are.
    pub(super) fn write(mut self, queue: &mut Queue, count: &AtomicU64) -> (Self, forebay_trace::Result<()>) {
        loop {
            let before = count.load(Ordering::Relaxed);
            let mut progress = |written| count.store(before + written, Ordering::Relaxed);
            let part = self.next();
            if let Err(error) = convert(queue, &part, &self.options(), &mut progress) {
                return (self, Err(error));
            }
            self.parts.push(part);
            match queue.next_part() {
                // Who has asked may have gone.
                End::Cut(answer) => drop(answer.send(self.clone())),
                End::Stopped => return (self, Ok(())),
            }
        }
    }

    /// Writes all parts as one trace, and returns its references; `copied` grows by as many.
    pub(super) fn copy_to(&self, path: &Path, copied: &AtomicU64) -> forebay_trace::Result<u64> {
        let mut all = Joined { left: self.parts.clone().into_iter(), part: None };
        let before = copied.load(Ordering::Relaxed);
        let mut progress = |written| copied.store(before + written, Ordering::Relaxed);
        convert(&mut all, path, &self.options(), &mut progress)
    }

    /// Makes the parts the trace that was asked for.
    pub(super) fn complete(&self, copied: &AtomicU64) -> forebay_trace::Result<()> {
        if self.path.exists() {
            let file = self.path.display().to_string();
            return Err(Error::new(file, "has been made by another meanwhile, and is kept"));
        }
        if let [part] = &self.parts[..]
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

/// A file of this name, or one that was to become it.
fn left_of(part: &Path) -> Option<PathBuf> {
    let name = part.file_name()?.as_encoded_bytes();
    let mut entries = folder_of(part).read_dir().ok()?.map_while(Result::ok);
    entries.find(|entry| entry.file_name().as_encoded_bytes().starts_with(name)).map(|entry| entry.path())
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

    fn has_lengths(&self) -> bool {
        true
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
