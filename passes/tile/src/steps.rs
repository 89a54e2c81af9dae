//! Elementwise nests that units take in several steps.
//!
//! Above, elementwise operators that follow each other are one nest. The thread computes it where no unit computes just
//! that: a sum of two tensors and a rectifier, say, on a machine with a unit for each; and so it does where units compute it, but
//! in other blocks than those of the product that it follows. Here such a nest can become *steps*, each a part of its scalar
//! computation that some unit takes in blocks of the same kind, as few as there can be. They stay in the group of the nest, so what one
//! gives another is a block of the result. Whether that is quicker the planner says, which is asked both ways. If one step
//! would be left to the thread, the nest stays as it is: it reads and writes each element once.
//!
//! A unit may want an operand in a whole block that is read along one of its dimensions alone: a bias for each channel of an image,
//! where the block has channels and pixels, and the unit adds blocks. The operand is *spread* then: repeated along the last
//! dimension of the result, when the program is compiled if it is constant.
//!
//! A step is an op of the computation with some of those that it needs, all the way down to values that other steps or inputs
//! give: of the sets of ops that end in one op each is tried, and the least number of steps follows from those of the
//! values before.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tir::Type;
use tir::data::Array;
use tir::interp::{attr_of, elements};
use tir::{
    AffineExpr, AffineMap, At, Definition, Ir, Mapping, OpId, RegionId, Ret, Rets, Traits, Value,
};
use tir_graph::Constant;
use tir_tensor::{Empty, Generic, Yield};

use crate::matching::{Candidate, assignments};
use crate::plan::{Target, out_order, pays_for_elements};
use crate::scalar::Scalar;
use crate::settle::copy_nest;

/// Ops of a scalar computation, constants apart, above which it is left as it is.
const MOST: usize = 8;

/// The iterators that an operand's dimensions are in a block of a unit.
type Order = Vec<Vec<usize>>;

/// An elementwise nest that can be steps.
pub(crate) struct Steps {
    /// The nest.
    pub(crate) op: OpId,
    /// Each in an order in which steps read what those before give.
    ways: Vec<Vec<Cone>>,
    /// Whether a unit takes the nest as it is, in some blocks.
    taken: bool,
}

impl Steps {
    /// How many ways there are to make steps of it.
    pub(crate) fn ways(&self) -> usize {
        self.ways.len()
    }

    /// What the group of the nest takes at least if the nest stays as it is, where no unit takes it: the thread computes each of
    /// its elements. That is so for the last nest of a group: of others no more may be computed than is read of them.
    pub(crate) fn by_thread(
        &self,
        func: &Ir,
        group: &HashMap<OpId, usize>,
        target: &Target<'_>,
    ) -> Option<i64> {
        let own = group.get(&self.op);
        let mut users = func.uses(func.result(self.op, 0));
        let is_last = own.is_none() || !users.any(|used| group.get(&used.op) == own);
        if self.taken || !is_last {
            return None;
        }
        let generic = func.get::<Generic>(self.op)?;
        let points = generic.domain(func).ok()?;
        let points = points.into_iter().fold(1, i64::saturating_mul);
        let each = target.info.thread_cycles(generic.point_work(func));
        let cores = target.info.cores_with(target.near.name) as i64;
        let all = i64::try_from(each).ok()?.checked_mul(points)?;
        Some(all / cores.max(1))
    }
}

/// The nests of a function that units take as steps in blocks in which none takes them as they are, in order.
pub(crate) fn candidates(func: &mut Ir, target: &Target<'_>) -> Vec<Steps> {
    // A vector unit computes any elements.
    if !target.vectors.is_empty() || target.behaviours.is_empty() {
        return Vec::new();
    }
    let all = func.walk_ids().into_iter();
    all.filter_map(|op| candidate(func, op, target)).collect()
}

fn candidate(func: &mut Ir, op: OpId, target: &Target<'_>) -> Option<Steps> {
    // On buffers a nest has no result.
    if func.parent(op) != Some(func.root()) || func.results(op).len() != 1 {
        return None;
    }
    let generic = func.get::<Generic>(op)?;
    let ops = scalar_ops(func, &generic)?;
    let all = (1 << ops.len()) - 1;
    let whole = Cone::of(func, &generic, &ops, (all, None), ops.len() - 1)?;
    if whole.is_in_sequence(func, &generic, target) {
        return None;
    }
    let own = whole.orders(func, &generic, target);
    // In which blocks a unit takes it matters where engines pay for short runs: results are stored as units give them.
    if !own.is_empty() && !pays_for_elements(func.ty(generic.outputs[0]).elem(), target) {
        return None;
    }
    // Along the last dimension of the result elements lie beside each other.
    let last = generic.indexing_maps.last()?.as_projection()?.pop();
    let narrow = |d: &usize| {
        let mut inputs = generic.indexing_maps.iter().take(generic.inputs.len());
        inputs.any(|map| !map.exprs.iter().any(|e| e.uses(*d)))
    };
    let mut ways: Vec<Vec<Cone>> = Vec::new();
    for spread in std::iter::once(None).chain(last.filter(narrow).map(Some)) {
        let found = fewest(func, &generic, &ops, spread, target);
        let others = found.into_iter().filter(|(order, _)| !own.contains(order));
        for (_, cones) in others {
            let as_it_is = spread.is_none() && cones.len() == 1;
            if !as_it_is && !ways.contains(&cones) {
                ways.push(cones);
            }
        }
    }
    let taken = !own.is_empty();
    (!ways.is_empty()).then_some(Steps { op, ways, taken })
}

/// The ops of an elementwise computation with one result, constants apart, in their order; none of what cannot be cut into
/// steps.
fn scalar_ops(func: &Ir, generic: &Generic) -> Option<Vec<OpId>> {
    let out = generic.indexing_maps.last()?;
    let elementwise = generic.combine.is_none() && !generic.reductions().contains(&true);
    if !elementwise || generic.outputs.len() != 1 || !out.is_permutation() {
        return None;
    }
    generic.domain(func).ok()?;
    let block = func.entry(generic.body)?;
    let end = func.last(block)?;
    let computed = func.ops_in(block).filter(|op| *op != end);
    let ops: Vec<OpId> = computed
        .filter(|op| !func.has(*op, Traits::ConstantLike))
        .collect();
    let plain = |op: &OpId| {
        let alone = func.regions(*op).len() == 0 && func.results(*op).len() == 1;
        alone && func.operands(*op).len() > 0 && func.is_pure(*op)
    };
    let last = ops.last().map(|op| func.result(*op, 0));
    let [result] = func.get::<Yield>(end)?.values[..] else {
        return None;
    };
    let fits = !ops.is_empty() && ops.len() <= MOST && last == Some(result);
    (fits && ops.iter().all(plain)).then_some(ops)
}

/// Some ops of a computation, of which one alone gives what is read elsewhere.
#[derive(Clone, PartialEq, Eq)]
struct Cone {
    /// Its ops, in order.
    ops: Vec<OpId>,
    /// What it gives.
    gives: Value,
    /// What it reads: inputs of the nest, by their arguments, and what other steps give.
    reads: Vec<Value>,
    /// The iterator that inputs are spread along which it does not count through.
    spread: Option<usize>,
}

impl Cone {
    /// Of the ops in a set, by their numbers, and with inputs that are spread; `None` if one of the ops is not needed for the one
    /// it ends in.
    fn of(
        func: &Ir,
        generic: &Generic,
        all: &[OpId],
        (set, spread): (usize, Option<usize>),
        end: usize,
    ) -> Option<Self> {
        let numbers = (0..all.len()).filter(|i| set >> i & 1 == 1);
        let ops: Vec<OpId> = numbers.map(|i| all[i]).collect();
        let gives = func.result(all[end], 0);
        let block = func.entry(generic.body)?;
        let needed = |op: &OpId| {
            let value = func.result(*op, 0);
            value == gives || func.uses(value).any(|u| ops.contains(&u.op))
        };
        if !ops.iter().all(needed) {
            return None;
        }
        let mut reads: Vec<Value> = Vec::new();
        for value in ops.iter().flat_map(|op| func.operands(*op)) {
            let inside = func.owner(value).is_some_and(|op| ops.contains(&op));
            if inside || func.constant(value).is_some() || reads.contains(&value) {
                continue;
            }
            match func.definition(value) {
                Definition::Argument(of, _) if of == block => {}
                Definition::Result(op, _) if all.contains(&op) => {}
                // A value from around the nest has no place in a tile.
                _ => return None,
            }
            reads.push(value);
        }
        Some(Self {
            ops,
            gives,
            reads,
            spread,
        })
    }

    /// The map by which it reads or writes a value, and whether that is spread.
    fn map(&self, func: &Ir, generic: &Generic, value: Value) -> (AffineMap, bool) {
        let number = match func.definition(value) {
            Definition::Argument(_, index) => index,
            Definition::Result(..) => generic.inputs.len(),
        };
        let mut map = generic.indexing_maps[number].clone();
        let narrow = self
            .spread
            .filter(|d| !map.exprs.iter().any(|e| e.uses(*d)));
        map.exprs.extend(narrow.map(AffineExpr::Dim));
        (map, narrow.is_some())
    }

    /// A region that computes it from what it reads.
    fn region(&self, func: &mut Ir) -> RegionId {
        let region = func.new_region();
        let block = func.new_block(region);
        let mut map = Mapping::default();
        for value in &self.reads {
            let ty = func.ty(*value);
            let arg = func.add_arg(block, ty);
            map.map(*value, arg);
        }
        for op in &self.ops {
            let operands: Vec<Value> = func.operands(*op).collect();
            for value in operands {
                let constant = func.owner(value);
                let constant = constant.filter(|op| func.has(*op, Traits::ConstantLike));
                if let Some(constant) = constant.filter(|_| map.get(value) == value) {
                    func.duplicate(constant, At::End(block), &mut map);
                }
            }
            func.duplicate(*op, At::End(block), &mut map);
        }
        let values = vec![map.get(self.gives)];
        func.add(block, Yield { values });
        region
    }

    /// What `with` gives for it as something to run on a unit.
    fn ask<R>(
        &self,
        func: &mut Ir,
        generic: &Generic,
        with: impl FnOnce(&Ir, &Candidate<'_>) -> R,
    ) -> R {
        let body = self.region(func);
        let ir = &*func;
        let values = self.reads.iter().chain([&self.gives]);
        let maps = values.clone().map(|v| self.map(ir, generic, *v).0);
        let maps: Vec<AffineMap> = maps.collect();
        let reductions = generic.reductions();
        let candidate = Candidate {
            scalar: Scalar {
                ir,
                body,
                extended: false,
            },
            combine: None,
            elems: values.map(|v| ir.ty(*v)).collect(),
            maps: &maps,
            reductions: &reductions,
            joined: &[],
        };
        let found = with(ir, &candidate);
        if let Some(block) = func.entry(body) {
            func.erase_block(block);
        }
        found
    }

    /// Whether an intrinsic of several generics computes it as one of them.
    fn is_in_sequence(&self, func: &mut Ir, generic: &Generic, target: &Target<'_>) -> bool {
        self.ask(func, generic, |_, candidate| {
            let mut steps = target.sequences.iter().flat_map(|s| &s.steps);
            steps.any(|step| assignments(candidate, 0, &step.behaviour, 1).is_ok())
        })
    }

    /// The blocks of the result in which units take it.
    fn orders(&self, func: &mut Ir, generic: &Generic, target: &Target<'_>) -> BTreeSet<Order> {
        self.ask(func, generic, |ir, candidate| {
            let found = target.known.ways(ir, candidate, target);
            found
                .0
                .iter()
                .filter_map(|way| out_order(target, way))
                .collect()
        })
    }
}

/// For each kind of blocks in which units take them, the fewest steps that compute the last op, each behind those that give
/// what it reads.
fn fewest(
    func: &mut Ir,
    generic: &Generic,
    ops: &[OpId],
    spread: Option<usize>,
    target: &Target<'_>,
) -> BTreeMap<Order, Vec<Cone>> {
    // Of each op, the steps that give it.
    let mut known: Vec<BTreeMap<Order, Vec<Cone>>> = Vec::new();
    for end in 0..ops.len() {
        let mut best: BTreeMap<Order, Vec<Cone>> = BTreeMap::new();
        // The op itself, and any of those before it: most of them first.
        for below in (0..1usize << end).rev() {
            let set = (below | 1 << end, spread);
            let Some(cone) = Cone::of(func, generic, ops, set, end) else {
                continue;
            };
            for order in cone.orders(func, generic, target) {
                let mut steps: Vec<Cone> = Vec::new();
                let mut reads = cone.reads.iter().filter_map(|value| func.owner(*value));
                let complete = reads.all(|op| {
                    let number = ops.iter().position(|other| *other == op);
                    let before = number.and_then(|i| known[i].get(&order));
                    for step in before.into_iter().flatten() {
                        if !steps.contains(step) {
                            steps.push(step.clone());
                        }
                    }
                    before.is_some()
                });
                steps.push(cone.clone());
                let fewer = best.get(&order).is_none_or(|best| steps.len() < best.len());
                if complete && fewer {
                    best.insert(order, steps);
                }
            }
        }
        known.push(best);
    }
    known.pop().unwrap_or_default()
}

/// Puts steps in the place of a nest, in its group; gives them. A nest has no more ways than it says.
pub(crate) fn split(
    func: &mut Ir,
    steps: &Steps,
    way: usize,
    group: &mut HashMap<OpId, usize>,
) -> Vec<OpId> {
    let Steps { op, ways, .. } = steps;
    let mut made = Vec::new();
    // What it reads may be what other steps give by now.
    let generic = func.get::<Generic>(*op);
    let (Some(cones), Some(generic)) = (ways.get(way), generic.as_ref()) else {
        return made;
    };
    let Some(block) = func.entry(generic.body) else {
        return made;
    };
    let out = func.ty(generic.outputs[0]);
    let mut values: HashMap<Value, Value> = HashMap::new();
    for (arg, input) in func.args(block).zip(&generic.inputs) {
        values.insert(arg, *input);
    }
    let (number, loc) = (group.remove(op), func.loc(*op));
    let domain = generic.domain(func).unwrap_or_default();
    // Inputs that are spread, by their arguments.
    let mut wide: HashMap<Value, Value> = HashMap::new();
    for (i, cone) in cones.iter().enumerate() {
        let last = i + 1 == cones.len();
        let body = cone.region(func);
        let ty = out.with_elem(func.ty(cone.gives));
        let (mut inputs, mut indexing_maps) = (Vec::new(), Vec::new());
        for value in &cone.reads {
            let Some(source) = values.get(value).copied() else {
                continue;
            };
            let (map, narrow) = cone.map(func, generic, *value);
            let size = cone.spread.filter(|_| narrow).and_then(|d| domain.get(d));
            inputs.push(match (size, wide.get(value)) {
                (Some(_), Some(known)) => *known,
                (Some(size), None) => {
                    let (tensor, nest) = repeated(func, *op, source, *size);
                    wide.insert(*value, tensor);
                    made.extend(nest);
                    tensor
                }
                (None, _) => source,
            });
            indexing_maps.push(map);
        }
        indexing_maps.push(cone.map(func, generic, cone.gives).0);
        let mut b = func.at(At::Before(*op));
        b.loc = loc;
        let start = match last {
            true => generic.outputs[0],
            false => b.add(Empty {
                dynamic_sizes: Vec::new(),
                space: None,
                result: Ret(ty),
            }),
        };
        let results = b.add(Generic {
            inputs,
            outputs: vec![start],
            indexing_maps,
            iterator_types: generic.iterator_types.clone(),
            combine: None,
            sizes: generic.sizes.clone(),
            body,
            results: Rets(vec![ty]),
        });
        if let Some(step) = func.owner(results[0]) {
            group.extend(number.map(|number| (step, number)));
            made.push(step);
        }
        values.insert(cone.gives, results[0]);
        if last {
            func.replace(*op, &results);
        }
    }
    made
}

/// A tensor in which each element of another one is repeated so many times along a new last dimension, before an op; and
/// the nest that computes it, if it is not known.
fn repeated(func: &mut Ir, before: OpId, source: Value, times: i64) -> (Value, Option<OpId>) {
    let from = func.ty(source);
    let (shape, elem) = (from.shape().unwrap_or(&[]).to_vec(), from.elem());
    let ty = Type::tensor([&shape[..], &[times]].concat(), elem);
    let known = func.constant(source).and_then(|value| elements(value).ok());
    let known = known.and_then(|array| wider(&array, times));
    let loc = func.loc(before);
    if let Some(array) = known {
        let mut b = func.at(At::Before(before));
        b.loc = loc;
        let value = attr_of(&array);
        return (b.add(Constant { value }), None);
    }
    let rank = shape.len();
    let all: Vec<usize> = (0..rank).collect();
    let from = AffineMap::project(rank + 1, &all);
    let tensor = copy_nest(func, At::Before(before), source, ty, from);
    let nest = func.owner(tensor);
    if let Some(nest) = nest {
        func.set_loc(nest, loc);
    }
    (tensor, nest)
}

/// An array with each element so many times along a new last dimension.
fn wider(array: &Array, times: i64) -> Option<Array> {
    let times = usize::try_from(times).ok()?;
    let each = array.bytes().chunks_exact(array.dtype().size());
    let bytes: Vec<u8> = each.flat_map(|element| element.repeat(times)).collect();
    let shape = [array.shape(), &[times]].concat();
    Array::new(array.dtype(), &shape, bytes.into()).ok()
}
