//! TLS, and the certificates to trust.

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, RootCertStore};
use std::path::PathBuf;
use std::sync::Arc;

/// The certificates to trust.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Trust {
    /// Those trusted by the system.
    #[default]
    System,
    /// Those signed by a certificate of this PEM file.
    File(PathBuf),
    /// Any certificate. For test servers with self-signed ones.
    Anything,
}

/// The reason why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The system's certificates are unavailable.
    #[error(
        "the system has no certificates to check the server's against: {0}. Install ca-certificates, or give --ca FILE"
    )]
    System(String),
    /// The file cannot be read or contains no certificate.
    #[error(
        "cannot take certificates from {path}: {cause}. It has to be a PEM file with at least one certificate"
    )]
    File {
        /// The file.
        path: PathBuf,
        /// The problem with it.
        cause: String,
    },
    /// The TLS library refused the settings.
    #[error("cannot set up TLS: {0}")]
    Setup(#[from] rustls::Error),
}

/// Creates the client's TLS settings.
///
/// # Errors
/// See [`TrustError`].
pub(crate) fn client_config(trust: &Trust) -> Result<Arc<ClientConfig>, TrustError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let config = match trust {
        Trust::System => builder.with_root_certificates(system_roots()?).with_no_client_auth(),
        Trust::File(path) => builder.with_root_certificates(roots_of(path)?).with_no_client_auth(),
        Trust::Anything => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(BelieveAnything { provider }))
            .with_no_client_auth(),
    };
    Ok(Arc::new(config))
}

fn system_roots() -> Result<RootCertStore, TrustError> {
    let loaded = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(loaded.certs);
    if roots.is_empty() {
        let cause =
            loaded.errors.first().map_or_else(|| "none are installed".to_owned(), ToString::to_string);
        return Err(TrustError::System(cause));
    }
    Ok(roots)
}

fn roots_of(path: &PathBuf) -> Result<RootCertStore, TrustError> {
    let bad = |cause: String| TrustError::File { path: path.clone(), cause };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| bad(error.to_string()))? {
        let certificate = certificate.map_err(|error| bad(error.to_string()))?;
        roots.add(certificate).map_err(|error| bad(error.to_string()))?;
    }
    if roots.is_empty() { Err(bad("it holds no certificate".to_owned())) } else { Ok(roots) }
}

/// Accepts every certificate, but still verifies that the server holds its key.
#[derive(Debug)]
struct BelieveAnything {
    provider: Arc<rustls::crypto::CryptoProvider>,
}

impl rustls::client::danger::ServerCertVerifier for BelieveAnything {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(
            message,
            cert,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            cert,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
