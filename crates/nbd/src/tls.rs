//! Certificates and when encryption is required.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};

use crate::Error;

/// Whether clients may or must encrypt.
#[derive(Clone, Debug, Default)]
pub enum Tls {
    /// STARTTLS is refused.
    #[default]
    Off,
    /// A client chooses. Someone between it and the server can make the choice for it.
    Allowed(Identity),
    /// Nothing is told to a client before STARTTLS.
    Required(Identity),
}

/// A server's certificate, and whose certificates it accepts.
#[derive(Clone)]
pub struct Identity(Arc<ServerConfig>);

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity")
    }
}

impl Identity {
    /// Reads a chain of certificates and its key from PEM files. With `client_ca`, only clients that show a certificate signed
    /// by one of its authorities are let in.
    ///
    /// # Errors
    /// A file that cannot be read, or does not hold what it should.
    pub fn from_files(certificate: &Path, key: &Path, client_ca: Option<&Path>) -> Result<Self, Error> {
        let chain = certificates(certificate)?;
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| refuse(key, error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| refuse(certificate, error))?;
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for authority in certificates(path)? {
                    roots.add(authority).map_err(|error| refuse(path, error))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|error| refuse(path, error))?)
            }
        };
        let config = builder.with_single_cert(chain, private).map_err(|error| refuse(certificate, error))?;
        Ok(Self(Arc::new(config)))
    }

    /// A new connection's side of TLS.
    pub(crate) fn connect(&self) -> Result<ServerConnection, rustls::Error> {
        ServerConnection::new(Arc::clone(&self.0))
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).map_err(|error| refuse(path, error))?.collect();
    match found {
        Ok(found) if found.is_empty() => {
            Err(refuse(path, "no certificate in it: a PEM file of certificates is wanted"))
        }
        Ok(found) => Ok(found),
        Err(error) => Err(refuse(path, error)),
    }
}

fn refuse(path: &Path, reason: impl fmt::Display) -> Error {
    Error::Tls { path: path.into(), reason: reason.to_string() }
}
