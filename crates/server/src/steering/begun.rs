//! What options take of the system before anything is steered.

use crate::cache::{Cache, MEMORY, SHARED};
use crate::error::Error;
use crate::memory;
use crate::steering::claim::{Claim, Of};
use crate::steering::folio_limit::FolioLimit;
use crate::steering::options::SteerOptions;
use crate::words::Size;
use forebay_kernel::Scope;
use forebay_policy::Layout;
use forebay_trace::Circumstances;
use std::process;
use std::sync::Arc;

impl SteerOptions {
    /// Sees to it that nobody else steers the same. To look on is in nobody's way.
    pub(crate) fn claim(&self) -> Result<Vec<Claim>, Error> {
        if self.observe {
            return Ok(Vec::new());
        }
        let files =
            self.directories.iter().chain(&self.groups).filter(|_| self.has_files()).map(|place| (place, Of::Files));
        let memory = self.groups.iter().filter(|_| self.memory.is_some()).map(|group| (group, Of::Memory));
        files.chain(memory).map(|(place, of)| Claim::new(place, of)).collect()
    }

    /// Shortens the readahead of the devices of what is steered, if that is asked for.
    pub(crate) fn limit_folios(&self, scopes: &[Scope]) -> Result<Option<FolioLimit>, Error> {
        let limit = |limit: Size| FolioLimit::new(&forebay_kernel::devices(scopes)?, limit.0);
        self.folio_limit.map(limit).transpose()
    }

    /// A cache whose frames hold no bytes, and the most bytes that it may be resized to. `layout`: where what it caches lies on disks.
    pub(crate) fn make_cache(&self, layout: Option<Arc<dyn Layout>>) -> Result<(Arc<Cache>, u64), Error> {
        self.check_memory(memory::limit())?;
        memory::keep_no_large_blocks();
        self.check_addresses(memory::addresses_left())?;
        let mut config = self.config(memory::most_pages_elsewhere(self.cache_size()));
        config.policy.layout = layout;
        let most = config.most_capacity;
        let name = if self.has_files() { SHARED } else { MEMORY };
        Ok((Arc::new(Cache::new(name, config)?), most))
    }

    /// How uses are recorded: beside a policy at work, or `alone`.
    pub(crate) fn circumstances(&self, alone: bool) -> Circumstances {
        if alone {
            return Circumstances { front_end: "record".to_owned(), ..Circumstances::default() };
        }
        let config = self.config(0);
        Circumstances {
            front_end: "steer".to_owned(),
            policy: Some(config.policy.label.clone()),
            cache: Some(self.cache_size()),
            policy_bytes: Some(config.policy_bytes()),
            ..Circumstances::default()
        }
    }

    /// What is steered, in words.
    pub(crate) fn name(&self, program: Option<&process::Command>) -> String {
        let places = self.directories.iter().chain(&self.groups).map(|place| place.display().to_string());
        let program = program.map(|program| program.get_program().display().to_string());
        places.chain(program).collect::<Vec<_>>().join(", ")
    }
}

impl From<forebay_kernel::Error> for Error {
    fn from(error: forebay_kernel::Error) -> Self {
        match error {
            forebay_kernel::Error::Place { .. } => Self::Usage(error.to_string()),
            forebay_kernel::Error::Pool(error) => Self::Pool(error),
            forebay_kernel::Error::Watch(_)
            | forebay_kernel::Error::Rights(_)
            | forebay_kernel::Error::System { .. } => Self::Failed(error.to_string()),
        }
    }
}
