//! The control group of the process that a program sees.

use super::assemble::Register::{R0, R1, R10};
use super::assemble::{Assembler, Size};
use super::helper;
use super::layout::{Field, Layout, Missing};

/// By which hierarchy a process's control group is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Groups {
    None,
    /// Version 2's.
    Unified,
    /// That of version 1's controller of this number.
    Controller(i16),
}

impl Groups {
    /// Version 1's of the controller `memory`.
    ///
    /// # Errors
    /// The kernel has no such controller.
    pub(crate) fn of_memory(layout: &Layout) -> Result<Self, Missing> {
        Ok(Self::Controller(layout.memory_controller()?))
    }

    /// Puts the number of the current process's group on the stack. It takes `R0` to `R5`.
    pub(crate) fn number(self, asm: &mut Assembler, layout: &Layout, to: i16) {
        let load = |asm: &mut Assembler, from, Field { offset, size }: Field| asm.load(size, R1, from, offset);
        // set = bpf_get_current_task_btf()->cgroups;
        asm.call(helper::CURRENT_TASK);
        load(asm, R0, layout.task_groups);
        match self {
            Groups::Controller(controller) => {
                // group = set->subsys[controller]->cgroup;
                asm.load(Size::Long, R1, R1, layout.groups_controllers.offset + controller * 8);
                load(asm, R1, layout.controller_group);
            }
            // group = set->dfl_cgrp;
            Groups::None | Groups::Unified => load(asm, R1, layout.groups_unified),
        }
        // group->kn->id
        load(asm, R1, layout.group_node);
        load(asm, R1, layout.node_number);
        asm.store(Size::Long, R10, to, R1);
    }
}
