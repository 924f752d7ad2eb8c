//! What is counted of a page cache that is steered, in words.

use crate::steering::options::PAGE;
use forebay_basis::show_bytes;
use forebay_figures::figures;
use forebay_kernel::Counts;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What was counted.
pub(crate) struct Seen {
    pub(crate) counts: Counts,
    /// Pages whose first use found them read ahead.
    pub(crate) ahead: u64,
}

figures! {
    /// The kernel's page cache of what is steered; counts are of pages, since the start.
    pub struct PageCacheFigures read from Seen {
        /// Uses that found their page in the kernel's cache.
        kernel_hits: u64 => |seen| seen.counts.pages.kernel_hits, Count "page_cache_references" result="hit";
        /// Uses that did not.
        kernel_misses: u64 => |seen| seen.counts.pages.kernel_misses, Count "page_cache_references" result="miss";
        /// Uses that found their page because it had been read ahead: those of the kernel's hits that are no use again.
        readahead_used: u64 => |seen| seen.ahead, Count "page_cache_readahead_used";
        /// Pages of what is steered that are in the kernel's cache now.
        there: u64 => |seen| seen.counts.there, Level "page_cache_pages" state="there";
        /// Those of them that the policy has let go, and that could not leave yet.
        kept: u64 => |seen| seen.counts.kept, Level "page_cache_pages" state="kept";
        /// Pages that may be there now: fewer than were asked for while the kernel needs memory.
        size: u64 => |seen| seen.counts.size, Level "page_cache_size_pages" figure="now";
        /// Pages that may be there by --cache, or by the limits that it follows.
        asked: u64 => |seen| seen.counts.asked, Level "page_cache_size_pages" figure="asked";
        /// Pages that the policy has let go.
        let_go: u64 => |seen| seen.counts.pages.let_go, Count "page_cache_victims" outcome="let_go";
        /// Pages that have left after that, or with their file.
        dropped: u64 => |seen| seen.counts.pages.dropped, Count "page_cache_victims" outcome="dropped";
        /// Pages that were used again before they had left.
        rescued: u64 => |seen| seen.counts.pages.rescued, Count "page_cache_victims" outcome="rescued";
        /// Pages that the policy got back because they could not leave: dirty, mapped or in use.
        refused: u64 => |seen| seen.counts.refused, Count "page_cache_victims" outcome="refused";
        /// Pages that the kernel has reclaimed by itself.
        reclaimed: u64 => |seen| seen.counts.pages.reclaimed, Count "page_cache_reclaimed";
        /// Files that are steered.
        files: u64 => |seen| seen.counts.files, Level "page_cache_files";
        /// Events that the kernel has sent.
        events: u64 => |seen| seen.counts.events, Count "page_cache_events" outcome="taken";
        /// Events that came too fast, and are lost.
        lost: u64 => |seen| seen.counts.lost, Count "page_cache_events" outcome="lost";
        /// Memory for events, for what is there and for files, beside the policy's.
        memory: u64 => |seen| seen.counts.memory, Bytes "page_cache_memory";
    }
}

/// The figures of a page cache that is steered.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct PageCacheReport {
    /// What is steered.
    pub name: String,
    /// Nothing leaves: it only is looked at what is used.
    #[serde(default)]
    pub observes: bool,
    /// What was counted.
    #[serde(flatten)]
    pub figures: PageCacheFigures,
}

/// What came of it, in a line.
impl fmt::Display for PageCacheReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PageCacheFigures { kernel_hits, kernel_misses, readahead_used, .. } = self.figures;
        let PageCacheFigures { there, let_go, dropped, reclaimed, lost, .. } = self.figures;
        let uses = kernel_hits + kernel_misses;
        match uses {
            0 => f.write_str("no file was used")?,
            _ => {
                let percent = |part: u64| 100.0 * part.min(uses) as f64 / uses as f64;
                let (again, ahead) = (percent(kernel_hits.saturating_sub(readahead_used)), percent(readahead_used));
                write!(
                    f,
                    "{uses} uses of pages: {again:.1} % found theirs in the kernel's cache, {ahead:.1} % read ahead"
                )?;
            }
        }
        match self.observes {
            true => write!(f, "; the policy would let {let_go} pages go")?,
            false => write!(f, "; the policy let {let_go} pages go, of which {} have left", dropped.min(let_go))?,
        }
        if reclaimed > 0 {
            write!(f, "; the kernel reclaimed {reclaimed} by itself")?;
        }
        if lost > 0 {
            write!(f, "; {lost} events came too fast, and are lost")?;
        }
        write!(f, "; {} are there", show_bytes(there * PAGE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_kernel::Pages;

    #[test]
    fn a_line_says_what_came_of_it() {
        let mut counts = Counts { there: 256, ..Counts::default() };
        let line = |counts: Counts| {
            let figures = PageCacheFigures::of(&Seen { counts, ahead: 1 });
            let report = PageCacheReport { name: "/srv".to_owned(), observes: false, figures };
            let observed = PageCacheReport { observes: true, ..report.clone() }.to_string();
            assert!(observed.contains("; the policy would let ") && !observed.contains(" have left"), "{observed}");
            report.to_string()
        };
        assert_eq!(line(counts), "no file was used; the policy let 0 pages go, of which 0 have left; 1 MiB are there");
        counts.pages =
            Pages { kernel_hits: 3, kernel_misses: 1, let_go: 2, dropped: 5, reclaimed: 7, ..Pages::default() };
        counts.lost = 9;
        let said = line(counts);
        let begin = "4 uses of pages: 50.0 % found theirs in the kernel's cache, 25.0 % read ahead; the policy let 2 pages go, of which 2 have left; ";
        assert!(said.starts_with(begin), "{said}");
        assert!(said.contains("reclaimed 7 by itself; 9 events came too fast, and are lost; "), "{said}");
    }
}
