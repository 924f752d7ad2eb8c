//! Writing traces: one file a format, and one line each in [`OUTPUTS`].

use crate::circumstances::{AtEnd, Circumstances};
use crate::error::{Error, Result};
use crate::names::Names;
use crate::pages::{Origin, Paging};
use crate::reader::Reader;
use crate::request::Request;
pub use sink::Compression;
use sink::Sink;
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions, hard_link, remove_file, rename};
use std::io;
use std::path::{Path, PathBuf};

mod csv;
mod lirs;
mod numbered;
mod oracle_general;
mod parquet;
mod sink;

/// A trace being written.
trait Writer {
    /// Appends a request, its owner and object numbered in `names`.
    fn write(&mut self, request: &Request, names: &Names) -> Result<()>;

    /// Completes the file: only now is it whole and durable.
    fn finish(self: Box<Self>) -> Result<()>;
}

/// A format that is written.
pub struct Output {
    /// Its name: that of the format that reads it back.
    pub name: &'static str,
    /// The extensions of a file name that ask for it, without the dot, in lower case.
    pub extensions: &'static [&'static str],
    /// Whether requests are kept as they are, and not cut into pages.
    pub keeps_requests: bool,
}

/// Every format that is written.
pub static OUTPUTS: &[Output] = &[
    Output { name: "parquet", extensions: &["parquet"], keeps_requests: true },
    Output { name: "csv", extensions: &["csv"], keeps_requests: true },
    Output { name: "oracle-general", extensions: &["oraclegeneral", "bin"], keeps_requests: false },
    Output { name: "lirs", extensions: &["lirs", "trace"], keeps_requests: false },
];

/// How to convert.
#[derive(Clone, Debug, Default)]
pub struct ConvertOptions {
    /// The page size for formats of pages; Parquet keeps it, or that which the trace was recorded with.
    pub page_size: Option<u64>,
    /// Whether an existing file is replaced.
    pub force: bool,
    /// How the trace was recorded, if its reader does not say it; Parquet keeps it.
    pub circumstances: Option<Circumstances>,
    /// What is added to them when the trace is whole.
    pub at_end: Option<AtEnd>,
}

/// Writes the trace of `reader` to `out`, in the format and compression that its name asks for, and returns the number of
/// requests. `progress` is told the number so far, now and then. The file appears under its name only when it is whole.
///
/// # Errors
/// What is wrong with the trace, with the output's name, or with writing it; `out` is then as it was. Or that another has made `out`
/// meanwhile, and where this trace is kept.
pub fn convert(
    reader: &mut dyn Reader,
    out: &Path,
    options: &ConvertOptions,
    progress: &mut dyn FnMut(u64),
) -> Result<u64> {
    let (output, compression) = check(out, options.force)?;
    let file = out.display().to_string();
    remove_left(out);
    let [mut temporary, mut spool] = temporaries(out).map(|path| Temporary { path, _held: None });
    let mut writer = create(output, &file, [&mut temporary, &mut spool], compression, reader, options)?;
    let requests = write_all(reader, writer.as_mut(), progress)?;
    writer.finish()?;
    let place = publish(&temporary.path, out, options.force).map_err(|error| Error::io(&file, "writing", error))?;
    if place != out {
        let kept = format!("was made by another meanwhile, and stays; this trace is kept as {}", place.display());
        return Err(Error::new(file, kept).kept());
    }
    Ok(requests)
}

/// Writes the trace of `reader` as CSV to a pipe, a terminal or an open file, and returns the number of requests.
///
/// # Errors
/// What is wrong with the trace, or with writing it.
pub fn convert_to(reader: &mut dyn Reader, name: &str, out: File, progress: &mut dyn FnMut(u64)) -> Result<u64> {
    let sink = Sink::new(name, out, Compression::None)?;
    let mut writer = Box::new(csv::Csv::create(name, sink, reader.unit())?);
    let requests = write_all(reader, writer.as_mut(), progress)?;
    writer.finish_open()?;
    Ok(requests)
}

fn write_all(reader: &mut dyn Reader, writer: &mut dyn Writer, progress: &mut dyn FnMut(u64)) -> Result<u64> {
    let mut names = Names::new();
    let (mut batch, mut requests, mut more) = (Vec::new(), 0, true);
    while more {
        batch.clear();
        more = reader.fill(&mut names, 4096, &mut batch)?;
        batch.iter().try_for_each(|request| writer.write(request, &names))?;
        requests += batch.len() as u64;
        progress(requests);
    }
    Ok(requests)
}

/// Names a file `out`. Unless by `force` it replaces no other: then it has the next name that is free, which is returned.
fn publish(temporary: &Path, out: &Path, force: bool) -> io::Result<PathBuf> {
    let (mut place, mut number) = (out.to_owned(), 1);
    if force {
        return rename(temporary, &place).map(|()| place);
    }
    loop {
        match hard_link(temporary, &place) {
            Ok(()) => return Ok(place),
            Err(_) if place.symlink_metadata().is_ok() => {}
            // The file system may have no links.
            Err(_) => return rename(temporary, &place).map(|()| place),
        }
        number += 1;
        let mut name = OsString::from(format!("{number}-"));
        name.push(out.file_name().unwrap_or_default());
        place = out.with_file_name(name);
    }
}

/// The format and compression that the name of `out` asks for. What would stop [`convert`] is so known before long work.
///
/// # Errors
/// What is wrong with the name, or that the file exists.
pub fn check(out: &Path, force: bool) -> Result<(&'static Output, Compression)> {
    let file = out.display().to_string();
    let name = out.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let (compression, stem) = Compression::of(&name);
    let output = output_of(stem).ok_or_else(|| {
        let known: Vec<String> =
            OUTPUTS.iter().map(|output| format!(".{} ({})", output.extensions[0], output.name)).collect();
        let message = format!("its name does not say the format; let it end in {}", known.join(", "));
        Error::new(&file, message).mistyped()
    })?;
    if output.name == "parquet" && compression != Compression::None {
        return Err(Error::new(&file, "Parquet is compressed within; leave out the second extension").mistyped());
    }
    let folder = folder_of(out);
    if !folder.is_dir() {
        return Err(Error::new(
            &file,
            format!("there is no folder {}: make it first, or name another", folder.display()),
        ));
    }
    if out.exists() && !force {
        return Err(Error::new(&file, "exists already; --force replaces it").mistyped());
    }
    Ok((output, compression))
}

/// The format that a file name without compression asks for.
fn output_of(name: &str) -> Option<&'static Output> {
    let (_, extension) = name.rsplit_once('.')?;
    OUTPUTS.iter().find(|output| output.extensions.contains(&extension))
}

fn create(
    output: &Output,
    file: &str,
    [temporary, spool]: [&mut Temporary; 2],
    compression: Compression,
    reader: &dyn Reader,
    options: &ConvertOptions,
) -> Result<Box<dyn Writer>> {
    let out = temporary.create(file)?;
    let unit = reader.unit();
    let recorded = || reader.page_size().filter(|size| size.origin == Origin::Recorded).map(|size| size.bytes);
    let numbered = || -> Result<numbered::Numbered> {
        let paging = Paging::of(reader, options.page_size).map_err(|message| Error::new(file, message))?;
        Ok(numbered::Numbered::new(file, paging))
    };
    let sink = |out: File| Sink::new(file, out, compression);
    Ok(match output.name {
        "parquet" => {
            let (page_size, lengths) = (options.page_size.or_else(recorded), reader.has_lengths());
            let circumstances = options.circumstances.as_ref().or_else(|| reader.circumstances()).cloned();
            let recorded = circumstances.map(|circumstances| (circumstances, options.at_end.clone()));
            Box::new(parquet::Parquet::create(file, out, unit, page_size, recorded, lengths)?)
        }
        "csv" => Box::new(csv::Csv::create(file, sink(out)?, unit)?),
        "oracle-general" => {
            Box::new(oracle_general::OracleGeneral::new(file, spool.create(file)?, sink(out)?, numbered()?))
        }
        "lirs" => Box::new(lirs::Lirs::new(sink(out)?, numbered()?)),
        other => unreachable!("output format {other} has no writer"),
    })
}

/// How the names end of the files beside an output that are there while it is written.
const BESIDE: [&str; 2] = ["tmp", "spool"];

/// The files beside `out` that are there while it is written.
pub fn temporaries(out: &Path) -> [PathBuf; 2] {
    BESIDE.map(|what| {
        let mut name = out.as_os_str().to_owned();
        name.push(format!(".{}.{what}", std::process::id()));
        PathBuf::from(name)
    })
}

/// The folder that a file is in.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Removes the files beside `out` of writers that were killed: nobody holds their locks.
fn remove_left(out: &Path) {
    let is_beside = |name: &OsStr| {
        let behind = name.as_encoded_bytes().strip_prefix(out.file_name()?.as_encoded_bytes())?.strip_prefix(b".")?;
        let (process, what) = str::from_utf8(behind).ok()?.split_once('.')?;
        Some(process.parse::<u32>().is_ok() && BESIDE.contains(&what))
    };
    for entry in folder_of(out)
        .read_dir()
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| is_beside(&entry.file_name()) == Some(true))
    {
        let opened = OpenOptions::new().write(true).open(entry.path());
        if opened.is_ok_and(|file| file.try_lock().is_ok()) {
            // Another writer may be faster.
            let _ = remove_file(entry.path());
        }
    }
}

/// A file that goes away unless it has got a name.
struct Temporary {
    path: PathBuf,
    /// The file, locked until it has its name, so that no other writer takes it for one that was left.
    _held: Option<File>,
}

impl Temporary {
    fn create(&mut self, file: &str) -> Result<File> {
        let failed = |error: io::Error| match error.kind() {
            kind @ (io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem) => {
                let folder = folder_of(&self.path).display();
                let why = format!("cannot be written to the folder {folder} ({kind}): name one that you may write to");
                Error::new(file, why)
            }
            _ => Error::io(file, "writing", error),
        };
        loop {
            let made = OpenOptions::new().read(true).write(true).create_new(true).open(&self.path).map_err(failed)?;
            // Where the storage has no locks nothing is removed.
            let _ = made.lock();
            // Another writer may have removed it before it was locked.
            if self.path.exists() {
                self._held = Some(made.try_clone().map_err(failed)?);
                return Ok(made);
            }
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // It may have been renamed, or never made: then there is nothing to remove.
        let _ = remove_file(&self.path);
    }
}
