//! The walk over a function: values to names, ops to nodes.

use std::collections::{HashMap, HashSet};

use tir_core::{BlockId, Diagnostic, Ir, Loc, LocData, OpId, OpRef, Type, Value};
use tir_data::{Array, DType, Element};
use tir_onnx::proto::{AttributeProto, GraphProto, NodeProto, TensorProto, ValueInfoProto};
use tir_onnx::{ElementType, write};

use super::nodes;
use super::refused::Refused;

/// What has no form in ONNX, and why.
pub(super) type Outcome<T> = Result<T, String>;

/// A graph in the making.
pub(super) struct Writer<'a> {
    pub(super) ir: &'a Ir,
    entry: BlockId,
    names: HashMap<Value, String>,
    taken: HashSet<String>,
    nodes: Vec<NodeProto>,
    initializers: Vec<TensorProto>,
    refused: Refused,
    /// The name of the op at hand: nodes are called so.
    title: String,
}

impl<'a> Writer<'a> {
    pub(super) fn new(function: OpRef<'a>) -> Result<Self, Vec<Diagnostic>> {
        let (ir, op) = function.inner();
        let entry = ir.regions(op).next().and_then(|region| ir.entry(region));
        let entry = entry
            .ok_or_else(|| vec![Diagnostic::error("has no body to export").at(function.loc())])?;
        Ok(Self {
            ir,
            entry,
            names: HashMap::new(),
            taken: HashSet::new(),
            nodes: Vec::new(),
            initializers: Vec::new(),
            refused: Refused::default(),
            title: String::new(),
        })
    }

    pub(super) fn function(mut self, name: &str) -> Result<GraphProto, Vec<Diagnostic>> {
        let ir = self.ir;
        let mut inputs = Vec::new();
        for (k, arg) in ir.args(self.entry).enumerate() {
            let name = self.name(arg, &format!("in_{k}"));
            match info(&name, ir.ty(arg)) {
                Some(info) => inputs.push(info),
                None => return Err(vec![typeless(ir, &format!("argument {k}"), arg)]),
            }
        }
        let last = ir.terminator(self.entry);
        for op in ir.ops_in(self.entry).filter(|op| Some(*op) != last) {
            self.op(op);
        }
        let mut outputs = Vec::new();
        let results: Vec<Value> = last.map_or(Vec::new(), |op| ir.operands(op).collect());
        let args: HashSet<Value> = ir.args(self.entry).collect();
        let mut returned = HashSet::new();
        for (k, result) in results.into_iter().enumerate() {
            self.title = format!("out_{k}");
            // An output is the result of a node, and of one name.
            let constant = ir
                .owner(result)
                .is_some_and(|op| ir.is::<tir_graph::Constant>(op));
            let mut name = self.names.get(&result).cloned().unwrap_or_default();
            if args.contains(&result) || constant || !returned.insert(result) {
                name = self.node("Identity", &[&name], vec![]);
            }
            match info(&name, ir.ty(result)) {
                Some(info) => outputs.push(info),
                None => return Err(vec![typeless(ir, &format!("result {k}"), result)]),
            }
        }
        self.refused.finish()?;
        Ok(GraphProto {
            name: name.to_string(),
            node: self.nodes,
            initializer: self.initializers,
            input: inputs,
            output: outputs,
            ..Default::default()
        })
    }

    /// Writes an op, or what it consists of.
    fn op(&mut self, op: OpId) {
        let ir = self.ir;
        self.title = title(ir.loc(op)).unwrap_or_default();
        if let Some(fused) = ir.get::<tir_graph::Fused>(op) {
            let Some(block) = ir.entry(fused.body) else {
                return;
            };
            let last = ir.terminator(block);
            for inner in ir.ops_in(block).filter(|op| Some(*op) != last) {
                self.op(inner);
            }
            let yielded: Vec<Value> = last.map_or(Vec::new(), |op| ir.operands(op).collect());
            for (result, value) in ir.results(op).zip(yielded) {
                let name = self.names.get(&value).cloned().unwrap_or_default();
                self.names.insert(result, name);
            }
            return;
        }
        let before = self.nodes.len();
        match nodes::write(self, op) {
            Ok(()) => {}
            Err(why) => {
                self.refused.op(ir, op, &why);
                self.nodes.truncate(before);
            }
        }
        // What reads it is looked at all the same.
        let results: Vec<Value> = ir.results(op).collect();
        for result in results {
            if !self.names.contains_key(&result) {
                self.result(result);
            }
        }
    }

    /// A name that no other value has.
    fn free(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_string();
        let mut count = 0;
        while !self.taken.insert(name.clone()) {
            count += 1;
            name = format!("{wanted}_{count}");
        }
        name
    }

    /// Names a value as it is called in text.
    fn name(&mut self, value: Value, otherwise: &str) -> String {
        let hint = self.ir.hint(value).map(|hint| hint.to_string());
        let name = self.free(hint.as_deref().unwrap_or(otherwise));
        self.names.insert(value, name.clone());
        name
    }

    /// The name of a result of the op at hand.
    pub(super) fn result(&mut self, value: Value) -> String {
        let title = match self.title.as_str() {
            "" => "value".to_string(),
            title => title.to_string(),
        };
        self.name(value, &title)
    }

    /// The name of an operand.
    pub(super) fn operand(&self, value: Value) -> String {
        self.names.get(&value).cloned().unwrap_or_default()
    }

    /// Says that a value is another one under the same name.
    pub(super) fn same(&mut self, value: Value, name: String) {
        self.names.insert(value, name);
    }

    /// The element type and shape of a value.
    pub(super) fn form(&self, value: Value) -> Outcome<(DType, Vec<i64>)> {
        form(self.ir.ty(value)).ok_or_else(|| format!("ONNX has no {}", self.ir.ty(value)))
    }

    /// Adds a node with named results.
    pub(super) fn add(
        &mut self,
        op_type: &str,
        inputs: &[&str],
        outputs: Vec<String>,
        attributes: Vec<AttributeProto>,
    ) {
        self.nodes.push(NodeProto {
            input: inputs.iter().map(|name| name.to_string()).collect(),
            output: outputs,
            name: self.title.clone(),
            op_type: op_type.to_string(),
            attribute: attributes,
            ..Default::default()
        });
    }

    /// Adds a node with one result that no value of the function is; gives its name.
    pub(super) fn node(
        &mut self,
        op_type: &str,
        inputs: &[&str],
        attributes: Vec<AttributeProto>,
    ) -> String {
        let wanted = match self.title.as_str() {
            "" => op_type.to_lowercase(),
            title => title.to_string(),
        };
        let name = self.free(&wanted);
        self.add(op_type, inputs, vec![name.clone()], attributes);
        name
    }

    /// A constant.
    pub(super) fn constant(&mut self, wanted: &str, array: &Array) -> String {
        let name = self.free(wanted);
        self.initializers.push(write::tensor(&name, array));
        name
    }

    /// A list of sizes, axes or the like as a constant.
    pub(super) fn list(&mut self, what: &str, list: &[i64]) -> Outcome<String> {
        self.numbers(what, &[list.len()], list.to_vec())
    }

    /// Numbers as a constant.
    pub(super) fn numbers<T: Element>(
        &mut self,
        what: &str,
        shape: &[usize],
        values: Vec<T>,
    ) -> Outcome<String> {
        let array = Array::from_vec(shape, values).map_err(|e| e.message)?;
        let wanted = match self.title.as_str() {
            "" => what.to_string(),
            title => format!("{title}.{what}"),
        };
        Ok(self.constant(&wanted, &array))
    }
}

/// Element type and shape of a tensor that ONNX can have.
fn form(ty: Type) -> Option<(DType, Vec<i64>)> {
    let shape = ty.shape()?;
    let known = shape.iter().all(|d| *d >= 0);
    Some((tir_interp::dtype_of(ty.elem())?, shape.to_vec())).filter(|_| known)
}

fn info(name: &str, ty: Type) -> Option<ValueInfoProto> {
    let (dtype, shape) = form(ty)?;
    Some(write::value(name, ElementType::of(dtype), &shape))
}

fn typeless(ir: &Ir, what: &str, value: Value) -> Diagnostic {
    let error = format!("cannot be exported to ONNX: {what} is {}", ir.ty(value));
    Diagnostic::error(error).at(ir.loc(ir.root()))
}

/// What a location calls a node.
fn title(loc: Loc) -> Option<String> {
    match loc.data() {
        LocData::Named(name, _) => Some(name.to_string()),
        LocData::Fused(_, locs) => locs.into_iter().find_map(title),
        _ => None,
    }
}
