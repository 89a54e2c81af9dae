//! What a run of a pipeline leaves besides the changed IR.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use tir_core::{Diagnostic, Ir};

use crate::context::PassResult;
use crate::pipeline::Pipeline;
use crate::print::IrPrint;

/// Times of a member of a pipeline and of what is in it.
#[derive(Clone, Default, Debug)]
pub struct Timing {
    /// Its name.
    pub name: String,
    /// Elapsed time: of a pass, summed over the ops it ran on; of a nest, as the clock on the wall
    /// says.
    pub wall: Duration,
    /// Time of processors, on all threads that worked for it.
    pub cpu: Duration,
    /// Members in order, each with where it stands in the whole pipeline: positions from the
    /// outermost list inwards.
    pub members: Vec<(Vec<usize>, Timing)>,
}

impl Timing {
    /// The member that stands at a path.
    pub(crate) fn member(&mut self, path: &[usize], name: &str) -> &mut Timing {
        let at = self
            .members
            .partition_point(|(known, _)| known.as_slice() < path);
        if self.members.get(at).is_none_or(|(known, _)| known != path) {
            let new = Timing {
                name: name.to_string(),
                ..Timing::default()
            };
            self.members.insert(at, (path.to_vec(), new));
        }
        &mut self.members[at].1
    }

    pub(crate) fn merge(&mut self, other: Timing) {
        self.wall += other.wall;
        self.cpu += other.cpu;
        for (path, timing) in other.members {
            self.member(&path, &timing.name).merge(timing);
        }
    }

    /// Time of the processor, members included: only passes measure it.
    fn total_cpu(&self) -> Duration {
        let members = self.members.iter();
        self.cpu + members.map(|(_, m)| m.total_cpu()).sum::<Duration>()
    }

    fn print(&self, out: &mut String, depth: usize) {
        let ms = |d: Duration| d.as_secs_f64() * 1e3;
        let (wall, cpu) = (ms(self.wall), ms(self.total_cpu()));
        let _ = writeln!(
            out,
            "{wall:>10.3} {cpu:>10.3}  {:depth$}{}",
            "",
            self.name,
            depth = depth * 2
        );
        for (_, member) in &self.members {
            member.print(out, depth + 1);
        }
    }
}

/// What a run of a pipeline leaves besides the changed IR.
#[derive(Clone, Default, Debug)]
pub struct Report {
    /// Errors: the run stopped, and the IR must not be used.
    pub errors: Vec<Diagnostic>,
    /// Remarks and warnings, in the order of passes and of ops.
    pub remarks: Vec<Diagnostic>,
    /// The IR printed around passes.
    pub prints: Vec<IrPrint>,
    /// Statistics by pass and by what is counted.
    pub statistics: BTreeMap<&'static str, BTreeMap<String, u64>>,
    /// Times, if they were asked for.
    pub timing: Timing,
    /// The pass that failed, if [`Settings::keep_input`](crate::Settings) is set.
    pub failed: Option<Box<FailedPass>>,
}

/// A pass that failed, and the IR it failed on.
#[derive(Clone)]
pub struct FailedPass {
    /// The root as it was before the pass ran on any op.
    pub input: Ir,
    /// The pass alone, with its options and in its nest.
    pub pipeline: Pipeline,
}

impl std::fmt::Debug for FailedPass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FailedPass({})", self.pipeline)
    }
}

impl Report {
    /// Whether all passes ran.
    pub fn is_ok(&self) -> bool {
        self.errors.is_empty()
    }
    /// The errors as a result.
    pub fn into_result(self) -> PassResult {
        match self.errors.is_empty() {
            true => Ok(()),
            false => Err(self.errors),
        }
    }
    /// The statistics as lines for people.
    pub fn statistics_text(&self) -> String {
        let mut out = String::new();
        for (pass, counts) in &self.statistics {
            let _ = writeln!(out, "{pass}");
            for (what, n) in counts {
                let _ = writeln!(out, "{n:>10}  {what}");
            }
        }
        out
    }
    /// The times as a tree for people, in milliseconds.
    pub fn timing_text(&self) -> String {
        let mut out = format!("{:>10} {:>10}\n", "wall ms", "cpu ms");
        self.timing.print(&mut out, 0);
        out
    }
}
