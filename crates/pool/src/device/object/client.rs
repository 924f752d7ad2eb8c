//! HTTP for object storage: hyper's client of HTTP/1 with rustls, in place of the library's default, which is far longer to build.
//!
//! Connections are kept and used again, as many at a time as there are requests. What else the library can be asked for by variables
//! is heeded (times, the proxy, the agent) or refused by its name.

use bytes::Bytes;
use http::Uri;
use http::header::{HeaderValue, PROXY_AUTHORIZATION, USER_AGENT};
use http::uri::Scheme;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use object_store::client::{
    HttpClient, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse, HttpResponseBody, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};
use rustls::{ClientConfig, RootCertStore};
use std::error::Error;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use std::{fmt, io, vec};
use tokio::time::{Instant, Sleep, sleep_until, timeout, timeout_at};
use tower_service::Service;

type AnyError = Box<dyn Error + Send + Sync>;
type Later<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

/// When a silent connection is asked whether it is still there, how often, and when one is given up on which nothing is acknowledged.
const KEEPALIVE: Duration = Duration::from_secs(15);
const PROBES: u32 = 3;
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// What is not done, and what is instead.
const NOT_DONE: [(ClientConfigKey, &str); 5] = [
    (ClientConfigKey::AllowInvalidCertificates, "SSL_CERT_FILE names a file of authorities to trust"),
    (
        ClientConfigKey::NoSystemCertificates,
        "SSL_CERT_FILE names a file of authorities to trust instead of the system's",
    ),
    (ClientConfigKey::ProxyCaCertificate, "SSL_CERT_FILE names a file of authorities to trust"),
    (ClientConfigKey::ReadTimeout, "AWS_TIMEOUT limits a request as a whole"),
    (ClientConfigKey::Http2Only, "HTTP/1 is spoken"),
];

/// Makes clients.
#[derive(Debug)]
pub(super) struct Connector;

impl object_store::client::HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = Requests::new(options);
        Ok(HttpClient::new(client.map_err(|source| object_store::Error::Generic { store: "HTTP client", source })?))
    }
}

/// A client, and what every request of it has.
struct Requests {
    client: Client<Connections, HttpRequestBody>,
    proxies: Arc<Matcher>,
    agent: HeaderValue,
    /// How long a request may take, with its connection and up to the last byte of the answer.
    limit: Option<Duration>,
}

impl Requests {
    fn new(options: &ClientOptions) -> Result<Self, AnyError> {
        let given = |key| options.get_config_value(&key).filter(|value| value != "false");
        if let Some((key, instead)) = NOT_DONE.into_iter().find(|&(key, _)| given(key).is_some()) {
            return Err(format!("`{}` is not supported: {instead}", key.as_ref()).into());
        }
        let time = |key| given(key).map(|text| humantime::parse_duration(&text)).transpose();
        let limit = time(ClientConfigKey::Timeout)?;
        let connecting = time(ClientConfigKey::ConnectTimeout)?;
        let proxies = Arc::new(match given(ClientConfigKey::ProxyUrl) {
            Some(all) => {
                Matcher::builder().all(all).no(given(ClientConfigKey::ProxyExcludes).unwrap_or_default()).build()
            }
            None => Matcher::from_env(),
        });
        let connections = Connections::new(connecting, Arc::clone(&proxies))?;
        let mut client = Client::builder(TokioExecutor::new());
        client.pool_timer(TokioTimer::new());
        if let Some(time) = time(ClientConfigKey::PoolIdleTimeout)? {
            client.pool_idle_timeout(time);
        }
        if let Some(most) = given(ClientConfigKey::PoolMaxIdlePerHost) {
            client.pool_max_idle_per_host(most.parse()?);
        }
        let agent = given(ClientConfigKey::UserAgent);
        let agent = agent.as_deref().unwrap_or(concat!("forebay/", env!("CARGO_PKG_VERSION"))).parse()?;
        Ok(Self { client: client.build(connections), proxies, agent, limit })
    }
}

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requests").field("agent", &self.agent).field("limit", &self.limit).finish_non_exhaustive()
    }
}

#[async_trait::async_trait]
impl HttpService for Requests {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        request.headers_mut().entry(USER_AGENT).or_insert_with(|| self.agent.clone());
        // A tunnel says this itself.
        if request.uri().scheme() == Some(&Scheme::HTTP)
            && let Some(proxy) = self.proxies.intercept(request.uri())
            && let Some(who) = proxy.basic_auth()
        {
            request.headers_mut().insert(PROXY_AUTHORIZATION, who.clone());
        }
        let until = self.limit.map(|limit| Instant::now() + limit);
        let asked = self.client.request(request);
        let answer = match until {
            Some(until) => timeout_at(until, asked).await.map_err(|_| too_late())?,
            None => asked.await,
        };
        let answer = answer.map_err(|error| failed("error sending request", error.is_connect(), error))?;
        let over = until.map(|until| Box::pin(sleep_until(until)));
        Ok(answer.map(|body| HttpResponseBody::new(Answer { body, over })))
    }
}

/// The bytes of an answer, until it is too late.
struct Answer {
    body: Incoming,
    over: Option<Pin<Box<Sleep>>>,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(
                frame.map(|frame| frame.map_err(|error| failed("error reading the answer", false, error))),
            );
        }
        match &mut self.over {
            Some(over) => over.as_mut().poll(context).map(|()| Some(Err(too_late()))),
            None => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// What was being done when an error came, which says why.
#[derive(Debug)]
struct During(&'static str, AnyError);

impl fmt::Display for During {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Error for During {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.1)
    }
}

fn too_late() -> HttpError {
    HttpError::new(HttpErrorKind::Timeout, io::Error::new(io::ErrorKind::TimedOut, "operation timed out"))
}

/// The library repeats a request after errors of some kinds.
fn failed(doing: &'static str, connecting: bool, error: impl Error + Send + Sync + 'static) -> HttpError {
    let mut kind = if connecting { HttpErrorKind::Connect } else { HttpErrorKind::Unknown };
    let mut cause: Option<&(dyn Error + 'static)> = Some(&error);
    while let (HttpErrorKind::Unknown, Some(error)) = (kind, cause) {
        if let Some(error) = error.downcast_ref::<hyper::Error>() {
            if error.is_closed() || error.is_incomplete_message() || error.is_body_write_aborted() {
                kind = HttpErrorKind::Request;
            } else if error.is_timeout() {
                kind = HttpErrorKind::Timeout;
            }
        } else if let Some(error) = error.downcast_ref::<io::Error>() {
            kind = match error.kind() {
                io::ErrorKind::TimedOut => HttpErrorKind::Timeout,
                io::ErrorKind::ConnectionAborted
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::UnexpectedEof => HttpErrorKind::Interrupted,
                _ => kind,
            };
        }
        cause = error.source();
    }
    HttpError::new(kind, During(doing, error.into()))
}

/// Makes connections: to the server, or to a proxy in front of it.
#[derive(Clone)]
struct Connections {
    direct: HttpsConnector<HttpConnector<AnyOf>>,
    tls: Arc<ClientConfig>,
    proxies: Arc<Matcher>,
    /// How long one may take, with its encryption.
    limit: Option<Duration>,
}

impl Connections {
    fn new(limit: Option<Duration>, proxies: Arc<Matcher>) -> Result<Self, AnyError> {
        let mut authorities = RootCertStore::empty();
        // Without any, connections that are not encrypted are made all the same.
        authorities.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let tls = Arc::new(tls.with_root_certificates(authorities).with_no_client_auth());
        let mut tcp = HttpConnector::new_with_resolver(AnyOf);
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(KEEPALIVE));
        tcp.set_keepalive_interval(Some(KEEPALIVE));
        tcp.set_keepalive_retries(Some(PROBES));
        tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
        tcp.set_connect_timeout(limit);
        Ok(Self { direct: HttpsConnector::from((tcp, Arc::clone(&tls))), tls, proxies, limit })
    }

    async fn make(mut self, to: Uri) -> Result<Link, AnyError> {
        let by_tls = to.scheme() == Some(&Scheme::HTTPS);
        let Some(proxy) = self.proxies.intercept(&to) else {
            return Ok(Link { stream: Box::new(self.direct.call(to).await?), proxied: false });
        };
        if !by_tls {
            return Ok(Link { stream: Box::new(self.direct.call(proxy.uri().clone()).await?), proxied: true });
        }
        let mut tunnel = Tunnel::new(proxy.uri().clone(), self.direct);
        if let Some(who) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(who.clone());
        }
        Ok(Link { stream: Box::new(HttpsConnector::from((tunnel, self.tls)).call(to).await?), proxied: false })
    }
}

impl Service<Uri> for Connections {
    type Response = Link;
    type Error = AnyError;
    type Future = Later<Link, AnyError>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), AnyError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let (limit, made) = (self.limit, self.clone().make(to));
        Box::pin(async move {
            match limit {
                Some(limit) => timeout(limit, made).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?,
                None => made.await,
            }
        })
    }
}

/// A connection's bytes.
trait Stream: Read + Write + Connection + Send + Unpin {}

impl<T: Read + Write + Connection + Send + Unpin> Stream for T {}

/// A connection.
struct Link {
    stream: Box<dyn Stream>,
    /// Whether a proxy reads the requests, which must name the server then.
    proxied: bool,
}

impl Connection for Link {
    fn connected(&self) -> Connected {
        self.stream.connected().proxy(self.proxied)
    }
}

impl Read for Link {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream).poll_read(context, buffer)
    }
}

impl Write for Link {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.stream).poll_write_vectored(context, buffers)
    }
}

/// A name's addresses from any of them on: connections spread over the servers of a name.
#[derive(Clone)]
struct AnyOf;

impl Service<Name> for AnyOf {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Later<Self::Response, io::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let found = GaiResolver::new().call(name);
        Box::pin(async move {
            let mut addresses: Vec<SocketAddr> = found.await?.collect();
            let any = RandomState::new().build_hasher().finish() as usize;
            let from = any % addresses.len().max(1);
            addresses.rotate_left(from);
            Ok(addresses.into_iter())
        })
    }
}
