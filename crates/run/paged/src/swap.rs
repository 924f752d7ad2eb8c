//! Swap space: a file without a name, of which only what was written is read.

use crate::bits::{Bits, words};
use crate::room::Room;
use forebay_model::presets::Named;
use forebay_model::{Model, SimulatedDevice};
use forebay_pool::device::{Delayed, Device, FileDevice, FileOptions, Timing};
use forebay_run_shared::TrafficCounters;
use rustix::fs::{
    AtFlags, FallocateFlags, MemfdFlags, Mode, OFlags, copy_file_range, fallocate, memfd_create, openat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What requests to a delayed device are counted in.
const SECTOR: u64 = 512;

/// The least swap space that is of use.
const LEAST: u64 = 16 << 20;

/// Bytes copied at a time where the system has no way of its own.
const COPIED: u64 = 256 << 10;

/// The file of a process. It is opened once: after a change of rights or of the root directory none might be opened.
pub(crate) struct Backing {
    folder: File,
    file: File,
    device: Arc<FileDevice>,
    /// The same, as slow as it is to be.
    timed: Arc<dyn Device>,
    room: Room,
}

/// The swap space of one region: a part of the file.
pub(crate) struct Swap {
    backing: Arc<Backing>,
    /// Where it begins.
    start: u64,
    length: u64,
    page: u64,
    /// A bit a page: it has been written.
    bits: Bits,
    /// It is promised room in the file, or has been allocated some.
    promised: Bits,
    allocated: Bits,
    traffic: Arc<TrafficCounters>,
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

/// A file without a name in a folder.
fn nameless(folder: &File) -> io::Result<File> {
    let (flags, mode) = (OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR);
    if let Ok(file) = openat(folder, ".", flags | OFlags::TMPFILE, mode) {
        return Ok(file.into());
    }
    // Not every file system has these.
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let name = format!(".forebay-run-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let file = openat(folder, &name, flags | OFlags::CREATE | OFlags::EXCL, mode)?;
    unlinkat(folder, &name, AtFlags::empty())?;
    Ok(file.into())
}

impl Backing {
    pub(crate) fn new(path: &Path, delay: Option<&Model>) -> io::Result<Self> {
        let folder = File::options().read(true).custom_flags(libc::O_DIRECTORY).open(path)?;
        let file = nameless(&folder)?;
        let own = format!("/proc/thread-self/fd/{}", file.as_raw_fd());
        // Without rings: idle ones are kept for all files of a process, and those of its parent do not work in a child.
        let device = Arc::new(FileDevice::open(own, FileOptions { ring: false, ..FileOptions::default() })?);
        // A limit of files' lengths (`ulimit -f`) shows here rather than when the program wants memory.
        set_len(&device, LEAST).and_then(|()| set_len(&device, 0))?;
        let mut timed = Arc::clone(&device) as Arc<dyn Device>;
        if let Some(model) = delay {
            timed = Arc::new(Delayed::new(timed, Box::new(Slow(SimulatedDevice::new(model, SECTOR)))));
        }
        Ok(Self { folder, file, device, timed, room: Room::default() })
    }

    /// Whether its file system has plenty of room for more, which is taken then.
    pub(crate) fn has_plenty(&self, length: u64) -> io::Result<bool> {
        Ok(self.room.take(length) || self.room.look(&self.file, length)?)
    }

    /// Whether anything is promised room that has none yet.
    pub(crate) fn has_promised(&self) -> bool {
        self.room.promised() > 0
    }

    /// A file for a copy. Where no more files can be made it is in memory.
    pub(crate) fn new_file(&self, length: u64) -> io::Result<File> {
        let Ok(file) = nameless(&self.folder) else { return in_memory(length) };
        file.set_len(length)?;
        Ok(file)
    }
}

/// Makes the file as long as this; the error names the limit of the process if that is why it cannot be.
fn set_len(device: &FileDevice, length: u64) -> io::Result<()> {
    device.set_len(length).map_err(|error| match getrlimit(Resource::Fsize).current {
        Some(most) if error.kind() == io::ErrorKind::FileTooLarge && length > most => io::Error::new(
            error.kind(),
            format!("{error}: `ulimit -f` lets this process write files up to {} KiB", most >> 10),
        ),
        _ => error,
    })
}

fn in_memory(length: u64) -> io::Result<File> {
    let file = File::from(memfd_create("copy", MemfdFlags::CLOEXEC)?);
    file.set_len(length)?;
    Ok(file)
}

impl Swap {
    /// The part of the file that has these bytes, of which nothing has been written, or all was [given up](Device::trim).
    pub(crate) fn new(
        backing: &Arc<Backing>,
        part: Range<u64>,
        page: u64,
        traffic: Arc<TrafficCounters>,
    ) -> io::Result<Self> {
        let Range { start, end } = part;
        if end > backing.device.len() {
            set_len(&backing.device, end)?;
        }
        let length = end - start;
        let [bits, promised, allocated] = [(); 3].map(|()| Bits::new(length.div_ceil(page)));
        Ok(Self { backing: Arc::clone(backing), start, length, page, bits, promised, allocated, traffic })
    }

    fn pages(&self, offset: u64, length: u64) -> Range<u64> {
        offset / self.page..(offset + length).div_ceil(self.page)
    }

    fn is_written(&self, page: u64) -> bool {
        self.bits.has(page)
    }

    fn all_written(&self, offset: u64, length: u64) -> bool {
        self.pages(offset, length).all(|page| self.is_written(page))
    }

    /// Counts a request that reads.
    fn note_read(&self, offset: u64, length: u64) {
        let pages = self.pages(offset, length);
        self.traffic.read.add(pages.end - pages.start);
        self.traffic.reads.add(1);
        self.traffic.sequences.add(self.start + offset, length);
    }

    /// Counts a request that has written.
    fn note_written(&self, offset: u64, length: u64) {
        let pages = self.pages(offset, length);
        self.traffic.written.add(pages.end - pages.start);
        self.traffic.writes.add(1);
    }

    /// Pages have been written, and have their room then.
    fn mark(&self, pages: Range<u64>) {
        pages.clone().for_each(|page| _ = self.bits.set(page, true));
        self.end_promises(pages);
    }

    fn has_no_room(&self, page: u64) -> bool {
        !self.bits.has(page) && !self.allocated.has(page)
    }

    /// Takes room for more from what is known to be free, if that is plenty.
    pub(crate) fn has_budget(&self, length: u64) -> bool {
        self.backing.room.take(length)
    }

    /// Promises the pages of a part their room.
    pub(crate) fn promise(&self, part: &Range<u64>) {
        let mut promised = 0;
        for (word, mask) in words(self.pages(part.start, part.end - part.start)) {
            let has_room =
                [&self.bits, &self.allocated].iter().fold(0, |all, bits| all | bits.0[word].load(Ordering::Acquire));
            let mask = mask & !has_room;
            promised += (mask & !self.promised.0[word].fetch_or(mask, Ordering::AcqRel)).count_ones();
        }
        self.backing.room.promise(u64::from(promised) * self.page);
    }

    fn end_promises(&self, pages: Range<u64>) {
        let end = |(word, mask): (usize, u64)| {
            let promised = self.promised.0[word].load(Ordering::Acquire) & mask;
            if promised == 0 {
                0
            } else {
                (self.promised.0[word].fetch_and(!mask, Ordering::AcqRel) & mask).count_ones()
            }
        };
        let ended: u64 = words(pages).map(end).map(u64::from).sum();
        if ended > 0 {
            self.backing.room.end(ended * self.page);
        }
    }

    /// Has the file system allocate room for the pages of a part that have none: for all, or for those that are promised it.
    ///
    /// # Errors
    /// The system's: it is full.
    pub(crate) fn allocate(&self, part: &Range<u64>, promised: bool) -> io::Result<()> {
        let needs = |page: &u64| self.has_no_room(*page) && (!promised || self.promised.has(*page));
        let mut pages = self.pages(part.start, part.end - part.start);
        while let Some(first) = pages.find(needs) {
            let end = pages.find(|page| !needs(page)).unwrap_or(pages.end);
            // Before it is so: where it fails the file system may have allocated some.
            (first..end).for_each(|page| _ = self.allocated.set(page, true));
            let (at, length) = (self.start + first * self.page, (end - first) * self.page);
            loop {
                match fallocate(&self.backing.file, FallocateFlags::KEEP_SIZE, at, length) {
                    Err(Errno::INTR) => {}
                    // It cannot be reserved on this file system.
                    Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NODEV) => break,
                    done => break done?,
                }
            }
            self.end_promises(first..end);
        }
        Ok(())
    }

    /// What was written of a part, in order.
    pub(crate) fn written(&self, part: &Range<u64>) -> Vec<Range<u64>> {
        let mut written = Vec::new();
        if part.is_empty() {
            return written;
        }
        let mut pages = self.pages(part.start, part.end - part.start);
        while let Some(first) = pages.find(|&page| self.is_written(page)) {
            let end = pages.find(|&page| !self.is_written(page)).unwrap_or(pages.end);
            // A part may begin or end within a page.
            written.push((first * self.page).max(part.start)..(end * self.page).min(part.end));
        }
        written
    }

    /// Copies what was written of a part to a file, where it begins at `at`. Nothing of it may be dirty.
    pub(crate) fn copy(&self, part: &Range<u64>, to: &File, at: u64) -> io::Result<()> {
        self.written(part).into_iter().try_for_each(|written| {
            let at = at + written.start - part.start;
            copy_file(&self.backing.file, self.start + written.start..self.start + written.end, to, at)
        })
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
                self.note_read(offset, length as u64);
                self.backing.timed.read(self.start + offset, &mut [IoSliceMut::new(part)])?;
            } else {
                self.traffic.compulsory.add(end - start);
                part.fill(0);
            }
            (offset, buffer) = (offset + length as u64, rest);
        }
        Ok(())
    }
}

/// Copies a part of a file to another, where it begins at `at`.
fn copy_file(file: &File, part: Range<u64>, to: &File, mut at: u64) -> io::Result<()> {
    let mut from = part.start;
    while from < part.end {
        let left = part.end - from;
        match copy_file_range(file, Some(&mut from), to, Some(&mut at), left as usize) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(Errno::INTR) => {}
            // They are on file systems that have no common way.
            Err(Errno::XDEV | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => {
                let mut bytes = vec![0; left.min(COPIED) as usize];
                file.read_exact_at(&mut bytes, from)?;
                to.write_all_at(&bytes, at)?;
                from += bytes.len() as u64;
                at += bytes.len() as u64;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

impl Drop for Swap {
    fn drop(&mut self) {
        self.end_promises(self.pages(0, self.length));
    }
}

impl Device for Swap {
    fn len(&self) -> u64 {
        self.length
    }

    /// What lies together is one request: to a disk that is as slow as it is to be, many cost more.
    fn read(&self, mut offset: u64, mut buffers: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        while !buffers.is_empty() {
            let (mut count, mut length) = (0, 0);
            while let Some(next) = buffers.get(count)
                && self.all_written(offset + length, next.len() as u64)
            {
                (count, length) = (count + 1, length + next.len() as u64);
            }
            let (now, later) = buffers.split_at_mut(count.max(1));
            if count > 0 {
                self.note_read(offset, length);
                self.backing.timed.read(self.start + offset, now)?;
            } else {
                length = now[0].len() as u64;
                self.read_some(offset, &mut now[0])?;
            }
            (offset, buffers) = (offset + length, later);
        }
        Ok(())
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<()> {
        let length = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        self.mark(self.pages(offset, length));
        self.backing.timed.write(self.start + offset, buffers)?;
        self.note_written(offset, length);
        Ok(())
    }

    fn read_many(&self, runs: &mut [(u64, IoSliceMut<'_>)]) -> Vec<io::Result<()>> {
        if runs.iter().all(|(offset, run)| self.all_written(*offset, run.len() as u64)) {
            for (offset, run) in runs.iter_mut() {
                self.note_read(*offset, run.len() as u64);
                *offset += self.start;
            }
            let read = self.backing.timed.read_many(runs);
            runs.iter_mut().for_each(|run| run.0 -= self.start);
            return read;
        }
        runs.iter_mut().map(|(offset, run)| self.read_some(*offset, run)).collect()
    }

    fn write_many(&self, runs: &[(u64, IoSlice<'_>)]) -> Vec<io::Result<()>> {
        for (offset, run) in runs {
            self.mark(self.pages(*offset, run.len() as u64));
        }
        let moved: Vec<_> = runs.iter().map(|&(offset, run)| (self.start + offset, run)).collect();
        let written = self.backing.timed.write_many(&moved);
        for ((offset, run), _) in runs.iter().zip(&written).filter(|(_, written)| written.is_ok()) {
            self.note_written(*offset, run.len() as u64);
        }
        written
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
        self.end_promises(pages.clone());
        let written = pages.clone().any(|page| self.is_written(page));
        if !written && !pages.clone().any(|page| self.allocated.has(page)) {
            return Ok(());
        }
        // What was allocated alone is no request to the device.
        let device = if written { &*self.backing.timed } else { &*self.backing.device };
        device.write_zeroes(self.start + offset, length, false)?;
        for page in pages {
            self.bits.set(page, false);
            self.allocated.set(page, false);
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
    fn a_page_is_promised_its_room_once_until_it_is_written_or_given_up() {
        const PAGE: u64 = 4096;
        let backing = Arc::new(Backing::new(Path::new("/var/tmp"), None).expect("a file"));
        let swap = Swap::new(&backing, 0..200 * PAGE, PAGE, Arc::default()).expect("there is room");
        let promised = || backing.room.promised() / PAGE;
        swap.promise(&(3 * PAGE..130 * PAGE));
        swap.promise(&(63 * PAGE + 1..131 * PAGE));
        assert_eq!(promised(), 128);
        swap.write(64 * PAGE, &[IoSlice::new(&[7; 2 * PAGE as usize])]).expect("it is written");
        assert_eq!(promised(), 126);
        swap.promise(&(0..200 * PAGE));
        assert_eq!(promised(), 198, "what is written has its room");
        swap.allocate(&(100 * PAGE..110 * PAGE), true).expect("there is room");
        assert_eq!(promised(), 188);
        let written = || swap.written(&(0..200 * PAGE));
        let two = 64 * PAGE..66 * PAGE;
        assert_eq!(written(), [two], "what is allocated is not written");
        swap.trim(60 * PAGE, 140 * PAGE).expect("it is given up");
        assert_eq!((promised(), written()), (60, Vec::new()));
        swap.promise(&(100 * PAGE..101 * PAGE));
        assert_eq!(promised(), 61, "what was allocated has been given back");
        drop(swap);
        assert_eq!(promised(), 0);
    }

    #[test]
    fn what_was_never_written_is_zeroes_and_is_not_read() {
        const PAGE: u64 = 4096;
        let traffic = Arc::new(TrafficCounters::default());
        let backing = Arc::new(Backing::new(Path::new("/var/tmp"), None).expect("a file"));
        // Another's part, so that this one does not begin where the file does.
        let other = Swap::new(&backing, 0..3 * PAGE, PAGE, Arc::default()).expect("there is room");
        other.write(0, &[IoSlice::new(&[8; 3 * PAGE as usize])]).expect("it is written");
        let swap = Swap::new(&backing, 3 * PAGE..203 * PAGE, PAGE, Arc::clone(&traffic)).expect("there is room");
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
        let counts = [&traffic.compulsory, &traffic.read, &traffic.written].map(|count| count.get());
        assert_eq!(counts, [196, 4, 4]);
        let requests = || (traffic.reads.get(), traffic.writes.get());
        assert_eq!(requests(), (3, 4), "pages 1 and 2 lie together");
        let (mut first, mut rest) = (page(9), vec![9; 3 * PAGE as usize]);
        let (begin, end) = rest.split_at_mut(PAGE as usize);
        let buffers = &mut [IoSliceMut::new(&mut first), IoSliceMut::new(begin), IoSliceMut::new(end)];
        swap.read(0, buffers).expect("it is read");
        assert_eq!([first[0], begin[0], end[0], end[PAGE as usize]], [0, 1, 2, 0]);
        assert_eq!(requests(), (5, 4), "the buffer of page 1, and that of page 2 and what is zeroes");
        let mut both = [page(9), page(9)];
        swap.read(PAGE, &mut both.each_mut().map(|bytes| IoSliceMut::new(bytes))).expect("it is read");
        assert_eq!((both[0][0], both[1][0], requests()), (1, 2, (6, 4)), "two buffers, one request");
        let both = PAGE + 7..3 * PAGE;
        assert_eq!(swap.written(&(PAGE + 7..PAGE * 70)), [both]);
        let in_memory = in_memory(300 * PAGE).expect("a file");
        for copy in [backing.new_file(300 * PAGE).expect("a file"), in_memory] {
            // From within page 1 to within page 70.
            swap.copy(&(PAGE + 1024..70 * PAGE + 512), &copy, 11 * PAGE + 1024).expect("it is copied");
            copy.read_exact_at(&mut all, 0).expect("it is read");
            let at = |place: u64| all[place as usize];
            assert_eq!([at(11 * PAGE + 1023), at(11 * PAGE + 1024), at(12 * PAGE), at(13 * PAGE)], [0, 1, 2, 0]);
            assert_eq!([at(80 * PAGE - 1), at(80 * PAGE), at(80 * PAGE + 511), at(80 * PAGE + 512)], [0, 70, 70, 0]);
        }
        swap.write_zeroes(0, 200 * PAGE, false).expect("it is zeroes");
        swap.read(70 * PAGE, &mut [IoSliceMut::new(&mut all[..PAGE as usize])]).expect("it is read");
        assert!(all[..PAGE as usize].iter().all(|&byte| byte == 0));
    }
}
