//! What a cache of Python's objects is made of: keys of any hashable kind, numbered for a policy.
//!
//! Rules, on which soundness under hostile keys rests:
//!
//! - S1. Under the lock no code of Python runs: no `__hash__`, no `__eq__` but of exact `int` and `str`, and no object is dropped (which could
//!   run `__del__`). So nobody waits for the lock for long, nobody who holds it waits for the interpreter's, and a cache may be used from
//!   within its keys' methods.
//! - S2. A key's hash is asked once, when it comes, and kept. What is forgotten is found by its hash and number: a key whose hash or equality
//!   changes, or raises, can be missed from then on, but never keeps the cache from forgetting it.
//! - S3. Keys whose comparison may run code are compared without the lock. If keys were named or unnamed meanwhile ([`Store::version`]),
//!   what came of it is not believed, and the search begins anew, a bounded number of times.
//!
//! The table is hashbrown's and holds numbers alone, as that of the simulator does.

use forebay_policy::{AnyPolicy, Caller, Reference, Spec};
use hashbrown::HashTable;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A search that began anew this often is given up: each comparison changes the cache.
const TRIES: usize = 1000;
/// Numbers for which there is room at first.
const ROOM: u32 = 64;

/// What stands under a number.
#[derive(Default)]
struct Slot {
    hash: isize,
    /// Whose number it is; none if it is free.
    key: Option<Py<PyAny>>,
    /// What is cached under a resident key, if values are.
    value: Option<Py<PyAny>>,
    /// Whether the policy knows the key.
    known: bool,
    /// Whether it is among the forgotten ones, to be given again unless the key has come back.
    queued: bool,
}

/// Objects to be dropped once the lock is free (S1).
pub(crate) type Dropped = Vec<Py<PyAny>>;

/// Keys, their numbers, and the policy that knows them by these.
pub(crate) struct Store {
    /// None: everything is kept.
    policy: Option<Box<dyn AnyPolicy>>,
    /// Whether the policy looks at places. A key's is its hash, which outlives its number.
    looks_at_places: bool,
    table: HashTable<u32>,
    slots: Vec<Slot>,
    /// Numbers whose keys the policy has forgotten, the one forgotten the longest ago first.
    forgotten: VecDeque<u32>,
    /// So many numbers are given before one is given again.
    kept: usize,
    /// The policy has room for numbers below this.
    room: u32,
    /// Changes whenever a key gets or loses a number.
    version: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

/// The slots as the policy's caller.
struct Events<'a> {
    slots: &'a mut [Slot],
    forgotten: Vec<u32>,
    dropped: &'a mut Dropped,
}

impl Caller for Events<'_> {
    fn evict(&mut self, page: u32) -> bool {
        self.dropped.extend(self.slots[page as usize].value.take());
        true
    }

    fn forget(&mut self, page: u32) {
        self.forgotten.push(page);
    }
}

/// Spreads a hash of Python's, which for numbers is the number.
fn spread(hash: isize) -> u64 {
    let product = u128::from(hash as u64) * 0x9e37_79b9_7f4a_7c15;
    product as u64 ^ (product >> 64) as u64
}

/// The policy of that name, for a cache that runs.
///
/// # Errors
/// If there is none, or it knows the future.
pub(crate) fn running(policy: &str) -> PyResult<Spec> {
    let spec = Spec::parse(policy).map_err(PyValueError::new_err)?;
    if spec.needs_future() {
        let label = &spec.label;
        return Err(PyValueError::new_err(format!(
            "{label} knows the references to come, which no running cache does"
        )));
    }
    Ok(spec)
}

impl Store {
    /// An empty cache of that many keys; without a policy of as many as come.
    pub(crate) fn new(policy: Option<(&Spec, u32)>) -> Self {
        let kept = policy.map_or(0, |(spec, capacity)| spec.info.numbers_kept as usize * capacity as usize);
        Self {
            looks_at_places: policy.is_some_and(|(spec, _)| spec.info.uses.place),
            policy: policy.map(|(spec, capacity)| spec.build_alone(&spec.setup(capacity, ROOM))),
            table: HashTable::new(),
            slots: Vec::new(),
            forgotten: VecDeque::new(),
            kept,
            room: ROOM,
            version: 0,
            hits: 0,
            misses: 0,
        }
    }

    /// How many keys are resident.
    pub(crate) fn len(&self) -> usize {
        self.policy.as_ref().map_or(self.table.len(), |policy| policy.resident() as usize)
    }

    pub(crate) fn policy(&self) -> Option<&dyn AnyPolicy> {
        self.policy.as_deref()
    }

    fn is_resident(&self, number: u32) -> bool {
        self.policy.as_ref().is_none_or(|policy| policy.contains(number))
    }

    /// The number, if its key is resident.
    pub(crate) fn resident(&self, found: Option<u32>) -> Option<u32> {
        found.filter(|&number| self.is_resident(number))
    }

    /// What is cached under a number.
    pub(crate) fn value(&self, number: u32) -> Option<&Py<PyAny>> {
        self.slots[number as usize].value.as_ref()
    }

    /// A reference to the key that was found under a number, or else to a new one. Returns the key's number, and whether it was resident.
    pub(crate) fn refer(
        &mut self,
        found: Option<u32>,
        key: &Bound<'_, PyAny>,
        hash: isize,
        dropped: &mut Dropped,
    ) -> (u32, bool) {
        let number = found.unwrap_or_else(|| self.name(key, hash, dropped));
        self.slots[number as usize].known = true;
        let Some(policy) = &mut self.policy else { return (number, found.is_some()) };
        let mut events = Events { slots: &mut self.slots, forgotten: Vec::new(), dropped };
        let mut reference = Reference::of(number);
        if self.looks_at_places {
            reference.place.block = hash as u64;
        }
        let hit = policy.refer(&reference, &mut events).expect("no victim is refused");
        let forgotten = events.forgotten;
        self.forget(forgotten, dropped);
        (number, hit)
    }

    /// Caches a value under the number of a resident key.
    pub(crate) fn set(&mut self, number: u32, value: Py<PyAny>, dropped: &mut Dropped) {
        dropped.extend(self.slots[number as usize].value.replace(value));
    }

    /// Drops a key. Returns whether it was resident.
    pub(crate) fn remove(&mut self, number: u32, dropped: &mut Dropped) -> bool {
        let resident = self.is_resident(number);
        if let Some(policy) = &mut self.policy {
            let mut events = Events { slots: &mut self.slots, forgotten: Vec::new(), dropped };
            policy.remove(number, &mut events);
            let forgotten = events.forgotten;
            self.forget(forgotten, dropped);
        }
        dropped.extend(self.slots[number as usize].value.take());
        self.forget(vec![number], dropped);
        resident
    }

    /// Sets the capacity.
    pub(crate) fn resize(&mut self, capacity: u32, spec: &Spec, dropped: &mut Dropped) {
        let Some(policy) = &mut self.policy else { return };
        let mut events = Events { slots: &mut self.slots, forgotten: Vec::new(), dropped };
        policy.resize(capacity, &mut events).expect("no victim is refused");
        let forgotten = events.forgotten;
        self.kept = spec.info.numbers_kept as usize * capacity as usize;
        self.forget(forgotten, dropped);
    }

    /// Gives the key a number.
    fn name(&mut self, key: &Bound<'_, PyAny>, hash: isize, dropped: &mut Dropped) -> u32 {
        let again = if self.slots.len() < self.kept { None } else { self.again() };
        let number = again.unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        self.unname(number, dropped);
        if let (Some(policy), true) = (&mut self.policy, number >= self.room) {
            self.room = number + number / 2 + 1;
            policy.reserve(self.room);
        }
        self.version += 1;
        let slots = &mut self.slots;
        slots[number as usize] = Slot { hash, key: Some(key.clone().unbind()), ..Slot::default() };
        self.table.insert_unique(spread(hash), number, |&number| spread(slots[number as usize].hash));
        number
    }

    /// The number forgotten the longest ago, unless its key has come back.
    fn again(&mut self) -> Option<u32> {
        loop {
            let number = self.forgotten.pop_front()?;
            let slot = &mut self.slots[number as usize];
            slot.queued = false;
            if !slot.known {
                return Some(number);
            }
        }
    }

    /// The policy knows nothing of these any more, but for one that it has just admitted.
    fn forget(&mut self, forgotten: Vec<u32>, dropped: &mut Dropped) {
        for number in forgotten {
            if self.policy.as_ref().is_some_and(|policy| policy.contains(number)) {
                continue;
            }
            let slot = &mut self.slots[number as usize];
            slot.known = false;
            if !std::mem::replace(&mut slot.queued, true) {
                self.forgotten.push_back(number);
            }
            // One whose number is kept comes back under it.
            if self.kept == 0 {
                self.unname(number, dropped);
            }
        }
    }

    /// The number is nobody's.
    fn unname(&mut self, number: u32, dropped: &mut Dropped) {
        let slot = &mut self.slots[number as usize];
        let Some(key) = slot.key.take() else { return };
        dropped.push(key);
        self.version += 1;
        if let Ok(entry) = self.table.find_entry(spread(slot.hash), |&other| other == number) {
            entry.remove();
        }
    }

    /// All that it holds, for the collector of garbage.
    pub(crate) fn held(&self) -> impl Iterator<Item = &Py<PyAny>> {
        self.slots.iter().flat_map(|slot| slot.key.iter().chain(&slot.value))
    }
}

/// The store behind its lock.
pub(crate) struct Locked(Mutex<Store>);

impl Locked {
    pub(crate) fn new(store: Store) -> Self {
        Self(Mutex::new(store))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Store> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same where waiting is not allowed.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Store>> {
        self.0.try_lock().ok()
    }

    /// Finds a key, and holds the lock on from there.
    ///
    /// # Errors
    /// What the keys' `__eq__` raise, or that each call of them changes the cache.
    #[inline]
    pub(crate) fn find(&self, key: &Bound<'_, PyAny>, hash: isize) -> PyResult<(MutexGuard<'_, Store>, Option<u32>)> {
        for _ in 0..TRIES {
            let store = self.lock();
            let mut asked = Vec::new();
            let mut found = None;
            for &number in store.table.iter_hash(spread(hash)) {
                let slot = &store.slots[number as usize];
                let Some(other) = slot.key.as_ref().filter(|_| slot.hash == hash) else { continue };
                if other.as_ptr() == key.as_ptr()
                    || (is_plain(key) && is_plain(other.bind(key.py())) && equal(key, other.bind(key.py()))?)
                {
                    found = Some(number);
                    break;
                }
                if !(is_plain(key) && is_plain(other.bind(key.py()))) {
                    asked.push((number, other.clone_ref(key.py())));
                }
            }
            if found.is_some() || asked.is_empty() {
                return Ok((store, found));
            }
            let version = store.version;
            drop(store);
            let found = first_equal(key, asked)?;
            let store = self.lock();
            if store.version == version {
                return Ok((store, found));
            }
        }
        Err(PyRuntimeError::new_err("the cache changes whenever its keys are compared: their __eq__ must not use it"))
    }
}

/// The first of these that equals the key. Code of Python runs.
fn first_equal(key: &Bound<'_, PyAny>, asked: Vec<(u32, Py<PyAny>)>) -> PyResult<Option<u32>> {
    for (number, other) in &asked {
        if equal(other.bind(key.py()), key)? {
            return Ok(Some(*number));
        }
    }
    Ok(None)
}

/// Whether it is an exact `int` or `str`, whose comparisons with each other run no code of Python.
#[inline]
fn is_plain(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the pointer is that of a living object, and the interpreter's lock is held.
    unsafe { ffi::PyLong_CheckExact(object.as_ptr()) != 0 || ffi::PyUnicode_CheckExact(object.as_ptr()) != 0 }
}

#[inline]
fn equal(one: &Bound<'_, PyAny>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
    // SAFETY: both are living objects, and the interpreter's lock is held.
    match unsafe { ffi::PyObject_RichCompareBool(one.as_ptr(), other.as_ptr(), ffi::Py_EQ) } {
        -1 => Err(PyErr::fetch(one.py())),
        equal => Ok(equal == 1),
    }
}
