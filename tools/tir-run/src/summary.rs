//! What a person wants to know of a run, as text and as JSON.

use std::fmt;

use serde::Serialize;
use tir::grouped;

use crate::machine::MachineSummary;
use crate::native::NativeLayer;
use crate::timeline::Timeline;

/// An account of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The program.
    pub file: String,
    /// The function.
    pub function: String,
    /// Inputs in the order of arguments.
    pub inputs: Vec<InputSummary>,
    /// Outputs: results, then arguments marked `func.out`.
    pub outputs: Vec<OutputSummary>,
    /// Whether every output that was compared is within tolerance.
    pub ok: bool,
    /// Time of the run on this computer.
    pub seconds: f64,
    /// Relative tolerance.
    pub rtol: f64,
    /// Absolute tolerance.
    pub atol: f64,
    /// The account of the machine, if the program ran on one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineSummary>,
    /// The time of each layer of native code, if it was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<NativeLayer>,
    /// The timeline of the machine, if it was asked for.
    #[serde(skip)]
    pub timeline: Option<Timeline>,
    /// Whether the text shows the full account of the machine.
    #[serde(skip)]
    pub timing: bool,
}

/// An input.
#[derive(Clone, Debug, Serialize)]
pub struct InputSummary {
    /// The number of its argument.
    pub argument: usize,
    /// Its type.
    #[serde(rename = "type")]
    pub ty: String,
    /// A path, or `random N`.
    pub source: String,
}

/// An output.
#[derive(Clone, Debug, Serialize)]
pub struct OutputSummary {
    /// Its number.
    pub output: usize,
    /// Its type.
    #[serde(rename = "type")]
    pub ty: String,
    /// Where it was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The comparison, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compared: Option<Compared>,
    /// The value, if it is one element.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
}

/// How an output differs from what was expected.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// The file with what was expected.
    pub with: String,
    /// Whether all elements are within tolerance.
    pub ok: bool,
    /// Why nothing was compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incomparable: Option<String>,
    /// Elements.
    pub elements: usize,
    /// Elements beyond tolerance.
    pub mismatches: usize,
    /// The largest |actual - expected|; null if it is not finite.
    pub max_abs_error: f64,
    /// The largest |actual - expected| / |expected|; null if it is not finite.
    pub max_rel_error: f64,
    /// The element furthest beyond its tolerance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst: Option<Worst>,
}

/// One element.
#[derive(Clone, Debug, Serialize)]
pub struct Worst {
    /// Its index per dimension.
    pub index: Vec<usize>,
    /// The actual value; null if it is not finite.
    pub actual: f64,
    /// The expected value; null if it is not finite.
    pub expected: f64,
}

impl Compared {
    /// The account of a comparison with a file.
    pub fn new(with: String, c: &tir_data::Comparison) -> Self {
        Self {
            with,
            ok: c.ok,
            incomparable: c.incomparable.clone(),
            elements: c.elements,
            mismatches: c.mismatches,
            max_abs_error: c.max_abs_error,
            max_rel_error: c.max_rel_error,
            worst: c.worst.as_ref().map(|w| Worst {
                index: w.index.clone(),
                actual: w.actual,
                expected: w.expected,
            }),
        }
    }
}

/// A time for people.
pub(crate) fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.1} us", s * 1e6),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} {} ran in {}",
            self.file,
            self.function,
            time(self.seconds)
        )?;
        let types = self
            .inputs
            .iter()
            .map(|i| &i.ty)
            .chain(self.outputs.iter().map(|o| &o.ty));
        let width = types.map(|ty| ty.chars().count()).max().unwrap_or(0);
        for input in &self.inputs {
            let InputSummary {
                argument,
                ty,
                source,
            } = input;
            writeln!(f, "  input  {argument}  {ty:width$}  {source}")?;
        }
        for output in &self.outputs {
            let line = format!(
                "  output {}  {:width$}  {}",
                output.output,
                output.ty,
                output.says()
            );
            writeln!(f, "{}", line.trim_end())?;
            if let Some(compared) = &output.compared {
                writeln!(f, "            {compared}")?;
            }
        }
        let compared: Vec<&Compared> = self
            .outputs
            .iter()
            .filter_map(|o| o.compared.as_ref())
            .collect();
        if !compared.is_empty() {
            let Self { rtol, atol, .. } = self;
            let alike = compared.iter().filter(|c| c.incomparable.is_none());
            let largest = alike.map(|c| c.max_abs_error).reduce(f64::max);
            let good = if self.ok { "agrees" } else { "DIFFERS" };
            match largest {
                Some(largest) => writeln!(
                    f,
                    "  {good} (rtol {rtol:e}, atol {atol:e}); largest error {largest:.2e}"
                )?,
                None => writeln!(f, "  {good}: of another type, no elements were compared")?,
            }
        }
        if let Some(machine) = &self.machine {
            writeln!(f)?;
            machine.show(f, self.timing)?;
        }
        NativeLayer::show(&self.layers, f)?;
        Ok(())
    }
}

impl OutputSummary {
    fn says(&self) -> String {
        match (&self.file, self.value) {
            (Some(file), Some(value)) => format!("{file}  = {value}"),
            (Some(file), None) => file.clone(),
            (None, Some(value)) => format!("= {value}"),
            (None, None) => String::new(),
        }
    }
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let with = &self.with;
        if let Some(why) = &self.incomparable {
            return write!(f, "cannot be compared with {with}: {why}");
        }
        let Some(worst) = &self.worst else {
            return write!(f, "equals {with}");
        };
        let (abs, rel) = (self.max_abs_error, self.max_rel_error);
        let sign = if self.ok {
            "is close to"
        } else {
            "is not close to"
        };
        write!(
            f,
            "{sign} {with}: error at most {abs:.2e} (relative {rel:.2e})"
        )?;
        let Worst {
            index,
            actual,
            expected,
        } = worst;
        write!(f, ", worst at {index:?}: {actual}, expected {expected}")?;
        if self.mismatches > 0 {
            let (bad, all) = (
                grouped(self.mismatches as u64),
                grouped(self.elements as u64),
            );
            write!(f, "; {bad} of {all} elements beyond tolerance")?;
        }
        Ok(())
    }
}
