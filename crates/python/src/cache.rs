//! A policy by the step: which keys it would keep.

use crate::arguments::usage;
use crate::store::{Dropped, Locked, Store, running};
use forebay_policy::Spec;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// A replacement policy by the step, on keys of any hashable kind: ``Cache("clock-pro", 1000)``.
///
/// It keeps no values: it says which keys a cache of that policy and capacity would hold. Keys are compared as in a dict, and kept while
/// the policy remembers them, resident or as ghosts. A policy that looks at places, as ``ubm`` and ``dulo``, takes keys for blocks in the
/// order of their first use.
///
/// Args:
///     policy: a name with its parameters if wanted (``"gclock:max=7"``), but for those that know the future.
///     capacity: the most keys that are resident, from 1 on.
///
/// Raises:
///     ValueError: there is no such policy or capacity.
///     TypeError: a key is not hashable.
///
/// It may be used by many threads, and from within its keys' methods; what these raise comes out of the call, and changes nothing.
#[pyclass(frozen, weakref, module = "forebay", name = "Cache")]
pub(crate) struct Cache {
    spec: Spec,
    store: Locked,
}

/// A capacity that can be.
pub(crate) fn capacity(number: i64) -> PyResult<u32> {
    let most = i64::from(u32::MAX - 2);
    if (1..=most).contains(&number) {
        return Ok(number as u32);
    }
    Err(PyValueError::new_err(format!("a cache of {number} keys: take 1 to {most}")))
}

#[pymethods]
impl Cache {
    #[new]
    fn new(policy: &str, #[pyo3(from_py_with = index)] capacity: i64) -> PyResult<Self> {
        let spec = running(policy)?;
        let store = Store::new(Some((&spec, self::capacity(capacity)?)));
        Ok(Self { spec, store: Locked::new(store) })
    }

    /// Refers to a key, which then is resident. Returns whether it was before: a hit.
    fn access(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let hash = key.hash()?;
        let mut dropped = Dropped::new();
        let (mut store, found) = self.store.find(key, hash)?;
        let (_, hit) = store.refer(found, key, hash, &mut dropped);
        *if hit { &mut store.hits } else { &mut store.misses } += 1;
        drop(store);
        Ok(hit)
    }

    /// Whether a key is resident; no reference.
    fn contains(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (store, found) = self.store.find(key, key.hash()?)?;
        Ok(store.resident(found).is_some())
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.contains(key)
    }

    /// Drops a key, of which the policy then knows nothing. Returns whether it was resident.
    fn remove(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let mut dropped = Dropped::new();
        let (mut store, found) = self.store.find(key, key.hash()?)?;
        let resident = found.is_some_and(|number| store.remove(number, &mut dropped));
        drop(store);
        Ok(resident)
    }

    /// Sets the capacity, evicting as many keys as no longer fit.
    fn resize(&self, #[pyo3(from_py_with = index)] capacity: i64) -> PyResult<()> {
        let capacity = self::capacity(capacity)?;
        let mut dropped = Dropped::new();
        let mut store = self.store.lock();
        store.resize(capacity, &self.spec, &mut dropped);
        drop(store);
        Ok(())
    }

    /// The policy's state, each figure under its name: partition sizes, targets, queue lengths.
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let figures = self.store.lock().policy().map(|policy| policy.state()).unwrap_or_default();
        let state = PyDict::new(py);
        for (name, figure) in figures {
            state.set_item(name, figure)?;
        }
        Ok(state)
    }

    fn __len__(&self) -> usize {
        self.store.lock().len()
    }

    /// The policy, as it was named.
    #[getter]
    fn policy(&self) -> &str {
        &self.spec.label
    }

    /// The most keys that are resident.
    #[getter]
    fn capacity(&self) -> u32 {
        self.store.lock().policy().map_or(0, |policy| policy.capacity())
    }

    /// How many keys the policy remembers that are not resident.
    #[getter]
    fn ghosts(&self) -> u32 {
        self.store.lock().policy().map_or(0, |policy| policy.ghosts())
    }

    /// How many accesses were hits.
    #[getter]
    fn hits(&self) -> u64 {
        self.store.lock().hits
    }

    /// How many accesses were none.
    #[getter]
    fn misses(&self) -> u64 {
        self.store.lock().misses
    }

    /// Its policy's state cannot be taken out.
    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err("a Cache cannot be pickled or copied: make another, and access its keys"))
    }

    fn __repr__(&self) -> String {
        let store = self.store.lock();
        let (label, capacity, length) =
            (&self.spec.label, store.policy().map_or(0, |policy| policy.capacity()), store.len());
        format!("<forebay.Cache {label:?} of {capacity} keys, {length} resident>")
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // Nobody holds the lock where the collector runs (S1).
        self.store.try_lock().map_or(Ok(()), |store| store.held().try_for_each(|object| visit.call(object)))
    }

    fn __clear__(&self) {
        let empty = Store::new(Some((&self.spec, 1)));
        let held = std::mem::replace(&mut *self.store.lock(), empty);
        drop(held);
    }
}

/// A whole number, as NumPy's are too.
pub(crate) fn index(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    let index = value.py().import("operator")?.call_method1("index", (value,))?;
    index.extract().map_err(|_| usage(format!("{index} is too large: 2^32 - 1 are the most")))
}
