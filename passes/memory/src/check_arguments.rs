//! `check-arguments`: no call hands over the same memory as two arguments of which the called function writes one.
//!
//! Passes and native code take two memrefs that are arguments for different memory, as Fortran does (`llvm.noalias`): a load of one may
//! go over a store to the other. What is *certainly* the same memory is found here: one value twice, a buffer and a part of it, or
//! two parts of one buffer whose static offsets and sizes overlap. Parts at offsets that are not known are taken for apart.

use std::collections::HashMap;

use tir::{Access, DYNAMIC, Diagnostic, Ir, MemRefType, Name, OpId, Value};
use tir_memref::{SubView, alias};

/// All calls of a module that hand over memory twice, one of both to be written.
pub fn check_arguments(module: &Ir) -> Vec<Diagnostic> {
    let bodies = module
        .slots()
        .into_iter()
        .filter_map(|slot| module.child(slot));
    let named = bodies.filter_map(|ir| Some((ir.op(ir.root()).symbol()?, ir)));
    let functions: Vec<(Name, &Ir)> = named.collect();
    let mut writes = Writes {
        functions: functions.iter().copied().collect(),
        known: HashMap::new(),
    };
    let mut found = Vec::new();
    for (_, ir) in &functions {
        for op in ir.walk_ids().into_iter().filter(|op| *op != ir.root()) {
            for callee in ir.may_call(op) {
                found.extend(judge(ir, op, callee, &mut writes));
            }
        }
    }
    found
}

/// An error if a call hands over memory twice.
fn judge(ir: &Ir, call: OpId, callee: Name, writes: &mut Writes<'_>) -> Option<Diagnostic> {
    let operands: Vec<Value> = ir.operands(call).collect();
    let buffers = operands.iter().enumerate();
    let mut buffers = buffers.filter(|(_, v)| ir.ty(**v).is::<MemRefType>());
    let places: Vec<(usize, Place)> = buffers
        .by_ref()
        .map(|(k, value)| (k, Place::of(ir, *value)))
        .collect();
    for (i, (first, place)) in places.iter().enumerate() {
        for (second, other) in &places[i + 1..] {
            if !place.overlaps(other) {
                continue;
            }
            let written = writes.of(callee);
            let both = [*first, *second].into_iter();
            let mut both = both.filter(|k| written.get(*k).copied().unwrap_or(false));
            let Some(one) = both.next() else { continue };
            let text = format!(
                "arguments {first} and {second} of @{callee} are the same memory here, and it writes argument {one}"
            );
            let error = Diagnostic::error(text).at(ir.loc(call));
            return Some(error.note(
                "functions are compiled for arguments that do not overlap where one is written; help: hand over a copy (memref.copy)",
            ));
        }
    }
    None
}

/// Where a memref lies, as far as views say it.
struct Place {
    /// The value that it is a view of.
    root: Value,
    part: Part,
}

/// How much of its root a memref is.
enum Part {
    All,
    /// From these offsets on, so many elements in each dimension.
    Box(Vec<(i64, i64)>),
    /// Some of it.
    Some,
}

impl Place {
    fn of(ir: &Ir, value: Value) -> Self {
        let Some(view) = ir.def::<SubView>(value) else {
            return Self {
                root: value,
                part: Part::All,
            };
        };
        let around = Self::of(ir, view.source);
        let numbers = [
            &view.static_offsets,
            &view.static_sizes,
            &view.static_strides,
        ];
        let known = !numbers.iter().any(|all| all.contains(&DYNAMIC));
        let dense = view.static_strides.iter().all(|stride| *stride == 1);
        let part = match around.part {
            Part::All if known && dense => {
                let offsets = view.static_offsets.iter().copied();
                Part::Box(offsets.zip(view.static_sizes.iter().copied()).collect())
            }
            _ => Part::Some,
        };
        Self {
            root: around.root,
            part,
        }
    }

    /// Whether two memrefs certainly have an element in common; that neither is empty is assumed.
    fn overlaps(&self, other: &Place) -> bool {
        self.root == other.root
            && match (&self.part, &other.part) {
                (Part::All, _) | (_, Part::All) => true,
                (Part::Box(a), Part::Box(b)) => {
                    let mut dims = a.iter().zip(b);
                    dims.all(|((a, n), (b, m))| {
                        *a < b.saturating_add(*m) && *b < a.saturating_add(*n)
                    })
                }
                _ => false,
            }
    }
}

/// Which of its arguments each function writes, by itself or by what it calls.
struct Writes<'a> {
    functions: HashMap<Name, &'a Ir>,
    /// Of a function that is looked at now none are said to be.
    known: HashMap<Name, Vec<bool>>,
}

impl Writes<'_> {
    fn of(&mut self, name: Name) -> Vec<bool> {
        if let Some(known) = self.known.get(&name) {
            return known.clone();
        }
        let body = self.functions.get(&name).copied();
        let body = body.and_then(|ir| Some((ir, ir.body_block(ir.root(), 0)?)));
        let Some((ir, block)) = body else {
            return Vec::new();
        };
        let args: Vec<Value> = ir.args(block).collect();
        let mut written = vec![false; args.len()];
        self.known.insert(name, written.clone());
        let mut write = |value: Value| {
            for origin in alias::origins(ir, value) {
                if let alias::Origin::Argument(of) = origin
                    && let Some(k) = args.iter().position(|arg| *arg == of)
                {
                    written[k] = true;
                }
            }
        };
        for op in ir.walk_ids().into_iter().filter(|op| *op != ir.root()) {
            let called = ir.may_call(op);
            let mut callees = called
                .iter()
                .filter(|name| self.functions.contains_key(name));
            if let (Some(callee), None) = (callees.next().copied(), callees.next()) {
                let by = self.of(callee);
                let operands = ir.operands(op).zip(by).filter(|(_, by)| *by);
                operands.for_each(|(value, _)| write(value));
                continue;
            }
            let all = alias::accesses(ir, op).into_iter();
            all.filter(|(access, _)| *access == Access::Write)
                .for_each(|(_, value)| write(value));
        }
        self.known.insert(name, written.clone());
        written
    }
}
