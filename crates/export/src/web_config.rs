//! The file that gives the server TLS and passwords, in the format of Prometheus' exporters (exporter-toolkit,
//! `docs/web-configuration.md`).
//!
//! As there, it is read again for each connection, so that renewed certificates and new passwords need no restart, and its
//! paths are relative to its own folder. A part that this exporter does not have is an error, not ignored: whoever asks for
//! a restriction must get it.

use crate::passwords::Passwords;
use crate::{Error, Result};
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::version::{TLS12, TLS13};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The configuration in force.
#[derive(Debug, Clone, Default)]
pub struct WebConfig {
    /// TLS, if it is wanted.
    pub(crate) tls: Option<Arc<ServerConfig>>,
    /// Users and passwords; empty if everybody may read.
    pub(crate) passwords: Arc<Passwords>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    tls_server_config: Option<Tls>,
    basic_auth_users: BTreeMap<String, String>,
    http_server_config: Option<Http>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tls {
    cert_file: PathBuf,
    key_file: PathBuf,
    #[serde(default)]
    client_auth_type: ClientAuth,
    client_ca_file: Option<PathBuf>,
    #[serde(default)]
    min_version: Version,
    max_version: Option<Version>,
}

/// The names are those of Go's `tls.ClientAuthType`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
enum ClientAuth {
    #[default]
    #[serde(rename = "NoClientCert", alias = "")]
    None,
    #[serde(rename = "VerifyClientCertIfGiven")]
    IfGiven,
    #[serde(rename = "RequireAndVerifyClientCert")]
    Required,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
enum Version {
    #[default]
    #[serde(rename = "TLS12")]
    Tls12,
    #[serde(rename = "TLS13")]
    Tls13,
}

/// HTTP/2 is an offer that need not be made: this server speaks HTTP/1.1 only.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Http {
    #[serde(rename = "http2", default)]
    _http2: bool,
}

impl WebConfig {
    /// Reads a file and the files that it names.
    ///
    /// # Errors
    /// One of them cannot be read, or says something that cannot be done.
    pub fn read(path: &Path) -> Result<Self> {
        let wrong = |problem: String| Error::WebConfig { path: path.to_owned(), problem };
        let text = String::from_utf8(bytes(path)?).map_err(|_| wrong("it is not UTF-8".into()))?;
        let file = match text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'))
        {
            true => File::default(),
            false => serde_yaml_ng::from_str(&text).map_err(|error| wrong(error.to_string()))?,
        };
        let _ = file.http_server_config;
        let folder = path.parent().unwrap_or(Path::new(""));
        let tls = file.tls_server_config.map(|tls| tls.config(folder, &wrong).map(Arc::new)).transpose()?;
        let passwords = Passwords::new(file.basic_auth_users).map_err(wrong)?;
        Ok(WebConfig { tls, passwords: Arc::new(passwords) })
    }

    /// Returns whether connections are encrypted.
    #[must_use]
    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }
}

impl Tls {
    fn config(&self, folder: &Path, wrong: &dyn Fn(String) -> Error) -> Result<ServerConfig> {
        let certificates = certificates(&folder.join(&self.cert_file), wrong)?;
        let key_path = folder.join(&self.key_file);
        let key = PrivateKeyDer::from_pem_slice(&bytes(&key_path)?)
            .map_err(|error| wrong(format!("no private key in {}: {error}", key_path.display())))?;
        let versions: &[_] = match (self.min_version, self.max_version.unwrap_or(Version::Tls13)) {
            (Version::Tls12, Version::Tls12) => &[&TLS12],
            (Version::Tls12, Version::Tls13) => &[&TLS12, &TLS13],
            (Version::Tls13, Version::Tls13) => &[&TLS13],
            (Version::Tls13, Version::Tls12) => return Err(wrong("max_version is below min_version".into())),
        };
        let provider = Arc::new(ring::default_provider());
        let clients = self.clients(folder, &provider, wrong)?;
        let builder = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .map_err(|error| wrong(error.to_string()))?;
        let builder = match clients {
            Some(clients) => builder.with_client_cert_verifier(clients),
            None => builder.with_no_client_auth(),
        };
        builder
            .with_single_cert(certificates, key)
            .map_err(|error| wrong(format!("certificate and key cannot be used: {error}")))
    }

    /// Returns the check of clients' certificates, if they are to have some.
    fn clients(
        &self,
        folder: &Path,
        provider: &Arc<CryptoProvider>,
        wrong: &dyn Fn(String) -> Error,
    ) -> Result<Option<Arc<dyn ClientCertVerifier>>> {
        let authority = match (self.client_auth_type, &self.client_ca_file) {
            (ClientAuth::None, None) => return Ok(None),
            (ClientAuth::None, Some(_)) => {
                return Err(wrong("client_ca_file without a client_auth_type that checks it".into()));
            }
            (_, None) => return Err(wrong("client_auth_type without client_ca_file".into())),
            (_, Some(authority)) => folder.join(authority),
        };
        let mut roots = rustls::RootCertStore::empty();
        for certificate in certificates(&authority, wrong)? {
            roots.add(certificate).map_err(|error| wrong(format!("{}: {error}", authority.display())))?;
        }
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
        let builder = match self.client_auth_type {
            ClientAuth::IfGiven => builder.allow_unauthenticated(),
            ClientAuth::None | ClientAuth::Required => builder,
        };
        builder.build().map(Some).map_err(|error| wrong(error.to_string()))
    }
}

fn certificates(path: &Path, wrong: &dyn Fn(String) -> Error) -> Result<Vec<CertificateDer<'static>>> {
    let bytes = bytes(path)?;
    let found: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let found = found.map_err(|error| wrong(format!("no certificate in {}: {error}", path.display())))?;
    if found.is_empty() { Err(wrong(format!("no certificate in {}", path.display()))) } else { Ok(found) }
}

fn bytes(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|source| Error::Unreadable { path: path.to_owned(), source })
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tempfile::TempDir;

    /// bcrypt of "test", of cost 4.
    pub(crate) const HASH: &str = "$2y$04$xkUMXcWjzsFAMIPS3YSOguRZGzNNfhN3F7hCQ6X4QhMh3EnnBkjMK";

    /// A folder with a certificate for `localhost` and a configuration; returns both, and the certificate.
    pub(crate) fn folder(config: &str) -> (TempDir, PathBuf, CertificateDer<'static>) {
        let folder = tempfile::tempdir().unwrap();
        let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(folder.path().join("cert.pem"), own.cert.pem()).unwrap();
        std::fs::write(folder.path().join("key.pem"), own.signing_key.serialize_pem()).unwrap();
        let path = folder.path().join("web.yml");
        std::fs::write(&path, config).unwrap();
        (folder, path, own.cert.der().clone())
    }

    pub(crate) const TLS: &str = "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n";

    #[test]
    fn the_files_of_prometheus_exporters_are_read() {
        let users = format!("basic_auth_users:\n  alice: {HASH}\n");
        for (config, tls) in [
            (String::new(), false),
            ("# nothing\n".into(), false),
            ("{}\n".into(), false),
            (TLS.into(), true),
            (format!("{TLS}  min_version: TLS13\n  client_auth_type: NoClientCert\n"), true),
            (
                format!(
                    "{TLS}  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: cert.pem\n{users}"
                ),
                true,
            ),
            (format!("{users}http_server_config:\n  http2: true\n"), false),
        ] {
            let (_folder, path, _) = folder(&config);
            assert_eq!(WebConfig::read(&path).unwrap().has_tls(), tls, "{config}");
        }
    }

    #[test]
    fn what_cannot_be_done_is_refused_with_its_name() {
        for (config, named) in [
            ("tls_server_config:\n  cert_file: cert.pem\n", "key_file"),
            ("tls_server_config:\n  cert_file: key.pem\n  key_file: key.pem\n", "no certificate"),
            ("tls_server_config:\n  cert_file: cert.pem\n  key_file: cert.pem\n", "no private key"),
            ("tls_server_config:\n  cert_file: none.pem\n  key_file: key.pem\n", "none.pem"),
            (
                "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n  cipher_suites: [X]\n",
                "cipher_suites",
            ),
            (
                "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n  client_ca_file: cert.pem\n",
                "client_auth_type",
            ),
            (
                "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n  client_auth_type: RequireAnyClientCert\n",
                "RequireAnyClientCert",
            ),
            ("basic_auth_users:\n  alice: secret\n", "alice"),
            ("http_server_config:\n  headers: {}\n", "headers"),
            ("basic_auth: {}\n", "basic_auth"),
            ("[", "web.yml"),
        ] {
            let (_folder, path, _) = folder(config);
            let error = WebConfig::read(&path).unwrap_err().to_string();
            assert!(error.contains(named), "{config}: {error}");
        }
        assert!(
            WebConfig::read(Path::new("/nowhere/web.yml"))
                .unwrap_err()
                .to_string()
                .contains("/nowhere/web.yml")
        );
    }
}
