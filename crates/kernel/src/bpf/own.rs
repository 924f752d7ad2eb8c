//! This process, as programs see it.

use super::assemble::{Assembler, Operation, Register};
use super::error::WatchError;
use super::{helper, system};
use std::os::fd::AsFd;

/// This process's number outside of all PID namespaces: a program is asked, as no file says it.
pub(crate) fn process() -> Result<i32, WatchError> {
    let mut asm = Assembler::default();
    asm.call(helper::CURRENT_PROCESS);
    asm.calculate(Operation::ShiftRight, Register::R0, 32);
    asm.exit();
    let code = asm.finish().expect("it has no jumps");
    let program = system::load_program("forebay_own", &code, system::Use::RunHere)
        .map_err(|error| WatchError::refused("this process's own number", error))?;
    let own =
        system::run(program.as_fd()).map_err(|source| WatchError::system("a BPF program cannot be run", source))?;
    Ok(own as i32)
}
