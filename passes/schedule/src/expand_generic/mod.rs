//! `expand-generic`: what no unit or engine takes becomes loops of loads and stores.

mod vector;

pub use vector::Registers;

use tir::{
    AffineExpr, AffineMap, At, Builder, Failure, Ir, LinearExpr, Mapping, MemRefType, OpId, Rets,
    Type, Value,
};
use tir_accel::Direction;
use tir_accel::transfer::Pattern;
use tir_arith::{
    AndI, CmpI, CmpIPredicate, OpFoldResult, constant_float, constant_index, constant_int,
};
use tir_loop::{Bounds, For, If, Yield};
use tir_memref::{Load, Store};
use tir_tensor::Generic;

use crate::range::{Facts, inside};
use crate::transfer::Transfer;

/// What loops look like.
#[derive(Clone, Copy, Debug, Default)]
pub struct Form {
    /// Sums are values that loops carry: what a nest reduces over is innermost, and an element of an output is loaded and
    /// stored once.
    pub carry: bool,
    /// Registers for vectors, where neighbours are computed and moved at once.
    pub vectors: Option<Registers>,
}

/// Expands all of the function at the root of an arena.
pub fn expand(ir: &mut Ir, form: Form) -> Result<(), Failure> {
    for op in ir.walk_ids() {
        if !ir.contains(op) {
            continue;
        }
        let done = if let Some(generic) = ir.get::<Generic>(op) {
            generic_loops(ir, op, &generic, form)
        } else if let Some(transfer) = Transfer::of(ir, op) {
            static_shape(ir, transfer.tile)
                .and_then(|()| transfer_loops(ir, op, &transfer, form))
                .map(|()| true)
        } else {
            Ok(false)
        };
        match done {
            Ok(true) => ir.erase(op),
            Ok(false) => {}
            Err(error) => {
                let name = ir.name(op);
                return Err(Box::new(
                    (*error)
                        .or_at(ir.loc(op))
                        .context(format_args!("'{name}': ")),
                ));
            }
        }
    }
    Ok(())
}

fn static_shape(ir: &Ir, value: Value) -> Result<(), Failure> {
    let ty = ir.ty(value);
    match ty.shape().is_some_and(|s| !s.contains(&tir::DYNAMIC)) {
        true => Ok(()),
        false => Err(format!("works on a {ty}, expected a static shape").into()),
    }
}

fn load(b: &mut Builder<'_>, memref: Value, at: &[Value]) -> Value {
    b.add(Load {
        memref,
        indices: at.to_vec(),
        nontemporal: None,
    })
}
fn store(b: &mut Builder<'_>, value: Value, memref: Value, at: &[Value]) {
    b.add(Store {
        value,
        memref,
        indices: at.to_vec(),
        nontemporal: None,
    });
}

/// Makes what is inside of a nest, for its indices.
type Fill<'a> = dyn FnMut(&mut Builder<'_>, &[Value]) -> Result<(), Failure> + 'a;

/// Makes what is in a region.
type Step<'a> = &'a mut dyn FnMut(&mut Builder<'_>) -> Result<(), Failure>;

/// Makes what is inside of a nest, for its indices and what is carried; gives what goes on.
type Carry<'a> =
    dyn FnMut(&mut Builder<'_>, &[Value], &[Value]) -> Result<Vec<Value>, Failure> + 'a;

/// Loops over a box; `fill` makes what is inside them.
fn nest(
    b: &mut Builder<'_>,
    shape: &[i64],
    at: &mut Vec<Value>,
    fill: &mut Fill<'_>,
) -> Result<(), Failure> {
    let fill = &mut |b: &mut Builder<'_>, at: &[Value], _: &[Value]| {
        fill(b, at)?;
        Ok(Vec::new())
    };
    carrying(b, shape, at, &[], fill).map(drop)
}

/// Loops over a box that carry values; gives what the last iteration does.
fn carrying(
    b: &mut Builder<'_>,
    shape: &[i64],
    at: &mut Vec<Value>,
    init: &[Value],
    fill: &mut Carry<'_>,
) -> Result<Vec<Value>, Failure> {
    let Some((size, rest)) = shape.split_first() else {
        return fill(b, at, init);
    };
    let types: Vec<Type> = init.iter().map(|v| b.ty(*v)).collect();
    let args: Vec<Type> = std::iter::once(Type::index())
        .chain(types.clone())
        .collect();
    let mut done = Ok(());
    let body = b.body(&args, |b, args| {
        at.push(args[0]);
        let inner = carrying(b, rest, at, &args[1..], fill);
        at.pop();
        // After an error the text is not looked at.
        let values = match inner {
            Ok(values) => values,
            Err(error) => {
                done = Err(error);
                args[1..].to_vec()
            }
        };
        b.add(Yield { values });
    });
    let bounds = [Bounds::Static(0), Bounds::Static(*size), Bounds::Static(1)];
    let made = b.add(For::new(bounds, init.to_vec(), body, types));
    done.map(|()| made)
}

/// An affine expression of indices that are not negative.
fn index(b: &mut Builder<'_>, expr: &AffineExpr, at: &[Value]) -> Result<OpFoldResult, Failure> {
    let number = |e: &AffineExpr| match e {
        AffineExpr::Const(n) if *n > 0 => Ok(*n),
        _ => Err(Failure::from(
            "divides an index by what is no positive number",
        )),
    };
    Ok(match expr {
        AffineExpr::Dim(d) => {
            OpFoldResult::Value(*at.get(*d).ok_or("uses an iterator that is not there")?)
        }
        AffineExpr::Const(n) => OpFoldResult::Number(*n),
        AffineExpr::Sym(_) => return Err("uses a symbol".into()),
        AffineExpr::Add(x, y) => {
            let (x, y) = (index(b, x, at)?, index(b, y, at)?);
            x.plus(b, y)
        }
        AffineExpr::Mul(x, y) => match (index(b, x, at)?, index(b, y, at)?) {
            (x, OpFoldResult::Number(n)) | (OpFoldResult::Number(n), x) => x.times(b, n),
            _ => return Err("multiplies indices".into()),
        },
        AffineExpr::FloorDiv(x, y) => {
            let n = number(y)?;
            index(b, x, at)?.floor_div(b, n)
        }
        AffineExpr::CeilDiv(x, y) => {
            let n = number(y)?;
            index(b, x, at)?.plus(b, n - 1).floor_div(b, n)
        }
        AffineExpr::Mod(x, y) => {
            let n = number(y)?;
            index(b, x, at)?.modulo(b, n)
        }
    })
}

fn place(b: &mut Builder<'_>, map: &AffineMap, at: &[Value]) -> Result<Vec<Value>, Failure> {
    let mut out = Vec::new();
    for expr in &map.exprs {
        let ix = index(b, expr, at)?;
        out.push(ix.value(b));
    }
    Ok(out)
}

/// Whether it was a generic on buffers.
fn generic_loops(ir: &mut Ir, op: OpId, generic: &Generic, form: Form) -> Result<bool, Failure> {
    if generic
        .outputs
        .iter()
        .any(|v| !ir.ty(*v).is::<MemRefType>())
    {
        return Ok(false);
    }
    let domain = generic.domain(ir)?;
    let region = Region::of(ir, generic)?;
    let reductions = generic.reductions();
    let (reduced, parallel): (Vec<usize>, Vec<usize>) =
        (0..domain.len()).partition(|d| reductions[*d]);
    if let Some(registers) = form.vectors
        && let Some(plan) = vector::Plan::of(ir, generic, &region, &domain, registers)
    {
        return plan.emit(&mut ir.at(At::Before(op))).map(|()| true);
    }
    let mut b = ir.at(At::Before(op));
    if !form.carry || reduced.is_empty() {
        return nest(&mut b, &domain, &mut Vec::new(), &mut |b, at| {
            let values = region.values(b, at)?;
            region.combine_in_place(b, at, &values)
        })
        .map(|()| true);
    }
    // Reductions keep their order, so each sum keeps its order.
    let sizes = |dims: &[usize]| -> Vec<i64> { dims.iter().map(|d| domain[*d]).collect() };
    let (outer, inner) = (sizes(&parallel), sizes(&reduced));
    nest(&mut b, &outer, &mut Vec::new(), &mut |b, outside| {
        // What an output's place says of reductions is nothing.
        let mut at = vec![None; domain.len()];
        for (d, value) in parallel.iter().zip(outside) {
            at[*d] = Some(*value);
        }
        let places = region.places(b, &at)?;
        let mut init = Vec::new();
        for (output, place) in generic.outputs.iter().zip(&places) {
            init.push(load(b, *output, place));
        }
        let sums = carrying(b, &inner, &mut Vec::new(), &init, &mut |b, inside, sums| {
            let mut at = at.clone();
            for (d, value) in reduced.iter().zip(inside) {
                at[*d] = Some(*value);
            }
            let at: Vec<Value> = at.into_iter().flatten().collect();
            let values = region.values(b, &at)?;
            Ok(region.combine(b, sums, &values))
        })?;
        for ((output, place), sum) in generic.outputs.iter().zip(&places).zip(sums) {
            store(b, sum, *output, place);
        }
        Ok(())
    })?;
    Ok(true)
}

/// What a generic on buffers computes at one point.
struct Region<'a> {
    generic: &'a Generic,
    args: Vec<Value>,
    ops: Vec<OpId>,
    yields: Vec<Value>,
}

impl<'a> Region<'a> {
    fn of(ir: &Ir, generic: &'a Generic) -> Result<Self, Failure> {
        let block = ir.entry(generic.body).ok_or("has an empty region")?;
        let mut ops: Vec<OpId> = ir.ops_in(block).collect();
        let end = ops.pop().ok_or("has an empty region")?;
        Ok(Self {
            generic,
            args: ir.args(block).collect(),
            ops,
            yields: ir.operands(end).collect(),
        })
    }

    /// Bytes of the largest element that is read, computed or written; none if one is nothing in memory.
    fn largest(&self, ir: &Ir, operands: &[Value]) -> Option<i64> {
        let made = self.ops.iter().flat_map(|op| ir.results(*op));
        let all = operands.iter().copied().chain(made);
        let bytes = all.map(|value| ir.ty(value).elem().bytes());
        let bytes: Option<Vec<usize>> = bytes.collect();
        i64::try_from(bytes?.into_iter().max()?).ok()
    }

    /// What the region yields at a point.
    fn values(&self, b: &mut Builder<'_>, at: &[Value]) -> Result<Vec<Value>, Failure> {
        let mut map = Mapping::default();
        let inputs = self.generic.inputs.iter().zip(&self.generic.indexing_maps);
        for (arg, (input, access)) in self.args.iter().zip(inputs) {
            let value = if b.ty(*input).is::<MemRefType>() {
                let at = place(b, access, at)?;
                load(b, *input, &at)
            } else {
                *input
            };
            map.map(*arg, value);
        }
        crate::index::copy(b, &self.ops, &mut map);
        Ok(self.yields.iter().map(|value| map.get(*value)).collect())
    }

    /// The maps of the outputs.
    fn accesses(&self) -> &'a [AffineMap] {
        &self.generic.indexing_maps[self.generic.inputs.len()..]
    }

    /// Where each output is written, for indices of parallel iterators.
    fn places(
        &self,
        b: &mut Builder<'_>,
        at: &[Option<Value>],
    ) -> Result<Vec<Vec<Value>>, Failure> {
        // Maps of outputs name parallel iterators alone.
        let any = at.iter().flatten().next().copied();
        let known = |value: &Option<Value>| value.or(any);
        let at: Vec<Value> = at.iter().filter_map(known).collect();
        let accesses = self.accesses().iter();
        accesses.map(|access| place(b, access, &at)).collect()
    }

    fn combine(&self, b: &mut Builder<'_>, sums: &[Value], values: &[Value]) -> Vec<Value> {
        let pairs = sums.iter().zip(values);
        pairs
            .map(|(sum, value)| match self.generic.combine {
                Some(combine) => combine.build(b, *sum, *value),
                None => *value,
            })
            .collect()
    }

    /// Stores what the outputs become.
    fn combine_in_place(
        &self,
        b: &mut Builder<'_>,
        at: &[Value],
        values: &[Value],
    ) -> Result<(), Failure> {
        let outputs = self.generic.outputs.iter().zip(self.accesses());
        for (value, (output, access)) in values.iter().zip(outputs) {
            let at = place(b, access, at)?;
            let mut value = *value;
            if let Some(combine) = self.generic.combine {
                let old = load(b, *output, &at);
                value = combine.build(b, old, value);
            }
            store(b, value, *output, &at);
        }
        Ok(())
    }
}

/// A transfer as loops over the elements of its tile, or over its rows by vectors.
fn transfer_loops(ir: &mut Ir, op: OpId, t: &Transfer, form: Form) -> Result<(), Failure> {
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
