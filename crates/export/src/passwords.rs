//! Basic authentication: users with bcrypt hashes.
//!
//! bcrypt is slow on purpose, which a scrape every few seconds cannot pay: a password that was right once is remembered by
//! a digest, as in Prometheus' exporters.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, PoisonError};

/// Most digests of right passwords that are kept.
const MOST: usize = 100;

/// Longest password that bcrypt tells apart, in bytes (its key is 72 bytes).
const LONGEST: usize = 72;

/// A hash that no user has: an unknown user takes as long as a known one.
const NOBODY: &str = "$2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi";

/// The users that may read, with their hashes.
#[derive(Debug, Default)]
pub(crate) struct Passwords {
    users: BTreeMap<String, String>,
}

/// A user's claim to be known.
struct Claim<'a> {
    password: String,
    hash: &'a str,
    is_known: bool,
    /// Digest of user, hash and password.
    key: Vec<u8>,
}

/// Passwords that were right, by digest of user, hash and password.
#[derive(Debug, Default)]
pub(crate) struct Proved {
    digests: Mutex<HashSet<Vec<u8>>>,
}

impl Passwords {
    /// Checks the hashes.
    pub(crate) fn new(users: BTreeMap<String, String>) -> Result<Self, String> {
        for (user, hash) in &users {
            hash.parse::<bcrypt::HashParts>().map_err(|error| {
                format!(
                    "the password of {user} is not a bcrypt hash ({error}); `htpasswd -nBC 10 ''` makes one"
                )
            })?;
        }
        Ok(Passwords { users })
    }

    /// Returns whether everybody may read.
    pub(crate) fn is_open(&self) -> bool {
        self.users.is_empty()
    }

    /// Returns whether the header `Authorization` of a request has a password that was right before. Takes no time.
    pub(crate) fn remembers(&self, authorization: &str, proved: &Proved) -> bool {
        let claim = self.claim(authorization);
        claim.is_some_and(|claim| claim.is_known && proved.has(&claim.key))
    }

    /// Returns whether the header `Authorization` of a request may read. Takes some tenths of a second of CPU.
    pub(crate) fn admits(&self, authorization: &str, proved: &Proved) -> bool {
        let Some(claim) = self.claim(authorization) else { return false };
        let right = bcrypt::verify(&claim.password, claim.hash).unwrap_or(false) && claim.is_known;
        if right {
            proved.keep(claim.key);
        }
        right
    }

    fn claim(&self, authorization: &str) -> Option<Claim<'_>> {
        let (user, password) = credentials(authorization)?;
        let known = self.users.get(&user);
        let hash = known.map_or(NOBODY, String::as_str);
        let parts = [&user, hash, &password].map(|part| format!("{}:{part}", part.len())).concat();
        let key = digest(&SHA256, parts.as_bytes()).as_ref().to_owned();
        (password.len() <= LONGEST).then_some(Claim { password, hash, is_known: known.is_some(), key })
    }
}

impl Proved {
    fn has(&self, key: &[u8]) -> bool {
        self.digests.lock().unwrap_or_else(PoisonError::into_inner).contains(key)
    }

    fn keep(&self, key: Vec<u8>) {
        let mut digests = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        if digests.len() >= MOST {
            digests.clear();
        }
        digests.insert(key);
    }
}

/// Parses `Basic BASE64(USER:PASSWORD)`.
fn credentials(authorization: &str) -> Option<(String, String)> {
    let (scheme, encoded) = authorization.split_once(' ')?;
    let decoded = STANDARD.decode(encoded.trim()).ok().filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
    let (user, password) = std::str::from_utf8(&decoded).ok()?.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn header(user: &str, password: &str) -> String {
        format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
    }

    #[test]
    fn only_the_right_password_of_a_user_is_admitted() {
        let hash = bcrypt::hash("te:st", 4).unwrap();
        let passwords = Passwords::new([("alice".to_owned(), hash)].into()).unwrap();
        let proved = Proved::default();
        assert!(!passwords.is_open());
        let right = header("alice", "te:st");
        assert!(!passwords.remembers(&right, &proved));
        assert!(passwords.admits(&right, &proved) && passwords.remembers(&right, &proved));
        assert_eq!(proved.digests.lock().unwrap().len(), 1);
        let long = "x".repeat(LONGEST + 1);
        for wrong in [
            header("alice", "test"),
            header("bob", "te:st"),
            header("alice", ""),
            header("alice", &long),
            header("alice", "te:st").replace("Basic", "Bearer"),
            "Basic !".into(),
            String::new(),
        ] {
            assert!(!passwords.admits(&wrong, &proved) && !passwords.remembers(&wrong, &proved), "{wrong}");
        }
    }

    #[test]
    fn a_changed_hash_forgets_what_was_proved() {
        let proved = Proved::default();
        let of = |password: &str| {
            Passwords::new([("alice".to_owned(), bcrypt::hash(password, 4).unwrap())].into()).unwrap()
        };
        assert!(of("old").admits(&header("alice", "old"), &proved));
        assert!(!of("new").remembers(&header("alice", "old"), &proved));
    }
}
