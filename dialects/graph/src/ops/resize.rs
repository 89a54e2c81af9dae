//! Images in another size.

use tir::constraints::TENSOR;
use tir::{Attr, Failure, Op, OpRef, Ret, Value, Verify, attr_enum};

use crate::fusion::{Fusable, FusionKind};
use crate::layout::{Keeps, Layout, LayoutRule};
use crate::shape::{list, tensor};

attr_enum! {
    /// How an element between elements of the input is made.
    pub enum ResizeMode { Nearest = "nearest", Linear = "linear" }
}
attr_enum! {
    /// Where an element of the result lies in the input, as ONNX's Resize names it.
    pub enum Coordinates {
        HalfPixel = "half_pixel",
        HalfPixelSymmetric = "half_pixel_symmetric",
        PytorchHalfPixel = "pytorch_half_pixel",
        AlignCorners = "align_corners",
        Asymmetric = "asymmetric",
    }
}
attr_enum! {
    /// Which element is the nearest one.
    pub enum Rounding {
        PreferFloor = "round_prefer_floor",
        PreferCeil = "round_prefer_ceil",
        Floor = "floor",
        Ceil = "ceil",
    }
}

/// A tensor in another size of the same rank: each element of the result is the nearest element of
/// the input, or the mean of its neighbours in each dimension, weighted by their distance.
///
/// Coordinates are those of ONNX's Resize, computed in f32 as ONNX Runtime does; what lies outside
/// of the input is its last element. Opaque to fusion: it reads several elements of its input.
/// `graph-to-tensor` makes of interpolation a product with the matrix of all weights along each dimension: an infinity or NaN
/// makes NaN of all that is computed from its row or column there, as zero times infinity is none.
#[derive(Op)]
#[op(
    "graph.resize",
    StrictAttributes,
    Pure,
    verify,
    evaluate,
    crate::fusion::fusion,
    crate::layout::layouts
)]
#[asm("$x attr-dict `:` type($x) `to` type($y)")]
pub struct Resize {
    /// Input.
    #[is(TENSOR)]
    pub x: Value,
    /// How elements are made.
    pub mode: ResizeMode,
    /// Where they lie.
    #[default(Coordinates::HalfPixel)]
    pub coordinates: Coordinates,
    /// Which one is nearest.
    #[default(Rounding::PreferFloor)]
    pub rounding: Rounding,
    /// Result size by input size for each dimension, where it is not just that quotient.
    pub scales: Option<Vec<Attr>>,
    /// Type of the result, which is stored as the input is.
    #[is(TENSOR)]
    pub y: Ret,
}

/// The elements of the input that an element of the result is made of: two neighbours, and the
/// weight of the second one; for the nearest element both are that one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Tap {
    /// The first neighbour.
    pub low: usize,
    /// The second neighbour.
    pub high: usize,
    /// The weight of the second one, 0 to 1.
    pub weight: f32,
}

/// The most elements of a dimension of a result: what each is made of is kept.
const LONGEST: i64 = 1 << 24;

impl Resize {
    /// What each element of a dimension of the result is made of; `None` where the dimension stays
    /// as it is.
    pub fn taps(&self, dim: usize, input: i64, output: i64) -> Option<Vec<Tap>> {
        let quotient = output as f32 / input as f32;
        let said = self.scales.as_ref().and_then(|s| s.get(dim)?.as_float());
        let scale = said.map_or(quotient, |s| s as f32);
        if input == output && scale == 1.0 || input < 1 {
            return None;
        }
        let tap = |at: i64| self.tap(self.coordinate(at, input, output, scale), input);
        Some((0..output).map(tap).collect())
    }

    /// Where element `at` of the result lies in the input.
    fn coordinate(&self, at: i64, input: i64, output: i64, scale: f32) -> f32 {
        let x = at as f32;
        match self.coordinates {
            Coordinates::HalfPixel => (x + 0.5) / scale - 0.5,
            Coordinates::PytorchHalfPixel if output > 1 => (x + 0.5) / scale - 0.5,
            Coordinates::AlignCorners if output > 1 => x * (input - 1) as f32 / (output - 1) as f32,
            Coordinates::PytorchHalfPixel | Coordinates::AlignCorners => 0.0,
            Coordinates::Asymmetric => x / scale,
            Coordinates::HalfPixelSymmetric => {
                let adjusted = output as f32 / (scale * input as f32);
                let offset = input as f32 / 2.0 * (1.0 - adjusted);
                offset + (x + 0.5) / scale - 0.5
            }
        }
    }

    fn tap(&self, x: f32, input: i64) -> Tap {
        let last = (input - 1) as f32;
        if self.mode == ResizeMode::Linear {
            let x = x.clamp(0.0, last);
            let low = x.floor();
            let high = (low + 1.0).min(last);
            return Tap {
                low: low as usize,
                high: high as usize,
                weight: x - low,
            };
        }
        let nearest = match self.rounding {
            Rounding::Floor => x.floor(),
            Rounding::Ceil => x.ceil(),
            Rounding::PreferFloor => (x - 0.5).ceil(),
            Rounding::PreferCeil => (x + 0.5).floor(),
        };
        let at = nearest.clamp(0.0, last) as usize;
        Tap {
            low: at,
            high: at,
            weight: 0.0,
        }
    }
}
impl Verify for Resize {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let (shape, elem) = tensor(op, self.x, "x")?;
        let to = self.y.0;
        let sizes = to.shape().unwrap_or(&[]);
        let fits = sizes.len() == shape.len() && sizes.iter().all(|d| *d >= 0) && to.elem() == elem;
        // There is nothing to make elements of.
        let empty = |(from, to): (&i64, &i64)| *from == 0 && *to != 0;
        if !fits || shape.iter().zip(sizes).any(empty) {
            return Err(format!("makes {to} of {}", op.ir.ty(self.x)).into());
        }
        let resized = shape.iter().zip(sizes).filter(|(from, to)| from != to);
        if let Some((from, to)) = resized.into_iter().find(|(_, to)| **to > LONGEST) {
            let text = format!(
                "makes {to} elements of {from} along a dimension, expected at most {LONGEST}"
            );
            return Err(text.into());
        }
        let stored = Layout::of(op.ir.ty(self.x));
        if stored != Layout::of(to) {
            return Err(format!(
                "makes {to} of {}, which is stored differently",
                op.ir.ty(self.x)
            )
            .into());
        }
        if let Some(layout) = stored {
            self.admits(op, layout)?;
        }
        if self.mode == ResizeMode::Linear && !elem.is_float() {
            return Err(format!("interpolates elements of {elem}, expected floats").into());
        }
        if let Some(scales) = &self.scales {
            list("scales", &vec![0; scales.len()], shape.len())?;
            let positive = |s: &Attr| s.as_float().is_some_and(|s| s > 0.0 && s.is_finite());
            if let Some(wrong) = scales.iter().find(|s| !positive(s)) {
                return Err(format!("has a scale of {wrong}, expected a positive float").into());
            }
        }
        Ok(())
    }
}
impl LayoutRule for Resize {
    const KEEPS: Keeps = Keeps::First;

    /// Blocks stay whole.
    fn admits(&self, op: OpRef<'_>, layout: &Layout) -> Result<(), Failure> {
        let (from, to) = (op.ir.ty(self.x).shape(), self.y.0.shape());
        let sizes = from.unwrap_or(&[]).iter().zip(to.unwrap_or(&[]));
        let mut sizes = sizes.zip(layout.blocks()).enumerate();
        let other = sizes
            .find(|(d, ((from, to), block))| **block > 1 && self.taps(*d, **from, **to).is_some());
        match other {
            Some((d, _)) => {
                Err(format!("resizes dimension {d}, which is in blocks of {layout}").into())
            }
            None => Ok(()),
        }
    }
}
impl Fusable for Resize {
    const KIND: FusionKind = FusionKind::Opaque;
}
