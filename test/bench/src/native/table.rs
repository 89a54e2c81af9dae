//! A line for each thing that was measured.

use std::fmt;

use super::Measured;

/// Most characters of a name.
const WIDEST: usize = 44;

/// Times, rates and ratios.
pub(super) struct Table {
    head: Vec<String>,
    rows: Vec<(Vec<String>, String)>,
    onnx_runtime: bool,
    openvino: bool,
    stand_ins: bool,
}

impl Table {
    /// Without lines; with these columns.
    pub(super) fn new(what: &str, onnx_runtime: bool, openvino: bool, stand_ins: bool) -> Self {
        let mut head = vec![what, "us", "GFLOP/s", "of peak"];
        if stand_ins {
            head.push("stand-in");
        }
        if onnx_runtime {
            head.extend(["ONNX RT us", "ratio"]);
        }
        if openvino {
            head.extend(["OpenVINO us", "ratio"]);
        }
        Self {
            head: head.into_iter().map(str::to_string).collect(),
            rows: Vec::new(),
            onnx_runtime,
            openvino,
            stand_ins,
        }
    }

    /// Adds a line; a stand-in had this share of its own peak.
    pub(super) fn row(
        &mut self,
        name: &str,
        measured: &Measured,
        stand_in: Option<f64>,
        note: &str,
    ) {
        let us = |ms: Option<f64>| ms.map_or(String::new(), |ms| format!("{:.1}", ms * 1e3));
        let share = |share: f64| format!("{share:.2}");
        let has = measured.own > 0.0;
        let own = has.then_some(measured.own);
        let computes = has && measured.macs > 0;
        let rate = |text: String| if computes { text } else { String::new() };
        let name = match name.char_indices().nth_back(WIDEST - 1) {
            Some((from, _)) if from > 0 => format!("…{}", &name[from..]),
            _ => name.to_string(),
        };
        let mut cells = vec![
            name,
            us(own),
            rate(format!("{:.1}", measured.rate())),
            rate(share(measured.share())),
        ];
        if self.stand_ins {
            cells.push(stand_in.map_or(String::new(), share));
        }
        let mut peer = |ms: Option<f64>| {
            cells.push(us(ms));
            let ratio = ms.zip(own).map(|(ms, own)| share(own / ms));
            cells.push(ratio.unwrap_or_default());
        };
        if self.onnx_runtime {
            peer(measured.onnx_runtime);
        }
        if self.openvino {
            peer(measured.openvino);
        }
        self.rows.push((cells, note.to_string()));
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = || std::iter::once(&self.head).chain(self.rows.iter().map(|(cells, _)| cells));
        let width = |k: usize| all().map(|row| row[k].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let line = |cells: &[String], note: &str| {
            let mut line = format!("  {:1$}", cells[0], widths[0]);
            for (cell, width) in cells.iter().zip(&widths).skip(1) {
                line += &format!("  {cell:>width$}");
            }
            if !note.is_empty() {
                line += &format!("  {note}");
            }
            line.trim_end().to_string()
        };
        write!(f, "{}", line(&self.head, ""))?;
        for (cells, note) in &self.rows {
            write!(f, "\n{}", line(cells, note))?;
        }
        Ok(())
    }
}
