//! Figures by HTTP: `/metrics` and `/statistics`. They are read by few and seldom, so one thread does it, for few connections at a
//! time, each for a short time.

use crate::commands::Steered;
use crate::error::Error;
use crate::listen::hint;
use crate::metrics;
use crate::words::Address;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::serve::Listener;
use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::time::Sleep;

/// Connections at a time; the oldest gives way to a new one.
const MOST: usize = 32;

/// How long a connection lasts, whatever it does.
const LIFE: Duration = Duration::from_secs(30);

/// How long to wait when no connection can be accepted, as for want of descriptors.
const PAUSE: Duration = Duration::from_secs(1);

/// Takes the address for figures.
pub(crate) fn bind(address: &Address) -> Result<TcpListener, Error> {
    let Address(address) = address;
    let listener = TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    listener.map_err(|error| Error::Failed(format!("--metrics {address}: {error}{}", hint(&error))))
}

/// Serves figures until the process ends; returns where.
pub(crate) fn start(service: Arc<dyn Steered>, listener: TcpListener) -> Result<SocketAddr, Error> {
    let failed = |error: io::Error| Error::Failed(format!("--metrics: {error}"));
    let address = listener.local_addr().map_err(failed)?;
    let pages = axum::Router::new()
        .route("/", get("forebay: /metrics for Prometheus, /statistics as JSON\n"))
        .route("/metrics", get(metrics_page))
        .route("/statistics", get(statistics_page))
        .with_state(service);
    serve(listener, pages).map_err(failed)?;
    Ok(address)
}

/// Serves pages on a thread of its own.
fn serve(listener: TcpListener, pages: axum::Router) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let serve = move || {
        let served = runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            axum::serve(Few { listener, open: VecDeque::new() }, pages).await
        });
        if let Err(error) = served {
            tracing::error!("no more figures are served: {error}");
        }
    };
    std::thread::Builder::new().name("metrics".to_owned()).spawn(serve).map(drop)
}

/// Accepts connections, and ends the oldest where there are too many.
struct Few {
    listener: tokio::net::TcpListener,
    /// Dropped, each ends its connection.
    open: VecDeque<oneshot::Sender<()>>,
}

impl Listener for Few {
    type Io = Bounded;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Bounded, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    self.open.retain(|place| !place.is_closed());
                    if self.open.len() >= MOST {
                        self.open.pop_front();
                    }
                    let (place, ended) = oneshot::channel();
                    self.open.push_back(place);
                    return (Bounded { stream, ended, over: Box::pin(tokio::time::sleep(LIFE)) }, peer);
                }
                // The client has gone already.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    tracing::warn!("--metrics: cannot accept a connection: {error}");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that ends with its time, or when its place is taken.
struct Bounded {
    stream: TcpStream,
    ended: oneshot::Receiver<()>,
    over: Pin<Box<Sleep>>,
}

impl Bounded {
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let ended = Pin::new(&mut self.ended).poll(context).is_ready();
        if ended || self.over.as_mut().poll(context).is_ready() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }
}

impl AsyncRead for Bounded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Bounded {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

async fn metrics_page(State(service): State<Arc<dyn Steered>>) -> impl IntoResponse {
    ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], metrics::text(service.report()))
}

async fn statistics_page(State(service): State<Arc<dyn Steered>>) -> impl IntoResponse {
    match serde_json::to_string(&service.report()) {
        Ok(text) => (StatusCode::OK, [(CONTENT_TYPE, "application/json")], text),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, [(CONTENT_TYPE, "text/plain")], error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::time::Instant;

    #[test]
    fn a_crowd_that_asks_for_nothing_gives_way_to_who_asks() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        serve(listener, axum::Router::new().route("/", get("figures"))).unwrap();
        let connect = || {
            let stream = std::net::TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(LIFE / 2)).unwrap();
            stream
        };
        let mut crowd: Vec<_> = (0..3 * MOST).map(|_| connect()).collect();
        let mut asking = connect();
        asking.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        asking.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("figures"), "{answer}");
        let begin = Instant::now();
        assert_eq!(crowd[0].read(&mut [0]).unwrap_or(0), 0, "the first of the crowd has been closed");
        assert!(begin.elapsed() < LIFE / 2, "because others came, and before its time was over");
    }
}
