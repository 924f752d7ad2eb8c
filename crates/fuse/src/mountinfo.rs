//! What is mounted where, as `/proc/self/mountinfo` lists it.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// A mount.
pub(crate) struct Entry {
    pub(crate) id: u64,
    /// The number of its file system.
    pub(crate) device: (u32, u32),
    /// The directory of the file system that it shows: a bind mount shows a part.
    pub(crate) root: PathBuf,
    pub(crate) mountpoint: PathBuf,
    /// The type of its file system.
    pub(crate) kind: String,
}

/// All mounts that this process can reach, the latest last.
///
/// # Errors
/// There is no `/proc`.
pub(crate) fn read() -> io::Result<Vec<Entry>> {
    let list = std::fs::read("/proc/self/mountinfo")?;
    Ok(list.split(|byte| *byte == b'\n').filter_map(entry).collect())
}

/// `36 35 98:0 /root /mountpoint options … - type source options`
fn entry(line: &[u8]) -> Option<Entry> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let text = |field: &[u8]| std::str::from_utf8(field).map(str::to_owned).ok();
    let device = text(fields.get(2)?)?;
    let (major, minor) = device.split_once(':')?;
    let end = fields.iter().position(|field| *field == b"-")?;
    Some(Entry {
        id: text(fields[0])?.parse().ok()?,
        device: (major.parse().ok()?, minor.parse().ok()?),
        root: path(fields.get(3)?),
        mountpoint: path(fields.get(4)?),
        kind: text(fields.get(end + 1)?)?,
    })
}

/// A path in which the kernel has written spaces, tabs, line feeds and backslashes as three octal digits: `\040`.
fn path(field: &[u8]) -> PathBuf {
    let (mut bytes, mut rest) = (Vec::with_capacity(field.len()), field);
    while let [first, behind @ ..] = rest {
        let digits = behind.get(..3).filter(|_| *first == b'\\');
        let octal = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(octal.unwrap_or(*first));
        rest = if octal.is_some() { &behind[3..] } else { behind };
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_its_paths_as_they_are() {
        let line = br"36 35 98:0 /a\040b /mnt/c\134d\12 rw,noatime master:1 shared:2 - ext3 /dev/root rw";
        let found = entry(line).expect("an entry");
        assert_eq!((found.id, found.device, &*found.kind), (36, (98, 0), "ext3"));
        assert_eq!(found.root, PathBuf::from("/a b"));
        assert_eq!(found.mountpoint, PathBuf::from(r"/mnt/c\d\12"), "only three digits are a byte");
        assert!(entry(b"").is_none() && entry(b"36 35 98:0 / /mnt rw").is_none());
    }
}
