//! Which layer of the source each op of a program is of.
//!
//! Passes keep the location of what an op was made of, so all ops of a lowered layer have one
//! location, fused of the places of its operators. A text that was read without locations has
//! another place for each op: there the outermost op around it stands for the layer.

use std::collections::HashMap;

use tir::interp::computes;
use tir::workload::{Workload, places};
use tir::{Ir, Loc, Name, OpId, SymbolRef};

use crate::{Call, Machine};

/// A layer of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layer {
    /// Names of the operators with products in it, or of the first one; else its first place.
    /// No other layer of the program has it.
    pub name: String,
    /// The places of its operators: `file:line:column`.
    pub at: Vec<String>,
    /// Useful multiply-adds, if the workload that the function carries has operators of it.
    pub macs: Option<u64>,
}

/// The layers of a program, and the one of each op.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    /// All layers, in the order of the text.
    pub layers: Vec<Layer>,
    of: HashMap<OpId, usize>,
    places: HashMap<Loc, usize>,
}

impl Layers {
    /// The layers of the functions of a module.
    pub fn of(module: &Ir) -> Self {
        let mut all = Self::default();
        for slot in module.slots() {
            if module.is::<Machine>(slot) {
                continue;
            }
            if let Some(function) = module.child(slot) {
                all.add(function);
            }
        }
        all
    }

    /// The name of the layer of an op.
    pub fn name(&self, op: OpId) -> Option<Name> {
        Some(Name::new(&self.layers[*self.of.get(&op)?].name))
    }

    /// The number of the layer that an outermost op at this location is of.
    pub fn at(&self, loc: Loc) -> Option<usize> {
        self.places.get(&loc).copied()
    }

    fn add(&mut self, ir: &Ir) {
        let Some(body) = ir.body_block(ir.root(), 0) else {
            return;
        };
        let work = Workload::attached(ir).unwrap_or_default();
        let ops: Vec<OpId> = ir
            .walk_ids()
            .into_iter()
            .filter(|op| *op != ir.root())
            .collect();
        let mut count: HashMap<Loc, usize> = HashMap::new();
        for op in &ops {
            *count.entry(ir.loc(*op)).or_default() += 1;
        }
        let first = self.layers.len();
        let mut known: HashMap<Loc, usize> = HashMap::new();
        let mut works: Vec<bool> = Vec::new();
        for op in ops {
            let own = ir.loc(op);
            let loc = match ir.ancestor_in(op, body) {
                Some(outer) if count[&own] < 2 => ir.loc(outer),
                _ => own,
            };
            let at = *known.entry(loc).or_insert_with(|| {
                let mut at = Vec::new();
                places(loc, &mut at);
                self.layers.push(Layer {
                    at,
                    ..Layer::default()
                });
                works.push(false);
                self.layers.len() - 1
            });
            works[at - first] |= ir.is::<Call>(op) || computes(ir, op) || calls(ir, op);
            self.of.insert(op, at);
        }
        for (loc, at) in known {
            self.places.entry(loc).or_insert(at);
        }
        let parts = name(&mut self.layers[first..], &works, &work);
        self.make_unique();
        // An operator that is computed with another one may have no op of its own left.
        for (layer, parts) in self.layers[first..].iter_mut().zip(parts) {
            for place in parts.into_iter().flat_map(|i| &work.layers[i].at) {
                if !layer.at.contains(place) {
                    layer.at.push(place.clone());
                }
            }
        }
    }

    /// Adds places to names that several layers have.
    fn make_unique(&mut self) {
        let mut count: HashMap<String, usize> = HashMap::new();
        for layer in &self.layers {
            *count.entry(layer.name.clone()).or_default() += 1;
        }
        for layer in &mut self.layers {
            if count[&layer.name] > 1
                && let Some(place) = layer.at.first()
                && !layer.name.contains(place.as_str())
            {
                layer.name = format!("{} ({})", layer.name, layer.at.join(", "));
            }
        }
    }
}

/// Whether an op calls a function: what it does is that function's. Where each nest has one, the caller has calls alone.
fn calls(ir: &Ir, op: OpId) -> bool {
    let refers = ir.attrs(op).iter().any(|(_, attr)| attr.is::<SymbolRef>());
    refers && ir.effects(op).is_none() && ir.regions(op).next().is_none()
}

/// Gives layers the names of their operators. Each operator of the workload goes to one layer: the
/// first that computes and has its first place, or the next one. Gives the operators of each.
fn name(layers: &mut [Layer], works: &[bool], work: &Workload) -> Vec<Vec<usize>> {
    let mut parts: Vec<Vec<usize>> = vec![Vec::new(); layers.len()];
    for (i, operator) in work.layers.iter().enumerate() {
        let of = |place: &String| {
            let mut all = layers.iter().zip(works);
            all.position(|(layer, works)| *works && layer.at.contains(place))
        };
        if let Some(at) = operator.at.iter().find_map(of) {
            parts[at].push(i);
        }
    }
    for (layer, parts) in layers.iter_mut().zip(&parts) {
        let operators = parts.iter().map(|i| &work.layers[*i]);
        let macs = operators.clone().map(|l| l.macs + l.lane_macs);
        layer.macs = (!parts.is_empty()).then(|| macs.sum());
        let products = operators.clone().filter(|l| l.macs + l.lane_macs > 0);
        // An operator of several products, as a recurrent one is, is named once.
        let mut names: Vec<&str> = Vec::new();
        for product in products {
            if !names.contains(&product.name.as_str()) {
                names.push(&product.name);
            }
        }
        let first = operators.map(|l| &l.name).next();
        layer.name = match (&names[..], first, layer.at.first()) {
            ([_, ..], ..) => names.join(" + "),
            ([], Some(name), _) | ([], None, Some(name)) => name.clone(),
            ([], None, None) => "unknown place".to_string(),
        };
    }
    parts
}
