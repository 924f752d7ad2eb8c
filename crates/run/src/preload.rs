//! Libraries that are preloaded into programs: where they are, and what they can be preloaded into.
//!
//! The loader ignores `LD_PRELOAD` in silence where it cannot follow it; here the reason is found before the program runs.

use forebay_record::Error;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The most interpreters that one script leads to.
const MOST_INTERPRETERS: usize = 4;

/// Bytes of a program that say what runs it.
const HEAD: usize = 256;

/// A library of ours.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    /// Its file's name.
    pub file: &'static str,
    /// The package that it is built from.
    pub package: &'static str,
    /// The variable that says where it is otherwise.
    pub variable: &'static str,
}

/// A program with this library preloaded, before others that are.
///
/// # Errors
/// There is no such program, it cannot be preloaded into, or the library is not there.
pub fn command(library: &Library, program: &[OsString]) -> Result<Command, Error> {
    let (program, rest) = program.split_first().ok_or_else(|| Error::Usage("name a program".to_owned()))?;
    let mut preloaded = library.find()?;
    let path = forebay_record::find(program)?;
    check(&path, MOST_INTERPRETERS)?;
    if let Some(others) = env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preloaded.push(":");
        preloaded.push(others);
    }
    let mut command = Command::new(&path);
    std::os::unix::process::CommandExt::arg0(&mut command, program);
    command.args(rest).env("LD_PRELOAD", preloaded);
    Ok(command)
}

impl Library {
    /// Its path: what its variable says, or beside this program, or where packages have it.
    fn find(&self) -> Result<OsString, Error> {
        let Self { file, package, variable } = self;
        let candidates: Vec<PathBuf> = match env::var_os(variable) {
            Some(path) => vec![path.into()],
            None => {
                let own = env::current_exe().map_err(|error| Error::Failed(format!("cannot find myself: {error}")))?;
                let folder = own.parent().unwrap_or(Path::new("/"));
                vec![folder.join(file), folder.join("../lib/forebay").join(file)]
            }
        };
        let found = candidates.iter().find_map(|path| path.canonicalize().ok().filter(|path| path.is_file()));
        let Some(found) = found else {
            let looked: Vec<String> = candidates.iter().map(|path| path.display().to_string()).collect();
            let looked = looked.join(", ");
            return Err(Error::Failed(format!(
                "{file} is not at {looked}: `make install` puts it there; or build it (cargo build --release -p {package}), and set {variable} to its path"
            )));
        };
        if found.as_os_str().as_bytes().iter().any(|byte| byte.is_ascii_whitespace() || *byte == b':') {
            let found = found.display();
            return Err(Error::Failed(format!(
                "{found}: a path with a space or a colon cannot be preloaded: set {variable} to another"
            )));
        }
        Ok(found.into())
    }
}

/// Whether the loader will preload a library into a program.
fn check(path: &Path, interpreters: usize) -> Result<(), Error> {
    let shown = path.display();
    let refused = |why: &str| Err(Error::Program(126, format!("{shown}: {why}")));
    let failed = |error: io::Error| Error::Program(126, format!("{shown}: {error}"));
    let file = File::open(path).map_err(failed)?;
    let mut head = Vec::new();
    (&file).take(HEAD as u64).read_to_end(&mut head).map_err(failed)?;
    if let Some(line) = head.strip_prefix(b"#!") {
        let word = line.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii_start();
        let interpreter = word.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        if interpreters == 0 || interpreter.is_empty() {
            return refused("nothing runs this script");
        }
        return check(Path::new(OsStr::from_bytes(interpreter)), interpreters - 1);
    }
    if gains_rights(&file, path).map_err(failed)? {
        return refused(
            "it has more rights than you (set-user-id, set-group-id or capabilities): nothing is preloaded into it",
        );
    }
    match loader(&file, &head).map_err(failed)? {
        Loader::Named(name) if name.windows(4).any(|part| part == b"musl") => {
            refused("it uses the musl C library, and the preloaded library the GNU one")
        }
        Loader::Named(_) => Ok(()),
        Loader::None => refused("it is statically linked: nothing can be preloaded into it"),
        Loader::Foreign => refused("it is no program of 64 bits for this machine"),
    }
}

fn gains_rights(file: &File, path: &Path) -> io::Result<bool> {
    let found = file.metadata()?;
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    let set = |bit: u32, same: bool| found.mode() & bit != 0 && !same;
    let capable = !user.is_root() && rustix::fs::getxattr(path, "security.capability", &mut [0_u8; 0][..]).is_ok();
    Ok(set(0o4000, found.uid() == user.as_raw()) || set(0o2000, found.gid() == group.as_raw()) || capable)
}

/// What loads a program's libraries.
enum Loader {
    Named(Vec<u8>),
    None,
    Foreign,
}

/// Reads the headers of an ELF file: System V ABI, chapters 4 and 5.
fn loader(file: &File, head: &[u8]) -> io::Result<Loader> {
    const PT_INTERP: u32 = 3;
    const ENTRY: usize = 56;
    const LONGEST_NAME: u64 = 4096;
    let of_this_machine = cfg!(target_endian = "little") == (head.get(5) == Some(&1));
    if head.len() < 64 || !head.starts_with(b"\x7FELF\x02") || !of_this_machine {
        return Ok(Loader::Foreign);
    }
    let long = |bytes: &[u8], at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let short = |at: usize| u16::from_ne_bytes([head[at], head[at + 1]]);
    let (entries, size, count) = (long(head, 32), short(54), short(56));
    if usize::from(size) != ENTRY {
        return Ok(Loader::Foreign);
    }
    for entry in 0..u64::from(count) {
        let mut bytes = [0; ENTRY];
        file.read_exact_at(&mut bytes, entries.saturating_add(entry * ENTRY as u64))?;
        if u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) == PT_INTERP {
            let mut name = vec![0; long(&bytes, 32).min(LONGEST_NAME) as usize];
            file.read_exact_at(&mut name, long(&bytes, 8))?;
            return Ok(Loader::Named(name));
        }
    }
    Ok(Loader::None)
}
