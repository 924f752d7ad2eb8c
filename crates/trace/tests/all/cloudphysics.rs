//! The real vSCSI trace that libCacheSim ships as its sample, read whole. Its counts were taken from the file by a few
//! lines of Python's `struct`, independently of the reader.

use crate::real_trace::real_trace;
use forebay_basis::Operation;
use forebay_trace::{Names, Options, open};
use std::collections::HashSet;

#[test]
fn the_cloudphysics_trace_is_read_whole() {
    let Some(path) = real_trace("block/cloudPhysicsIO.vscsi.zst") else { return };
    let (format, mut reader) = open(&path, &Options::default()).expect("the trace opens");
    assert_eq!(format.name, "vscsi");
    let (mut reads, mut writes, mut bytes, mut times) = (0, 0, 0, Vec::new());
    let mut blocks = HashSet::new();
    while let Some(request) = reader.next(&mut Names::new()).expect("the trace is well-formed") {
        match request.operation {
            Operation::Read => reads += 1,
            Operation::Write => writes += 1,
            _ => panic!("SCSI has no readahead, and no hints"),
        }
        assert_eq!(request.offset % 512, 0);
        blocks.insert(request.offset / 512);
        bytes += request.length;
        times.push(request.time);
    }
    assert_eq!((reads, writes, blocks.len()), (46_974, 66_898, 48_974));
    assert_eq!(bytes, 4_205_978_112);
    assert!(times.is_sorted());
    assert_eq!((times[0], times[times.len() - 1]), (5_633_898_368_802_000, 5_641_098_458_687_000));
}
