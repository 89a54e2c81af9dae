//! What came of planning or of a check.

use std::fmt;
use std::fmt::Write;

use tir_packing::{Certificate, LiveSet, Problem, Solution};

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

/// The report of a plan.
pub(crate) fn planned(
    file: &str,
    problem: &Problem,
    found: &Solution,
    capacity: Option<u64>,
    seconds: f64,
) -> Report {
    let plan = &found.plan;
    let fits = capacity.is_none_or(|capacity| plan.height <= capacity);
    let set = live_set(&found.certificate);
    let when = set.time.map_or(String::new(), |t| format!(" at time {t}"));
    let live = format!(
        "{} buffers of {} bytes live{when}",
        set.members.len(),
        set.bytes
    );
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<12}{value}");
    };
    line("file", file.to_string());
    line("buffers", problem.buffers().len().to_string());
    line("height", plan.height.to_string());
    line("bound", found.bound.to_string());
    line("gap", format!("{:.3} %", found.gap() * 100.0));
    if let Some(capacity) = capacity {
        let verdict = match (fits, found.bound > capacity) {
            (true, _) => "fits",
            (false, false) => "does not fit",
            (false, true) => "does not fit, and no plan does",
        };
        line("capacity", format!("{capacity}, {verdict}"));
    }
    line("planner", format!("{}, {} steps", plan.method, found.steps));
    match &found.certificate {
        Certificate::LiveSet(_) => line("certificate", live),
        Certificate::Search { nodes, .. } => {
            let shown = format!("a search of {nodes} nodes; {live}");
            line("certificate", shown);
        }
    }
    line("time", format!("{seconds:.3} s"));
    if !fits {
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

/// The certificate of a bound as a file: lines `bound BYTES`, `by live-set` or `by search NODES`, `time T`, `buffer BYTES ID`.
pub fn certificate(problem: &Problem, found: &Solution) -> String {
    let set = live_set(&found.certificate);
    let mut text = format!("# no plan is lower\nbound {}\n", found.bound);
    match &found.certificate {
        Certificate::LiveSet(_) => text += "by live-set\n",
        Certificate::Search { nodes, .. } => text += &format!("by search {nodes}\n"),
    }
    text += &format!("time {}\n", set.time.unwrap_or_default());
    for &i in &set.members {
        let b = &problem.buffers()[i];
        text += &format!("buffer {} {}\n", b.size, b.name);
    }
    text
}
