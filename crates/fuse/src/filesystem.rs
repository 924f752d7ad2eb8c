//! The requests of the kernel, each to the part that answers it.

use crate::attributes::Attributes;
use crate::data::Asked;
use crate::ioctl::Said;
use crate::managing::of_ours;
use crate::nodes::Node;
use crate::object::Done;
use crate::privileges::CAPABILITIES;
use crate::protocol::{
    Caller, Create, Entries, Errno, Opened, Operation, Reply, Request, SetAttributes, Space, Unwanted,
};
use crate::shared::Shared;
use rustix::fs::{Access, AtFlags};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// Answers the requests of a mount.
#[derive(Clone)]
pub(crate) struct FileSystem(pub(crate) Arc<Shared>);

impl FileSystem {
    pub(crate) fn answer(&self, request: Request<'_>, reply: Reply) {
        let Request { node, caller, operation, .. } = request;
        let shared = &self.0;
        match operation {
            Operation::LookUp { name } => self.entry(reply, shared.look_up(node, name)),
            Operation::Forget { lookups } => shared.forget(node, lookups),
            Operation::ForgetMany(files) => files.for_each(|(node, lookups)| shared.forget(node, lookups)),
            Operation::GetAttributes => attributes(reply, shared.get_attributes(node)),
            Operation::GetAllAttributes => match shared.get_attributes(node) {
                Ok(found) => reply.all_attributes(&found),
                Err(errno) => reply.error(errno),
            },
            Operation::SetAttributes(changes) => self.set_attributes(caller, node, changes, reply),
            Operation::ReadLink => match shared.read_link(node) {
                Ok(target) => reply.bytes(&target),
                Err(errno) => reply.error(errno),
            },
            Operation::MakeSymbolicLink { name, target } => {
                self.entry(reply, shared.make_link(caller, (node, name), target));
            }
            Operation::MakeNode { name, mode, device, umask } => {
                self.entry(reply, shared.make_node((caller, umask), (node, name), (mode, device)));
            }
            Operation::MakeDirectory { name, mode, umask } => {
                self.entry(reply, shared.make_directory((caller, umask), (node, name), mode));
            }
            Operation::RemoveFile { name } => reply.done(shared.remove(node, name, AtFlags::empty())),
            Operation::RemoveDirectory { name } => reply.done(shared.remove(node, name, AtFlags::REMOVEDIR)),
            Operation::Rename { name, new_parent, new_name, flags } => {
                self.rename(caller, (node, name), (new_parent, new_name), flags, reply);
            }
            Operation::Link { node: of, name } => self.entry(reply, shared.link(caller, of, node, name)),
            Operation::Open { flags } => {
                shared.processes.look_again(caller.thread);
                self.opened(reply, shared.nodes.get(node).and_then(|node| shared.open(node, flags, Some(caller))));
            }
            Operation::Create(file) => self.create(caller, node, &file, reply),
            Operation::Read { handle, offset, size, by_program } => match shared.asked(handle, caller) {
                Ok(asked) => shared.read(asked, offset, size as usize, !by_program, reply),
                Err(errno) => reply.error(errno),
            },
            Operation::Write(write) => {
                let caller = if write.mapped { Caller { thread: 0, ..caller } } else { caller };
                match shared.asked(write.handle, caller) {
                    Ok(asked) => shared.write(asked, &write, reply),
                    Err(errno) => reply.error(errno),
                }
            }
            Operation::GetSpace => match space(shared, node) {
                Ok(space) => reply.space(&space),
                Err(errno) => reply.error(errno),
            },
            Operation::Flush { handle } => match shared.open.get(handle) {
                Ok(open) => shared.flush(open, caller, reply),
                Err(errno) => reply.error(errno),
            },
            Operation::Release { handle } => {
                shared.close(handle);
                reply.done(Ok(()));
            }
            Operation::Sync { handle, data_only } => {
                self.later(shared.asked(handle, caller), reply, move |shared, asked, reply| {
                    let synced = shared.sync(asked, data_only);
                    shared.timed(&reply);
                    reply.done(synced);
                });
            }
            Operation::SetXattr { name, value, flags, drop_group_id } => match of_ours(name) {
                // Where the file's bytes have to be written before.
                None if name == CAPABILITIES => {
                    let (name, value) = (name.to_owned(), value.to_owned());
                    self.wait(caller, reply, move |shared, reply| {
                        let by = (caller, drop_group_id);
                        reply.done(shared.set_capabilities(node, &name, (&value, flags), by));
                    });
                }
                None => reply.done(shared.set_xattr(node, name, (value, flags), (caller, drop_group_id))),
                Some(ours) => {
                    let value = value.to_owned();
                    self.wait(caller, reply, move |shared, reply| {
                        reply.done(shared.set_ours(caller, node, ours, Some((&value, flags))));
                    });
                }
            },
            Operation::GetXattr { name, room } => value(reply, room, shared.xattr(caller, node, Some(name))),
            Operation::ListXattrs { room } => value(reply, room, shared.xattr(caller, node, None)),
            Operation::RemoveXattr { name } => match of_ours(name) {
                None => reply.done(shared.remove_xattr(node, name)),
                Some(ours) => {
                    self.wait(caller, reply, move |shared, reply| {
                        reply.done(shared.set_ours(caller, node, ours, None))
                    });
                }
            },
            Operation::OpenDirectory => match shared.open_directory(node) {
                Ok(handle) => {
                    if let Unwanted(true) = reply.opened(Opened { handle, how: 0 }) {
                        shared.directories.remove(handle);
                    }
                }
                Err(errno) => reply.error(errno),
            },
            Operation::ReadDirectory { handle, offset, room, attributes } => {
                self.read_directory((handle, offset), (room, attributes), reply);
            }
            Operation::ReleaseDirectory { handle } => {
                shared.directories.remove(handle);
                reply.done(Ok(()));
            }
            Operation::SyncDirectory { handle } => {
                self.wait(caller, reply, move |shared, reply| reply.done(shared.sync_directory(handle)));
            }
            Operation::Access { mask } => {
                reply.done(shared.check_access(node, Access::from_bits_truncate(mask)));
            }
            Operation::Control { handle, command, data } => match Said::read(command, data) {
                Ok(said) => self.control(caller, handle, said, reply),
                Err(errno) => reply.error(errno),
            },
            Operation::Allocate { handle, offset, length, mode } => {
                self.later(shared.asked(handle, caller), reply, move |shared, asked, reply| {
                    reply.done(shared.allocate(asked, (offset, length), mode));
                });
            }
            Operation::Seek { handle, offset, whence } => {
                self.later(shared.asked(handle, caller), reply, move |shared, asked, reply| {
                    match shared.seek(asked, offset, whence) {
                        Ok(found) => reply.offset(found),
                        Err(errno) => reply.error(errno),
                    }
                });
            }
            Operation::Copy { handle, offset, to, to_offset, length } => {
                let to = shared.asked(to, caller);
                let both = shared.asked(handle, caller).and_then(|from| to.map(|to| (from, to)));
                match both {
                    Ok((from, to)) => self.wait(caller, reply, move |shared, reply| {
                        match shared.copy((&from, offset), (&to, to_offset), length) {
                            Ok(copied) => reply.count(copied),
                            Err(errno) => reply.error(errno),
                        }
                    }),
                    Err(errno) => reply.error(errno),
                }
            }
            // Locks are the kernel's, as for any local file system. The kernel asks for none of the others.
            Operation::SyncFileSystem
            | Operation::Interrupt { .. }
            | Operation::Initialize(_)
            | Operation::Destroy
            | Operation::Unknown => reply.error(Errno::ENOSYS),
        }
    }

    /// Answers on a thread that may wait.
    fn wait(&self, caller: Caller, mut reply: Reply, work: impl FnOnce(&Arc<Shared>, Reply) + Send + 'static) {
        reply.hand_over(&self.0.under_way, caller.thread);
        let shared = Arc::clone(&self.0);
        self.0.workers.run(move || work(&shared, reply));
    }

    /// The same about an open file.
    fn later(
        &self,
        asked: Result<Asked, Errno>,
        reply: Reply,
        work: impl FnOnce(&Shared, &Asked, Reply) + Send + 'static,
    ) {
        match asked {
            Ok(asked) => self.wait(asked.caller, reply, move |shared, reply| work(shared, &asked, reply)),
            Err(errno) => reply.error(errno),
        }
    }

    /// Answers a lookup.
    fn entry(&self, reply: Reply, found: Result<Attributes, Errno>) {
        match found {
            Ok(found) => {
                if let Unwanted(true) = reply.entry(&found) {
                    self.0.forget(found.number, 1);
                }
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn opened(&self, reply: Reply, opened: Result<Opened, Errno>) {
        match opened {
            Ok(opened) => {
                if let Unwanted(true) = reply.opened(opened) {
                    self.0.close(opened.handle);
                }
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn create(&self, caller: Caller, parent: u64, file: &Create<'_>, reply: Reply) {
        match self.0.create(caller, parent, file) {
            Ok((found, opened)) => {
                if let Unwanted(true) = reply.created(&found, opened) {
                    self.0.close(opened.handle);
                    self.0.forget(found.number, 1);
                }
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn set_attributes(&self, caller: Caller, number: u64, changes: Box<SetAttributes>, reply: Reply) {
        let node: Arc<Node> = match self.0.nodes.get(number) {
            Ok(node) => node,
            Err(errno) => return reply.error(errno),
        };
        match changes.size {
            None => attributes(reply, self.0.set_attributes(&node, caller, &changes)),
            // It waits for pages that are in use or being written.
            Some(size) => self.wait(caller, reply, move |shared, reply| {
                attributes(reply, shared.set_all(&node, caller, size, &changes));
            }),
        }
    }

    fn rename(&self, caller: Caller, from: (u64, &OsStr), to: (u64, &OsStr), flags: u32, reply: Reply) {
        match self.0.rename(caller, from, to, flags, false) {
            Ok(Done::Now(())) => reply.done(Ok(())),
            Err(errno) => reply.error(errno),
            Ok(Done::Later) => {
                let ((parent, name), (new_parent, new_name)) = ((from.0, from.1.to_owned()), (to.0, to.1.to_owned()));
                self.wait(caller, reply, move |shared, reply| {
                    let (from, to) = ((parent, &*name), (new_parent, &*new_name));
                    reply.done(shared.rename(caller, from, to, flags, true).map(drop));
                });
            }
        }
    }

    fn control(&self, caller: Caller, handle: u64, said: Said, reply: Reply) {
        self.later(self.0.asked(handle, caller), reply, move |shared, asked, reply| {
            let done = match said {
                Said::Hint(hinted) => shared.hint(asked, hinted),
                Said::Manage(manager, process) => shared.manage(asked, (&manager, process)),
            };
            match done {
                Ok(()) => reply.controlled(),
                Err(errno) => reply.error(errno),
            }
        });
    }

    fn read_directory(&self, (handle, offset): (u64, u64), (room, attributes): (u32, bool), reply: Reply) {
        let shared = &self.0;
        let mut entries = Entries::new(room);
        let mut looked_up = Vec::new();
        let read = shared.directories.get(handle).and_then(|directory| {
            directory.read(offset, |entry| {
                let (name, file) = (entry.name.as_bytes(), (entry.number, entry.kind));
                if !attributes {
                    return entries.add(name, file, entry.next, None);
                }
                // The kernel takes no lookup of these two.
                if entry.name == "." || entry.name == ".." {
                    return entries.add(name, file, entry.next, Some(&Attributes::default()));
                }
                match shared.nodes.look_up(&directory.fd, &entry.name) {
                    Ok((node, found)) => {
                        let found = shared.attributes(&node, found);
                        let added = entries.add(name, (found.number, found.mode), entry.next, Some(&found));
                        if added {
                            looked_up.push(found.number);
                        } else {
                            shared.forget(found.number, 1);
                        }
                        added
                    }
                    // It has gone meanwhile.
                    Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESTALE)) => true,
                    // It has a name, as its directory can be read and not searched.
                    Err(_) => entries.add(name, file, entry.next, Some(&Attributes::default())),
                }
            })
        });
        match read {
            Ok(()) => {
                if let Unwanted(true) = reply.entries(&entries) {
                    looked_up.into_iter().for_each(|number| shared.forget(number, 1));
                }
            }
            Err(errno) => {
                looked_up.into_iter().for_each(|number| shared.forget(number, 1));
                reply.error(errno);
            }
        }
    }
}

fn attributes(reply: Reply, found: Result<Attributes, Errno>) {
    match found {
        Ok(found) => reply.attributes(&found),
        Err(errno) => reply.error(errno),
    }
}

/// Answers how long a value is, or the value.
fn value(reply: Reply, room: u32, found: Result<Vec<u8>, Errno>) {
    match found {
        Ok(value) if room == 0 => reply.count(value.len() as u32),
        Ok(value) if value.len() > room as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.bytes(&value),
        Err(errno) => reply.error(errno),
    }
}

fn space(shared: &Shared, node: u64) -> Result<Space, Errno> {
    let found = rustix::fs::fstatvfs(&*shared.nodes.path(node)?)?;
    Ok(Space {
        blocks: found.f_blocks,
        free: found.f_bfree,
        available: found.f_bavail,
        files: found.f_files,
        free_files: found.f_ffree,
        block_size: found.f_bsize as u32,
        fragment_size: found.f_frsize as u32,
        longest_name: found.f_namemax as u32,
    })
}
