//! A program that is killed: what it has synced is in its file.

use crate::common::{PAGE, in_another_process, limit, map, pager, role};
use forebay_pool::device::{FileDevice, FileOptions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

const PAGES: usize = 256;

/// How many programs are killed, if it is said: `FOREBAY_PAGER_KILLS=200 cargo test -p forebay-pager what_was_synced`.
const KILLS: &str = "FOREBAY_PAGER_KILLS";

/// Writes round after round a number into each page, and says which round is durable.
fn write_rounds(path: &str) {
    let pager = pager("clock-pro", 32 * PAGE);
    let device = Arc::new(FileDevice::open(path, FileOptions::default()).expect("the file"));
    let mut region = map(&pager, &device);
    for round in 1_u64.. {
        for page in 0..PAGES {
            region[page * PAGE + page % 500..][..8].copy_from_slice(&round.to_le_bytes());
        }
        region.sync().expect("it is durable");
        println!("durable {round}");
    }
}

#[test]
fn what_was_synced_survives_kill_9() {
    if let Some(path) = role() {
        write_rounds(&path);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("data");
    let file = std::fs::File::options().read(true).write(true).create_new(true).open(&path).expect("a file");
    file.set_len((PAGES * PAGE) as u64).expect("it has room");
    let kills = std::env::var(KILLS).map_or(20, |kills| kills.parse().expect("a number of kills"));
    for kill in 0..kills {
        let _limit = limit("a program that is killed");
        let path = path.to_str().expect("a name");
        let mut child = in_another_process("crashes::what_was_synced_survives_kill_9", path);
        let mut lines = BufReader::new(child.stdout.take().expect("it prints")).lines();
        let durable =
            |line: &str| line.split_once("durable ").map(|(_, round)| round.parse::<u64>().expect("a number"));
        let mut last = 0;
        while last < 2 + kill % 3 {
            let line = lines.next().expect("it goes on").expect("text");
            last = durable(&line).unwrap_or(last);
        }
        // Anywhere in its next round, or in the sync at its end.
        std::thread::sleep(Duration::from_micros(kill * 7919 % 40 * 100));
        child.kill().expect("it is killed");
        last = lines.map_while(Result::ok).filter_map(|line| durable(&line)).last().unwrap_or(last);
        child.wait().expect("it has ended");
        let mut newer = 0;
        for page in 0..PAGES {
            let mut bytes = [0; 8];
            file.read_exact_at(&mut bytes, (page * PAGE + page % 500) as u64).expect("it is read");
            let found = u64::from_le_bytes(bytes);
            assert!((last..=last + 1).contains(&found), "kill {kill}: page {page} has round {found} of {last}");
            newer += u64::from(found > last);
        }
        println!("kill {kill}: round {last} is durable, {newer} of {PAGES} pages are of the next");
    }
}
