//! Figures by HTTP: `/metrics` and `/statistics`. They are read by few and seldom, so one thread does it.

use crate::error::Error;
use crate::metrics;
use crate::service::Service;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use tokio::runtime::Builder;

/// Serves figures until the process ends; returns where.
pub(crate) fn start(service: &Arc<Service>, address: SocketAddr) -> Result<SocketAddr, Error> {
    let failed = |error: std::io::Error| Error::Failed(format!("--metrics {address}: {error}"));
    let listener = TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let pages = axum::Router::new()
        .route("/", get("forebay serve: /metrics for Prometheus, /statistics as JSON\n"))
        .route("/metrics", get(metrics_page))
        .route("/statistics", get(statistics_page))
        .with_state(Arc::clone(service));
    let runtime = Builder::new_current_thread().enable_io().build().map_err(failed)?;
    let serve = move || {
        let served = runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            axum::serve(listener, pages).await
        });
        if let Err(error) = served {
            tracing::error!("no more figures are served: {error}");
        }
    };
    std::thread::Builder::new().name("metrics".to_owned()).spawn(serve).map_err(failed)?;
    Ok(address)
}

async fn metrics_page(State(service): State<Arc<Service>>) -> impl IntoResponse {
    ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], metrics::text(service.report()))
}

async fn statistics_page(State(service): State<Arc<Service>>) -> impl IntoResponse {
    match serde_json::to_string(&service.report()) {
        Ok(text) => (StatusCode::OK, [(CONTENT_TYPE, "application/json")], text),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, [(CONTENT_TYPE, "text/plain")], error.to_string()),
    }
}
