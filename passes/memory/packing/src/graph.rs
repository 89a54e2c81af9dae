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

    /// The graph as a picture: buffers on a circle, in the order of their numbers from the top on, a line for each edge. Pointing
    /// at a buffer shows its name, size and number of neighbours.
    pub fn svg(&self, title: &str, buffers: &[Buffer]) -> String {
        let text = |s: &str| {
            let s = s.replace('&', "&amp;").replace('<', "&lt;");
            s.replace('>', "&gt;").replace('"', "&quot;")
        };
        let count = self.len().min(buffers.len());
        // Room for a line of text for each buffer.
        let radius = (count as f64 * 16.0 / std::f64::consts::TAU).max(60.0);
        let (middle, side) = (radius + 180.0, 2.0 * radius + 360.0);
        let place = |i: usize, radius: f64| {
            let angle = (i as f64 / count.max(1) as f64 - 0.25) * std::f64::consts::TAU;
            (middle + radius * angle.cos(), middle + radius * angle.sin())
        };
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {side:.0} {side:.0}\" font-family=\"sans-serif\" font-size=\"11\">\n<title>{}</title>\n",
            text(title)
        );
        for (a, b) in self.edges().filter(|(_, b)| *b < count) {
            let ((x, y), (to_x, to_y)) = (place(a, radius), place(b, radius));
            let _ = writeln!(
                out,
                "<line x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{to_x:.1}\" y2=\"{to_y:.1}\" stroke=\"#888\" stroke-width=\"0.6\"/>"
            );
        }
        for (i, b) in buffers.iter().enumerate().take(count) {
            let ((x, y), (text_x, text_y)) = (place(i, radius), place(i, radius + 9.0));
            let anchor = if text_x < middle { "end" } else { "start" };
            let name = text(&b.name);
            let _ = writeln!(
                out,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"#346\"><title>{name}: {} B, {} neighbours</title></circle>\n<text x=\"{text_x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{name}</text>",
                b.size,
                self.degree(i),
                text_y + 4.0
            );
        }
        out.push_str("</svg>\n");
        out
    }
}
