//! Transfers as loops: over the elements of a tile, or by vectors, with tests where they are needed.
//!
//! *Rows* are moved as they are, where neighbours in the tile are neighbours in the large buffer, or a few elements apart.
//! *Squares* are transposed in registers where neighbours in the large buffer are so along another dimension of the tile.
//! What may stick out of the large buffer is tested for a row or a square as a whole; if it does, vectors are masked, or, on
//! processors without masks, elements are moved one by one.
//!
//! A range that vectors do not divide ends with a vector that begins earlier: some elements are moved twice.

mod squares;

use tir::{At, Builder, Failure, Ir, LinearExpr, OpId, Ret, Rets, Value};
use tir_accel::Direction;
use tir_accel::transfer::Pattern;
use tir_arith::{
    AndI, CmpI, CmpIPredicate, MinSI, OpFoldResult, Select, XOrI, constant_float, constant_index,
    constant_int,
};
use tir_loop::{If, Yield};
use tir_vector::{CreateMask, MaskedLoad, MaskedStore};

use super::transpose::{FARTHEST, SMALLEST, apart, side};
use super::{Form, Registers, index, load, nest, store, vector};
use crate::range::{Facts, inside};
use crate::transfer::Transfer;

/// Makes what moves a vector of a row, which begins somewhere, is so long, and has so many elements of the row.
type Piece<'a> = dyn FnMut(&mut Builder<'_>, Value, [i64; 2]) -> Result<(), Failure> + 'a;

/// Makes what is in a region.
type Step<'a> = &'a mut dyn FnMut(&mut Builder<'_>) -> Result<(), Failure>;

/// How a tile is moved.
#[derive(Clone, Copy)]
enum Way {
    /// Element by element.
    Elements,
    /// By rows of the tile, whose neighbours lie `step` elements apart in the large buffer.
    Rows { step: i64, width: i64 },
    /// By squares of so many rows, whose columns lie along a dimension of the tile.
    Squares { along: usize, side: i64 },
}

/// A transfer as loops over the elements of its tile, or by vectors.
pub(super) fn expand(ir: &mut Ir, op: OpId, t: &Transfer, form: Form) -> Result<(), Failure> {
    let pattern = Pattern::new(ir.ty(t.far), ir.ty(t.tile), &t.access)?;
    let facts = Facts::at(ir, op);
    let safe = |(s, form): (usize, &LinearExpr)| {
        let (offset, size) = (t.offsets[s], pattern.far_shape[s]);
        inside(ir, &facts, offset, form, &pattern.tile_shape, size)
    };
    let tested = pattern.access.iter().enumerate().map(|at| !safe(at));
    let masked = form.vectors.map_or(0, |registers| registers.masked);
    let moved = Moved {
        tested: tested.collect(),
        masks: masked > 0 && pattern.elem >= masked,
        t,
        pattern: &pattern,
    };
    let way = match form.vectors {
        Some(registers) => moved.way(ir, registers),
        None => Way::Elements,
    };
    let shape = &pattern.tile_shape;
    let last = shape.len().saturating_sub(1);
    let together = |d: &usize| match way {
        Way::Elements => false,
        Way::Rows { .. } => *d == last,
        Way::Squares { along, .. } => [last, along].contains(d),
    };
    let order = far_order(&pattern, together);
    let sizes: Vec<i64> = order.iter().map(|d| shape[*d]).collect();
    let mut b = ir.at(At::Before(op));
    let zero = constant_index(&mut b, 0);
    nest(&mut b, &sizes, &mut Vec::new(), &mut |b, counters| {
        let mut at = vec![zero; shape.len()];
        for (d, counter) in order.iter().zip(counters) {
            at[*d] = *counter;
        }
        match way {
            Way::Elements => {
                let all: Vec<usize> = (0..moved.tested.len()).collect();
                moved.element(b, &at, &all)
            }
            Way::Rows { step, width } => moved.row(b, &at, step, width),
            Way::Squares { along, side } => moved.squares(b, &at, along, side),
        }
    })
}

/// The dimensions of a tile that are not moved together, in the order in which loops go through the large buffer from its
/// begin to its end: what is near by is quick in any order, while memory is read ahead along neighbours.
fn far_order(pattern: &Pattern, together: impl Fn(&usize) -> bool) -> Vec<usize> {
    let step = |d: &usize| {
        let forms = pattern.access.iter().zip(&pattern.far_strides);
        forms
            .map(|(form, stride)| form.at(*d) * stride)
            .sum::<i64>()
    };
    let dims = 0..pattern.tile_shape.len();
    let mut order: Vec<usize> = dims.filter(|d| !together(d)).collect();
    order.sort_by_key(|d| std::cmp::Reverse(step(d).abs()));
    order
}

/// What a transfer moves, in pieces: elements or vectors.
struct Moved<'a> {
    t: &'a Transfer,
    pattern: &'a Pattern,
    /// Whether a position in each dimension of the large buffer may be outside, and is tested for it.
    tested: Vec<bool>,
    /// Whether vectors may be masked.
    masks: bool,
}

impl Moved<'_> {
    /// How it is moved by such registers.
    fn way(&self, ir: &Ir, registers: Registers) -> Way {
        let (t, pattern) = (self.t, self.pattern);
        let strides = [&pattern.far_strides, &pattern.tile_strides];
        let dense = strides.iter().all(|s| s.last() == Some(&pattern.elem));
        let (Some(row), Some((last, others))) = (
            pattern.tile_shape.len().checked_sub(1),
            pattern.access.split_last(),
        ) else {
            return Way::Elements;
        };
        if !dense || !vector::has_bytes(ir.ty(t.tile)) {
            return Way::Elements;
        }
        let alone = |d: usize| others.iter().all(|form| form.at(d) == 0);
        let (size, step) = (pattern.tile_shape[row], last.at(row));
        let farthest = match t.direction {
            Direction::Read => FARTHEST,
            Direction::Write => 1,
        };
        let width = (registers.bytes / pattern.elem.max(1)).max(1);
        if alone(row) && (1..=farthest).contains(&step) && size > 1 {
            return Way::Rows { step, width };
        }
        // Along the other dimension of a square the large buffer goes on anywhere, but forwards.
        let forwards = pattern.access.iter().all(|form| form.at(row) >= 0);
        let side = |d: usize| {
            let most = size.min(pattern.tile_shape[d]);
            side(registers, pattern.elem, most)
        };
        let squares = (0..row).filter(|d| forwards && alone(*d) && last.at(*d) == 1);
        match squares.max_by_key(|d| side(*d)) {
            Some(along) if side(along) >= SMALLEST => Way::Squares {
                along,
                side: side(along),
            },
            _ => Way::Elements,
        }
    }

    /// The number of the last dimension of the tile.
    fn last(&self) -> usize {
        self.pattern.tile_shape.len() - 1
    }

    /// Tested dimensions in which positions depend on some dimensions of the tile, and others.
    fn depending(&self, on: &[usize]) -> (Vec<usize>, Vec<usize>) {
        let tested = (0..self.tested.len()).filter(|s| self.tested[*s]);
        tested.partition(|s| on.iter().any(|d| self.pattern.access[*s].at(*d) != 0))
    }

    /// A row of the tile: what says whether it is inside is tested once.
    fn row(&self, b: &mut Builder<'_>, at: &[Value], step: i64, width: i64) -> Result<(), Failure> {
        let (last, size) = (self.last(), self.pattern.tile_shape[self.last()]);
        let (inner, outer) = self.depending(&[last]);
        let vectors = |b: &mut Builder<'_>, masks: Option<&[usize]>| {
            self.pieces(b, size, width, step, &mut |b, first, [length, held]| {
                let mut at = at.to_vec();
                at[last] = first;
                match self.t.direction {
                    Direction::Read => {
                        let value = self.loaded(b, &at, [length, held], step, masks)?;
                        vector::store_first(b, value, self.t.tile, &at, held);
                    }
                    Direction::Write => {
                        let value = vector::load_first(b, self.t.tile, &at, length, held);
                        self.stored(b, value, &at, held, masks)?;
                    }
                }
                Ok(())
            })
        };
        let whole = |b: &mut Builder<'_>| {
            self.as_a_whole(
                b,
                at,
                &inner,
                |form| form.at(last) * (size - 1),
                &mut |b| vectors(b, None),
                &mut |b| match self.masks {
                    true => vectors(b, Some(&inner)),
                    false => self.elements(b, at, &[(last, size)], &inner),
                },
            )
        };
        self.where_inside(b, at, &outer, whole, &mut |b| {
            self.padded_row(b, at, width, step)
        })
    }

    /// A row of the tile by vectors: `fill` is given where each begins, its length, and how many elements of it are of the row.
    fn pieces(
        &self,
        b: &mut Builder<'_>,
        size: i64,
        width: i64,
        step: i64,
        fill: &mut Piece<'_>,
    ) -> Result<(), Failure> {
        let masked = vector::masked(size, width).filter(|_| self.masks && step == 1);
        if let Some(length) = masked {
            let first = constant_index(b, 0);
            return fill(b, first, [length, size]);
        }
        vector::pieces(b, size, width, &mut |b, first, length| {
            fill(b, first, [length; 2])
        })
    }

    /// Does something if a position is inside in these dimensions; what is read from outside is padding.
    fn where_inside(
        &self,
        b: &mut Builder<'_>,
        at: &[Value],
        dims: &[usize],
        mut inside: impl FnMut(&mut Builder<'_>) -> Result<(), Failure>,
        outside: Step<'_>,
    ) -> Result<(), Failure> {
        let Some(test) = self.test(b, at, dims)? else {
            return inside(b);
        };
        let reads = self.t.direction == Direction::Read;
        branch(b, test, inside, reads.then_some(outside))
    }

    /// Does one thing if so much from a position on is inside in these dimensions, and another one if not: `span` says of a
    /// dimension how far the last element is from the first one.
    fn as_a_whole(
        &self,
        b: &mut Builder<'_>,
        at: &[Value],
        dims: &[usize],
        span: impl Fn(&LinearExpr) -> i64,
        inside: Step<'_>,
        outside: Step<'_>,
    ) -> Result<(), Failure> {
        let room = |s: &usize| self.pattern.far_shape[*s] - span(&self.pattern.access[*s]);
        if dims.iter().any(|s| room(s) < 1) {
            return outside(b);
        }
        let mut all = None;
        for s in dims {
            let begin = self.position(b, at, *s)?;
            let bound = constant_index(b, room(s));
            let test = below(b, begin, bound);
            all = Some(both(b, all, test));
        }
        match all {
            Some(test) => branch(b, test, inside, Some(outside)),
            None => inside(b),
        }
    }

    /// Elements one by one, for so many from a position on in some dimensions of the tile.
    fn elements(
        &self,
        b: &mut Builder<'_>,
        at: &[Value],
        along: &[(usize, i64)],
        tested: &[usize],
    ) -> Result<(), Failure> {
        let sizes: Vec<i64> = along.iter().map(|(_, size)| *size).collect();
        nest(b, &sizes, &mut Vec::new(), &mut |b, counters| {
            let mut at = at.to_vec();
            for ((d, _), counter) in along.iter().zip(counters) {
                let place = OpFoldResult::Value(at[*d]).plus(b, *counter);
                at[*d] = place.value(b);
            }
            self.element(b, &at, tested)
        })
    }

    /// A row of the tile that is outside of the large buffer.
    fn padded_row(
        &self,
        b: &mut Builder<'_>,
        at: &[Value],
        width: i64,
        step: i64,
    ) -> Result<(), Failure> {
        let last = self.last();
        let size = self.pattern.tile_shape[last];
        self.pieces(b, size, width, step, &mut |b, first, [length, held]| {
            let mut at = at.to_vec();
            at[last] = first;
            let value = self.padding(b, Some(length));
            vector::store_first(b, value, self.t.tile, &at, held);
            Ok(())
        })
    }

    /// A vector of the large buffer, for elements of the tile from a position on that lie `step` apart there; masked, it is
    /// tested in some dimensions. If it holds fewer elements than it is long, they are neighbours.
    fn loaded(
        &self,
        b: &mut Builder<'_>,
        at: &[Value],
        [length, held]: [i64; 2],
        step: i64,
        masks: Option<&[usize]>,
    ) -> Result<Value, Failure> {
        let (far, others) = (
            self.far(b, at)?,
            masks.map(|_| self.padding(b, Some(length))),
        );
        let mut load = |b: &mut Builder<'_>, shift: i64| {
            let mut far = far.clone();
            if let Some(last) = far.last_mut() {
                *last = OpFoldResult::Value(*last).plus(b, shift).value(b);
            }
            let (Some(tested), Some(pass_thru)) = (masks, others) else {
                return Ok(vector::load_first(b, self.t.far, &far, length, held));
            };
            let mask = self.mask(b, at, [length, held], shift, tested)?;
            Ok::<Value, Failure>(b.add(MaskedLoad {
                base: self.t.far,
                indices: far,
                mask,
                pass_thru,
                result: Ret(b.ty(pass_thru)),
            }))
        };
        apart(b, length, step, &mut load)
    }

    /// Writes the first elements of a vector to the large buffer, for elements of the tile from a position on.
    fn stored(
        &self,
        b: &mut Builder<'_>,
        value: Value,
        at: &[Value],
        held: i64,
        masks: Option<&[usize]>,
    ) -> Result<(), Failure> {
        let far = self.far(b, at)?;
        let Some(tested) = masks else {
            vector::store_first(b, value, self.t.far, &far, held);
            return Ok(());
        };
        let length = b.ty(value).shape().and_then(|s| s.first().copied());
        let mask = self.mask(b, at, [length.unwrap_or(0), held], 0, tested)?;
        b.add(MaskedStore {
            base: self.t.far,
            indices: far,
            mask,
            value,
        });
        Ok(())
    }

    /// Which of the first elements of a vector of the large buffer are inside in some dimensions: it begins `shift` elements behind
    /// where an element of the tile is.
    fn mask(
        &self,
        b: &mut Builder<'_>,
        at: &[Value],
        [length, held]: [i64; 2],
        shift: i64,
        dims: &[usize],
    ) -> Result<Value, Failure> {
        let row = self.tested.len() - 1;
        let others: Vec<usize> = dims.iter().copied().filter(|s| *s != row).collect();
        let result = Ret(tir_vector::of(length, tir::Type::int(1)));
        // How many of its elements are below 0, and how many below the end.
        let (mut low, mut high) = (OpFoldResult::Number(0), OpFoldResult::Number(held));
        if dims.contains(&row) {
            let begin = OpFoldResult::Value(self.position(b, at, row)?).plus(b, shift);
            low = begin.times(b, -1);
            high = low.plus(b, self.pattern.far_shape[row]);
            if held < length {
                [low, high] = [low, high].map(|end| at_most(b, end, held));
            }
        }
        if let Some(condition) = self.test(b, at, &others)? {
            let (true_value, false_value) = (high.value(b), low.value(b));
            high = OpFoldResult::Value(b.add(Select {
                condition,
                true_value,
                false_value,
            }));
        }
        let size = high.value(b);
        let below_end = b.add(CreateMask { size, result });
        let OpFoldResult::Value(size) = low else {
            return Ok(below_end);
        };
        let result = Ret(b.ty(below_end));
        let below_begin = b.add(CreateMask { size, result });
        Ok(b.add(XOrI {
            lhs: below_begin,
            rhs: below_end,
        }))
    }

    /// Where an element of the tile is in the large buffer.
    fn far(&self, b: &mut Builder<'_>, at: &[Value]) -> Result<Vec<Value>, Failure> {
        let dims = 0..self.tested.len();
        dims.map(|s| self.position(b, at, s)).collect()
    }

    /// Where an element of the tile is in a dimension of the large buffer.
    fn position(&self, b: &mut Builder<'_>, at: &[Value], s: usize) -> Result<Value, Failure> {
        let expr = &self.t.access.exprs[s];
        let position = index(b, expr, at)?.plus(b, self.t.offsets[s]);
        Ok(position.value(b))
    }

    /// Whether an element of the tile is inside of the large buffer in all of these dimensions that are tested.
    fn test(
        &self,
        b: &mut Builder<'_>,
        at: &[Value],
        dims: &[usize],
    ) -> Result<Option<Value>, Failure> {
        let mut all = None;
        for s in dims.iter().filter(|s| self.tested[**s]) {
            let position = self.position(b, at, *s)?;
            let size = constant_index(b, self.pattern.far_shape[*s]);
            let test = below(b, position, size);
            all = Some(both(b, all, test));
        }
        Ok(all)
    }

    /// What a tile holds where there is nothing.
    fn padding(&self, b: &mut Builder<'_>, vector: Option<i64>) -> Value {
        let elem = b.ty(self.t.tile).elem();
        let value = self.t.padding.unwrap_or_else(|| match elem.is_float() {
            true => constant_float(b, 0.0, elem),
            false => constant_int(b, 0, elem),
        });
        match vector {
            Some(length) => vector::broadcast(b, value, length),
            None => value,
        }
    }

    /// Moves an element if it is inside in these dimensions; in the others it is known to be.
    fn element(&self, b: &mut Builder<'_>, at: &[Value], dims: &[usize]) -> Result<(), Failure> {
        let t = self.t;
        let far = self.far(b, at)?;
        let condition = self.test(b, at, dims)?;
        if t.direction == Direction::Write {
            let write = |b: &mut Builder<'_>| {
                let value = load(b, t.tile, at);
                store(b, value, t.far, &far);
                Ok(())
            };
            return match condition {
                Some(condition) => branch(b, condition, write, None),
                None => write(b),
            };
        }
        let Some(condition) = condition else {
            let value = load(b, t.far, &far);
            store(b, value, t.tile, at);
            return Ok(());
        };
        let then_region = b.body(&[], |b, _| {
            let values = vec![load(b, t.far, &far)];
            b.add(Yield { values });
        });
        let else_region = b.body(&[], |b, _| {
            let values = vec![self.padding(b, None)];
            b.add(Yield { values });
        });
        let made = b.add(If {
            condition,
            then_region,
            else_region,
            results: Rets(vec![b.ty(t.tile).elem()]),
        });
        if let Some(value) = made.first() {
            store(b, *value, t.tile, at);
        }
        Ok(())
    }
}

/// Whether one condition holds, if there is one, and another one too.
fn both(b: &mut Builder<'_>, one: Option<Value>, other: Value) -> Value {
    match one {
        None => other,
        Some(lhs) => b.add(AndI { lhs, rhs: other }),
    }
}

/// An index, or a number that is less.
fn at_most(b: &mut Builder<'_>, index: OpFoldResult, most: i64) -> OpFoldResult {
    match index {
        OpFoldResult::Number(n) => OpFoldResult::Number(n.min(most)),
        OpFoldResult::Value(lhs) => {
            let rhs = constant_index(b, most);
            OpFoldResult::Value(b.add(MinSI { lhs, rhs }))
        }
    }
}

/// Whether an index is from 0 to below another one: what is below zero is far above, unsigned.
fn below(b: &mut Builder<'_>, lhs: Value, rhs: Value) -> Value {
    b.add(CmpI {
        predicate: CmpIPredicate::Ult,
        lhs,
        rhs,
    })
}

/// Does something where a condition holds, and something else where not.
pub(crate) fn branch(
    b: &mut Builder<'_>,
    condition: Value,
    mut then: impl FnMut(&mut Builder<'_>) -> Result<(), Failure>,
    other: Option<Step<'_>>,
) -> Result<(), Failure> {
    let mut done = Ok(());
    let mut body = |b: &mut Builder<'_>, fill: Step<'_>| {
        b.body(&[], |b, _| {
            if let Err(error) = fill(b) {
                done = Err(error);
            }
            b.add(Yield { values: vec![] });
        })
    };
    let then_region = body(b, &mut then);
    let else_region = match other {
        Some(other) => body(b, other),
        None => b.ir.new_region(),
    };
    b.add(If {
        condition,
        then_region,
        else_region,
        results: Rets(vec![]),
    });
    done
}
