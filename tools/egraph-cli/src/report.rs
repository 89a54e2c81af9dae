//! What came of an extraction.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

/// What came of an extraction, as `--json` writes it.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The file.
    pub file: String,
    /// E-nodes in it.
    pub nodes: usize,
    /// E-classes in it.
    pub classes: usize,
    /// Roots in it.
    pub roots: usize,
    /// The chosen nodes' cost, each once.
    pub cost: f64,
    /// No choice costs less.
    pub bound: f64,
    /// How far the cost is above the bound, in parts of the cost.
    pub gap: f64,
    /// Whether no choice is cheaper, to the precision of the sums.
    pub optimal: bool,
    /// Whether what is chosen computes the roots without a cycle.
    pub acyclic: bool,
    /// The cost that bottom-up extraction by the cost of trees has.
    pub bottom_up: f64,
    /// How the choice was found.
    pub method: String,
    /// Steps of search.
    pub steps: u64,
    /// Seconds that extraction took, without reading the file.
    pub seconds: f64,
    /// The id of the chosen node of each class that is needed.
    pub choice: BTreeMap<String, String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let yes = |b: bool| if b { "yes" } else { "no" };
        let (nodes, classes, roots) = (self.nodes, self.classes, self.roots);
        let plural = |n: usize| if n == 1 { "" } else { "s" };
        writeln!(f, "file      {}", self.file)?;
        writeln!(
            f,
            "e-graph   {nodes} nodes in {classes} classes, {roots} root{}",
            plural(roots)
        )?;
        writeln!(f, "cost      {}", self.cost)?;
        writeln!(f, "bound     {}", self.bound)?;
        writeln!(f, "gap       {:.4} %", self.gap * 100.0)?;
        writeln!(f, "optimal   {}", yes(self.optimal))?;
        writeln!(f, "acyclic   {}", yes(self.acyclic))?;
        writeln!(f, "bottom-up {}", self.bottom_up)?;
        writeln!(f, "chosen    {} nodes", self.choice.len())?;
        writeln!(f, "method    {}, {} steps", self.method, self.steps)?;
        writeln!(f, "time      {:.3} s", self.seconds)
    }
}
