//! Images in another size: what is repeated regularly is a map, anything else a sum over the
//! elements of a dimension.

use tir::data::Array;
use tir::interp::{attr_of, failure};
use tir::rewrite::{PatternSet, Rewriter};
use tir::{
    AffineMap, Attr, Decline, DenseElements, Failure, FloatType, OpId, Ret, Type, Value, float_bits,
};
use tir_arith::MulF;
use tir_graph::layout::Layout;
use tir_graph::{Resize, ResizeMode, Tap, accumulator};
use tir_tensor::{CollapseShape, Combine, reassociation};

use super::movement::read;
use super::nest::{E, Reduction, elements, elementwise, form, map, truncated};
use super::select::chosen;

pub(super) fn patterns(set: &mut PatternSet) {
    set.on("resize-to-generics", resize);
}

fn resize(resize: Resize, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let (shape, _) = form(rw, resize.x)?;
    let to = resize.y.0.shape().unwrap_or(&[]);
    let taps: Vec<Option<Vec<Tap>>> = (0..shape.len())
        .map(|d| resize.taps(d, shape[d], to[d]))
        .collect();
    let y = match resize.mode {
        ResizeMode::Linear => linear(rw, resize.x, taps)?,
        ResizeMode::Nearest => nearest(rw, resize.x, taps)?,
    };
    rw.replace(op, &[y]);
    Ok(())
}

/// Each dimension is a product with the matrix of its weights.
fn linear(
    rw: &mut Rewriter<'_>,
    mut x: Value,
    taps: Vec<Option<Vec<Tap>>>,
) -> Result<Value, Decline> {
    let (_, elem) = form(rw, x)?;
    let within = accumulator(elem);
    for (d, taps) in taps.into_iter().enumerate() {
        let Some(taps) = taps else { continue };
        let (shape, _) = form(rw, x)?;
        let weights = elements(rw, weights(&taps, shape[d] as usize, within)?);
        let mut result = shape.to_vec();
        result[d] = taps.len() as i64;
        let rank = shape.len();
        let sum = Reduction {
            ty: Layout::on(Layout::of(rw.ty(x)), Type::tensor(result, within)),
            start: None,
            combine: Combine::Add,
            iterators: [rank, 1],
            sizes: None,
        };
        // (dimensions of the result …, i)
        let place = |e: usize| if e == d { E::Dim(rank) } else { E::Dim(e) };
        let x_map = map(rank + 1, (0..rank).map(place).collect::<Vec<_>>());
        let w_map = AffineMap::project(rank + 1, &[d, rank]);
        x = sum.make(rw, &[(x, x_map), (weights, w_map)], |rw, args| {
            rw.add(MulF::new(args[0], args[1]))
        });
    }
    Ok(truncated(rw, x, elem))
}

/// Row `o` holds the weights that element `o` of the result gives to the elements of the input.
fn weights(taps: &[Tap], input: usize, elem: Type) -> Result<Attr, Failure> {
    let mut values = vec![0f32; taps.len() * input];
    for (tap, row) in taps.iter().zip(values.chunks_exact_mut(input.max(1))) {
        row[tap.low] += 1.0 - tap.weight;
        row[tap.high] += tap.weight;
    }
    let shape = [taps.len(), input];
    if elem == Type::f32() {
        let array = Array::from_vec(&shape, values).map_err(failure)?;
        return Ok(attr_of(&array));
    }
    let format = elem.get::<FloatType>().copied();
    let format = format.ok_or_else(|| format!("{elem} is not a float"))?;
    let size = format.bits() as usize / 8;
    let bytes = values.iter().flat_map(|v| {
        let bits = float_bits(f64::from(*v), format).to_le_bytes();
        bits.into_iter().take(size)
    });
    let data = bytes.collect();
    let ty = Type::tensor(shape.map(|n| n as i64), elem);
    Ok(Attr::new(DenseElements { ty, data }))
}

/// The elements `start + step · (i / repeat)`, `repeat` dividing their number.
struct Regular {
    start: i64,
    step: i64,
    repeat: i64,
}

/// How a list of positions goes on regularly, if it does.
fn regular(positions: &[i64]) -> Option<Regular> {
    let start = *positions.first()?;
    let repeat = positions.iter().take_while(|p| **p == start).count();
    let step = positions.get(repeat).map_or(1, |next| next - start);
    let fits = |(i, p): (usize, &i64)| *p == start + step * (i / repeat) as i64;
    let all = positions.len().is_multiple_of(repeat) && positions.iter().enumerate().all(fits);
    all.then_some(Regular {
        start,
        step,
        repeat: repeat as i64,
    })
}

/// What is regular in all its dimensions is one map; the other dimensions are chosen one by one.
fn nearest(
    rw: &mut Rewriter<'_>,
    mut x: Value,
    taps: Vec<Option<Vec<Tap>>>,
) -> Result<Value, Decline> {
    let positions = |taps: &Vec<Tap>| taps.iter().map(|t| t.low as i64).collect::<Vec<i64>>();
    let (shape, _) = form(rw, x)?;
    let whole = || Regular {
        start: 0,
        step: 1,
        repeat: 1,
    };
    let mut maps = Vec::new();
    for (d, taps) in taps.into_iter().enumerate() {
        let Some(positions) = taps.as_ref().map(positions) else {
            maps.push((whole(), shape[d]));
            continue;
        };
        match regular(&positions) {
            Some(regular) => {
                let count = positions.len() as i64 / regular.repeat;
                maps.push((regular, count));
            }
            None => {
                x = one_by_one(rw, x, d, positions)?;
                maps.push((whole(), form(rw, x)?.0[d]));
            }
        }
    }
    repeated(rw, x, &maps)
}

/// Elements of dimension `d` by a list of their positions.
fn one_by_one(
    rw: &mut Rewriter<'_>,
    x: Value,
    d: usize,
    positions: Vec<i64>,
) -> Result<Value, Decline> {
    let (shape, elem) = form(rw, x)?;
    let rank = shape.len();
    let mut result = shape.to_vec();
    result[d] = positions.len() as i64;
    let array = Array::from_vec(&[positions.len()], positions).map_err(failure)?;
    let indices = elements(rw, attr_of(&array));
    let place = |e: usize| if e == d { E::Dim(rank) } else { E::Dim(e) };
    let x_map = map(rank + 1, (0..rank).map(place).collect::<Vec<_>>());
    let index_map = AffineMap::project(rank + 1, &[d]);
    let ty = Layout::on(Layout::of(rw.ty(x)), Type::tensor(result, elem));
    chosen(rw, ty, (x, x_map), (indices, index_map), shape[d])
}

fn repeated(
    rw: &mut Rewriter<'_>,
    mut x: Value,
    maps: &[(Regular, i64)],
) -> Result<Value, Decline> {
    let (shape, elem) = form(rw, x)?;
    let layout = Layout::of(rw.ty(x));
    let sizes: Vec<i64> = maps.iter().map(|(_, count)| *count).collect();
    let starts: Vec<i64> = maps.iter().map(|(r, _)| r.start).collect();
    let steps: Vec<i64> = maps.iter().map(|(r, _)| r.step).collect();
    if sizes != shape || starts.iter().any(|n| *n != 0) || steps.iter().any(|n| *n != 1) {
        x = read(
            rw,
            x,
            starts,
            &steps,
            None,
            Layout::on(layout, Type::tensor(sizes.clone(), elem)),
        );
    }
    if maps.iter().all(|(r, _)| r.repeat <= 1) {
        return Ok(x);
    }
    // Each repeated dimension is two: which element, and which of its repetitions.
    let (mut wide, mut groups, mut exprs) = (Vec::new(), Vec::new(), Vec::new());
    for (regular, count) in maps {
        let at = wide.len();
        exprs.push(E::Dim(at));
        wide.push(*count);
        groups.push(vec![at as i64]);
        if regular.repeat > 1 {
            wide.push(regular.repeat);
            groups
                .last_mut()
                .into_iter()
                .for_each(|g| g.push(at as i64 + 1));
        }
    }
    let mut stored = layout.cloned();
    for group in groups.iter().filter(|group| group.len() > 1) {
        stored = stored
            .map(|layout| layout.split(group[0] as usize))
            .transpose()?;
    }
    let ty = Layout::on(stored.as_ref(), Type::tensor(wide.clone(), elem));
    let y = elementwise(rw, ty, &[(x, map(wide.len(), exprs))], |_, args| args[0]);
    let result: Vec<i64> = maps.iter().map(|(r, n)| n * r.repeat.max(1)).collect();
    Ok(rw.add(CollapseShape {
        src: y,
        reassociation: reassociation(&groups),
        result: Ret(Layout::on(layout, Type::tensor(result, elem))),
    }))
}
