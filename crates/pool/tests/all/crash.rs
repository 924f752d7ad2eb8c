//! A process is killed while it writes and flushes, and its device loses writes that were not flushed: what a flush
//! acknowledged is in the file, and of what came later each sector is old or new.
//!
//! The test runs itself as the process to be killed, which tells through its output how many writes each flush covers. Both know
//! from the seed which writes there are.

use forebay_policy::Spec;
use forebay_pool::device::{FileDevice, FileOptions, Volatile};
use forebay_pool::{Config, Durability, Pool, VolumeConfig, WriteMode};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const PAGE: u64 = 4096;
const SECTOR: u64 = 512;
const BLOCKS: u64 = 64;
const FILE: &str = "FOREBAY_CRASH_FILE";
const SEED: &str = "FOREBAY_CRASH_SEED";
const ROUNDS: u64 = 24;

/// The writes of a seed, of which there is no end: each where, and how durable.
struct Writes(u64);

impl Writes {
    fn random(&mut self) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

/// A range of sectors; a tenth of the writes force unit access.
struct WriteOf {
    sectors: Range<u64>,
    durability: Durability,
}

impl Iterator for Writes {
    type Item = WriteOf;

    fn next(&mut self) -> Option<WriteOf> {
        let start = self.random() % (BLOCKS * PAGE / SECTOR);
        let end = (start + 1 + self.random() % 24).min(BLOCKS * PAGE / SECTOR);
        let durability = if self.random().is_multiple_of(10) { Durability::Now } else { Durability::Flush };
        Some(WriteOf { sectors: start..end, durability })
    }
}

/// What the write of a number, counted from 1, puts into a sector: its number, and the sector's, again and again.
fn contents(number: u64, sector: u64) -> [u8; SECTOR as usize] {
    let mut bytes = [0; SECTOR as usize];
    for word in bytes.chunks_exact_mut(16) {
        word[..8].copy_from_slice(&number.to_le_bytes());
        word[8..].copy_from_slice(&sector.to_le_bytes());
    }
    bytes
}

/// The process that is killed. A line `flushed N`: the first N writes are durable; `forced N`: the N-th is.
fn write_until_killed(path: &Path, seed: u64) {
    let options = FileOptions { direct: false, ring: false, ..FileOptions::default() };
    let device = Volatile::new(FileDevice::open(path, options).expect("the file opens"));
    let mut policies: Vec<Spec> = Spec::all().into_iter().filter(|spec| !spec.needs_future()).collect();
    let policy = policies.swap_remove(seed as usize % policies.len());
    let config = Config { dirty_age: Duration::from_millis(1), ..Config::new(16 * PAGE, policy) };
    let pool = Pool::new(config).expect("a pool");
    let mode = if seed.is_multiple_of(3) { WriteMode::Through } else { WriteMode::Back };
    let volume = pool.attach(Arc::new(device), VolumeConfig { mode, ..VolumeConfig::new("crash") });
    let handle = pool.handle().expect("a handle");
    let mut tell = std::io::stdout();
    for (number, write) in (1..).zip(Writes(seed)) {
        let data: Vec<u8> = write.sectors.clone().flat_map(|sector| contents(number, sector)).collect();
        handle.write_at(&volume, write.sectors.start * SECTOR, &data, write.durability).expect("a write");
        // Not `println`, whose output the test's harness may keep to itself.
        if write.durability == Durability::Now {
            writeln!(tell, "forced {number}").expect("the parent listens");
        }
        if number % 7 == seed % 7 {
            handle.flush(&volume).expect("a flush");
            writeln!(tell, "flushed {number}").expect("the parent listens");
        }
    }
}

/// Starts the process, kills it after this many acknowledgements, and returns how many writes were flushed and which were forced.
fn kill_after(path: &Path, seed: u64, acknowledgements: usize) -> (u64, BTreeSet<u64>) {
    let test = std::env::current_exe().expect("this test is a file");
    let mut child = Command::new(test)
        .args([
            "--exact",
            "crash::what_was_flushed_survives_a_kill_and_nothing_is_mixed",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(FILE, path)
        .env(SEED, seed.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the process starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its output is a pipe")).lines();
    let (mut flushed, mut forced) = (0, BTreeSet::new());
    let mut seen = 0;
    let mut take = |line: &str| {
        // The harness begins the test's first line with its own words.
        let mut words = line.split(' ').rev();
        let (Some(Ok(number)), Some(kind)) = (words.next().map(str::parse), words.next()) else { return };
        match kind {
            "flushed" => flushed = number,
            "forced" => _ = forced.insert(number),
            _ => return,
        }
        seen += 1;
    };
    for line in lines.by_ref().take(acknowledgements) {
        take(&line.expect("lines of text"));
    }
    child.kill().expect("it runs");
    child.wait().expect("it was killed");
    // What it said before it died; its last line may lack its end, and then its number some digits.
    let rest: Vec<String> = lines.map(|line| line.expect("lines of text")).collect();
    rest.iter().rev().skip(1).rev().for_each(|line| take(line));
    assert!(seen > 0, "the process said nothing");
    (flushed, forced)
}

#[test]
fn what_was_flushed_survives_a_kill_and_nothing_is_mixed() {
    if let (Ok(path), Ok(seed)) = (std::env::var(FILE), std::env::var(SEED)) {
        return write_until_killed(Path::new(&path), seed.parse().expect("a number"));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut covered = 0;
    for seed in 0..ROUNDS {
        let path = folder.path().join(seed.to_string());
        let file = std::fs::File::create(&path).expect("a file");
        file.set_len(BLOCKS * PAGE).expect("room");
        let (flushed, forced) = kill_after(&path, seed, 5 + (seed * 37 % 150) as usize);
        covered += flushed;
        let stored = std::fs::read(&path).expect("the file is there");
        // The writes of each sector, the latest last; later ones than any that the process came to are not in the file.
        let mut writes: Vec<Vec<u64>> = vec![vec![0]; (BLOCKS * PAGE / SECTOR) as usize];
        for (number, write) in (1..flushed + 1000).zip(Writes(seed)) {
            write.sectors.for_each(|sector| writes[sector as usize].push(number));
        }
        for (sector, bytes) in (0..).zip(stored.chunks(SECTOR as usize)) {
            let number = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
            let whole = if number == 0 { [0; SECTOR as usize] } else { contents(number, sector) };
            assert!(bytes == whole, "seed {seed}: sector {sector} is mixed");
            let known = &writes[sector as usize];
            assert!(known.contains(&number), "seed {seed}: sector {sector} holds write {number}, made elsewhere");
            let durable = |write: &&u64| **write <= flushed || forced.contains(write);
            let least = known.iter().rfind(durable).expect("write 0 is durable");
            assert!(number >= *least, "seed {seed}: sector {sector} holds write {number}, and {least} was durable");
        }
    }
    assert!(covered > 0, "no process came to a flush");
}
