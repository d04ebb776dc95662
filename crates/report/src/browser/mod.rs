//! Tests of the pages in a real browser: headless Chromium over its DevTools protocol.
//!
//! | module | concept |
//! |---|---|
//! | `chromium` | starts a browser and communicates with it |
//! | `tab` | one page: loading, reading, pointing, printing |
//! | `every_page` | rules that hold on all pages |
//! | `charts`, `heap_map`, `tables` | interactive elements behave as described |
//!
//! A page that a test has loaded is written as a picture into the directory `UNBLOAT_SCREENSHOTS`, if that is
//! set.

mod charts;
mod chromium;
mod every_page;
mod heap_map;
mod samples;
mod tab;
mod tables;
