//! `unbloat bench http`: the tables.

use super::time::time;
use crate::style::thousands;
use std::fmt;
use unbloat_load::http::{Batch, HttpFigures, RequestFigures};

/// The heading of the tables.
#[derive(Debug)]
pub struct Heading;

impl fmt::Display for Heading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        row(f, "", "requests", "errors", ["p50", "p95", "p99", "max"], "per second")
    }
}

/// A row of the table: one batch.
#[derive(Debug)]
pub struct BatchRow<'a> {
    /// Its number, from 1.
    pub number: usize,
    /// Its figures.
    pub batch: &'a Batch,
}

impl fmt::Display for BatchRow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = format!("{:.1}", self.batch.per_second());
        figures(f, &format!("batch {}", self.number), &self.batch.figures, &rate)
    }
}

/// One row per route.
#[derive(Debug)]
pub struct RouteRows<'a>(pub &'a HttpFigures);

impl fmt::Display for RouteRows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for route in &self.0.routes {
            figures(f, &route.name, &route.figures, "")?;
            writeln!(f)?;
        }
        Ok(())
    }
}

fn figures(f: &mut fmt::Formatter<'_>, name: &str, figures: &RequestFigures, rate: &str) -> fmt::Result {
    let times = figures.response.summary();
    let times = [times.p50_ns, times.p95_ns, times.p99_ns, times.max_ns].map(time);
    let errors = thousands(figures.errors.total());
    row(f, name, &thousands(figures.requests), &errors, times.each_ref().map(String::as_str), rate)
}

fn row(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    requests: &str,
    errors: &str,
    [p50, p95, p99, max]: [&str; 4],
    rate: &str,
) -> fmt::Result {
    write!(f, "{name:<28} {requests:>10} {errors:>7}  {p50:>8} {p95:>8} {p99:>8} {max:>8}  {rate:>10}")
}
