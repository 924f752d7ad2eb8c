//! How a recording was made, and what that makes of a comparison: what was read ahead, which sizes are looked at, and the words for it.

use super::comparison::{Asked, Comparison, USUAL_SIZES};
use super::error::{Error, Question};
use super::kernel::of_policy;
use super::monitor::Monitor;
use crate::input::trace::Trace;
use crate::readahead::Readahead;
use crate::size::Size;
use forebay_basis::show_bytes;
use forebay_trace::Circumstances;

/// Says that a recording is replayed without what its cache read ahead.
pub(super) fn warn_of_readahead(name: &str, recorded: Option<&Circumstances>, what: &str, monitor: &dyn Monitor) {
    let reads_ahead = |rule: &&str| rule.parse::<Readahead>().is_ok_and(|rule| !rule.is_none());
    if let Some(rule) = recorded.and_then(|recorded| recorded.readahead.as_deref()).filter(reads_ahead) {
        let replayed =
            format!("{name} was recorded with readahead {rule}; {what} are of no readahead, `forebay compare` has it");
        monitor.warn(&replayed);
    }
}

/// What the cache read ahead that recorded a trace, where that is known.
pub(super) fn recorded_readahead(circumstances: &Circumstances, monitor: &dyn Monitor) -> Option<Readahead> {
    let parsed = circumstances.readahead.as_ref()?.parse();
    parsed
        .map_err(|_| {
            monitor.warn("what was read ahead while it was recorded has no name here: --readahead RULE says it")
        })
        .ok()
}

impl Asked {
    /// The same question of a trace that was recorded so, and the policies that this leaves out. Unless it is asked what is read ahead, that is
    /// what the recording's cache read ahead.
    ///
    /// # Errors
    /// No policy is left.
    pub fn of_recorded(
        &self,
        circumstances: Option<&Circumstances>,
        monitor: &dyn Monitor,
    ) -> Result<(Self, Vec<String>), Question> {
        let mut asked = self.clone();
        // Readahead is a cache's own: a first level had another one. A sample lacks pages of each request, and epochs have no order.
        if self.behind.is_none() && self.sample.is_none() && !self.epochs {
            asked.readahead = self.readahead.clone().or_else(|| recorded_readahead(circumstances?, monitor));
        }
        asked.check()?;
        asked.kernel = Some(self.wants_kernel(circumstances));
        let (left_out, specs) = std::mem::take(&mut asked.specs)
            .into_iter()
            .partition::<Vec<_>, _>(|spec| spec.needs_future() && asked.reads_ahead());
        asked.specs = specs;
        Ok((asked, left_out.into_iter().map(|spec| spec.label).collect()))
    }

    /// Fits the sizes to a recording. A budget counts all the memory of the front end's cache. The usual sizes get the recorded one beside them.
    pub(super) fn fit_to_recorded(&self, sizes: &mut Vec<(u32, Size)>, trace: &Trace) -> Result<(), Error> {
        let recorded = trace.circumstances.as_ref();
        if let (Some(most), Some(last)) = (self.at_most, sizes.last_mut()) {
            last.0 = of_policy(most.pages(trace.page_size, trace.pages)?, recorded);
            let most = last.0;
            sizes.retain(|&(pages, size)| pages < most || Some(size) == self.at_most);
        } else if self.sizes == USUAL_SIZES.map(Size::Percent) {
            let bytes = recorded.and_then(|recorded| recorded.policy_bytes).filter(|bytes| *bytes >= trace.page_size);
            let own = bytes.and_then(|bytes| u32::try_from(bytes / trace.page_size).ok());
            if let Some(own) = own.filter(|own| sizes.iter().all(|(pages, _)| pages != own)) {
                sizes.push((own, Size::Pages(own.into())));
                sizes.sort_by_key(|&(pages, _)| pages);
            }
        }
        Ok(())
    }
}

impl Comparison {
    /// What the cache is that was compared: a mount, volumes, or nothing in particular.
    pub fn front_end(&self) -> &'static str {
        match self.recorded.as_ref().map(|recorded| &*recorded.front_end) {
            Some("mount") => "mount",
            Some("serve") => "volume",
            Some("run") => "run",
            Some("steer") => "steered cache",
            _ => "cache",
        }
    }

    /// How the trace was recorded, and what of that it was replayed with.
    pub fn recorded_in_words(&self) -> Option<String> {
        let recorded = self.recorded.as_ref()?;
        let of_same = |rule: &String| *rule == self.readahead.label;
        let several = matches!(&*recorded.front_end, "mount" | "serve");
        let replayed = match &recorded.readahead {
            Some(rule) if !of_same(rule) => format!("; replayed with readahead {}", self.readahead.label),
            Some(_) if !self.readahead.is_none() => "; replayed with the same (without: --readahead none)".to_owned(),
            None if several && self.readahead.is_none() => {
                "; replayed without readahead, as not all of it was read ahead alike".to_owned()
            }
            _ => String::new(),
        };
        Some(format!("recorded {}{replayed}", recorded.in_words()))
    }

    /// That the program's blocks are larger than the pages, and what to do.
    pub fn larger_blocks_in_words(&self) -> Option<String> {
        let bytes = show_bytes(self.larger_blocks?);
        Some(format!(
            "nine in ten requests are whole blocks of {bytes}: --page-size {} counts each once",
            bytes.replace(' ', "")
        ))
    }

    /// Which policies were asked and left out, and why.
    pub fn left_out_in_words(&self) -> Option<String> {
        let why = "left out, since what knows the future does not know what is read ahead (--readahead none has it)";
        (!self.left_out.is_empty()).then(|| format!("{why}: {}", self.left_out.join(", ")))
    }
}
