//! One self-contained page that shows where the cycles and bytes of a compiled network go.
//!
//! The page has no outside parts: data, script and style are in it. What it shows is what the machine model measured
//! ([`MachineSummary`], [`Timeline`]), the remarks of the passes, and the program at each level. A limit on its size is kept
//! by joining pieces of work and cutting texts, and the page says so.
#![forbid(unsafe_code)]

use serde::Serialize;
use tir_run::MachineSummary;
use tir_run::timeline::Timeline;

/// Stretches of work that a timeline shows at most, where nothing else is said.
pub const STRETCHES: usize = 10_000;

/// Bytes of the programs of all levels in a page at most, where nothing else is said.
pub const TEXT_BYTES: usize = 1_500_000;

/// What a page shows.
#[derive(Clone, Debug, Serialize)]
pub struct Page {
    /// The network.
    pub model: String,
    /// The machine.
    pub machine: String,
    /// What of the run is said at each level: level, file, whether it agrees, largest error.
    pub levels: Vec<Level>,
    /// The network before and after groups are chosen.
    pub graphs: Vec<Graph>,
    /// The account of the machine.
    pub summary: MachineSummary,
    /// What each cycle is counted as ([`Timeline::shares`]).
    pub shares: Vec<(&'static str, u64)>,
    /// What happened when.
    pub timeline: Timeline,
    /// What fills each memory at its fullest, why, and what would make it less, as text.
    pub memory: Vec<String>,
    /// What the passes said, costliest first.
    pub remarks: Vec<Remark>,
}

/// Nodes of a graph at most; a larger one is not drawn.
pub const NODES: usize = 3_000;

/// A program as a graph of its operators.
#[derive(Clone, Debug, Serialize)]
pub struct Graph {
    /// What it shows.
    pub title: String,
    /// Operators, each behind those that it reads.
    pub nodes: Vec<Node>,
}

/// An operator of a graph.
#[derive(Clone, Debug, Serialize)]
pub struct Node {
    /// The op, or what a group has.
    pub op: String,
    /// The type of what it computes.
    pub ty: String,
    /// The operators of the network that it is made of.
    pub at: Vec<String>,
    /// The nodes that it reads, by their numbers.
    pub from: Vec<usize>,
}

/// A program of one level.
#[derive(Clone, Debug, Serialize)]
pub struct Level {
    /// Its name.
    pub name: String,
    /// Its file.
    pub file: String,
    /// Its text, with locations; cut where it is too long.
    pub text: String,
    /// Lines that were cut.
    pub cut: usize,
    /// How it compares with what was expected.
    pub compared: String,
}

/// What a pass said.
#[derive(Clone, Debug, Serialize)]
pub struct Remark {
    /// Its category.
    pub category: String,
    /// What it says.
    pub message: String,
    /// The operators that it is about.
    pub places: Vec<String>,
    /// Its notes: the reason, and what would help.
    pub notes: Vec<String>,
    /// Cycles that it is about; 0 if that is not known.
    pub cycles: u64,
    /// How often it was said.
    pub times: usize,
}

impl Level {
    /// A program whose text is cut at the end of a line behind `most` bytes.
    pub fn new(name: &str, file: &str, text: &str, compared: String, most: usize) -> Self {
        let kept = match text.len() <= most {
            true => text,
            false => {
                let mut end = most;
                while !text.is_char_boundary(end) {
                    end -= 1;
                }
                &text[..text[..end].rfind('\n').map_or(0, |at| at + 1)]
            }
        };
        Self {
            name: name.to_string(),
            file: file.to_string(),
            cut: text[kept.len()..].lines().count(),
            text: kept.to_string(),
            compared,
        }
    }
}

impl Page {
    /// The page as HTML.
    ///
    /// # Errors
    /// If a number cannot be written as JSON.
    pub fn html(&self) -> Result<String, serde_json::Error> {
        // Nothing in the data ends the element it stands in.
        let data = serde_json::to_string(self)?.replace('<', "\\u003c");
        let title = format!("{} on {}", self.model, self.machine);
        let title = title.replace('&', "&amp;").replace('<', "&lt;");
        Ok([
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>",
            &title,
            "</title>\n<style>\n",
            include_str!("page.css"),
            "</style>\n</head>\n<body>\n",
            include_str!("page.html"),
            "<script id=\"data\" type=\"application/json\">",
            &data,
            "</script>\n<script>\n",
            include_str!("page.js"),
            "</script>\n</body>\n</html>\n",
        ]
        .concat())
    }
}
