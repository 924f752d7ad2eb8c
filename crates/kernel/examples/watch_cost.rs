//! What a watch costs a program: the time of a `pread(2)` that hits, by turns without a watch and with one.
//!
//!     cargo run --release -p forebay-kernel --example watch_cost -- [FOLDER [FOLDER-OF-ANOTHER-FILE-SYSTEM]]
//!
//! Needs root. Prints the median of the rounds, in nanoseconds, and the fastest.

use forebay_kernel::watch::{Event, FileId, Watch, WatchOptions, kernel_device};
use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PAGE: usize = 4096;
const PAGES: u64 = 256;
const READS: u32 = 40_000;
const ROUNDS: usize = 31;

fn main() {
    let mut folders = std::env::args_os().skip(1).map(PathBuf::from);
    let folder = folders.next().unwrap_or_else(std::env::temp_dir);
    let elsewhere = folders.next().unwrap_or_else(|| PathBuf::from("/dev/shm"));
    let path = |folder: &Path, name| folder.join(format!("watch-cost-{name}-{}", std::process::id()));
    let paths = [path(&folder, "followed"), path(&folder, "ignored"), path(&elsewhere, "elsewhere")];
    let files = paths.each_ref().map(|path| {
        std::fs::write(path, vec![7; PAGES as usize * PAGE]).expect("the folders can be written to");
        File::open(path).expect("the file is there")
    });
    let device = kernel_device(files[0].metadata().expect("the file is there").dev());
    let options = WatchOptions { devices: vec![device], ..WatchOptions::default() };

    for (what, bytes) in [("4 KiB", PAGE), ("64 KiB", 16 * PAGE)] {
        let names = ["followed", "ignored", "of another file system"];
        let mut times = [const { Vec::new() }; 6];
        for _ in 0..ROUNDS {
            for (file, times) in files.iter().zip(times.iter_mut()) {
                times.push(time(file, bytes));
            }
            let mut watch = start(&options);
            judge(&mut watch, &files);
            drained(&mut watch, || {
                for (file, times) in files.iter().zip(times[3..].iter_mut()) {
                    times.push(time(file, bytes));
                }
            });
        }
        times.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
        for (at, name) in names.iter().enumerate() {
            let [without, with] = [&times[at], &times[at + 3]];
            let (middle, least) = (ROUNDS / 2, 0);
            println!(
                "{what} of a file {name}: {:.0} ns without a watch, {:.0} with, {:+.0}; fastest {:.0}, {:.0}, {:+.0}",
                without[middle],
                with[middle],
                with[middle] - without[middle],
                without[least],
                with[least],
                with[least] - without[least]
            );
        }
    }
    lost(&options, &files);
    paths.iter().for_each(|path| std::fs::remove_file(path).expect("it was there"));
}

fn start(options: &WatchOptions) -> Watch {
    Watch::start(options).unwrap_or_else(|error| {
        eprintln!("{error}");
        std::process::exit(1)
    })
}

/// Nanoseconds of one read, over many of pages by turns.
fn time(file: &File, bytes: usize) -> f64 {
    let mut buffer = vec![0; bytes];
    let begun = Instant::now();
    for read in 0..READS {
        let at = u64::from(read) * 7 % (PAGES - 15) * PAGE as u64;
        file.read_exact_at(&mut buffer, at).expect("the file is as long");
    }
    begun.elapsed().as_nanos() as f64 / f64::from(READS)
}

/// Follows the first file, and ignores the second.
fn judge(watch: &mut Watch, files: &[File; 3]) {
    let inodes = files.each_ref().map(|file| file.metadata().expect("the file is there").ino());
    for (file, followed) in [(0, true), (1, false)] {
        files[file].read_exact_at(&mut [0], 9 * PAGE as u64).expect("the file is as long");
        let mut found: Option<FileId> = None;
        watch.drain(usize::MAX, &mut |event: &Event| {
            found = Some(event.file).filter(|file_id| file_id.inode == inodes[file]).or(found);
        });
        watch.judge_file(found.expect("the read was seen"), followed).expect("there is memory");
    }
}

/// Does something while a thread empties the ring each millisecond. Returns how many records there were.
fn drained(watch: &mut Watch, work: impl FnOnce()) -> usize {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let drain = scope.spawn(|| {
            let mut records = 0;
            while !over.load(Ordering::Relaxed) {
                records += watch.drain(usize::MAX, &mut |_| {});
                std::thread::sleep(Duration::from_millis(1));
            }
            records + watch.drain(usize::MAX, &mut |_| {})
        });
        work();
        over.store(true, Ordering::Relaxed);
        drain.join().expect("the reader runs through")
    })
}

/// Two threads read as fast as they can: is anything lost?
fn lost(options: &WatchOptions, files: &[File; 3]) {
    let mut watch = start(options);
    judge(&mut watch, files);
    let begun = Instant::now();
    let records = drained(&mut watch, || {
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        time(&files[0], PAGE);
                    }
                });
            }
        });
    });
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "two readers at full speed: {records} events in {seconds:.2} s, {:.0} a second, {} lost",
        records as f64 / seconds,
        watch.lost()
    );
    println!("memory: {} bytes", watch.memory());
}
