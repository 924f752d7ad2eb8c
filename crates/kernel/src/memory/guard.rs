//! What a killed process that steered memory cannot do any more, done by one that outlives it: pages that come back are made inactive for a while, as `ending`
//! does it, lest the kernel find nothing to reclaim in a control group at its limit and kill its programs.
//!
//! It knows nothing of the policy, and asks no BPF program: the groups' processes, their faults and what they have mapped are in `/proc`.

use super::spaces::memory_of;
use crate::maps::advise;
use crate::scopes::within;
use crate::steered::PAGE;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Programs have had most of their pages back once they have waited for some of them in so many pauses: half a minute of paging.
const ACTS: u32 = 1500;
/// It waits no longer than this for them to do so.
const LONGEST: Duration = Duration::from_secs(60 * 60);
/// Between two times that faults are counted.
const PAUSE: Duration = Duration::from_millis(20);
/// It takes this part of a processor at most.
const SHARE: u32 = 4;
/// Of `/proc/PID/stat`, behind the name: faults that waited for storage.
const MAJOR_FAULTS: usize = 9;

/// Waits until the process that steers the memory of control groups has ended, which `alive` shows by its end. It then looks after these groups' processes, unless that
/// process has written that it ends in order, and until they are `steered_again`.
///
/// # Errors
/// `alive` cannot be read.
pub fn guard(groups: &[PathBuf], mut alive: impl Read, mut steered_again: impl FnMut() -> bool) -> io::Result<()> {
    if alive.read(&mut [0])? > 0 {
        return Ok(());
    }
    let (begun, mut acts, mut faults) = (Instant::now(), 0, None);
    while acts < ACTS && begun.elapsed() < LONGEST && !steered_again() {
        let looked = Instant::now();
        let members = members(groups);
        if members.is_empty() {
            break;
        }
        let now = members.iter().filter_map(|&member| major_faults(member)).sum::<u64>();
        if faults.replace(now) != Some(now) {
            members.iter().for_each(|&member| make_inactive(member));
            acts += 1;
        }
        std::thread::sleep(PAUSE.max(looked.elapsed() * (SHARE - 1)));
    }
    Ok(())
}

/// The processes of groups and of those below them.
fn members(groups: &[PathBuf]) -> BTreeSet<u32> {
    let lists = groups.iter().flat_map(|group| within(group)).map(|group| group.join("cgroup.procs"));
    let lists: Vec<_> = lists.filter_map(|list| fs::read_to_string(list).ok()).collect();
    lists.iter().flat_map(|list| list.lines()).filter_map(|member| member.parse().ok()).collect()
}

fn major_faults(process: u32) -> Option<u64> {
    let stat = fs::read(format!("/proc/{process}/stat")).ok()?;
    // The name may hold any bytes.
    let behind = stat.iter().rposition(|&byte| byte == b')')? + 1;
    std::str::from_utf8(&stat[behind..]).ok()?.split_ascii_whitespace().nth(MAJOR_FAULTS)?.parse().ok()
}

/// Makes all of a process's pages inactive. One that has ended has none.
fn make_inactive(process: u32) {
    let held = i32::try_from(process).ok().and_then(Pid::from_raw).map(|pid| pidfd_open(pid, PidfdFlags::empty()));
    let (Some(Ok(held)), Ok(maps)) = (held, fs::read(format!("/proc/{process}/maps"))) else { return };
    let range = |pages: std::ops::Range<u64>| libc::iovec {
        iov_base: std::ptr::without_provenance_mut((pages.start * PAGE) as usize),
        iov_len: ((pages.end - pages.start) * PAGE) as usize,
    };
    let ranges: Vec<_> = memory_of(&String::from_utf8_lossy(&maps)).map(range).collect();
    if let Err(error) = advise(&held, &ranges, libc::MADV_COLD) {
        tracing::debug!("process {process}: its pages stay active: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_ends_in_order_is_not_followed() {
        let begun = Instant::now();
        let own = std::env::temp_dir();
        guard(std::slice::from_ref(&own), &b"x"[..], || false).expect("it is read");
        guard(&[own.join("no such group")], &b""[..], || false).expect("it is read");
        guard(&[own], &b""[..], || true).expect("it is read");
        assert!(begun.elapsed() < LONGEST);
    }

    #[test]
    fn faults_of_a_process_are_counted_and_its_pages_keep_their_bytes() {
        let memory = vec![7u8; 1 << 20];
        assert!(major_faults(std::process::id()).is_some());
        assert!(major_faults(u32::MAX).is_none());
        make_inactive(std::process::id());
        make_inactive(u32::MAX);
        assert!(memory.iter().all(|&byte| byte == 7));
    }
}
