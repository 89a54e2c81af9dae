//! What was planned, as files that `tir-plan` reads: the problem, and the plan.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use tir::{Diagnostic, Failure, Ir};
use tir_accel::MachineInfo;
use tir_packing::Conflicts;

use crate::banks::conflicts;
use crate::liveness::Buffer;
use crate::plan_memory::Plans;

/// A problem and the plan of it, each a table with commas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Texts {
    /// A row for each buffer: `id,space,lower,upper,gaps,size,alignment`, and `apart` where a space of the machine has banks whose
    /// conflicts are counted.
    pub problem: String,
    /// The same rows with `offset`.
    pub plan: String,
    /// What `tir-plan` is to know beside them: capacities and sizes of banks in bytes, as its options, with a space before each.
    pub options: String,
}

/// The texts of plans of a function that is not rewritten yet. Buffers that never live have a row with no time.
pub fn texts(ir: &Ir, machine: &MachineInfo, plans: &Plans) -> Texts {
    let mut rows: Vec<(String, String, u64)> = Vec::new();
    let (mut options, mut banked) = (String::new(), false);
    let spaces = plans.spaces.iter().zip(&plans.planned);
    for ((space, buffers), planned) in spaces {
        let info = machine.space(*space);
        let capacity = info.map_or(0, |info| info.bytes);
        // A memory without limit has none to say.
        if capacity < 1 << 62 {
            let _ = write!(options, " --capacity {space}={capacity}");
        }
        let banks = info.filter(|info| info.ports > 0 && info.banks > 1);
        let mut apart: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        if let Some(info) = banks {
            let _ = write!(options, " --bank {space}={}", info.bytes / info.banks);
            apart = partners(&conflicts(ir, buffers, info.ports), buffers);
            banked |= !apart.is_empty();
        }
        for (i, (buffer, offset)) in buffers.iter().zip(&planned.plan.offsets).enumerate() {
            let row = row(space, buffer);
            let apart = apart.get(&i).map_or(String::new(), |all| all.join(" "));
            rows.push((row, apart, *offset));
        }
    }
    let mut header = "id,space,lower,upper,gaps,size,alignment".to_string();
    if banked {
        header += ",apart";
    }
    let (mut problem, mut plan) = (format!("{header}\n"), format!("{header},offset\n"));
    for (row, apart, offset) in rows {
        let apart = match banked {
            true => format!(",{apart}"),
            false => String::new(),
        };
        let _ = writeln!(problem, "{row}{apart}");
        let _ = writeln!(plan, "{row}{apart},{offset}");
    }
    Texts {
        problem,
        plan,
        options,
    }
}

/// Of each buffer those of higher numbers that it conflicts with, and itself, if its halves do: `ID:COST`.
fn partners(conflicts: &Conflicts, buffers: &[Buffer]) -> BTreeMap<usize, Vec<String>> {
    let mut out: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for ((a, b), cost) in conflicts {
        let one = format!("{}:{cost}", buffers[*b].name);
        out.entry(*a).or_default().push(one);
    }
    out
}

fn row(space: &str, buffer: &Buffer) -> String {
    let lower = buffer.live.first().map_or(buffer.made, |l| l.start);
    let upper = buffer.live.last().map_or(buffer.made, |l| l.end);
    let pairs = buffer.live.windows(2);
    let gaps = pairs.map(|pair| format!("{}-{}", pair[0].end, pair[1].start));
    let gaps: Vec<String> = gaps.collect();
    let (name, bytes, align) = (&buffer.name, buffer.bytes, buffer.align);
    format!(
        "{name},{space},{lower},{upper},{},{bytes},{align}",
        gaps.join(" ")
    )
}

impl Texts {
    /// Writes `NAME.csv` and `NAME.plan.csv` into a folder, which is made if it is missing; gives the first.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write(&self, folder: &str, name: &str) -> Result<PathBuf, Failure> {
        let folder = Path::new(folder);
        let file = folder.join(format!("{name}.csv"));
        let plan = folder.join(format!("{name}.plan.csv"));
        let failed = |path: &Path, e: &std::io::Error| -> Failure {
            format!("cannot write '{}': {e}", path.display()).into()
        };
        std::fs::create_dir_all(folder).map_err(|e| failed(folder, &e))?;
        for (path, text) in [(&file, &self.problem), (&plan, &self.plan)] {
            std::fs::write(path, text).map_err(|e| failed(path, &e))?;
        }
        Ok(file)
    }

    /// Writes them for the function at the root of an arena, and says how to plan and check them.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write_for(&self, ir: &Ir, folder: &str) -> Result<Diagnostic, Diagnostic> {
        let at = ir.loc(ir.root());
        let named = ir.attr(ir.root(), "sym_name");
        let name = named.and_then(|name| name.as_str()).unwrap_or("function");
        let file = self.write(folder, name).map_err(|e| e.at(at))?;
        let file = file.with_extension("");
        let (shown, options) = (file.display(), &self.options);
        let text = format!(
            "the buffers are in '{shown}.csv', their plan in '{shown}.plan.csv': 'tir-plan {shown}.csv{options}' plans them, with \
             '--check {shown}.plan.csv' it checks this plan"
        );
        Ok(Diagnostic::remark(text).at(at))
    }
}
