//! The interference graph: which buffers live at the same time.

use std::fmt::Write;

use fixedbitset::FixedBitSet;

use crate::problem::Buffer;

/// An undirected graph over buffers by number, without loops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interference {
    /// The neighbours of each buffer.
    rows: Vec<FixedBitSet>,
}

impl Interference {
    /// `len` buffers that do not interfere.
    pub fn new(len: usize) -> Interference {
        Interference {
            rows: vec![FixedBitSet::with_capacity(len); len],
        }
    }

    /// `len` buffers with the given edges; an edge out of range is left out.
    pub fn from_edges(len: usize, edges: impl IntoIterator<Item = (usize, usize)>) -> Interference {
        let mut graph = Interference::new(len);
        edges.into_iter().for_each(|(a, b)| graph.add(a, b));
        graph
    }

    /// Number of buffers.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no buffers.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds an edge; a loop, or an end out of range, adds nothing.
    pub fn add(&mut self, a: usize, b: usize) {
        if a != b && a < self.len() && b < self.len() {
            self.rows[a].insert(b);
            self.rows[b].insert(a);
        }
    }

    /// Whether two buffers interfere.
    pub fn has(&self, a: usize, b: usize) -> bool {
        self.rows.get(a).is_some_and(|row| row.contains(b))
    }

    /// Number of neighbours.
    pub fn degree(&self, a: usize) -> usize {
        self.rows[a].count_ones(..)
    }

    /// Neighbours in rising order.
    pub fn neighbours(&self, a: usize) -> impl Iterator<Item = usize> + '_ {
        self.rows[a].ones()
    }

    /// Edges `(a, b)` with `a < b` in rising order.
    pub fn edges(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.len()).flat_map(move |a| {
            self.neighbours(a)
                .filter(move |&b| a < b)
                .map(move |b| (a, b))
        })
    }

    /// One line a buffer: name, size, neighbours. Buffers are named by `buffers`.
    pub fn text(&self, buffers: &[Buffer]) -> String {
        let mut out = format!("{} buffers, {} edges\n", self.len(), self.edges().count());
        for (i, b) in buffers.iter().enumerate().take(self.len()) {
            let _ = write!(out, "{} ({} B):", b.name, b.size);
            for n in self.neighbours(i) {
                let _ = write!(out, " {}", buffers.get(n).map_or("?", |b| b.name.as_str()));
            }
            out.push('\n');
        }
        out
    }

    /// The graph in Graphviz's DOT.
    pub fn dot(&self, title: &str, buffers: &[Buffer]) -> String {
        let quoted = |s: &str| s.replace('\\', "\\\\").replace('"', "\\\"");
        let mut out = format!("graph \"{}\" {{\n  node [shape=box];\n", quoted(title));
        for (i, b) in buffers.iter().enumerate().take(self.len()) {
            let _ = writeln!(
                out,
                "  b{i} [label=\"{}\\n{} B\"];",
                quoted(&b.name),
                b.size
            );
        }
        for (a, b) in self.edges() {
            let _ = writeln!(out, "  b{a} -- b{b};");
        }
        out.push_str("}\n");
        out
    }
}
