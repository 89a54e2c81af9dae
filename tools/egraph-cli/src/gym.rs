//! E-graphs as JSON, in the format of egraph-serialize, which extraction-gym reads: `nodes` by id,
//! each with `op`, `cost` (1 if not said), `eclass` and `children` (ids of nodes; each stands for
//! its class), and `root_eclasses`. Nodes that are `chosen`, as `tir-opt` writes them, are a choice to begin with. Other keys are
//! ignored.

use std::collections::HashMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use tir::{Diagnostic, Loc, Name};
use tir_extraction::{Blocked, Choice, EGraph, Error, Node, Problem};

#[derive(Deserialize)]
#[serde(expecting = "an object with nodes and root_eclasses")]
struct File {
    nodes: Nodes,
    #[serde(default)]
    root_eclasses: Vec<String>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object with op and eclass")]
struct Record {
    op: String,
    #[serde(default = "one")]
    cost: f64,
    eclass: String,
    #[serde(default)]
    children: Vec<String>,
    #[serde(default)]
    chosen: bool,
}

fn one() -> f64 {
    1.0
}

/// An object in the order of the file, without doubles.
struct Nodes(Vec<(String, Record)>);

impl<'de> Deserialize<'de> for Nodes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Nodes, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Nodes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of nodes")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Nodes, A::Error> {
                let mut nodes = Vec::new();
                let mut seen = std::collections::HashSet::new();
                while let Some(id) = map.next_key::<String>()? {
                    if !seen.insert(id.clone()) {
                        return Err(A::Error::custom(format!("there are two nodes '{id}'")));
                    }
                    let record = map.next_value()?;
                    nodes.push((id, record));
                }
                Ok(Nodes(nodes))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// Reads the text of the file `name`: nodes in the order of the file, classes in the order of
/// their first mention. Beside it what is chosen in the file, by class.
///
/// # Errors
/// The first thing wrong, at its place: no JSON, another structure, two nodes of one id, a child
/// that is no node, a root without nodes, a cost that is negative.
pub fn read(name: Name, text: &str) -> Result<(EGraph, Choice), Diagnostic> {
    let file: File = serde_json::from_str(text).map_err(|e| {
        let message = e.to_string();
        let message = message.split(" at line ").next().unwrap_or_default();
        let (line, column) = (e.line().max(1) as u32, e.column().max(1) as u32);
        Diagnostic::error(message.to_string()).at(Loc::file(name, line, column))
    })?;
    let at = |key: &str, message: String| Diagnostic::error(message).at(place(name, text, key));
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut classes = Vec::new();
    let mut of_id = HashMap::new();
    for (id, record) in &file.nodes.0 {
        let class = *numbers.entry(&record.eclass).or_insert_with(|| {
            classes.push(record.eclass.clone());
            classes.len() - 1
        });
        of_id.insert(id.as_str(), class);
    }
    let mut nodes = Vec::new();
    let mut choice: Choice = vec![None; classes.len()];
    for (id, record) in &file.nodes.0 {
        let children = record.children.iter().map(|child| {
            let class = of_id.get(child.as_str()).copied();
            class.ok_or_else(|| {
                at(
                    id,
                    format!("node '{id}' has a child '{child}', which is no node"),
                )
            })
        });
        let children: Vec<usize> = children.collect::<Result<_, _>>()?;
        if record.chosen {
            choice[of_id[id.as_str()]].get_or_insert(nodes.len());
        }
        nodes.push(Node::new(of_id[id.as_str()], record.cost, children));
    }
    let roots = file.root_eclasses.iter().map(|root| {
        let class = numbers.get(root.as_str()).copied();
        class.ok_or_else(|| at("root_eclasses", format!("root class '{root}' has no node")))
    });
    let roots = roots.collect::<Result<_, _>>()?;
    let problem = Problem {
        classes: classes.len(),
        nodes,
        roots,
    };
    let (ids, ops) = file
        .nodes
        .0
        .iter()
        .map(|(id, r)| (id.clone(), r.op.clone()))
        .unzip();
    let graph = EGraph {
        problem,
        ids,
        ops,
        classes,
    };
    match graph.problem.check() {
        Ok(()) => Ok((graph, choice)),
        Err(error) => Err(explain(&graph, &error, name, text)),
    }
}

/// An error of extraction in the words of the file, at its place.
pub(crate) fn explain(graph: &EGraph, error: &Error, name: Name, text: &str) -> Diagnostic {
    let (key, message) = match error {
        Error::Cost { node, cost } => {
            let id = &graph.ids[*node];
            (
                id.as_str(),
                format!("node '{id}' costs {cost}, less than zero"),
            )
        }
        Error::Infeasible { root, path, why } => {
            let root = &graph.classes[*root];
            let path: Vec<String> = path
                .iter()
                .map(|&c| format!("'{}'", graph.classes[c]))
                .collect();
            let path = path.join(" needs ");
            let why = match why {
                Blocked::Empty => "has no node".to_string(),
                Blocked::Cycle(class) => format!("needs '{}' again", graph.classes[*class]),
            };
            let message =
                format!("root class '{root}' has no finite derivation: {path}, which {why}");
            ("root_eclasses", message)
        }
        Error::NoClass { .. } => ("nodes", error.to_string()),
    };
    Diagnostic::error(message).at(place(name, text, key))
}

/// Where `"key":` stands first.
fn place(name: Name, text: &str, key: &str) -> Loc {
    let quoted = serde_json::to_string(key).unwrap_or_default();
    let mut found = text.match_indices(&quoted);
    let found = found.find(|(at, _)| text[at + quoted.len()..].trim_start().starts_with(':'));
    let before = &text[..found.map_or(0, |(at, _)| at)];
    let line = before.matches('\n').count() as u32 + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() as u32 + 1;
    Loc::file(name, line, column)
}
