//! Has the kernel know how long its lists of a control group's pages are, lest it kill programs that it need not.
//!
//! Where all pages of a group are active, the kernel makes some inactive before it reclaims them. Whether there are inactive ones it sees from counts that it brings up
//! to date every two seconds (`prepare_scan_control`, `inactive_is_low` in `mm/vmscan.c`, 6.18). If the lists change faster, it takes an empty list for a long one, finds
//! nothing to reclaim, and kills a program for lack of memory. Steering changes them so: it makes pages inactive, and those that left by `MADV_PAGEOUT` all become active
//! when they come back, as their age is counted against the whole machine. It was seen in groups of 34 to 93 MiB, after steering had ended.
//!
//! To read `memory.stat` brings the counts up to date.

use crate::scopes::{above, within};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// Has the counts of groups, of those below and of those above them brought up to date. Groups that count no memory are passed over.
pub(super) fn refresh(groups: &[PathBuf]) {
    let all: BTreeSet<PathBuf> =
        groups.iter().flat_map(|group| within(group)).flat_map(|group| above(&group)).collect();
    for group in all {
        // Of a group that has gone meanwhile there is nothing to count.
        let _ = fs::read(group.join("memory.stat"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_above_and_below_count_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let inner = folder.path().join("a/b");
        fs::create_dir_all(&inner).expect("folders");
        for group in ["a", "a/b"] {
            fs::write(folder.path().join(group).join("cgroup.procs"), "").expect("a file");
        }
        assert_eq!(above(&inner), [inner.clone(), folder.path().join("a")]);
        refresh(&[inner, folder.path().join("no such group")]);
    }
}
