//! What could not be imported, by cause.

use std::collections::BTreeMap;
use std::path::Path;

use tir_core::Diagnostic;
use tir_data::{DataError, ErrorPlace};
use tir_onnx::Node;

use super::import::at;

/// Nodes that are told of each cause by name.
const NAMED: usize = 3;

/// All that went wrong in one import.
#[derive(Clone, Default)]
pub(super) struct Report {
    /// Operators without a meaning: why, if more is known, and the nodes.
    unsupported: BTreeMap<String, (Option<String>, Vec<String>)>,
    /// Inputs of the model that cannot be arguments.
    inputs: Vec<DataError>,
    /// What was said of nodes, by operator and message, in the order in which they came up.
    failures: Vec<Failure>,
}

#[derive(Clone)]
struct Failure {
    op: String,
    first: DataError,
    /// The other nodes that the same is said of.
    more: Vec<String>,
}

impl Report {
    pub(super) fn input(&mut self, name: &str, why: String) {
        self.inputs
            .push(DataError::at_part(format!("input '{name}'"), why));
    }

    pub(super) fn unsupported(&mut self, node: &Node, why: Option<String>) {
        let (_, nodes) = self
            .unsupported
            .entry(node.op())
            .or_insert((why, Vec::new()));
        nodes.push(format!("'{}'", node.title()));
    }

    /// What is wrong with a node, in the bodies of others or none.
    pub(super) fn failure(&mut self, within: &[String], node: &Node, error: DataError) {
        let place = |place: &ErrorPlace| match within {
            [] => place.clone(),
            within => ErrorPlace::Part(format!("{}: {place}", within.join(": "))),
        };
        let first = DataError {
            place: error.place.as_ref().map(place),
            ..error
        };
        let known = self
            .failures
            .iter_mut()
            .find(|f| f.op == node.op() && f.first.message == first.message);
        match known {
            Some(failure) => failure.more.push(format!("'{}'", node.title())),
            None => self.failures.push(Failure {
                op: node.op(),
                first,
                more: Vec::new(),
            }),
        }
    }

    /// All of it: operators without a meaning in one diagnostic, then one for each cause.
    /// What went wrong behind sizes and values that were given names these.
    pub(super) fn finish(self, path: Option<&Path>, given: Option<String>) -> Vec<Diagnostic> {
        let mut errors = Vec::new();
        let failed = !self.failures.is_empty();
        errors.extend(unsupported(path, self.unsupported));
        errors.extend(self.inputs.into_iter().map(|e| at(path, e)));
        for Failure { first, more, .. } in self.failures {
            let mut error = at(path, first);
            if !more.is_empty() {
                let count = more.len();
                error = error.note(format!("the same of {}", counted(count, &more)));
            }
            errors.push(error);
        }
        if let Some(given) = given.filter(|_| failed)
            && let Some(last) = errors.pop()
        {
            errors.push(last.note(format!("with {given}: other sizes or values may do")));
        }
        errors
    }
}

/// `2 nodes, 'a', 'b'`.
fn counted(count: usize, names: &[String]) -> String {
    let what = if count == 1 { "node" } else { "nodes" };
    let more = if count > NAMED { ", …" } else { "" };
    let names: Vec<&str> = names.iter().take(NAMED).map(String::as_str).collect();
    format!("{count} {what}, {}{more}", names.join(", "))
}

fn unsupported(
    path: Option<&Path>,
    missing: BTreeMap<String, (Option<String>, Vec<String>)>,
) -> Option<Diagnostic> {
    let nodes: usize = missing.values().map(|(_, nodes)| nodes.len()).sum();
    let message = match (nodes, missing.len()) {
        (0, _) => return None,
        (1, _) => "1 node uses an operator that cannot be imported".to_string(),
        (_, 1) => format!("{nodes} nodes use 1 operator that cannot be imported"),
        (_, count) => format!("{nodes} nodes use {count} operators that cannot be imported"),
    };
    let mut error = at(path, DataError::new(message));
    for (op, (why, nodes)) in missing {
        let why = why.map_or(String::new(), |why| format!(" {why}"));
        error = error.note(format!("{op}{why}: {}", counted(nodes.len(), &nodes)));
    }
    Some(error)
}
