//! Swap space: a file without a name, of which only what was written is read.

use forebay_model::presets::Named;
use forebay_model::{Model, SimulatedDevice};
use forebay_pool::device::{Delayed, Device, FileDevice, FileOptions, Timing};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What requests to a delayed device are counted in.
const SECTOR: u64 = 512;

/// What went between memory and swap space, in pages.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) compulsory: AtomicU64,
    pub(crate) read: AtomicU64,
    pub(crate) written: AtomicU64,
}

/// The swap space of one region.
pub(crate) struct Swap {
    device: Arc<dyn Device>,
    /// The same file, for copies.
    file: File,
    page: u64,
    /// A bit a page: it has been written.
    written: Vec<AtomicU64>,
    traffic: Arc<Traffic>,
}

/// A device as slow as its model.
struct Slow(SimulatedDevice);

impl Timing for Slow {
    fn service(&mut self, begin: Duration, offset: u64, length: u64, write: bool) -> Duration {
        self.0.serve_alone(begin, offset, length, write)
    }
}

/// The model of a device by its name.
pub(crate) fn model(name: &str) -> Option<Arc<Model>> {
    name.parse().ok().map(|named: Named| named.model)
}

/// A file that nobody else finds, and its path as long as it has one.
pub(crate) fn nameless(folder: &Path, length: u64) -> io::Result<(File, PathBuf)> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!(".forebay-run-{}-{number}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    file.set_len(length).inspect_err(|_| _ = std::fs::remove_file(&path))?;
    Ok((file, path))
}

impl Swap {
    pub(crate) fn create(
        folder: &Path,
        length: u64,
        page: u64,
        delay: Option<&Model>,
        traffic: Arc<Traffic>,
    ) -> io::Result<Self> {
        let (file, path) = nameless(folder, length)?;
        // Without rings: idle ones are kept for all files of a process, and those of its parent do not work in a child.
        let opened = FileDevice::open(&path, FileOptions { ring: false, ..FileOptions::default() });
        std::fs::remove_file(&path)?;
        let mut device: Arc<dyn Device> = Arc::new(opened?);
        if let Some(model) = delay {
            device = Arc::new(Delayed::new(device, Box::new(Slow(SimulatedDevice::new(model, SECTOR)))));
        }
        let written = (0..length.div_ceil(page).div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Ok(Self { device, file, page, written, traffic })
    }

    fn pages(&self, offset: u64, length: u64) -> Range<u64> {
        offset / self.page..(offset + length).div_ceil(self.page)
    }

    fn is_written(&self, page: u64) -> bool {
        self.written[(page / 64) as usize].load(Ordering::Acquire) >> (page % 64) & 1 == 1
    }

    fn mark(&self, pages: Range<u64>, written: bool) {
        for page in pages {
            let (word, bit) = (&self.written[(page / 64) as usize], 1 << (page % 64));
            if written {
                word.fetch_or(bit, Ordering::AcqRel)
            } else {
                word.fetch_and(!bit, Ordering::AcqRel)
            };
        }
    }

    /// Copies what was written of a part to the same place behind `shift` of a file. Nothing of it may be dirty.
    pub(crate) fn copy(&self, part: Range<u64>, to: &File, shift: u64) -> io::Result<()> {
        let mut pages = self.pages(part.start, part.end - part.start);
        while let Some(first) = pages.find(|&page| self.is_written(page)) {
            let end = pages.find(|&page| !self.is_written(page)).unwrap_or(pages.end);
            let (mut from, end) = ((first * self.page) as i64, (end * self.page) as i64);
            while from < end {
                let mut at = from + shift as i64;
                let (source, target) = (self.file.as_raw_fd(), to.as_raw_fd());
                // SAFETY: both offsets are places of this function's.
                let copied = unsafe {
                    libc::copy_file_range(source, &raw mut from, target, &raw mut at, (end - from) as usize, 0)
                };
                match copied {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    copied if copied < 0 => return Err(io::Error::last_os_error()),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Reads what was written; the rest is zeroes.
    fn read_some(&self, mut offset: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            let Range { start, end: last } = self.pages(offset, buffer.len() as u64);
            let written = self.is_written(start);
            let end = (start + 1..last).find(|&page| self.is_written(page) != written).unwrap_or(last);
            let length = ((end * self.page - offset) as usize).min(buffer.len());
            let (part, rest) = buffer.split_at_mut(length);
            if written {
                self.traffic.read.fetch_add(end - start, Ordering::Relaxed);
                self.device.read(offset, &mut [IoSliceMut::new(part)])?;
            } else {
                self.traffic.compulsory.fetch_add(end - start, Ordering::Relaxed);
                part.fill(0);
            }
            (offset, buffer) = (offset + length as u64, rest);
        }
        Ok(())
    }
}

impl Device for Swap {
    fn len(&self) -> u64 {
        self.device.len()
    }

    fn read(&self, mut offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        for buffer in buffers {
            self.read_some(offset, buffer)?;
            offset += buffer.len() as u64;
        }
        Ok(())
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<()> {
        let length = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        let pages = self.pages(offset, length);
        self.traffic.written.fetch_add(pages.end - pages.start, Ordering::Relaxed);
        self.mark(pages, true);
        self.device.write(offset, buffers)
    }

    fn read_many(&self, runs: &mut [(u64, IoSliceMut<'_>)]) -> Vec<io::Result<()>> {
        let all_written = |offset, length| self.pages(offset, length).all(|page| self.is_written(page));
        if runs.iter().all(|(offset, run)| all_written(*offset, run.len() as u64)) {
            let pages: u64 = runs.iter().map(|(_, run)| run.len() as u64 / self.page).sum();
            self.traffic.read.fetch_add(pages, Ordering::Relaxed);
            return self.device.read_many(runs);
        }
        runs.iter_mut().map(|(offset, run)| self.read_some(*offset, run)).collect()
    }

    fn write_many(&self, runs: &[(u64, IoSlice<'_>)]) -> Vec<io::Result<()>> {
        for (offset, run) in runs {
            let pages = self.pages(*offset, run.len() as u64);
            self.traffic.written.fetch_add(pages.end - pages.start, Ordering::Relaxed);
            self.mark(pages, true);
        }
        self.device.write_many(runs)
    }

    /// Nothing of it outlives the process.
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn trim(&self, offset: u64, length: u64) -> io::Result<()> {
        self.write_zeroes(offset, length, false)
    }

    fn write_zeroes(&self, offset: u64, length: u64, _: bool) -> io::Result<()> {
        let pages = self.pages(offset, length);
        if pages.clone().any(|page| self.is_written(page)) {
            self.device.write_zeroes(offset, length, false)?;
            self.mark(pages, false);
        }
        Ok(())
    }

    fn zeroes_fast(&self) -> bool {
        true
    }

    fn describe(&self) -> String {
        "swap space".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_never_written_is_zeroes_and_is_not_read() {
        const PAGE: u64 = 4096;
        let traffic = Arc::new(Traffic::default());
        let swap = Swap::create(Path::new("/var/tmp"), 200 * PAGE, PAGE, None, Arc::clone(&traffic)).expect("a file");
        let page = |byte: u8| vec![byte; PAGE as usize];
        for written in [1, 2, 70, 199] {
            swap.write(written * PAGE, &[IoSlice::new(&page(written as u8))]).expect("it is written");
        }
        let mut all = vec![9; 200 * PAGE as usize];
        swap.read(0, &mut [IoSliceMut::new(&mut all)]).expect("it is read");
        for (number, bytes) in all.chunks(PAGE as usize).enumerate() {
            let expected = if [1, 2, 70, 199].contains(&number) { number as u8 } else { 0 };
            assert!(bytes.iter().all(|&byte| byte == expected), "page {number}");
        }
        let counts = [&traffic.compulsory, &traffic.read, &traffic.written].map(|count| count.load(Ordering::Relaxed));
        assert_eq!(counts, [196, 4, 4]);
        let (copy, path) = nameless(Path::new("/var/tmp"), 300 * PAGE).expect("a file");
        std::fs::remove_file(path).expect("it has a name");
        swap.copy(PAGE..71 * PAGE, &copy, 10 * PAGE).expect("it is copied");
        std::os::unix::fs::FileExt::read_exact_at(&copy, &mut all, 0).expect("it is read");
        assert_eq!(all[(80 * PAGE) as usize], 70);
        assert_eq!(all[(70 * PAGE) as usize], 0);
        swap.write_zeroes(0, 200 * PAGE, false).expect("it is zeroes");
        swap.read(70 * PAGE, &mut [IoSliceMut::new(&mut all[..PAGE as usize])]).expect("it is read");
        assert!(all[..PAGE as usize].iter().all(|&byte| byte == 0));
    }
}
