//! The recording file: one SQLite database with provenance, samples, marks, results.
