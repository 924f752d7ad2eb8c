//! What this process knows of the objects that it has read or written, so that it notices who else writes them.
//!
//! Storage gives each version of an object an entity tag of its own. An object is changed on condition that its tag is the one seen
//! last, and what is read must have it, too. A process that finds another tag has been overtaken: its cache holds bytes that
//! are no longer true. From then on it does nothing: no write is lost unnoticed, the other's as little as its own. Objects that it has
//! written carry its mark, so that a change whose answer was lost is not taken for another's.

use bytes::Bytes;
use object_store::{Attribute, Attributes, Error, GetResult, PutMode, PutOptions, Result, UpdateVersion};
use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::BuildHasher;
use std::io;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The name of the mark among an object's own attributes.
const WRITER: Attribute = Attribute::Metadata(std::borrow::Cow::Borrowed("forebay-writer"));

/// An object as the storage answers.
pub(super) struct Found {
    pub(super) bytes: Bytes,
    pub(super) tag: Option<String>,
    /// This process has written it.
    pub(super) ours: bool,
}

impl Found {
    pub(super) async fn of(answer: GetResult, known: Option<&Known>) -> Result<Self> {
        let tag = answer.meta.e_tag.clone();
        if known.is_some() && tag.is_none() {
            let source = "the storage gives objects no entity tags, by which other writers are noticed".into();
            return Err(Error::Generic { store: "objects", source });
        }
        let ours = known.is_some_and(|known| answer.attributes.get(&WRITER).is_some_and(|mark| **mark == *known.mark));
        Ok(Self { bytes: answer.bytes().await?, tag, ours })
    }
}

/// The tags seen last: about 100 bytes for each object that was read or written.
pub(super) struct Known {
    tags: Mutex<HashMap<u64, Option<String>>>,
    mark: String,
    /// The object that another has changed.
    taken: OnceLock<u64>,
}

impl Default for Known {
    fn default() -> Self {
        // Each of these states has random keys of its own.
        let mark = format!("{:016x}{:016x}", RandomState::new().hash_one(0), RandomState::new().hash_one(1));
        Self { tags: Mutex::default(), mark, taken: OnceLock::new() }
    }
}

impl Known {
    fn tags(&self) -> MutexGuard<'_, HashMap<u64, Option<String>>> {
        self.tags.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an object is as it was seen last. One that was not seen before is noted.
    pub(super) fn agrees(&self, number: u64, found: Option<&Found>) -> bool {
        let tag = found.and_then(|found| found.tag.as_ref());
        match self.tags().entry(number) {
            Entry::Occupied(seen) => seen.get().as_ref() == tag,
            Entry::Vacant(new) => {
                new.insert(tag.cloned());
                true
            }
        }
    }

    /// Notes what an object is now; no tag if it is not there.
    pub(super) fn note(&self, number: u64, tag: Option<String>) {
        self.tags().insert(number, tag);
    }

    pub(super) fn forget(&self, number: u64) {
        self.tags().remove(&number);
    }

    pub(super) fn has(&self, number: u64) -> bool {
        self.tags().contains_key(&number)
    }

    /// How an object is put that has been seen: in place of what was seen, with our mark.
    pub(super) fn condition(&self, number: u64) -> PutOptions {
        let mode = match self.tags().get(&number) {
            Some(Some(tag)) => PutMode::Update(UpdateVersion { e_tag: Some(tag.clone()), version: None }),
            _ => PutMode::Create,
        };
        let attributes = Attributes::from_iter([(WRITER, self.mark.clone())]);
        PutOptions { mode, attributes, ..PutOptions::default() }
    }

    /// Another has changed this object: nothing is read or written from now on.
    pub(super) fn taken(&self, name: &str, number: u64) -> io::Error {
        let number = self.taken.get_or_init(|| number);
        let message = format!(
            "{name}: another server has changed object {number}, so this one reads and writes it no more; \
             stop one of the two, and restart the other"
        );
        io::Error::new(io::ErrorKind::ResourceBusy, message)
    }

    /// Fails once another was seen.
    pub(super) fn ours(&self, name: &str) -> io::Result<()> {
        self.taken.get().map_or(Ok(()), |number| Err(self.taken(name, *number)))
    }
}

#[cfg(all(test, not(feature = "model-check")))]
mod tests {
    use super::super::{NewVolume, ObjectDevice};
    use crate::device::Device;
    use object_store::ObjectStore;
    use object_store::memory::InMemory;
    use object_store::path::Path;
    use std::io::{ErrorKind, IoSlice, IoSliceMut};
    use std::sync::Arc;

    const OBJECT: u64 = 8192;

    fn opened(store: &Arc<InMemory>) -> ObjectDevice {
        let new = NewVolume { length: 4 * OBJECT, object_size: OBJECT };
        ObjectDevice::on(Arc::clone(store) as Arc<dyn ObjectStore>, "volume", Some(new)).expect("memory has room")
    }

    fn write(device: &ObjectDevice, offset: u64, byte: u8, length: usize) -> Result<(), ErrorKind> {
        device.write(offset, &[IoSlice::new(&vec![byte; length])]).map_err(|error| error.kind())
    }

    fn read(device: &ObjectDevice, offset: u64) -> Result<u8, ErrorKind> {
        let mut byte = [0];
        device.read(offset, &mut [IoSliceMut::new(&mut byte)]).map_err(|error| error.kind())?;
        Ok(byte[0])
    }

    #[test]
    fn a_write_that_would_undo_anothers_fails_and_nothing_is_done_from_then_on() {
        for length in [100, OBJECT as usize] {
            let store = Arc::new(InMemory::new());
            let (one, another) = (opened(&store), opened(&store));
            assert_eq!((read(&one, 0), read(&another, 0)), (Ok(0), Ok(0)));
            assert_eq!(write(&another, 0, 7, length), Ok(()));
            assert_eq!(write(&one, 0, 1, length), Err(ErrorKind::ResourceBusy));
            for after in [
                write(&one, OBJECT, 1, 1),
                write(&one, OBJECT, 1, OBJECT as usize),
                read(&one, OBJECT).map(drop),
                one.trim(0, OBJECT).map_err(|e| e.kind()),
            ] {
                assert_eq!(after, Err(ErrorKind::ResourceBusy));
            }
            let message = one.flush().expect_err("it is no longer alone").to_string();
            assert!(message.contains("another server has changed object 0"), "{message}");
            assert_eq!((read(&another, 0), another.flush().is_ok()), (Ok(7), true), "the other goes on");
        }
    }

    #[test]
    fn a_read_notices_what_another_has_written_or_trimmed() {
        for trims in [false, true] {
            let store = Arc::new(InMemory::new());
            let one = opened(&store);
            assert_eq!(write(&one, 0, 1, OBJECT as usize), Ok(()));
            let another = opened(&store);
            if trims {
                another.trim(0, OBJECT).expect("memory can be trimmed");
            } else {
                assert_eq!(write(&another, 5, 7, 1), Ok(()));
            }
            assert_eq!(read(&one, 0), Err(ErrorKind::ResourceBusy));
        }
    }

    #[test]
    fn a_trim_does_not_drop_what_another_has_written() {
        let store = Arc::new(InMemory::new());
        let one = opened(&store);
        assert_eq!(write(&one, 0, 1, 10), Ok(()));
        let another = opened(&store);
        assert_eq!(write(&another, 0, 7, 10), Ok(()));
        assert_eq!(one.trim(0, OBJECT).map_err(|error| error.kind()), Err(ErrorKind::ResourceBusy));
        assert_eq!(read(&another, 0), Ok(7));
    }

    #[test]
    fn an_own_write_whose_answer_was_lost_is_not_taken_for_anothers() {
        for length in [100, OBJECT as usize] {
            let store = Arc::new(InMemory::new());
            let device = opened(&store);
            assert_eq!(write(&device, 0, 1, 10), Ok(()));
            // It arrives late: the device has not noted its tag.
            let late = device.known.as_ref().expect("memory has no lock").condition(0);
            let path = Path::from("volume/0000000000000000");
            device.runtime.block_on(store.put_opts(&path, vec![2; OBJECT as usize].into(), late)).expect("memory");
            assert_eq!((write(&device, 0, 3, length), read(&device, 50)), (Ok(()), Ok(3)));
            let end = if length == 100 { 2 } else { 3 };
            assert_eq!((read(&device, OBJECT - 1), device.flush().is_ok()), (Ok(end), true));
        }
    }

    #[test]
    fn two_that_keep_to_objects_of_their_own_do_not_disturb_each_other() {
        let store = Arc::new(InMemory::new());
        let (one, another) = (opened(&store), opened(&store));
        for round in 1..4 {
            assert_eq!((write(&one, 0, round, 10), write(&another, OBJECT, round, 10)), (Ok(()), Ok(())));
            assert_eq!((read(&one, 0), read(&another, OBJECT)), (Ok(round), Ok(round)));
        }
    }
}
