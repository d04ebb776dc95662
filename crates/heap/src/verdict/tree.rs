//! Findings about several processes together: their sum, and the memory that workers share with the master
//! that forked them.

use super::{advice, count, finding, percent};
use crate::iec::Iec;
use crate::model::{Action, Finding, FindingCode, Inspection, ProcessReport, RubyType};

/// A worker with this many times its master's classes and modules has loaded the application itself.
const LOADED_AGAIN: f64 = 1.5;

/// Share of the memory inherited from the master below which compacting before forking is suggested.
const POOR_SHARING: f64 = 0.5;

/// Returns the verdict on related processes; empty for a single one.
#[must_use]
pub fn of_tree(inspection: &Inspection) -> Vec<Finding> {
    if inspection.processes.len() < 2 || inspection.rss_sum_bytes() == 0 {
        return vec![];
    }
    [Some(sum(inspection)), trimmable(inspection), sharing(inspection)].into_iter().flatten().collect()
}

fn sum(inspection: &Inspection) -> Finding {
    let processes = count(inspection.processes.len() as u64, "process").replace("processs", "processes");
    let rss = Iec(inspection.rss_sum_bytes());
    let Some(pss) = inspection.pss_bytes() else {
        let text = format!(
            "{processes} have {rss} resident, counting shared pages once for each. Their total is smaller \
             but unknown, because not all of their proportional sizes could be read."
        );
        return finding(FindingCode::Tree, text, vec![], None);
    };
    let mut text = format!(
        "{processes} take {} together (proportional: their resident sizes sum to {rss}, but count shared pages more \
         than once).",
        Iec(pss)
    );
    if let Some(census) = inspection.proportional()
        && let Some(bloat) = census.bloat()
    {
        text.push_str(&format!(
            " {} of it is live, {} ({}) is bloat.",
            Iec(census.live()),
            Iec(bloat),
            percent(bloat, pss)
        ));
    }
    finding(FindingCode::Tree, text, vec![], None)
}

fn trimmable(inspection: &Inspection) -> Option<Finding> {
    let bytes = inspection.trimmable_bytes()?;
    (bytes >= super::WORTH_BYTES).then(|| {
        let from: Vec<&ProcessReport> = inspection
            .processes
            .iter()
            .filter(|process| process.trimmable_bytes() >= Some(super::WORTH_BYTES))
            .collect();
        let text = format!("{} would come back from {} of them at once.", Iec(bytes), from.len());
        let actions = inspection.processes.first().map(|root| Action::Trim(root.pid)).into_iter().collect();
        finding(FindingCode::TreeTrimmable, text, actions, Some(bytes))
    })
}

fn sharing(inspection: &Inspection) -> Option<Finding> {
    let workers: Vec<_> =
        inspection.processes.iter().filter_map(|process| Some((process, process.sharing?))).collect();
    let (_, first) = workers.first()?;
    let master = inspection.processes.iter().find(|process| process.pid == first.parent)?;
    let siblings: Vec<_> = workers.iter().filter(|(_, sharing)| sharing.parent == master.pid).collect();
    let n = siblings.len() as u64;
    let mean = |of: &dyn Fn(&(&ProcessReport, crate::model::Sharing)) -> u64| {
        siblings.iter().map(|worker| of(worker)).sum::<u64>() / n.max(1)
    };
    let (shared, unshared) = (mean(&|w| w.1.shared_bytes), mean(&|w| w.1.unshared_bytes));
    let who =
        if n == 1 { "The worker still shares".to_owned() } else { format!("The {n} workers still share") };
    let mut text = format!(
        "{who} {} each with the master {} (of what they had from it, {} each is un-shared: written to since the fork).",
        Iec(shared),
        master.pid,
        Iec(unshared)
    );
    let mut actions = vec![];
    let inherited = shared + unshared;
    let puma = master.command.raw().contains("puma");
    let loaded = mean(&|w| classes(w.0).unwrap_or(0));
    let before = classes(master).unwrap_or(u64::MAX);
    if before > 0 && loaded as f64 >= LOADED_AGAIN * before as f64 {
        text.push_str(&format!(
            " A worker has {loaded} classes and modules, the master {before}: each worker loads the \
             application. Loaded before the fork, it exists only once."
        ));
        actions = if puma { vec![Action::PreloadApp] } else { vec![] };
    } else if (shared as f64) < inherited as f64 * POOR_SHARING {
        text.push_str(" Objects packed before the fork stay shared for longer.");
        actions =
            master.ruby.as_ref().map_or_else(Vec::new, |ruby| advice::compact(ruby, master.command.raw()));
    }
    let text = if n == 1 { text.replace(" each", "") } else { text };
    Some(finding(FindingCode::TreeSharing, text, actions, None))
}

/// Returns the number of classes and modules, a measure of the code that a Ruby has loaded.
fn classes(process: &ProcessReport) -> Option<u64> {
    let objects = &process.ruby.as_ref()?.objects;
    let code = |ruby_type: &RubyType| matches!(ruby_type, RubyType::Class | RubyType::Module);
    Some(objects.iter().filter(|(ruby_type, _)| code(ruby_type)).map(|(_, n)| n).sum())
}
