//! The walk over a model: names to values, nodes to ops, errors collected.
//!
//! Terms: a node's *meaning* is an importer of this crate for its operator and version, or a body of
//! nodes that stand for it, which are imported in its place ([`super::bodies`]); a *scope* is what names
//! mean, and which version of the operator set nodes are of. What comes from a node that could not be
//! imported is *broken*: said once is enough.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use tir_core::{Attr, BlockId, Diagnostic, Ir, Loc, LocData, Name, Type, Value};
use tir_data::{Array, DataError};
use tir_onnx::{ElementType, Model, Node, ValueType};

use super::bodies::{self, Library, Means};
use super::opsets;
use super::report::Report;
use super::sizes::{self, OnnxOptions};
use super::stated::{self, Shapes};
use super::{assume, open};

/// The largest size of a dimension, and number that says a window: a product of two is an `i64`.
pub(super) const LARGEST: i64 = 1 << 31;

/// What an ONNX name stands for.
#[derive(Clone)]
pub(super) enum Meaning {
    /// A value of the function.
    Value(Value),
    /// Elements; an op is made for them where they are used as a value.
    Constant(Array),
    /// The result of a node that could not be imported: said once is enough.
    Broken,
}

/// What names mean, in a graph or in a body.
#[derive(Default)]
pub(super) struct Scope {
    pub names: HashMap<String, Meaning>,
    /// The ops that were made for constants.
    pub made: HashMap<String, Value>,
    /// The version of ONNX's own operators that nodes are of.
    pub opset: i64,
    /// The shapes that the file states.
    pub stated: Shapes,
}

/// The function in the making, as the importers of nodes see it.
pub(super) struct Cx<'m> {
    pub(super) ir: Ir,
    /// Where ops go: the function's block, or that of a loop or branch that is being made.
    pub(super) block: BlockId,
    /// The function's block.
    pub(super) around: BlockId,
    /// The location of the node at hand.
    pub(super) loc: Loc,
    pub(super) scope: Scope,
    pub(super) library: Library<'m>,
    /// The nodes whose bodies are being imported, outermost first.
    pub(super) within: Vec<String>,
    /// How many nodes were imported.
    imported: usize,
    pub(super) report: Report,
    /// What was taken for granted.
    pub(super) remarks: Vec<Diagnostic>,
    pub(super) path: Option<PathBuf>,
    /// The names of the arguments.
    arguments: Vec<String>,
    /// Inputs that sizes depend on, and that therefore have to be constants.
    pub(super) asked: RefCell<BTreeSet<String>>,
    pub(super) options: &'m OnnxOptions,
}

/// What went wrong with a node; `None` if it was said before.
pub(super) type Outcome<T> = Result<T, Option<DataError>>;

/// The module, and what was taken for granted.
pub(super) fn import(
    model: &Model,
    options: &OnnxOptions,
) -> Result<(Ir, Vec<Diagnostic>), Vec<Diagnostic>> {
    let path = model.path.as_deref();
    let opset = model.opset.get("").copied().unwrap_or(1);
    if !(1..=opsets::NEWEST).contains(&opset) {
        let newest = opsets::NEWEST;
        let why = format!("the model is of opset {opset}, expected 1 to {newest}");
        return Err(vec![at(path, DataError::new(why))]);
    }
    let mut model = model.clone();
    let applied = options.apply(&mut model);
    applied.map_err(|errors| -> Vec<Diagnostic> {
        errors.into_iter().map(|e| at(path, e)).collect()
    })?;
    let mut report = Report::default();
    let (mut types, mut arguments) = (Vec::new(), Vec::new());
    for input in &model.graph.inputs {
        match static_type(&input.ty) {
            Ok(ty) => {
                types.push(ty);
                arguments.push(input.name.clone());
            }
            Err(_) if sizes::is_open(input) => {}
            Err(why) => report.input(&input.name, why),
        }
    }
    let (ir, block) = tir_func::function("main", Type::function(types, []));
    let mut cx = Cx {
        ir,
        block,
        around: block,
        loc: Loc::UNKNOWN,
        scope: Scope {
            opset,
            stated: stated::shapes(&model.graph, Shapes::new()),
            ..Scope::default()
        },
        library: Library::new(&model),
        within: Vec::new(),
        imported: 0,
        report,
        remarks: Vec::new(),
        path: model.path.clone(),
        arguments,
        asked: RefCell::default(),
        options,
    };
    cx.begin(&model);
    cx.nodes(&model.graph.nodes);
    let outputs = cx.end(&model);
    cx.drop_constants();
    let asked = cx.asked.take();
    let mut errors = std::mem::take(&mut cx.report).finish(path, options.given());
    errors.extend(sizes::open(&model, &asked).map(|e| named(path, e)));
    errors.extend(outputs.into_iter().map(|e| at(path, e)));
    if !errors.is_empty() {
        return Err(errors);
    }
    let remarks = std::mem::take(&mut cx.remarks);
    let (mut module, body) = tir_builtin::module();
    module.adopt(body, cx.ir);
    match tir_core::verify(&module) {
        Ok(()) => Ok((module, remarks)),
        Err(errors) => Err(errors.into_iter().map(|e| placed(path, e)).collect()),
    }
}

/// What the verifier says of an op, with the node that it was made for and the file.
fn placed(path: Option<&Path>, error: Diagnostic) -> Diagnostic {
    let node = match error.loc.data() {
        LocData::Named(name, _) => Some(format!("node '{name}'")),
        _ => None,
    };
    let said = match node {
        Some(node) => DataError::at_part(node, error.message.clone()),
        None => DataError::new(error.message.clone()),
    };
    Diagnostic {
        message: at(path, said).message,
        ..error
    }
}

pub(super) fn at(path: Option<&Path>, error: DataError) -> Diagnostic {
    let error = match path {
        Some(path) => error.in_file(path),
        None => error,
    };
    Diagnostic::error(error.to_string())
}

fn named(path: Option<&Path>, error: Diagnostic) -> Diagnostic {
    Diagnostic {
        message: at(path, DataError::new(error.message.clone())).message,
        ..error
    }
}

fn static_type(ty: &ValueType) -> Result<Type, String> {
    let refuse = || format!("is a {ty}, expected a tensor of known shape");
    let ValueType::Tensor(tensor) = ty else {
        return Err(refuse());
    };
    let shape = tensor.static_shape().ok_or_else(refuse)?;
    let elem = elem_type(tensor.element).ok_or_else(refuse)?;
    if let Some(d) = shape.iter().find(|d| **d > LARGEST as usize) {
        return Err(format!(
            "has a dimension of {d}, expected {LARGEST} at most"
        ));
    }
    let ty = Type::tensor(shape.iter().map(|d| *d as i64).collect::<Vec<_>>(), elem);
    ty.elements().ok_or_else(refuse)?;
    Ok(ty)
}

fn elem_type(element: ElementType) -> Option<Type> {
    Some(tir_interp::elem_of(element.dtype()?))
}

impl<'m> Cx<'m> {
    fn begin(&mut self, model: &Model) {
        let args: Vec<Value> = self.ir.args(self.block).collect();
        for (name, arg) in self.arguments.clone().into_iter().zip(args) {
            self.hint(arg, &name);
            self.scope.names.insert(name, Meaning::Value(arg));
        }
        for input in &model.graph.inputs {
            let names = &mut self.scope.names;
            names.entry(input.name.clone()).or_insert(Meaning::Broken);
        }
        for (name, array) in &model.graph.initializers {
            self.name(name, Meaning::Constant(array.clone()));
        }
    }

    /// Imports nodes, one after the other. What goes wrong is reported.
    pub(super) fn nodes(&mut self, nodes: &[Node]) {
        for node in nodes {
            // Functions of functions, and branches of branches, may double at each depth.
            let most = self.options.max_nodes;
            self.imported = self.imported.saturating_add(1);
            if self.imported > most {
                if self.imported == most + 1 {
                    let text = format!(
                        "is beyond the first {most} nodes, those of functions and of steps counted each time; --max-nodes says otherwise"
                    );
                    self.report.failure(&self.within, node, node.error(text));
                }
                for output in node.outputs.iter().flatten() {
                    self.name(output, Meaning::Broken);
                }
                continue;
            }
            // Ops of a body are at the node that it belongs to.
            if self.within.is_empty() {
                self.loc = Loc::new(LocData::Named(Name::new(&node.title()), Loc::UNKNOWN));
            }
            let last = self.ir.last(self.block);
            let means = self.library.means(node, self.scope.opset);
            let done = match means {
                Means::Importer(importer) => self
                    .by_meaning(node, &mut |cx| importer(cx, node))
                    .map(|()| true),
                Means::Body(body) => self
                    .by_meaning(node, &mut |cx| bodies::call(cx, node, body))
                    .map(|()| false),
                Means::Nothing(why) => {
                    self.report.unsupported(node, why);
                    Err(None)
                }
            };
            match done {
                Ok(true) => {
                    let made = self.since(last);
                    self.fold(node, &made);
                }
                Ok(false) => {}
                Err(error) => {
                    if let Some(error) = error {
                        self.report.failure(&self.within, node, error);
                    }
                    for output in node.outputs.iter().flatten() {
                        self.name(output, Meaning::Broken);
                    }
                }
            }
        }
    }

    /// Imports a node, by cases if it has operands that should be constants.
    fn by_meaning(&mut self, node: &Node, import: assume::Import<'_, 'm>) -> Outcome<()> {
        match open::cases(self, node)? {
            Some(cases) => assume::by_cases(self, node, cases, import),
            None => import(self),
        }
    }

    /// Returns the outputs and says the signature.
    fn end(&mut self, model: &Model) -> Vec<DataError> {
        self.loc = Loc::UNKNOWN;
        let mut errors = Vec::new();
        let mut operands = Vec::new();
        for output in &model.graph.outputs {
            let part = format!("output '{}'", output.name);
            match self.value(&output.name) {
                Ok(value) => {
                    let found = self.ir.ty(value);
                    if let Ok(stated) = static_type(&output.ty)
                        && stated != found
                    {
                        let why = format!("is stated as {stated}, but is computed as {found}");
                        errors.push(DataError::at_part(part, why));
                    }
                    operands.push(value);
                }
                Err(Some(error)) => errors.push(error.in_part(part)),
                Err(None) => {}
            }
        }
        let results: Vec<Type> = operands.iter().map(|v| self.ir.ty(*v)).collect();
        self.ir.add(self.block, tir_func::Return { operands });
        let root = self.ir.root();
        let args: Vec<Type> = self.ir.args(self.block).map(|v| self.ir.ty(v)).collect();
        self.ir.set_attr(
            root,
            "function_type",
            Attr::ty(Type::function(args, results)),
        );
        errors
    }

    /// An error for operand `k` of a node, which is not the constant that it has to be; inputs that it depends on
    /// are asked for.
    pub(super) fn not_constant<T>(&self, node: &Node, k: usize, why: &str) -> Outcome<T> {
        let value = match node.input(k).map(|name| self.scope.names.get(name)) {
            Some(Some(Meaning::Value(value))) => *value,
            Some(Some(Meaning::Constant(_))) | None => return Err(Some(node.error(why))),
            Some(Some(Meaning::Broken) | None) => return Err(None),
        };
        let (mut wait, mut seen, mut inputs) = (vec![value], BTreeSet::new(), BTreeSet::new());
        while let Some(value) = wait.pop() {
            match self.ir.owner(value) {
                Some(op) => {
                    if seen.insert(op) {
                        wait.extend(self.ir.operands(op));
                    }
                }
                None => {
                    let at = self.ir.args(self.around).position(|arg| arg == value);
                    inputs.extend(at.and_then(|at| self.arguments.get(at)).cloned());
                }
            }
        }
        let list: Vec<String> = inputs.iter().map(|name| format!("'{name}'")).collect();
        if list.is_empty() {
            return Err(Some(
                node.error(format!("{why}: it is computed by the program")),
            ));
        }
        let what = if list.len() == 1 { "input" } else { "inputs" };
        self.asked.borrow_mut().extend(inputs);
        Err(Some(node.error(format!(
            "{why}: it depends on {what} {}",
            list.join(", ")
        ))))
    }
}
