//! Matching by declared behaviour: a generic against what an intrinsic computes.
//!
//! Iterators of one point are dropped on both sides before anything is compared: they say where a
//! dimension of one element stands, not what is computed. Where the intrinsic has one, its operand
//! has a dimension of one element there, which no iterator of the generic needs to run through.
//!
//! That an instruction is found by the program it stands for is as in TVM's tensor intrinsics and
//! Exo's `@instr`; here it is looked for up to renaming, on tiles already cut to its size.

use std::collections::HashSet;
use std::fmt::{self, Display};
use std::sync::Arc;

use tir::{AffineExpr, AffineMap, BlockId, Definition, Ir, LinearExpr, OpId, Type, Value};
use tir_accel::machine::IntrinsicInfo;
use tir_accel::{Intrinsic, Yield as AccelYield};
use tir_tensor::{Combine, Generic};

use crate::plan::Block;
use crate::scalar::{Immediates, Scalar, same_scalar};

/// What an intrinsic computes, where it is one generic on its operands.
pub struct Behaviour<'a> {
    /// The machine's arena.
    pub ir: &'a Ir,
    /// The generic.
    pub generic: Generic,
    /// Which operand of the intrinsic each input of the generic is.
    pub inputs: Vec<usize>,
    /// The range of each iterator.
    pub domain: Vec<i64>,
    /// For each map, inputs first and then the output, what each dimension of the operand is.
    pub places: Vec<Vec<Place>>,
}

/// What a dimension of an intrinsic's operand is.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Place {
    /// The iterator that counts it; none for a dimension of one element.
    pub dim: Option<usize>,
    /// Reductions that move in it too, by so many elements each: a window.
    pub window: Vec<(usize, i64)>,
}

impl Place {
    fn uses(&self, d: usize) -> bool {
        self.dim == Some(d) || self.window.iter().any(|(w, _)| *w == d)
    }
}

/// Why an intrinsic does not compute what a generic does.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Mismatch {
    /// How much was found equal before: the greatest is the nearest.
    pub rank: u8,
    /// Where memory alone is missing, how many bytes its smallest tiles need.
    pub needed: Option<i64>,
    /// What differs.
    pub text: String,
}

impl Mismatch {
    pub(crate) fn new(rank: u8, text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            rank,
            needed: None,
            text,
        }
    }
    /// Whether this is nearer to what is wanted than another one: more is equal, or fewer bytes are missing.
    pub(crate) fn is_nearer(&self, other: &Self) -> bool {
        let less = self.needed.zip(other.needed);
        let less = less.is_some_and(|(own, other)| own < other);
        self.rank > other.rank || self.rank == other.rank && less
    }
}
impl Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<'a> Behaviour<'a> {
    /// The behaviour of an intrinsic; an error if it is not one generic on its operands.
    pub fn of(machine: &'a Ir, info: &IntrinsicInfo) -> Result<Self, Mismatch> {
        let found = Self::find(machine, info);
        found.map_err(|text| Mismatch::new(0, format!("its behaviour {text}, never matched")))
    }

    fn find(machine: &'a Ir, info: &IntrinsicInfo) -> Result<Self, String> {
        let (block, values) = body(machine, info).ok_or("has no body")?;
        let [result] = values[..] else {
            return Err(format!("has {} results", values.len()));
        };
        let generics = |op: &OpId| machine.is::<Generic>(*op);
        let count = machine.ops_in(block).filter(generics).count();
        let Some(generic) = machine.def::<Generic>(result).filter(|_| count == 1) else {
            return Err(format!("is {count} generics"));
        };
        let argument = |value: &Value| match machine.definition(*value) {
            Definition::Argument(of, index) if of == block => Some(index),
            _ => None,
        };
        let inputs = generic.inputs.iter().map(argument);
        let inputs: Option<Vec<usize>> = inputs.collect();
        let inputs = inputs.ok_or("reads what is no operand")?;
        if generic.outputs.iter().map(argument).collect::<Vec<_>>() != [Some(0)] {
            return Err("does not write its first operand alone".into());
        }
        Self::new(machine, generic, inputs)
    }

    /// What a generic computes whose inputs are these operands.
    pub(crate) fn new(
        machine: &'a Ir,
        generic: Generic,
        inputs: Vec<usize>,
    ) -> Result<Self, String> {
        let domain = generic.domain(machine);
        let domain = domain.map_err(|_| "has ranges that are not known")?;
        let places = generic
            .indexing_maps
            .iter()
            .map(|map| places(map, &domain, &generic.reductions()));
        let places: Option<Vec<_>> = places.collect();
        let places = places.ok_or("reads at what is neither an iterator nor a window")?;
        Ok(Self {
            ir: machine,
            generic,
            inputs,
            domain,
            places,
        })
    }

    /// Its scalar computation.
    pub(crate) fn scalar(&self) -> Scalar<'_> {
        Scalar {
            ir: self.ir,
            body: self.generic.body,
            extended: false,
        }
    }
}

/// The block of an intrinsic's region and what it yields.
pub(crate) fn body(machine: &Ir, info: &IntrinsicInfo) -> Option<(BlockId, Vec<Value>)> {
    let record: Intrinsic = machine.get(info.op)?;
    let block = machine.entry(record.body)?;
    let end: AccelYield = machine.get(machine.last(block)?)?;
    Some((block, end.values))
}

/// What each dimension of an operand is: an iterator, a window of one and reductions, or its only
/// element; `None` if one is neither, or if one iterator is in two.
fn places(map: &AffineMap, domain: &[i64], reductions: &[bool]) -> Option<Vec<Place>> {
    let mut used = HashSet::new();
    let mut place = |form: &LinearExpr| {
        let terms: Vec<(usize, i64)> = form.terms().filter(|(d, _)| domain[*d] != 1).collect();
        if form.constant != 0 || !terms.iter().all(|(d, c)| *c > 0 && used.insert(*d)) {
            return None;
        }
        if let [] | [_] = terms[..] {
            let one = terms.first().is_none_or(|(_, c)| *c == 1);
            let dim = terms.first().map(|(d, _)| *d);
            let window = Vec::new();
            return one.then_some(Place { dim, window });
        }
        let (window, counted): (Vec<_>, Vec<_>) =
            terms.into_iter().partition(|(d, _)| reductions[*d]);
        match counted[..] {
            [(d, 1)] => Some(Place {
                dim: Some(d),
                window,
            }),
            _ => None,
        }
    };
    map.linear()?.iter().map(&mut place).collect()
}

/// Iterators of more or fewer points than one, and maps in which the others stand at 0 and these
/// are counted through.
pub(crate) fn without_units(domain: &[i64], maps: &[AffineMap]) -> (Vec<usize>, Vec<AffineMap>) {
    let kept: Vec<usize> = (0..domain.len()).filter(|d| domain[*d] != 1).collect();
    let exprs = (0..domain.len()).map(|d| {
        let at = kept.iter().position(|k| *k == d);
        at.map_or(AffineExpr::Const(0), AffineExpr::Dim)
    });
    let rename = AffineMap::new(kept.len(), exprs.collect());
    let maps = maps.iter().map(|map| map.compose(&rename)).collect();
    (kept, maps)
}

/// All orders of `0..n`, the identity first. Small `n` only: more than 6 give the identity alone.
pub fn orders(n: usize) -> Vec<Vec<usize>> {
    if n > 6 {
        return vec![(0..n).collect()];
    }
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..n {
        let longer = |order: &Vec<usize>| {
            let free = (0..n).filter(|i| !order.contains(i));
            free.map(|i| [&order[..], &[i]].concat())
                .collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

/// A generic on tiles that is exactly what an intrinsic computes.
pub struct Exact {
    /// Which input of the generic each input of the intrinsic's generic is.
    pub inputs: Vec<usize>,
    /// What its immediates are.
    pub immediates: Immediates,
}

/// Matches a generic with one output: the same scalar computation, combiner, iterator kinds and
/// ranges, and the same maps up to an order of the iterators and of the inputs. All orders of the inputs
/// that match, the first one that the program has first.
pub fn match_exact(ir: &Ir, generic: &Generic, intrinsic: &Behaviour<'_>) -> Vec<Exact> {
    exact(ir, generic, intrinsic).unwrap_or_default()
}

fn exact(ir: &Ir, generic: &Generic, intrinsic: &Behaviour<'_>) -> Option<Vec<Exact>> {
    let other = &intrinsic.generic;
    if generic.combine != other.combine
        || generic.inputs.len() != other.inputs.len()
        || generic.outputs.len() != 1
        || ir.ty(generic.outputs[0]) != intrinsic.ir.ty(other.outputs[0])
    {
        return None;
    }
    let domain = generic.domain(ir).ok()?;
    let (kept, own_maps) = without_units(&domain, &generic.indexing_maps);
    let (wanted, their_maps) = without_units(&intrinsic.domain, &other.indexing_maps);
    if kept.len() != wanted.len() {
        return None;
    }
    let mine = Scalar {
        ir,
        body: generic.body,
        extended: false,
    };
    let theirs = intrinsic.scalar();
    let mut found = Vec::new();
    for order in orders(generic.inputs.len()) {
        // Input `i` of the generic is input `order[i]` of the intrinsic's.
        let types = order
            .iter()
            .enumerate()
            .all(|(i, j)| ir.ty(generic.inputs[i]) == intrinsic.ir.ty(other.inputs[*j]));
        let mut immediates = Immediates::new();
        if !types || !same_scalar(mine, theirs, &order, &mut immediates) {
            continue;
        }
        let mut maps: Vec<(&AffineMap, &AffineMap)> = order
            .iter()
            .enumerate()
            .map(|(i, j)| (&own_maps[i], &their_maps[*j]))
            .collect();
        maps.push((own_maps.last()?, their_maps.last()?));
        let iterators = orders(kept.len()).into_iter().any(|iterators| {
            // Iterator `d` of the generic is `iterators[d]` of the intrinsic's, of those kept.
            let kinds = kept.iter().zip(&iterators).all(|(d, e)| {
                let (d, e) = (*d, wanted[*e]);
                domain[d] == intrinsic.domain[e]
                    && generic.iterator_types[d] == other.iterator_types[e]
            });
            let same = |(a, b): &(&AffineMap, &AffineMap)| {
                a.compose(&renaming(&iterators)).linear() == b.linear()
            };
            kinds && maps.iter().all(same)
        });
        if iterators {
            let mut inputs = vec![0; order.len()];
            for (i, j) in order.iter().enumerate() {
                inputs[*j] = i;
            }
            found.push(Exact { inputs, immediates });
        }
    }
    Some(found)
}

/// The map that renames dimension `d` to `to[d]`.
fn renaming(to: &[usize]) -> AffineMap {
    AffineMap::project(to.len(), to)
}

/// Iterators that one of an intrinsic's is, outermost first, each with so many points of it.
pub type Joined = Vec<(usize, i64)>;

/// An assignment of a generic's iterators to those of an intrinsic: unit dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// What computes the points.
    pub by: By,
    /// For each iterator of the intrinsic, the iterators of the generic that it runs through; none for
    /// those of one point.
    pub unit_dims: Vec<Joined>,
    /// For each input of the generic, the input of the intrinsic's generic.
    pub inputs: Vec<usize>,
}

/// What computes the points of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// An intrinsic, by its index in the machine.
    Intrinsic(usize),
    /// A vector unit.
    Vector(Arc<Block>),
}

impl Assignment {
    /// The index of the intrinsic, if one computes.
    pub fn intrinsic(&self) -> Option<usize> {
        match self.by {
            By::Intrinsic(index) => Some(index),
            By::Vector(_) => None,
        }
    }
    /// For the dimensions of an operand, the iterators of the generic; none for dimensions of one element.
    pub fn operand_dims(&self, places: &[Place]) -> Vec<Vec<usize>> {
        let iterators = |place: &Place| match place.dim {
            Some(d) => self.unit_dims[d].iter().map(|(d, _)| *d).collect(),
            None => Vec::new(),
        };
        places.iter().map(iterators).collect()
    }
    /// Whether several iterators are one of the intrinsic's.
    pub fn is_joined(&self) -> bool {
        self.unit_dims.iter().any(|dims| dims.len() > 1)
    }
}

/// Whether what moves in a window of the unit's operand does so in the operand of a generic, if its
/// iterators are these.
fn same_windows(mine: &AffineMap, theirs: &[Place], dims: &[Joined]) -> bool {
    // Iterators that are one together move in no window.
    let alone = |unit: usize| match dims[unit][..] {
        [(d, _)] => Some(d),
        _ => None,
    };
    let Some(forms) = mine.linear() else {
        return theirs.iter().all(|place| place.window.is_empty());
    };
    theirs.iter().all(|place| {
        let dim = place.dim.and_then(alone);
        let form = dim.and_then(|d| forms.iter().find(|form| form.at(d) != 0));
        let (Some(d), Some(form)) = (dim, form) else {
            return place.window.is_empty();
        };
        let mut window = place.window.iter();
        window.all(|(unit, step)| alone(*unit).is_some_and(|w| form.at(w) == step * form.at(d)))
    })
}

/// What a generic has to say for an assignment.
pub struct Candidate<'a> {
    /// The scalar computation.
    pub scalar: Scalar<'a>,
    /// The combiner.
    pub combine: Option<Combine>,
    /// Element types of the inputs, then of the output.
    pub elems: Vec<Type>,
    /// Maps of the inputs, then of the output.
    pub maps: &'a [AffineMap],
    /// Which iterators are reductions.
    pub reductions: &'a [bool],
    /// Iterators that may be one of a unit's together.
    pub joined: &'a [Joined],
}

/// All ways to run the points of a generic on an intrinsic, `limit` at most: the scalar
/// computation is equal, and a unit dimension appears in the map of an operand exactly where the
/// iterator that it is assigned to does. The other iterators become loops.
pub fn assignments(
    candidate: &Candidate<'_>,
    index: usize,
    intrinsic: &Behaviour<'_>,
    limit: usize,
) -> Result<Vec<Assignment>, Mismatch> {
    let other = &intrinsic.generic;
    let count = candidate.maps.len() - 1;
    let elems = |v: Value| intrinsic.ir.ty(v).elem();
    let combines = |how: Option<Combine>| match how {
        Some(how) => format!("combines by {}", how.keyword()),
        None => "combines nothing".to_string(),
    };
    if candidate.combine != other.combine {
        let (found, wanted) = (combines(candidate.combine), combines(other.combine));
        return Err(Mismatch::new(
            1,
            format!("it {wanted}, the operator {found}"),
        ));
    }
    if other.inputs.len() != count {
        let wanted = other.inputs.len();
        let text = format!("it reads {wanted} and the operator {count} operands");
        return Err(Mismatch::new(2, text));
    }
    let (found, wanted) = (candidate.elems[count], elems(other.outputs[0]));
    if found != wanted {
        let text = format!("it writes elements of {wanted}, the operator {found}");
        return Err(Mismatch::new(3, text));
    }
    let theirs = intrinsic.scalar();
    let reductions = other.reductions();
    let mut found = Vec::new();
    let wanted: Vec<Type> = other.inputs.iter().map(|v| elems(*v)).collect();
    let list = |types: &[Type]| {
        let texts: Vec<String> = types.iter().map(ToString::to_string).collect();
        texts.join(" and ")
    };
    let mut nearest: Option<Mismatch> = None;
    for order in orders(count) {
        let types = order
            .iter()
            .enumerate()
            .all(|(i, j)| candidate.elems[i] == wanted[*j]);
        if !types {
            continue;
        }
        if !same_scalar(candidate.scalar, theirs, &order, &mut Immediates::new()) {
            nearest = nearest.max(Some(Mismatch::new(4, "it computes another expression")));
            continue;
        }
        let pairs: Vec<(&AffineMap, &[Place])> = (0..=count)
            .map(|i| {
                let j = if i < count { order[i] } else { count };
                (&candidate.maps[i], &intrinsic.places[j][..])
            })
            .collect();
        let fits = |unit: usize, dim: usize| {
            reductions[unit] == candidate.reductions[dim]
                && pairs.iter().all(|(mine, theirs)| {
                    let here = mine.exprs.iter().any(|e| e.uses(dim));
                    here == theirs.iter().any(|place| place.uses(unit))
                })
        };
        let mut partial: Vec<Vec<Joined>> = vec![Vec::new()];
        for unit in 0..intrinsic.domain.len() {
            let mut longer = Vec::new();
            let points = intrinsic.domain[unit];
            for chosen in &partial {
                if points == 1 {
                    longer.push([&chosen[..], &[Vec::new()]].concat());
                    continue;
                }
                let free = |dim: usize| {
                    let mut taken = chosen.iter().flatten();
                    taken.all(|(other, _)| *other != dim) && fits(unit, dim)
                };
                // Later iterators first: they run along contiguous elements.
                for dim in (0..candidate.reductions.len()).rev() {
                    if free(dim) {
                        longer.push([&chosen[..], &[vec![(dim, points)]]].concat());
                    }
                }
                for joined in candidate.joined {
                    let sizes = joined.iter().map(|(_, size)| *size);
                    let all = joined.iter().all(|(dim, _)| free(*dim));
                    if all && sizes.product::<i64>() == points {
                        longer.push([&chosen[..], std::slice::from_ref(joined)].concat());
                    }
                }
            }
            if longer.is_empty() {
                let kind = ["parallel iterator", "reduction"][usize::from(reductions[unit])];
                let text = format!(
                    "maps differ: the operator has no {kind} that appears in the same operands \
                     as its iterator {unit}, which has {} points",
                    intrinsic.domain[unit]
                );
                nearest = nearest.max(Some(Mismatch::new(5, text)));
            }
            partial = longer;
        }
        let some = !partial.is_empty();
        partial.retain(|dims| {
            pairs
                .iter()
                .all(|(mine, theirs)| same_windows(mine, theirs, dims))
        });
        if some && partial.is_empty() {
            let text = "maps differ: the window of an operand moves in other steps";
            nearest = nearest.max(Some(Mismatch::new(5, text)));
        }
        for unit_dims in partial {
            if found.len() < limit {
                found.push(Assignment {
                    by: By::Intrinsic(index),
                    unit_dims,
                    inputs: order.clone(),
                });
            }
        }
    }
    if found.is_empty() {
        return Err(nearest.unwrap_or_else(|| {
            let (taken, given) = (list(&wanted), list(&candidate.elems[..count]));
            let text = format!("it takes elements of {taken}, the operator has {given}");
            Mismatch::new(3, text)
        }));
    }
    Ok(found)
}
