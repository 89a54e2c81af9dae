//! Transfers as loops: over the elements of a tile, or over its rows by vectors, with tests where they are needed.

use tir::{At, Builder, Failure, Ir, LinearExpr, OpId, Rets, Value};
use tir_accel::Direction;
use tir_accel::transfer::Pattern;
use tir_arith::{AndI, CmpI, CmpIPredicate, constant_float, constant_index, constant_int};
use tir_loop::{If, Yield};

use super::{Form, index, load, nest, store, vector};
use crate::range::{Facts, inside};
use crate::transfer::Transfer;

/// Makes what is in a region.
type Step<'a> = &'a mut dyn FnMut(&mut Builder<'_>) -> Result<(), Failure>;

/// A transfer as loops over the elements of its tile, or over its rows by vectors.
pub(super) fn expand(ir: &mut Ir, op: OpId, t: &Transfer, form: Form) -> Result<(), Failure> {
    let pattern = Pattern::new(ir.ty(t.far), ir.ty(t.tile), &t.access)?;
    let facts = Facts::at(ir, op);
    let safe = |(s, form): (usize, &LinearExpr)| {
        let (offset, size) = (t.offsets[s], pattern.far_shape[s]);
        inside(ir, &facts, offset, form, &pattern.tile_shape, size)
    };
    let tested = pattern.access.iter().enumerate().map(|at| !safe(at));
    let moved = Moved {
        tested: tested.collect(),
        t,
        pattern: &pattern,
    };
    let shape = &pattern.tile_shape;
    let width = form
        .vectors
        .map(|registers| registers.bytes / pattern.elem.max(1));
    let rows = width.filter(|_| moved.has_rows(ir)).zip(shape.split_last());
    let mut b = ir.at(At::Before(op));
    let order = far_order(&pattern, rows.is_some());
    let sizes: Vec<i64> = order.iter().map(|d| shape[*d]).collect();
    nest(&mut b, &sizes, &mut Vec::new(), &mut |b, counters| {
        let mut at = counters.to_vec();
        for (d, counter) in order.iter().zip(counters) {
            at[*d] = *counter;
        }
        match rows {
            Some((width, (row, _))) => moved.row(b, &at, *row, width),
            None => {
                let all: Vec<usize> = (0..moved.tested.len()).collect();
                moved.piece(b, &at, &all, None)
            }
        }
    })
}

/// The dimensions of a tile, without the last one if its rows are moved by vectors, in the order in which loops go through
/// the large buffer from its begin to its end: what is near by is quick in any order, while memory is read ahead along
/// neighbours.
fn far_order(pattern: &Pattern, rows: bool) -> Vec<usize> {
    let step = |d: &usize| {
        let forms = pattern.access.iter().zip(&pattern.far_strides);
        forms
            .map(|(form, stride)| form.at(*d) * stride)
            .sum::<i64>()
    };
    let dims = pattern.tile_shape.len() - usize::from(rows);
    let mut order: Vec<usize> = (0..dims).collect();
    order.sort_by_key(|d| std::cmp::Reverse(step(d).abs()));
    order
}

/// What a transfer moves, in pieces: elements or vectors.
struct Moved<'a> {
    t: &'a Transfer,
    pattern: &'a Pattern,
    /// Whether a position in each dimension of the large buffer may be outside, and is tested for it.
    tested: Vec<bool>,
}

impl Moved<'_> {
    /// Whether neighbours in a row of the tile are neighbours in the large buffer too.
    fn has_rows(&self, ir: &Ir) -> bool {
        let (t, pattern) = (self.t, self.pattern);
        let Some(row) = pattern.tile_shape.len().checked_sub(1) else {
            return false;
        };
        let Some((last, others)) = pattern.access.split_last() else {
            return false;
        };
        let strides = [&pattern.far_strides, &pattern.tile_strides];
        let dense = strides.iter().all(|s| s.last() == Some(&pattern.elem));
        let beside = last.at(row) == 1 && others.iter().all(|form| form.at(row) == 0);
        vector::has_bytes(ir.ty(t.tile)) && dense && beside && pattern.tile_shape[row] > 1
    }

    /// A row of the tile: what says whether it is inside is tested once. Where a row may stick out, it is moved by vectors
    /// if it does not, and else element by element.
    fn row(&self, b: &mut Builder<'_>, at: &[Value], row: i64, width: i64) -> Result<(), Failure> {
        let last = self.tested.len() - 1;
        let others: Vec<usize> = (0..last).filter(|s| self.tested[*s]).collect();
        let zero = constant_index(b, 0);
        let mut first = at.to_vec();
        first.push(zero);
        let vectors = |b: &mut Builder<'_>| {
            vector::row(b, row, width, &mut |b, first, length| {
                let mut at = at.to_vec();
                at.push(first);
                self.piece(b, &at, &[], Some(length))
            })
        };
        let whole = |b: &mut Builder<'_>| {
            if !self.tested[last] {
                return vectors(b);
            }
            let size = self.pattern.far_shape[last];
            let mut elements = |b: &mut Builder<'_>| {
                nest(b, &[row], &mut Vec::new(), &mut |b, counter| {
                    let mut at = at.to_vec();
                    at.extend(counter);
                    self.piece(b, &at, &[last], None)
                })
            };
            if size < row {
                return elements(b);
            }
            let begin = self.position(b, &first, last)?;
            let bound = constant_index(b, size - row + 1);
            let test = below(b, begin, bound);
            branch(b, test, vectors, Some(&mut elements))
        };
        let Some(test) = self.test(b, &first, &others)? else {
            return whole(b);
        };
        let mut outside = |b: &mut Builder<'_>| {
            vector::row(b, row, width, &mut |b, first, length| {
                let mut at = at.to_vec();
                at.push(first);
                let value = self.padding(b, Some(length));
                vector::store(b, value, self.t.tile, &at);
                Ok(())
            })
        };
        match self.t.direction {
            Direction::Write => branch(b, test, whole, None),
            Direction::Read => branch(b, test, whole, Some(&mut outside)),
        }
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
            all = Some(match all {
                None => test,
                Some(lhs) => b.add(AndI { lhs, rhs: test }),
            });
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

    /// Moves an element, or a vector of so many, if it is inside in these dimensions; in the others it is known to be.
    fn piece(
        &self,
        b: &mut Builder<'_>,
        at: &[Value],
        dims: &[usize],
        vector: Option<i64>,
    ) -> Result<(), Failure> {
        let t = self.t;
        let load = |b: &mut Builder<'_>, memref: Value, at: &[Value]| match vector {
            Some(length) => vector::load(b, memref, at, length),
            None => load(b, memref, at),
        };
        let store = |b: &mut Builder<'_>, value: Value, memref: Value, at: &[Value]| match vector {
            Some(_) => vector::store(b, value, memref, at),
            None => store(b, value, memref, at),
        };
        let mut far = Vec::new();
        for s in 0..self.tested.len() {
            far.push(self.position(b, at, s)?);
        }
        let reads = t.direction == Direction::Read;
        let Some(condition) = self.test(b, at, dims)? else {
            if reads {
                let value = load(b, t.far, &far);
                store(b, value, t.tile, at);
            } else {
                let value = load(b, t.tile, at);
                store(b, value, t.far, &far);
            }
            return Ok(());
        };
        if !reads {
            let write = |b: &mut Builder<'_>| {
                let value = load(b, t.tile, at);
                store(b, value, t.far, &far);
                Ok(())
            };
            return branch(b, condition, write, None);
        }
        let then_region = b.body(&[], |b, _| {
            let values = vec![load(b, t.far, &far)];
            b.add(Yield { values });
        });
        let else_region = b.body(&[], |b, _| {
            let values = vec![self.padding(b, vector)];
            b.add(Yield { values });
        });
        let elem = b.ty(t.tile).elem();
        let moved = vector.map_or(elem, |length| tir_vector::of(length, elem));
        let made = b.add(If {
            condition,
            then_region,
            else_region,
            results: Rets(vec![moved]),
        });
        if let Some(value) = made.first() {
            store(b, *value, t.tile, at);
        }
        Ok(())
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
fn branch(
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
