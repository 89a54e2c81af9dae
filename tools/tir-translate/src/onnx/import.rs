//! The walk over a model: names to values, nodes to ops, errors collected.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use tir_core::{Attr, BlockId, Builder, Diagnostic, Ir, Loc, LocData, Name, Op, OpId, Type, Value};
use tir_data::{Array, DataError};
use tir_interp::Data;
use tir_onnx::{ElementType, Model, Node, ValueType};

use super::opsets;

/// What an ONNX name stands for.
#[derive(Clone)]
enum Meaning {
    /// A value of the function.
    Value(Value),
    /// Elements; an op is made for them where they are used as a value.
    Constant(Array),
    /// The result of a node that could not be imported: said once is enough.
    Broken,
}

/// The function in the making, as the importers of nodes see it.
pub(super) struct Cx {
    ir: Ir,
    block: BlockId,
    /// The location of the node at hand.
    loc: Loc,
    names: HashMap<String, Meaning>,
    made: HashMap<String, Value>,
}

/// What went wrong with a node; `None` if it was said before.
pub(super) type Outcome<T> = Result<T, Option<DataError>>;

pub(super) fn import(model: &Model) -> Result<Ir, Vec<Diagnostic>> {
    let path = model.path.as_deref();
    let opset = model.opset.get("").copied().unwrap_or(1);
    if !(1..=opsets::NEWEST).contains(&opset) {
        let newest = opsets::NEWEST;
        let why = format!("the model is of opset {opset}, expected 1 to {newest}");
        return Err(vec![at(path, DataError::new(why))]);
    }
    unsupported(model, opset).map_err(|e| vec![e])?;
    let mut errors = Vec::new();
    let mut inputs = Vec::new();
    for input in &model.graph.inputs {
        match static_type(&input.ty) {
            Ok(ty) => inputs.push(ty),
            Err(why) => errors.push(at(
                path,
                DataError::at_part(format!("input '{}'", input.name), why),
            )),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let (ir, block) = tir_func::function("main", Type::function(inputs, []));
    let mut cx = Cx {
        ir,
        block,
        loc: Loc::UNKNOWN,
        names: HashMap::new(),
        made: HashMap::new(),
    };
    cx.begin(model);
    for node in &model.graph.nodes {
        cx.loc = Loc::new(LocData::Named(Name::new(&node.title()), Loc::UNKNOWN));
        let last = cx.ir.last(cx.block);
        let done = match opsets::importer(node, opset) {
            Ok(importer) => importer(&mut cx, node),
            Err(why) => Err(Some(
                node.error(why.unwrap_or_else(|| "is not supported".into())),
            )),
        };
        if let Err(error) = done {
            errors.extend(error.map(|e| at(path, e)));
            for output in node.outputs.iter().flatten() {
                cx.names.insert(output.clone(), Meaning::Broken);
            }
        } else {
            let made = cx.since(last);
            cx.fold(node, &made);
        }
    }
    cx.end(model, &mut errors);
    cx.drop_constants();
    if !errors.is_empty() {
        return Err(errors);
    }
    let (mut module, body) = tir_builtin::module();
    module.adopt(body, cx.ir);
    match tir_core::verify(&module) {
        Ok(()) => Ok(module),
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

fn at(path: Option<&Path>, error: DataError) -> Diagnostic {
    let error = match path {
        Some(path) => error.in_file(path),
        None => error,
    };
    Diagnostic::error(error.to_string())
}

/// All ops that there is no importer for, in one diagnostic.
fn unsupported(model: &Model, opset: i64) -> Result<(), Diagnostic> {
    let mut missing: BTreeMap<String, (Option<String>, Vec<&Node>)> = BTreeMap::new();
    for node in &model.graph.nodes {
        if let Err(why) = opsets::importer(node, opset) {
            let (_, nodes) = missing.entry(node.op()).or_insert((why, Vec::new()));
            nodes.push(node);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let nodes: usize = missing.values().map(|(_, nodes)| nodes.len()).sum();
    let count = missing.len();
    let what = if count == 1 { "operator" } else { "operators" };
    let message = format!("{nodes} nodes use {count} {what} that cannot be imported");
    let mut error = at(model.path.as_deref(), DataError::new(message));
    for (op, (why, nodes)) in missing {
        let count = nodes.len();
        let what = if count == 1 { "node" } else { "nodes" };
        let names: Vec<String> = nodes
            .iter()
            .take(3)
            .map(|n| format!("'{}'", n.title()))
            .collect();
        let more = if count > 3 { ", …" } else { "" };
        let why = why.map_or(String::new(), |why| format!(" {why}"));
        let names = names.join(", ");
        error = error.note(format!("{op}{why}: {count} {what}, {names}{more}"));
    }
    Err(error)
}

fn static_type(ty: &ValueType) -> Result<Type, String> {
    let refuse = || format!("is a {ty}, expected a tensor of known shape");
    let ValueType::Tensor(tensor) = ty else {
        return Err(refuse());
    };
    let shape = tensor.static_shape().ok_or_else(refuse)?;
    let elem = elem_type(tensor.element).ok_or_else(refuse)?;
    let shape: Result<Vec<i64>, _> = shape.iter().map(|d| i64::try_from(*d)).collect();
    let ty = Type::tensor(shape.map_err(|_| refuse())?, elem);
    ty.elements().ok_or_else(refuse)?;
    Ok(ty)
}

fn elem_type(element: ElementType) -> Option<Type> {
    Some(tir_interp::elem_of(element.dtype()?))
}

impl Cx {
    fn begin(&mut self, model: &Model) {
        let args: Vec<Value> = self.ir.args(self.block).collect();
        for (input, arg) in model.graph.inputs.iter().zip(args) {
            self.names.insert(input.name.clone(), Meaning::Value(arg));
            self.hint(arg, &input.name);
        }
        for (name, array) in &model.graph.initializers {
            self.names
                .insert(name.clone(), Meaning::Constant(array.clone()));
        }
    }

    /// Returns the outputs and says the signature.
    fn end(&mut self, model: &Model, errors: &mut Vec<Diagnostic>) {
        self.loc = Loc::UNKNOWN;
        let path = model.path.as_deref();
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
                        errors.push(at(path, DataError::at_part(part, why)));
                    }
                    operands.push(value);
                }
                Err(Some(error)) => errors.push(at(path, error.in_part(part))),
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
    }

    fn hint(&mut self, value: Value, name: &str) {
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || c == '_' {
                c
            } else {
                '_'
            }
        };
        let mut hint: String = name.chars().take(64).map(plain).collect();
        hint = hint.trim_matches('_').to_string();
        if hint.starts_with(|c: char| c.is_ascii_digit()) {
            hint.insert(0, 'v');
        }
        if !hint.is_empty() && self.ir.hint(value).is_none() {
            self.ir.set_hint(value, Some(Name::new(&hint)));
        }
    }

    /// The ops that were made behind this one.
    fn since(&self, last: Option<OpId>) -> Vec<OpId> {
        let ops = self.ir.ops_in(self.block);
        match last {
            Some(last) => {
                std::iter::successors(self.ir.next(last), |op| self.ir.next(*op)).collect()
            }
            None => ops.collect(),
        }
    }

    /// Takes out the constants that folding left without a use.
    fn drop_constants(&mut self) {
        let ops: Vec<OpId> = self.ir.ops_in(self.block).collect();
        for op in ops {
            let unused = self.ir.results(op).all(|v| self.ir.is_unused(v));
            if unused && self.ir.is::<tir_graph::Constant>(op) {
                self.ir.erase(op);
            }
        }
    }

    /// The function so far.
    pub(super) fn ir(&self) -> &Ir {
        &self.ir
    }

    /// The elements of a value, if it is that of a constant.
    pub(super) fn constant_of(&self, value: Value) -> Option<Array> {
        let constant = self.ir.def::<tir_graph::Constant>(value)?;
        tir_interp::elements(constant.value).ok()
    }

    /// A constant in place of the only result of an op, if all its operands are constants.
    pub(super) fn evaluated(&mut self, value: Value, name: &str) -> Value {
        let Some((op, array)) = self.evaluation(value) else {
            return value;
        };
        let constant = self.constant(&array, name);
        self.ir.erase(op);
        constant
    }

    fn evaluation(&self, value: Value) -> Option<(OpId, Array)> {
        let op = self.ir.owner(value)?;
        if self.ir.is::<tir_graph::Constant>(op) {
            return None;
        }
        let operands = self.ir.operands(op);
        let inputs: Option<Vec<Data>> = operands
            .map(|v| self.constant_of(v).map(Data::Tensor))
            .collect();
        let values = tir_interp::evaluate_op(self.ir.op(op), &inputs?)?.ok()?;
        Some((op, values.first()?.to_array().ok()?))
    }

    /// The results of a node become the constants that they are known to be; what computed them
    /// and has no use is taken out.
    pub(super) fn settle(&mut self, node: &Node, known: &[(Value, Array)]) {
        for name in node.outputs.iter().flatten() {
            if let Some(Meaning::Value(value)) = self.names.get(name)
                && let Some((_, array)) = known.iter().find(|(v, _)| v == value)
            {
                let constant = Meaning::Constant(array.clone());
                self.names.insert(name.clone(), constant);
            }
        }
        for (value, _) in known.iter().rev() {
            let op = self.ir.owner(*value).filter(|op| self.ir.contains(*op));
            let Some(op) = op else { continue };
            let unused = self.ir.results(op).all(|v| self.ir.is_unused(v));
            if unused && !self.ir.is::<tir_graph::Constant>(op) {
                self.ir.erase(op);
            }
        }
    }

    // What importers use.

    /// Whether operand `k` comes from a node that could not be imported.
    pub(super) fn is_broken(&self, node: &Node, k: usize) -> bool {
        let meaning = node.input(k).and_then(|name| self.names.get(name));
        matches!(meaning, Some(Meaning::Broken))
    }

    /// Inserts an op at the node's location; gives all its results.
    pub(super) fn add_all<T: Op>(&mut self, node: &Node, op: T) -> Outcome<Vec<Value>> {
        let mut b = Builder::new(&mut self.ir, self.block);
        b.loc = self.loc;
        let made = b.try_create(op.state());
        let id = made.map_err(|e| Some(node.error(e.message)))?;
        Ok(self.ir.results(id).collect())
    }

    /// The node's results are values, in their order.
    pub(super) fn define_all(&mut self, node: &Node, values: &[Value]) {
        for (name, value) in node.outputs.iter().zip(values) {
            if let Some(name) = name {
                self.hint(*value, name);
                self.names.insert(name.clone(), Meaning::Value(*value));
            }
        }
    }

    /// Inserts an op with one result at the node's location.
    pub(super) fn add<T: Op>(&mut self, node: &Node, op: T) -> Outcome<Value> {
        let mut b = Builder::new(&mut self.ir, self.block);
        b.loc = self.loc;
        let made = b.try_create(op.state());
        let id = made.map_err(|e| Some(node.error(e.message)))?;
        let result = self.ir.results(id).next();
        result.ok_or_else(|| Some(node.error("has no result")))
    }

    /// A value, of a constant too.
    pub(super) fn value(&mut self, name: &str) -> Outcome<Value> {
        match self.names.get(name) {
            Some(Meaning::Value(value)) => Ok(*value),
            Some(Meaning::Constant(array)) => {
                if let Some(made) = self.made.get(name) {
                    return Ok(*made);
                }
                let array = array.clone();
                let value = self.constant(&array, name);
                self.made.insert(name.to_string(), value);
                Ok(value)
            }
            Some(Meaning::Broken) => Err(None),
            None => Err(Some(DataError::new(format!("'{name}' is not defined")))),
        }
    }

    /// Operand `k` of a node.
    pub(super) fn operand(&mut self, node: &Node, k: usize) -> Outcome<Value> {
        match self.optional(node, k)? {
            Some(value) => Ok(value),
            None => Err(Some(node.error(format!("operand {k} is missing")))),
        }
    }

    /// Operand `k` of a node, if it is there.
    pub(super) fn optional(&mut self, node: &Node, k: usize) -> Outcome<Option<Value>> {
        node.input(k).map(|name| self.value(name)).transpose()
    }

    /// The elements of operand `k`, if it is a constant.
    pub(super) fn elements(&self, node: &Node, k: usize) -> Option<Array> {
        match self.names.get(node.input(k)?)? {
            Meaning::Constant(array) => Some(array.clone()),
            _ => None,
        }
    }

    /// A constant, named as it will be in a file.
    pub(super) fn constant(&mut self, array: &Array, name: &str) -> Value {
        let value = tir_interp::attr_named(array, name);
        let made = self.ir.at(self.block).add(tir_graph::Constant { value });
        let loc = Loc::new(LocData::Named(Name::new(name), Loc::UNKNOWN));
        if let Some(op) = self.ir.owner(made) {
            self.ir.set_loc(op, loc);
        }
        self.hint(made, name);
        made
    }

    /// Static shape and element type of a value.
    pub(super) fn shape(&self, value: Value) -> (&'static [i64], Type) {
        let ty = self.ir.ty(value);
        (ty.shape().unwrap_or(&[]), ty.elem())
    }

    /// The node's first result is a value.
    pub(super) fn define(&mut self, node: &Node, value: Value) -> Outcome<()> {
        if let Some(name) = node.output(0) {
            self.hint(value, name);
            self.names.insert(name.to_string(), Meaning::Value(value));
        }
        Ok(())
    }

    /// The node's first result is the same as its first operand.
    pub(super) fn alias(&mut self, node: &Node) -> Outcome<()> {
        let meaning = node.input(0).and_then(|name| self.names.get(name)).cloned();
        match (node.output(0), meaning) {
            (_, None) => Err(Some(node.error("operand 0 is missing"))),
            (Some(name), Some(meaning)) => {
                self.names.insert(name.to_string(), meaning);
                Ok(())
            }
            (None, Some(_)) => Ok(()),
        }
    }

    /// The node's first result is a constant.
    pub(super) fn define_constant(&mut self, node: &Node, array: Array) -> Outcome<()> {
        if let Some(name) = node.output(0) {
            self.names
                .insert(name.to_string(), Meaning::Constant(array));
        }
        Ok(())
    }
}
