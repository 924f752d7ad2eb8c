//! A process that says that it uses a shared file once takes nothing from the others.

use crate::managers::{misses, under};
use crate::mounted::Mounted;
use crate::reader::Reader;
use libc::{POSIX_FADV_NOREUSE, POSIX_FADV_NORMAL, POSIX_FADV_RANDOM};

/// The misses of a process that reads 15 of 20 frames' pages again and again, while another scans the rest of the same file.
fn missed(mounted: &Mounted, reader: &mut Reader, scanner: &mut Reader) -> u64 {
    let path = mounted.seen("store");
    let mut scanned = 0;
    let pages = (0..4).flat_map(|_| 0..15);
    let missed = pages.map(|page| {
        scanner.read(&path, 16 + scanned % 48);
        scanned += 1;
        misses(mounted, || reader.read(&path, page))
    });
    missed.sum()
}

/// All of four rounds.
const ALL: u64 = 60;
/// The first round, when nothing is there yet.
const FIRST: u64 = 15;

#[test]
fn the_hint_of_a_scan_keeps_the_pages_of_who_reads_the_same_file() {
    let Some(mounted) = under("", &["store"]) else { return };
    let (mut reader, mut scanner) = (Reader::new("kv-get"), Reader::new("kv-scan"));
    let path = mounted.seen("store");
    assert_eq!(missed(&mounted, &mut reader, &mut scanner), ALL, "the scan pushes out what is read");
    assert_eq!(scanner.hint(&path, POSIX_FADV_NOREUSE as u32), 0);
    assert_eq!(scanner.hint(&path, POSIX_FADV_RANDOM as u32), 0, "as RocksDB says of each file");
    missed(&mounted, &mut reader, &mut scanner);
    assert_eq!(missed(&mounted, &mut reader, &mut scanner), 0, "the scan says that it reads nothing twice");
    assert_eq!(scanner.hint(&path, POSIX_FADV_NORMAL as u32), 0);
    missed(&mounted, &mut reader, &mut scanner);
    assert_eq!(missed(&mounted, &mut reader, &mut scanner), ALL, "the hint is taken back");
    mounted.pool.check_invariants();
    drop((reader, scanner));
    mounted.stop();
}

#[test]
fn a_rule_that_names_the_scan_does_the_same_whoever_comes_first() {
    for scan_first in [false, true] {
        let text = "[[manager]]\nname = \"access-once\"\nowners = [\"kv-scan *\"]\n";
        let Some(mounted) = under(text, &["store"]) else { return };
        let (mut reader, mut scanner) = (Reader::new("kv-get"), Reader::new("kv-scan"));
        if scan_first {
            (0..64).for_each(|page| scanner.read(&mounted.seen("store"), page));
        } else {
            reader.read(&mounted.seen("store"), 63);
        }
        assert!(missed(&mounted, &mut reader, &mut scanner) <= FIRST, "the scan first: {scan_first}");
        mounted.pool.check_invariants();
        drop((reader, scanner));
        mounted.stop();
    }
}
