//! The queue between those who refer and the thread that writes.

use super::parts::Parts;
use forebay_basis::Operation;
use forebay_trace::{Names, Reader, Request, Unit};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};

pub(super) enum Message {
    Reference {
        time: u64,
        offset: u64,
        length: u32,
        owner: u32,
        object: u32,
        operation: Operation,
        object_length: u64,
    },
    /// Completes the part that is being written, and is answered with the parts there are.
    Cut(Sender<Parts>),
}

/// Why a part of the trace has ended.
pub(super) enum End {
    /// Another follows.
    Cut(Sender<Parts>),
    /// Nobody sends any more.
    Stopped,
}

/// The queue's end, read like any trace, part by part.
pub(super) struct Queue {
    receiver: Receiver<Message>,
    names: Arc<Mutex<super::Names>>,
    /// The numbers of names among the owners and objects of this part.
    known: Vec<(Option<u32>, Option<u32>)>,
    end: Option<End>,
}

impl Queue {
    pub(super) fn new(receiver: Receiver<Message>, names: Arc<Mutex<super::Names>>) -> Self {
        Self { receiver, names, known: Vec::new(), end: None }
    }

    /// Why the part that was read has ended; then the next can be read.
    pub(super) fn next_part(&mut self) -> End {
        self.known.clear();
        self.end.take().unwrap_or(End::Stopped)
    }

    /// The owner of that name in this part.
    fn owner(&mut self, names: &mut Names, number: u32) -> u32 {
        let recorded = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        self.known.resize(recorded.all.len(), (None, None));
        *self.known[number as usize].0.get_or_insert_with(|| names.owner(&recorded.all[number as usize]))
    }

    /// The object of that name in this part.
    fn object(&mut self, names: &mut Names, number: u32) -> u32 {
        let recorded = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        self.known.resize(recorded.all.len(), (None, None));
        *self.known[number as usize].1.get_or_insert_with(|| names.object(&recorded.all[number as usize]))
    }

    fn request(&mut self, names: &mut Names, message: Option<Message>) -> Option<Request> {
        match message {
            Some(Message::Reference { time, offset, length, owner, object, operation, object_length }) => {
                let (owner, object) = (self.owner(names, owner), self.object(names, object));
                names.set_length(object, object_length);
                Some(Request { time, owner, object, offset, length: length.into(), operation })
            }
            Some(Message::Cut(answer)) => {
                self.end = Some(End::Cut(answer));
                None
            }
            None => None,
        }
    }
}

impl Reader for Queue {
    fn unit(&self) -> Unit {
        Unit::Bytes
    }

    fn has_lengths(&self) -> bool {
        true
    }

    fn next(&mut self, names: &mut Names) -> forebay_trace::Result<Option<Request>> {
        let message = self.receiver.recv().ok();
        Ok(self.request(names, message))
    }

    fn fill(&mut self, names: &mut Names, most: usize, batch: &mut Vec<Request>) -> forebay_trace::Result<bool> {
        // What is there is taken; only for the first one it waits, so that figures are up to date.
        let Some(first) = self.next(names)? else { return Ok(false) };
        batch.push(first);
        while batch.len() < most
            && let Ok(message) = self.receiver.try_recv()
        {
            let Some(request) = self.request(names, Some(message)) else { return Ok(false) };
            batch.push(request);
        }
        Ok(true)
    }
}
