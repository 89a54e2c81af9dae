//! `expand-generic`: what no unit or engine takes becomes loops of loads and stores.

use tir::{
    AffineExpr, AffineMap, At, Builder, Failure, Ir, Mapping, MemRefType, OpId, Rets, Type, Value,
};
use tir_accel::Direction;
use tir_accel::transfer::Pattern;
use tir_arith::{
    AndI, CmpI, CmpIPredicate, OpFoldResult, constant_float, constant_index, constant_int,
};
use tir_loop::{Bounds, For, If, Yield};
use tir_memref::{Copy, Load, Store};
use tir_tensor::Generic;

use crate::range::{Facts, inside};
use crate::transfer::Transfer;

/// Expands all of the function at the root of an arena.
pub fn expand(ir: &mut Ir) -> Result<(), Failure> {
    for op in ir.walk_ids() {
        if !ir.contains(op) {
            continue;
        }
        let done = if let Some(generic) = ir.get::<Generic>(op) {
            generic_loops(ir, op, &generic)
        } else if let Some(copy) = ir.get::<Copy>(op) {
            let shape = static_shape(ir, copy.source);
            shape
                .map(|shape| {
                    nest(
                        &mut ir.at(At::Before(op)),
                        &shape,
                        &mut Vec::new(),
                        &mut |b, at| {
                            let value = load(b, copy.source, at);
                            store(b, value, copy.target, at);
                            Ok(())
                        },
                    )
                })
                .and_then(|done| done.map(|()| true))
        } else if let Some(transfer) = Transfer::of(ir, op) {
            transfer_loops(ir, op, &transfer).map(|()| true)
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

fn static_shape(ir: &Ir, value: Value) -> Result<Vec<i64>, Failure> {
    let ty = ir.ty(value);
    let shape = ty.shape().filter(|s| !s.contains(&tir::DYNAMIC));
    Ok(shape
        .ok_or_else(|| format!("works on a {ty}, expected a static shape"))?
        .to_vec())
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

/// Loops over a box; `fill` makes what is inside them.
fn nest(
    b: &mut Builder<'_>,
    shape: &[i64],
    at: &mut Vec<Value>,
    fill: &mut Fill<'_>,
) -> Result<(), Failure> {
    let Some((size, rest)) = shape.split_first() else {
        return fill(b, at);
    };
    let mut done = Ok(());
    let body = b.body(&[Type::index()], |b, args| {
        at.push(args[0]);
        done = nest(b, rest, at, fill);
        at.pop();
        b.add(Yield { values: vec![] });
    });
    let bounds = [Bounds::Static(0), Bounds::Static(*size), Bounds::Static(1)];
    b.add(For::new(bounds, vec![], body, vec![]));
    done
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
fn generic_loops(ir: &mut Ir, op: OpId, generic: &Generic) -> Result<bool, Failure> {
    if generic
        .outputs
        .iter()
        .any(|v| !ir.ty(*v).is::<MemRefType>())
    {
        return Ok(false);
    }
    let domain = generic.domain(ir)?;
    let block = ir.entry(generic.body).ok_or("has an empty region")?;
    let args: Vec<Value> = ir.args(block).collect();
    let inner: Vec<OpId> = ir.ops_in(block).collect();
    let end = inner.last().copied().ok_or("has an empty region")?;
    let yields: Vec<Value> = ir.operands(end).collect();
    let (inputs, outputs) = generic.indexing_maps.split_at(generic.inputs.len());
    let mut b = ir.at(At::Before(op));
    nest(&mut b, &domain, &mut Vec::new(), &mut |b, at| {
        let mut map = Mapping::default();
        for ((arg, input), access) in args.iter().zip(&generic.inputs).zip(inputs) {
            let value = if b.ty(*input).is::<MemRefType>() {
                let at = place(b, access, at)?;
                load(b, *input, &at)
            } else {
                *input
            };
            map.map(*arg, value);
        }
        crate::index::copy(b, &inner[..inner.len() - 1], &mut map);
        for ((value, output), access) in yields.iter().zip(&generic.outputs).zip(outputs) {
            let at = place(b, access, at)?;
            let mut value = map.get(*value);
            if let Some(combine) = generic.combine {
                let old = load(b, *output, &at);
                value = combine.build(b, old, value);
            }
            store(b, value, *output, &at);
        }
        Ok(())
    })?;
    Ok(true)
}

/// A transfer as loops over the elements of its tile.
fn transfer_loops(ir: &mut Ir, op: OpId, t: &Transfer) -> Result<(), Failure> {
    let pattern = Pattern::new(ir.ty(t.far), ir.ty(t.tile), &t.access)?;
    let facts = Facts::at(ir, op);
    let mut b = ir.at(At::Before(op));
    let shape = pattern.tile_shape.clone();
    nest(&mut b, &shape, &mut Vec::new(), &mut |b, at| {
        transfer_element(b, t, &pattern, &facts, at)
    })
}

/// Moves one element, if it is not known to be inside only where it is.
fn transfer_element(
    b: &mut Builder<'_>,
    t: &Transfer,
    pattern: &Pattern,
    facts: &Facts,
    at: &[Value],
) -> Result<(), Failure> {
    let reads = t.direction == Direction::Read;
    let (mut far, mut within) = (Vec::new(), None);
    for (s, expr) in t.access.exprs.iter().enumerate() {
        let ix = index(b, expr, at)?.plus(b, t.offsets[s]);
        let value = ix.value(b);
        far.push(value);
        // What the loops and offsets show to be inside needs no test.
        let size = pattern.far_shape[s];
        let form = &pattern.access[s];
        let safe = inside(b.ir, facts, t.offsets[s], form, &pattern.tile_shape, size);
        if !safe {
            let size = constant_index(b, size);
            // Below zero is far above, unsigned.
            let test = b.add(CmpI {
                predicate: CmpIPredicate::Ult,
                lhs: value,
                rhs: size,
            });
            within = Some(match within {
                None => test,
                Some(lhs) => b.add(AndI { lhs, rhs: test }),
            });
        }
    }
    let Some(condition) = within else {
        if reads {
            let value = load(b, t.far, &far);
            store(b, value, t.tile, at);
        } else {
            let value = load(b, t.tile, at);
            store(b, value, t.far, &far);
        }
        return Ok(());
    };
    let elem = b.ty(t.tile).elem();
    let then_region = b.body(&[], |b, _| {
        let values = if reads {
            vec![load(b, t.far, &far)]
        } else {
            let value = load(b, t.tile, at);
            store(b, value, t.far, &far);
            vec![]
        };
        b.add(Yield { values });
    });
    if !reads {
        let else_region = b.ir.new_region();
        b.add(If {
            condition,
            then_region,
            else_region,
            results: Rets(vec![]),
        });
        return Ok(());
    }
    let padding = t.padding;
    let else_region = b.body(&[], |b, _| {
        let value = padding.unwrap_or_else(|| match elem.is_float() {
            true => constant_float(b, 0.0, elem),
            false => constant_int(b, 0, elem),
        });
        b.add(Yield {
            values: vec![value],
        });
    });
    let made = b.add(If {
        condition,
        then_region,
        else_region,
        results: Rets(vec![elem]),
    });
    if let Some(value) = made.first() {
        store(b, *value, t.tile, at);
    }
    Ok(())
}
