//! What a process that steered memory cannot do once it has ended: programs page on, and the kernel is to know how long its [lists](super::lists) are until it has chosen
//! itself what is there.
//!
//! It asks no BPF program and knows no policy: the groups' processes and their faults are in `/proc`.

use super::lists::refresh;
use crate::mapped::{Own, page_out_own_start};
use crate::scopes::{members, within};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Between two times that faults are counted.
const PAUSE: Duration = Duration::from_millis(20);
/// The guard ends after this many pauses in which programs paged: half a minute. By then most of their pages are back.
const ACTS: u32 = 1500;
/// It waits no longer than this for them to do so.
const LONGEST: Duration = Duration::from_secs(60 * 60);
/// It takes this part of a processor at most.
const SHARE: u32 = 8;
/// Of `/proc/PID/stat`, behind the name: faults that waited for storage.
const MAJOR_FAULTS: usize = 9;

/// Waits until the process that steers the memory of control groups has ended, which `alive` shows by its end. It then looks after these groups' processes, until they
/// are `steered_again`.
///
/// # Errors
/// `alive` cannot be read.
pub fn guard(groups: &[PathBuf], mut alive: impl Read, mut steered_again: impl FnMut() -> bool) -> io::Result<()> {
    if let Err(error) = page_out_own_start(Own::All) {
        tracing::debug!("what only the start needed stays in memory: {error}");
    }
    while alive.read(&mut [0])? > 0 {}
    let (begun, mut acts, mut faults) = (Instant::now(), 0, None);
    while acts < ACTS && begun.elapsed() < LONGEST && !steered_again() {
        let looked = Instant::now();
        let all: BTreeSet<u32> =
            groups.iter().flat_map(|group| within(group)).flat_map(|group| members(&group)).collect();
        if all.is_empty() {
            break;
        }
        let now = all.into_iter().filter_map(major_faults).sum::<u64>();
        if faults.replace(now) != Some(now) {
            refresh(groups);
            acts += 1;
        }
        std::thread::sleep(PAUSE.max(looked.elapsed() * (SHARE - 1)));
    }
    Ok(())
}

fn major_faults(process: u32) -> Option<u64> {
    let stat = fs::read(format!("/proc/{process}/stat")).ok()?;
    // The name may hold any bytes.
    let behind = stat.iter().rposition(|&byte| byte == b')')? + 1;
    std::str::from_utf8(&stat[behind..]).ok()?.split_ascii_whitespace().nth(MAJOR_FAULTS)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_where_nobody_is_or_others_steer() {
        let begun = Instant::now();
        let folder = tempfile::tempdir().expect("a folder");
        let group = folder.path().to_owned();
        guard(std::slice::from_ref(&group), &b"x"[..], || false).expect("it is read");
        fs::write(group.join("cgroup.procs"), format!("{}\n", std::process::id())).expect("a file");
        guard(std::slice::from_ref(&group), &b""[..], || true).expect("it is read");
        let mut asked = 0;
        let third = || {
            asked += 1;
            asked == 3
        };
        guard(&[group], &b""[..], third).expect("it is read");
        assert!(asked == 3 && begun.elapsed() < LONGEST);
    }

    #[test]
    fn faults_of_a_process_are_counted() {
        assert!(major_faults(std::process::id()).is_some());
        assert!(major_faults(u32::MAX).is_none());
    }
}
