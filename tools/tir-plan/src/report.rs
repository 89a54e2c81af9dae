//! What came of planning or of a check.

use std::fmt;
use std::fmt::Write;

use tir_packing::{Certificate, Kept, LiveSet, Solution, check};

use crate::spaces::Space;

/// Buffers of the largest live set that are listed when a plan does not fit.
const HOLDERS: usize = 10;

/// What is printed, and whether all is well.
#[derive(Clone, Debug)]
pub struct Report {
    /// Whether the plan fits the capacity, or what was checked holds.
    pub fits: bool,
    /// Lines.
    pub text: String,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The report of the plan of a space.
pub(crate) fn planned(
    space: &Space,
    several: bool,
    (found, kept): (&Solution, Option<&(Kept, u64)>),
    capacity: Option<u64>,
    seconds: f64,
) -> Report {
    let (plan, problem) = (&found.plan, &space.problem);
    let bound = bound(space, found);
    let broken = check(problem, &plan.offsets, u64::MAX).into_iter().next();
    let (conflicts, shared) = space.shared(&plan.offsets);
    let fits = capacity.is_none_or(|capacity| plan.height <= capacity)
        && broken.is_none()
        && shared.is_none();
    let set = live_set(&found.certificate);
    let when = set.time.map_or(String::new(), |t| format!(" at time {t}"));
    let aligned = match set.height > set.bytes {
        true => format!(", {} as they are aligned", set.height),
        false => String::new(),
    };
    let live = format!(
        "{} buffers of {} bytes live{when}{aligned}",
        set.members.len(),
        set.bytes
    );
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<12}{value}");
    };
    if several {
        line("space", space.name.clone());
    }
    line("buffers", problem.buffers().len().to_string());
    line("height", plan.height.to_string());
    line("bound", bound.to_string());
    let gap = plan.height.saturating_sub(bound) as f64 / bound.max(1) as f64;
    line("gap", format!("{:.3} %", gap * 100.0));
    if let Some(capacity) = capacity {
        let verdict = match (fits, bound > capacity, kept) {
            (true, ..) => "fits".to_string(),
            (false, true, _) => "does not fit, and no plan does".to_string(),
            (false, false, Some((Kept::Impossible, nodes))) => {
                format!(
                    "does not fit, and no plan does that keeps banks: a search of {nodes} nodes"
                )
            }
            (false, false, _) => "no plan was found that fits; there may be one".to_string(),
        };
        line("capacity", format!("{capacity}, {verdict}"));
    }
    if let Some(bank) = space
        .bank
        .filter(|_| conflicts > 0 || !space.conflicts.is_empty())
    {
        line(
            "banks",
            format!("of {bank} bytes, conflicts cost {conflicts}"),
        );
    }
    line("planner", format!("{}, {} steps", plan.method, found.steps));
    match (&space.lowest, &found.certificate) {
        (Some((end, size, id)), _) if *end > found.bound => {
            line(
                "certificate",
                format!("'{id}' of {size} bytes ends at {end} or above"),
            );
        }
        (_, Certificate::LiveSet(_)) => line("certificate", live),
        (_, Certificate::Search { nodes, .. }) => {
            let shown = format!("a search of {nodes} nodes; {live}");
            line("certificate", shown);
        }
    }
    line("time", format!("{seconds:.3} s"));
    if let Some(broken) = broken {
        line("wrong", format!("no place was found: {broken}"));
    }
    if let Some((a, b)) = shared {
        let name = |i: usize| &problem.buffers()[i].name;
        let pair = format!("'{}' and '{}' share a bank", name(a), name(b));
        line("wrong", pair);
    }
    if capacity.is_some_and(|capacity| plan.height > capacity) {
        let _ = writeln!(text, "holders of the largest live set:");
        for &i in set.members.iter().take(HOLDERS) {
            let b = &problem.buffers()[i];
            let _ = writeln!(text, "  {:>12}  {}", b.size, b.name);
        }
        if set.members.len() > HOLDERS {
            let _ = writeln!(text, "  and {} more", set.members.len() - HOLDERS);
        }
    }
    Report { fits, text }
}

fn live_set(certificate: &Certificate) -> &LiveSet {
    match certificate {
        Certificate::LiveSet(set) | Certificate::Search { set, .. } => set,
    }
}

/// What no plan of a space can be lower than.
fn bound(space: &Space, found: &Solution) -> u64 {
    let lowest = space.lowest.as_ref().map_or(0, |(end, _, _)| *end);
    found.bound.max(lowest)
}

/// The certificate of the bound of a space: lines `space NAME` (if there are several), `bound BYTES`, `by live-set`, `by search NODES` or
/// `by place`, `time T`, `buffer BYTES ID`.
pub fn certificate(space: &Space, several: bool, found: &Solution) -> String {
    let set = live_set(&found.certificate);
    let mut text = match several || !space.name.is_empty() {
        true => format!("space {}\n", space.name),
        false => String::new(),
    };
    let bound = bound(space, found);
    text += &format!("bound {bound}\n");
    if let Some((_, size, id)) = space.lowest.as_ref().filter(|_| bound > found.bound) {
        return text + &format!("by place\nbuffer {size} {id}\n");
    }
    match &found.certificate {
        Certificate::LiveSet(_) => text += "by live-set\n",
        Certificate::Search { nodes, .. } => text += &format!("by search {nodes}\n"),
    }
    text += &format!("time {}\n", set.time.unwrap_or_default());
    for &i in &set.members {
        let b = &space.problem.buffers()[i];
        text += &format!("buffer {} {}\n", b.size, b.name);
    }
    text
}
