//! Policies written in Python: classes with `hit`, `miss`, `evict` and `remove`, replayed beside the built-in ones.

use crate::PolicyError;
use crate::arguments::usage;
use crate::cache::{capacity, index};
use crate::waiting::{Stopped, raised};
use forebay_policy::guest::{Guest, Host, Hosted};
use forebay_policy::{Caller, Policy, Reference, Spec};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::collections::HashSet;
use std::fmt;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What a policy raised, and so ends the work of all: without it the runs beside it would be waited for.
#[derive(Default)]
pub(crate) struct Fault {
    raised: Mutex<Option<PyErr>>,
    any: AtomicBool,
}

impl Fault {
    /// Whether anything was raised.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// What was raised first.
    pub(crate) fn take(&self) -> Option<PyErr> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn raise(&self, error: PyErr) -> ! {
        // An error that comes later is dropped once the lock is free: that may run code of Python.
        let later = {
            let mut raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
            if raised.is_none() { raised.replace(error) } else { Some(error) }
        };
        drop(later);
        self.any.store(true, Ordering::Relaxed);
        resume_unwind(Box::new(Stopped))
    }
}

/// A class of policies, or what else makes one of a capacity.
struct Class(Py<PyAny>, String, Arc<Fault>);

impl fmt::Debug for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.1)
    }
}

/// A policy by its name, or as a class in Python, which tells what it raises.
pub(crate) fn spec(policy: &Bound<'_, PyAny>, fault: &Arc<Fault>) -> PyResult<Spec> {
    if let Ok(name) = policy.cast::<PyString>() {
        return Spec::parse(name.to_str()?.trim()).map_err(usage);
    }
    if !policy.is_callable() {
        let what = policy.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "a policy is a name or a class with hit, miss, evict and remove; {policy} is a {what}"
        )));
    }
    let name = policy.getattr_opt("__name__")?.map(|name| name.extract()).transpose()?;
    let name: String = name.unwrap_or_else(|| policy.to_string());
    Ok(Spec::hosted(Arc::new(Class(policy.clone().unbind(), name.clone(), Arc::clone(fault))), name))
}

impl Class {
    fn new_guest(&self, py: Python<'_>, capacity: u32) -> PyResult<Written> {
        let policy = self.0.bind(py).call1((capacity,))?;
        let method = |name: &str| match policy.getattr_opt(name)? {
            Some(method) if method.is_callable() => Ok(method.unbind()),
            _ => Err(PyTypeError::new_err(format!("{} has no method `{name}`: {}", self.1, METHODS))),
        };
        let [hit, miss, evict, remove] = ["hit", "miss", "evict", "remove"].map(method);
        let (hit, miss, evict, remove) = (hit?, miss?, evict?, remove?);
        let [refused, resize] = ["refused", "resize"].map(|name| policy.getattr_opt(name));
        let (refused, resize) = (refused?.map(Bound::unbind), resize?.map(Bound::unbind));
        Ok(Written { name: self.1.clone(), fault: Arc::clone(&self.2), hit, miss, evict, remove, refused, resize })
    }
}

const METHODS: &str = "a policy has hit(page), miss(page), evict(page), which returns a victim, and remove(page)";

impl Host for Class {
    fn make(&self, capacity: u32) -> Box<dyn Guest> {
        Python::attach(|py| Box::new(self.new_guest(py, capacity).unwrap_or_else(|error| self.2.raise(error))))
    }

    fn within(&self, work: &mut dyn FnMut()) {
        // Each call finds the lock held, and so costs little; who waits for it gets it from the interpreter's loop.
        Python::attach(|_| work());
    }
}

/// A policy written in Python, by its bound methods.
struct Written {
    name: String,
    fault: Arc<Fault>,
    hit: Py<PyAny>,
    miss: Py<PyAny>,
    evict: Py<PyAny>,
    remove: Py<PyAny>,
    refused: Option<Py<PyAny>>,
    resize: Option<Py<PyAny>>,
}

impl Written {
    fn call(&self, method: &Py<PyAny>, page: u32) {
        Python::attach(|py| {
            if let Err(error) = method.bind(py).call1((page,)) {
                self.fault.raise(error);
            }
        });
    }
}

impl Guest for Written {
    fn hit(&mut self, page: u32) {
        self.call(&self.hit, page);
    }

    fn miss(&mut self, page: u32) {
        self.call(&self.miss, page);
    }

    fn evict(&mut self, page: Option<u32>) -> u32 {
        Python::attach(|py| {
            let victim = self.evict.bind(py).call1((page,)).unwrap_or_else(|error| self.fault.raise(error));
            victim.extract().unwrap_or_else(|_| {
                let shown = victim.repr().map_or_else(|_| "what cannot be shown".to_owned(), |shown| shown.to_string());
                self.fault.raise(PolicyError::new_err(format!(
                    "{}.evict() returned {shown}, which is no page: return a resident one",
                    self.name
                )))
            })
        })
    }

    /// One that takes no pages back where they were gets them as if they were used now, the first one chosen being the first.
    fn refused(&mut self, pages: &[u32]) {
        match &self.refused {
            Some(refused) => pages.iter().rev().for_each(|&page| self.call(refused, page)),
            None => pages.iter().for_each(|&page| self.call(&self.miss, page)),
        }
    }

    fn remove(&mut self, page: u32) {
        self.call(&self.remove, page);
    }

    fn resize(&mut self, capacity: u32) {
        if let Some(resize) = &self.resize {
            self.call(resize, capacity);
        }
    }

    fn chose_wrong(&mut self, page: u32) -> ! {
        self.fault.raise(PolicyError::new_err(format!(
            "{}.evict() returned page {page}, which is not resident: return one that miss() was told of, and evict() or remove() not since",
            self.name
        )))
    }
}

/// A policy written in Python, by the step, as the simulator and a real cache would call it.
#[pyclass(module = "forebay._forebay")]
pub(crate) struct Steps(Mutex<Hosted>, Arc<Fault>);

/// A cache that refuses some pages.
struct Refusing {
    pinned: HashSet<u32>,
    evicted: Vec<u32>,
    offered: Vec<u32>,
}

impl Caller for Refusing {
    fn evict(&mut self, page: u32) -> bool {
        self.offered.push(page);
        let goes = !self.pinned.contains(&page);
        if goes {
            self.evicted.push(page);
        }
        goes
    }

    fn forget(&mut self, _page: u32) {}
}

/// What a step did: whether there was room or it was refused, the pages evicted, and those offered.
type Done = (bool, Vec<u32>, Vec<u32>);

impl Steps {
    fn step(&self, pinned: HashSet<u32>, step: impl FnOnce(&mut Hosted, &mut Refusing) -> bool) -> PyResult<Done> {
        let mut caller = Refusing { pinned, evicted: Vec::new(), offered: Vec::new() };
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut policy = self.0.try_lock().map_err(|_| usage("a policy's methods must not step it"))?;
            Ok::<bool, PyErr>(step(&mut policy, &mut caller))
        }));
        match done {
            Ok(done) => Ok((done?, caller.evicted, caller.offered)),
            Err(panic) => Err(self.1.take().unwrap_or_else(|| raised(panic))),
        }
    }
}

#[pymethods]
impl Steps {
    #[new]
    fn new(policy: &Bound<'_, PyAny>, #[pyo3(from_py_with = index)] capacity: i64) -> PyResult<Self> {
        let fault = Arc::default();
        let spec = spec(policy, &fault)?;
        if spec.host.is_none() {
            return Err(usage("a policy written in Python is checked: the others have their tests"));
        }
        let setup = spec.setup(self::capacity(capacity)?, 64);
        let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| Hosted::new(&setup)));
        match made {
            Ok(policy) => Ok(Self(Mutex::new(policy), fault)),
            Err(panic) => Err(fault.take().unwrap_or_else(|| raised(panic))),
        }
    }

    /// A reference to a page: true in the first place if it was resident; None if it was not and every victim was refused.
    fn reference(&self, page: u32, pinned: HashSet<u32>) -> PyResult<(Option<bool>, Vec<u32>, Vec<u32>)> {
        let mut hit = None;
        let (_, evicted, offered) = self.step(pinned, |policy, caller| {
            policy.reserve(page + 1);
            hit = if policy.contains(page) {
                policy.hit(&Reference::of(page));
                Some(true)
            } else {
                policy.miss(&Reference::of(page), caller).ok().map(|()| false)
            };
            true
        })?;
        Ok((hit, evicted, offered))
    }

    /// Evicts a page; false in the first place if every one was refused.
    fn evict(&self, pinned: HashSet<u32>) -> PyResult<Done> {
        self.step(pinned, |policy, caller| policy.evict(caller).is_ok())
    }

    fn remove(&self, page: u32) -> PyResult<Done> {
        self.step(HashSet::new(), |policy, caller| {
            policy.remove(page, caller);
            true
        })
    }

    fn resize(&self, #[pyo3(from_py_with = index)] capacity: i64, pinned: HashSet<u32>) -> PyResult<Done> {
        let capacity = self::capacity(capacity)?;
        self.step(pinned, |policy, caller| policy.resize(capacity, caller).is_ok())
    }

    /// The pages below a number that are resident, in the order of their numbers.
    fn resident(&self, below: u32) -> Vec<u32> {
        let policy = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (0..below).filter(|&page| policy.contains(page)).collect()
    }
}
