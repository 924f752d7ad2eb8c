//! The threads that handle faults: each waits for one, has the pool bring the page, and maps it.

use crate::Error;
use crate::pager::{Mapped, Shared};
use crate::space::Space;
use crate::userfault::{Fault, Kind};
use forebay_pool::Handle;
use std::time::Instant;

/// Handles faults until the pager stops.
pub(crate) fn handle_all(shared: &Shared, handle: &Handle<Space>) {
    loop {
        match shared.space.faults.next(&shared.stop) {
            Ok(Some(fault)) => {
                if let Some(region) = shared.region_at(fault.address) {
                    resolve(shared, handle, &region, fault);
                }
            }
            Ok(None) => return,
            Err(error) => {
                tracing::error!(%error, "faults cannot be read: who touches an absent page waits for ever");
                return;
            }
        }
    }
}

fn resolve(shared: &Shared, handle: &Handle<Space>, region: &Mapped, fault: Fault) {
    let start = Instant::now();
    let counters = &shared.counters;
    let at = fault.address - region.extent.base as usize;
    let block = (at / shared.page_size) as u64;
    match fault.kind {
        Kind::Missing => {
            counters.major.add(1);
            shared.hand.missed();
        }
        Kind::Unmapped => counters.minor.add(1),
        Kind::Protected => counters.protection.add(1),
    }
    if let Err(error) = bring(shared, handle, region, block, fault.write) {
        counters.failed.add(1);
        let byte = at - at % shared.page_size;
        tracing::error!(%error, "{}: the page at byte {byte} cannot be used: SIGBUS", region.volume.name());
        shared.poison(&region.extent, byte);
    }
    counters.fault_time.add_time(start.elapsed());
}

/// Makes a page resident, and maps it for the program.
fn bring(shared: &Shared, handle: &Handle<Space>, region: &Mapped, block: u64, write: bool) -> Result<(), Error> {
    let Mapped { extent, volume } = region;
    if write {
        // As the page becomes dirty it is mapped: `unprotect` in space.rs.
        return Ok(handle.write(volume, block)?.commit()?);
    }
    let _page = handle.read(volume, block)?;
    let mapped = shared.space.map(extent, block as usize * shared.page_size, true);
    mapped.map_err(|source| Error::Memory { what: "a page cannot be mapped", source })
}
