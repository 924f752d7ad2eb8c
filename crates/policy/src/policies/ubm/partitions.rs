//! How pages enter the partitions, move between them and leave (sections 3.2 and 5.2).

use super::detector::Class;
use super::{Going, IN_USE, NONE, Status, Ubm};
use crate::parts::list::offer;
use crate::policy::{AllRefused, Caller};

impl Ubm {
    pub(super) fn is_resident(&self, slot: u32) -> bool {
        self.status[slot].partition.is_some()
    }

    pub(super) fn enter(&mut self, slot: u32, going: Going) {
        let Going { partition, bucket, once, pass } = going;
        let status = &mut self.status[slot];
        (status.partition, status.used, status.once) = (Some(partition), self.now as u32, once);
        match partition {
            Class::Sequential | Class::Looping => {
                (status.bucket, status.in_use, status.pass) = (bucket, true, pass);
                self.resting[pass as usize] = slot;
                self.in_use.push_front(&mut self.status, slot);
                let most = if self.stays { self.detector.open_passes().min(self.capacity / IN_USE).max(1) } else { 0 };
                if self.in_use.len() > most {
                    let oldest = self.in_use.back().expect("a page was put there");
                    self.release(oldest);
                }
            }
            Class::Other => {
                self.others.refer(&mut self.status, slot, self.now);
                if self.stack.contains(slot) {
                    self.stack.touch(slot);
                } else {
                    self.stack.push(slot);
                }
            }
        }
    }

    /// The pass is not at its page any more.
    pub(super) fn release_from(&mut self, pass: u32) {
        let slot = self.resting[pass as usize];
        if slot != NONE {
            self.release(slot);
        }
    }

    fn stop_use(&mut self, slot: u32) {
        let status = &mut self.status[slot];
        status.in_use = false;
        self.resting[status.pass as usize] = NONE;
        self.in_use.remove(&mut self.status, slot);
    }

    /// A page in use becomes one that may leave, as its class has it.
    fn release(&mut self, slot: u32) {
        self.stop_use(slot);
        let Status { partition, bucket, .. } = self.status[slot];
        match partition {
            Some(Class::Looping) => self.loops.push(&mut self.status, slot, bucket),
            _ => self.sequential.push_front(&mut self.status, slot),
        }
    }

    /// A resident page leaves its partition without a ghost.
    pub(super) fn leave(&mut self, slot: u32) {
        match self.status[slot].partition.take() {
            _ if self.status[slot].in_use => self.stop_use(slot),
            Some(Class::Sequential) => self.sequential.remove(&mut self.status, slot),
            Some(Class::Looping) => self.loops.remove(&mut self.status, slot),
            Some(Class::Other) => {
                self.others.remove(&mut self.status, slot);
                self.others.forget(slot);
                if self.stack.contains(slot) {
                    self.stack.remove(slot);
                }
            }
            None => {}
        }
    }

    pub(super) fn evict_looping<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        let victim = offer(self.loops.victims(&self.status), &mut self.slots.offered(caller))?;
        self.leave(victim);
        caller.forget(self.slots.take_back(victim));
        Ok(())
    }

    /// The page stays in the stack, as a ghost, if it is still there.
    pub(super) fn evict_other<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        let victim = self.others.evict(&mut self.status, &mut self.slots.offered(caller))?;
        self.recurrence.evicted(u64::from((self.now as u32).wrapping_sub(self.status[victim].used)));
        self.status[victim].partition = None;
        if self.stack.contains(victim) {
            self.ghosts += 1;
        } else {
            self.others.forget(victim);
            caller.forget(self.slots.take_back(victim));
        }
        self.limit_stack(caller);
        Ok(())
    }

    /// The stack is no deeper than the cache has pages (section 5.2).
    pub(super) fn limit_stack<C: Caller>(&mut self, caller: &mut C) {
        while self.stack.len() > self.capacity {
            let slot = self.stack.oldest().expect("the stack is deeper than the cache");
            self.stack.remove(slot);
            if !self.is_resident(slot) {
                self.ghosts -= 1;
                self.others.forget(slot);
                caller.forget(self.slots.take_back(slot));
            }
        }
    }
}
