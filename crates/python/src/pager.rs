//! Files mapped behind NumPy arrays.
//!
//! A fault is taken by the thread that touches a page, which may hold the interpreter's lock: whoever brings the page must never need it. So devices
//! are Rust's alone, and so is the log.

use crate::arguments::{bytes, usage};
use crate::storage::{Failure, Own, begin_log, figures, json, policy, without_lock};
use forebay_pager::Options;
use forebay_pool::VolumeConfig;
use forebay_pool::device::{Device, FileDevice, FileOptions};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A limit of memory, and a policy, for regions that share them.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Pager(Own<Arc<forebay_pager::Pager>>);

#[pymethods]
impl Pager {
    #[new]
    #[pyo3(signature = (memory, policy, *, page_size, threads, sampling, swap=false))]
    fn new(
        py: Python<'_>,
        memory: &Bound<'_, PyAny>,
        policy: &str,
        page_size: &Bound<'_, PyAny>,
        threads: usize,
        sampling: f64,
        swap: bool,
    ) -> PyResult<Self> {
        let page_size = bytes(page_size)?;
        let page_size =
            u32::try_from(page_size).map_err(|_| usage(format!("a page of {page_size} bytes: take 4KiB to 1MiB")))?;
        let options =
            Options { page_size, threads, sampling, swap, ..Options::new(bytes(memory)?, self::policy(policy)?) };
        begin_log();
        let pager = py.detach(|| forebay_pager::Pager::new(&options)).map_err(Failure::from)?;
        Ok(Self(Own::new(pager)))
    }

    /// Maps a file or block device. `create`: it is made, or made empty, before. `length`: it is made as long as that if it is shorter.
    #[pyo3(signature = (path, *, read_only, create, length))]
    fn map(
        &self,
        py: Python<'_>,
        path: PathBuf,
        read_only: bool,
        create: bool,
        length: Option<u64>,
    ) -> PyResult<Region> {
        let pager = self.0.get()?;
        Ok(py.detach(|| Region::map(pager, &path, read_only, create, length)).map_err(|error| error.of(&path))?)
    }

    /// Maps a file or block device that stays as it is: what is written goes to a file without a name in `folder`.
    fn map_private(&self, py: Python<'_>, path: PathBuf, folder: PathBuf) -> PyResult<Region> {
        let pager = self.0.get()?;
        Ok(py.detach(|| Region::map_private(pager, &path, &folder)).map_err(|error| error.of(&path))?)
    }

    /// What happened, as JSON.
    fn statistics(&self, py: Python<'_>) -> PyResult<String> {
        let pager = self.0.get()?;
        Ok(py.detach(|| statistics(pager, None)))
    }
}

/// Of all files, or of one.
fn statistics(pager: &forebay_pager::Pager, file: Option<&str>) -> String {
    let cache = pager.statistics();
    let (faults, shared) = (("faults", figures(&pager.faults())), ("cache", figures(&cache)));
    match file {
        Some(name) => {
            let file = cache.volumes.iter().find(|volume| volume.name == name);
            json([faults, shared, ("file", figures(&file))])
        }
        None => json([faults, shared, ("files", figures(&cache.volumes))]),
    }
}

/// A file's addresses: the base of arrays, which keep it.
#[pyclass(frozen, weakref, module = "forebay._forebay")]
pub(crate) struct Region {
    region: Own<forebay_pager::Region>,
    pager: Arc<forebay_pager::Pager>,
    name: String,
    /// The bytes of the file; the region ends with a whole page.
    length: u64,
}

impl Region {
    fn map(
        pager: &Arc<forebay_pager::Pager>,
        path: &Path,
        read_only: bool,
        create: bool,
        length: Option<u64>,
    ) -> Result<Self, Failure> {
        if create {
            // What is there is emptied below, when nobody else has it open.
            let made = OpenOptions::new().write(true).create(true).truncate(false).open(path);
            made.map_err(|error| {
                Failure::new(forebay_pool::errno_of(&error), format!("{}: cannot be made: {error}", path.display()))
            })?;
        }
        let device = FileDevice::open(path, FileOptions { read_only, ..FileOptions::default() })?;
        if create {
            device.set_len(0)?;
        }
        let before = device.len();
        if let Some(length) = length.filter(|&length| length > before) {
            device.set_len(length)?;
        }
        let (name, length) = (path.to_string_lossy().into_owned(), device.len());
        let config = VolumeConfig { read_only, ..VolumeConfig::new(&name) };
        let device = Arc::new(device);
        let region = forebay_pager::Region::map(pager, Arc::<FileDevice>::clone(&device), config);
        if region.is_err() && length > before {
            // What cannot be mapped stays as it was.
            device.set_len(before)?;
        }
        let region = region?;
        Ok(Self { region: Own::new(region), pager: Arc::clone(pager), name, length })
    }

    fn map_private(pager: &Arc<forebay_pager::Pager>, path: &Path, folder: &Path) -> Result<Self, Failure> {
        let device = FileDevice::open(path, FileOptions { read_only: true, ..FileOptions::default() })?;
        let (name, length) = (path.to_string_lossy().into_owned(), device.len());
        let config = VolumeConfig::new(&name);
        let region = forebay_pager::Region::map_private(pager, Arc::new(device), config, folder)?;
        Ok(Self { region: Own::new(region), pager: Arc::clone(pager), name, length })
    }
}

#[pymethods]
impl Region {
    /// By which NumPy makes an array of its bytes, whose base it is.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let region = self.region.get()?;
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("shape", (self.length,))?;
        interface.set_item("typestr", "|u1")?;
        interface.set_item("data", (region.as_ptr().addr(), region.read_only()))?;
        Ok(interface)
    }

    /// Whether it cannot be written.
    #[getter]
    fn read_only(&self) -> PyResult<bool> {
        Ok(self.region.get()?.read_only())
    }

    /// The bytes of the file.
    #[getter]
    fn length(&self) -> u64 {
        self.length
    }

    /// Makes durable what was written before.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        let region = self.region.get()?;
        Ok(py.detach(|| region.sync()).map_err(Failure::from)?)
    }

    /// What happened, as JSON.
    fn statistics(&self, py: Python<'_>) -> PyResult<String> {
        self.region.get()?;
        Ok(py.detach(|| statistics(&self.pager, Some(&self.name))))
    }
}

impl Drop for Region {
    /// Nobody has an array of it any more.
    fn drop(&mut self) {
        let Some(region) = self.region.take() else { return };
        if let Err(error) = without_lock(|| region.close()) {
            Python::try_attach(|py| PyErr::from(Failure::from(error)).write_unraisable(py, None));
        }
    }
}
