//! `unbloat bench cable`: the table.

use super::time::time;
use crate::style::thousands;
use std::fmt;
use unbloat_load::cable::Step;

/// The heading of the table of steps.
#[derive(Debug)]
pub struct Heading;

impl fmt::Display for Heading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        row(
            f,
            "clients",
            ["fan-out p50", "p95", "p99", "max"],
            "delivery p95",
            ["ack p50", "p95"],
            "connect p95",
            "delivered",
        )
    }
}

/// A row of the table: one step.
#[derive(Debug)]
pub struct Row<'a>(pub &'a Step);

impl fmt::Display for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let step = self.0;
        let [fan_out, delivery, ack, connect] =
            [&step.fan_out, &step.delivery, &step.ack, &step.connect].map(|it| it.summary());
        row(
            f,
            &step.clients.to_string(),
            [fan_out.p50_ns, fan_out.p95_ns, fan_out.p99_ns, fan_out.max_ns]
                .map(time)
                .each_ref()
                .map(String::as_str),
            &time(delivery.p95_ns),
            [ack.p50_ns, ack.p95_ns].map(time).each_ref().map(String::as_str),
            &time(connect.p95_ns),
            &format!("{}/{}", thousands(step.received), thousands(step.expected)),
        )
    }
}

fn row(
    f: &mut fmt::Formatter<'_>,
    clients: &str,
    [p50, p95, p99, max]: [&str; 4],
    delivery: &str,
    [ack_p50, ack_p95]: [&str; 2],
    connect: &str,
    delivered: &str,
) -> fmt::Result {
    write!(
        f,
        "{clients:>7}  {p50:>11} {p95:>8} {p99:>8} {max:>8}  {delivery:>12}  {ack_p50:>8} {ack_p95:>8}  {connect:>11}  {delivered}"
    )
}
