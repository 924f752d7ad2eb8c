//! Where steered files lie on their disks, for a policy that goes by block numbers: each turn has what it asks for found.
//!
//! A thread of its own opens files and asks their file systems.

use crate::file_system::FileSystem;
use crate::files::Files;
use crate::scopes::Scopes;
use crate::steered::PAGE;
use crate::watch::FileId;
use forebay_extents::{Asked, Extents, Run, runs_of};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// A file that is asked for.
struct Ask {
    object: u32,
    file: FileId,
    system: Arc<FileSystem>,
}

/// And what was found of it.
struct Answer {
    ask: Ask,
    runs: io::Result<Box<[Run]>>,
}

/// Has files' extents found that the policy asks for.
pub(crate) struct Finding {
    extents: Arc<Extents>,
    asked: Asked,
    /// The thread, once it is needed: what is asked for, and what was found.
    thread: Option<(Sender<Ask>, Receiver<Answer>)>,
}

impl Finding {
    pub(crate) fn new(extents: Arc<Extents>, asked: Asked) -> Self {
        Self { extents, asked, thread: None }
    }

    /// The bytes that what is known takes, about.
    pub(crate) fn bytes(&self) -> usize {
        self.extents.bytes()
    }

    /// Passes on what the policy asks for, and takes the answers.
    pub(crate) fn go_on(&mut self, files: &Files, scopes: &Scopes) {
        while let Ok(object) = self.asked.try_recv() {
            let file = files.get(object).map(|file| file.id);
            match file.and_then(|file| Some((file, Arc::clone(scopes.system(file.device)?)))) {
                Some((file, system)) => self.ask(Ask { object, file, system }),
                None => self.extents.forget(object),
            }
        }
        while let Some(Answer { ask, runs }) = self.thread.as_ref().and_then(|(_, found)| found.try_recv().ok()) {
            // Its number may be another's by now.
            if files.get(ask.object).is_none_or(|file| file.id != ask.file) {
                continue;
            }
            let runs = runs.unwrap_or_else(|error| {
                tracing::debug!("where a file lies is not known: {error}");
                Box::default()
            });
            self.extents.found(ask.object, ask.file.device, runs);
        }
    }

    fn ask(&mut self, ask: Ask) {
        let (asks, _) = self.thread.get_or_insert_with(|| {
            let (asks, asked) = channel::<Ask>();
            let (answers, answered) = channel();
            let look = move || {
                for ask in asked {
                    let runs = ask.system.open(ask.file).and_then(|file| runs_of(file, PAGE));
                    if answers.send(Answer { ask, runs }).is_err() {
                        return;
                    }
                }
            };
            // Without this thread the policy goes by places in files. It may wait for storage, so no thread waits for it to end.
            if let Err(error) = std::thread::Builder::new().name("extents".to_owned()).spawn(look) {
                tracing::debug!("no thread looks where files lie: {error}");
            }
            (asks, answered)
        });
        let _ = asks.send(ask);
    }
}
