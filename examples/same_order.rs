//! A manager of a program's own, for a process that reads a file again and again in the same order, as cscope reads its database. It learns the
//! order in which blocks are used, and gives up those that are needed last: the ones used most recently.
//!
//!     rustc --edition 2024 -O examples/same_order.rs       # the standard library alone
//!     forebay mount src /mnt/src --policy lru-sp --cache 64MiB --manager-socket /run/forebay/manager
//!     cd /mnt/src && cscope -d                             # in another terminal
//!     ./same_order /run/forebay/manager $(pidof cscope) /mnt/src/cscope.out
//!
//! It ends when the process does. docs/own-managers.md explains the messages.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

const VERSION: u32 = 1;
const REGISTER: u32 = 1;
const ADD: u32 = 2;
const GIVE_UP: u32 = 3;
const TAKE_BACK: u32 = 4;
const READY: u32 = 101;
const FILE: u32 = 102;
const ADMITTED: u32 = 103;
const HIT: u32 = 105;
const EVICTED: u32 = 106;
const LOST: u32 = 108;
const REFUSED: u32 = 109;

struct Message {
    kind: u32,
    file: u32,
    first: u64,
    count: u64,
}

impl Message {
    fn send(&self, mut to: impl Write) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(24);
        bytes.extend(self.kind.to_ne_bytes());
        bytes.extend(self.file.to_ne_bytes());
        bytes.extend(self.first.to_ne_bytes());
        bytes.extend(self.count.to_ne_bytes());
        to.write_all(&bytes)
    }

    fn receive(mut from: impl Read) -> io::Result<Self> {
        let mut bytes = [0; 24];
        from.read_exact(&mut bytes)?;
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let long = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        Ok(Self { kind: word(0), file: word(4), first: long(8), count: long(16) })
    }
}

/// The resident blocks that have been used, in the order of their last uses.
struct Order {
    /// By block: the ones used before and after it. Behind the last block is the ring's head.
    links: Vec<(usize, usize)>,
    resident: Vec<bool>,
    count: usize,
}

impl Order {
    fn new(blocks: usize) -> Self {
        Self { links: vec![(blocks, blocks); blocks + 1], resident: vec![false; blocks], count: 0 }
    }

    fn evict(&mut self, block: usize) {
        if std::mem::take(&mut self.resident[block]) {
            let (before, after) = self.links[block];
            self.links[before].1 = after;
            self.links[after].0 = before;
            self.count -= 1;
        }
    }

    fn use_now(&mut self, block: usize) {
        self.evict(block);
        let head = self.resident.len();
        let last = self.links[head].0;
        self.links[block] = (last, head);
        self.links[last].1 = block;
        self.links[head].0 = block;
        self.resident[block] = true;
        self.count += 1;
    }

    /// The blocks, from the one used last.
    fn latest(&self) -> impl Iterator<Item = usize> {
        let head = self.resident.len();
        std::iter::successors(Some(self.links[head].0), |&block| Some(self.links[block].0))
            .take_while(move |&block| block < head)
    }
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, socket, process, path] = &arguments[..] else {
        eprintln!("usage: same_order SOCKET PROCESS FILE");
        std::process::exit(2);
    };
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, what.to_owned());
    let process: u64 = process.parse().map_err(|_| wrong("PROCESS is a number"))?;
    // As long as it is open, the cache knows it by this descriptor.
    let file = File::open(path)?;
    let stream = UnixStream::connect(socket)?;
    Message { kind: REGISTER, file: VERSION, first: process, count: 0 }.send(&stream)?;
    Message { kind: ADD, file: 0, first: file.as_raw_fd() as u64, count: 0 }.send(&stream)?;
    let mut incoming = BufReader::new(&stream);
    let (mut order, mut pages, mut begun, mut news) = (Order::new(0), 0, false, 0);
    loop {
        // The cache ends the connection when the process has ended.
        let Ok(message) = Message::receive(&mut incoming) else { return Ok(()) };
        let end = message.first.saturating_add(message.count).min(order.resident.len() as u64);
        let blocks = message.first as usize..end as usize;
        match message.kind {
            READY => pages = message.count as usize,
            FILE => {
                order = Order::new(message.first as usize);
                println!("ready");
            }
            ADMITTED | HIT => blocks.for_each(|block| order.use_now(block)),
            EVICTED => {
                blocks.for_each(|block| order.evict(block));
                begun = true;
            }
            // What it believes of the list may be wrong now: it learns anew.
            LOST => order = Order::new(order.resident.len()),
            REFUSED => return Err(wrong(&format!("message {} is refused for reason {}", message.first, message.file))),
            _ => {}
        }
        news += message.count as usize;
        // A list made before the cache is full would hold blocks that are not the last ones any more; so would one that is never made anew.
        let most = (pages / 8).clamp(16, 1024);
        if (!begun && order.count + most < pages) || news < most / 4 || !incoming.buffer().is_empty() {
            continue;
        }
        news = 0;
        let mut list = Vec::new();
        Message { kind: TAKE_BACK, file: 0, first: 0, count: 0 }.send(&mut list)?;
        for block in order.latest().take(most) {
            Message { kind: GIVE_UP, file: 0, first: block as u64, count: 1 }.send(&mut list)?;
        }
        if (&stream).write_all(&list).is_err() {
            return Ok(());
        }
    }
}
