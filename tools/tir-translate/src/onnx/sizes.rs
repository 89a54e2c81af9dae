//! What the command line says of a model's inputs: sizes, and inputs that are constants.
//!
//! A model may leave dimensions open, by name or without one. [`OnnxOptions`] fill them in before the
//! import; [`open`] says what is still open, all at once, and what would fill it in.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tir_core::Diagnostic;
use tir_data::{DataError, npy};
use tir_onnx::{Dim, ElementType, Graph, Model, Value, ValueType};

use super::numbers;

/// How an ONNX model is imported.
#[derive(clap::Args, Clone, Debug)]
pub struct OnnxOptions {
    /// Sizes of an input of the model: --shape x=1x3x48x192; x= is a single number.
    #[arg(long = "shape", value_name = "INPUT=SIZES")]
    pub shapes: Vec<String>,
    /// The size that a name stands for in the shapes of inputs: --dim N=1.
    #[arg(long = "dim", value_name = "NAME=SIZE")]
    pub dims: Vec<String>,
    /// Make an input a constant: a number, numbers with commas between them, or a .npy file.
    #[arg(long = "bind", value_name = "INPUT=VALUE")]
    pub bound: Vec<String>,
    /// Most steps of a Loop, a Scan or a recurrent operator that is written out, one after the other, and of a loop that data end.
    #[arg(long, value_name = "STEPS", default_value_t = 1024)]
    pub max_steps: usize,
    /// Most nodes that steps are written out to, or branches of which both are computed; longer ones become loops and branches
    /// of the program.
    #[arg(long, value_name = "NODES", default_value_t = MAX_WRITTEN)]
    pub max_written: usize,
    /// Most numbers in a table that an operator is put together with: positions, masks, weights of an interpolation.
    #[arg(long, value_name = "NUMBERS", default_value_t = MAX_TABLE)]
    pub max_table: usize,
    /// Most nodes that are imported, those of functions and of steps that are written out counted each time.
    #[arg(long, value_name = "NODES", default_value_t = MAX_NODES)]
    pub max_nodes: usize,
}

const MAX_TABLE: usize = 1 << 24;
const MAX_WRITTEN: usize = 128;
const MAX_NODES: usize = 1_000_000;

impl Default for OnnxOptions {
    fn default() -> Self {
        Self {
            shapes: Vec::new(),
            dims: Vec::new(),
            bound: Vec::new(),
            max_steps: 1024,
            max_written: MAX_WRITTEN,
            max_table: MAX_TABLE,
            max_nodes: MAX_NODES,
        }
    }
}

impl OnnxOptions {
    /// What a program depends on of these options, as text: of the file that an input is bound to its content, not its name.
    /// None if it cannot be read.
    pub fn key(&self) -> Option<String> {
        let mut key = format!(
            "{:?} {:?} {} {} {} {}",
            self.shapes,
            self.dims,
            self.max_steps,
            self.max_written,
            self.max_table,
            self.max_nodes
        );
        for text in &self.bound {
            match text.split_once('=') {
                Some((name, file)) if is_file(file) => {
                    let array = npy::read(Path::new(file)).ok()?;
                    let (dtype, shape) = (array.dtype(), array.shape());
                    key += &format!(" {name:?} {dtype} {shape:?} {}", array.sha256());
                }
                _ => key += &format!(" {text:?}"),
            }
        }
        Some(key)
    }

    /// The sizes and values that are given, as on a command line.
    pub(super) fn given(&self) -> Option<String> {
        let words = |option: &'static str, list: &[String]| -> Vec<String> {
            list.iter()
                .map(|text| format!("--{option} {text}"))
                .collect()
        };
        let all = [
            words("shape", &self.shapes),
            words("dim", &self.dims),
            words("bind", &self.bound),
        ]
        .concat();
        (!all.is_empty()).then(|| all.join(" "))
    }

    /// Fills in what is given; what names something that the model does not have is an error.
    pub(super) fn apply(&self, model: &mut Model) -> Result<(), Vec<DataError>> {
        let mut errors = Vec::new();
        let mut dims = BTreeMap::new();
        for (option, texts) in [
            ("--bind", &self.bound),
            ("--shape", &self.shapes),
            ("--dim", &self.dims),
        ] {
            for text in texts {
                let done = match text.split_once('=') {
                    None => Err("expected NAME=VALUE".to_string()),
                    Some((name, value)) => match option {
                        "--bind" => bind(&mut model.graph, name, value),
                        "--shape" => reshape(&mut model.graph, name, value, &mut dims),
                        _ => dim(model, name, value, &mut dims),
                    },
                };
                if let Err(why) = done {
                    errors.push(DataError::at_part(format!("option '{option} {text}'"), why));
                }
            }
        }
        for (name, size) in &dims {
            set(&mut model.graph, name, *size);
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(errors)
        }
    }
}

fn position(graph: &Graph, name: &str) -> Result<usize, String> {
    let at = graph.inputs.iter().position(|input| input.name == name);
    at.ok_or_else(|| {
        let names: Vec<String> = graph
            .inputs
            .iter()
            .map(|i| format!("'{}'", i.name))
            .collect();
        format!(
            "the model has no input '{name}', but {}",
            match names.is_empty() {
                true => "none at all".to_string(),
                false => names.join(", "),
            }
        )
    })
}

/// Whether the value of a bound input is a file.
fn is_file(value: &str) -> bool {
    Path::new(value).extension().is_some_and(|e| e == "npy")
}

/// An input becomes a constant.
fn bind(graph: &mut Graph, name: &str, text: &str) -> Result<(), String> {
    let at = position(graph, name)?;
    let ValueType::Tensor(ty) = &graph.inputs[at].ty else {
        return Err(format!("the input is a {}", graph.inputs[at].ty));
    };
    let Some(dtype) = ty.element.dtype() else {
        return Err(format!("the input has elements of {}", ty.element));
    };
    let array = if is_file(text) {
        npy::read(Path::new(text)).map_err(|e| e.to_string())?
    } else {
        let parts: Vec<&str> = text.split(',').map(str::trim).collect();
        let values: Result<Vec<f64>, _> = parts.iter().map(|p| p.parse::<f64>()).collect();
        let values = values.map_err(|_| format!("'{text}' is no list of numbers"))?;
        let shape = match (ty.shape.as_deref(), values.len()) {
            (Some([]) | None, 1) => vec![],
            (Some(dims), 1) => vec![1; dims.len()],
            (_, n) => vec![n],
        };
        numbers::array(dtype, &shape, &values).map_err(|e| e.message)?
    };
    if array.dtype() != dtype {
        return Err(format!(
            "the value has elements of {}, the input of {dtype}",
            array.dtype()
        ));
    }
    fits(ty.shape.as_deref(), array.shape())?;
    graph.inputs.remove(at);
    graph.initializers.insert(name.to_string(), array);
    Ok(())
}

/// Whether sizes are what a shape leaves open.
fn fits(stated: Option<&[Dim]>, sizes: &[usize]) -> Result<(), String> {
    let Some(stated) = stated else { return Ok(()) };
    let fits = stated.len() == sizes.len()
        && stated
            .iter()
            .zip(sizes)
            .all(|(dim, size)| !matches!(dim, Dim::Known(known) if known != size));
    match fits {
        true => Ok(()),
        false => Err(format!(
            "the model says {}, which {} is not",
            text(stated),
            joined(sizes)
        )),
    }
}

fn joined(sizes: &[usize]) -> String {
    match sizes {
        [] => "a single number".to_string(),
        sizes => sizes
            .iter()
            .map(usize::to_string)
            .collect::<Vec<_>>()
            .join("x"),
    }
}

fn text(dims: &[Dim]) -> String {
    let dim = |dim: &Dim| match dim {
        Dim::Known(n) => n.to_string(),
        Dim::Param(name) => name.clone(),
        Dim::Unknown => "?".to_string(),
    };
    match dims {
        [] => "a single number".to_string(),
        dims => dims.iter().map(dim).collect::<Vec<_>>().join("x"),
    }
}

/// The sizes of an input, and with them what the names of its dimensions stand for.
fn reshape(
    graph: &mut Graph,
    name: &str,
    sizes: &str,
    dims: &mut BTreeMap<String, usize>,
) -> Result<(), String> {
    let at = position(graph, name)?;
    let ValueType::Tensor(ty) = &mut graph.inputs[at].ty else {
        return Err(format!("the input is a {}", graph.inputs[at].ty));
    };
    let sizes: Result<Vec<usize>, _> = match sizes {
        "" => Ok(vec![]),
        sizes => sizes.split('x').map(str::parse).collect(),
    };
    let sizes = sizes.map_err(|_| "expected sizes with x between them".to_string())?;
    fits(ty.shape.as_deref(), &sizes)?;
    for (dim, size) in ty.shape.iter().flatten().zip(&sizes) {
        if let Dim::Param(name) = dim {
            let known = dims.insert(name.clone(), *size);
            if let Some(other) = known.filter(|other| other != size) {
                return Err(format!("'{name}' is {other} and {size}"));
            }
        }
    }
    ty.shape = Some(sizes.into_iter().map(Dim::Known).collect());
    Ok(())
}

fn dim(
    model: &Model,
    name: &str,
    size: &str,
    dims: &mut BTreeMap<String, usize>,
) -> Result<(), String> {
    let size: usize = size.parse().map_err(|_| format!("'{size}' is no size"))?;
    let names = names(&model.graph);
    if !names.contains(name) && !dims.contains_key(name) {
        let list: Vec<String> = names.iter().map(|n| format!("'{n}'")).collect();
        let list = match list.is_empty() {
            true => "none".to_string(),
            false => list.join(", "),
        };
        return Err(format!(
            "no input has a dimension of the name '{name}'; open are {list}"
        ));
    }
    match dims.insert(name.to_string(), size) {
        Some(other) if other != size => Err(format!("'{name}' is {other} and {size}")),
        _ => Ok(()),
    }
}

/// The names of dimensions of inputs.
fn names(graph: &Graph) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    for input in &graph.inputs {
        if let ValueType::Tensor(ty) = &input.ty {
            names.extend(ty.shape.iter().flatten().filter_map(|dim| match dim {
                Dim::Param(name) => Some(name.as_str()),
                _ => None,
            }));
        }
    }
    names
}

/// Every dimension of this name has that size.
fn set(graph: &mut Graph, name: &str, size: usize) {
    let values = graph.inputs.iter_mut().chain(&mut graph.outputs);
    let types = values.map(|value| &mut value.ty);
    for ty in types.chain(graph.value_types.values_mut()) {
        if let ValueType::Tensor(ty) = ty {
            for dim in ty.shape.iter_mut().flatten() {
                if matches!(dim, Dim::Param(found) if found == name) {
                    *dim = Dim::Known(size);
                }
            }
        }
    }
}

/// Whether all of an input's type is known.
pub(super) fn is_open(input: &Value) -> bool {
    match &input.ty {
        ValueType::Tensor(ty) => ty.element != ElementType(0) && ty.static_shape().is_none(),
        _ => false,
    }
}

/// What has to be given for the inputs of a model: sizes, and values that shapes depend on. `None` if all is known.
pub(super) fn open(model: &Model, asked: &BTreeSet<String>) -> Option<Diagnostic> {
    let open: Vec<&Value> = model
        .graph
        .inputs
        .iter()
        .filter(|input| is_open(input) && !asked.contains(&input.name))
        .collect();
    if open.is_empty() && asked.is_empty() {
        return None;
    }
    let mut words = Vec::new();
    let mut notes = Vec::new();
    let mut names = BTreeSet::new();
    for input in &open {
        let ValueType::Tensor(ty) = &input.ty else {
            continue;
        };
        notes.push(format!("input '{}' is a {}", input.name, input.ty));
        match &ty.shape {
            Some(dims) if !dims.contains(&Dim::Unknown) => {
                names.extend(dims.iter().filter_map(|dim| match dim {
                    Dim::Param(name) => Some(name.clone()),
                    _ => None,
                }));
            }
            // What stands for a size is for the user to say.
            Some(dims) => {
                let dims = dims.iter().map(|dim| match dim {
                    Dim::Known(n) => n.to_string(),
                    _ => "1".to_string(),
                });
                let sizes = dims.collect::<Vec<_>>().join("x");
                words.push(format!("--shape {}", quoted(&input.name, &sizes)));
            }
            None => words.push(format!("--shape {}", quoted(&input.name, "1"))),
        }
    }
    let dims = names
        .iter()
        .map(|name| format!("--dim {}", quoted(name, "1")));
    let words: Vec<String> = dims
        .chain(words)
        .chain(
            asked
                .iter()
                .map(|name| format!("--bind {}", quoted(name, "VALUE"))),
        )
        .collect();
    for name in asked {
        notes.push(format!(
            "input '{name}' has to be a constant: sizes or branches depend on it"
        ));
    }
    let (count, what) = match open.len() + asked.len() {
        1 => (1, "input is not known well enough"),
        n => (n, "inputs are not known well enough"),
    };
    let mut error = Diagnostic::error(format!("{count} {what} for shapes to be inferred"));
    for note in notes {
        error = error.note(note);
    }
    Some(error.note(format!(
        "these options would do, with what is wanted in the place of each 1 and VALUE: {}",
        words.join(" ")
    )))
}

/// `name=value`, for a shell.
fn quoted(name: &str, value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./:-".contains(c);
    match name.chars().all(plain) {
        true => format!("{name}={value}"),
        false => format!("'{name}={value}'"),
    }
}
