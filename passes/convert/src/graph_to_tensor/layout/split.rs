//! A loop nest over tensors that are stored in layouts: which iterators are split, and the maps
//! that are left.

use tir::{AffineExpr, AffineMap, Failure, Type};
use tir_graph::layout::Layout;

/// What a nest reads or writes: how it is stored, and the logical position at each point.
pub(super) struct Operand {
    layout: Option<&'static Layout>,
    exprs: Vec<AffineExpr>,
}

impl Operand {
    pub(super) fn new(ty: Type, exprs: &[AffineExpr]) -> Self {
        Self {
            layout: Layout::of(ty),
            exprs: exprs.to_vec(),
        }
    }
}

/// An iterator of the new nest: an old one, or its blocks, or the position in a block.
#[derive(Clone, Copy, PartialEq, Eq)]
struct SplitIterator {
    old: usize,
    inner: bool,
}

/// A nest with iterators split by the blocks that its operands are stored in.
pub(super) struct Nest {
    domain: Vec<i64>,
    reductions: Vec<bool>,
    operands: Vec<Operand>,
    /// Points of each old iterator in a block; 1 for one that is not split.
    blocks: Vec<i64>,
    parts: Vec<SplitIterator>,
}

impl Nest {
    /// Fails where a block is no run of one iterator.
    pub(super) fn new(
        domain: Vec<i64>,
        reductions: Vec<bool>,
        operands: Vec<Operand>,
    ) -> Result<Self, Failure> {
        let mut blocks = vec![1; domain.len()];
        for operand in &operands {
            for (expr, block) in operand.blocked() {
                let Some(d) = runs_along(expr, block, &domain)? else {
                    continue;
                };
                if blocks[d] != 1 && blocks[d] != block {
                    return Err(format!(
                        "needs iterator d{d} in blocks of {} and of {block}",
                        blocks[d]
                    )
                    .into());
                }
                blocks[d] = block;
            }
        }
        // Positions in blocks come last among their kind, as they do in storage.
        let mut parts = Vec::new();
        for reduces in [false, true] {
            let old = (0..domain.len()).filter(|d| reductions[*d] == reduces);
            let old: Vec<usize> = old.collect();
            let inner = old.iter().filter(|d| blocks[**d] > 1);
            let part = |inner| move |old: &usize| SplitIterator { old: *old, inner };
            parts.extend(old.iter().map(part(false)));
            parts.extend(inner.map(part(true)));
        }
        // Without a split the nest stays as it is.
        if blocks.iter().all(|b| *b == 1) {
            parts.sort_by_key(|part| part.old);
        }
        Ok(Self {
            domain,
            reductions,
            operands,
            blocks,
            parts,
        })
    }

    /// Counts through the points of a result in the order in which they are stored, where its dimensions are all the
    /// parallel iterators: nests in one layout are then as alike as plain ones.
    pub(super) fn follow(&mut self, order: &[usize]) {
        let parts = self.parts.iter();
        let (reduced, parallel): (Vec<SplitIterator>, Vec<SplitIterator>) =
            parts.copied().partition(|part| self.reductions[part.old]);
        let ordered = order.iter().filter_map(|d| self.parts.get(*d).copied());
        let ordered: Vec<SplitIterator> = ordered.collect();
        if ordered.len() == parallel.len() && parallel.iter().all(|part| ordered.contains(part)) {
            self.parts = ordered.into_iter().chain(reduced).collect();
        }
    }

    /// Ranges of the iterators.
    pub(super) fn domain(&self) -> Vec<i64> {
        let range = |part: &SplitIterator| match part.inner {
            true => self.blocks[part.old],
            false => self.domain[part.old] / self.blocks[part.old],
        };
        self.parts.iter().map(range).collect()
    }

    /// Which iterators are reductions.
    pub(super) fn reductions(&self) -> Vec<bool> {
        self.parts.iter().map(|p| self.reductions[p.old]).collect()
    }

    fn dim(&self, old: usize, inner: bool) -> AffineExpr {
        let part = SplitIterator { old, inner };
        let at = self.parts.iter().position(|p| *p == part);
        at.map_or(AffineExpr::Const(0), AffineExpr::Dim)
    }

    /// Positions in storage for each operand.
    pub(super) fn maps(&self) -> Result<Vec<AffineMap>, Failure> {
        self.operands
            .iter()
            .map(|operand| self.map(operand))
            .collect()
    }

    fn map(&self, operand: &Operand) -> Result<AffineMap, Failure> {
        // Old iterators by new ones.
        let old: Vec<AffineExpr> = (0..self.domain.len())
            .map(|d| match self.blocks[d] {
                1 => self.dim(d, false),
                block => self.dim(d, false) * AffineExpr::Const(block) + self.dim(d, true),
            })
            .collect();
        let whole = |expr: &AffineExpr| expr.replace(&old);
        let Some(layout) = operand.layout else {
            let exprs = operand.exprs.iter().map(whole).collect();
            return Ok(AffineMap::new(self.parts.len(), exprs));
        };
        let mut exprs = Vec::new();
        for axis in layout.axes() {
            let (expr, block) = (&operand.exprs[axis.dim], layout.blocks()[axis.dim]);
            if block == 1 {
                exprs.push(whole(expr));
                continue;
            }
            let along = runs_along(expr, block, &self.domain)?;
            exprs.push(match (axis.inner, along) {
                (true, Some(d)) => self.dim(d, true),
                (true, None) => AffineExpr::Const(0),
                (false, _) => {
                    let form = expr.linear(self.domain.len()).unwrap_or_default();
                    let terms = form.terms().fold(AffineExpr::Const(0), |sum, (d, c)| {
                        sum + if Some(d) == along {
                            self.dim(d, false)
                        } else {
                            old[d].clone() * AffineExpr::Const(c / block)
                        }
                    });
                    terms + AffineExpr::Const(form.constant / block)
                }
            });
        }
        Ok(AffineMap::new(self.parts.len(), exprs))
    }
}

impl Operand {
    /// Positions in blocked dimensions, and the blocks.
    fn blocked(&self) -> impl Iterator<Item = (&AffineExpr, i64)> {
        let blocks = self.layout.map_or(&[][..], |layout| layout.blocks());
        let all = self.exprs.iter().zip(blocks.iter().copied());
        all.filter(|(_, block)| *block > 1)
    }
}

/// The iterator that runs through the positions of a block while everything else steps by whole
/// blocks; `None` if a block is always met at its first position.
fn runs_along(expr: &AffineExpr, block: i64, domain: &[i64]) -> Result<Option<usize>, Failure> {
    let wrong = || {
        let range = "expected one iterator that runs through whole blocks";
        Failure::from(format!("reads at {expr} in blocks of {block}, {range}"))
    };
    let form = expr.linear(domain.len()).ok_or_else(wrong)?;
    if form.constant % block != 0 {
        return Err(wrong());
    }
    let mut uneven = form.terms().filter(|(_, c)| c % block != 0);
    match (uneven.next(), uneven.next()) {
        (None, _) => Ok(None),
        (Some((d, 1)), None) if domain.get(d).is_some_and(|n| n % block == 0) => Ok(Some(d)),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tir::AffineExpr::{Const, Dim};

    fn stored(name: &str, shape: &[i64]) -> Type {
        Layout::on(
            Some(&Layout::new(name).unwrap()),
            Type::tensor(shape, Type::f32()),
        )
    }

    #[test]
    fn windows_over_blocks_of_channels() {
        // (n, o, h, i, k): x[n, i, h + k] in blocks of 4, y[n, o, h] in the same, a plain vector.
        let x = Operand::new(
            stored("NCW4c", &[1, 8, 6]),
            &[Dim(0), Dim(3), Dim(2) + Dim(4)],
        );
        let y = Operand::new(stored("NCW4c", &[1, 12, 5]), &[Dim(0), Dim(1), Dim(2)]);
        let b = Operand::new(Type::tensor([12], Type::f32()), &[Dim(1)]);
        let reductions = vec![false, false, false, true, true];
        let nest = Nest::new(vec![1, 12, 5, 8, 2], reductions, vec![x, b, y]).unwrap();
        // (n, oo, h, oi, io, k, ii)
        assert_eq!(nest.domain(), [1, 3, 5, 4, 2, 2, 4]);
        let texts: Vec<String> = nest
            .maps()
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect();
        let dims = "(d0, d1, d2, d3, d4, d5, d6) -> ";
        assert_eq!(
            texts,
            [
                format!("{dims}(d0, d4, d2 + d5, d6)"),
                format!("{dims}(d1 * 4 + d3)"),
                format!("{dims}(d0, d1, d2, d3)")
            ]
        );
    }

    #[test]
    fn blocks_must_be_run_through() {
        let ty = stored("NC4c", &[1, 8]);
        let nest = |expr: AffineExpr, n: i64| {
            Nest::new(
                vec![n],
                vec![false],
                vec![Operand::new(ty, &[Const(0), expr])],
            )
        };
        assert!(nest(Dim(0), 8).is_ok() && nest(Dim(0) + Const(4), 4).is_ok());
        assert!(nest(Dim(0) + Const(2), 4).is_err());
        assert!(nest(Dim(0) * Const(2), 4).is_err());
        assert!(nest(Dim(0), 6).is_err());
        assert!(nest(Dim(0) * Const(4), 2).unwrap().domain() == [2]);
    }
}
