//! Importers of nodes that read images at places that data say: `GridSample` and `MaxUnpool`; and of those that move blocks
//! of images.

use tir_core::Value;
use tir_graph::accumulator;
use tir_onnx::Node;

use super::import::{Cx, Outcome};
use super::make::Make;
use super::window::Windows;

/// What is read beyond the border.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beyond {
    Zeros,
    Border,
    Reflection,
}

/// Coordinates in dimension `size` that lie beyond it, mirrored at the border: at the outermost elements, or half an element
/// further.
fn mirrored(m: &mut Make<'_, '_>, x: Value, size: i64, corners: bool) -> Outcome<Value> {
    let (low, span) = match corners {
        true => (0.0, (size - 1) as f64),
        false => (-0.5, size as f64),
    };
    if span <= 0.0 {
        return m.times(x, 0.0);
    }
    // The distance from the border, in a wave of twice the span.
    let x = m.plus(x, -low)?;
    let x = m.abs(x)?;
    let turns = m.times(x, 1.0 / (2.0 * span))?;
    let whole = m.floor(turns)?;
    let whole = m.times(whole, 2.0 * span)?;
    let x = m.sub(x, whole)?;
    let other = m.neg(x)?;
    let other = m.plus(other, 2.0 * span)?;
    let x = m.min(x, other)?;
    m.plus(x, low)
}

/// One of the elements that an element of the result is made of, in one dimension: its place, its weight, and
/// whether it lies inside.
struct Tap {
    at: Value,
    weight: Option<Value>,
}

/// Cubic weights of a distance (Keys, "Cubic Convolution Interpolation for Digital Image Processing", 1981), with a = -3/4.
fn cubic(m: &mut Make<'_, '_>, t: Value) -> Outcome<[Value; 4]> {
    const A: f64 = -0.75;
    let polynomial = |m: &mut Make<'_, '_>, x: Value, c: [f64; 4]| {
        let mut y = m.like(x, c[0])?;
        for c in &c[1..] {
            y = m.mul(y, x)?;
            y = m.plus(y, *c)?;
        }
        Ok::<Value, Option<tir_data::DataError>>(y)
    };
    let far = [A, -5.0 * A, 8.0 * A, -4.0 * A];
    let near = [A + 2.0, -(A + 3.0), 0.0, 1.0];
    let minus = m.neg(t)?;
    let rest = m.plus(minus, 1.0)?;
    let (before, behind) = (m.plus(t, 1.0)?, m.plus(rest, 1.0)?);
    Ok([
        polynomial(m, before, far)?,
        polynomial(m, t, near)?,
        polynomial(m, rest, near)?,
        polynomial(m, behind, far)?,
    ])
}

/// Elements between those of an image, or of a volume, at coordinates from -1 to 1.
pub(super) fn sample(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&["align_corners", "mode", "padding_mode"])?;
    let (x, grid) = (m.operand(0)?, m.operand(1)?);
    let (shape, places) = (m.shape(x), m.shape(grid));
    let rank = shape.len() - 2;
    if shape.len() < 3 || places.last() != Some(&(rank as i64)) || places.len() != shape.len() {
        return m.fail(format!("reads {shape:?} at {places:?}"));
    }
    let mode = m.word("mode", "linear")?;
    let beyond = match m.word("padding_mode", "zeros")?.as_str() {
        "zeros" => Beyond::Zeros,
        "border" => Beyond::Border,
        "reflection" => Beyond::Reflection,
        other => {
            return m.fail(format!(
                "attribute 'padding_mode' is '{other}', expected zeros, border or reflection"
            ));
        }
    };
    let corners = m.flag("align_corners")?;
    let elem = m.elem(x);
    let wide = accumulator(elem);
    let grid = m.cast(grid, wide)?;
    let mut dims: Vec<Vec<Tap>> = Vec::new();
    for d in 0..rank {
        let size = shape[d + 2];
        // The last number is the place in the first dimension.
        let at = m.pick(grid, places.len() - 1, (rank - 1 - d) as i64)?;
        let at = m.plus(at, 1.0)?;
        let mut at = match corners {
            true => m.times(at, (size - 1) as f64 / 2.0)?,
            false => {
                let at = m.times(at, size as f64 / 2.0)?;
                m.plus(at, -0.5)?
            }
        };
        let smooth = matches!(mode.as_str(), "cubic" | "bicubic");
        // Smooth ones bring the place of each element back instead.
        match beyond {
            Beyond::Border if !smooth => {
                at = m.at_least(at, 0.0)?;
                at = m.at_most(at, (size - 1) as f64)?;
            }
            Beyond::Reflection if !smooth => at = mirrored(&mut m, at, size, corners)?,
            _ => {}
        }
        let taps = match mode.as_str() {
            "nearest" => vec![Tap {
                at: m.round(at)?,
                weight: None,
            }],
            "linear" | "bilinear" => {
                let low = m.floor(at)?;
                let t = m.sub(at, low)?;
                let minus = m.neg(t)?;
                let rest = m.plus(minus, 1.0)?;
                let high = m.plus(low, 1.0)?;
                vec![
                    Tap {
                        at: low,
                        weight: Some(rest),
                    },
                    Tap {
                        at: high,
                        weight: Some(t),
                    },
                ]
            }
            "cubic" | "bicubic" => {
                let low = m.floor(at)?;
                let t = m.sub(at, low)?;
                let weights = cubic(&mut m, t)?;
                let mut taps = Vec::new();
                for (i, weight) in weights.into_iter().enumerate() {
                    let at = m.plus(low, i as f64 - 1.0)?;
                    let at = match beyond {
                        Beyond::Reflection => mirrored(&mut m, at, size, corners)?,
                        _ => at,
                    };
                    taps.push(Tap {
                        at,
                        weight: Some(weight),
                    });
                }
                taps
            }
            other => {
                return m.fail(format!(
                    "attribute 'mode' is '{other}', expected nearest, linear or cubic"
                ));
            }
        };
        dims.push(taps);
    }
    // Slices of all channels, by the number of their place in the batch.
    let mut perm = vec![0];
    perm.extend(2..shape.len());
    perm.push(1);
    let slices = m.transpose(x, &perm)?;
    let count: i64 = shape[2..].iter().product();
    let slices = m.reshape(slices, &[shape[0] * count, shape[1]])?;
    let slices = m.cast(slices, wide)?;
    let index = Make::index_type();
    let batch = m.counting(index, shape[0], 0, places.len() - 1)?;
    let batch = m.times(batch, count as f64)?;
    let mut sum: Option<Value> = None;
    let combinations: usize = dims.iter().map(Vec::len).product();
    for combination in 0..combinations {
        let (mut rest, mut number, mut weight, mut inside) = (combination, batch, None, None);
        let mut stride = count;
        for (d, taps) in dims.iter().enumerate() {
            let tap = &taps[rest % taps.len()];
            rest /= taps.len();
            let size = shape[d + 2];
            stride /= size.max(1);
            if beyond == Beyond::Zeros {
                let (low, high) = (m.below(tap.at, -0.5)?, m.above(tap.at, size as f64 - 0.5)?);
                let out = m.or(low, high)?;
                let seen = m.not(out)?;
                inside = Some(match inside {
                    Some(inside) => m.and(inside, seen)?,
                    None => seen,
                });
            }
            let at = m.at_least(tap.at, 0.0)?;
            let at = m.at_most(at, (size - 1) as f64)?;
            let at = m.cast(at, index)?;
            let at = m.times(at, stride as f64)?;
            number = m.add(number, at)?;
            weight = match (weight, tap.weight) {
                (Some(a), Some(b)) => Some(m.mul(a, b)?),
                (a, b) => a.or(b),
            };
        }
        let mut part = m.gather(slices, number, 0)?;
        if let Some(weight) = weight {
            let last = m.rank(weight);
            let weight = m.unsqueeze(weight, last)?;
            part = m.mul(part, weight)?;
        }
        if let Some(inside) = inside {
            let last = m.rank(inside);
            let inside = m.unsqueeze(inside, last)?;
            let zero = m.like(part, 0.0)?;
            part = m.choose(inside, part, zero)?;
        }
        sum = Some(match sum {
            Some(sum) => m.add(sum, part)?,
            None => part,
        });
    }
    let Some(y) = sum else {
        return m.fail("has no dimensions to read in");
    };
    let y = m.cast(y, elem)?;
    // N x … x C as N x C x ….
    let last = m.rank(y) - 1;
    let mut back = vec![0, last];
    back.extend(1..last);
    let y = m.transpose(y, &back)?;
    m.done(y)
}

/// Elements put to where a pool found them, in an image of zeros: each element of the image is the one that names it, if
/// one does.
pub(super) fn unpool(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&["kernel_shape", "pads", "strides"])?;
    let wanted = m.ints(2, "a shape")?;
    let (x, indices) = (m.operand(0)?, m.operand(1)?);
    let shape = m.shape(x);
    let kernel = node.ints("kernel_shape").map_err(Some)?;
    let kernel = kernel.ok_or_else(|| Some(node.missing("kernel_shape")))?;
    let windows = Windows::read(node, shape.get(2..).unwrap_or(&[]), kernel)?;
    let rank = kernel.len();
    let mut image = shape.clone();
    for d in 0..rank {
        let pads = windows.pads[d] + windows.pads[rank + d];
        image[d + 2] = (shape[d + 2] - 1) * windows.strides[d] - pads + kernel[d];
    }
    // Places are counted in the image that was pooled, which may be larger than it must be.
    let whole = wanted.unwrap_or_else(|| image.clone());
    if whole.len() != shape.len() || whole.iter().zip(&image).any(|(a, b)| a < b) {
        return m.fail(format!("makes shape {whole:?} of {image:?}"));
    }
    let (count, all) = (shape.iter().product::<i64>(), image.iter().product::<i64>());
    let index = Make::index_type();
    let indices = m.cast(indices, index)?;
    let indices = m.reshape(indices, &[count, 1])?;
    let places = m.counting(index, all, 1, 2)?;
    let here = m.equal(indices, places)?;
    let x = m.reshape(x, &[count, 1])?;
    let zero = m.like(x, 0.0)?;
    let parts = m.choose(here, x, zero)?;
    let y = m.sum(parts, &[0])?;
    let y = m.reshape(y, &image)?;
    let high: Vec<i64> = whole.iter().zip(&image).map(|(a, b)| a - b).collect();
    let y = m.pad(y, &vec![0; high.len()], &high, 0.0)?;
    m.done(y)
}

/// Channels to blocks of an image, or back.
pub(super) fn blocks(cx: &mut Cx<'_>, node: &Node, to_space: bool) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&["blocksize", "mode"])?;
    let (x, b) = (m.operand(0)?, m.int("blocksize", 0)?);
    let &[n, c, h, w] = &m.shape(x)[..] else {
        return m.fail(format!("has an input of rank {}, expected 4", m.rank(x)));
    };
    // Whether the place in a block goes before the channel.
    let first = match m.word("mode", "DCR")?.as_str() {
        "DCR" => true,
        "CRD" => false,
        other => {
            return m.fail(format!(
                "attribute 'mode' is '{other}', expected DCR or CRD"
            ));
        }
    };
    let divides = (1..=c.max(h)).contains(&b)
        && if to_space {
            c % (b * b) == 0
        } else {
            h % b == 0 && w % b == 0
        };
    if !divides {
        return m.fail(format!("has blocks of {b} for {:?}", m.shape(x)));
    }
    let y = if to_space {
        let c = c / (b * b);
        let (shape, perm) = match first {
            true => ([n, b, b, c, h, w], [0, 3, 4, 1, 5, 2]),
            false => ([n, c, b, b, h, w], [0, 1, 4, 2, 5, 3]),
        };
        let y = m.reshape(x, &shape)?;
        let y = m.transpose(y, &perm)?;
        m.reshape(y, &[n, c, h * b, w * b])?
    } else {
        let y = m.reshape(x, &[n, c, h / b, b, w / b, b])?;
        let y = match first {
            true => m.transpose(y, &[0, 3, 5, 1, 2, 4])?,
            false => m.transpose(y, &[0, 1, 3, 5, 2, 4])?,
        };
        m.reshape(y, &[n, c * b * b, h / b, w / b])?
    };
    m.done(y)
}

/// The middle of a tensor, or zeros around it, so that it has a size; of an odd rest more is behind.
pub(super) fn centre(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&["axes"])?;
    let Some(sizes) = m.ints(1, "sizes")? else {
        return m.fail("operand 1 is missing");
    };
    let mut x = m.operand(0)?;
    let rank = m.rank(x);
    let axes = match node.ints("axes").map_err(Some)? {
        Some(axes) => axes.to_vec(),
        None => (0..rank as i64).collect(),
    };
    if axes.len() != sizes.len() {
        return m.fail(format!("has {} sizes for {} axes", sizes.len(), axes.len()));
    }
    let (mut low, mut high) = (vec![0; rank], vec![0; rank]);
    for (axis, wanted) in axes.iter().zip(&sizes) {
        let d = m.dimension(*axis, rank)?;
        let found = m.shape(x)[d];
        if *wanted < found {
            x = m.along(x, d, (found - wanted) / 2, *wanted, 1)?;
        } else {
            low[d] = (wanted - found) / 2;
            high[d] = wanted - found - low[d];
        }
    }
    let y = m.pad(x, &low, &high, 0.0)?;
    m.done(y)
}
