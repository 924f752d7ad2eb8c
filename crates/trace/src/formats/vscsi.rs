//! VMware vSCSI traces, versions 1 and 2: a virtual disk's SCSI commands as packed little-endian records.
//!
//! C. Waldspurger, N. Park, A. Garthwaite and I. Ahmad, "Efficient MRC Construction with SHARDS", FAST 2015 (the
//! CloudPhysics traces); the records as libCacheSim reads them, traceReader/customizedReader/vscsi.h.
//!
//! A record of version 1 has 32 bytes: sn u32, len u32, nSG u32, cmd u16, ver u16, lbn u64, ts u64.
//! One of version 2 has 40 bytes: cmd u16, ver u16, sn u32, len u32, nSG u32, lbn u64, ts u64, rt u64.
//!
//! - sn: the command's serial number; skipped.
//! - len: bytes.
//! - nSG: elements of the scatter-gather list; skipped.
//! - cmd: the SCSI operation code; READ and WRITE of 6, 10, 12 and 16 bytes are requests, other commands are skipped.
//! - ver: the record's version in its high byte.
//! - lbn: the first 512-byte block.
//! - ts: microseconds.
//! - rt: the response time; skipped.
//!
//! libCacheSim replays such a trace as one object a record, named by its lbn and of size len, so that overlapping
//! requests at different blocks share nothing. Here a request is a range of bytes.

use super::Format;
use crate::error::{Error, Result};
use crate::input::Bytes;
use crate::names::Names;
use crate::reader::Reader;
use crate::request::{Request, Unit};
use forebay_basis::Operation;

pub(super) const FORMAT: Format = Format {
    name: "vscsi",
    title: "VMware vSCSI, versions 1 and 2: binary records of SCSI commands",
    source: "C. Waldspurger, N. Park, A. Garthwaite and I. Ahmad, SHARDS, FAST 2015; libCacheSim",
    // A SCSI operation code is one byte, so the high byte of its field is 0.
    recognise: |head| {
        version(head.bytes)
            .is_some_and(|version| version.first_records(head.bytes).all(|record| record[version.command() + 1] == 0))
    },
    open: |input, _| match version(input.head().bytes) {
        Some(version) => Ok(Box::new(Vscsi { bytes: input.bytes(), version })),
        None => Err(Error::new(
            input.file(),
            "does not start with vSCSI records of version 1 or 2; name its format with --trace-format if it is another",
        )),
    },
    example: b"\xf4\0\0\x80\0\x02\0\0\x01\0\0\0\x2a\0\0\x01\x09\x1a\x8f\x02\0\0\0\0\x22\xcf\x82\xbe\x1f\x05\0\0\
               \x61\0\0\x80\0\x10\0\0\x01\0\0\0\x28\0\0\x01\x0a\x1a\x8f\x02\0\0\0\0\xf1\x82\x86\xbe\x1f\x05\0\0\
               \x41\0\0\x80\0\0\0\0\0\0\0\0\x35\0\0\x01\0\0\0\0\0\0\0\0\xc4\x8e\x88\xbe\x1f\x05\0\0",
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    const fn number(self) -> u8 {
        match self {
            Self::One => 1,
            Self::Two => 2,
        }
    }

    /// Bytes in a record.
    const fn size(self) -> usize {
        match self {
            Self::One => 32,
            Self::Two => 40,
        }
    }

    /// Where in a record cmd lies; ver follows.
    const fn command(self) -> usize {
        match self {
            Self::One => 12,
            Self::Two => 0,
        }
    }

    fn is_of(self, record: &[u8]) -> bool {
        record[self.command() + 3] == self.number()
    }

    /// The records that decide the version: two, as in libCacheSim, since one may look like either.
    fn first_records(self, bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
        bytes.chunks_exact(self.size()).take(2)
    }
}

/// The version of the first records, if they are vSCSI records.
fn version(bytes: &[u8]) -> Option<Version> {
    [Version::Two, Version::One].into_iter().find(|version| {
        bytes.len() >= version.size() && version.first_records(bytes).all(|record| version.is_of(record))
    })
}

/// What a SCSI operation code does to blocks, if it reads or writes them.
pub(super) fn operation(code: u16) -> Option<Operation> {
    match code {
        0x08 | 0x28 | 0x88 | 0xa8 => Some(Operation::Read),
        0x0a | 0x2a | 0x8a | 0xaa => Some(Operation::Write),
        _ => None,
    }
}

struct Vscsi {
    bytes: Bytes,
    version: Version,
}

impl Vscsi {
    /// The next record with its fields in the order of version 1; what version 2 has more is left out.
    fn record(&mut self) -> Result<Option<[u8; 32]>> {
        let record = match self.version {
            Version::One => self.bytes.record::<32>()?,
            Version::Two => self.bytes.record::<40>()?.map(|record| {
                let mut first = [0; 32];
                first[..12].copy_from_slice(&record[4..16]);
                first[12..16].copy_from_slice(&record[..4]);
                first[16..].copy_from_slice(&record[16..32]);
                first
            }),
        };
        match record {
            Some(record) if record[15] != self.version.number() => Err(self.error(format!(
                "a vSCSI record of version {} was expected, found version {}; the file is damaged from here on",
                self.version.number(),
                record[15]
            ))),
            record => Ok(record),
        }
    }

    /// An error in the record read last.
    fn error(&self, message: String) -> Error {
        self.bytes.error(self.version.size() as u64, message)
    }
}

impl Reader for Vscsi {
    fn unit(&self) -> Unit {
        Unit::Bytes
    }

    fn next(&mut self, _: &mut Names) -> Result<Option<Request>> {
        while let Some(record) = self.record()? {
            let [_, _, _, _, l0, l1, l2, l3, _, _, _, _, c0, c1, _, _, at @ ..] = record;
            let Some(operation) = operation(u16::from_le_bytes([c0, c1])) else { continue };
            let [b0, b1, b2, b3, b4, b5, b6, b7, t0, t1, t2, t3, t4, t5, t6, t7] = at;
            let length = u64::from(u32::from_le_bytes([l0, l1, l2, l3]));
            let block = u64::from_le_bytes([b0, b1, b2, b3, b4, b5, b6, b7]);
            let microseconds = u64::from_le_bytes([t0, t1, t2, t3, t4, t5, t6, t7]);
            let offset = block
                .checked_mul(512)
                .filter(|offset| offset.checked_add(length).is_some())
                .ok_or_else(|| self.error(format!("a request of {length} bytes at block {block} ends beyond 2^64")))?;
            let time = microseconds
                .checked_mul(1_000)
                .ok_or_else(|| self.error(format!("time {microseconds} is beyond 2^64 nanoseconds")))?;
            return Ok(Some(Request { time, owner: 0, object: 0, offset, length, operation }));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::testing::{error, recognises, requests};

    fn one(length: u32, command: u16, block: u64, time: u64) -> Vec<u8> {
        let mut record = Vec::new();
        record.extend(7u32.to_le_bytes());
        record.extend(length.to_le_bytes());
        record.extend(1u32.to_le_bytes());
        record.extend(command.to_le_bytes());
        record.extend(0x0100u16.to_le_bytes());
        record.extend(block.to_le_bytes());
        record.extend(time.to_le_bytes());
        record
    }

    fn two(length: u32, command: u16, block: u64, time: u64) -> Vec<u8> {
        let mut record = Vec::new();
        record.extend(command.to_le_bytes());
        record.extend(0x0201u16.to_le_bytes());
        record.extend(7u32.to_le_bytes());
        record.extend(length.to_le_bytes());
        record.extend(1u32.to_le_bytes());
        record.extend(block.to_le_bytes());
        record.extend(time.to_le_bytes());
        record.extend(99u64.to_le_bytes());
        record
    }

    #[test]
    fn blocks_become_bytes_and_microseconds_nanoseconds() {
        let (_, requests) = requests(&FORMAT, FORMAT.example);
        assert_eq!(
            requests,
            [
                Request {
                    time: 5_633_898_368_802_000,
                    owner: 0,
                    object: 0,
                    offset: 42_932_745 * 512,
                    length: 512,
                    operation: Operation::Write
                },
                Request {
                    time: 5_633_898_611_441_000,
                    owner: 0,
                    object: 0,
                    offset: 42_932_746 * 512,
                    length: 4096,
                    operation: Operation::Read
                },
            ]
        );
    }

    #[test]
    fn both_versions_say_the_same() {
        let commands = [(8192, 0x88, 3, 5), (512, 0xaa, 1 << 40, 6), (0, 0x35, 0, 7), (1024, 0x0a, 9, 8)];
        let trace = |record: fn(u32, u16, u64, u64) -> Vec<u8>| {
            let trace: Vec<u8> = commands.into_iter().flat_map(|(l, c, b, t)| record(l, c, b, t)).collect();
            assert!(recognises(&FORMAT, &trace));
            requests(&FORMAT, &trace).1
        };
        let first = trace(one);
        assert_eq!(first, trace(two));
        let seen: Vec<_> = first.iter().map(|r| (r.offset, r.length, r.time, r.operation)).collect();
        assert_eq!(
            seen,
            [
                (3 * 512, 8192, 5_000, Operation::Read),
                (1 << 49, 512, 6_000, Operation::Write),
                (9 * 512, 1024, 8_000, Operation::Write)
            ]
        );
    }

    #[test]
    fn a_record_of_another_version_is_an_error_with_its_byte() {
        let mut trace = [one(512, 0x28, 1, 1), one(512, 0x28, 2, 2), one(512, 0x28, 3, 3)].concat();
        trace[64 + 15] = 9;
        assert_eq!(
            error(&FORMAT, &trace),
            "trace: byte 64: a vSCSI record of version 1 was expected, found version 9; the file is damaged from here on"
        );
    }

    #[test]
    fn a_file_cut_short_is_an_error_with_the_byte_of_its_last_record() {
        let trace = [two(512, 0x28, 1, 1), two(512, 0x28, 2, 2)].concat();
        assert_eq!(
            error(&FORMAT, &trace[..79]),
            "trace: byte 40: the file ends after 39 of the 40 bytes of a record; it is cut short, copy it again"
        );
    }

    #[test]
    fn numbers_too_large_are_errors() {
        assert_eq!(
            error(&FORMAT, &one(512, 0x28, (1 << 55) - 1, 1)),
            "trace: byte 0: a request of 512 bytes at block 36028797018963967 ends beyond 2^64"
        );
        assert_eq!(
            error(&FORMAT, &two(512, 0x28, 1, u64::MAX)),
            "trace: byte 0: time 18446744073709551615 is beyond 2^64 nanoseconds"
        );
    }

    #[test]
    fn garbage_is_not_vscsi() {
        let garbage = [0xa5; 200];
        assert!(!recognises(&FORMAT, &garbage));
        assert_eq!(
            error(&FORMAT, &garbage),
            "trace: does not start with vSCSI records of version 1 or 2; \
             name its format with --trace-format if it is another"
        );
    }
}
