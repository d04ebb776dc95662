//! Tests of the pages in a real browser: headless Chromium over its DevTools protocol.
//!
//! | module | concept |
//! |---|---|
//! | `chromium` | starting a browser, talking to it |
//! | `tab` | one page: loading, looking, pointing, printing |
//! | `every_page` | rules that hold on all pages |
//! | `charts`, `heap_map`, `tables` | what answers the reader does what it says |
//!
//! A page that a test has loaded is written as a picture into the directory `UNBLOAT_SCREENSHOTS`, if that is set.

mod charts;
mod chromium;
mod every_page;
mod heap_map;
mod samples;
mod tab;
mod tables;
