//! The time of each layer of native code.

use std::fmt;

use serde::Serialize;
use tir::Ir;
use tir_accel::eval::Layers;
use tir_native::mlir::Function;

/// The time of a layer of native code: of all that came from one place of the source.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NativeLayer {
    /// Names of its operators, or its place.
    pub name: String,
    /// Places of its operators.
    pub at: Vec<String>,
    /// Seconds, as the least of all calls.
    pub seconds: f64,
    /// Useful multiply-adds, if the program carries its workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub macs: Option<u64>,
}

impl NativeLayer {
    /// The layers of a function of a lowered program, in its order, by what the processor counted at the marks of each call,
    /// of so many seconds.
    pub(super) fn all(program: &Ir, function: &Function, calls: &[(f64, Vec<u64>)]) -> Vec<Self> {
        let layers = Layers::of(program);
        let mut of_marks: Vec<Option<usize>> = Vec::new();
        let mut order: Vec<usize> = Vec::new();
        for loc in &function.marks {
            let layer = layers.at(*loc);
            of_marks.push(layer);
            order.extend(layer.filter(|at| !order.contains(at)));
        }
        let seconds = |layer: usize| {
            let of = |(seconds, counts): &(f64, Vec<u64>)| {
                let (first, last) = (counts.first()?, counts.last()?);
                let tick = seconds / last.wrapping_sub(*first).max(1) as f64;
                let spans = counts.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]));
                let own = spans.zip(&of_marks).filter(|(_, at)| **at == Some(layer));
                Some(own.map(|(span, _)| span).sum::<u64>() as f64 * tick)
            };
            calls.iter().filter_map(of).reduce(f64::min).unwrap_or(0.0)
        };
        let layer = |at: usize| Self {
            name: layers.layers[at].name.clone(),
            at: layers.layers[at].at.clone(),
            seconds: seconds(at),
            macs: layers.layers[at].macs.filter(|n| *n > 0),
        };
        order.into_iter().map(layer).collect()
    }

    /// Thousands of millions of floating-point operations in a second.
    pub fn rate(&self) -> Option<f64> {
        Some(2.0 * self.macs? as f64 / self.seconds.max(1e-12) / 1e9)
    }

    /// A table with a line for each.
    pub(crate) fn show(layers: &[Self], f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if layers.is_empty() {
            return Ok(());
        }
        let width = layers.iter().map(|l| l.name.chars().count()).max();
        let width = width.unwrap_or(0).clamp(5, crate::layers::WIDEST);
        let all: f64 = layers.iter().map(|l| l.seconds).sum();
        writeln!(
            f,
            "\n  {:width$} {:>10} {:>7} {:>9}",
            "layer", "us", "share", "GFLOP/s"
        )?;
        for layer in layers {
            let name = crate::layers::tail(&layer.name, width);
            let share = format!("{:.1} %", 100.0 * layer.seconds / all.max(1e-12));
            let rate = layer
                .rate()
                .map_or(String::new(), |rate| format!("{rate:.1}"));
            let line = format!(
                "  {name:width$} {:>10.1} {share:>7} {rate:>9}",
                layer.seconds * 1e6
            );
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}
