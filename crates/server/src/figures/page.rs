//! Figures by HTTP: `/metrics` and `/statistics`.

use crate::control::Steered;
use crate::error::Error;
use crate::figures::http;
use crate::figures::metrics;
use crate::listen::hint;
use crate::words::Address;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

const TEXT: &str = "text/plain; charset=utf-8";

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
    http::serve(listener, move |request| page(&*service, request)).map_err(failed)?;
    Ok(address)
}

fn page(service: &dyn Steered, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let mut refused = answer(StatusCode::METHOD_NOT_ALLOWED, TEXT, String::new());
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET,HEAD"));
        return refused;
    }
    match request.uri().path() {
        "/" => answer(StatusCode::OK, TEXT, "forebay: /metrics for Prometheus, /statistics as JSON\n".to_owned()),
        "/metrics" => answer(StatusCode::OK, metrics::CONTENT_TYPE, metrics::text(service.report())),
        "/statistics" => match serde_json::to_string(&service.report()) {
            Ok(text) => answer(StatusCode::OK, "application/json", text),
            Err(error) => answer(StatusCode::INTERNAL_SERVER_ERROR, TEXT, error.to_string()),
        },
        _ => answer(StatusCode::NOT_FOUND, TEXT, String::new()),
    }
}

fn answer(status: StatusCode, kind: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::from(text));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}
