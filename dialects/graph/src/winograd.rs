//! Winograd's minimal filtering: a tile of m x m results of a 3x3 convolution by (m + 2)² products in place
//! of 9 m².
//!
//! For the kernel g and a tile d of the input, of (m + 2) x (m + 2) elements, the tile of the result is
//! Aᵀ ((G g Gᵀ) ∘ (Bᵀ d B)) A, where ∘ multiplies elements at the same point. Over channels the products add
//! up, so each point is a product of matrices: tiles x channels by channels x filters (S. Winograd, "Arithmetic
//! Complexity of Computations", 1980; A. Lavin and S. Gray, "Fast Algorithms for Convolutional Neural
//! Networks", CVPR 2016, where the matrices stand).

use tir::Failure;

/// Elements of a side of the kernel.
pub const KERNEL: usize = 3;

/// The rows of a matrix.
pub type Matrix = &'static [&'static [f64]];

/// F(m x m, 3 x 3): its three matrices.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Winograd {
    /// m, the side of a tile of the result.
    pub tile: usize,
    /// Bᵀ: from a tile of the input to points.
    pub input: Matrix,
    /// G: from a kernel to points.
    pub filter: Matrix,
    /// Aᵀ: from points to a tile of the result.
    pub output: Matrix,
}

/// The tiles that there are: points 0, 1, -1, ∞, and 0, 1, -1, 2, -2, ∞.
const FORMS: [Winograd; 2] = [
    Winograd {
        tile: 2,
        input: &[
            &[1.0, 0.0, -1.0, 0.0],
            &[0.0, 1.0, 1.0, 0.0],
            &[0.0, -1.0, 1.0, 0.0],
            &[0.0, 1.0, 0.0, -1.0],
        ],
        filter: &[
            &[1.0, 0.0, 0.0],
            &[0.5, 0.5, 0.5],
            &[0.5, -0.5, 0.5],
            &[0.0, 0.0, 1.0],
        ],
        output: &[&[1.0, 1.0, 1.0, 0.0], &[0.0, 1.0, -1.0, -1.0]],
    },
    Winograd {
        tile: 4,
        input: &[
            &[4.0, 0.0, -5.0, 0.0, 1.0, 0.0],
            &[0.0, -4.0, -4.0, 1.0, 1.0, 0.0],
            &[0.0, 4.0, -4.0, -1.0, 1.0, 0.0],
            &[0.0, -2.0, -1.0, 2.0, 1.0, 0.0],
            &[0.0, 2.0, -1.0, -2.0, 1.0, 0.0],
            &[0.0, 4.0, 0.0, -5.0, 0.0, 1.0],
        ],
        filter: &[
            &[1.0 / 4.0, 0.0, 0.0],
            &[-1.0 / 6.0, -1.0 / 6.0, -1.0 / 6.0],
            &[-1.0 / 6.0, 1.0 / 6.0, -1.0 / 6.0],
            &[1.0 / 24.0, 1.0 / 12.0, 1.0 / 6.0],
            &[1.0 / 24.0, -1.0 / 12.0, 1.0 / 6.0],
            &[0.0, 0.0, 1.0],
        ],
        output: &[
            &[1.0, 1.0, 1.0, 1.0, 1.0, 0.0],
            &[0.0, 1.0, -1.0, 2.0, -2.0, 0.0],
            &[0.0, 1.0, 1.0, 4.0, 4.0, 0.0],
            &[0.0, 1.0, -1.0, 8.0, -8.0, 1.0],
        ],
    },
];

impl Winograd {
    /// The form with tiles of m x m: 2 or 4.
    pub fn new(tile: i64) -> Result<Self, Failure> {
        let form = FORMS.into_iter().find(|form| form.tile as i64 == tile);
        form.ok_or_else(|| format!("has tiles of {tile} x {tile}, expected 2 or 4").into())
    }

    /// Elements of a side of a tile of the input, m + 2.
    pub fn side(&self) -> usize {
        self.tile + KERNEL - 1
    }

    /// The number of points, (m + 2)².
    pub fn points(&self) -> usize {
        self.side() * self.side()
    }

    /// The tiles of a dimension with so many results.
    pub fn tiles(&self, results: i64) -> i64 {
        let tile = self.tile as i64;
        (results + tile - 1).max(0) / tile
    }
}

/// What transforms compute with: numbers, or what stands for them.
pub trait Arithmetic {
    /// A number.
    type Number: Copy;
    /// `a + b`.
    fn add(&mut self, a: Self::Number, b: Self::Number) -> Self::Number;
    /// `a - b`.
    fn sub(&mut self, a: Self::Number, b: Self::Number) -> Self::Number;
    /// `a · by`, which is not 0 or 1.
    fn scale(&mut self, a: Self::Number, by: f64) -> Self::Number;
}

/// M x Mᵀ for a matrix M and a tile x, row by row, of as many columns as M has; what is absent is zero. First the columns
/// are transformed, then the rows. It is this order of operations at every level.
pub fn transform<A: Arithmetic>(
    matrix: Matrix,
    tile: &[Option<A::Number>],
    with: &mut A,
) -> Vec<Option<A::Number>> {
    let side = matrix.first().map_or(0, |row| row.len());
    let at = |i: usize, j: usize| tile.get(i * side + j).copied().flatten();
    let columns: Vec<Vec<Option<A::Number>>> = (0..side)
        .map(|j| {
            let column: Vec<_> = (0..side).map(|i| at(i, j)).collect();
            line(matrix, &column, with)
        })
        .collect();
    let rows = (0..matrix.len()).flat_map(|a| {
        let row: Vec<_> = columns.iter().map(|column| column[a]).collect();
        line(matrix, &row, with)
    });
    rows.collect()
}

/// M x for a vector x. Rows that only differ in signs share their sums, and so do neighbouring columns.
fn line<A: Arithmetic>(
    matrix: Matrix,
    x: &[Option<A::Number>],
    with: &mut A,
) -> Vec<Option<A::Number>> {
    let width = x.len();
    let alike = |j: usize| {
        let pairs = matrix.iter().map(|row| (row[j], row[j + 1]));
        paired(pairs)
    };
    let mut out = Vec::new();
    // Columns as they are, or the sum and the difference of two.
    let mut columns: Vec<Column<A::Number>> = Vec::new();
    let mut j = 0;
    while j < width {
        if j + 1 < width && alike(j) {
            let sum = plus(x[j], x[j + 1], with);
            let difference = minus(x[j], x[j + 1], with);
            columns.push(Column::Pair(j, [sum, difference]));
            j += 2;
        } else {
            columns.push(Column::One(j, x[j]));
            j += 1;
        }
    }
    let mut r = 0;
    while r < matrix.len() {
        let row = matrix[r];
        if let Some(next) = matrix.get(r + 1)
            && paired(row.iter().copied().zip(next.iter().copied()))
        {
            let (mut even, mut odd) = (Vec::new(), Vec::new());
            for (j, (a, b)) in row.iter().zip(*next).enumerate() {
                let terms = if a == b { &mut even } else { &mut odd };
                terms.extend(x[j].map(|x| (*a, x)));
            }
            let (even, odd) = (sum(even, with), sum(odd, with));
            out.push(plus(even, odd, with));
            out.push(minus(even, odd, with));
            r += 2;
            continue;
        }
        let terms = columns.iter().filter_map(|column| column.term(row));
        out.push(sum(terms.collect(), with));
        r += 1;
    }
    out
}

/// Whether two rows or columns only differ in signs, and in some of them.
fn paired(mut pairs: impl Iterator<Item = (f64, f64)>) -> bool {
    let (mut equal, mut opposite) = (false, false);
    let same = pairs.all(|(a, b)| {
        equal |= a != 0.0 && a == b;
        opposite |= a != 0.0 && a == -b;
        a.abs() == b.abs()
    });
    same && equal && opposite
}

/// What a column of a matrix multiplies.
enum Column<N> {
    One(usize, Option<N>),
    /// The sum and the difference of two neighbours.
    Pair(usize, [Option<N>; 2]),
}

impl<N: Copy> Column<N> {
    fn term(&self, row: &[f64]) -> Option<(f64, N)> {
        let (factor, value) = match self {
            Self::One(j, value) => (row[*j], value),
            Self::Pair(j, [sum, difference]) => {
                let equal = row[*j] == row[*j + 1];
                (row[*j], if equal { sum } else { difference })
            }
        };
        Some((factor, (*value)?))
    }
}

fn plus<A: Arithmetic>(
    a: Option<A::Number>,
    b: Option<A::Number>,
    with: &mut A,
) -> Option<A::Number> {
    match (a, b) {
        (Some(a), Some(b)) => Some(with.add(a, b)),
        (one, None) | (None, one) => one,
    }
}

fn minus<A: Arithmetic>(
    a: Option<A::Number>,
    b: Option<A::Number>,
    with: &mut A,
) -> Option<A::Number> {
    match (a, b) {
        (Some(a), Some(b)) => Some(with.sub(a, b)),
        (None, Some(b)) => Some(with.scale(b, -1.0)),
        (one, None) => one,
    }
}

/// The sum of numbers with factors: those with the same factor, up to the sign, are added before they are
/// multiplied, and what starts with a plus comes first.
fn sum<A: Arithmetic>(mut terms: Vec<(f64, A::Number)>, with: &mut A) -> Option<A::Number> {
    terms.retain(|(factor, _)| *factor != 0.0);
    // Where factors are equal the order stays.
    terms.sort_by(|(a, _), (b, _)| a.abs().total_cmp(&b.abs()).then(b.total_cmp(a)));
    let mut groups: Vec<(f64, A::Number)> = Vec::new();
    for (factor, value) in terms {
        match groups.last_mut() {
            Some((known, sum)) if known.abs() == factor.abs() => {
                *sum = match *known == factor {
                    true => with.add(*sum, value),
                    false => with.sub(*sum, value),
                };
            }
            _ => groups.push((factor, value)),
        }
    }
    let first = groups.iter().position(|(factor, _)| *factor > 0.0);
    let (factor, value) = (!groups.is_empty()).then(|| groups.remove(first.unwrap_or(0)))?;
    let mut all = match factor {
        1.0 => value,
        factor => with.scale(value, factor),
    };
    for (factor, value) in groups {
        let value = match factor.abs() {
            1.0 => value,
            size => with.scale(value, size),
        };
        all = match factor > 0.0 {
            true => with.add(all, value),
            false => with.sub(all, value),
        };
    }
    Some(all)
}

/// Counts operations.
#[derive(Default)]
struct Count(u64);
impl Arithmetic for Count {
    type Number = ();
    fn add(&mut self, (): (), (): ()) {
        self.0 += 1;
    }
    fn sub(&mut self, (): (), (): ()) {
        self.0 += 1;
    }
    fn scale(&mut self, (): (), _: f64) {
        self.0 += 1;
    }
}

/// The scalar operations of the transform of a tile.
pub fn operations(matrix: Matrix) -> u64 {
    let side = matrix.first().map_or(0, |row| row.len());
    let mut count = Count::default();
    transform(matrix, &vec![Some(()); side * side], &mut count);
    count.0
}

/// Half the distance of neighbouring numbers of `f32` around 1.
const ROUNDING: f64 = 1.0 / (1u64 << 24) as f64;

/// Running error analysis of the worst case: a number is at most `.0`, and at most `.1` roundings from what it stands for.
/// Products of errors are left out; [`Bound`] says how they are taken into account.
struct Worst;
impl Arithmetic for Worst {
    type Number = (f64, f64);
    fn add(&mut self, (a, e): (f64, f64), (b, f): (f64, f64)) -> (f64, f64) {
        (a + b, e + f + a + b)
    }
    fn sub(&mut self, a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
        self.add(a, b)
    }
    fn scale(&mut self, (a, e): (f64, f64), by: f64) -> (f64, f64) {
        let by = by.abs();
        let rounding = if is_exact(by) { 0.0 } else { by * a };
        (by * a, by * e + rounding)
    }
}

/// The same for random numbers: the mean of the squares of a number, and of its error in roundings.
struct Random;
impl Arithmetic for Random {
    type Number = (f64, f64);
    fn add(&mut self, (a, e): (f64, f64), (b, f): (f64, f64)) -> (f64, f64) {
        (a + b, e + f + SPREAD * (a + b))
    }
    fn sub(&mut self, a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
        self.add(a, b)
    }
    fn scale(&mut self, (a, e): (f64, f64), by: f64) -> (f64, f64) {
        let square = by * by;
        let rounding = if is_exact(by.abs()) {
            0.0
        } else {
            SPREAD * square * a
        };
        (square * a, square * e + rounding)
    }
}

/// Whether a product with a factor changes no digit: a power of two.
fn is_exact(by: f64) -> bool {
    by.log2().fract() == 0.0
}

/// The mean square of the error of a rounding, in [roundings](ROUNDING) of the number, if all digits behind the last one
/// are as likely, and all logarithms of numbers are: a third of the mean of 1/m² for m from 1 to 2, which is 3/8 by the
/// logarithm of 2.
const SPREAD: f64 = 0.125 / std::f64::consts::LN_2;

/// How far the results of a convolution in `f32` are from those of the same one computed by Winograd's filtering.
///
/// Sources: N. Higham, "Accuracy and Stability of Numerical Algorithms", chapters 3 and 4; B. Barabasz, A. Anderson,
/// K. Soodhalter, D. Gregg, "Error Analysis and Improving the Accuracy of Winograd Convolution for Deep Neural Networks",
/// 2018, whose norms of the three matrices are here the sizes of what each operation of a transform rounds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bound {
    /// At most this, where no element of the input is larger than 1; where they are at most x, x times as much. It holds
    /// for sums in any order, with fused multiply-adds or without. Errors of so many roundings hardly ever add up all
    /// with one sign, so it is far above what is found.
    pub worst: f64,
    /// The root of the mean square that is expected of independent random elements whose mean square is 1, for sums
    /// that are taken one by one.
    pub expected: f64,
}

impl Bound {
    /// The bounds for filters, 9 weights for each of so many channels behind each other, filter by filter.
    ///
    /// Filters are transformed in `f64` and rounded once. Both convolutions have their errors: that of the sum of products
    /// as it is defined is counted too.
    pub fn of(form: &Winograd, channels: usize, weights: impl IntoIterator<Item = f64>) -> Self {
        let worst_tile = transform(
            form.input,
            &vec![Some((1.0, 0.0)); form.points()],
            &mut Worst,
        );
        let random_tile = transform(
            form.input,
            &vec![Some((1.0, 0.0)); form.points()],
            &mut Random,
        );
        let mut weights = weights.into_iter();
        let kernel = KERNEL * KERNEL;
        let terms = channels as f64;
        let (mut worst, mut squares, mut filters) = (0.0f64, 0.0, 0.0);
        loop {
            let filter: Vec<f64> = weights.by_ref().take(channels * kernel).collect();
            if filter.is_empty() {
                break;
            }
            // As it is defined: each product goes through a rounding of its own and those of the sums.
            let products = kernel as f64 * terms;
            let size: f64 = filter.iter().map(|w| w.abs()).sum();
            let square: f64 = filter.iter().map(|w| w * w).sum();
            let direct = first_order(products * size, products);
            squares += SPREAD * square * (1.0 + (products + 1.0) / 2.0);
            // Of each point the sum of the sizes of weights, and of their squares.
            let mut points = vec![(0.0, 0.0); form.points()];
            for w in filter.chunks(kernel * LANES) {
                let lane = |i: usize, k: usize| w.get(i * kernel + k).copied().unwrap_or(0.0);
                let w: Vec<_> = (0..kernel)
                    .map(|k| Some(std::array::from_fn(|i| lane(i, k))))
                    .collect();
                let u = transform(form.filter, &w, &mut Doubles);
                for ((size, square), u) in points.iter_mut().zip(u.into_iter().flatten()) {
                    *size += u.iter().map(|u| u.abs()).sum::<f64>();
                    *square += u.iter().map(|u| u * u).sum::<f64>();
                }
            }
            // Roundings of both factors, of products, and of sums.
            let sums = points.iter().zip(&worst_tile).map(|((size, _), number)| {
                let (a, e) = number.unwrap_or((0.0, 0.0));
                Some((a * size, (e + a * (1.0 + terms)) * size))
            });
            let sums: Vec<_> = sums.collect();
            for (_, errors) in transform(form.output, &sums, &mut Worst)
                .into_iter()
                .flatten()
            {
                let depth = terms + 4.0 * form.points() as f64;
                worst = worst.max(direct + first_order(errors, depth));
            }
            let sums = points
                .iter()
                .zip(&random_tile)
                .map(|((_, square), number)| {
                    let (a, e) = number.unwrap_or((0.0, 0.0));
                    let roundings = SPREAD * a * (2.0 + (terms + 1.0) / 2.0);
                    Some((a * square, (e + roundings) * square))
                });
            let sums: Vec<_> = sums.collect();
            let results = transform(form.output, &sums, &mut Random);
            let errors = results.iter().flatten().map(|(_, errors)| errors);
            squares += errors.sum::<f64>() / results.len().max(1) as f64;
            filters += 1.0;
        }
        Self {
            worst,
            expected: ROUNDING * (squares / f64::max(filters, 1.0)).sqrt(),
        }
    }
}

/// An error of so many roundings in first order, enlarged by what products of errors can add where no number went through
/// more than `depth` roundings (Higham, lemma 3.1).
fn first_order(roundings: f64, depth: f64) -> f64 {
    roundings * ROUNDING / (1.0 - depth * ROUNDING).max(0.5)
}

/// How many numbers are transformed at once.
pub const LANES: usize = 32;

/// Numbers of many kernels or tiles at once.
pub struct Doubles;
impl Arithmetic for Doubles {
    type Number = [f64; LANES];
    fn add(&mut self, a: [f64; LANES], b: [f64; LANES]) -> [f64; LANES] {
        std::array::from_fn(|i| a[i] + b[i])
    }
    fn sub(&mut self, a: [f64; LANES], b: [f64; LANES]) -> [f64; LANES] {
        std::array::from_fn(|i| a[i] - b[i])
    }
    fn scale(&mut self, a: [f64; LANES], by: f64) -> [f64; LANES] {
        a.map(|a| a * by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers one by one.
    struct Singles;
    impl Arithmetic for Singles {
        type Number = f64;
        fn add(&mut self, a: f64, b: f64) -> f64 {
            a + b
        }
        fn sub(&mut self, a: f64, b: f64) -> f64 {
            a - b
        }
        fn scale(&mut self, a: f64, by: f64) -> f64 {
            a * by
        }
    }

    /// A matrix times a tile, without any sharing.
    fn plainly(matrix: Matrix, tile: &[f64]) -> Vec<f64> {
        let side = matrix[0].len();
        let mut out = Vec::new();
        for a in matrix {
            for b in matrix {
                let terms = (0..side).flat_map(|i| (0..side).map(move |j| (i, j)));
                out.push(terms.map(|(i, j)| a[i] * b[j] * tile[i * side + j]).sum());
            }
        }
        out
    }

    #[test]
    fn every_product_of_an_input_and_a_weight_is_in_its_place() {
        for form in FORMS {
            let side = form.side();
            for at in 0..form.points() {
                for k in 0..KERNEL * KERNEL {
                    let unit = |n: usize, at: usize| -> Vec<Option<f64>> {
                        (0..n).map(|i| Some(f64::from(i == at))).collect()
                    };
                    let v = transform(form.input, &unit(form.points(), at), &mut Singles);
                    let u = transform(form.filter, &unit(9, k), &mut Singles);
                    let m: Vec<Option<f64>> = v
                        .iter()
                        .zip(&u)
                        .map(|(v, u)| Some(v.unwrap() * u.unwrap()))
                        .collect();
                    let y = transform(form.output, &m, &mut Singles);
                    for (p, y) in y.iter().enumerate() {
                        let (r, c) = (p / form.tile, p % form.tile);
                        let place = (r + k / 3) * side + c + k % 3;
                        let wanted = f64::from(place == at);
                        assert!((y.unwrap() - wanted).abs() < 1e-12, "{form:?} {at} {k} {p}");
                    }
                }
            }
        }
    }

    #[test]
    fn shared_sums_are_the_same_sums() {
        for form in FORMS {
            for matrix in [form.input, form.filter, form.output] {
                let side = matrix[0].len();
                let tile: Vec<f64> = (0..side * side).map(|i| (i as f64 * 0.7).sin()).collect();
                let some: Vec<Option<f64>> = tile.iter().copied().map(Some).collect();
                let found = transform(matrix, &some, &mut Singles);
                for (a, b) in found.iter().zip(plainly(matrix, &tile)) {
                    assert!((a.unwrap() - b).abs() < 1e-12);
                }
                // What is absent is zero.
                let mut holes = tile.clone();
                let mut some = some;
                for i in (0..some.len()).step_by(3) {
                    (holes[i], some[i]) = (0.0, None);
                }
                let found = transform(matrix, &some, &mut Singles);
                for (a, b) in found.iter().zip(plainly(matrix, &holes)) {
                    assert!((a.unwrap_or(0.0) - b).abs() < 1e-12);
                }
            }
        }
    }

    #[test]
    fn sharing_saves_operations() {
        // 19 operations for a line of the input of F(4), with factors; plainly, 12 additions and 14 factors.
        let counts = FORMS.map(|form| operations(form.input));
        assert_eq!(counts, [32, 228]);
        let counts = FORMS.map(|form| operations(form.output));
        assert_eq!(counts, [24, 130]);
    }

    #[test]
    fn larger_tiles_have_larger_errors() {
        let weights = || (0..9 * 64).map(|i| (f64::from(i) * 1.7).sin());
        let [small, large] = FORMS.map(|form| Bound::of(&form, 64, weights()));
        assert!(small.worst < large.worst && small.expected < large.expected);
        assert!(large.expected < large.worst);
        // Twice the weights, twice the error; filter by filter, so the largest counts.
        let twice = Bound::of(&FORMS[1], 64, weights().map(|w| 2.0 * w));
        assert!((twice.worst / large.worst - 2.0).abs() < 1e-12);
        assert!((twice.expected / large.expected - 2.0).abs() < 1e-12);
        let both = weights().map(|w| 0.1 * w).chain(weights());
        assert_eq!(Bound::of(&FORMS[1], 64, both).worst, large.worst);
    }
}
