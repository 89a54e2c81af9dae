//! An operand of a kernel's nest: where its element is at each point.

use tir_core::{AffineExpr, AffineMap, Failure};

use crate::scalar::Kind;
use crate::view::View;

/// An operand of the nest.
pub(crate) struct Operand {
    pub kind: Kind,
    /// Byte offset of the element at the current point.
    pub at: i64,
    /// How it changes with each iterator.
    pub steps: Vec<i64>,
    /// A map that is not linear: computed at every point.
    pub odd: Option<(Vec<AffineExpr>, i64, Vec<i64>)>,
}

impl Operand {
    pub(crate) fn new(
        map: &AffineMap,
        view: &View,
        sizes: &[i64],
        len: usize,
    ) -> Result<Self, Failure> {
        if map.exprs.len() != view.shape.len() {
            let (found, rank) = (map.exprs.len(), view.shape.len());
            return Err(format!("a map with {found} results for an operand of rank {rank}").into());
        }
        view.check(len)?;
        let mut operand = Self {
            kind: view.kind,
            at: view.offset,
            steps: vec![0; sizes.len()],
            odd: None,
        };
        for (dim, (expr, (&n, &stride))) in map
            .exprs
            .iter()
            .zip(view.shape.iter().zip(&view.strides))
            .enumerate()
        {
            let Some(form) = expr.linear(sizes.len()) else {
                operand.at = 0;
                operand.steps = vec![0; sizes.len()];
                operand.odd = Some((map.exprs.clone(), view.offset, view.strides.to_vec()));
                operand.check_odd(map, view, sizes)?;
                return Ok(operand);
            };
            for (d, c) in form.terms() {
                let step = &mut operand.steps[d];
                *step = step.wrapping_add(c.wrapping_mul(stride));
            }
            let range = form.range(sizes).ok_or("a map beyond 64 bits")?;
            if !range.is_inside(n) {
                let (low, high) = (range.low, range.high);
                return Err(format!(
                    "reaches {low} to {high} in dimension {dim} of an operand of {n}"
                )
                .into());
            }
            let start = form.constant.wrapping_mul(stride);
            operand.at = operand.at.wrapping_add(start);
        }
        Ok(operand)
    }

    /// Every point of a map that is not linear is inside.
    fn check_odd(&self, map: &AffineMap, view: &View, sizes: &[i64]) -> Result<(), Failure> {
        let mut point = vec![0; sizes.len()];
        loop {
            for (dim, (expr, n)) in map.exprs.iter().zip(&view.shape).enumerate() {
                let index = expr.eval(&point, &[]).ok_or("a map without a value")?;
                if index < 0 || index >= *n {
                    return Err(
                        format!("reaches {index} in dimension {dim} of an operand of {n}").into(),
                    );
                }
            }
            let next = (0..sizes.len()).rev().find(|&d| {
                point[d] += 1;
                let more = point[d] < sizes[d];
                if !more {
                    point[d] = 0;
                }
                more
            });
            if next.is_none() {
                return Ok(());
            }
        }
    }

    pub(crate) fn place(&self, point: &[i64]) -> i64 {
        match &self.odd {
            None => self.at,
            Some((exprs, offset, strides)) => {
                let index = |e: &AffineExpr| e.eval(point, &[]).unwrap_or(-1);
                exprs
                    .iter()
                    .zip(strides)
                    .fold(*offset, |at, (e, s)| at + index(e) * s)
            }
        }
    }
}
