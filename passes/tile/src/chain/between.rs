//! What is done to a tile between the stage that computes it and the one that reads it.
//!
//! A group that reads one tensor, finds out something about each of its *rows*, a sum or a maximum, and gives a tensor of
//! the same shape is no stage: an element of its result needs a whole row. Where a reader wants tiles of whole rows,
//! its steps are done to the tile that a producer computed, in its place. Softmax is such a group.
//!
//! Rows need not be whole for a softmax before a product ([`Running`]). Of exponentials below a maximum that is not known
//! yet, the largest element so far does as well: where a larger one comes, all that was added up is multiplied
//! with `exp(old - new)`. So the product sums exponentials, tile by tile of the rows, their sum is kept beside it, and what the
//! softmax would have multiplied them with, it multiplies the product with in the end.
//!
//! The running maximum is of M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax", 2018; products that
//! are corrected with it of T. Dao and others, "FlashAttention", NeurIPS 2022.

use std::sync::Arc;

use tir::{AffineExpr, Attr, Ir, Name, RegionId, Type, Value};
use tir_accel::vector::{NestShape, RegionCost, Stream, VectorInfo};
use tir_arith::{MulF, SubF};
use tir_math::Exp;
use tir_tensor::{Combine, Yield};

use super::Stage;
use super::stage::{Around, No};
use crate::group::{Group, Inner, Input, Step};
use crate::layout::{Axis, Dim, Tile};
use crate::plan::{Plan, Target};

/// What is done to the rows of a tensor.
#[derive(Clone, Debug)]
pub struct Between {
    /// The dimensions of the tensor along which a row lies.
    pub columns: Vec<usize>,
    /// What is done, in order.
    pub steps: Vec<RowStep>,
    /// How it is done to parts of rows, if it can be.
    pub running: Option<Running>,
}

/// A step: something about each row, or all of the tile anew.
#[derive(Clone, Debug)]
pub struct RowStep {
    /// The scalar computation.
    pub body: RegionId,
    /// For each of its arguments, what it is.
    pub inputs: Vec<Of>,
    /// What it gives.
    pub gives: Gives,
}

/// What a step gives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Gives {
    /// The tile anew.
    Tile,
    /// A value for each row, of those of other steps.
    Row,
    /// A value for each row, combined from its elements, and what that starts from.
    Reduced(Combine, Attr),
}

/// An argument of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Of {
    /// The element of the tile.
    Tile,
    /// What a step gave for the row.
    Row(usize),
}

/// The steps of a softmax by their numbers, which is done to parts of rows: a maximum, exponentials below it, their sum,
/// steps that give what they are multiplied with, and that product, the last one.
#[derive(Clone, Copy, Debug)]
pub struct Running {
    /// The maximum of a row.
    pub maximum: usize,
    /// The exponentials.
    pub exponential: usize,
    /// Their sum.
    pub sum: usize,
    /// What the maximum starts from: below all elements that are no infinity, so that the difference of two of its
    /// values is a number.
    pub lowest: Attr,
}

/// How it is done to a tile.
#[derive(Clone, Debug)]
pub struct Done {
    /// What.
    pub what: Arc<Between>,
    /// Whether a tile has parts of rows.
    pub running: bool,
    /// The unit, and its cycles for all tiles.
    pub work: (Name, i64),
    /// Bytes of what is kept for each row.
    pub bytes: i64,
}

impl Between {
    /// What a group does to the rows of the only tensor that it reads, and that tensor; `None` where it does something
    /// else.
    pub(super) fn of(ir: &Ir, group: &Group) -> Option<(Value, Self)> {
        let ([last], [out], None) = (&group.maps[..], &group.outs[..], &group.reduce) else {
            return None;
        };
        let identity = |exprs: &[AffineExpr]| {
            let mut places = exprs.iter().enumerate();
            exprs.len() == group.core && places.all(|(d, e)| *e == AffineExpr::Dim(d))
        };
        if !identity(&out.map.exprs) || out.flat.is_some() {
            return None;
        }
        let inners = group.operands.iter().filter_map(|o| o.inner.as_ref());
        let mut reduced = inners.filter(|inner| inner.reduce.is_some());
        let mut columns = reduced.next()?.reductions.clone();
        columns.sort_unstable();
        let elem = last.ty.elem();
        let mut read = None;
        let mut steps: Vec<RowStep> = Vec::new();
        // What each operand is; the tile is only what it was made last.
        let mut known: Vec<Option<Of>> = Vec::new();
        for operand in &group.operands {
            let whole = identity(&operand.map.exprs);
            let row = operand.map.exprs.iter().all(|e| match e {
                AffineExpr::Dim(d) => *d < group.core && !columns.contains(d),
                AffineExpr::Const(0) => true,
                _ => false,
            });
            // One value for each row, and not for several.
            let mut rows = (0..group.core).filter(|d| !columns.contains(d));
            let each = rows.all(|d| operand.map.exprs.contains(&AffineExpr::Dim(d)));
            let same = ir.ty(operand.source).elem() == elem;
            if operand.flat.is_some() || operand.leaves || operand.cut || !same {
                return None;
            }
            let Some(inner) = &operand.inner else {
                if read.is_some() || !whole || operand.padding.is_some() {
                    return None;
                }
                read = Some(operand.source);
                known.push(Some(Of::Tile));
                continue;
            };
            let inputs = inputs(&inner.inputs, &known)?;
            let gives = gives(inner, &columns, whole, row && each)?;
            if gives == Gives::Row && inputs.contains(&Of::Tile) {
                return None;
            }
            let of = match gives {
                Gives::Tile => {
                    // What lay in the tile before is gone.
                    let tiles = known.iter_mut().filter(|of| **of == Some(Of::Tile));
                    tiles.for_each(|of| *of = None);
                    Of::Tile
                }
                _ => Of::Row(steps.len()),
            };
            known.push(Some(of));
            let body = inner.body;
            steps.push(RowStep {
                body,
                inputs,
                gives,
            });
        }
        let operands = last.inputs.iter().map(|input| match input {
            Input::Operand(i) => Some(*i),
            _ => None,
        });
        let operands: Vec<usize> = operands.collect::<Option<_>>()?;
        steps.push(RowStep {
            body: last.body,
            inputs: inputs(&operands, &known)?,
            gives: Gives::Tile,
        });
        let running = running(ir, &steps, elem);
        let between = Self {
            columns,
            steps,
            running,
        };
        Some((read?, between))
    }

    /// How it is done to the tile of an operand of a stage inside of these loops, which a producer computes; or why it
    /// is not.
    pub(super) fn done(
        self: &Arc<Self>,
        ir: &Ir,
        target: &Target<'_>,
        (reader, plan): (&Group, &Plan),
        (number, level): (usize, usize),
        loops: &[Around],
    ) -> Result<Done, No> {
        let (operand, tile) = (&reader.operands[number], &plan.tiles[number]);
        let rows = Rows::of(&tile.dims, &self.columns).filter(|_| tile.reassociation().is_none());
        let rows = rows.ok_or(No::Never("rows lie in no plain tile"))?;
        let far = |s: &usize| operand.map.exprs[*s].clone();
        // All of a row lies in a tile, and nothing beyond.
        let counted = |s: &usize| match far(s) {
            AffineExpr::Dim(d) => Some(d),
            _ => None,
        };
        let counts: Option<Vec<usize>> = self.columns.iter().map(counted).collect();
        let counts = counts.ok_or(No::Never("rows are read at places that slide"))?;
        let exact = counts.iter().zip(&self.columns).all(|(d, s)| {
            reader.domain[*d] == operand.shape[*s]
                && plan.space.covered(*d) * plan.space.block[*d] == reader.domain[*d]
        });
        if !exact || operand.leaves {
            return Err(No::Never("rows are rounded up"));
        }
        let looped: Vec<usize> = counts
            .into_iter()
            .filter(|d| plan.space.trips(*d) > 1)
            .collect();
        let running = !looped.is_empty();
        if running {
            let single = plan.order.last() == looped.first() && looped.len() == 1;
            let summed = plan.order.iter().filter(|d| reader.reductions[**d]).count() == 1;
            let root = reader.into.is_none() && plan.order.len() == level;
            if self.running.is_none() || !single || !summed || !root {
                return Err(No::Never("an element needs all of a row"));
            }
            if !multiplies(ir, reader, number) {
                return Err(No::Never("what is added up is no product with a row"));
            }
        }
        let held = [plan.spaces[number], plan.held];
        let (vector, regions) = self
            .vector(ir, target, tile_elem(ir, reader, number))
            .filter(|(vector, _)| held == [vector.space; 2])
            .ok_or(No::Never("no vector unit computes what is done to rows"))?;
        let trips = |loops: &[Around]| {
            let all = loops.iter().map(|around| around.trips);
            all.fold(1, i64::saturating_mul)
        };
        let shape = tile.shape();
        let elem = tile_elem(ir, reader, number).bytes().unwrap_or(4) as i64;
        let cycles = |step: usize, of: Points| {
            let nest = of.nest(&shape, &rows, &self.steps[step], elem);
            vector.cycles(regions[step], &nest)
        };
        let each = self
            .steps
            .iter()
            .enumerate()
            .map(|(i, step)| match step.gives {
                Gives::Row => cycles(i, Points::Rows),
                _ => cycles(i, Points::Tile),
            });
        let mut all = each
            .fold(0, i64::saturating_add)
            .saturating_mul(trips(&loops[..level]));
        if running {
            // The product is multiplied each time instead of the tile, and in the end.
            let (last, inner) = (self.steps.len() - 1, loops[level - 1].trips.max(1));
            let out = &plan.out;
            rows.within(&tile.dims, out)
                .ok_or(No::Never("the product's rows lie in no plain tile"))?;
            let elements: i64 = out.shape().iter().product();
            let tiles = shape.iter().product::<i64>().max(1);
            let product = cycles(last, Points::Tile).saturating_mul(elements) / tiles;
            let outer = trips(&loops[..level]) / inner;
            let saved = cycles(last, Points::Tile).saturating_mul(trips(&loops[..level]));
            let more = product.saturating_mul(outer.saturating_mul(inner + 1));
            // Maximum, correction, copy, and the sum's product.
            let small = cycles(last, Points::Rows).saturating_mul(4 * outer * inner);
            all = all
                .saturating_sub(saved)
                .saturating_add(more)
                .saturating_add(small);
        }
        let kept = rows
            .shape(&shape)
            .iter()
            .product::<i64>()
            .saturating_mul(elem);
        Ok(Done {
            what: Arc::clone(self),
            running,
            work: (vector.unit, all),
            bytes: kept.saturating_mul(KEPT),
        })
    }

    /// Whether those that compute a tile write no more along its rows than these have: what stands behind would be part of them.
    pub(super) fn fits(&self, tile: &Tile, parts: &[Stage]) -> Result<(), No> {
        let longer = |part: &Stage| {
            let (space, slot) = (&part.plan.space, part.group.into.as_ref());
            let dims = slot.map(|slot| (slot, slot.whole_dims(tile.dims.len())));
            let dims = dims.into_iter().flat_map(|(slot, own)| {
                let own = own.into_iter().zip(&tile.dims);
                own.filter_map(move |(t, dim)| Some((slot, t?, dim)))
            });
            dims.filter(|(.., dim)| self.columns.contains(&dim.source.0))
                .any(|(slot, t, dim)| {
                    let d = part.group.outer + t;
                    slot.at[t] + space.extent(d).saturating_mul(space.trips(d)) > dim.size
                })
        };
        match parts.iter().any(longer) {
            true => Err(No::Never("blocks of a unit are longer than rows")),
            false => Ok(()),
        }
    }

    /// The vector unit that computes all steps, and what they cost on it.
    fn vector<'a>(
        &self,
        ir: &Ir,
        target: &'a Target<'_>,
        elem: Type,
    ) -> Option<(&'a VectorInfo, Vec<RegionCost>)> {
        target.vectors.iter().find_map(|vector| {
            let cost = |step: &RowStep| {
                let combine = match step.gives {
                    Gives::Reduced(combine, _) => Some(combine),
                    _ => None,
                };
                let elems = vec![elem; step.inputs.len() + 1];
                vector.covers(ir, step.body, combine, &elems).ok()
            };
            let all: Option<Vec<RegionCost>> = self.steps.iter().map(cost).collect();
            Some((*vector, all?))
        })
    }
}

/// How many values are kept for each row at most, those of steps included.
const KEPT: i64 = 8;

fn tile_elem(ir: &Ir, reader: &Group, number: usize) -> Type {
    ir.ty(reader.operands[number].source).elem()
}

/// Over which points a step is computed.
#[derive(Clone, Copy)]
enum Points {
    Tile,
    Rows,
}

impl Points {
    fn nest(self, shape: &[i64], rows: &Rows, step: &RowStep, bytes: i64) -> NestShape {
        let dense = |shape: &[i64]| tir::MemRefType::dense_strides(shape);
        let row = rows.shape(shape);
        let domain = match self {
            Self::Tile => shape.to_vec(),
            Self::Rows => row.clone(),
        };
        let of_row = || {
            let strides = dense(&row);
            match self {
                Self::Rows => strides,
                Self::Tile => {
                    let place = |t: usize| rows.0.iter().position(|r| *r == t);
                    (0..shape.len())
                        .map(|t| place(t).map_or(0, |i| strides[i]))
                        .collect()
                }
            }
        };
        let of_tile = || match self {
            Self::Tile => dense(shape),
            Self::Rows => dense(&row),
        };
        let mut operands: Vec<Vec<i64>> = Vec::new();
        for input in &step.inputs {
            operands.push(match input {
                Of::Tile => of_tile(),
                Of::Row(_) => of_row(),
            });
        }
        operands.push(match step.gives {
            Gives::Tile => of_tile(),
            _ => of_row(),
        });
        let reduces = matches!((self, &step.gives), (Self::Tile, Gives::Reduced(..)));
        NestShape {
            reductions: (0..domain.len())
                .map(|t| reduces && !rows.0.contains(&t))
                .collect(),
            domain,
            operands: operands
                .into_iter()
                .map(|strides| Stream { strides, bytes })
                .collect(),
        }
    }
}

/// The dimensions of a tile that count rows; the others lie along them.
#[derive(Clone, Debug)]
pub struct Rows(pub Vec<usize>);

impl Rows {
    /// Those of a tile, if all of its dimensions are counted by iterators alone.
    pub fn of(dims: &[Dim], columns: &[usize]) -> Option<Self> {
        if !dims.iter().all(|dim| counted(&dim.axis).is_some()) {
            return None;
        }
        let rows = dims
            .iter()
            .enumerate()
            .filter(|(_, dim)| dim.axis != Axis::One && !columns.contains(&dim.source.0));
        Some(Self(rows.map(|(t, _)| t).collect()))
    }

    /// Which dimensions of another tile count the same rows, if they do so in the same way.
    pub fn within(&self, dims: &[Dim], other: &Tile) -> Option<Vec<usize>> {
        if other.reassociation().is_some() {
            return None;
        }
        let place = |t: &usize| {
            let dim = &dims[*t];
            let own = counted(&dim.axis)?;
            let mut others = other.dims.iter();
            others.position(|d| d.size == dim.size && counted(&d.axis) == Some(own))
        };
        self.0.iter().map(place).collect()
    }

    /// Their shape, of that of the tile.
    pub fn shape(&self, shape: &[i64]) -> Vec<i64> {
        self.0.iter().map(|t| shape[*t]).collect()
    }
}

/// The iterator that counts a dimension, and whether in blocks; none for a dimension of one element.
fn counted(axis: &Axis) -> Option<(Option<usize>, bool)> {
    match axis {
        Axis::Block(d) => Some((Some(*d), true)),
        Axis::Unit(d, rest, 1, own) if rest.is_empty() && own.is_empty() => Some((Some(*d), false)),
        Axis::One => Some((None, false)),
        _ => None,
    }
}

fn inputs(operands: &[usize], known: &[Option<Of>]) -> Option<Vec<Of>> {
    operands.iter().map(|i| *known.get(*i)?).collect()
}

/// What the computation of a value gives, read at a place that is all of the tile, or one for each row.
fn gives(inner: &Inner, columns: &[usize], whole: bool, row: bool) -> Option<Gives> {
    match &inner.reduce {
        Some((combine, start)) => {
            let mut own = inner.reductions.clone();
            own.sort_unstable();
            (row && own == columns).then_some(Gives::Reduced(*combine, *start))
        }
        None if !inner.reductions.is_empty() => None,
        None if whole => Some(Gives::Tile),
        None => row.then_some(Gives::Row),
    }
}

/// The value that a region gives.
fn given(ir: &Ir, body: RegionId) -> Option<Value> {
    let end: Yield = ir.get(ir.last(ir.entry(body)?)?)?;
    match end.values[..] {
        [value] => Some(value),
        _ => None,
    }
}

/// The argument of a step that is this value.
fn argument(ir: &Ir, step: &RowStep, value: Value) -> Option<Of> {
    let mut args = ir.args(ir.entry(step.body)?);
    step.inputs.get(args.position(|arg| arg == value)?).copied()
}

/// The steps as those of a softmax, if they are.
fn running(ir: &Ir, steps: &[RowStep], elem: Type) -> Option<Running> {
    let [first, exponential, sum, behind @ .., last] = steps else {
        return None;
    };
    let lowest = match elem.float_width() {
        Some(32) => Attr::float(f32::MIN.into(), elem),
        Some(64) => Attr::float(f64::MIN, elem),
        _ => return None,
    };
    let combines = |step: &RowStep, how: Combine| {
        let alone = step.inputs[..] == [Of::Tile];
        let same = given(ir, step.body).and_then(|value| argument(ir, step, value));
        matches!(&step.gives, Gives::Reduced(by, _) if *by == how) && alone && same.is_some()
    };
    let below = || {
        let exp: Exp = ir.def(given(ir, exponential.body)?)?;
        let sub: SubF = ir.def(exp.operand)?;
        let args = [sub.lhs, sub.rhs].map(|value| argument(ir, exponential, value));
        let inputs = exponential.inputs[..] == [Of::Tile, Of::Row(0)];
        Some(inputs && args == [Some(Of::Tile), Some(Of::Row(0))])
    };
    let product = || {
        let mul: MulF = ir.def(given(ir, last.body)?)?;
        let args = [mul.lhs, mul.rhs].map(|value| argument(ir, last, value));
        let tiles = args.iter().filter(|arg| **arg == Some(Of::Tile)).count();
        Some(tiles == 1 && last.inputs.len() == 2 && args.iter().all(Option::is_some))
    };
    // Neither the maximum nor an exponential is needed but for these.
    let rest = behind.iter().all(|step| step.gives == Gives::Row);
    let mut later = behind.iter().chain([last]).flat_map(|step| &step.inputs);
    let apart = later.all(|of| !matches!(of, Of::Row(0 | 1)));
    let all = combines(first, Combine::Max)
        && exponential.gives == Gives::Tile
        && below()?
        && combines(sum, Combine::Add)
        && rest
        && apart
        && product()?;
    all.then_some(Running {
        maximum: 0,
        exponential: 1,
        sum: 2,
        lowest,
    })
}

/// Whether a group adds up products of which an operand is one factor: then a factor of the operand is one of the sum.
fn multiplies(ir: &Ir, group: &Group, operand: usize) -> bool {
    let Some((step, Combine::Add, start)) = &group.reduce else {
        return false;
    };
    let zero = start.as_float() == Some(0.0);
    zero && factor(ir, step, operand).unwrap_or(false)
}

fn factor(ir: &Ir, step: &Step, operand: usize) -> Option<bool> {
    let mul: MulF = ir.def(given(ir, step.body)?)?;
    let args: Vec<Value> = ir.args(ir.entry(step.body)?).collect();
    let is = |value: Value| {
        let place = args.iter().position(|arg| *arg == value);
        place.is_some_and(|place| step.inputs[place] == Input::Operand(operand))
    };
    Some(is(mul.lhs) != is(mul.rhs))
}

impl Stage {
    /// Whether something is done to tiles between stages.
    pub(crate) fn settles(&self) -> bool {
        self.made()
            .any(|made| made.between.is_some() || made.parts.iter().any(Stage::settles))
    }
}
