//! The published JSON Schemas, against which every document is held.
#![allow(clippy::unwrap_used)]

use jsonschema::Registry;
use serde_json::Value;
use std::path::Path;

/// Asserts that a document follows the schema of that name, such as `trim.schema.json`. Schemas may refer to each other.
///
/// # Panics
/// The document does not, or `docs/reference` has no such schema.
pub fn assert_follows(document: &Value, schema: &str) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let schemas = files.filter(|path| path.extension().is_some_and(|ending| ending == "json"));
    let registry = schemas.fold(Registry::new(), |registry, path| {
        let parsed: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        registry.add(address(path.file_name().unwrap().to_str().unwrap()), parsed).unwrap()
    });
    let registry = registry.prepare().unwrap();
    let reference = serde_json::json!({ "$ref": address(schema) });
    let validator = jsonschema::options().with_registry(&registry).build(&reference).unwrap();
    let faults = validator.iter_errors(document);
    let faults: Vec<String> = faults.map(|fault| format!("{fault} at {}", fault.instance_path())).collect();
    assert!(faults.is_empty(), "not as {schema} says: {faults:#?} in {document:#}");
}

/// Addresses below which references of one schema to another resolve. Nothing is fetched from them.
fn address(schema: &str) -> String {
    format!("https://schemas.invalid/{schema}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "not as trim.schema.json says")]
    fn a_document_that_does_not_follow_is_a_panic() {
        assert_follows(&serde_json::json!({ "schema": 1 }), "trim.schema.json");
    }
}
