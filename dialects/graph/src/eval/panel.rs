//! The inner loop of convolutions and matrix products.
//!
//! Both are `out[r][i] = Σ_t w[r][t] · x[offset_t + i]`: a few rows of weights against one run of
//! inputs that all shift together. A block of rows and columns stays in registers while `t` runs.

use tir::Failure;

use super::real::{Ring, buffer};

/// Columns that are computed at once; the input is readable that many elements past the end.
pub(super) const LANES: usize = 8;

/// The rows that are computed at once.
const ROWS: usize = 4;

/// Calls `put(row, values)` with the `len` values of each row, `weights.len() / offsets.len()` rows.
///
/// `input` holds `LANES` elements more than the largest offset and `len` reach to.
pub(super) fn rows<T: Ring>(
    weights: &[T],
    offsets: &[usize],
    input: &[T],
    len: usize,
    mut put: impl FnMut(usize, &[T]),
) -> Result<(), Failure> {
    let width = len.next_multiple_of(LANES);
    let mut out = buffer(ROWS * width, T::ZERO)?;
    if offsets.is_empty() || len == 0 {
        return Ok(());
    }
    let count = weights.len() / offsets.len();
    let row = |r: usize| weights.get(r * offsets.len()..(r + 1) * offsets.len());
    let mut r = 0;
    while r < count {
        let block: Vec<&[T]> = (r..count.min(r + ROWS)).filter_map(row).collect();
        match *block {
            [a, b, c, d] => panel(&pack([a, b, c, d]), offsets, input, width, &mut out),
            [a, b, c] => panel(&pack([a, b, c]), offsets, input, width, &mut out),
            [a, b] => panel(&pack([a, b]), offsets, input, width, &mut out),
            [a] => panel(&pack([a]), offsets, input, width, &mut out),
            _ => break,
        }
        for (k, values) in out.chunks_exact(width).take(block.len()).enumerate() {
            put(r + k, &values[..len]);
        }
        r += block.len();
    }
    Ok(())
}

/// The weights of a block, those of one position side by side.
fn pack<T: Ring, const R: usize>(rows: [&[T]; R]) -> Vec<[T; R]> {
    let len = rows.first().map_or(0, |row| row.len());
    let at = |t: usize| rows.map(|row| row.get(t).copied().unwrap_or(T::ZERO));
    (0..len).map(at).collect()
}

fn panel<T: Ring, const R: usize>(
    weights: &[[T; R]],
    offsets: &[usize],
    input: &[T],
    width: usize,
    out: &mut [T],
) {
    for at in (0..width).step_by(LANES) {
        let mut sums = [[T::ZERO; LANES]; R];
        let input = &input[at..];
        for (w, offset) in weights.iter().zip(offsets) {
            let x = &input[*offset..*offset + LANES];
            for (sum, w) in sums.iter_mut().zip(w) {
                for (s, x) in sum.iter_mut().zip(x) {
                    *s = *s + *w * *x;
                }
            }
        }
        for (row, sum) in out.chunks_exact_mut(width).zip(&sums) {
            row[at..at + LANES].copy_from_slice(sum);
        }
    }
}

/// `Σ a_i · b_i`, in `LANES` partial sums.
pub(super) fn dot<T: Ring>(a: &[T], b: &[T]) -> T {
    let mut sums = [T::ZERO; LANES];
    let (a_head, a_tail) = a.as_chunks::<LANES>();
    let (b_head, b_tail) = b.as_chunks::<LANES>();
    for (a, b) in a_head.iter().zip(b_head) {
        for (s, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *s = *s + *a * *b;
        }
    }
    let tail = a_tail.iter().zip(b_tail);
    let tail = tail.fold(T::ZERO, |s, (a, b)| s + *a * *b);
    sums.into_iter().fold(tail, |s, v| s + v)
}
