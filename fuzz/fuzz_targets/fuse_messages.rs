//! A message of the kernel to a mount: any operation, and any bytes behind a header that says how many there are.
#![no_main]

use forebay_fuse::read_message;

/// Bytes of a header, of which the first four are the length and the next four the operation.
const HEADER: usize = 40;

libfuzzer_sys::fuzz_target!(|input: (u8, &[u8])| {
    let (operation, rest) = input;
    let mut message = vec![0; HEADER];
    message.extend_from_slice(rest);
    let length = message.len() as u32;
    message[..4].copy_from_slice(&length.to_ne_bytes());
    message[4..8].copy_from_slice(&u32::from(operation).to_ne_bytes());
    read_message(&message);
    // Any bytes as a whole message, too.
    read_message(rest);
});
