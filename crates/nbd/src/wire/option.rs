//! The options of the handshake and their replies.

use super::{Fields, OPTION_MAGIC, OPTION_REPLY_MAGIC, text};

/// The bytes before an option's data.
pub(crate) const HEADER: usize = 16;

/// The one metadata context there is, and its number on the wire.
pub(crate) const BASE_ALLOCATION: &str = "base:allocation";
pub(crate) const BASE_ALLOCATION_ID: u32 = 1;

pub(crate) const EXPORT_NAME: u32 = 1;
pub(crate) const ABORT: u32 = 2;
pub(crate) const LIST: u32 = 3;
pub(crate) const STARTTLS: u32 = 5;
pub(crate) const INFO: u32 = 6;
pub(crate) const GO: u32 = 7;
pub(crate) const STRUCTURED_REPLY: u32 = 8;
pub(crate) const LIST_META_CONTEXT: u32 = 9;
pub(crate) const SET_META_CONTEXT: u32 = 10;
pub(crate) const EXTENDED_HEADERS: u32 = 11;

/// The kinds of information in an answer to `INFO` and `GO`.
pub(crate) mod info {
    pub(crate) const EXPORT: u16 = 0;
    pub(crate) const NAME: u16 = 1;
    pub(crate) const DESCRIPTION: u16 = 2;
    pub(crate) const BLOCK_SIZE: u16 = 3;
}

/// What a reply to an option says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Answer {
    Ack = 1,
    Server = 2,
    Info = 3,
    MetaContext = 4,
    Unsupported = 1 << 31 | 1,
    Policy = 1 << 31 | 2,
    Invalid = 1 << 31 | 3,
    TlsRequired = 1 << 31 | 5,
    Unknown = 1 << 31 | 6,
    Shutdown = 1 << 31 | 7,
    BlockSizeRequired = 1 << 31 | 8,
    TooBig = 1 << 31 | 9,
    ExtendedHeadersRequired = 1 << 31 | 10,
}

/// An option's number and the length of its data; `None` if the magic is not there.
pub(crate) fn header(bytes: &[u8; HEADER]) -> Option<(u32, u32)> {
    let mut fields = Fields(bytes);
    (fields.u64()? == OPTION_MAGIC).then_some(())?;
    Some((fields.u32()?, fields.u32()?))
}

/// An option of a client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ClientOption<'a> {
    ExportName(&'a str),
    Abort,
    List,
    StartTls,
    Info(InfoQuery<'a>),
    Go(InfoQuery<'a>),
    StructuredReply,
    ListMetaContext(ContextQuery<'a>),
    SetMetaContext(ContextQuery<'a>),
    ExtendedHeaders,
    /// Not known here.
    Other,
}

/// The data of `INFO` and `GO`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InfoQuery<'a> {
    pub(crate) export: &'a str,
    wanted: &'a [u8],
}

impl InfoQuery<'_> {
    /// Whether the client asked for a kind of information.
    pub(crate) fn wants(&self, kind: u16) -> bool {
        self.wanted.as_chunks().0.contains(&kind.to_be_bytes())
    }
}

/// The data of `LIST_META_CONTEXT` and `SET_META_CONTEXT`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ContextQuery<'a> {
    pub(crate) export: &'a str,
    /// There were no queries.
    pub(crate) empty: bool,
    /// One of them is `base:allocation`.
    pub(crate) exact: bool,
    /// One of them is `base:`, which stands for all of that namespace when listing.
    pub(crate) namespace: bool,
}

/// Reads an option's data.
///
/// # Errors
/// Why it is invalid.
pub(crate) fn parse(option: u32, data: &[u8]) -> Result<ClientOption<'_>, &'static str> {
    let bare = |parsed| if data.is_empty() { Ok(parsed) } else { Err("this option has no data") };
    match option {
        EXPORT_NAME => text(data).map(ClientOption::ExportName),
        // Clients have sent data with it, and all there is to do is to go.
        ABORT => Ok(ClientOption::Abort),
        LIST => bare(ClientOption::List),
        STARTTLS => bare(ClientOption::StartTls),
        INFO => info_query(data).map(ClientOption::Info),
        GO => info_query(data).map(ClientOption::Go),
        STRUCTURED_REPLY => bare(ClientOption::StructuredReply),
        LIST_META_CONTEXT => context_query(data).map(ClientOption::ListMetaContext),
        SET_META_CONTEXT => context_query(data).map(ClientOption::SetMetaContext),
        EXTENDED_HEADERS => bare(ClientOption::ExtendedHeaders),
        _ => Ok(ClientOption::Other),
    }
}

fn info_query(data: &[u8]) -> Result<InfoQuery<'_>, &'static str> {
    let mut fields = Fields(data);
    let export = fields.string()?;
    let count = fields.u16().ok_or("the option is too short")?;
    if fields.0.len() != usize::from(count) * 2 {
        return Err("the number of information requests does not fit the option's length");
    }
    Ok(InfoQuery { export, wanted: fields.0 })
}

fn context_query(data: &[u8]) -> Result<ContextQuery<'_>, &'static str> {
    let mut fields = Fields(data);
    let export = fields.string()?;
    let count = fields.u32().ok_or("the option is too short")?;
    let mut query = ContextQuery { export, empty: count == 0, exact: false, namespace: false };
    // A wrong count runs out of data at once: there are at most a quarter as many queries as bytes.
    for _ in 0..count {
        match fields.string()? {
            BASE_ALLOCATION => query.exact = true,
            "base:" => query.namespace = true,
            _ => {}
        }
    }
    if !fields.0.is_empty() {
        return Err("the number of queries does not fit the option's length");
    }
    Ok(query)
}

/// Appends a reply to an option; its data are the parts, joined.
pub(crate) fn reply(out: &mut Vec<u8>, option: u32, answer: Answer, parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    out.extend(OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend(option.to_be_bytes());
    out.extend((answer as u32).to_be_bytes());
    out.extend((length as u32).to_be_bytes());
    for part in parts {
        out.extend(*part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn string(text: &str) -> Vec<u8> {
        [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat()
    }

    #[test]
    fn an_option_begins_with_ihaveopt() {
        assert_eq!(header(b"IHAVEOPT\0\0\0\x07\0\0\x01\x02"), Some((GO, 258)));
        assert_eq!(header(b"IHAVEOPS\0\0\0\x07\0\0\x01\x02"), None);
    }

    #[test]
    fn a_reply_is_magic_option_type_length_and_data() {
        let mut out = Vec::new();
        reply(&mut out, LIST, Answer::Unsupported, &[b"a", b"bc"]);
        assert_eq!(out, b"\x00\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x03\x80\0\0\x01\0\0\0\x03abc");
    }

    #[test]
    fn go_names_an_export_and_what_it_wants_to_know() {
        let data = [string("vol"), vec![0, 2, 0, 3, 0, 1]].concat();
        let Ok(ClientOption::Go(query)) = parse(GO, &data) else { panic!("not a GO") };
        assert_eq!(query.export, "vol");
        assert!(query.wants(info::BLOCK_SIZE) && query.wants(info::NAME) && !query.wants(info::DESCRIPTION));
        for length in 0..data.len() {
            assert!(parse(GO, &data[..length]).is_err(), "{length} bytes of it are none");
        }
        assert!(parse(GO, &[&data[..], &[0]].concat()).is_err());
    }

    #[test]
    fn a_context_query_knows_the_name_and_the_namespace() {
        let queries = |list: &[&str]| {
            let mut data = string("vol");
            data.extend((list.len() as u32).to_be_bytes());
            list.iter().for_each(|query| data.extend(string(query)));
            data
        };
        let parsed = |list: &[&str]| match parse(SET_META_CONTEXT, &queries(list)) {
            Ok(ClientOption::SetMetaContext(query)) => (query.empty, query.exact, query.namespace),
            other => panic!("{other:?}"),
        };
        assert_eq!(parsed(&[]), (true, false, false));
        assert_eq!(parsed(&["base:allocation"]), (false, true, false));
        assert_eq!(parsed(&["qemu:dirty-bitmap:x", "base:"]), (false, false, true));
        assert!(parse(SET_META_CONTEXT, &queries(&["base:"])[..14]).is_err());
    }

    #[test]
    fn options_without_data_refuse_some() {
        for option in [LIST, STARTTLS, STRUCTURED_REPLY, EXTENDED_HEADERS] {
            assert!(parse(option, b"").is_ok());
            assert!(parse(option, b"x").is_err());
        }
    }

    #[test]
    fn a_name_is_utf_8_and_at_most_4096_bytes() {
        assert!(parse(EXPORT_NAME, b"\xff").is_err());
        assert!(parse(EXPORT_NAME, &[b'a'; 4096]).is_ok());
        assert!(parse(EXPORT_NAME, &[b'a'; 4097]).is_err());
    }

    proptest! {
        #[test]
        fn any_data_is_an_option_or_an_error(option in 0u32..14, data: Vec<u8>) {
            let _ = parse(option, &data);
        }

        #[test]
        fn an_info_query_reads_back(name in "\\PC{0,40}", kinds: Vec<u16>) {
            let mut data = string(&name);
            data.extend((kinds.len() as u16).to_be_bytes());
            kinds.iter().for_each(|kind| data.extend(kind.to_be_bytes()));
            let Ok(ClientOption::Info(query)) = parse(INFO, &data) else { return Err(TestCaseError::fail("not an INFO")) };
            prop_assert_eq!(query.export, name);
            prop_assert!(kinds.iter().all(|&kind| query.wants(kind)));
        }
    }
}
