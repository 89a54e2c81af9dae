//! Where the elements of a tile lie in a large array: the rows of a transfer, cut where they leave
//! the array. Shared by all that runs transfers.

use tir::interp::{BufferId, Kind, View};
use tir::{AffineMap, Failure, LinearExpr};

/// A row of a transfer: the positions along the last dimension of the tile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// Byte of the tile's element 0 of the row.
    pub tile: i64,
    /// Bytes between neighbours in the tile.
    pub tile_step: i64,
    /// The number of elements.
    pub len: i64,
    /// First element that lies inside of the large array.
    pub low: i64,
    /// The element behind the last one inside; at least `low`.
    pub high: i64,
    /// Byte of the large array of element `low`; of no meaning if nothing is inside.
    pub large: i64,
    /// Bytes between neighbours in the large array.
    pub large_step: i64,
}

/// Calls `f` for each row of a tile: element `t` of the tile belongs to element
/// `offsets + access(t)` of the large array. The views say shapes, strides and first bytes.
///
/// Errors: ranks that do not fit, an access that is not linear.
pub fn rows(
    large: &View,
    tile: &View,
    offsets: &[i64],
    access: &AffineMap,
    mut f: impl FnMut(Row) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (rank, dims) = (large.shape.len(), tile.shape.len());
    if offsets.len() != rank || access.exprs.len() != rank || access.dims != dims {
        return Err(format!(
            "has access {access} with {} offsets between ranks {rank} and {dims}",
            offsets.len()
        )
        .into());
    }
    if tile.shape.contains(&0) {
        return Ok(());
    }
    let forms = access.linear();
    let forms = forms.ok_or_else(|| format!("has access {access}, which is not linear"))?;
    let index: Vec<i64> = offsets
        .iter()
        .zip(forms.iter())
        .map(|(o, form)| o.saturating_add(form.constant))
        .collect();
    let walk = Walk {
        large,
        tile,
        forms: &forms,
    };
    walk.dim(0, tile.offset, index, &mut f)
}

struct Walk<'a> {
    large: &'a View,
    tile: &'a View,
    forms: &'a [LinearExpr],
}

impl Walk<'_> {
    fn dim(
        &self,
        d: usize,
        at: i64,
        index: Vec<i64>,
        f: &mut impl FnMut(Row) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Some(&size) = self.tile.shape.get(d) else {
            // A tile of rank 0 has one element.
            return f(self.row(at, 0, 1, &index, |_| 0));
        };
        if d + 1 == self.tile.shape.len() {
            return f(self.row(at, self.tile.strides[d], size, &index, |i| {
                self.forms[i].at(d)
            }));
        }
        let mut index = index;
        for i in 0..size {
            self.dim(d + 1, at + i * self.tile.strides[d], index.clone(), f)?;
            for (place, form) in index.iter_mut().zip(self.forms) {
                *place = place.saturating_add(form.at(d));
            }
        }
        Ok(())
    }

    fn row(
        &self,
        tile: i64,
        tile_step: i64,
        len: i64,
        index: &[i64],
        step: impl Fn(usize) -> i64,
    ) -> Row {
        let (mut low, mut high) = (0i128, i128::from(len));
        let mut large_step = 0i64;
        for (i, at) in index.iter().enumerate() {
            let (at, c, size) = (
                i128::from(*at),
                i128::from(step(i)),
                i128::from(self.large.shape[i]),
            );
            large_step = large_step.wrapping_add(step(i).wrapping_mul(self.large.strides[i]));
            // 0 <= at + c * j < size
            match c {
                0 if (0..size).contains(&at) => {}
                0 => high = 0,
                c if c > 0 => {
                    low = low.max(ceil(-at, c));
                    high = high.min(ceil(size - at, c));
                }
                c => {
                    low = low.max(ceil(at - size + 1, -c));
                    high = high.min(ceil(at + 1, -c));
                }
            }
        }
        let high = high.max(low).min(i128::from(len));
        let low = low.min(high);
        let mut large = self.large.offset;
        if low < high {
            for (i, at) in index.iter().enumerate() {
                large += (at + step(i) * low as i64) * self.large.strides[i];
            }
        }
        Row {
            tile,
            tile_step,
            len,
            low: low as i64,
            high: high as i64,
            large,
            large_step,
        }
    }
}

/// The least integer that is at least `a / b`; `b` is positive.
fn ceil(a: i128, b: i128) -> i128 {
    -(-a).div_euclid(b)
}

/// The elements of a tile, dense and row-major, read from a large array; `padding` (the bytes of
/// an element) where it lies outside.
pub fn read(
    bytes: &[u8],
    large: &View,
    shape: &[i64],
    offsets: &[i64],
    access: &AffineMap,
    padding: &[u8],
) -> Result<Vec<u8>, Failure> {
    let size = large.kind.bytes();
    let tile = dense(large.kind, shape);
    let mut out = vec![0; tile.elements() * size];
    let pads = padding.iter().any(|b| *b != 0);
    rows(large, &tile, offsets, access, |row| {
        let start = row.tile as usize;
        let Some(target) = out.get_mut(start..start + row.len as usize * size) else {
            return Err("internal error: a row outside of the tile".into());
        };
        if pads {
            for place in target[..row.low as usize * size].chunks_exact_mut(size) {
                place.copy_from_slice(padding);
            }
            for place in target[row.high as usize * size..].chunks_exact_mut(size) {
                place.copy_from_slice(padding);
            }
        }
        let target = &mut target[row.low as usize * size..row.high as usize * size];
        copy(
            bytes,
            (row.large, row.large_step),
            target,
            (0, size as i64),
            row.high - row.low,
            size,
        )
    })?;
    Ok(out)
}

/// Writes the elements of a tile, dense and row-major, to a large array; those outside are
/// dropped.
pub fn write(
    bytes: &mut [u8],
    large: &View,
    tile: &[u8],
    shape: &[i64],
    offsets: &[i64],
    access: &AffineMap,
) -> Result<(), Failure> {
    let size = large.kind.bytes();
    rows(large, &dense(large.kind, shape), offsets, access, |row| {
        let from = (row.tile + row.low * size as i64, size as i64);
        copy(
            tile,
            from,
            bytes,
            (row.large, row.large_step),
            row.high - row.low,
            size,
        )
    })
}

fn dense(kind: Kind, shape: &[i64]) -> View {
    View::dense(BufferId::NONE, kind, shape)
}

/// Copies elements between strided places.
fn copy(
    from: &[u8],
    (mut a, a_step): (i64, i64),
    to: &mut [u8],
    (mut b, b_step): (i64, i64),
    count: i64,
    size: usize,
) -> Result<(), Failure> {
    let outside = || Failure::from("internal error: a transfer leaves its buffer");
    let range = |at: i64, len: usize| {
        let at = usize::try_from(at).ok()?;
        Some(at..at.checked_add(len)?)
    };
    if count <= 0 {
        return Ok(());
    }
    if a_step == size as i64 && b_step == size as i64 {
        let len = count as usize * size;
        let source = range(a, len)
            .and_then(|r| from.get(r))
            .ok_or_else(outside)?;
        range(b, len)
            .and_then(|r| to.get_mut(r))
            .ok_or_else(outside)?
            .copy_from_slice(source);
        return Ok(());
    }
    for _ in 0..count {
        let source = range(a, size)
            .and_then(|r| from.get(r))
            .ok_or_else(outside)?;
        range(b, size)
            .and_then(|r| to.get_mut(r))
            .ok_or_else(outside)?
            .copy_from_slice(source);
        a += a_step;
        b += b_step;
    }
    Ok(())
}
