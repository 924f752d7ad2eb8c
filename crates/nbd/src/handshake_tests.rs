use super::*;
use crate::testing::Memory;
use crate::wire::option::{
    ABORT, EXTENDED_HEADERS, GO, INFO, LIST, LIST_META_CONTEXT, SET_META_CONTEXT, STRUCTURED_REPLY,
};
use proptest::prelude::*;

fn volumes(names: &[&str]) -> Volumes {
    let volume = |name: &&str| {
        let memory = Memory::new(name, 1 << 20);
        ((*name).to_owned(), Arc::new(Volume::new(Arc::new(memory), Arc::default(), 1)))
    };
    names.iter().map(volume).collect()
}

fn negotiation(volumes: &Volumes, encryption: Encryption) -> Negotiation {
    let volumes = Arc::new(volumes.clone());
    Negotiation { volumes, request_bytes: 1 << 20, encryption, no_zeroes: true, form: Form::Simple, allocation: None }
}

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat()
}

fn info_query(name: &str, kinds: &[u16]) -> Vec<u8> {
    let mut data = string(name);
    data.extend((kinds.len() as u16).to_be_bytes());
    kinds.iter().for_each(|kind| data.extend(kind.to_be_bytes()));
    data
}

fn context_query(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = string(name);
    data.extend((queries.len() as u32).to_be_bytes());
    queries.iter().for_each(|query| data.extend(string(query)));
    data
}

/// The replies to an option as (type, data), after a check of what is common to all.
fn ask(negotiation: &mut Negotiation, option: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let mut out = Vec::new();
    negotiation.answer(option, data, false, &mut out).expect("this option has replies");
    let mut rest = &out[..];
    let mut replies = Vec::new();
    while !rest.is_empty() {
        assert_eq!(rest[..8], [0, 3, 0xe8, 0x89, 4, 0x55, 0x65, 0xa9]);
        assert_eq!(rest[8..12], option.to_be_bytes());
        let number = |at: usize| u32::from_be_bytes([rest[at], rest[at + 1], rest[at + 2], rest[at + 3]]);
        let (kind, length) = (number(12), number(16) as usize);
        replies.push((kind, rest[20..20 + length].to_vec()));
        rest = &rest[20 + length..];
    }
    replies
}

/// The type of the one reply.
fn answer(negotiation: &mut Negotiation, option: u32, data: &[u8]) -> u32 {
    match ask(negotiation, option, data).as_slice() {
        [(kind, _)] => *kind,
        replies => panic!("{} replies", replies.len()),
    }
}

const ACK: u32 = 1;
const ERR_UNSUP: u32 = 0x8000_0001;
const ERR_POLICY: u32 = 0x8000_0002;
const ERR_INVALID: u32 = 0x8000_0003;
const ERR_TLS_REQD: u32 = 0x8000_0005;
const ERR_UNKNOWN: u32 = 0x8000_0006;
const ERR_SHUTDOWN: u32 = 0x8000_0007;
const ERR_BLOCK_SIZE_REQD: u32 = 0x8000_0008;
const ERR_TOO_BIG: u32 = 0x8000_0009;
const ERR_EXT_HEADER_REQD: u32 = 0x8000_000a;

#[test]
fn list_tells_each_export_with_its_description_in_order() {
    let volumes = volumes(&["b", "a"]);
    let replies = ask(&mut negotiation(&volumes, Encryption::Off), LIST, &[]);
    let entry = |name: &str| (2, [&string(name)[..], b"memory"].concat());
    assert_eq!(replies, [entry("a"), entry("b"), (ACK, Vec::new())]);
    assert_eq!(answer(&mut negotiation(&volumes, Encryption::Off), LIST, b"x"), ERR_INVALID);
}

#[test]
fn info_tells_size_and_flags_what_was_asked_for_and_block_sizes_always() {
    let volumes = volumes(&["a"]);
    let export = (3, b"\0\0\0\0\0\0\0\x10\0\0\x0d\x6d".to_vec());
    let sizes = (3, b"\0\x03\0\0\0\x01\0\0\x10\0\0\x10\0\0".to_vec());
    let ack = (ACK, Vec::new());
    let bare = ask(&mut negotiation(&volumes, Encryption::Off), INFO, &info_query("a", &[]));
    assert_eq!(bare, [export.clone(), sizes.clone(), ack.clone()]);
    let all = ask(&mut negotiation(&volumes, Encryption::Off), GO, &info_query("a", &[1, 2, 77]));
    assert_eq!(all, [export, (3, b"\0\x01a".to_vec()), (3, b"\0\x02memory".to_vec()), sizes, ack]);
}

#[test]
fn the_empty_name_is_the_only_export() {
    let one = volumes(&["a"]);
    assert_eq!(ask(&mut negotiation(&one, Encryption::Off), GO, &info_query("", &[])).len(), 3);
    let two = volumes(&["a", "b"]);
    assert_eq!(answer(&mut negotiation(&two, Encryption::Off), GO, &info_query("", &[])), ERR_UNKNOWN);
    assert_eq!(answer(&mut negotiation(&one, Encryption::Off), INFO, &info_query("c", &[])), ERR_UNKNOWN);
}

#[test]
fn export_name_gets_size_flags_and_124_zeroes_unless_they_are_left_out() {
    let volumes = volumes(&["a"]);
    let mut out = Vec::new();
    let next = negotiation(&volumes, Encryption::Off).answer(EXPORT_NAME, b"a", false, &mut out);
    assert!(matches!(next, Ok(Next::Transmission(_))));
    assert_eq!(out, b"\0\0\0\0\0\x10\0\0\x0d\x6d");
    let mut padded = Vec::new();
    let mut old = Negotiation { no_zeroes: false, ..negotiation(&volumes, Encryption::Off) };
    assert!(old.answer(EXPORT_NAME, b"a", false, &mut padded).is_ok());
    assert_eq!(padded, [&out[..], &[0; 124]].concat());
    let unknown = negotiation(&volumes, Encryption::Off).answer(EXPORT_NAME, b"c", false, &mut out);
    assert!(matches!(unknown, Err(Close::Refused(_))));
}

#[test]
fn abort_is_acknowledged_and_unknown_options_are_unsupported() {
    let volumes = volumes(&["a"]);
    let mut out = Vec::new();
    assert!(matches!(negotiation(&volumes, Encryption::Off).answer(ABORT, b"", true, &mut out), Ok(Next::End)));
    assert_eq!(out[12..], [0, 0, 0, 1, 0, 0, 0, 0]);
    for option in [0, 4, 12, u32::MAX] {
        assert_eq!(answer(&mut negotiation(&volumes, Encryption::Off), option, b"any"), ERR_UNSUP, "{option}");
    }
    negotiation(&volumes, Encryption::Off).too_big(LIST, &mut out).expect("it has a reply");
    assert_eq!(out[20 + 12..20 + 16], ERR_TOO_BIG.to_be_bytes());
}

#[test]
fn extended_headers_stand_for_structured_replies_and_need_go() {
    let volumes = volumes(&["a"]);
    let mut talk = negotiation(&volumes, Encryption::Off);
    assert_eq!(answer(&mut talk, EXTENDED_HEADERS, b"x"), ERR_INVALID);
    assert_eq!(answer(&mut talk, EXTENDED_HEADERS, b""), ACK);
    assert_eq!(answer(&mut talk, EXTENDED_HEADERS, b""), ERR_INVALID);
    assert_eq!(answer(&mut talk, STRUCTURED_REPLY, b""), ERR_EXT_HEADER_REQD);
    let context = context_query("a", &["base:allocation"]);
    assert_eq!(ask(&mut talk, SET_META_CONTEXT, &context).last(), Some(&(ACK, Vec::new())));
    assert_eq!(talk.terms(&volumes["a"]).form, Form::Extended);
    let export_name = talk.answer(EXPORT_NAME, b"a", false, &mut Vec::new());
    assert!(matches!(export_name, Err(Close::Malformed(_))), "{export_name:?}");
    assert!(matches!(talk.answer(GO, &info_query("a", &[]), false, &mut Vec::new()), Ok(Next::Transmission(_))));
}

#[test]
fn contexts_need_structured_replies_and_selecting_takes_no_wildcards() {
    let volumes = volumes(&["a", "b"]);
    let mut talk = negotiation(&volumes, Encryption::Off);
    let query = context_query("a", &["base:allocation"]);
    assert_eq!(answer(&mut talk, LIST_META_CONTEXT, &query), ERR_INVALID);
    assert_eq!(answer(&mut talk, SET_META_CONTEXT, &query), ERR_INVALID);
    assert_eq!(answer(&mut talk, STRUCTURED_REPLY, b""), ACK);
    let listed = [(4, b"\0\0\0\0base:allocation".to_vec()), (ACK, Vec::new())];
    for queries in [&[][..], &["base:"], &["base:allocation"], &["x:y", "base:"]] {
        assert_eq!(ask(&mut talk, LIST_META_CONTEXT, &context_query("a", queries)), listed, "{queries:?}");
    }
    assert_eq!(answer(&mut talk, LIST_META_CONTEXT, &context_query("a", &["x:"])), ACK);
    let selected = [(4, b"\0\0\0\x01base:allocation".to_vec()), (ACK, Vec::new())];
    assert_eq!(ask(&mut talk, SET_META_CONTEXT, &query), selected);
    assert!(talk.terms(&volumes["a"]).allocation);
    assert!(!talk.terms(&volumes["b"]).allocation, "it was selected for another export");
    for queries in [&[][..], &["base:"], &["x:y"]] {
        assert_eq!(ask(&mut talk, SET_META_CONTEXT, &query), selected);
        assert_eq!(answer(&mut talk, SET_META_CONTEXT, &context_query("a", queries)), ACK);
        assert!(!talk.terms(&volumes["a"]).allocation, "{queries:?} replace what was selected");
    }
    assert_eq!(answer(&mut talk, SET_META_CONTEXT, &context_query("c", &[])), ERR_UNKNOWN);
}

#[test]
fn before_required_tls_nothing_is_told() {
    let volumes = volumes(&["a"]);
    let mut talk = negotiation(&volumes, Encryption::Required);
    for option in [LIST, INFO, GO, STRUCTURED_REPLY, LIST_META_CONTEXT, SET_META_CONTEXT, 99] {
        assert_eq!(answer(&mut talk, option, &info_query("a", &[])), ERR_TLS_REQD, "{option}");
    }
    assert!(matches!(talk.answer(EXPORT_NAME, b"a", false, &mut Vec::new()), Err(Close::Refused(_))));
    assert!(matches!(talk.answer(STARTTLS, b"", false, &mut Vec::new()), Ok(Next::StartTls)));
    assert_eq!(answer(&mut talk, STARTTLS, b""), ERR_INVALID, "it is in use");
    assert_eq!(ask(&mut talk, LIST, b"").len(), 2);
    assert_eq!(answer(&mut negotiation(&volumes, Encryption::Off), STARTTLS, b""), ERR_POLICY);
}

#[test]
fn starttls_forgets_what_was_agreed_in_the_clear() {
    let volumes = volumes(&["a"]);
    let mut talk = negotiation(&volumes, Encryption::Allowed);
    ask(&mut talk, STRUCTURED_REPLY, b"");
    ask(&mut talk, SET_META_CONTEXT, &context_query("a", &["base:allocation"]));
    assert_eq!(talk.terms(&volumes["a"]).form, Form::Structured);
    ask(&mut talk, STARTTLS, b"");
    let terms = talk.terms(&volumes["a"]);
    assert!(terms.form == Form::Simple && !terms.allocation);
}

#[test]
fn a_server_that_stops_says_so() {
    let volumes = volumes(&["a"]);
    let mut out = Vec::new();
    let mut talk = negotiation(&volumes, Encryption::Off);
    assert!(talk.answer(LIST, b"", true, &mut out).is_ok());
    assert_eq!(out[12..16], ERR_SHUTDOWN.to_be_bytes());
    assert!(matches!(talk.answer(EXPORT_NAME, b"a", true, &mut out), Err(Close::Stopping)));
}

#[test]
fn an_export_of_large_units_wants_a_client_that_asks() {
    let mut memory = Memory::new("a", 1 << 20);
    memory.limits = Limits { minimum: 4096, preferred: 4096, maximum: (2 << 20) - 1 };
    let volumes = Volumes::from([("a".into(), Arc::new(Volume::new(Arc::new(memory), Arc::default(), 1)))]);
    let mut talk = negotiation(&volumes, Encryption::Off);
    talk.request_bytes = (1 << 20) + 1;
    assert_eq!(answer(&mut talk, GO, &info_query("a", &[])), ERR_BLOCK_SIZE_REQD);
    assert!(matches!(talk.answer(EXPORT_NAME, b"a", false, &mut Vec::new()), Err(Close::Refused(_))));
    let replies = ask(&mut talk, GO, &info_query("a", &[3]));
    assert_eq!(replies[1].1, b"\0\x03\0\0\x10\0\0\0\x10\0\0\x10\0\0", "the server's limit, in whole units");
}

proptest! {
    #[test]
    fn any_options_are_answered_or_end_the_handshake(options in prop::collection::vec((0u32..13, prop::collection::vec(any::<u8>(), 0..40)), 0..20)) {
        let volumes = volumes(&["a"]);
        let mut talk = negotiation(&volumes, Encryption::Allowed);
        for (option, data) in options {
            let mut out = Vec::new();
            match talk.answer(option, &data, false, &mut out) {
                Ok(_) => prop_assert!(out.len() >= 10),
                Err(close) => prop_assert!(option == EXPORT_NAME && !close.to_string().is_empty()),
            }
        }
    }
}
