//! What importers of nodes use: operands, constants, new ops, results.

use tir_core::{Builder, Ir, Loc, LocData, Name, Op, OpId, Type, Value};
use tir_data::{Array, DataError};
use tir_interp::Data;
use tir_onnx::Node;

use super::import::{Cx, Meaning, Outcome};

impl Cx<'_> {
    /// A name means this from now on.
    pub(super) fn name(&mut self, name: &str, meaning: Meaning) {
        self.scope.made.remove(name);
        self.scope.names.insert(name.to_string(), meaning);
    }

    pub(super) fn hint(&mut self, value: Value, name: &str) {
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
    pub(super) fn since(&self, last: Option<OpId>) -> Vec<OpId> {
        let ops = self.ir.ops_in(self.block);
        match last {
            Some(last) => {
                std::iter::successors(self.ir.next(last), |op| self.ir.next(*op)).collect()
            }
            None => ops.collect(),
        }
    }

    /// Takes out ops behind this one that nothing uses, constants apart: names may stand for these.
    pub(super) fn drop_unused(&mut self, last: Option<OpId>) {
        for op in self.since(last).into_iter().rev() {
            let results: Vec<Value> = self.ir.results(op).collect();
            let unused = !results.is_empty() && results.iter().all(|v| self.ir.is_unused(*v));
            if unused && self.ir.is_pure(op) && !self.ir.is::<tir_graph::Constant>(op) {
                self.ir.erase(op);
            }
        }
    }

    /// Takes out the constants that folding left without a use.
    pub(super) fn drop_constants(&mut self) {
        let ops: Vec<OpId> = self.ir.ops_in(self.block).collect();
        for op in ops {
            let unused = self.ir.results(op).all(|v| self.ir.is_unused(v));
            if unused && self.ir.is::<tir_graph::Constant>(op) {
                self.ir.erase(op);
            }
        }
    }

    /// The number of elements of a table that a node is put together with, if it is not too large.
    pub(super) fn room(&self, node: &Node, sizes: &[i64]) -> Outcome<usize> {
        let most = self.options.max_table;
        let count = sizes.iter().try_fold(1usize, |count, size| {
            count.checked_mul(usize::try_from(*size).ok()?)
        });
        count.filter(|count| *count <= most).ok_or_else(|| {
            let sizes: Vec<String> = sizes.iter().map(i64::to_string).collect();
            Some(node.error(format!(
                "needs a table of {} numbers, expected {most} at most; --max-table says otherwise",
                sizes.join(" x ")
            )))
        })
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
            if let Some(Meaning::Value(value)) = self.scope.names.get(name)
                && let Some((_, array)) = known.iter().find(|(v, _)| v == value)
            {
                let constant = Meaning::Constant(array.clone());
                self.scope.made.remove(name);
                self.scope.names.insert(name.clone(), constant);
            }
        }
        // An op has several results and goes once.
        let mut ops: Vec<OpId> = Vec::new();
        for (value, _) in known.iter().rev() {
            let op = self.ir.owner(*value);
            ops.extend(op.filter(|op| !ops.contains(op)));
        }
        for op in ops {
            let unused = self.ir.results(op).all(|v| self.ir.is_unused(v));
            if unused && !self.ir.is::<tir_graph::Constant>(op) {
                self.ir.erase(op);
            }
        }
    }

    /// Whether operand `k` comes from a node that could not be imported.
    pub(super) fn is_broken(&self, node: &Node, k: usize) -> bool {
        let meaning = node.input(k).and_then(|name| self.scope.names.get(name));
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
                self.name(name, Meaning::Value(*value));
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
        match self.scope.names.get(name) {
            Some(Meaning::Value(value)) => Ok(*value),
            Some(Meaning::Constant(array)) => {
                if let Some(made) = self.scope.made.get(name) {
                    return Ok(*made);
                }
                let array = array.clone();
                let value = self.constant(&array, name);
                self.scope.made.insert(name.to_string(), value);
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
        match self.scope.names.get(node.input(k)?)? {
            Meaning::Constant(array) => Some(array.clone()),
            _ => None,
        }
    }

    /// A constant, named as it will be in a file.
    pub(super) fn constant(&mut self, array: &Array, name: &str) -> Value {
        let value = tir_interp::attr_named(array, name);
        // In front of the loops and branches that are being made, each of which may use it.
        let made = self.ir.at(self.around).add(tir_graph::Constant { value });
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
            self.name(name, Meaning::Value(value));
        }
        Ok(())
    }

    /// The node's first result is the same as its first operand.
    pub(super) fn alias(&mut self, node: &Node) -> Outcome<()> {
        let meaning = node
            .input(0)
            .and_then(|name| self.scope.names.get(name))
            .cloned();
        match (node.output(0), meaning) {
            (_, None) => Err(Some(node.error("operand 0 is missing"))),
            (Some(name), Some(meaning)) => {
                self.name(name, meaning);
                Ok(())
            }
            (None, Some(_)) => Ok(()),
        }
    }

    /// The node's first result is a constant.
    pub(super) fn define_constant(&mut self, node: &Node, array: Array) -> Outcome<()> {
        if let Some(name) = node.output(0) {
            self.name(name, Meaning::Constant(array));
        }
        Ok(())
    }
}
