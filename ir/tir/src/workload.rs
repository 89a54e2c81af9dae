//! What a network has to do, whatever schedule it gets: useful work and compulsory bytes, counted
//! on the program of operators on whole tensors and carried down as an attribute of the function.
//!
//! *Terms.* A **layer** is an op that computes, with the elementwise ops on its result that one
//! pass over the elements can do with it. A **dense** product uses its factors for several results
//! (a convolution, a matrix product); a **lane** product uses each factor once (a depthwise
//! convolution). **Compulsory** bytes are those of arguments and constants that are used, and of
//! results, each once.
//!
//! *Invariants.* Counts are lower bounds of any schedule of this program: an op that says nothing
//! computes each element of its results once, a slice of an argument is what is kept of it, and
//! where an op's work cannot be told there is no workload at all. Layers stand in an order in
//! which each comes after those that it reads.

use std::collections::{HashMap, HashSet};

use tir_core::{
    ArrayAttr, Attr, DenseArray, DenseElements, DictAttr, Ir, Loc, LocData, Name, OpId, Traits,
    Type, Value,
};

use crate::cost::{CostOf, Work, bytes};

/// The attribute of a function that holds its workload.
pub const ATTR: &str = "tir.work";

/// What a layer has to do. Sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layer {
    /// The name that its location says; else that of its first result, or of its op.
    pub name: String,
    /// Places of its ops; see [`places`].
    pub at: Vec<String>,
    /// Multiply-adds of dense products.
    pub macs: u64,
    /// Multiply-adds of lane products.
    pub lane_macs: u64,
    /// Elements that are computed besides products, each once.
    pub elements: u64,
    /// Bytes of constants that no layer before reads.
    pub weights: u64,
    /// Bytes of arguments that no layer before reads.
    pub inputs: u64,
    /// Bytes of results of the function.
    pub outputs: u64,
    /// Layers whose results it reads, by number.
    pub after: Vec<usize>,
}

/// The layers of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// In an order in which they can run.
    pub layers: Vec<Layer>,
}

/// Where a value comes from.
#[derive(Clone, Default)]
struct Source {
    layers: Vec<usize>,
    /// Arguments and constants that it is made of without work, and bytes of them at most.
    roots: Vec<(Value, u64)>,
}

impl Workload {
    /// Useful multiply-adds.
    pub fn macs(&self) -> u64 {
        self.layers.iter().map(|l| l.macs + l.lane_macs).sum()
    }
    /// Compulsory bytes that are read: arguments and constants.
    pub fn bytes_in(&self) -> u64 {
        self.layers.iter().map(|l| l.weights + l.inputs).sum()
    }
    /// Compulsory bytes that are written: results.
    pub fn bytes_out(&self) -> u64 {
        self.layers.iter().map(|l| l.outputs).sum()
    }

    /// Counts the function at the root of an arena. `None` if it is no chain of ops without effects
    /// on whole tensors, each of which says what it takes.
    pub fn count(ir: &Ir) -> Option<Self> {
        let block = ir.body_block(ir.root(), 0)?;
        let region = ir.regions(ir.root()).next()?;
        if ir.blocks(region).count() != 1 {
            return None;
        }
        let mut counting = Counting {
            ir,
            layers: Vec::new(),
            elements: Vec::new(),
            sources: HashMap::new(),
            read: HashSet::new(),
        };
        for arg in ir.args(block) {
            counting.root(arg);
        }
        for op in ir.ops_in(block) {
            counting.op(op)?;
        }
        let layers = counting.layers;
        (!layers.is_empty()).then_some(Self { layers })
    }

    /// The workload that a function carries.
    pub fn attached(ir: &Ir) -> Option<Self> {
        Self::from_attr(ir.attr(ir.root(), ATTR)?)
    }

    /// As an attribute: a dictionary for each layer, without what is 0.
    pub fn to_attr(&self) -> Attr {
        let text = |text: &String| Attr::str(text);
        let layers = self.layers.iter().map(|layer| {
            let mut entries = vec![(Name::new("name"), text(&layer.name))];
            if !layer.at.is_empty() {
                let at: Vec<Attr> = layer.at.iter().map(text).collect();
                entries.push((Name::new("at"), Attr::array(at)));
            }
            for (key, n) in layer.numbers() {
                if n > 0 {
                    let n = i64::try_from(n).unwrap_or(i64::MAX);
                    entries.push((Name::new(key), Attr::i64(n)));
                }
            }
            if !layer.after.is_empty() {
                let after: Vec<i64> = layer.after.iter().map(|i| *i as i64).collect();
                entries.push((Name::new("after"), Attr::ints(&after)));
            }
            Attr::new(DictAttr::new(entries))
        });
        Attr::array(layers.collect::<Vec<_>>())
    }

    /// What [`to_attr`](Self::to_attr) made; `None` if it is something else.
    pub fn from_attr(attr: Attr) -> Option<Self> {
        let text = |attr: &Attr| attr.as_str().map(str::to_string);
        let layer = |(at, attr): (usize, &Attr)| {
            let dict = attr.get::<DictAttr>()?;
            let number = |key: &str| match dict.get(key) {
                Some(n) => u64::try_from(n.as_int()?).ok(),
                None => Some(0),
            };
            let places = dict.get("at").and_then(|a| a.get::<ArrayAttr>());
            let places = places.map_or(&[][..], |a| &a.0);
            let after = dict.get("after").and_then(|a| a.get::<DenseArray>());
            let after = after.map_or(&[][..], |a| &a.bits).iter();
            let after = after.map(|i| usize::try_from(*i).ok().filter(|i| *i < at));
            Some(Layer {
                name: text(&dict.get("name")?)?,
                at: places.iter().map(text).collect::<Option<_>>()?,
                macs: number("macs")?,
                lane_macs: number("lane_macs")?,
                elements: number("elements")?,
                weights: number("weights")?,
                inputs: number("inputs")?,
                outputs: number("outputs")?,
                after: after.collect::<Option<_>>()?,
            })
        };
        let layers = attr.get::<ArrayAttr>()?.0.iter().enumerate().map(layer);
        let layers = layers.collect::<Option<_>>()?;
        Some(Self { layers })
    }
}

impl Layer {
    fn numbers(&self) -> [(&'static str, u64); 6] {
        [
            ("macs", self.macs),
            ("lane_macs", self.lane_macs),
            ("elements", self.elements),
            ("weights", self.weights),
            ("inputs", self.inputs),
            ("outputs", self.outputs),
        ]
    }
}

struct Counting<'a> {
    ir: &'a Ir,
    layers: Vec<Layer>,
    /// Of each layer, elements of its result.
    elements: Vec<u64>,
    sources: HashMap<Value, Source>,
    /// Arguments and constants that a layer reads.
    read: HashSet<Value>,
}

fn elements(ty: Type) -> u64 {
    ty.elements().unwrap_or(0) as u64
}

impl Counting<'_> {
    fn root(&mut self, value: Value) {
        let splat = self
            .ir
            .constant(value)
            .and_then(|a| a.get::<DenseElements>());
        let size = match splat.is_some_and(|a| a.is_splat()) {
            // One number, which needs no array.
            true => 0,
            false => bytes(self.ir.ty(value)),
        };
        let roots = vec![(value, size)];
        let source = Source {
            roots,
            ..Source::default()
        };
        self.sources.insert(value, source);
    }

    /// Of what the operands are made, and how much is read of that; `None` where a value is from
    /// elsewhere.
    fn operands(&self, op: OpId, reads: &[u64]) -> Option<Source> {
        let mut all = Source::default();
        for (i, value) in self.ir.operands(op).enumerate() {
            let source = self.sources.get(&value)?;
            all.layers.extend(&source.layers);
            let read = reads.get(i).copied().unwrap_or(u64::MAX);
            let roots = source.roots.iter();
            all.roots
                .extend(roots.map(|(value, size)| (*value, (*size).min(read))));
        }
        all.layers.sort_unstable();
        all.layers.dedup();
        Some(all)
    }

    fn op(&mut self, op: OpId) -> Option<()> {
        let ir = self.ir;
        if ir.has(op, Traits::ConstantLike) {
            ir.results(op).for_each(|value| self.root(value));
            return Some(());
        }
        if ir.has(op, Traits::Terminator) {
            self.returned(op);
            return Some(());
        }
        let says = ir.info(op)?.interface::<dyn CostOf>().is_some();
        if !ir.is_pure(op) || ir.regions(op).next().is_some() && !says {
            return None;
        }
        let work = Work::of(ir.op(op));
        // A view reads nothing itself.
        let view = work.reads.iter().all(|n| *n == 0);
        let source = self.operands(op, if view { &[] } else { &work.reads })?;
        let results: u64 = ir.results(op).map(|v| elements(ir.ty(v))).sum();
        if work.products.is_empty() && work.scalars == 0 {
            self.result(op, source);
            return Some(());
        }
        let computed = if work.scalars > 0 { results } else { 0 };
        // The elements of a layer's result pass once more through the same lanes, or do not.
        let joins = source.layers.last().copied();
        let joins = joins.filter(|at| work.products.is_empty() && self.elements[*at] == results);
        let at = match joins {
            Some(at) => at,
            None => {
                let first = ir.results(op).next();
                let hint = first.and_then(|v| ir.hint(v));
                let kind = ir.name(op).as_str().rsplit('.').next().unwrap_or_default();
                let said = match ir.loc(op).data() {
                    LocData::Named(name, _) => Some(name),
                    _ => hint,
                };
                let name = said.map_or(kind, |name| name.as_str()).to_string();
                self.layers.push(Layer {
                    name,
                    ..Layer::default()
                });
                self.elements.push(results);
                self.layers.len() - 1
            }
        };
        let layer = &mut self.layers[at];
        places(ir.loc(op), &mut layer.at);
        layer.elements = layer.elements.max(computed);
        for product in &work.products {
            let lane = product.k == 1 && (product.m == 1 || product.n == 1);
            let count = if lane {
                &mut layer.lane_macs
            } else {
                &mut layer.macs
            };
            *count = count.saturating_add(product.macs());
        }
        let before = source.layers.iter().filter(|i| **i != at);
        layer.after.extend(before);
        layer.after.sort_unstable();
        layer.after.dedup();
        for (value, size) in source.roots {
            if self.read.insert(value) {
                let constant = ir.owner(value).is_some();
                let count = if constant {
                    &mut layer.weights
                } else {
                    &mut layer.inputs
                };
                *count = count.saturating_add(size);
            }
        }
        let layers = vec![at];
        let roots = Vec::new();
        self.result(op, Source { layers, roots });
        Some(())
    }

    fn result(&mut self, op: OpId, source: Source) {
        for value in self.ir.results(op) {
            self.sources.insert(value, source.clone());
        }
    }

    /// Bytes of results, each counted where it was computed.
    fn returned(&mut self, op: OpId) {
        let values: HashSet<Value> = self.ir.operands(op).collect();
        for value in values {
            let source = self.sources.get(&value);
            if let Some(at) = source.and_then(|s| s.layers.last()) {
                self.layers[*at].outputs += bytes(self.ir.ty(value));
            }
        }
    }
}

/// Adds the places that a location is made of, each once: `file:line:column`, the file without its
/// folder, so that a program is the same wherever it lies; the name where there is no file.
pub fn places(loc: Loc, out: &mut Vec<String>) {
    match loc.data() {
        LocData::Fused(_, parts) => parts.into_iter().for_each(|part| places(part, out)),
        data => {
            let text = match (loc.place(), data) {
                (Some((file, line, column)), _) => {
                    let file = file.as_str().rsplit('/').next().unwrap_or_default();
                    format!("{file}:{line}:{column}")
                }
                (None, LocData::Named(name, _)) => name.to_string(),
                _ => return,
            };
            if !out.contains(&text) {
                out.push(text);
            }
        }
    }
}
