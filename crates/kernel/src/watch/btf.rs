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
pub(super) enum BtfKind {
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
pub(super) struct Btf<'a> {
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
pub(super) struct Member {
    /// Bytes from the beginning of the structure that was asked about.
    pub(super) offset: u32,
    /// The number of its type.
    pub(super) of: u32,
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
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Btf<'a>, BtfError> {
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
    pub(super) fn find(&self, kind: BtfKind, name: &str) -> Option<u32> {
        (1..=self.starts.len() as u32)
            .find(|id| self.head(*id).is_some_and(|head| head.kind == kind as u32 && self.is_named(head.name, name)))
    }

    /// The member of this name of a structure or union, or of those without a name in it.
    pub(super) fn member(&self, id: u32, name: &str) -> Option<Member> {
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
    pub(super) fn bytes(&self, id: u32) -> Option<u32> {
        let head = self.head(self.plain(id)?)?;
        match head.kind {
            1 | STRUCT | UNION | 6 | 19 => Some(head.of),
            POINTER => Some(8),
            _ => None,
        }
    }

    /// The number of a named value of an enum.
    pub(super) fn value(&self, id: u32, name: &str) -> Option<u32> {
        let head = self.head(id).filter(|head| head.kind == BtfKind::Enum as u32)?;
        (0..head.members as usize)
            .map(|member| head.rest + member * 8)
            .find(|at| word(self.types, *at).is_some_and(|named| self.is_named(named, name)))
            .and_then(|at| word(self.types, at + 4))
    }

    /// Whether a function's parameter, counted from 0, is a pointer to the structure of this name. A tracepoint's type is
    /// that of a pointer to a function, whose first parameter is the tracepoint's own.
    pub(super) fn takes(&self, function: u32, parameter: usize, structure: &str) -> bool {
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
