//! info
use crate::failure::Failure;
/// Say what a trace holds.
#[derive(clap::Args)]
pub(crate) struct Arguments {}
pub(crate) fn run(_: &Arguments) -> Result<(), Failure> {
    Ok(())
}
