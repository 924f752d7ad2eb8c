//! Pages by HTTP. They are read by few and seldom, so one thread does it, for few connections at a time, each for a short time.

use hyper::body::{Body, Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::ready;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

/// Connections at a time; the oldest gives way to a new one.
const MOST: usize = 32;

/// How long a connection lasts, whatever it does.
const LIFE: Duration = Duration::from_secs(30);

/// How long to wait when no connection can be accepted, as for want of descriptors.
const PAUSE: Duration = Duration::from_secs(1);

/// Answers requests on a thread of its own, until the process ends. A body may come in pieces, each sent when it is there.
pub(crate) fn serve<A, B>(listener: TcpListener, answer: A) -> io::Result<()>
where
    A: Fn(&Request<Incoming>) -> Response<B> + Send + Sync + 'static,
    B: Body<Data = Bytes, Error = Infallible> + Send + 'static,
{
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let serve = move || {
        let Err(error) = runtime.block_on(accept(listener, Arc::new(answer)));
        tracing::error!("no more figures are served: {error}");
    };
    std::thread::Builder::new().name("metrics".to_owned()).spawn(serve).map(drop)
}

/// Accepts connections, and ends the oldest where there are too many.
async fn accept<A, B>(listener: TcpListener, answer: Arc<A>) -> io::Result<Infallible>
where
    A: Fn(&Request<Incoming>) -> Response<B> + Send + Sync + 'static,
    B: Body<Data = Bytes, Error = Infallible> + Send + 'static,
{
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let mut open: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                open.retain(|connection| !connection.is_finished());
                if open.len() >= MOST
                    && let Some(oldest) = open.pop_front()
                {
                    oldest.abort();
                }
                let answer = Arc::clone(&answer);
                let answered = service_fn(move |request| ready(Ok::<_, Infallible>(answer(&request))));
                // It fails by clients that leave or speak no HTTP.
                let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), answered);
                open.push_back(tokio::spawn(async { drop(timeout(LIFE, connection).await) }).abort_handle());
            }
            // The client has gone already.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                tracing::warn!("--metrics: cannot accept a connection: {error}");
                sleep(PAUSE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::Full;
    use hyper::body::Frame;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{SocketAddr, TcpStream};
    use std::pin::Pin;
    use std::sync::Mutex;
    use std::task::{Context, Poll};
    use std::time::Instant;
    use tokio::sync::mpsc;

    fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    fn connect(address: SocketAddr) -> TcpStream {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LIFE / 2)).unwrap();
        stream
    }

    #[test]
    fn a_crowd_that_asks_for_nothing_gives_way_to_who_asks() {
        let (listener, address) = listener();
        serve(listener, |_| Response::new(Full::from("figures"))).unwrap();
        let mut crowd: Vec<_> = (0..3 * MOST).map(|_| connect(address)).collect();
        let mut asking = connect(address);
        asking.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        asking.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("figures"), "{answer}");
        let begin = Instant::now();
        assert_eq!(crowd[0].read(&mut [0]).unwrap_or(0), 0, "the first of the crowd has been closed");
        assert!(begin.elapsed() < LIFE / 2, "because others came, and before its time was over");
    }

    /// Events as they are sent.
    struct Events(mpsc::UnboundedReceiver<&'static str>);

    impl Body for Events {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            self.0.poll_recv(context).map(|event| event.map(|event| Ok(Frame::data(Bytes::from(event)))))
        }
    }

    #[test]
    fn an_event_is_read_before_the_next_one_is_there() {
        let (listener, address) = listener();
        let (events, received) = mpsc::unbounded_channel();
        let received = Mutex::new(Some(Events(received)));
        serve(listener, move |_| Response::new(received.lock().unwrap().take().unwrap())).unwrap();
        let mut asking = connect(address);
        asking.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut lines = BufReader::new(asking).lines().map(Result::unwrap);
        for event in ["data: one\n", "data: two\n"] {
            events.send(event).unwrap();
            assert!(lines.any(|line| line == event.trim_end()), "{event}");
        }
    }
}
