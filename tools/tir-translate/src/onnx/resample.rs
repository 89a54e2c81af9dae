//! Images in another size by any weights: a product with a matrix for each dimension that changes. A row of a matrix has the
//! weights of an element of the result.

use tir_core::Value;
use tir_onnx::Node;

use super::import::{Cx, Outcome};
use super::make::Make;

/// How far an element reaches, and with which weight.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kernel {
    /// The nearest one alone, by this rounding.
    Nearest(fn(f64) -> f64),
    /// Two neighbours.
    Linear,
    /// Four neighbours (Keys, "Cubic Convolution Interpolation for Digital Image Processing", 1981), with its number a.
    Cubic(f64),
}

impl Kernel {
    fn support(self) -> f64 {
        match self {
            Kernel::Nearest(_) => 0.0,
            Kernel::Linear => 1.0,
            Kernel::Cubic(_) => 2.0,
        }
    }

    fn weight(self, distance: f64) -> f64 {
        let x = distance.abs();
        match self {
            Kernel::Nearest(_) => 1.0,
            Kernel::Linear => (1.0 - x).max(0.0),
            Kernel::Cubic(a) if x <= 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
            Kernel::Cubic(a) if x < 2.0 => ((x - 5.0) * x + 8.0) * x * a - 4.0 * a,
            Kernel::Cubic(_) => 0.0,
        }
    }
}

/// One dimension of the result.
#[derive(Clone, Debug)]
pub(super) struct Along {
    pub dim: usize,
    /// Where each element lies in the input.
    pub places: Vec<f64>,
    /// Result size by input size.
    pub scale: f64,
}

/// What is common to all dimensions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resampling {
    pub kernel: Kernel,
    /// Whether an image that gets smaller is smoothed: elements reach as far as it does.
    pub antialias: bool,
    /// Whether what is beyond the border has no weight; else it is the outermost element.
    pub exclude_outside: bool,
    /// What is at places beyond the border; none: the border.
    pub beyond: Option<f64>,
}

impl Resampling {
    /// The weights of `size` elements at a place.
    fn row(&self, at: f64, size: i64, scale: f64) -> Vec<f64> {
        let mut row = vec![0.0; size as usize];
        let last = (size - 1) as f64;
        if let Kernel::Nearest(round) = self.kernel {
            row[round(at).clamp(0.0, last) as usize] = 1.0;
            return row;
        }
        let narrow = if self.antialias { scale.min(1.0) } else { 1.0 };
        let reach = (self.kernel.support() / narrow).ceil() as i64 + 1;
        let middle = at.floor() as i64;
        for j in middle - reach..=middle + reach {
            let weight = self.kernel.weight((j as f64 - at) * narrow);
            if self.exclude_outside && !(0..size).contains(&j) {
                continue;
            }
            row[j.clamp(0, size - 1) as usize] += weight;
        }
        if self.antialias || self.exclude_outside {
            let sum: f64 = row.iter().sum();
            if sum != 0.0 {
                row.iter_mut().for_each(|w| *w /= sum);
            }
        }
        row
    }

    pub(super) fn apply(
        &self,
        cx: &mut Cx<'_>,
        node: &Node,
        x: Value,
        dims: &[Along],
    ) -> Outcome<()> {
        let mut m = Make::new(cx, node);
        let elem = m.elem(x);
        let wide = match (elem.is_float(), self.kernel) {
            (_, Kernel::Nearest(_)) => elem,
            (true, _) => tir_graph::accumulator(elem),
            (false, _) => {
                return m.fail(format!("interpolates elements of {elem}, expected floats"));
            }
        };
        let mut y = m.cast(x, wide)?;
        for Along { dim, places, scale } in dims {
            let size = m.shape(y)[*dim];
            if let Kernel::Nearest(round) = self.kernel {
                let last = (size - 1) as f64;
                let from: Vec<f64> = places
                    .iter()
                    .map(|at| round(*at).clamp(0.0, last))
                    .collect();
                let from = m.numbers(Make::index_type(), &[from.len() as i64], &from)?;
                y = m.gather(y, from, *dim)?;
                continue;
            }
            m.cx.room(node, &[places.len() as i64, size])?;
            let rows: Vec<f64> = places
                .iter()
                .flat_map(|at| self.row(*at, size, *scale))
                .collect();
            let matrix = m.numbers(wide, &[places.len() as i64, size], &rows)?;
            let matrix = m.transpose(matrix, &[1, 0])?;
            y = m.moved_last(y, *dim)?;
            let shape = m.shape(y);
            let outer = shape[..shape.len() - 1].iter().product();
            y = m.reshape(y, &[outer, size])?;
            y = m.matmul(y, matrix)?;
            let mut whole = shape;
            whole.pop();
            whole.push(places.len() as i64);
            y = m.reshape(y, &whole)?;
            y = m.moved_back(y, *dim)?;
        }
        if let Some(number) = self.beyond {
            let (rank, sizes) = (m.rank(y), m.shape(x));
            for Along { dim, places, .. } in dims {
                let last = (sizes[*dim] - 1) as f64;
                let inside: Vec<f64> = places
                    .iter()
                    .map(|at| f64::from(u8::from((0.0..=last).contains(at))))
                    .collect();
                let mut form = vec![1; rank];
                form[*dim] = places.len() as i64;
                let inside = m.numbers(tir_core::Type::int(1), &form, &inside)?;
                let other = m.like(y, number)?;
                y = m.choose(inside, y, other)?;
            }
        }
        let y = m.cast(y, elem)?;
        m.done(y)
    }
}
