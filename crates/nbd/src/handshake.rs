//! The fixed newstyle handshake: a client asks what there is and chooses.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::error::Close;
use crate::input::Input;
use crate::link::{Link, Parcel, lock};
use crate::socket::{Stop, Wait};
use crate::tls::Tls;
use crate::wire::option::{Answer, BASE_ALLOCATION, BASE_ALLOCATION_ID, ClientOption, ContextQuery, InfoQuery, info};
use crate::wire::option::{EXPORT_NAME, HEADER, STARTTLS, header, parse, reply};
use crate::wire::request::Terms;
use crate::wire::{FIXED_NEWSTYLE, Form, NO_ZEROES, OPTION_MAGIC, SERVER_MAGIC};
use crate::workers::{Entry, Volume};
use crate::{Config, Limits, Session};

/// The exports by their names.
pub(crate) type Volumes = BTreeMap<String, Arc<Volume>>;

/// A client that has not agreed on sizes may send requests of this many bytes.
const COMMON_UNIT: u32 = 512;

/// What is said of an export that lets nobody in.
const FULL: &str = "has as many connections as it may have";

/// What a client has chosen.
pub(crate) struct Chosen {
    pub(crate) volume: Entry,
    pub(crate) session: Box<dyn Session>,
    pub(crate) terms: Terms,
}

impl std::fmt::Debug for Chosen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chosen").field("export", &self.volume.export.name()).field("terms", &self.terms).finish()
    }
}

/// What follows an option.
#[derive(Debug)]
enum Next {
    Option,
    StartTls,
    End,
    Transmission(Box<Chosen>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encryption {
    Off,
    Allowed,
    Required,
    On,
}

/// The state of a handshake; pure, with the bytes outside.
struct Negotiation {
    /// The exports there are now: none while the client is waited for, who must not hold one that is removed.
    volumes: Arc<Volumes>,
    request_bytes: u32,
    encryption: Encryption,
    no_zeroes: bool,
    form: Form,
    /// The export for which `base:allocation` has been selected.
    allocation: Option<String>,
}

/// Shakes hands with a client. `chosen` is called before the client knows that it has an export.
///
/// # Errors
/// Why the connection ends without an export.
pub(crate) fn shake(
    link: &mut Link,
    input: &mut Input,
    volumes: &Mutex<Arc<Volumes>>,
    config: &Config,
    stop: &Stop,
    chosen: impl Fn(),
) -> Result<Chosen, Close> {
    let deadline = Some(Instant::now() + config.handshake);
    link.deadline = deadline;
    let wait = Wait { spin: None, deadline, stop };
    let mut out = [SERVER_MAGIC.to_be_bytes(), OPTION_MAGIC.to_be_bytes()].concat();
    out.extend((FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes());
    link.send(Parcel::borrowed(&out, None))?;
    input.need(4, link, wait)?;
    let flags = input.ahead().first_chunk().copied().map_or(0, u32::from_be_bytes);
    input.consume(4);
    if flags & !u32::from(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
        return Err(Close::Malformed(format!("unknown client flags {flags:#x}")));
    }
    let encryption = match config.tls {
        Tls::Off => Encryption::Off,
        Tls::Allowed(_) => Encryption::Allowed,
        Tls::Required(_) => Encryption::Required,
    };
    let no_zeroes = flags & u32::from(NO_ZEROES) != 0;
    let request_bytes = u32::try_from(config.most_request()).unwrap_or(u32::MAX);
    let mut negotiation = Negotiation {
        volumes: Arc::default(),
        request_bytes,
        encryption,
        no_zeroes,
        form: Form::Simple,
        allocation: None,
    };
    for _ in 0..config.options {
        input.need(HEADER, link, wait)?;
        let Some((option, length)) = input.ahead().first_chunk().and_then(header) else {
            return Err(Close::Malformed("an option does not begin with IHAVEOPT".into()));
        };
        input.consume(HEADER);
        out.clear();
        let next = if length > config.option_bytes {
            skip(input, length as usize, link, wait)?;
            negotiation.too_big(option, &mut out)?
        } else {
            let data = take(input, length as usize, link, wait)?;
            negotiation.volumes = Arc::clone(&lock(volumes));
            let next = negotiation.answer(option, &data, stop.told(), &mut out)?;
            negotiation.volumes = Arc::default();
            next
        };
        if matches!(next, Next::Transmission(_)) {
            chosen();
        }
        link.send(Parcel::borrowed(&out, None))?;
        match next {
            Next::Option => {}
            Next::End => return Err(Close::Finished),
            Next::Transmission(chosen) => {
                link.deadline = None;
                return Ok(*chosen);
            }
            Next::StartTls => {
                // What came in the clear must not be taken for what came under TLS.
                if !input.ahead().is_empty() {
                    return Err(Close::Malformed("it does not wait for the reply to STARTTLS".into()));
                }
                if let Tls::Allowed(identity) | Tls::Required(identity) = &config.tls {
                    let tls = identity.connect().map_err(|error| Close::Refused(error.to_string()))?;
                    link.start_tls(tls, &mut input.sealed, wait)?;
                }
            }
        }
    }
    Err(Close::Malformed(format!("more than {} options", config.options)))
}

fn take(input: &mut Input, count: usize, link: &Link, wait: Wait<'_>) -> Result<Vec<u8>, Close> {
    let mut data = Vec::new();
    while data.len() < count {
        input.need(1, link, wait)?;
        let here = input.ahead().len().min(count - data.len());
        data.extend(&input.ahead()[..here]);
        input.consume(here);
    }
    Ok(data)
}

fn skip(input: &mut Input, mut count: usize, link: &Link, wait: Wait<'_>) -> Result<(), Close> {
    while count > 0 {
        input.need(1, link, wait)?;
        let here = input.ahead().len().min(count);
        input.consume(here);
        count -= here;
    }
    Ok(())
}

impl Negotiation {
    fn too_big(&self, option: u32, out: &mut Vec<u8>) -> Result<Next, Close> {
        if option == EXPORT_NAME {
            return Err(Close::Malformed("the name of an export is too long".into()));
        }
        reply(out, option, Answer::TooBig, &[b"the option is too long"]);
        Ok(Next::Option)
    }

    /// Answers an option.
    fn answer(&mut self, option: u32, data: &[u8], stopping: bool, out: &mut Vec<u8>) -> Result<Next, Close> {
        let refuse = |out: &mut Vec<u8>, answer, reason: &str| {
            reply(out, option, answer, &[reason.as_bytes()]);
            Ok(Next::Option)
        };
        let parsed = match parse(option, data) {
            Ok(ClientOption::Abort) => {
                reply(out, option, Answer::Ack, &[]);
                return Ok(Next::End);
            }
            // This option alone has no reply that could say no.
            Err(reason) if option == EXPORT_NAME => return Err(Close::Malformed(reason.into())),
            _ if self.encryption == Encryption::Required && option != STARTTLS => {
                if option == EXPORT_NAME {
                    return Err(Close::Refused("TLS is required".into()));
                }
                return refuse(out, Answer::TlsRequired, "TLS is required");
            }
            _ if stopping && option == EXPORT_NAME => return Err(Close::Stopping),
            _ if stopping => return refuse(out, Answer::Shutdown, "the server is stopping"),
            Err(reason) => return refuse(out, Answer::Invalid, reason),
            Ok(parsed) => parsed,
        };
        match parsed {
            ClientOption::ExportName(name) => return self.export_name(name, out),
            ClientOption::Info(query) => return self.info(&query, option, false, out),
            ClientOption::Go(query) => return self.info(&query, option, true, out),
            ClientOption::List => {
                for (name, volume) in &*self.volumes {
                    let length = (name.len() as u32).to_be_bytes();
                    let parts = [&length, name.as_bytes(), volume.export.description().as_bytes()];
                    reply(out, option, Answer::Server, &parts);
                }
            }
            ClientOption::StartTls => match self.encryption {
                Encryption::Off => return refuse(out, Answer::Policy, "TLS is not configured"),
                Encryption::On => return refuse(out, Answer::Invalid, "TLS is in use already"),
                Encryption::Allowed | Encryption::Required => {
                    // What was agreed in the clear, anybody may have said.
                    (self.encryption, self.form, self.allocation) = (Encryption::On, Form::Simple, None);
                    reply(out, option, Answer::Ack, &[]);
                    return Ok(Next::StartTls);
                }
            },
            ClientOption::StructuredReply if self.form == Form::Extended => {
                return refuse(out, Answer::ExtendedHeadersRequired, "extended headers were agreed on");
            }
            ClientOption::StructuredReply => self.form = Form::Structured,
            ClientOption::ExtendedHeaders if self.form == Form::Extended => {
                return refuse(out, Answer::Invalid, "extended headers were agreed on already");
            }
            ClientOption::ExtendedHeaders => self.form = Form::Extended,
            ClientOption::ListMetaContext(query) => match self.contexts(&query) {
                Err((answer, reason)) => return refuse(out, answer, reason),
                Ok(_) if query.empty || query.exact || query.namespace => {
                    reply(out, option, Answer::MetaContext, &[&0u32.to_be_bytes(), BASE_ALLOCATION.as_bytes()]);
                }
                Ok(_) => {}
            },
            ClientOption::SetMetaContext(query) => {
                self.allocation = None;
                match self.contexts(&query) {
                    Err((answer, reason)) => return refuse(out, answer, reason),
                    // Selecting takes no wildcards.
                    Ok(volume) if query.exact => {
                        self.allocation = Some(volume.export.name().into());
                        let id = BASE_ALLOCATION_ID.to_be_bytes();
                        reply(out, option, Answer::MetaContext, &[&id, BASE_ALLOCATION.as_bytes()]);
                    }
                    Ok(_) => {}
                }
            }
            ClientOption::Abort => return Ok(Next::End),
            ClientOption::Other => return refuse(out, Answer::Unsupported, "this option is not known here"),
        }
        reply(out, option, Answer::Ack, &[]);
        Ok(Next::Option)
    }

    fn contexts(&self, query: &ContextQuery<'_>) -> Result<&Volume, (Answer, &'static str)> {
        if self.form == Form::Simple {
            return Err((Answer::Invalid, "metadata contexts need structured replies"));
        }
        self.find(query.export).map(|volume| &**volume).ok_or((Answer::Unknown, "there is no such export"))
    }

    /// The export of a name. The empty name is the default: the export that has it, or else the only one.
    fn find(&self, name: &str) -> Option<&Arc<Volume>> {
        let only = || self.volumes.values().next().filter(|_| name.is_empty() && self.volumes.len() == 1);
        self.volumes.get(name).or_else(only)
    }

    fn terms(&self, volume: &Volume) -> Terms {
        let export = &*volume.export;
        let limits = export.limits();
        let most = limits.maximum.min(self.request_bytes);
        let maximum = (most - most % limits.minimum).max(limits.minimum);
        Terms {
            size: export.size(),
            features: export.features(),
            limits: Limits { maximum, preferred: limits.preferred.min(maximum), ..limits },
            form: self.form,
            allocation: self.allocation.as_deref() == Some(export.name()),
        }
    }

    fn export_name(&self, name: &str, out: &mut Vec<u8>) -> Result<Next, Close> {
        if self.form == Form::Extended {
            return Err(Close::Malformed("EXPORT_NAME does not go with extended headers: GO does".into()));
        }
        let Some(volume) = self.find(name) else {
            return Err(Close::Refused(format!("there is no export {name:?}")));
        };
        let terms = self.terms(volume);
        if terms.limits.minimum > COMMON_UNIT {
            return Err(Close::Refused(format!("export {name:?} needs a client that asks for block sizes")));
        }
        let Some(entry) = volume.enter() else { return Err(Close::Refused(format!("export {name:?} {FULL}"))) };
        let session = volume.export.session().map_err(|failure| Close::Refused(failure.message))?;
        out.extend(terms.size.to_be_bytes());
        out.extend(terms.flags().to_be_bytes());
        out.extend(std::iter::repeat_n(0, if self.no_zeroes { 0 } else { 124 }));
        Ok(Next::Transmission(Box::new(Chosen { volume: entry, session, terms })))
    }

    fn info(&self, query: &InfoQuery<'_>, option: u32, go: bool, out: &mut Vec<u8>) -> Result<Next, Close> {
        let refuse = |out: &mut Vec<u8>, answer, reason: &str| {
            reply(out, option, answer, &[reason.as_bytes()]);
            Ok(Next::Option)
        };
        let Some(volume) = self.find(query.export) else {
            return refuse(out, Answer::Unknown, "there is no such export");
        };
        let terms = self.terms(volume);
        if terms.limits.minimum > COMMON_UNIT && !query.wants(info::BLOCK_SIZE) {
            return refuse(out, Answer::BlockSizeRequired, "requests are of multiples that the client must ask for");
        }
        // Opened before anything is told, as it may fail.
        let mut opened = None;
        if go {
            let Some(entry) = volume.enter() else { return refuse(out, Answer::Policy, &format!("the export {FULL}")) };
            match volume.export.session() {
                Ok(session) => opened = Some((entry, session)),
                Err(failure) => return refuse(out, Answer::Unknown, &failure.message),
            }
        }
        let mut tell = |kind: u16, parts: [&[u8]; 3]| {
            reply(out, option, Answer::Info, &[&kind.to_be_bytes(), parts[0], parts[1], parts[2]]);
        };
        tell(info::EXPORT, [&terms.size.to_be_bytes(), &terms.flags().to_be_bytes(), &[]]);
        if query.wants(info::NAME) {
            tell(info::NAME, [volume.export.name().as_bytes(), &[], &[]]);
        }
        if query.wants(info::DESCRIPTION) {
            tell(info::DESCRIPTION, [volume.export.description().as_bytes(), &[], &[]]);
        }
        // Told in any case: a client may ignore what it did not ask for.
        let Limits { minimum, preferred, maximum } = terms.limits;
        tell(info::BLOCK_SIZE, [&minimum.to_be_bytes(), &preferred.to_be_bytes(), &maximum.to_be_bytes()]);
        reply(out, option, Answer::Ack, &[]);
        Ok(match opened {
            None => Next::Option,
            Some((volume, session)) => Next::Transmission(Box::new(Chosen { volume, session, terms })),
        })
    }
}

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
