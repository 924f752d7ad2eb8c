//! A reader of BTF: the kernel's description of its own types, in `/sys/kernel/btf/vmlinux`.
//!
//! ```text
//!   header | types, one after another; the first has number 1 | names, each ended by a zero
//! ```
//!
//! A type is three words: where its name is; its kind and how many members follow; its size or the type that it is made of.
//! The format is that of the kernel's `Documentation/bpf/btf.rst`.

use std::fmt;

/// Kinds of types that are looked for by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BtfKind {
    Struct = 4,
    Enum = 6,
    Typedef = 8,
    Function = 12,
}

const POINTER: u32 = 2;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const TYPEDEF: u32 = 8;
const QUALIFIERS: [u32; 4] = [9, 10, 11, 18];
const FUNCTION: u32 = 12;
const PROTOTYPE: u32 = 13;

/// What is wrong with the bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct BtfError(&'static str);

impl fmt::Display for BtfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Parsed BTF.
pub(crate) struct Btf<'a> {
    types: &'a [u8],
    names: &'a [u8],
    /// Where each type begins in `types`. Type 0 is `void`, which is not there.
    starts: Vec<u32>,
}

/// A type's three words.
#[derive(Clone, Copy)]
struct Head {
    name: u32,
    kind: u32,
    members: u32,
    /// Bit fields are among the members: their offsets are packed.
    packed: bool,
    /// Size in bytes, or another type's number.
    of: u32,
    /// Where its members begin in `types`.
    rest: usize,
}

/// A member of a structure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Member {
    /// Bytes from the beginning of the structure that was asked about.
    pub(crate) offset: u32,
    /// The number of its type.
    pub(crate) of: u32,
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_ne_bytes)
}

fn part(bytes: &[u8], start: u32, length: u32) -> Option<&[u8]> {
    bytes.get(start as usize..)?.get(..length as usize)
}

impl<'a> Btf<'a> {
    /// Finds where the types are.
    ///
    /// # Errors
    /// The bytes are no BTF of this machine's byte order, or have kinds of types that are not known.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Btf<'a>, BtfError> {
        const CUT: BtfError = BtfError("its header is cut");
        if bytes.get(..2).and_then(|magic| magic.try_into().ok()).map(u16::from_ne_bytes) != Some(0xeb9f) {
            return Err(BtfError("it does not begin as BTF of this machine does"));
        }
        let header = |at| word(bytes, at).ok_or(CUT);
        let body = bytes.get(header(4)? as usize..).ok_or(CUT)?;
        let types = part(body, header(8)?, header(12)?).ok_or(BtfError("its types are cut"))?;
        let names = part(body, header(16)?, header(20)?).ok_or(BtfError("its names are cut"))?;
        let mut btf = Btf { types, names, starts: Vec::new() };
        let mut at = 0;
        while at < types.len() {
            let head = btf.head_at(at).ok_or(BtfError("its types are cut"))?;
            let follow = match head.kind {
                1 | 14 | 17 => 4,
                ARRAY => 12,
                STRUCT | UNION | 15 | 19 => head.members as usize * 12,
                6 | PROTOTYPE => head.members as usize * 8,
                POINTER | 7..=FUNCTION | 16 | 18 => 0,
                _ => return Err(BtfError("it has kinds of types that this version does not know")),
            };
            btf.starts.push(at as u32);
            at = head.rest + follow;
        }
        if at > types.len() { Err(BtfError("its types are cut")) } else { Ok(btf) }
    }

    fn head_at(&self, at: usize) -> Option<Head> {
        let info = word(self.types, at + 4)?;
        Some(Head {
            name: word(self.types, at)?,
            kind: info >> 24 & 0x1f,
            members: info & 0xffff,
            packed: info >> 31 != 0,
            of: word(self.types, at + 8)?,
            rest: at + 12,
        })
    }

    fn head(&self, id: u32) -> Option<Head> {
        self.head_at(*self.starts.get(id.checked_sub(1)? as usize)? as usize)
    }

    fn is_named(&self, at: u32, name: &str) -> bool {
        self.names
            .get(at as usize..)
            .and_then(|rest| rest.strip_prefix(name.as_bytes()))
            .is_some_and(|rest| rest.first() == Some(&0))
    }

    /// The number of the first type of this kind and name.
    pub(crate) fn find(&self, kind: BtfKind, name: &str) -> Option<u32> {
        (1..=self.starts.len() as u32)
            .find(|id| self.head(*id).is_some_and(|head| head.kind == kind as u32 && self.is_named(head.name, name)))
    }

    /// The member of this name of a structure or union, or of those without a name in it.
    pub(crate) fn member(&self, id: u32, name: &str) -> Option<Member> {
        // Structures that contain each other would be endless: no kernel has them, nor so many members.
        let mut budget = 100_000;
        self.member_within(id, name, 0, &mut budget)
    }

    fn member_within(&self, id: u32, name: &str, depth: u32, budget: &mut u32) -> Option<Member> {
        let head = self.head(self.plain(id)?)?;
        if depth > 8 || !matches!(head.kind, STRUCT | UNION) {
            return None;
        }
        for at in (0..head.members as usize).map(|member| head.rest + member * 12) {
            *budget = budget.checked_sub(1)?;
            let (named, of, bits) = (word(self.types, at)?, word(self.types, at + 4)?, word(self.types, at + 8)?);
            let offset = if head.packed { bits & 0xff_ffff } else { bits } / 8;
            if self.is_named(named, name) {
                return Some(Member { offset, of });
            }
            if self.is_named(named, "")
                && let Some(inner) = self.member_within(of, name, depth + 1, budget)
            {
                return Some(Member { offset: offset.checked_add(inner.offset)?, of: inner.of });
            }
        }
        None
    }

    /// The type without names, `const` and the like.
    fn plain(&self, mut id: u32) -> Option<u32> {
        for _ in 0..32 {
            let head = self.head(id)?;
            if head.kind != TYPEDEF && !QUALIFIERS.contains(&head.kind) {
                return Some(id);
            }
            id = head.of;
        }
        None
    }

    /// Bytes of a number, pointer or structure.
    pub(crate) fn bytes(&self, id: u32) -> Option<u32> {
        let head = self.head(self.plain(id)?)?;
        match head.kind {
            1 | STRUCT | UNION | 6 | 19 => Some(head.of),
            POINTER => Some(8),
            _ => None,
        }
    }

    /// The number of a named value of an enum.
    pub(crate) fn value(&self, id: u32, name: &str) -> Option<u32> {
        let head = self.head(id).filter(|head| head.kind == BtfKind::Enum as u32)?;
        (0..head.members as usize)
            .map(|member| head.rest + member * 8)
            .find(|at| word(self.types, *at).is_some_and(|named| self.is_named(named, name)))
            .and_then(|at| word(self.types, at + 4))
    }

    /// Whether a function's parameter, counted from 0, is a pointer to the structure of this name. A tracepoint's type is
    /// that of a pointer to a function, whose first parameter is the tracepoint's own.
    pub(crate) fn takes(&self, function: u32, parameter: usize, structure: &str) -> bool {
        let pointed_at = |id| self.head(self.plain(id)?).filter(|head| head.kind == POINTER).map(|head| head.of);
        let taken = || {
            let head = self.head(function)?;
            let prototype = if head.kind == FUNCTION { head.of } else { pointed_at(function)? };
            let prototype = self.head(prototype).filter(|head| head.kind == PROTOTYPE)?;
            let of = (parameter < prototype.members as usize)
                .then(|| word(self.types, prototype.rest + parameter * 8 + 4))??;
            let head = self.head(self.plain(pointed_at(of)?)?)?;
            Some(head.kind == STRUCT && self.is_named(head.name, structure))
        };
        taken().unwrap_or(false)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Makes BTF by hand.
    #[derive(Default)]
    pub(crate) struct Maker {
        types: Vec<u32>,
        names: Vec<u8>,
        made: u32,
    }

    impl Maker {
        fn name(&mut self, name: &str) -> u32 {
            if self.names.is_empty() {
                self.names.push(0);
            }
            if name.is_empty() {
                return 0;
            }
            let at = self.names.len() as u32;
            self.names.extend(name.bytes().chain([0]));
            at
        }

        /// Adds a type, with the words of its members: names, types, and so on. Returns its number.
        pub(crate) fn add(&mut self, name: &str, kind: u32, of: u32, members: &[(&str, u32, u32)]) -> u32 {
            let name = self.name(name);
            self.types.extend([name, kind << 24 | members.len() as u32, of]);
            for (member, of, offset) in members {
                let named = self.name(member);
                self.types.extend([named, *of]);
                if kind == STRUCT || kind == UNION {
                    self.types.push(offset * 8);
                }
            }
            self.made += 1;
            self.made
        }

        pub(crate) fn bytes(&mut self) -> Vec<u8> {
            self.name("");
            let (types, names) = (self.types.len() as u32 * 4, self.names.len() as u32);
            let mut bytes: Vec<u8> = 0xeb9f_u16.to_ne_bytes().into_iter().chain([1, 0]).collect();
            for word in [24, 0, types, types, names].iter().chain(&self.types) {
                bytes.extend(word.to_ne_bytes());
            }
            bytes.extend(&self.names);
            bytes
        }
    }

    /// `struct outer { long first; union { struct { long a; const small b; }; long c; }; }` and what takes it.
    fn made() -> Vec<u8> {
        let mut maker = Maker::default();
        let long = maker.add("wide", TYPEDEF, 2, &[]);
        assert_eq!(maker.add("eight", STRUCT, 8, &[]), 2);
        let small = maker.add("two", STRUCT, 2, &[]);
        let constant = maker.add("", QUALIFIERS[1], small, &[]);
        let inner = maker.add("", STRUCT, 16, &[("a", long, 0), ("b", constant, 8)]);
        let either = maker.add("", UNION, 16, &[("", inner, 0), ("c", long, 0)]);
        let outer = maker.add("outer", STRUCT, 24, &[("first", long, 0), ("", either, 8)]);
        let pointer = maker.add("", POINTER, outer, &[]);
        let prototype = maker.add("", PROTOTYPE, 0, &[("", long, 0), ("", pointer, 0)]);
        maker.add("function", FUNCTION, prototype, &[]);
        let to_function = maker.add("", POINTER, prototype, &[]);
        maker.add("btf_trace_point", TYPEDEF, to_function, &[]);
        maker.add("numbers", BtfKind::Enum as u32, 4, &[("ONE", 1, 0), ("SIX", 6, 0)]);
        maker.bytes()
    }

    #[test]
    fn members_are_found_in_unions_without_names() {
        let bytes = made();
        let btf = Btf::parse(&bytes).unwrap();
        let outer = btf.find(BtfKind::Struct, "outer").unwrap();
        let found = |name| btf.member(outer, name).map(|member| (member.offset, btf.bytes(member.of)));
        assert_eq!(found("first"), Some((0, Some(8))));
        assert_eq!(found("b"), Some((16, Some(2))));
        assert_eq!(found("c"), Some((8, Some(8))));
        assert_eq!(found("d"), None);
        assert_eq!(btf.find(BtfKind::Struct, "out"), None);
    }

    #[test]
    fn what_a_function_and_a_tracepoint_take_is_known() {
        let bytes = made();
        let btf = Btf::parse(&bytes).unwrap();
        let function = btf.find(BtfKind::Function, "function").unwrap();
        let tracepoint = btf.find(BtfKind::Typedef, "btf_trace_point").unwrap();
        for taker in [function, tracepoint] {
            assert!(btf.takes(taker, 1, "outer"));
            assert!(!btf.takes(taker, 0, "outer") && !btf.takes(taker, 1, "inner") && !btf.takes(taker, 2, "outer"));
        }
        let numbers = btf.find(BtfKind::Enum, "numbers").unwrap();
        assert_eq!((btf.value(numbers, "SIX"), btf.value(numbers, "SEVEN")), (Some(6), None));
    }

    #[test]
    fn types_that_contain_themselves_end() {
        let mut maker = Maker::default();
        let members = [("", 1, 0); 50];
        let itself = maker.add("outer", STRUCT, 8, &members);
        let typedef = maker.add("again", TYPEDEF, 2, &[]);
        let bytes = maker.bytes();
        let btf = Btf::parse(&bytes).unwrap();
        assert_eq!(btf.member(itself, "x"), None);
        assert_eq!(btf.bytes(typedef), None);
    }

    #[test]
    fn cut_btf_is_an_error() {
        let bytes = made();
        for length in 0..bytes.len() {
            assert!(Btf::parse(&bytes[..length]).is_err(), "{length} bytes");
        }
    }

    proptest! {
        /// No bytes make it panic or go on for ever.
        #[test]
        fn any_bytes_are_read_or_refused(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6)) {
            let mut bytes = made();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if let Ok(btf) = Btf::parse(&bytes) {
                for id in 0..30 {
                    btf.member(id, "nothing");
                    btf.bytes(id);
                    btf.value(id, "SIX");
                    btf.takes(id, 1, "outer");
                }
                btf.find(BtfKind::Function, "function");
            }
        }
    }
}
