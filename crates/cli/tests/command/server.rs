//! A running `forebay serve`, and a client that speaks just enough of its protocol.

use crate::running::{PATIENCE, Running};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A server in a folder of its own, with a socket and what it has logged.
pub(crate) struct Server {
    process: Running,
    pub(crate) socket: PathBuf,
}

impl Server {
    /// Starts a server that listens on `folder/socket`, and waits until it does.
    #[track_caller]
    pub(crate) fn start(folder: &Path, arguments: &[&str]) -> Self {
        Self::start_by(Command::new(env!("CARGO_BIN_EXE_forebay")), folder, arguments)
    }

    /// The same by a command that runs forebay.
    #[track_caller]
    pub(crate) fn start_by(mut command: Command, folder: &Path, arguments: &[&str]) -> Self {
        let socket = folder.join("socket");
        command.arg("serve").args(arguments).arg("--listen").arg(format!("unix:{}", socket.display()));
        let mut server = Self { process: Running::start(&mut command), socket };
        server.wait_for("listening on unix:");
        server
    }

    /// Waits until one more line is logged that has this text, and returns it.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        self.process.wait_for(text)
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.process.child.id()
    }

    pub(crate) fn signal(&self, signal: &str) {
        self.process.signal(signal);
    }

    /// Waits for its end: the exit code, and what it has logged.
    #[track_caller]
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let code = self.process.end();
        (code, std::mem::take(&mut self.process.log))
    }

    /// Ends it by SIGTERM, which must succeed.
    #[track_caller]
    pub(crate) fn stop(self) -> String {
        self.signal("TERM");
        let (code, log) = self.end();
        assert_eq!(code, Some(0), "{log}");
        log
    }

    #[track_caller]
    pub(crate) fn client(&self, volume: &str) -> Client {
        self.try_client(volume).expect("there is such a volume")
    }

    /// A client of a volume; none if the server has none of that name.
    #[track_caller]
    pub(crate) fn try_client(&self, volume: &str) -> Option<Client> {
        let stream = UnixStream::connect(&self.socket).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Client::shake(stream, volume)
    }

    /// What the server of figures answers, by the address it has logged.
    #[track_caller]
    pub(crate) fn figures_at(&mut self) -> String {
        self.process.figures_at()
    }
}

/// A page by HTTP: head and body.
pub(crate) fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the server of figures listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// A client by the oldest of the newstyle ways: EXPORT_NAME and simple replies.
pub(crate) struct Client(UnixStream);

impl Client {
    /// A client of a volume; none if the server has none of that name.
    #[track_caller]
    pub(crate) fn shake(stream: UnixStream, volume: &str) -> Option<Self> {
        Self::try_shake(stream, volume).expect("a greeting")
    }

    /// The same; none if the server closes the connection at once.
    pub(crate) fn try_shake(mut stream: UnixStream, volume: &str) -> Option<Option<Self>> {
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).ok()?;
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        let mut hello = 3_u32.to_be_bytes().to_vec();
        hello.extend(b"IHAVEOPT");
        hello.extend(1_u32.to_be_bytes());
        hello.extend((volume.len() as u32).to_be_bytes());
        hello.extend(volume.as_bytes());
        stream.write_all(&hello).expect("it is sent");
        let mut export = [0; 10];
        Some(stream.read_exact(&mut export).ok().map(|()| Self(stream)))
    }

    fn ask(&mut self, command: u16, offset: u64, length: u32, data: &[u8]) -> u32 {
        self.try_ask(command, offset, length, data).expect("a reply")
    }

    /// The error's number, 0 for none; nothing if the server has closed the connection.
    fn try_ask(&mut self, command: u16, offset: u64, length: u32, data: &[u8]) -> Option<u32> {
        let mut request = 0x2560_9513_u32.to_be_bytes().to_vec();
        request.extend(0_u16.to_be_bytes());
        request.extend(command.to_be_bytes());
        request.extend([0; 8]);
        request.extend(offset.to_be_bytes());
        request.extend(length.to_be_bytes());
        request.extend(data);
        self.0.write_all(&request).ok()?;
        let mut reply = [0; 16];
        self.0.read_exact(&mut reply).ok()?;
        Some(u32::from_be_bytes(reply[4..8].try_into().expect("four bytes")))
    }

    /// The bytes; nothing if the server closes the connection.
    pub(crate) fn try_read(&mut self, offset: u64, length: u32) -> Option<Vec<u8>> {
        let mut data = vec![0; length as usize];
        let answered = self.try_ask(0, offset, length, &[])? == 0;
        (answered && self.0.read_exact(&mut data).is_ok()).then_some(data)
    }

    pub(crate) fn read(&mut self, offset: u64, length: u32) -> Vec<u8> {
        assert_eq!(self.ask(0, offset, length, &[]), 0, "the read succeeds");
        let mut data = vec![0; length as usize];
        self.0.read_exact(&mut data).expect("the data");
        data
    }

    /// The error's number, 0 for none; nothing if the server has closed the connection.
    pub(crate) fn try_write(&mut self, offset: u64, data: &[u8]) -> Option<u32> {
        self.try_ask(1, offset, data.len() as u32, data)
    }

    /// The error's number, 0 for none.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) -> u32 {
        self.ask(1, offset, data.len() as u32, data)
    }

    /// The error's number, 0 for none.
    pub(crate) fn flush(&mut self) -> u32 {
        self.ask(3, 0, 0, &[])
    }
}
