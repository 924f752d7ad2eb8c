//! What is counted of programs' memory that is steered, in words.

use crate::steering::options::PAGE;
use forebay_basis::show_bytes;
use forebay_figures::figures;
use forebay_kernel::memory::Counts;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

figures! {
    /// The memory of programs that are steered; counts are of pages, since the start.
    pub struct MemoryFigures read from Counts {
        /// Faults on pages that were not there.
        misses: u64 => |counts| counts.pages.kernel_misses, Count "memory_references" result="miss";
        /// Uses of pages that were there: as reference bits tell, each page once in an epoch.
        hits: u64 => |counts| counts.pages.kernel_hits, Count "memory_references" result="hit";
        /// Pages in memory that may leave.
        there: u64 => |counts| counts.there, Level "memory_pages" state="there";
        /// Those of them that the policy has let go, and that could not leave yet.
        kept: u64 => |counts| counts.kept, Level "memory_pages" state="kept";
        /// Pages of programs themselves and their libraries, which may not leave.
        others: u64 => |counts| counts.others, Level "memory_pages" state="programs";
        /// Pages that may be in memory now: fewer than were asked for while the kernel needs memory.
        size: u64 => |counts| counts.size, Level "memory_size_pages" figure="now";
        /// Pages that may be in memory by --memory, or by the limits that it follows.
        asked: u64 => |counts| counts.asked, Level "memory_size_pages" figure="asked";
        /// Pages that the policy has let go.
        let_go: u64 => |counts| counts.pages.let_go, Count "memory_victims" outcome="let_go";
        /// Pages that have left after that, or with their process.
        dropped: u64 => |counts| counts.pages.dropped, Count "memory_victims" outcome="dropped";
        /// Pages that were used again before they had left.
        rescued: u64 => |counts| counts.pages.rescued, Count "memory_victims" outcome="rescued";
        /// Pages that the policy got back because they stay: others have them, too, they are locked, or swap space is full.
        refused: u64 => |counts| counts.refused, Count "memory_victims" outcome="refused";
        /// Pages that the kernel has reclaimed by itself.
        reclaimed: u64 => |counts| counts.pages.reclaimed, Count "memory_reclaimed";
        /// Processes that are steered.
        processes: u64 => |counts| counts.processes, Level "memory_processes";
        /// Page faults that the kernel's tracepoints have reported, also on pages that were there.
        faults: u64 => |counts| counts.faults, Count "memory_faults" outcome="taken";
        /// Faults that came too fast, after which all memory is looked at; and those of processes that had ended before they were looked at.
        lost: u64 => |counts| counts.lost, Count "memory_faults" outcome="lost";
        /// 1 while the policy chooses what leaves, 0 while the kernel's own lists do.
        policy_chooses: u64 => |counts| u64::from(counts.policy_chooses), Level "memory_policy_chooses";
        /// Microseconds in which the kernel's own lists chose.
        kernel_chose: u64 => |counts| u64::try_from(counts.kernel_chose.as_micros()).unwrap_or(u64::MAX), Count "memory_kernel_chose_microseconds";
        /// Looks at reference bits: each ends an epoch.
        looks: u64 => |counts| counts.looks, Count "memory_looks";
        /// Microseconds that these looks took.
        looking: u64 => |counts| u64::try_from(counts.looking.as_micros()).unwrap_or(u64::MAX), Count "memory_looking_microseconds";
        /// Memory for faults, for page tables and for what is there, beside the policy's.
        memory: u64 => |counts| counts.memory, Bytes "memory_steering";
    }
}

/// The figures of programs' memory that is steered.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct MemoryReport {
    /// What is steered.
    pub name: String,
    /// Nothing leaves: it only is looked at what is used.
    #[serde(default)]
    pub observes: bool,
    /// What was counted.
    #[serde(flatten)]
    pub figures: MemoryFigures,
}

/// What came of it, in a line.
impl fmt::Display for MemoryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MemoryFigures { misses, let_go, dropped, refused, reclaimed, kernel_chose, lost, there, others, .. } =
            self.figures;
        write!(f, "{misses} faults on pages that were not there")?;
        match self.observes {
            true => write!(f, "; the policy would let {let_go} pages go")?,
            false => write!(f, "; the policy let {let_go} pages go, of which {} have left", dropped.min(let_go))?,
        }
        if refused > 0 {
            write!(f, "; {refused} stayed, as others have them, they are locked, or swap space is full")?;
        }
        if reclaimed > 0 {
            write!(f, "; the kernel reclaimed {reclaimed} by itself")?;
        }
        if kernel_chose > 0 {
            write!(f, "; the kernel's own lists chose for {:.1} s", Duration::from_micros(kernel_chose).as_secs_f64())?;
        }
        if lost > 0 {
            write!(f, "; {lost} faults came too fast, or from processes that ended at once, and are lost")?;
        }
        write!(f, "; {} are in memory", show_bytes((there + others) * PAGE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_kernel::Pages;

    #[test]
    fn a_line_says_what_came_of_it() {
        let pages = Pages { kernel_misses: 9, let_go: 4, dropped: 5, reclaimed: 2, ..Pages::default() };
        let kernel_chose = Duration::from_millis(1250);
        let counts = Counts { pages, kernel_chose, there: 200, others: 56, refused: 1, ..Counts::default() };
        let said =
            MemoryReport { name: "a".to_owned(), observes: false, figures: MemoryFigures::of(&counts) }.to_string();
        assert_eq!(
            said,
            "9 faults on pages that were not there; the policy let 4 pages go, of which 4 have left; 1 stayed, as others have them, they are locked, or swap \
             space is full; the kernel reclaimed 2 by itself; the kernel's own lists chose for 1.2 s; 1 MiB are in memory"
        );
    }
}
