//! The system call `bpf(2)` and shared memory: all `unsafe` of this room.
//!
//! The structures are the beginnings of `union bpf_attr` in `include/uapi/linux/bpf.h`. The kernel takes what is missing as zeros.

use super::assemble::Instruction;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Kinds of maps that are used here, by their numbers in `enum bpf_map_type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MapKind {
    Array = 2,
    LruHash = 9,
    Ring = 27,
}

/// The map may be mapped into memory (`BPF_F_MMAPABLE`).
pub(crate) const MAPPABLE: u32 = 1 << 10;

/// How a program is attached, by the numbers in `enum bpf_attach_type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Attachment {
    /// To a tracepoint, by its BTF type.
    Tracepoint = 23,
    /// To the entry of a function.
    FunctionEntry = 24,
}

// Commands, and types of programs.
const MAP_CREATE: i64 = 0;
const MAP_UPDATE_ELEM: i64 = 2;
const PROG_LOAD: i64 = 5;
const OBJ_GET_INFO_BY_FD: i64 = 15;
const RAW_TRACEPOINT_OPEN: i64 = 17;
const PROG_TEST_RUN: i64 = 10;
const PROG_TYPE_RAW_TRACEPOINT: u32 = 17;
const PROG_TYPE_TRACING: u32 = 26;
const PROG_TYPE_SYSCALL: u32 = 31;

/// A program that may sleep (`BPF_F_SLEEPABLE`), as those of the last type do.
const SLEEPS: u32 = 1 << 4;

/// The kernel keeps some of its functions for programs under the GPL. The project's licence allows its use under the GPL.
const LICENSE: &CStr = c"Dual MIT/GPL";

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    kind: u32,
    key_size: u32,
    value_size: u32,
    entries: u32,
    flags: u32,
    inner: u32,
    node: u32,
    name: [u8; 16],
}

#[repr(C)]
#[derive(Default)]
struct MapElement {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct ProgramLoad {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
    btf: u32,
    function_info_size: u32,
    function_info: u64,
    function_infos: u32,
    line_info_size: u32,
    line_info: u64,
    line_infos: u32,
    attach_btf_id: u32,
    attach_program: u32,
    padding: u32,
}

#[repr(C)]
#[derive(Default)]
struct RawTracepointOpen {
    name: u64,
    program: u32,
    padding: u32,
}

#[repr(C)]
#[derive(Default)]
struct TestRun {
    program: u32,
    result: u32,
    unused: [u64; 8],
}

#[repr(C)]
#[derive(Default)]
struct InfoByDescriptor {
    descriptor: u32,
    length: u32,
    info: u64,
}

/// Makes a system call `bpf(2)`.
///
/// # Safety
/// `attributes` is the structure that `command` takes, without undefined bytes. Each address in it is that of memory which lives, and is as long
/// as the kernel takes it to be.
unsafe fn bpf<T>(command: i64, attributes: &mut T) -> io::Result<i32> {
    // SAFETY: the caller vouches for what the structure points at. The kernel reads and writes no more of it than its size.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attributes), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// As `bpf`, for commands that return a descriptor.
///
/// # Safety
/// As for `bpf`.
unsafe fn descriptor<T>(command: i64, attributes: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: the caller vouches for the structure. The descriptor is new, and nothing else owns it.
    unsafe { bpf(command, attributes).map(|descriptor| OwnedFd::from_raw_fd(descriptor)) }
}

/// A name of at most 15 letters, digits and underscores, for those who list maps and programs.
fn short_name(name: &str) -> [u8; 16] {
    let mut short = [0; 16];
    short.iter_mut().take(15).zip(name.bytes()).for_each(|(to, from)| *to = from);
    short
}

/// A map. Its values have one size.
pub(crate) struct Map {
    descriptor: OwnedFd,
    key_bytes: usize,
    value_bytes: usize,
}

impl Map {
    /// Creates a map. A ring's keys and values have 0 bytes, and `entries` are its bytes.
    pub(crate) fn create(
        kind: MapKind,
        name: &str,
        [key_bytes, value_bytes]: [usize; 2],
        entries: u32,
        flags: u32,
    ) -> io::Result<Map> {
        let mut attributes = MapCreate {
            kind: kind as u32,
            key_size: key_bytes as u32,
            value_size: value_bytes as u32,
            entries,
            flags,
            name: short_name(name),
            ..MapCreate::default()
        };
        // SAFETY: the structure is that of MAP_CREATE, and has no addresses.
        let descriptor = unsafe { descriptor(MAP_CREATE, &mut attributes)? };
        Ok(Map { descriptor, key_bytes, value_bytes })
    }

    /// The number that programs name it by.
    pub(crate) fn number(&self) -> i32 {
        self.descriptor.as_raw_fd()
    }

    /// Sets the value of a key.
    pub(crate) fn update(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        assert!(key.len() == self.key_bytes && value.len() == self.value_bytes, "a key and a value of the map's sizes");
        let mut attributes = MapElement {
            map: self.number() as u32,
            key: key.as_ptr() as u64,
            value: value.as_ptr() as u64,
            ..MapElement::default()
        };
        // SAFETY: the structure is that of MAP_UPDATE_ELEM. The key and the value have the map's sizes, and live until the call is over.
        unsafe { bpf(MAP_UPDATE_ELEM, &mut attributes).map(drop) }
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// What a program is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    /// To be attached to what has this BTF id.
    Attached(Attachment, u32),
    /// To be run by `run` alone.
    RunHere,
    /// The same, with functions of the kernel that only such programs may call.
    CallsKernel,
}

/// The bytes of what the verifier writes that are kept.
const VERIFIER_LOG: usize = 1 << 20;

/// How often it is tried to load a program.
const LOADS: usize = 8;

fn gave_up(loaded: &io::Result<OwnedFd>) -> bool {
    loaded.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

/// Loads a program. The error of one that the verifier refuses comes with what it wrote.
pub(crate) fn load_program(name: &str, code: &[Instruction], usage: Use) -> Result<OwnedFd, (io::Error, String)> {
    let (kind, attach_type, attach_btf_id, flags) = match usage {
        Use::Attached(attachment, id) => (PROG_TYPE_TRACING, attachment as u32, id, 0),
        Use::RunHere => (PROG_TYPE_RAW_TRACEPOINT, 0, 0, 0),
        Use::CallsKernel => (PROG_TYPE_SYSCALL, 0, 0, SLEEPS),
    };
    let load = |log: &mut [u8]| {
        let mut attributes = ProgramLoad {
            kind,
            instructions: code.len() as u32,
            code: code.as_ptr() as u64,
            license: LICENSE.as_ptr() as u64,
            log_level: u32::from(!log.is_empty()),
            log_size: log.len() as u32,
            log: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
            flags,
            name: short_name(name),
            attach_type,
            attach_btf_id,
            ..ProgramLoad::default()
        };
        let mut load = || {
            // SAFETY: the structure is that of PROG_LOAD. Code, licence and log live until the call is over, and have the lengths named.
            unsafe { descriptor(PROG_LOAD, &mut attributes) }
        };
        // A signal that comes meanwhile has the verifier give up.
        (1..LOADS).map(|_| load()).find(|loaded| !gave_up(loaded)).unwrap_or_else(&mut load)
    };
    load(&mut []).map_err(|error| {
        // The verifier writes only if asked to: what it writes costs more than loading does.
        let mut log = Vec::new();
        // Where there is no memory for it, the error is without.
        if log.try_reserve_exact(VERIFIER_LOG).is_ok() {
            log.resize(VERIFIER_LOG, 0);
            let _ = load(&mut log);
        }
        let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
        (error, String::from_utf8_lossy(&log[..end]).into_owned())
    })
}

/// Runs a loaded program once, in this thread. Returns its result.
pub(crate) fn run(program: BorrowedFd<'_>) -> io::Result<u32> {
    let mut attributes = TestRun { program: program.as_raw_fd() as u32, ..TestRun::default() };
    // SAFETY: the structure is that of PROG_TEST_RUN, and its addresses are none, of 0 bytes.
    unsafe { bpf(PROG_TEST_RUN, &mut attributes)? };
    Ok(attributes.result)
}

/// Attaches a loaded program. It works until the descriptor is closed.
pub(crate) fn attach(program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut attributes = RawTracepointOpen { program: program.as_raw_fd() as u32, ..RawTracepointOpen::default() };
    // SAFETY: the structure is that of RAW_TRACEPOINT_OPEN. The program knows what it is attached to, so no name is given.
    unsafe { descriptor(RAW_TRACEPOINT_OPEN, &mut attributes) }
}

/// How often the kernel left a program out, since it was loaded: its thread had been preempted by another that came to
/// the same program, or an interrupt had.
pub(crate) fn left_out(program: BorrowedFd<'_>) -> io::Result<u64> {
    /// The field `recursion_misses` of `struct bpf_prog_info`, which is there since Linux 5.12, in words of eight bytes.
    const LEFT_OUT: usize = 26;
    let mut info = [0u64; LEFT_OUT + 1];
    let mut attributes = InfoByDescriptor {
        descriptor: program.as_raw_fd() as u32,
        length: size_of_val(&info) as u32,
        info: info.as_mut_ptr() as u64,
    };
    // SAFETY: the structure is that of OBJ_GET_INFO_BY_FD. The kernel writes no more than `length` bytes; the counts of lists within are 0, so
    // it takes no other address.
    unsafe { bpf(OBJ_GET_INFO_BY_FD, &mut attributes)? };
    Ok(info[LEFT_OUT])
}

/// Memory shared with the kernel, from a map.
pub(crate) struct Shared {
    address: *mut libc::c_void,
    bytes: usize,
}

// SAFETY: the memory is reached by atomic operations only.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Maps `bytes` of the map from byte `offset`. Only what is `writable` may be stored to.
    pub(crate) fn map(map: &Map, offset: usize, bytes: usize, writable: bool) -> io::Result<Shared> {
        let protection = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // SAFETY: the kernel chooses an address that nothing else uses. Only the kernel's programs and this value reach the memory.
        let address = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, map.number(), offset as libc::off_t)
        };
        if address == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Shared { address, bytes }) }
    }

    /// The memory, in words of eight bytes.
    pub(crate) fn longs(&self) -> &[AtomicU64] {
        // SAFETY: the memory is mapped until `self` is dropped, aligned to a page, and shared with the kernel, which changes it at any time: so
        // each word is atomic. Memory that is only readable is only loaded from, relaxed, which Rust allows for words of this size.
        unsafe { std::slice::from_raw_parts(self.address.cast(), self.bytes / 8) }
    }

    /// The memory, in words of four bytes.
    pub(crate) fn words(&self) -> &[AtomicU32] {
        // SAFETY: as for `longs`.
        unsafe { std::slice::from_raw_parts(self.address.cast(), self.bytes / 4) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, and no reference outlives `self`.
        unsafe { libc::munmap(self.address, self.bytes) };
    }
}

/// Bytes of a page of memory.
pub(crate) fn page_bytes() -> usize {
    // SAFETY: asks for a number.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// Bytes that the kernel counts for a map.
pub(crate) fn map_bytes(map: &Map) -> io::Result<u64> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", map.number()))?;
    let bytes = info.lines().find_map(|line| line.strip_prefix("memlock:"));
    bytes.and_then(|bytes| bytes.trim().parse().ok()).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}
