//! What of a compilation goes into a report.

use std::fmt;

use tir::Diagnostic;
use tir_report::{Level, Page, Remark};

use crate::compile::{Compiled, Options};

/// Remarks that say the same.
pub(crate) struct Alike<'a> {
    title: String,
    /// The costliest first.
    all: Vec<&'a Diagnostic>,
}

/// Remarks by the cycles that they are about; those without a number behind, what is said most often first.
pub(crate) fn ranked(remarks: &[Diagnostic]) -> Vec<Alike<'_>> {
    let mut alike: Vec<Alike<'_>> = Vec::new();
    for remark in remarks {
        let title = remark.title();
        match alike.iter_mut().find(|known| known.title == title) {
            Some(known) => known.all.push(remark),
            None => alike.push(Alike {
                title,
                all: vec![remark],
            }),
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
        write!(f, "  - {}", self.title)?;
        if times > 1 {
            write!(f, ", {times} times, first")?;
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

/// The page of a compilation. An error is a rendered text.
pub(crate) fn page(options: &Options, compiled: &Compiled) -> Result<String, String> {
    let last = compiled.last.as_ref();
    let account = last.and_then(|last| Some((last.machine.clone()?, last.timeline.clone()?)));
    let Some((summary, mut timeline)) = account else {
        return Err("error: --report: the program runs on no machine\n".to_string());
    };
    let shares = timeline.shares();
    timeline.join(options.report_stretches);
    let mut levels = Vec::new();
    let each = options.report_text / compiled.levels.len().max(1);
    for program in &compiled.levels {
        let file = program.file.display().to_string();
        let text = std::fs::read_to_string(&program.file)
            .map_err(|error| format!("error: {file}: {error}\n"))?;
        let compared = program.compared.clone();
        levels.push(Level::new(program.level, &file, &text, compared, each));
    }
    let page = Page {
        model: options.model.display().to_string(),
        machine: options.machine().display().to_string(),
        levels,
        summary,
        shares,
        timeline,
        memory: compiled.memory.clone(),
        remarks: ranked(&compiled.remarks)
            .iter()
            .map(Alike::remark)
            .collect(),
    };
    page.html()
        .map_err(|error| format!("error: --report: {error}\n"))
}
