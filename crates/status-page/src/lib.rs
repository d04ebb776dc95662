//! The layout of the status page that libunbloat.so publishes and unbloat reads. No dependencies.
