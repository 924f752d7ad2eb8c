//! Where the kernel keeps what the programs read: each offset is looked up when they start, in the kernel's own description.

use super::assemble::Size;
use super::btf::{Btf, BtfKind};
use std::fmt;

/// A member of a structure: where it is, and how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Field {
    pub(crate) offset: i16,
    pub(crate) size: Size,
}

/// Something that a running kernel does not have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Missing {
    /// For example `folio.index`.
    what: String,
    /// The first version of Linux that has it.
    since: &'static str,
}

impl Missing {
    /// A function that programs call.
    pub(crate) fn function(name: &str, since: &'static str) -> Self {
        Self { what: format!("function {name}"), since }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "this kernel has no {}, which is there since Linux {}", self.what, self.since)
    }
}

/// Makes the layout's structure, and how it is found: a line has the field's name, its structure in the kernel, its path
/// there, and the first version that has it.
macro_rules! fields {
    ($($name:ident: $structure:literal, $path:expr, $since:literal;)*) => {
        /// Offsets of members, and numbers of named values.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub(crate) struct Layout {
            $(pub(crate) $name: Field,)*
            /// The order of a large folio: its lowest eight bits.
            pub(crate) folio_order: Field,
            /// The bit of a folio's flags that says that it has more than one page.
            pub(crate) head_bit: i32,
            /// The number of version 1's memory controller. `None` without that controller.
            memory_controller: Option<i16>,
        }

        impl Layout {
            /// Finds all that the programs need.
            pub(crate) fn find(btf: &Btf<'_>) -> Result<Layout, Missing> {
                Ok(Layout {
                    $($name: field(btf, $structure, &$path)
                        .ok_or_else(|| Missing { what: format!("{}.{}", $structure, $path.join(".")), since: $since })?,)*
                    folio_order: folio_order(btf)?,
                    head_bit: head_bit(btf)?,
                    memory_controller: memory_controller(btf),
                })
            }

            /// The number of version 1's memory controller, by which a process's control groups are ordered.
            pub(crate) fn memory_controller(&self) -> Result<i16, Missing> {
                self.memory_controller.ok_or_else(|| Missing {
                    what: "memory controller for control groups, or was built without CONFIG_MEMCG".to_owned(),
                    since: "2.6.25",
                })
            }
        }
    };
}

fields! {
    request_file: "kiocb", ["ki_filp"], "2.6";
    request_position: "kiocb", ["ki_pos"], "2.6";
    iterator_bytes: "iov_iter", ["count"], "3.16";
    file_mapping: "file", ["f_mapping"], "2.6";
    file_last_position: "file", ["f_ra", "prev_pos"], "2.6.28";
    mapping_inode: "address_space", ["host"], "2.6";
    inode_mode: "inode", ["i_mode"], "2.6";
    inode_number: "inode", ["i_ino"], "2.6";
    inode_generation: "inode", ["i_generation"], "2.6";
    inode_bytes: "inode", ["i_size"], "2.6";
    inode_file_system: "inode", ["i_sb"], "2.6";
    file_system_device: "super_block", ["s_dev"], "2.6";
    folio_flags: "folio", ["flags"], "5.16";
    folio_mapping: "folio", ["mapping"], "5.16";
    folio_index: "folio", ["index"], "5.16";
    task_flags: "task_struct", ["flags"], "2.6";
    task_groups: "task_struct", ["cgroups"], "2.6.24";
    task_memory: "task_struct", ["mm"], "2.6";
    memory_tables: "mm_struct", ["pgd"], "2.6";
    groups_unified: "css_set", ["dfl_cgrp"], "3.16";
    groups_controllers: "css_set", ["subsys"], "2.6.24";
    controller_group: "cgroup_subsys_state", ["cgroup"], "2.6.24";
    group_node: "cgroup", ["kn"], "3.14";
    node_number: "kernfs_node", ["id"], "5.5";
}

/// The member at the end of a path, counted from the beginning of the structure.
fn field(btf: &Btf<'_>, structure: &str, path: &[&str]) -> Option<Field> {
    let (mut offset, mut of) = (0, btf.find(BtfKind::Struct, structure)?);
    for name in path {
        let member = btf.member(of, name)?;
        (offset, of) = (member.offset.checked_add(offset)?, member.of);
    }
    // Only the array of controllers has no size of its own here: its elements are pointers.
    let size = btf.bytes(of).map_or(Some(Size::Long), Size::of)?;
    Some(Field { offset: i16::try_from(offset).ok()?, size })
}

/// A large folio's order: in the lowest bits of its second page's flags since Linux 6.6, in a byte of its own before.
fn folio_order(btf: &Btf<'_>) -> Result<Field, Missing> {
    field(btf, "folio", &["_folio_order"])
        .or_else(|| field(btf, "folio", &["_flags_1"]))
        .ok_or(Missing { what: "folio._flags_1".to_owned(), since: "5.18" })
}

fn head_bit(btf: &Btf<'_>) -> Result<i32, Missing> {
    let bit = btf.find(BtfKind::Enum, "pageflags").and_then(|flags| btf.value(flags, "PG_head"));
    bit.filter(|bit| *bit < 31)
        .map(|bit| 1 << bit)
        .ok_or(Missing { what: "PG_head in enum pageflags".to_owned(), since: "4.5" })
}

fn memory_controller(btf: &Btf<'_>) -> Option<i16> {
    let controllers = btf.find(BtfKind::Enum, "cgroup_subsys_id")?;
    i16::try_from(btf.value(controllers, "memory_cgrp_id")?).ok().filter(|place| *place < 64)
}

/// What a program is attached to, and what it takes from it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    /// The tracepoint or function.
    pub(crate) name: &'static str,
    /// Its first parameters: pointers to these structures.
    pub(crate) takes: &'static [&'static str],
    /// The first version of Linux that has it, with these parameters.
    pub(crate) since: &'static str,
}

impl Target {
    /// The number of a function's type.
    pub(crate) fn function(&self, btf: &Btf<'_>) -> Result<u32, Missing> {
        let found = btf.find(BtfKind::Function, self.name);
        self.checked(btf, found, 0, "function")
    }

    /// The number of a tracepoint's type.
    pub(crate) fn tracepoint(&self, btf: &Btf<'_>) -> Result<u32, Missing> {
        let found = btf.find(BtfKind::Typedef, &format!("btf_trace_{}", self.name));
        self.checked(btf, found, 1, "tracepoint")
    }

    fn checked(&self, btf: &Btf<'_>, found: Option<u32>, skipped: usize, what: &str) -> Result<u32, Missing> {
        let fits = |id: &u32| {
            self.takes.iter().enumerate().all(|(parameter, structure)| btf.takes(*id, parameter + skipped, structure))
        };
        let takes = match self.takes {
            [] => String::new(),
            takes => format!(" of struct {}", takes.join(", struct ")),
        };
        found.filter(fits).ok_or_else(|| Missing { what: format!("{what} {}{takes}", self.name), since: self.since })
    }
}

#[cfg(test)]
mod tests {
    use super::super::btf::tests::Maker;
    use super::*;

    const STRUCT: u32 = 4;
    const POINTER: u32 = 2;
    const ENUM: u32 = 6;

    /// As much of a kernel as the programs need. `folio` has the members after its index.
    fn kernel(folio: &[(&str, u32, u32)], without: &str) -> Vec<u8> {
        let mut maker = Maker::default();
        let long = maker.add("long", STRUCT, 8, &[]);
        let pointer = maker.add("", POINTER, long, &[]);
        assert_eq!((long, pointer), (1, 2));
        let byte = maker.add("byte", STRUCT, 1, &[]);
        assert_eq!(byte, 3);
        let readahead = maker.add("file_ra_state", STRUCT, 32, &[("prev_pos", long, 24)]);
        let mut structure = |name: &str, members: &[(&str, u32, u32)]| {
            let members: Vec<_> = members.iter().copied().filter(|(member, _, _)| *member != without).collect();
            maker.add(name, STRUCT, 200, &members);
        };
        structure("kiocb", &[("ki_filp", pointer, 0), ("ki_pos", long, 8)]);
        structure("iov_iter", &[("count", long, 24)]);
        structure("file", &[("f_mapping", pointer, 16), ("f_ra", readahead, 100)]);
        structure("address_space", &[("host", pointer, 0)]);
        let inode = ["i_mode", "i_ino", "i_generation", "i_size", "i_sb"];
        structure("inode", &std::array::from_fn::<_, 5, _>(|at| (inode[at], long, at as u32 * 8)));
        structure("super_block", &[("s_dev", long, 16)]);
        let small = [("flags", long, 0), ("mapping", pointer, 24), ("index", long, 32)];
        structure("folio", &[&small, folio].concat());
        structure("task_struct", &[("flags", long, 44), ("cgroups", pointer, 1000), ("mm", pointer, 800)]);
        structure("mm_struct", &[("pgd", pointer, 72)]);
        structure("css_set", &[("subsys", 0, 0), ("dfl_cgrp", pointer, 120)]);
        structure("cgroup_subsys_state", &[("cgroup", pointer, 0)]);
        structure("cgroup", &[("kn", pointer, 256)]);
        structure("kernfs_node", &[("id", long, 96)]);
        maker.add("pageflags", ENUM, 4, &[("PG_locked", 0, 0), ("PG_head", 6, 0)]);
        maker.add("cgroup_subsys_id", ENUM, 4, &[("memory_cgrp_id", 4, 0)]);
        maker.bytes()
    }

    fn layout(bytes: &[u8]) -> Result<Layout, Missing> {
        Layout::find(&Btf::parse(bytes).unwrap())
    }

    #[test]
    fn offsets_are_those_of_the_kernel_that_runs() {
        let found = layout(&kernel(&[("_flags_1", 1, 64)], "")).unwrap();
        assert_eq!(found.file_last_position, Field { offset: 124, size: Size::Long });
        assert_eq!(found.folio_order, Field { offset: 64, size: Size::Long });
        assert_eq!((found.head_bit, found.memory_controller()), (1 << 6, Ok(4)));
    }

    #[test]
    fn the_order_is_a_byte_of_its_own_where_the_kernel_has_one() {
        let found = layout(&kernel(&[("_flags_1", 1, 64), ("_folio_order", 3, 81)], "")).unwrap();
        assert_eq!(found.folio_order, Field { offset: 81, size: Size::Byte });
    }

    #[test]
    fn a_missing_member_is_named_with_its_first_version() {
        for (member, named) in [("mapping", "folio.mapping"), ("f_ra", "file.f_ra.prev_pos"), ("id", "kernfs_node.id")]
        {
            let missing = layout(&kernel(&[("_flags_1", 1, 64)], member)).unwrap_err().to_string();
            assert!(missing.contains(named) && missing.contains("since Linux "), "{missing}");
        }
    }

    /// The kernel's own, where it may be read. Where it is not there, the layout above is all that can be tried.
    #[test]
    fn the_running_kernel_has_all_or_names_what_it_lacks() {
        let Ok(bytes) = std::fs::read(super::super::error::DESCRIPTION) else { return };
        match layout(&bytes) {
            Ok(found) => assert_eq!(found.file_system_device.size, Size::Word),
            Err(missing) => assert!(missing.to_string().contains("since Linux "), "{missing}"),
        }
    }
}
