//! Which pages of which files are used, added to the kernel's page cache and removed from it.
//!
//! ```text
//!   a program reads a file                       the kernel adds or removes a folio, …
//!        |                                            |
//!   filemap_read, …                              mm_filemap_add_to_page_cache, …        programs.rs: BPF programs, one for each,
//!        |                                            |                                 assembled when the watch starts
//!        +---------------------+----------------------+
//!                              v
//!   a regular file? which file system, inode, generation?                               bpf/layout.rs: offsets
//!   files (LRU map):   followed -> event;   ignored -> see the group                    judge_file
//!   not judged, and of a file system in the list -> event                               set_devices
//!   groups (LRU map):  followed -> event;   ignored -> nothing;   not judged -> event   judge_group
//!                              v
//!   ring of events; a full one counts what is lost                                      event.rs
//!                              v
//!   Watch::drain                                                                        bpf/ring.rs, repeats.rs
//! ```
//!
//! - **Programs never wait.** An event is 64 bytes in a ring that all processors share. If it is full, the event is counted as lost
//!   ([`Watch::lost`]), and the reader looks anew at what is resident.
//! - **Verdicts are the reader's.** The programs know no paths. They report a file that has no verdict at each use, with
//!   [`Event::judged`] false, until the reader has said whether it is followed. The maps forget what was unused longest.
//! - **A use is what the kernel takes for one**: the same page of the same open file twice running is one use, as in the
//!   kernel's own `filemap_read`. What is read ahead makes `Added`, and no `Read`.

mod event;
mod programs;
mod repeats;

pub use crate::bpf::error::WatchError;
pub use event::{Event, FileId, Kind, kernel_device};

use crate::bpf::btf::Btf;
use crate::bpf::error::DESCRIPTION;
use crate::bpf::groups::Groups;
use crate::bpf::layout::{Layout, Missing};
use crate::bpf::own;
use crate::bpf::ring::Ring;
use crate::bpf::system::{self, Attachment, MAPPABLE, Map, MapKind, Shared, Use};
use programs::last_read;
use programs::{
    FILE_ENTRY, FILEMAP_GET_PAGES, FOLLOWED, GROUP_ENTRY, MOST_DEVICES, Machine, Need, PROGRAMS, Program, setting,
};
use repeats::Repeats;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// By which hierarchy of control groups processes are grouped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum GroupsBy {
    /// Groups are not looked at.
    #[default]
    None,
    /// Version 2's.
    Unified,
    /// Version 1's, of the controller `memory`.
    Memory,
}

/// What is watched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WatchOptions {
    /// File systems whose regular files are candidates, each by the kernel's number ([`FileId::device`]). At most 16.
    pub devices: Vec<u32>,
    /// Whether processes' control groups count, too.
    pub groups: GroupsBy,
    /// Bytes of the ring: a power of two, and at least a page. An event takes 80.
    pub ring_bytes: u32,
    /// How many verdicts of files are known at most: those unused longest are forgotten. As many of groups, and at most 4,096.
    pub verdicts: u32,
}

impl Default for WatchOptions {
    fn default() -> WatchOptions {
        WatchOptions { devices: Vec::new(), groups: GroupsBy::None, ring_bytes: 4 << 20, verdicts: 1 << 16 }
    }
}

/// One of the watch's programs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProgramState {
    /// The kernel's function or tracepoint.
    pub name: &'static str,
    /// Why it is not attached. `None` if it is.
    pub missing: Option<String>,
}

/// The page cache, being watched. Dropping it detaches all.
pub struct Watch {
    /// What keeps the programs attached.
    _attached: Vec<OwnedFd>,
    programs: Vec<OwnedFd>,
    states: Vec<ProgramState>,
    files: Map,
    groups: Map,
    settings_map: Map,
    ring_map: Map,
    last_reads_map: Map,
    settings: Shared,
    /// The reader's position, and behind it the programs' position and the data.
    reader: Shared,
    data: Shared,
    /// Where the programs see some reads twice.
    repeats: Option<Repeats>,
    /// Held while the list of file systems changes.
    changing: Mutex<()>,
}

/// Verdicts of groups that are known at most.
const MOST_GROUPS: u32 = 4096;

/// No file system: a place in the list that is passed.
const NO_DEVICE: u32 = u32::MAX;

impl Watch {
    /// Starts watching. When this returns, all programs that this kernel can have are attached.
    ///
    /// # Errors
    /// Options out of range, missing rights, a kernel without what is needed: see [`WatchError`].
    pub fn start(options: &WatchOptions) -> Result<Watch, WatchError> {
        let page = system::page_bytes();
        check(options, page)?;
        let description = std::fs::read(DESCRIPTION).map_err(WatchError::NoDescription)?;
        let btf = Btf::parse(&description)?;
        let layout = Layout::find(&btf)?;
        let map = |kind, name, entry, entries, flags| {
            Map::create(kind, name, entry, entries, flags)
                .map_err(|source| WatchError::system("a map for BPF programs cannot be made", source))
        };
        let files = map(MapKind::LruHash, "forebay_files", FILE_ENTRY, options.verdicts, 0)?;
        let groups = map(MapKind::LruHash, "forebay_groups", GROUP_ENTRY, options.verdicts.min(MOST_GROUPS), 0)?;
        let settings_map = map(MapKind::Array, "forebay_setting", [4, setting::BYTES], 1, MAPPABLE)?;
        let last_reads_map = map(MapKind::Array, "forebay_reads", [4, last_read::BYTES], 1, 0)?;
        let ring_map = map(MapKind::Ring, "forebay_events", [0, 0], options.ring_bytes, 0)?;
        let memory = |map, offset, bytes, writable| {
            Shared::map(map, offset, bytes, writable)
                .map_err(|source| WatchError::system("a map for BPF programs cannot be mapped into memory", source))
        };
        let mut watch = Watch {
            _attached: Vec::new(),
            programs: Vec::new(),
            states: Vec::new(),
            settings: memory(&settings_map, 0, page, true)?,
            reader: memory(&ring_map, 0, page, true)?,
            data: memory(&ring_map, page, page + options.ring_bytes as usize, false)?,
            files,
            groups,
            settings_map,
            ring_map,
            last_reads_map,
            repeats: None,
            changing: Mutex::new(()),
        };
        watch.set_devices(&options.devices)?;
        let machine = Machine {
            layout: &layout,
            groups: groups_of(options.groups, &layout)?,
            files_map: watch.files.number(),
            groups_map: watch.groups.number(),
            settings_map: watch.settings_map.number(),
            ring: watch.ring_map.number(),
            last_reads_map: watch.last_reads_map.number(),
            own: own::process()?,
            page_shift: page.trailing_zeros() as i32,
        };
        let mut reads = None;
        for program in &PROGRAMS {
            let wanted = match program.need {
                Need::Required | Need::Optional => true,
                Need::Reads => !matches!(reads, Some(Ok(()))),
                Need::Beside(other) => watch.has(other),
            };
            let attached = if wanted { watch.attach(program, &btf, &machine) } else { continue };
            match (program.need, attached) {
                (Need::Required, Err(error)) => return Err(error),
                (Need::Reads, Ok(())) => reads = Some(Ok(())),
                (Need::Reads, Err(error)) => reads = reads.or(Some(Err(error))),
                (Need::Required | Need::Optional | Need::Beside(_), _) => {}
            }
        }
        if let Some(Err(error)) = reads {
            return Err(error);
        }
        watch.repeats = watch.has(FILEMAP_GET_PAGES).then(Repeats::default);
        Ok(watch)
    }

    fn has(&self, program: &str) -> bool {
        self.states.iter().any(|state| state.name == program && state.missing.is_none())
    }

    /// Attaches a program, and keeps what became of that.
    fn attach(&mut self, program: &Program, btf: &Btf<'_>, machine: &Machine<'_>) -> Result<(), WatchError> {
        let name = program.target.name;
        let attached = load(program, btf, machine).and_then(|loaded| {
            let link =
                system::attach(loaded.as_fd()).map_err(|source| WatchError::refused(name, (source, String::new())))?;
            Ok((loaded, link))
        });
        let attached = attached.map(|(loaded, link)| {
            self.programs.push(loaded);
            self._attached.push(link);
        });
        let missing = attached.as_ref().err().map(|error| match error {
            WatchError::TooOld(what) => what.clone(),
            error => error.to_string(),
        });
        self.states.push(ProgramState { name, missing });
        attached
    }

    /// Takes at most `most` records from the ring, in the order in which they were written, and calls `each` with their events. Never waits.
    /// Returns how many records it took: fewer than `most` if the ring is empty now.
    pub fn drain(&mut self, most: usize, each: &mut dyn FnMut(&Event)) -> usize {
        let (produced, data) = self.data.longs().split_at(system::page_bytes() / 8);
        let ring = Ring { consumed: &self.reader.longs()[0], produced: &produced[0], data };
        let repeats = &mut self.repeats;
        ring.drain(most, &mut |record| {
            let event = Event::decode(record).and_then(|(event, thread)| match repeats {
                Some(repeats) => repeats.without(event, thread),
                None => Some(event),
            });
            if let Some(event) = event {
                each(&event);
            }
        })
    }

    /// Events that were lost since the start: they found the ring full, or the kernel left a program out because it
    /// interrupted itself on one processor.
    pub fn lost(&self) -> u64 {
        let full = self.settings.longs()[setting::LOST as usize / 8].load(Ordering::Relaxed);
        self.programs
            .iter()
            .filter_map(|program| system::left_out(program.as_fd()).ok())
            .fold(full, u64::saturating_add)
    }

    /// Says whether a file is followed. Another generation of its inode is not judged by that.
    ///
    /// # Errors
    /// The system's, if it has no memory.
    pub fn judge_file(&self, file: FileId, followed: bool) -> io::Result<()> {
        let mut key = [0; FILE_ENTRY[0]];
        key[..8].copy_from_slice(&file.inode.to_ne_bytes());
        key[8..12].copy_from_slice(&file.device.to_ne_bytes());
        let mut value = [0; FILE_ENTRY[1]];
        value[..4].copy_from_slice(&file.generation.to_ne_bytes());
        value[4..].copy_from_slice(&self.verdict(setting::FILES_ERA, followed).to_ne_bytes());
        self.files.update(&key, &value)
    }

    /// Takes all files' verdicts back.
    pub fn forget_files(&self) {
        self.setting(setting::FILES_ERA).fetch_add(FOLLOWED + 1, Ordering::Relaxed);
    }

    /// Says whether what a control group's processes use is followed, beside the files that are.
    ///
    /// # Errors
    /// The system's, if it has no memory.
    pub fn judge_group(&self, group: u64, followed: bool) -> io::Result<()> {
        self.groups.update(&group.to_ne_bytes(), &self.verdict(setting::GROUPS_ERA, followed).to_ne_bytes())
    }

    /// Takes all groups' verdicts back.
    pub fn forget_groups(&self) {
        self.setting(setting::GROUPS_ERA).fetch_add(FOLLOWED + 1, Ordering::Relaxed);
    }

    /// Changes the file systems whose files are candidates. No event is missed of one that stays.
    ///
    /// # Errors
    /// More than 16.
    pub fn set_devices(&self, devices: &[u32]) -> Result<(), WatchError> {
        check_devices(devices)?;
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let places: Vec<&AtomicU32> =
            (0..MOST_DEVICES).map(|place| self.setting(setting::DEVICES + 4 * place as i16)).collect();
        let now: Vec<u32> = places.iter().map(|place| place.load(Ordering::Relaxed)).collect();
        for (place, new) in arrange(&now, devices).into_iter().enumerate() {
            places[place].store(new, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The programs, each attached or not.
    pub fn programs(&self) -> &[ProgramState] {
        &self.states
    }

    /// Bytes of memory that the maps and the ring take.
    pub fn memory(&self) -> u64 {
        let maps = [&self.files, &self.groups, &self.settings_map, &self.ring_map, &self.last_reads_map];
        maps.into_iter().filter_map(|map| system::map_bytes(map).ok()).sum::<u64>()
            + self.repeats.as_ref().map_or(0, |_| Repeats::BYTES)
    }

    fn verdict(&self, era: i16, followed: bool) -> u32 {
        self.setting(era).load(Ordering::Relaxed) | if followed { FOLLOWED } else { 0 }
    }

    fn setting(&self, at: i16) -> &AtomicU32 {
        &self.settings.words()[at as usize / 4]
    }
}

fn check(options: &WatchOptions, page: usize) -> Result<(), WatchError> {
    check_devices(&options.devices)?;
    let ring = options.ring_bytes;
    if !ring.is_power_of_two() || (ring as usize) < page || ring > 1 << 30 {
        return Err(WatchError::Options(format!(
            "a ring of {ring} bytes cannot be made: give a power of two from {page} to {}",
            1 << 30
        )));
    }
    if options.verdicts == 0 {
        return Err(WatchError::Options("there must be room for one verdict at least".to_owned()));
    }
    Ok(())
}

fn check_devices(devices: &[u32]) -> Result<(), WatchError> {
    if devices.len() > MOST_DEVICES {
        return Err(WatchError::Options(format!(
            "files of at most {MOST_DEVICES} file systems can be watched, not of {}",
            devices.len()
        )));
    }
    Ok(())
}

/// The new list of file systems: those that stay keep their places, so that programs which read it meanwhile find them.
fn arrange(now: &[u32], wanted: &[u32]) -> [u32; MOST_DEVICES] {
    let mut places = [NO_DEVICE; MOST_DEVICES];
    for (place, device) in places.iter_mut().zip(now) {
        if wanted.contains(device) {
            *place = *device;
        }
    }
    for device in wanted {
        if !places.contains(device)
            && let Some(free) = places.iter_mut().find(|place| **place == NO_DEVICE)
        {
            *free = *device;
        }
    }
    let used = places.iter().rposition(|place| *place != NO_DEVICE).map_or(0, |last| last + 1);
    places[used..].fill(0);
    places
}

fn groups_of(groups: GroupsBy, layout: &Layout) -> Result<Groups, Missing> {
    Ok(match groups {
        GroupsBy::None => Groups::None,
        GroupsBy::Unified => Groups::Unified,
        GroupsBy::Memory => Groups::of_memory(layout)?,
    })
}

fn load(program: &Program, btf: &Btf<'_>, machine: &Machine<'_>) -> Result<OwnedFd, WatchError> {
    let target = &program.target;
    let id = match program.attachment {
        Attachment::Tracepoint => target.tracepoint(btf)?,
        Attachment::FunctionEntry => target.function(btf)?,
    };
    let code = program.assemble(machine).expect("the programs have all their labels, and are short");
    system::load_program(target.name, &code, Use::Attached(program.attachment, id))
        .map_err(|error| WatchError::refused(target.name, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_that_stay_keep_their_places() {
        let list = |devices: &[u32]| {
            let mut places = [0; MOST_DEVICES];
            places[..devices.len()].copy_from_slice(devices);
            places
        };
        assert_eq!(arrange(&list(&[]), &[5, 6, 7]), list(&[5, 6, 7]));
        assert_eq!(arrange(&list(&[5, 6, 7]), &[7, 8]), list(&[8, NO_DEVICE, 7]));
        assert_eq!(arrange(&list(&[8, NO_DEVICE, 7]), &[8]), list(&[8]));
        assert_eq!(arrange(&list(&[8]), &[]), list(&[]));
        let full: Vec<u32> = (1..=16).collect();
        assert_eq!(arrange(&list(&[16]), &full)[0], 16);
        assert!(full.iter().all(|device| arrange(&list(&[16]), &full).contains(device)));
    }
}
