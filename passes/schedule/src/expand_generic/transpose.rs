//! Squares of elements whose rows become columns, in registers.
//!
//! A square is in as many vectors as it has rows. In each 16 bytes of a vector, which all processors shuffle quickest, elements
//! of two vectors are taken in turn, until elements of a column lie beside each other; then whole 16 bytes are taken apart,
//! even ones and odd ones, until each is in its vector: `log2(n)` times `n` shuffles, each of two vectors and one instruction.
//! (Eklundh, "A fast computer method for matrix transposing", 1972, with the exchanges in the order that such
//! instructions have.)

use tir::{Builder, Failure, Ret, Value};
use tir_vector::Shuffle;

use super::Registers;

/// Bytes in which elements are shuffled quickest.
const LANE: i64 = 16;

/// The largest distance of elements that are loaded as one vector: so many are loaded for it.
pub(super) const FARTHEST: i64 = 4;

/// Rows of the smallest square that is transposed: below, elements are as quick.
pub(super) const SMALLEST: i64 = tir::data::SMALLEST_SQUARE as i64;

/// Rows of the largest square of elements of so many bytes with at most so many rows: a vector holds a row, and half of the
/// registers hold the square. 1 if there is none.
pub(super) fn side(registers: Registers, bytes: i64, most: i64) -> i64 {
    let width = registers.bytes / bytes.max(1);
    let rows = width.min(registers.count / 2).min(most).max(1);
    1 << rows.ilog2()
}

/// The columns of a square, which is given by its rows: vectors of as many elements, a power of two.
pub(super) fn transposed(b: &mut Builder<'_>, rows: Vec<Value>) -> Vec<Value> {
    let n = rows.len();
    let bytes = rows.first().and_then(|row| b.ty(*row).elem().bytes());
    // Elements of a lane, and lanes.
    let each = (LANE as usize / bytes.unwrap_or(1).max(1)).clamp(1, n);
    let lanes = n / each;
    let at = |lane: usize, k: usize| lane * each + k;
    let all = |element: &dyn Fn(usize, usize) -> usize| -> Vec<i64> {
        let places = (0..lanes).flat_map(|lane| (0..each).map(move |k| (lane, k)));
        places.map(|(lane, k)| element(lane, k) as i64).collect()
    };
    // The first halves of the lanes of two vectors in turn, and the second ones.
    let turn = [0, each / 2].map(|from| all(&|lane, k| n * (k % 2) + at(lane, from + k / 2)));
    // The even lanes of the first vector and of the second, and the odd ones.
    let apart = [0, 1].map(|odd| {
        all(&|lane, k| {
            let (second, from) = (lane >= lanes / 2, lane % (lanes / 2).max(1));
            n * usize::from(second) + at(2 * from + odd, k)
        })
    });
    let mut columns: Vec<Vec<Value>> = vec![Vec::new(); each];
    for group in rows.chunks(each) {
        let mut group = group.to_vec();
        for _ in 0..each.ilog2() {
            let half = group.len() / 2;
            let pairs = (0..half).flat_map(|k| turn.iter().map(move |mask| (k, k + half, mask)));
            group = pairs
                .map(|(x, y, mask)| shuffle(b, group[x], group[y], mask))
                .collect();
        }
        for (column, value) in columns.iter_mut().zip(group) {
            column.push(value);
        }
    }
    for column in &mut columns {
        for _ in 0..lanes.ilog2() {
            let mut next = Vec::new();
            for mask in &apart {
                for pair in column.chunks(2) {
                    next.push(shuffle(b, pair[0], pair[1], mask));
                }
            }
            *column = next;
        }
    }
    (0..n).map(|k| columns[k % each][k / each]).collect()
}

/// A vector of elements that lie `step` apart: `load` gives as many neighbours, from so many elements behind the first one on. No
/// element behind the last one is loaded.
pub(super) fn apart(
    b: &mut Builder<'_>,
    length: i64,
    step: i64,
    load: &mut dyn FnMut(&mut Builder<'_>, i64) -> Result<Value, Failure>,
) -> Result<Value, Failure> {
    // Vectors one behind the other, the last of which ends with the last element.
    let end = step * (length - 1) + 1;
    let begin = |k: i64| (k * length).min(end - length);
    let mut value = load(b, 0)?;
    for k in 1..step {
        if begin(k) == begin(k - 1) {
            break;
        }
        let next = load(b, begin(k))?;
        // Elements that are taken later may be anything.
        let place = |e: i64| match step * e {
            place if place >= begin(k) + length => e,
            place if place >= k * length => length + place - begin(k),
            place if k == 1 => place,
            _ => e,
        };
        let mask: Vec<i64> = (0..length).map(place).collect();
        value = shuffle(b, value, next, &mask);
    }
    Ok(value)
}

/// Elements of two vectors by their numbers.
pub(super) fn shuffle(b: &mut Builder<'_>, lhs: Value, rhs: Value, mask: &[i64]) -> Value {
    let result = Ret(tir_vector::of(mask.len() as i64, b.ty(lhs).elem()));
    b.add(Shuffle {
        lhs,
        rhs,
        mask: mask.to_vec(),
        result,
    })
}
