//! Functions of the rules that give matrices, whose products do what other ops say.

use tir::data::Array;
use tir::{Arg, Attr, AttrValue, PatternSet, Type};

use super::functions::shape;
use crate::shape::windows;

/// Most rows and columns of a matrix that is made here: it grows with their square.
const MOST: usize = 256;

/// A matrix of rows and columns whose elements a function gives; none of other floats than those of f32 and f64.
fn matrix(
    [rows, columns]: [usize; 2],
    elem: Type,
    element: impl Fn(usize, usize) -> f64,
) -> Option<Attr> {
    let inside = |size: usize| (1..=MOST).contains(&size);
    if !inside(rows) || !inside(columns) {
        return None;
    }
    let all = (0..rows * columns).map(|at| element(at / columns, at % columns));
    let array = match elem.float_width()? {
        32 => Array::from_vec(&[rows, columns], all.map(|x| x as f32).collect()),
        64 => Array::from_vec(&[rows, columns], all.collect::<Vec<f64>>()),
        _ => return None,
    };
    array.ok().map(|array| tir::interp::attr_of(&array))
}

/// The means of windows along one dimension of images: an image, the dimension, and a pool's attributes.
fn means(a: &[Arg]) -> Option<Attr> {
    let [x, axis, kernel, strides, pads, dilations, ceil, padding] = a else {
        return None;
    };
    let said = |arg: &Arg| bool::from_attr(arg.attr()?);
    let (ceil, padding) = (said(ceil)?, said(padding)?);
    let &[_, _, height, width] = shape(x)? else {
        return None;
    };
    let (kernel, strides, pads, dilations) = (
        kernel.ints()?,
        strides.ints()?,
        pads.ints()?,
        dilations.ints()?,
    );
    let image = [height, width];
    let both = windows(image, &kernel, &strides, &pads, &dilations, ceil).ok()?;
    let at = usize::try_from(axis.int()?).ok()?.checked_sub(2)?;
    let window = both.get(at)?;
    let rows = usize::try_from(window.output().ok()?).ok()?;
    let columns = usize::try_from(window.input).ok()?;
    if rows.max(columns) > MOST || window.kernel > MOST as i64 {
        return None;
    }
    let mut part = vec![0.0; rows * columns];
    for row in 0..rows {
        let count = window.count(row as i64, padding);
        if count == 0 {
            return None;
        }
        for column in window.inside(row as i64) {
            part[row * columns + column] += 1.0 / count as f64;
        }
    }
    matrix([rows, columns], x.ty()?.elem(), |row, column| {
        part[row * columns + column]
    })
}

/// Adds all.
pub(super) fn register(set: &mut PatternSet) {
    // The matrix that takes the mean of a row from each of its elements: ones on the diagonal, less one in so many.
    set.attr_fn("centering", |a| {
        let size = usize::try_from(*shape(&a[0])?.last()?).ok()?;
        matrix([size, size], a[0].ty()?.elem(), |row, column| {
            f64::from(u8::from(row == column)) - 1.0 / size as f64
        })
    })
    // A column whose product with rows is their mean.
    .attr_fn("mean-column", |a| {
        let size = *shape(&a[0])?.last().filter(|size| **size > 0)?;
        let ty = Type::tensor([size, 1], a[0].ty()?.elem());
        tir::rewrite::Literal::Float(1.0 / size as f64).constant(ty)
    })
    .attr_fn("pool-matrix", means)
    .attr_fn("identity-of-rows", |a| {
        let (x, scale) = (shape(&a[0])?, shape(&a[1])?);
        let (&[.., rows, columns], &[.., scales, 1]) = (x, scale) else {
            return None;
        };
        let size = usize::try_from(rows).ok().filter(|rows| *rows > 1)?;
        if scales != rows || columns <= rows {
            return None;
        }
        matrix([size, size], a[0].ty()?.elem(), |row, column| {
            f64::from(u8::from(row == column))
        })
    });
}
