//! When two programs are one.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use tir::{BlockId, Definition, Ir, OpId, Traits, Value};

/// The same for programs that differ in the order and number of equal ops without effects only.
pub fn digest(ir: &Ir) -> Vec<u64> {
    let mut found = Vec::new();
    for slot in ir.slots() {
        found.extend(ir.child(slot).into_iter().flat_map(digest));
    }
    let mut digests = Digests {
        ir,
        values: HashMap::new(),
    };
    let root = ir.root();
    let regions: Vec<_> = ir.regions(root).collect();
    for block in regions.iter().flat_map(|region| ir.blocks(*region)) {
        found.push(digests.block(block));
    }
    found
}

struct Digests<'a> {
    ir: &'a Ir,
    values: HashMap<Value, u64>,
}

impl Digests<'_> {
    /// What a block does: its ops with effects in order.
    fn block(&mut self, block: BlockId) -> u64 {
        let ir = self.ir;
        let mut hasher = DefaultHasher::new();
        for (at, arg) in ir.args(block).enumerate() {
            self.values.insert(arg, at as u64);
        }
        for (at, op) in ir.ops_in(block).enumerate() {
            if ir.child(op).is_some() || ir.is_pure(op) && !ir.has(op, Traits::Terminator) {
                continue;
            }
            let digest = self.op(op);
            digest.hash(&mut hasher);
            let effects = at as u64;
            for (index, result) in ir.results(op).enumerate() {
                let mut hasher = DefaultHasher::new();
                (digest, index, effects.min(1)).hash(&mut hasher);
                self.values.insert(result, hasher.finish());
            }
        }
        hasher.finish()
    }

    fn op(&mut self, op: OpId) -> u64 {
        let ir = self.ir;
        let mut hasher = DefaultHasher::new();
        ir.name(op).as_str().hash(&mut hasher);
        for (name, attr) in ir.attrs(op) {
            let field = ir.info(op).and_then(|info| info.field(name));
            if field.and_then(|f| f.default) != Some(*attr) {
                (name.as_str(), attr).hash(&mut hasher);
            }
        }
        for ty in ir.result_types(op) {
            ty.to_string().hash(&mut hasher);
        }
        let operands: Vec<Value> = ir.operands(op).collect();
        let mut operands: Vec<u64> = operands.into_iter().map(|v| self.value(v)).collect();
        if operands.len() == 2 && ir.has(op, Traits::Commutative) {
            operands.sort_unstable();
        }
        operands.hash(&mut hasher);
        let regions: Vec<_> = ir.regions(op).collect();
        for block in regions.into_iter().flat_map(|r| ir.blocks(r)) {
            self.block(block).hash(&mut hasher);
        }
        hasher.finish()
    }

    fn value(&mut self, value: Value) -> u64 {
        if let Some(known) = self.values.get(&value) {
            return *known;
        }
        let digest = match self.ir.definition(value) {
            Definition::Argument(_, index) => index as u64,
            Definition::Result(op, index) => {
                let mut hasher = DefaultHasher::new();
                (self.op(op), index).hash(&mut hasher);
                hasher.finish()
            }
        };
        self.values.insert(value, digest);
        digest
    }
}
