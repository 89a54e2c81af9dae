//! What of a compilation goes into a report.

use std::collections::HashMap;
use std::fmt;

use tir::{Diagnostic, Ir, Name, Value};
use tir_report::{Graph, Level, NODES, Node, Page, Remark};

use crate::compile::{Compiled, Options};

/// Remarks that say the same.
pub(crate) struct Alike<'a> {
    /// The costliest first.
    all: Vec<&'a Diagnostic>,
}

/// Which remarks are one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    /// Those with the same message, whatever their notes say.
    Alike,
    /// Those with the same message and notes.
    Equal,
}

/// Remarks by the cycles that they are about; those without a number behind, what is said most often first.
pub(crate) fn ranked(remarks: &[Diagnostic], group: Group) -> Vec<Alike<'_>> {
    let notes = |a: &Diagnostic, b: &Diagnostic| {
        let (a, b) = (a.notes.iter(), b.notes.iter());
        a.map(|note| &note.message).eq(b.map(|note| &note.message))
    };
    let mut alike: Vec<Alike<'_>> = Vec::new();
    for remark in remarks {
        let same = |known: &&mut Alike<'_>| {
            let first = known.all[0];
            (&first.message, first.category) == (&remark.message, remark.category)
                && (group == Group::Alike || notes(first, remark))
        };
        match alike.iter_mut().find(same) {
            Some(known) => known.all.push(remark),
            None => alike.push(Alike { all: vec![remark] }),
        }
    }
    for known in &mut alike {
        known
            .all
            .sort_by_key(|remark| std::cmp::Reverse(remark.cycles));
    }
    alike.sort_by_key(|known| std::cmp::Reverse((known.cycles(), known.all.len())));
    alike
}

impl Alike<'_> {
    fn cycles(&self) -> u64 {
        self.all.iter().map(|remark| remark.cycles).sum()
    }

    /// The operators that they are about.
    pub(crate) fn places(&self) -> Vec<String> {
        let mut places = Vec::new();
        for remark in &self.all {
            tir::workload::places(remark.loc, &mut places);
        }
        places
    }

    fn remark(&self) -> Remark {
        let first = self.all[0];
        Remark {
            category: first.category.unwrap_or_default().to_string(),
            message: first.message.clone(),
            places: self.places(),
            notes: first
                .notes
                .iter()
                .map(|note| note.message.clone())
                .collect(),
            cycles: self.cycles(),
            times: self.all.len(),
        }
    }
}

impl fmt::Display for Alike<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, times) = (self.all[0], self.all.len());
        let mut places = Vec::new();
        tir::workload::places(first.loc, &mut places);
        let title = first.clone().cycles(self.cycles()).title();
        write!(f, "  - {title}")?;
        if times > 1 {
            write!(f, ", {times} times, the costliest")?;
        }
        match &places[..] {
            [] => {}
            [place] => write!(f, " at {place}")?,
            [place, rest @ ..] => write!(f, " at {place} and {} more", rest.len())?,
        }
        writeln!(f)?;
        for note in &first.notes {
            writeln!(f, "    {}", note.message)?;
        }
        Ok(())
    }
}

/// The graph of the operators of a program's first function; none where there is no text of a program, or nothing to draw.
fn graph(title: &str, text: &str) -> Option<Graph> {
    let module = tir::text::parse(text, Name::new("program"), &Default::default()).ok()?;
    let mut functions = module.walk_ids().into_iter();
    let ir = functions.find_map(|op| module.child(op).filter(|ir| has_tensors(ir)))?;
    let block = ir.body_block(ir.root(), 0)?;
    let mut nodes: Vec<Node> = Vec::new();
    let mut made: HashMap<Value, usize> = HashMap::new();
    for op in ir.ops_in(block) {
        let Some(result) = ir
            .results(op)
            .next()
            .filter(|_| ir.operands(op).len() + ir.regions(op).len() > 0)
        else {
            continue;
        };
        let mut inner = vec![op];
        let mut names: Vec<String> = Vec::new();
        let mut from: Vec<usize> = Vec::new();
        while let Some(op) = inner.pop() {
            from.extend(ir.operands(op).filter_map(|v| made.get(&v).copied()));
            let below = ir.regions(op).flat_map(|region| ir.blocks(region));
            inner.extend(below.flat_map(|block| ir.ops_in(block)));
        }
        from.sort_unstable();
        from.dedup();
        tir::workload::places(ir.loc(op), &mut names);
        made.extend(ir.results(op).map(|v| (v, nodes.len())));
        nodes.push(Node {
            op: ir.name(op).to_string(),
            ty: ir.ty(result).to_string(),
            at: names,
            from,
        });
    }
    (!nodes.is_empty() && nodes.len() <= NODES).then(|| Graph {
        title: title.to_string(),
        nodes,
    })
}

/// Whether a function computes tensors.
fn has_tensors(ir: &Ir) -> bool {
    let block = ir.body_block(ir.root(), 0);
    let args = block.into_iter().flat_map(|block| ir.args(block));
    args.into_iter().any(|arg| ir.ty(arg).shape().is_some())
}

/// The page of a compilation. An error is a rendered text.
pub(crate) fn page(options: &Options, compiled: &Compiled) -> Result<String, String> {
    let last = compiled.last.as_ref();
    let account = last.and_then(|last| Some((last.machine.clone()?, last.timeline.clone()?)));
    let Some((summary, mut timeline)) = account else {
        return Err(format!("error: --report: {}\n", tir_run::NO_WORK));
    };
    let shares = timeline.shares();
    timeline.join(options.report_stretches);
    let (mut levels, mut graphs) = (Vec::new(), Vec::new());
    let each = options.report_text / compiled.levels.len().max(1);
    for program in &compiled.levels {
        let file = program.file.display().to_string();
        let text = std::fs::read_to_string(&program.file)
            .map_err(|error| format!("error: {file}: {error}\n"))?;
        let title = match program.level {
            "graph" => Some("as it was given"),
            "tensor" => Some("after the choice of groups"),
            _ => None,
        };
        graphs.extend(title.and_then(|title| graph(title, &text)));
        let compared = program.compared.clone();
        levels.push(Level::new(program.level, &file, &text, compared, each));
    }
    let page = Page {
        model: options.model.display().to_string(),
        machine: options.machine().display().to_string(),
        levels,
        graphs,
        summary,
        shares,
        timeline,
        memory: compiled.memory.clone(),
        remarks: ranked(&compiled.remarks, Group::Alike)
            .iter()
            .map(Alike::remark)
            .collect(),
    };
    page.html()
        .map_err(|error| format!("error: --report: {error}\n"))
}
