//! A function whose results are cached under any policy, as by `functools.lru_cache`.

use crate::cache::index;
use crate::store::{Dropped, Locked, Store, running};
use forebay_policy::Spec;
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};
use std::sync::atomic::{AtomicU64, Ordering};

/// A cached function. `cached` in Python makes it, and gives it the function's name and text.
#[pyclass(frozen, dict, weakref, module = "forebay._forebay")]
pub(crate) struct Cached {
    function: Py<PyAny>,
    /// The class of what `cache_info` returns.
    shape: Py<PyAny>,
    /// Stands between arguments and keywords in keys.
    mark: Py<PyAny>,
    spec: Spec,
    /// None: everything is kept. 0: nothing is.
    maxsize: Option<u32>,
    typed: bool,
    store: Locked,
    /// Of calls when nothing is kept.
    uncached: AtomicU64,
}

fn store(spec: &Spec, maxsize: Option<u32>) -> Store {
    Store::new(maxsize.map(|capacity| (spec, capacity.max(1))))
}

#[pymethods]
impl Cached {
    #[new]
    fn new(
        py: Python<'_>,
        function: Py<PyAny>,
        policy: &str,
        maxsize: Option<&Bound<'_, PyAny>>,
        typed: bool,
        shape: Py<PyAny>,
    ) -> PyResult<Self> {
        let spec = running(policy)?;
        let maxsize = maxsize.map(index).transpose()?.map(|maxsize| maxsize.max(0));
        let maxsize = maxsize.map(|maxsize| {
            u32::try_from(maxsize)
                .map_err(|_| PyValueError::new_err(format!("maxsize={maxsize}: 2^32 - 1 are the most")))
        });
        let maxsize = maxsize.transpose()?;
        let mark = py.get_type::<pyo3::types::PyAny>().call0()?.unbind();
        let store = Locked::new(store(&spec, maxsize));
        Ok(Self { function, shape, mark, spec, maxsize, typed, store, uncached: AtomicU64::new(0) })
    }

    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = args.py();
        let function = self.function.bind(py);
        if self.maxsize == Some(0) {
            self.uncached.fetch_add(1, Ordering::Relaxed);
            return function.call(args, kwargs);
        }
        let key = self.key(args, kwargs)?;
        let hash = key.hash()?;
        let mut dropped = Dropped::new();
        let (mut store, found) = self.store.find(&key, hash)?;
        if let Some(number) = store.resident(found)
            && let Some(value) = store.value(number)
        {
            let value = value.bind(py).clone();
            store.refer(Some(number), &key, hash, &mut dropped);
            store.hits += 1;
            drop(store);
            return Ok(value);
        }
        store.misses += 1;
        drop(store);
        let value = function.call(args, kwargs)?;
        let (mut store, found) = self.store.find(&key, hash)?;
        // Another call with these arguments may have been faster: as with functools.lru_cache its result stays.
        let there = store.resident(found).is_some_and(|number| store.value(number).is_some());
        if !there {
            let (number, _) = store.refer(found, &key, hash, &mut dropped);
            store.set(number, value.clone().unbind(), &mut dropped);
        }
        drop(store);
        Ok(value)
    }

    /// A function in a class is a method.
    fn __get__<'py>(
        slf: &Bound<'py, Self>,
        instance: &Bound<'py, PyAny>,
        _owner: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if instance.is_none() {
            return Ok(slf.clone().into_any());
        }
        let method = slf.py().import("types")?.getattr("MethodType")?;
        method.call1((slf, instance))
    }

    /// Hits, misses, the most results that are kept, and how many are.
    fn cache_info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let store = self.store.lock();
        let kept = if self.maxsize == Some(0) { 0 } else { store.len() };
        let figures = (store.hits, store.misses + self.uncached.load(Ordering::Relaxed), self.maxsize, kept);
        drop(store);
        self.shape.bind(py).call1(figures)
    }

    /// Forgets all results, and the counts.
    fn cache_clear(&self) {
        let empty = store(&self.spec, self.maxsize);
        self.uncached.store(0, Ordering::Relaxed);
        let held = std::mem::replace(&mut *self.store.lock(), empty);
        drop(held);
    }

    /// As it was asked for.
    fn cache_parameters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let parameters = PyDict::new(py);
        parameters.set_item("policy", &self.spec.label)?;
        parameters.set_item("maxsize", self.maxsize)?;
        parameters.set_item("typed", self.typed)?;
        Ok(parameters)
    }

    /// A function of a module is pickled by its name.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.getattr("__qualname__")
    }

    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.function)?;
        visit.call(&self.shape)?;
        visit.call(&self.mark)?;
        // Nobody holds the lock where the collector runs (S1 of `store`).
        self.store.try_lock().map_or(Ok(()), |store| store.held().try_for_each(|object| visit.call(object)))
    }

    fn __clear__(&self) {
        self.cache_clear();
    }
}

impl Cached {
    /// What calls with equal arguments have in common: as functools.lru_cache's.
    fn key<'py>(&self, args: &Bound<'py, PyTuple>, kwargs: Option<&Bound<'py, PyDict>>) -> PyResult<Bound<'py, PyAny>> {
        let py = args.py();
        let kwargs = kwargs.filter(|kwargs| !kwargs.is_empty());
        if kwargs.is_none() && !self.typed {
            if args.len() == 1 {
                let only = args.get_item(0)?;
                // SAFETY: a living object, and the interpreter's lock is held.
                let plain = unsafe {
                    ffi::PyLong_CheckExact(only.as_ptr()) != 0 || ffi::PyUnicode_CheckExact(only.as_ptr()) != 0
                };
                if plain {
                    return Ok(only);
                }
            }
            return Ok(args.clone().into_any());
        }
        let mut parts: Vec<Bound<'py, PyAny>> = args.iter().collect();
        let mut types: Vec<Bound<'py, PyType>> = args.iter().map(|arg| arg.get_type()).collect();
        if let Some(kwargs) = kwargs {
            parts.push(self.mark.bind(py).clone());
            for (name, value) in kwargs.iter() {
                types.push(value.get_type());
                parts.push(name);
                parts.push(value);
            }
        }
        if self.typed {
            parts.extend(types.into_iter().map(Bound::into_any));
        }
        Ok(PyTuple::new(py, parts)?.into_any())
    }
}
