//! What runs as one loop nest: a reduction, elementwise steps behind it, steps whose values are
//! needed by it alone, and what is read, as one iteration space with operands in far memory.

mod find;
mod flat;
mod joined;
mod scope;
mod signature;
pub use signature::Signature;
mod view;

pub use find::Freedom;
pub use flat::Flat;
pub use joined::{Diagonal, Grouped};
pub use scope::Scope;

use std::collections::{BTreeSet, HashSet};

use tir::{AffineExpr, AffineMap, Attr, Ir, LinearExpr, LinearMap, OpId, RegionId, Type, Value};
use tir_tensor::{Combine, Generic, yields_argument};

/// What a group reads at a linear position: a far tensor, or a value computed in near memory.
#[derive(Clone, Debug)]
pub struct Operand {
    /// The tensor.
    pub source: Value,
    /// Position in it for each point of the group's iteration space.
    pub map: AffineMap,
    /// What is read outside of it; zero bits if absent.
    pub padding: Option<Value>,
    /// Whether beyond the ranges of the iterators lies what is not zero, so that reductions over
    /// it must not be rounded up.
    pub cut: bool,
    /// Whether points of the group read outside of it.
    pub leaves: bool,
    /// Whether another nest computes its tiles inside the loops of this one: nothing is loaded.
    pub made: bool,
    /// Whether it is known before the program runs.
    pub constant: bool,
    /// Whether all of it lies in near memory before the nest begins, as the unit reads it: nothing is loaded.
    pub near: bool,
    /// Whether interleaved sequences of it are computed as one, from a multiple of their number on.
    pub joint: bool,
    /// Its shape.
    pub shape: Vec<i64>,
    /// Which dimensions of the tensor are one, if the shape is another one than the tensor's.
    pub flat: Option<Flat>,
    /// Where it is the diagonals that blocks of the tensor are, how it is read.
    pub diagonal: Option<Diagonal>,
    /// How tiles of it are computed; they are loaded if absent.
    pub inner: Option<Inner>,
}

/// How a tile of a value is computed from tiles of other operands.
#[derive(Clone, Debug)]
pub struct Inner {
    /// The scalar computation.
    pub body: RegionId,
    /// How it combines, and the constant it starts from, if it reduces.
    pub reduce: Option<(Combine, Attr)>,
    /// Which operand each argument of the region is; they come earlier.
    pub inputs: Vec<usize>,
    /// Where it is in that operand, over the dimensions of the value, then the reductions.
    pub rows: Vec<LinearMap>,
    /// The group's iterators that are its reductions; they are never divided.
    pub reductions: Vec<usize>,
    /// What the thread does at a point: loads, operations, stores.
    pub work: u64,
}

/// A step of a group's core: what one generic of it computes.
#[derive(Clone, Debug)]
pub struct Step {
    /// The scalar computation.
    pub body: RegionId,
    /// For each argument of the region, where it comes from.
    pub inputs: Vec<Input>,
    /// Maps from the core's iteration space for each input.
    pub maps: Vec<AffineMap>,
    /// Type of all that it computes.
    pub ty: Type,
    /// What the thread does at a point, were it to compute it: loads, operations, stores.
    pub work: u64,
}

/// Where an argument of a step comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Input {
    /// An operand of the group.
    Operand(usize),
    /// What the reduction before gave.
    Reduced,
    /// What an elementwise step before gave.
    Mapped(usize),
}

/// A step of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepRef {
    /// The reduction.
    Reduced,
    /// An elementwise step.
    Mapped(usize),
}

/// A result of a group.
#[derive(Clone, Debug)]
pub struct Out {
    /// The step that computes it.
    pub step: StepRef,
    /// The value that it is outside.
    pub value: Value,
    /// Position in it for each point; the parallel iterators in some order.
    pub map: AffineMap,
    /// Which of its dimensions are one for the group.
    pub flat: Option<Flat>,
}

/// A group.
#[derive(Clone, Debug)]
pub struct Group {
    /// Ranges of the iterators: those of the core, then those of operands' own reductions.
    pub domain: Vec<i64>,
    /// Iterators of the core: so many, the first ones.
    pub core: usize,
    /// Which iterators are reductions.
    pub reductions: Vec<bool>,
    /// Iterators that are not divided.
    pub whole: BTreeSet<usize>,
    /// The reduction: its step, how it combines, the constant it starts from.
    pub reduce: Option<(Step, Combine, Attr)>,
    /// The elementwise steps behind it, or alone; all over the result's elements.
    pub maps: Vec<Step>,
    /// Operands; those that others are computed from come earlier.
    pub operands: Vec<Operand>,
    /// The order of the parallel iterators in tiles of what is computed: that of the last step.
    pub out: AffineMap,
    /// The results; each has a map of its own, for a step may read another one transposed.
    pub outs: Vec<Out>,
    /// The generics that the group computes, the last one first.
    pub ops: Vec<OpId>,
    /// Iterators that loops of other nests around this one count, the outermost first: so many, the first
    /// ones. No tile of the group holds more than one point of them.
    pub outer: usize,
    /// Where the result is a part of a tile that another nest reads; a far tensor if absent.
    pub into: Option<Slot>,
    /// The op that the group is named by, whose place its loops have: the reduction, or the last step where
    /// there is none.
    pub named: OpId,
}

/// A box in a near tile, a dimension for each of a result's.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Shape of the tile.
    pub shape: Vec<i64>,
    /// Where in it the result begins.
    pub at: Vec<i64>,
    /// Whether elements may be computed twice.
    pub again: bool,
    /// Whether loops of the group's own may compute it part by part.
    pub divided: bool,
    /// What is computed along the first dimension of a unit is so in multiples of so many points: what lies
    /// behind them is filled by others.
    pub rows: i64,
    /// Along which dimension that is: how many the unit's result has.
    pub rank: usize,
    /// The dimension along which rows stay from one trip to the next, in the place of the oldest: blocks have one row there, as
    /// more could reach beyond the last place.
    pub turns: Option<usize>,
    /// Where dimensions of the tile are several of the result's, each dimension of the tile; `shape` and `at` are of the result's
    /// then. Empty where all are as they are.
    pub cut: Vec<Cut>,
}

/// A dimension of a tile that is several of a result's: as what is repeated is computed, each element for all of its places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Where in the dimension the result begins.
    pub start: i64,
    /// The sizes of the dimensions that it is, the outer ones first; none where it is one.
    pub sizes: Vec<i64>,
}

impl Slot {
    /// The dimension of the result that each dimension of the tile is; none where it is several.
    pub fn whole_dims(&self, rank: usize) -> Vec<Option<usize>> {
        if self.cut.is_empty() {
            return (0..rank).map(Some).collect();
        }
        let mut next = 0;
        let dims = self.cut.iter().map(|cut| {
            let first = next;
            next += cut.sizes.len().max(1);
            cut.sizes.is_empty().then_some(first)
        });
        dims.collect()
    }
}

impl Group {
    /// Whether elements of one operand are only moved.
    pub fn moves(&self, ir: &Ir) -> bool {
        let (None, [step], [operand]) = (&self.reduce, &self.maps[..], &self.operands[..]) else {
            return false;
        };
        operand.inner.is_none() && yields_argument(ir, step.body).is_some()
    }

    /// The same group with an iterator as two: the outer one in its place, an inner one of so many points
    /// behind all others. `None` where it is a reduction, is never divided, or a value is computed in near
    /// memory for the group.
    pub fn split(&self, d: usize, size: i64) -> Option<Self> {
        let (core, range) = (self.core, *self.domain.get(d)?);
        let parallel = d < core && !self.reductions[d] && !self.whole.contains(&d);
        if !parallel || core < self.domain.len() || self.has_inner() || size < 1 {
            return None;
        }
        let both = AffineExpr::Dim(d) * AffineExpr::Const(size) + AffineExpr::Dim(core);
        let places = (0..core).map(|k| match k == d {
            true => both.clone(),
            false => AffineExpr::Dim(k),
        });
        let places = AffineMap::new(core + 1, places.collect());
        let mut group = self.clone();
        group.domain[d] = (range + size - 1) / size;
        group.domain.push(size);
        group.reductions.push(false);
        group.core += 1;
        let steps = group.reduce.iter_mut().map(|(step, ..)| step);
        for step in steps.chain(&mut group.maps) {
            step.maps = step.maps.iter().map(|map| map.compose(&places)).collect();
        }
        for operand in &mut group.operands {
            operand.map = operand.map.compose(&places);
        }
        for out in &mut group.outs {
            out.map = out.map.compose(&places);
        }
        group.out = group.out.compose(&places);
        Some(group)
    }

    /// The step that decides the tiles: the reduction if there is one.
    pub fn main(&self) -> Option<&Step> {
        let reduce = self.reduce.as_ref().map(|(step, ..)| step);
        reduce.or(self.maps.first())
    }
    /// Points of the core's iteration space.
    pub fn points(&self) -> i64 {
        let ranges = self.domain[..self.core].iter().copied();
        ranges.fold(1, i64::saturating_mul)
    }
    /// Iterators of the core that are or are not reductions.
    pub fn iterators(&self, reductions: bool) -> impl Iterator<Item = usize> + '_ {
        (0..self.core).filter(move |d| self.reductions[*d] == reductions)
    }
    /// Type of what a step computes.
    pub fn ty(&self, out: StepRef) -> Option<Type> {
        match out {
            StepRef::Reduced => self.reduce.as_ref().map(|(step, ..)| step.ty),
            StepRef::Mapped(i) => self.maps.get(i).map(|step| step.ty),
        }
    }
    /// Type of the whole of each result.
    pub fn result(&self) -> Option<Type> {
        self.ty(self.outs.first()?.step)
    }
    /// The iterators that count each dimension of the result, those of the largest steps first, as the digits of a number are:
    /// each steps over all that those behind it count. `None` where the result lies otherwise.
    pub fn digits(&self) -> Option<Vec<Vec<usize>>> {
        let forms = self.outs.first()?.map.linear()?;
        let mut seen = HashSet::new();
        let dimension = |form: &LinearExpr| {
            let mut terms: Vec<(usize, i64)> = form.terms().collect();
            terms.sort_by_key(|(_, step)| *step);
            let mut all = 1i64;
            let dense = terms.iter().all(|(d, step)| {
                let next = *step == all && !self.reductions[*d] && seen.insert(*d);
                all = all.saturating_mul(self.domain[*d]);
                next
            });
            let plain = dense && form.constant == 0 && !terms.is_empty();
            plain.then(|| terms.iter().rev().map(|(d, _)| *d).collect())
        };
        forms.iter().map(dimension).collect()
    }
    /// Whether some operand is computed in near memory.
    pub fn has_inner(&self) -> bool {
        self.operands.iter().any(|o| o.inner.is_some())
    }
}

/// A generic that reduces one value to fewer elements, from a constant: with what it reads and what it begins with.
pub(crate) fn reduction(ir: &Ir, op: OpId) -> Option<(Generic, Value, Value)> {
    let generic: Generic = ir.get(op)?;
    let (&[source], &[start]) = (&generic.inputs[..], &generic.outputs[..]) else {
        return None;
    };
    generic.combine?;
    filled(ir, start)?;
    let less = ir.ty(start).elements()? < ir.ty(source).elements()?;
    less.then_some((generic, source, start))
}

/// The constant that a generic without inputs fills its result with.
pub(crate) fn filled(ir: &Ir, value: Value) -> Option<Attr> {
    ir.def::<Generic>(value)?.constant(ir)
}
