//! Importers of convolutions and pools that graph has no op for: transposed ones, those of volumes, pools by other norms,
//! and places of largest elements.

use tir_core::Value;
use tir_graph::{AvgPool, Conv2d, MaxPool, accumulator};
use tir_onnx::Node;

use super::import::{Cx, LARGEST, Outcome};
use super::make::Make;
use super::window::Windows;

/// The sizes behind the first two dimensions.
fn spatial(shape: &[i64]) -> &[i64] {
    shape.get(2..).unwrap_or(&[])
}

/// Zeros between the elements of a dimension: `step - 1` after each but the last.
fn spread(m: &mut Make<'_, '_>, x: Value, dim: usize, step: i64) -> Outcome<Value> {
    let size = m.shape(x)[dim];
    if step == 1 || size <= 1 {
        return Ok(x);
    }
    let x = m.unsqueeze(x, dim + 1)?;
    let rank = m.rank(x);
    let mut high = vec![0; rank];
    high[dim + 1] = step - 1;
    let y = m.pad(x, &vec![0; rank], &high, 0.0)?;
    let mut shape = m.shape(y);
    shape.remove(dim + 1);
    shape[dim] = size * step;
    let y = m.reshape(y, &shape)?;
    m.along(y, dim, 0, (size - 1) * step + 1, 1)
}

/// Zeros around the dimensions behind the first two; what is negative is cut off.
fn bordered(m: &mut Make<'_, '_>, x: Value, low: &[i64], high: &[i64]) -> Outcome<Value> {
    let with = |list: &[i64]| {
        let list = list.iter().map(|n| (*n).max(0));
        [0, 0].into_iter().chain(list).collect::<Vec<i64>>()
    };
    let mut y = m.pad(x, &with(low), &with(high), 0.0)?;
    for d in 0..low.len() {
        let (before, behind) = ((-low[d]).max(0), (-high[d]).max(0));
        let size = m.shape(y)[d + 2] - before - behind;
        if size < 0 {
            return m.fail(format!("cuts more than there is off dimension {}", d + 2));
        }
        y = m.along(y, d + 2, before, size, 1)?;
    }
    Ok(y)
}

/// A convolution of any number of dimensions: with one, of images of one row; with three, the depth of a kernel
/// becomes channels, and the depth of the result images of a batch.
pub(super) fn convolved(
    m: &mut Make<'_, '_>,
    x: Value,
    w: Value,
    bias: Option<Value>,
    (strides, pads, dilations, groups): (&[i64], &[i64], &[i64], i64),
) -> Outcome<Value> {
    let (shape, kernel) = (m.shape(x), m.shape(w));
    let rank = strides.len();
    match rank {
        2 => m.op(Conv2d {
            x,
            w,
            bias,
            strides: strides.to_vec(),
            pads: pads.to_vec(),
            dilations: dilations.to_vec(),
            groups,
        }),
        1 => {
            let (x, w) = (m.unsqueeze(x, 2)?, m.unsqueeze(w, 2)?);
            let pads = [0, pads[0], 0, pads[1]];
            let form: (&[i64], &[i64], &[i64], i64) =
                (&[1, strides[0]], &pads, &[1, dilations[0]], groups);
            let y = convolved(m, x, w, bias, form)?;
            m.squeeze(y, 2)
        }
        3 => {
            let (low, high) = ([pads[0], 0, 0], [pads[3], 0, 0]);
            let x = bordered(m, x, &low, &high)?;
            let &[n, c, _, h, wide] = &m.shape(x)[..] else {
                return m.fail(format!("has an input of rank {}, expected 5", shape.len()));
            };
            let &[o, i, kd, kh, kw] = &kernel[..] else {
                return m.fail(format!("has weights of rank {}, expected 5", kernel.len()));
            };
            let span = (kd - 1) * dilations[0] + 1;
            let count = (m.shape(x)[2] - span) / strides[0] + 1;
            if m.shape(x)[2] < span || i == 0 {
                return m.fail(format!("has a kernel of {kd} for a depth of {}", shape[2]));
            }
            let mut parts = Vec::new();
            m.written(kd)?;
            for k in 0..kd {
                // Depths that tap k reads, before what is in a group, so that the taps of a channel lie together.
                let reach = (count - 1) * strides[0] + 1;
                let part = m.along(x, 2, k * dilations[0], reach, 1)?;
                let part = every(m, part, 2, strides[0], count)?;
                let part = m.transpose(part, &[0, 2, 1, 3, 4])?;
                parts.push(m.reshape(part, &[n * count, c, 1, h, wide])?);
            }
            let x = m.concat(parts, 2)?;
            let x = m.reshape(x, &[n * count, c * kd, h, wide])?;
            let w = m.reshape(w, &[o, i * kd, kh, kw])?;
            let pads = [pads[1], pads[2], pads[4], pads[5]];
            let form = (&strides[1..], &pads[..], &dilations[1..], groups);
            let y = convolved(m, x, w, bias, form)?;
            let &[_, _, oh, ow] = &m.shape(y)[..] else {
                return m.fail("has no image");
            };
            let y = m.reshape(y, &[n, count, o, oh, ow])?;
            m.transpose(y, &[0, 2, 1, 3, 4])
        }
        _ => m.fail(format!(
            "has {rank} dimensions behind the first two, expected 1 to 3"
        )),
    }
}

/// `count` elements of a dimension from the first on, in steps.
fn every(m: &mut Make<'_, '_>, x: Value, dim: usize, step: i64, count: i64) -> Outcome<Value> {
    m.along(x, dim, 0, count, step)
}

/// A convolution of volumes.
pub(super) fn conv_of_volumes(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    let (x, w, bias) = (m.operand(0)?, m.operand(1)?, m.optional(2)?);
    let (shape, weights) = (m.shape(x), m.shape(w));
    let windows = Windows::read(node, spatial(&shape), spatial(&weights))?;
    let groups = m.int("group", 1)?;
    let form = (
        &windows.strides[..],
        &windows.pads[..],
        &windows.dilations[..],
        groups,
    );
    let y = convolved(&mut m, x, w, bias, form)?;
    m.done(y)
}

/// A convolution that goes the other way: zeros are put between the elements of the input, and the kernel is turned round.
pub(super) fn transposed(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&[
        "auto_pad",
        "dilations",
        "group",
        "kernel_shape",
        "output_padding",
        "output_shape",
        "pads",
        "strides",
    ])?;
    let (x, w, bias) = (m.operand(0)?, m.operand(1)?, m.optional(2)?);
    let (shape, weights) = (m.shape(x), m.shape(w));
    let (input, kernel) = (spatial(&shape).to_vec(), spatial(&weights).to_vec());
    let rank = input.len();
    if kernel.len() != rank || shape.len() < 3 {
        return m.fail(format!(
            "has an input of {shape:?} and weights of {weights:?}"
        ));
    }
    let list = |name: &str, count: usize, value: i64| -> Outcome<Vec<i64>> {
        let list = node.ints(name).map_err(Some)?;
        let list = list.map_or_else(|| vec![value; count], <[i64]>::to_vec);
        if let Some(n) = list.iter().find(|n| n.unsigned_abs() > LARGEST as u64) {
            return m.fail(format!(
                "attribute '{name}' has {n}, expected {LARGEST} at most"
            ));
        }
        match list.len() == count {
            true => Ok(list),
            false => Err(Some(node.error(format!(
                "attribute '{name}' has {} numbers, expected {count}",
                list.len()
            )))),
        }
    };
    let (strides, dilations) = (list("strides", rank, 1)?, list("dilations", rank, 1)?);
    let (more, mut pads) = (list("output_padding", rank, 0)?, list("pads", 2 * rank, 0)?);
    if strides.iter().chain(&dilations).any(|n| *n < 1) {
        return m.fail(format!(
            "has strides {strides:?} and dilations {dilations:?}"
        ));
    }
    let span = |d: usize| (kernel[d] - 1) * dilations[d] + 1;
    let auto = m.word("auto_pad", "NOTSET")?;
    let wanted = match node.ints("output_shape").map_err(Some)? {
        // Some say all dimensions.
        Some(sizes) if sizes.len() == rank + 2 => Some(sizes[2..].to_vec()),
        Some(sizes) if sizes.len() == rank => Some(sizes.to_vec()),
        Some(sizes) => {
            let found = sizes.len();
            return m.fail(format!(
                "attribute 'output_shape' has {found} numbers, expected {rank}"
            ));
        }
        None if auto.starts_with("SAME") => {
            Some((0..rank).map(|d| input[d] * strides[d]).collect())
        }
        None => None,
    };
    if auto == "VALID" {
        pads.fill(0);
    }
    if let Some(wanted) = wanted {
        m.sizes(&wanted)?;
        for d in 0..rank {
            let total = strides[d] * (input[d] - 1) + more[d] + span(d) - wanted[d];
            let less = total.div_euclid(2);
            let (low, high) = match auto.as_str() {
                "SAME_UPPER" => (less, total - less),
                _ => (total - less, less),
            };
            (pads[d], pads[rank + d]) = (low, high);
        }
    }
    let groups = m.int("group", 1)?;
    let w = turned(&mut m, w, groups)?;
    let mut y = x;
    for (d, stride) in strides.iter().enumerate() {
        y = spread(&mut m, y, d + 2, *stride)?;
    }
    let low: Vec<i64> = (0..rank).map(|d| span(d) - 1 - pads[d]).collect();
    let high: Vec<i64> = (0..rank)
        .map(|d| span(d) - 1 - pads[rank + d] + more[d])
        .collect();
    // What a convolution pads itself needs no copy.
    let (ones, inside) = (vec![1; rank], low.iter().chain(&high).all(|n| *n >= 0));
    let around: Vec<i64> = match inside {
        true => low.iter().chain(&high).copied().collect(),
        false => {
            y = bordered(&mut m, y, &low, &high)?;
            vec![0; 2 * rank]
        }
    };
    let y = convolved(&mut m, y, w, bias, (&ones, &around, &dilations, groups))?;
    m.done(y)
}

/// The weights C x O/groups x … of a transposed convolution as those O x C/groups x … of a plain one, from the last tap to the
/// first.
fn turned(m: &mut Make<'_, '_>, w: Value, groups: i64) -> Outcome<Value> {
    let shape = m.shape(w);
    let (c, o) = (shape[0], shape[1]);
    if groups < 1 || c % groups != 0 {
        return m.fail(format!("has {groups} groups for {c} channels"));
    }
    let kernel = &shape[2..];
    let mut y = w;
    for (d, size) in kernel.iter().enumerate() {
        if *size > 1 {
            y = m.along(y, d + 2, size - 1, *size, -1)?;
        }
    }
    let divided = [&[groups, c / groups, o], kernel].concat();
    let y = m.reshape(y, &divided)?;
    let mut perm: Vec<usize> = (0..divided.len()).collect();
    perm.swap(1, 2);
    let y = m.transpose(y, &perm)?;
    m.reshape(y, &[&[groups * o, c / groups], kernel].concat())
}

/// A pool of images or lines as one of volumes: two dimensions, then one.
pub(super) fn pool_of_volumes(
    m: &mut Make<'_, '_>,
    x: Value,
    windows: &Windows,
    ceil_mode: bool,
    average: Option<bool>,
) -> Outcome<Value> {
    let &[n, c, d, h, w] = &m.shape(x)[..] else {
        return m.fail(format!(
            "has an input of rank {}, expected 3 to 5",
            m.rank(x)
        ));
    };
    let part = |list: &[i64], at: &[usize]| at.iter().map(|d| list[*d]).collect::<Vec<i64>>();
    let pool = |m: &mut Make<'_, '_>, x: Value, at: &[usize]| {
        let kernel = match at {
            [one] => vec![windows.kernel[*one], 1],
            at => part(&windows.kernel, at),
        };
        let pair = |list: &[i64]| match at {
            [one] => vec![list[*one], 1],
            at => part(list, at),
        };
        let (strides, dilations) = (pair(&windows.strides), pair(&windows.dilations));
        let pads = match at {
            [one] => vec![windows.pads[*one], 0, windows.pads[3 + one], 0],
            at => [part(&windows.pads, at), part(&windows.pads[3..], at)].concat(),
        };
        match average {
            None => m.op(MaxPool {
                x,
                kernel,
                strides,
                pads,
                dilations,
                ceil_mode,
            }),
            Some(count_include_pad) => m.op(AvgPool {
                x,
                kernel,
                strides,
                pads,
                dilations,
                ceil_mode,
                count_include_pad,
            }),
        }
    };
    let y = m.reshape(x, &[n, c * d, h, w])?;
    let y = pool(m, y, &[1, 2])?;
    let &[_, _, oh, ow] = &m.shape(y)[..] else {
        return m.fail("has no image");
    };
    let y = m.reshape(y, &[n, c, d, oh * ow])?;
    let y = pool(m, y, &[0])?;
    let od = m.shape(y)[2];
    m.reshape(y, &[n, c, od, oh, ow])
}

/// The root of sums of powers of windows: a convolution of each channel with ones.
pub(super) fn lp_pool(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&[
        "auto_pad",
        "ceil_mode",
        "dilations",
        "kernel_shape",
        "p",
        "pads",
        "strides",
    ])?;
    let x = m.operand(0)?;
    let shape = m.shape(x);
    let kernel = node.ints("kernel_shape").map_err(Some)?;
    let kernel = kernel.ok_or_else(|| Some(node.missing("kernel_shape")))?;
    let mut windows = Windows::read(node, spatial(&shape), kernel)?;
    let rank = kernel.len();
    if m.flag("ceil_mode")? {
        // The last window sticks out of the padding: zeros add nothing.
        for d in 0..rank {
            let span = (kernel[d] - 1) * windows.dilations[d] + 1;
            let room = shape[d + 2] + windows.pads[d] + windows.pads[rank + d] - span;
            let rest = room.rem_euclid(windows.strides[d]);
            // No window begins behind the input and the padding before it.
            let begin = room - rest + windows.strides[d];
            if rest != 0 && begin < shape[d + 2] + windows.pads[d] {
                windows.pads[rank + d] += windows.strides[d] - rest;
            }
        }
    }
    let p = match node.attributes.get("p") {
        Some(tir_onnx::AttributeValue::Float(p)) => f64::from(*p),
        _ => m.int("p", 2)? as f64,
    };
    let narrow = m.elem(x);
    let x = m.cast(x, accumulator(narrow))?;
    let powers = powered(&mut m, x, p)?;
    let (elem, channels) = (m.elem(x), shape[1]);
    let one = m.numbers(elem, &[], &[1.0])?;
    let w = m.expand(one, &[&[channels, 1], kernel].concat())?;
    let form = (
        &windows.strides[..],
        &windows.pads[..],
        &windows.dilations[..],
        channels,
    );
    let y = convolved(&mut m, powers, w, None, form)?;
    let y = rooted(&mut m, y, p)?;
    let y = m.cast(y, narrow)?;
    m.done(y)
}

/// `|x|ᵖ`, in the type that sums are accumulated in: squares leave narrow ones.
fn powered(m: &mut Make<'_, '_>, x: Value, p: f64) -> Outcome<Value> {
    if p == 2.0 {
        return m.mul(x, x);
    }
    let size = m.abs(x)?;
    if p == 1.0 {
        return Ok(size);
    }
    let p = m.like(x, p)?;
    m.pow(size, p)
}

fn rooted(m: &mut Make<'_, '_>, x: Value, p: f64) -> Outcome<Value> {
    if p == 1.0 {
        return Ok(x);
    }
    if p == 2.0 {
        return m.sqrt(x);
    }
    let p = m.like(x, 1.0 / p)?;
    m.pow(x, p)
}

/// The norm over all dimensions but the first two; `largest` takes the largest element instead.
pub(super) fn global_pool(cx: &mut Cx<'_>, node: &Node, largest: bool) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(if largest { &[] } else { &["p"] })?;
    let x = m.operand(0)?;
    let axes: Vec<usize> = (2..m.rank(x)).collect();
    let y = if largest {
        m.largest(x, &axes)?
    } else {
        let p = match node.attributes.get("p") {
            Some(tir_onnx::AttributeValue::Float(p)) => f64::from(*p),
            _ => m.int("p", 2)? as f64,
        };
        let narrow = m.elem(x);
        let x = m.cast(x, accumulator(narrow))?;
        let powers = powered(&mut m, x, p)?;
        let sum = m.sum(powers, &axes)?;
        let y = rooted(&mut m, sum, p)?;
        m.cast(y, narrow)?
    };
    m.done(y)
}

/// Elements divided by their norm along a dimension, 0 where that is 0.
pub(super) fn lp_normalization(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&["axis", "p"])?;
    let x = m.operand(0)?;
    let dim = m.dimension(m.int("axis", -1)?, m.rank(x))?;
    let p = m.int("p", 2)? as f64;
    let narrow = m.elem(x);
    let x = m.cast(x, accumulator(narrow))?;
    let powers = powered(&mut m, x, p)?;
    let sum = m.sum(powers, &[dim])?;
    let norm = rooted(&mut m, sum, p)?;
    let none = m.equals(norm, 0.0)?;
    let one = m.like(x, 1.0)?;
    let safe = m.choose(none, one, norm)?;
    let y = m.div(x, safe)?;
    let y = m.cast(y, narrow)?;
    m.done(y)
}

/// The places of the largest elements of windows, counted in the whole input, in row-major order of images, or with rows and
/// columns exchanged: taps are compared with the largest element one after the other, the first one counts.
pub(super) fn places(
    m: &mut Make<'_, '_>,
    x: Value,
    best: Value,
    windows: &Windows,
    columns: bool,
) -> Outcome<Value> {
    let (shape, result) = (m.shape(x), m.shape(best));
    let rank = windows.kernel.len();
    let lowest = match tir_graph::bounds(m.elem(x)) {
        Some([low, _]) => low as f64,
        None => f64::NEG_INFINITY,
    };
    let index = Make::index_type();
    let mut order: Vec<usize> = (0..shape.len()).collect();
    if columns {
        order[2..].reverse();
    }
    let mut strides = vec![1i64; shape.len()];
    for pair in order.windows(2).rev() {
        strides[pair[0]] = strides[pair[1]] * shape[pair[1]];
    }
    let mut numbers = m.numbers(index, &[], &[0.0])?;
    for (d, size) in shape.iter().enumerate() {
        let along = m.counting(index, *size, d, shape.len())?;
        let along = m.times(along, strides[d] as f64)?;
        numbers = m.add(numbers, along)?;
    }
    let (mut low, mut high) = (vec![0; shape.len()], vec![0; shape.len()]);
    for d in 0..rank {
        let span = (windows.kernel[d] - 1) * windows.dilations[d] + 1;
        let reach = (result[d + 2] - 1) * windows.strides[d] + span;
        low[d + 2] = windows.pads[d];
        high[d + 2] = (reach - shape[d + 2] - windows.pads[d]).max(0);
    }
    let x = m.pad(x, &low, &high, lowest)?;
    // Padding is behind all that count.
    let most = shape.iter().product::<i64>() as f64;
    let numbers = m.pad(numbers, &low, &high, most)?;
    let mut found = m.numbers(index, &[], &[most])?;
    let taps = windows
        .kernel
        .iter()
        .fold(1, |n: i64, k| n.saturating_mul(*k));
    m.written(taps)?;
    for tap in 0..taps {
        let (mut rest, mut value, mut number) = (tap, x, numbers);
        for d in (0..rank).rev() {
            let start = rest % windows.kernel[d] * windows.dilations[d];
            rest /= windows.kernel[d];
            let (size, step) = (result[d + 2], windows.strides[d]);
            value = m.along(value, d + 2, start, size, step)?;
            number = m.along(number, d + 2, start, size, step)?;
        }
        let here = m.equal(value, best)?;
        let none = m.like(number, most)?;
        let number = m.choose(here, number, none)?;
        found = m.min(found, number)?;
    }
    Ok(found)
}

/// Columns of windows added up to an image: each tap is spread by the strides, moved to its place, and added.
pub(super) fn col_to_im(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&["dilations", "pads", "strides"])?;
    let image = m.ints(1, "the sizes of an image");
    let block = m.ints(2, "the sizes of a window");
    let (Some(image), Some(block)) = (image?, block?) else {
        return m.fail("has no sizes of an image or of a window");
    };
    let x = m.operand(0)?;
    let rank = image.len();
    let windows = Windows::read(node, &image, &block)?;
    let (strides, pads, dilations) = (&windows.strides, &windows.pads, &windows.dilations);
    let &[n, columns, _] = &m.shape(x)[..] else {
        return m.fail("has no columns");
    };
    let taps = block.iter().fold(1, |n: i64, k| n.saturating_mul(*k));
    m.written(taps)?;
    let count = |d: usize| {
        let span = (block[d] - 1) * dilations[d] + 1;
        (image[d] + pads[d] + pads[rank + d] - span) / strides[d] + 1
    };
    let counts: Vec<i64> = (0..rank).map(count).collect();
    if taps == 0 || columns % taps != 0 || counts.iter().any(|n| *n < 1) {
        return m.fail(format!(
            "has {columns} columns of windows {block:?} on {image:?}"
        ));
    }
    let channels = columns / taps;
    let x = m.reshape(x, &[&[n, channels, taps], &counts[..]].concat())?;
    let mut sum: Option<Value> = None;
    for tap in 0..taps {
        let mut y = m.pick(x, 2, tap)?;
        let (mut low, mut high) = (vec![0; rank], vec![0; rank]);
        let mut rest = tap;
        for d in (0..rank).rev() {
            y = spread(&mut m, y, d + 2, strides[d])?;
            low[d] = rest % block[d] * dilations[d] - pads[d];
            rest /= block[d];
            high[d] = image[d] - low[d] - ((counts[d] - 1) * strides[d] + 1);
        }
        let y = bordered(&mut m, y, &low, &high)?;
        sum = Some(match sum {
            None => y,
            Some(sum) => m.add(sum, y)?,
        });
    }
    match sum {
        Some(sum) => m.done(sum),
        None => m.fail("has no taps"),
    }
}
