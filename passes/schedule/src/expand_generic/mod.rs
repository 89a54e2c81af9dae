//! `expand-generic`: what no unit or engine takes becomes loops of loads and stores.

mod ends;
mod transfers;
mod transpose;
mod vector;

pub(crate) use transfers::branch;
pub use vector::Registers;

use tir::{
    AffineExpr, AffineMap, At, Builder, Diagnostic, Failure, Ir, Mapping, MemRefType, OpId, Type,
    Value,
};
use tir_arith::OpFoldResult;
use tir_loop::{Bounds, For, Yield};
use tir_memref::{Load, Store};
use tir_tensor::Generic;

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
    if form.vectors.is_some() {
        ends::without(ir)?;
    }
    let ops = ir.walk_ids();
    // Sums first, with the nests around them.
    if let Some(registers) = form.vectors {
        for op in &ops {
            if ir.contains(*op) {
                let done = vector::around::expand(ir, *op, registers);
                done.map_err(|error| located(ir, *op, *error))?;
            }
        }
    }
    for op in ops {
        if !ir.contains(op) {
            continue;
        }
        let done = if let Some(generic) = ir.get::<Generic>(op) {
            generic_loops(ir, op, &generic, form)
        } else if let Some(transfer) = Transfer::of(ir, op) {
            static_shape(ir, transfer.tile)
                .and_then(|()| transfers::expand(ir, op, &transfer, form))
                .map(|()| true)
        } else {
            Ok(false)
        };
        match done {
            Ok(true) => ir.erase(op),
            Ok(false) => {}
            Err(error) => return Err(located(ir, op, *error)),
        }
    }
    Ok(())
}

/// An error of an op, with its place and name.
fn located(ir: &Ir, op: OpId, error: Diagnostic) -> Failure {
    let error = error.or_at(ir.loc(op));
    Box::new(error.context(format_args!("'{}': ", ir.name(op))))
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
        let alone = vector::around::Around::default();
        return plan.emit(&mut ir.at(At::Before(op)), &alone).map(|()| true);
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

    /// Whether masks of elements of at least so many bytes serve all operands, and what it computes from elements that are left
    /// out, zeros, harms nobody: an integer that is divided by zero does.
    fn is_masked(&self, ir: &Ir, operands: &[Value], least: i64) -> bool {
        let served = |ty: Type| {
            let bytes = ty.elem().bytes().and_then(|n| i64::try_from(n).ok());
            ty.elem().is_float() && bytes.is_some_and(|n| n >= least)
        };
        let made = self.ops.iter().flat_map(|op| ir.results(*op));
        let mut made = made.map(|value| ir.ty(value).elem());
        least > 0
            && operands.iter().all(|value| served(ir.ty(*value)))
            && made.all(|elem| elem.is_float() || elem == Type::int(1))
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
