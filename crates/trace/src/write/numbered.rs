//! The dense numbers of pages, by first use, for the formats that know pages alone.

use crate::error::{Error, Result};
use crate::pages::Paging;
use crate::request::Request;
use foldhash::fast::RandomState;
use hashbrown::HashMap;

/// Numbers pages; 24 bytes of memory for each distinct one.
pub(super) struct Numbered {
    file: String,
    paging: Paging,
    numbers: HashMap<(u32, u64), u64, RandomState>,
}

impl Numbered {
    pub(super) fn new(file: &str, paging: Paging) -> Self {
        Self { file: file.to_owned(), paging, numbers: HashMap::default() }
    }

    pub(super) fn page_size(&self) -> u64 {
        self.paging.page_size()
    }

    /// Calls `page` with the number of each page of a request.
    pub(super) fn each(&mut self, request: &Request, mut page: impl FnMut(u64) -> Result<()>) -> Result<()> {
        let blocks = self.paging.checked_pages(request).map_err(|message| Error::new(&self.file, message))?;
        for block in blocks {
            let next = self.numbers.len() as u64;
            page(*self.numbers.entry((request.object, block)).or_insert(next))?;
        }
        Ok(())
    }
}
