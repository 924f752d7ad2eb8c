//! Serves memory: `memory 512 unix:/tmp/socket`, or `memory 512 tcp:127.0.0.1:10809`; the first number is MiB. With a certificate
//! and its key as further arguments, and perhaps the authority of clients, TLS is required.
//!
//! `SPIN` (microseconds) and `RELUCTANT=1` (every request takes the way of a miss) are there to measure with.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use forebay_nbd::testing::Memory;
use forebay_nbd::{Config, Identity, Server, Tls};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(size), Some(address)) = (arguments.next(), arguments.next()) else {
        return Err("usage: memory MIB unix:PATH | tcp:ADDRESS [CERTIFICATE KEY [CLIENT_AUTHORITY]]".into());
    };
    let mut config = Config::default();
    if let (Some(certificate), Some(key)) = (arguments.next(), arguments.next()) {
        let authority = arguments.next();
        let identity = Identity::from_files(certificate.as_ref(), key.as_ref(), authority.as_deref().map(Path::new))?;
        config.tls = Tls::Required(identity);
    }
    if let Ok(spin) = std::env::var("SPIN") {
        config.spin = Duration::from_micros(spin.parse()?);
    }
    let mut memory = Memory::new("", size.parse::<usize>()? << 20);
    memory.reluctant = std::env::var_os("RELUCTANT").is_some();
    let mut server = Server::new(vec![Arc::new(memory)], config)?;
    match address.split_once(':') {
        Some(("unix", path)) => server.listen(UnixListener::bind(path)?)?,
        Some(("tcp", address)) => server.listen(TcpListener::bind(address)?)?,
        _ => return Err("an address is unix:PATH or tcp:ADDRESS".into()),
    }
    loop {
        std::thread::park();
    }
}
