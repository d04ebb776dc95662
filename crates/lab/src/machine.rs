//! Facts about the machine and this build that an experiment's figures depend on.

use unbloat_recording::Key;

/// Returns facts by name. Unknown ones are left out, and so is the host's name, since results are published.
#[must_use]
pub fn facts() -> Vec<(&'static str, String)> {
    let facts = unbloat_record::provenance::machine().into_iter();
    facts.filter(|(key, _)| *key != Key::Host).map(|(key, value)| (key.name(), value)).collect()
}
