//! info
use crate::failure::Failure;
/// Say what a trace holds.
#[derive(clap::Args)]
pub(crate) struct Arguments {}
pub(crate) fn run(_: &Arguments, _: bool) -> Result<(), Failure> {
    Ok(())
}
