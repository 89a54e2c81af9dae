//! Reading through what only moves data: where in its source an element is.

use tir::{Ir, LinearExpr, LinearMap, OpId, Value};
use tir_tensor::{CollapseShape, ExpandShape, Generic, TransferRead, groups};

/// A value read at a position, over iterators with ranges.
#[derive(Clone, Debug)]
pub(super) struct View {
    /// The value.
    pub source: Value,
    /// The position.
    pub rows: LinearMap,
    /// What is read outside of it; zero bits if absent.
    pub padding: Option<Value>,
    /// Whether some positions are outside of it.
    pub leaves: bool,
    /// Whether beyond the ranges of the iterators lies what is not zero: other parts of the source.
    pub cut: bool,
}

impl View {
    /// A value read inside of it.
    pub(super) fn new(source: Value, rows: LinearMap) -> Self {
        Self {
            source,
            rows,
            padding: None,
            leaves: false,
            cut: false,
        }
    }

    /// The same elements of what the value is a view of, as far as positions stay linear. `ranges` are
    /// those of the iterators; `reshapes` says whether other shapes are read through, and `moves`
    /// which generics that only move data are.
    pub(super) fn through(
        mut self,
        ir: &Ir,
        ranges: &[i64],
        reshapes: bool,
        moves: &dyn Fn(OpId) -> bool,
    ) -> Self {
        while let Some(next) = self.step(ir, ranges, reshapes, moves) {
            self = next;
        }
        self
    }

    fn step(
        &self,
        ir: &Ir,
        ranges: &[i64],
        reshapes: bool,
        moves: &dyn Fn(OpId) -> bool,
    ) -> Option<Self> {
        // Padding is put around one source only.
        if self.leaves {
            return None;
        }
        let op = ir.owner(self.source)?;
        if let Some(read) = ir.get::<TransferRead>(op) {
            return self.transfer(ir, &read, ranges);
        }
        if let Some(expand) = ir.get::<ExpandShape>(op).filter(|_| reshapes) {
            let (large, small) = (ir.ty(self.source).shape()?, ir.ty(expand.src).shape()?);
            let groups = groups(&expand.reassociation, large.len()).ok()?;
            let joined = groups.iter().map(|group| {
                let strides = strides(group, large);
                LinearExpr::sum(group.iter().map(|d| &self.rows[*d]).zip(strides))
            });
            let rows: LinearMap = joined.collect::<Option<_>>()?;
            let cut = groups
                .iter()
                .any(|g| g.iter().filter(|d| large[**d] != 1).count() > 1);
            return (rows.len() == small.len()).then(|| self.on(expand.src, rows, cut));
        }
        if let Some(collapse) = ir.get::<CollapseShape>(op).filter(|_| reshapes) {
            let large = ir.ty(collapse.src).shape()?;
            let groups = groups(&collapse.reassociation, large.len()).ok()?;
            let mut rows = vec![LinearExpr::default(); large.len()];
            let mut cut = false;
            for (group, row) in groups.iter().zip(self.rows.iter()) {
                let parts = split(row, group, large, ranges)?;
                cut |= parts.iter().filter(|row| !row.is_number()).count() > 1;
                for (d, part) in group.iter().zip(parts) {
                    rows[*d] = part;
                }
            }
            return Some(self.on(collapse.src, LinearMap(rows), cut));
        }
        let generic = ir.get::<Generic>(op)?;
        if !moves(op) {
            return None;
        }
        let (source, position) = moved(ir, &generic)?;
        let rows = position.compose(&self.rows)?;
        Some(self.on(source, rows, false)).filter(View::is_forward)
    }

    fn on(&self, source: Value, rows: LinearMap, cut: bool) -> Self {
        Self {
            source,
            rows,
            padding: self.padding,
            leaves: self.leaves,
            cut: self.cut || cut,
        }
    }

    fn is_forward(&self) -> bool {
        self.rows.iter().all(|row| row.terms().all(|(_, c)| c > 0))
    }

    fn transfer(&self, ir: &Ir, read: &TransferRead, ranges: &[i64]) -> Option<Self> {
        if !read.offsets.is_empty() || read.space.is_some() {
            return None;
        }
        let access: LinearMap = (read.access.linear()?.iter())
            .zip(&read.static_offsets)
            .map(|(row, offset)| Some(row.with_constant(row.constant.checked_add(*offset)?)))
            .collect::<Option<_>>()?;
        let moved = access.compose(&self.rows)?;
        let shape = ir.ty(read.source).shape()?;
        let mut leaves = false;
        for (row, size) in moved.iter().zip(shape) {
            leaves |= !row.range(ranges)?.is_inside(*size);
        }
        // Around a part of the source are its other parts.
        let tile = ir.ty(self.source).shape()?;
        let mut part = false;
        for (row, size) in access.iter().zip(shape) {
            let shown = row.range(tile)?;
            part |= shown.low > 0 || shown.high < size - 1;
        }
        let mut view = self.on(read.source, moved, part);
        view.leaves = leaves;
        view.padding = read.padding.filter(|_| leaves);
        Some(view)
    }
}

/// What a generic only moves, and where each element of its result is in it.
fn moved(ir: &Ir, generic: &Generic) -> Option<(Value, LinearMap)> {
    let ([source], [from, to]) = (&generic.inputs[..], &generic.indexing_maps[..]) else {
        return None;
    };
    if !generic.moves(ir) {
        return None;
    }
    let to = to.as_projection()?;
    let mut iterators = vec![LinearExpr::default(); to.len()];
    for (place, d) in to.iter().enumerate() {
        *iterators.get_mut(*d)? = LinearExpr::dim(place);
    }
    let rows = from.linear()?.compose(&LinearMap(iterators))?;
    Some((*source, rows))
}

/// Distance of neighbours in each dimension of a group that lies as one row.
fn strides(group: &[usize], shape: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; group.len()];
    for i in (1..group.len()).rev() {
        strides[i - 1] = i64::saturating_mul(strides[i], shape[group[i]]);
    }
    strides
}

/// A position in a row as one in the dimensions that the row is made of: each term moves in one
/// dimension, and together those of a dimension stay inside of it.
fn split(
    row: &LinearExpr,
    group: &[usize],
    shape: &[i64],
    ranges: &[i64],
) -> Option<Vec<LinearExpr>> {
    let strides = strides(group, shape);
    // The strides of an empty box are no places.
    if strides.contains(&0) {
        return None;
    }
    let mut parts = vec![LinearExpr::default(); group.len()];
    let mut k = row.constant;
    if k < 0 {
        return None;
    }
    for (i, stride) in strides.iter().enumerate() {
        parts[i].constant = k / stride;
        k %= stride;
    }
    for (d, c) in row.terms() {
        let range = ranges.get(d).copied().unwrap_or(1);
        if c < 0 {
            return None;
        }
        let fits =
            |i: &usize| c % strides[*i] == 0 && c / strides[*i] * (range - 1) < shape[group[*i]];
        let i = (0..group.len()).find(fits)?;
        parts[i] = parts[i].plus(&LinearExpr::term(d, c / strides[i]), 1)?;
    }
    let inside = parts.iter().zip(group).all(|(part, d)| {
        let range = part.range(ranges);
        range.is_some_and(|range| range.is_inside(shape[*d]))
    });
    inside.then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::split;
    use tir::LinearExpr;

    fn row(c: &[i64], k: i64) -> LinearExpr {
        LinearExpr::new(c.to_vec(), k)
    }

    #[test]
    fn rows_fall_apart_where_terms_stay_inside() {
        // 12 elements as 3 x 4, read at 4·a + b
        let parts = split(&row(&[4, 1], 0), &[0, 1], &[3, 4], &[3, 4]);
        assert_eq!(parts, Some(vec![row(&[1], 0), row(&[0, 1], 0)]));
        // b runs over the end of a row
        assert_eq!(split(&row(&[4, 1], 0), &[0, 1], &[3, 4], &[2, 5]), None);
        // one iterator through both dimensions
        assert_eq!(split(&row(&[1], 0), &[0, 1], &[3, 4], &[12]), None);
        // unit dimensions say nothing
        let parts = split(&row(&[1], 0), &[0, 1, 2], &[64, 1, 1], &[64]);
        assert_eq!(parts, Some(vec![row(&[1], 0), row(&[], 0), row(&[], 0)]));
    }
}
