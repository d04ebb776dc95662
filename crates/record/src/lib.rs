//! The sampler: process tree and census over time, written to a store.
