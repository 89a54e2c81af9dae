//! What operands may be that decide shapes and are no constants, by operator.

use tir_onnx::Node;

use super::assume::{Case, TRIED};
use super::import::{Cx, Outcome};
use super::make::Make;

/// The cases of a node; none if nothing is known, and its importer may say why.
type Cases = fn(&mut Make<'_, '_>) -> Outcome<Vec<Case>>;

/// Operators, the operands that their importers take as constants, and what these may be.
const OPEN: &[(&str, &[usize], Cases)] = &[
    ("AffineGrid", &[1], affine_grid),
    ("CenterCropPad", &[1], middle),
    ("Col2Im", &[1, 2], columns),
    ("ConstantOfShape", &[0], whole_shape),
    ("CumProd", &[1], along),
    ("CumSum", &[1], along),
    ("DFT", &[1, 2], transform),
    ("Expand", &[1], expand),
    ("Loop", &[0], steps),
    ("MaxUnpool", &[2], pooled),
    ("OneHot", &[1], depth),
    ("ReduceL1", &[1], reduced),
    ("ReduceL2", &[1], reduced),
    ("ReduceLogSum", &[1], reduced),
    ("ReduceLogSumExp", &[1], reduced),
    ("ReduceMax", &[1], reduced),
    ("ReduceMean", &[1], reduced),
    ("ReduceMin", &[1], reduced),
    ("ReduceProd", &[1], reduced),
    ("ReduceSum", &[1], reduced),
    ("ReduceSumSquare", &[1], reduced),
    ("Reshape", &[1], reshape),
    ("Resize", &[3], resized),
    ("STFT", &[1, 3], windows),
    ("Split", &[1], parts),
    ("Squeeze", &[1], squeezed),
    ("Tile", &[1], repeats),
    ("TopK", &[1], first_ones),
    ("Unsqueeze", &[1], unsqueezed),
];

/// The cases of a node that has open operands which its importer takes as constants.
pub(super) fn cases(cx: &mut Cx<'_>, node: &Node) -> Outcome<Option<Vec<Case>>> {
    if !node.domain.is_empty() {
        return Ok(None);
    }
    let row = OPEN.iter().find(|(op, ..)| *op == node.op_type);
    let Some((_, operands, cases)) = row else {
        return Ok(None);
    };
    // What cannot be imported is asked for together with what is said of other operands.
    let broken = (0..node.inputs.len()).any(|k| cx.is_broken(node, k));
    if broken || !operands.iter().any(|k| cx.is_open(node, *k)) {
        return Ok(None);
    }
    let list = cases(&mut Make::new(cx, node))?;
    Ok((!list.is_empty()).then_some(list))
}

fn none<T>() -> Outcome<Vec<T>> {
    Ok(Vec::new())
}

fn reduced(m: &mut Make<'_, '_>) -> Outcome<Vec<Case>> {
    let x = m.operand(0)?;
    let shape = m.shape(x);
    // Which of several dimensions of size 1 it is is the same; which others, the stated shape says.
    m.sets(1, shape.len(), |_| true)
}

fn squeezed(m: &mut Make<'_, '_>) -> Outcome<Vec<Case>> {
    let x = m.operand(0)?;
    let shape = m.shape(x);
    m.sets(1, shape.len(), |d| shape[d] == 1)
}

fn unsqueezed(m: &mut Make<'_, '_>) -> Outcome<Vec<Case>> {
    let x = m.operand(0)?;
    let (_, count) = m.list(1)?;
    let rank = m.rank(x) + count as usize;
    match m.stated(0) {
        Some(whole) if whole.len() == rank => m.sets(1, rank, |d| whole[d] == 1),
        Some(_) => none(),
        None => m.sets(1, rank, |_| true),
    }
}

/// One dimension of several.
fn along(m: &mut Make<'_, '_>) -> Outcome<Vec<Case>> {
    let x = m.operand(0)?;
    let rank = m.rank(x);
    m.sets(1, rank, |_| true)
}

fn reshape(m: &mut Make<'_, '_>) -> Outcome<Vec<Case>> {
    let x = m.operand(0)?;
    let (from, Some(whole)) = (m.shape(x), m.stated(0)) else {
        return none();
    };
    let (list, count) = m.list(1)?;
    if count != whole.len() as i64 {
        return none();
    }
    let keep = !m.flag("allowzero")?;
    let wanted = m.known(&whole)?;
    let mut fits = m.equal(list, wanted)?;
    // What is left, once, if the others say what that is.
    if !whole.contains(&0) {
        let rest = m.equals(list, -1.0)?;
        fits = m.or(fits, rest)?;
    }
    if keep {
        let kept = |d: usize| f64::from(u8::from(from.get(d) == Some(&whole[d])));
        let kept: Vec<f64> = (0..whole.len()).map(kept).collect();
        let kept = m.numbers(tir_core::Type::int(1), &[count], &kept)?;
        let zero = m.equals(list, 0.0)?;
        let kept = m.and(zero, kept)?;
        fits = m.or(fits, kept)?;
    }
    let mut holds = m.all(fits)?;
    if count > 0 {
        let rest = m.equals(list, -1.0)?;
        let rest = m.cast(rest, Make::index_type())?;
        let rest = m.sum(rest, &[0])?;
        let rest = m.reshape(rest, &[])?;
        let once = m.below(rest, 2.0)?;
        holds = m.and(holds, once)?;
    }
    // Zeros that are meant as such.
    let allowed = keep
        && whole
            .iter()
            .enumerate()
            .any(|(d, n)| *n == 0 && from.get(d) != Some(&0));
    match allowed {
        true => none(),
        false => Ok(vec![m.taken(1, whole, holds, "sizes")?]),
    }
}

fn expand(m: &mut Make<'_, '_>) -> Outcome<Vec<Case>> {
    let x = m.operand(0)?;
    let (from, Some(whole)) = (m.shape(x), m.stated(0)) else {
        return none();
    };
    let (list, count) = m.list(1)?;
    let Some(first) = whole.len().checked_sub(count as usize) else {
        return none();
    };
    let wanted = whole[first..].to_vec();
    let known = m.known(&wanted)?;
    let mut fits = m.equal(list, known)?;
    // A size of 1 leaves what is there.
    let kept = |d: &usize| {
        let behind = whole.len() - d;
        let size = from.len().checked_sub(behind).map_or(1, |at| from[at]);
        f64::from(u8::from(size == whole[*d]))
    };
    let kept: Vec<f64> = (first..whole.len()).map(|d| kept(&d)).collect();
    let kept = m.numbers(tir_core::Type::int(1), &[count], &kept)?;
    let one = m.equals(list, 1.0)?;
    let kept = m.and(one, kept)?;
    fits = m.or(fits, kept)?;
    let holds = m.all(fits)?;
    Ok(vec![m.taken(1, wanted, holds, "sizes")?])
}

fn repeats(m: &mut Make<'_, '_>) -> Outcome<Vec<Case>> {
    let x = m.operand(0)?;
    let (from, Some(whole)) = (m.shape(x), m.stated(0)) else {
        return none();
    };
    // Of nothing any number is the same, which is not asked for.
    if from.len() != whole.len() || from.contains(&0) {
        return none();
    }
    let counts: Vec<i64> = from.iter().zip(&whole).map(|(n, all)| all / n).collect();
    Ok(vec![m.case(1, counts, "repeats")?])
}

/// The size of a dimension of the result, which an attribute names.
fn size_of(m: &mut Make<'_, '_>, default: i64, what: &str) -> Outcome<Vec<Case>> {
    let Some(whole) = m.stated(0) else {
        return none();
    };
    let dim = m.dimension(m.int("axis", default)?, whole.len())?;
    Ok(vec![m.case(1, vec![whole[dim]], what)?])
}

fn first_ones(m: &mut Make<'_, '_>) -> Outcome<Vec<Case>> {
    size_of(m, -1, "numbers of elements")
}

fn depth(m: &mut Make<'_, '_>) -> Outcome<Vec<Case>> {
    let x = m.operand(1)?;
    match m.elem(x).is_int() {
        true => size_of(m, -1, "numbers of classes"),
        false => none(),
    }
}

fn parts(m: &mut Make<'_, '_>) -> Outcome<Vec<Case>> {
    let mut sizes = Vec::new();
    for k in 0..m.node.outputs.len() {
        let Some(whole) = m.stated(k) else {
            return none();
        };
        let dim = m.dimension(m.int("axis", 0)?, whole.len())?;
        sizes.push(whole[dim]);
    }
    Ok(vec![m.case(1, sizes, "sizes")?])
}

fn whole_shape(m: &mut Make<'_, '_>) -> Outcome<Vec<Case>> {
    match m.stated(0) {
        Some(whole) => Ok(vec![m.case(0, whole, "sizes")?]),
        None => none(),
    }
}

fn pooled(m: &mut Make<'_, '_>) -> Outcome<Vec<Case>> {
    match m.stated(0) {
        Some(whole) => Ok(vec![m.case(2, whole, "sizes")?]),
        None => none(),
    }
}

fn middle(m: &mut Make<'_, '_>) -> Outcome<Vec<Case>> {
    middle_of(m, 1)
}

/// The sizes of the axes that an attribute names.
fn middle_of(m: &mut Make<'_, '_>, k: usize) -> Outcome<Vec<Case>> {
    let Some(whole) = m.stated(0) else {
        return none();
    };
    let sizes = match m.node.ints("axes").map_err(Some)? {
        None => whole,
        Some(axes) => axes
            .iter()
            .map(|axis| Ok(whole[m.dimension(*axis, whole.len())?]))
            .collect::<Outcome<Vec<i64>>>()?,
    };
    Ok(vec![m.case(k, sizes, "sizes")?])
}

/// Sizes, unless they are only bounds of the one that is made.
fn resized(m: &mut Make<'_, '_>) -> Outcome<Vec<Case>> {
    let policy = m.word("keep_aspect_ratio_policy", "stretch")?;
    match policy.as_str() {
        "stretch" => middle_of(m, 3),
        _ => none(),
    }
}

/// Of a grid; how many channels there are is not to be seen in it, and does not matter.
fn affine_grid(m: &mut Make<'_, '_>) -> Outcome<Vec<Case>> {
    let whole = m.stated(0).unwrap_or_default();
    let [batch, image @ .., _] = &whole[..] else {
        return none();
    };
    let (list, count) = m.list(1)?;
    let sizes = [&[*batch, 1], image].concat();
    if count != sizes.len() as i64 {
        return none();
    }
    let wanted = m.known(&sizes)?;
    let equal = m.equal(list, wanted)?;
    let any: Vec<f64> = (0..count).map(|i| f64::from(u8::from(i == 1))).collect();
    let any = m.numbers(tir_core::Type::int(1), &[count], &any)?;
    let fits = m.or(equal, any)?;
    let holds = m.all(fits)?;
    Ok(vec![m.taken(1, sizes, holds, "sizes")?])
}

/// The image of columns, and windows that have as many places in it as there are columns.
fn columns(m: &mut Make<'_, '_>) -> Outcome<Vec<Case>> {
    let x = m.operand(0)?;
    let (whole, from) = (m.stated(0).unwrap_or_default(), m.shape(x));
    let ([_, channels, image @ ..], &[_, rows, count]) = (&whole[..], &from[..]) else {
        return none();
    };
    if *channels < 1 || rows % channels != 0 {
        return none();
    }
    let (taps, rank) = (rows / channels, image.len());
    let mut blocks: Vec<Vec<i64>> = match m.constant(2) {
        Some(block) => vec![block],
        None => {
            let mut blocks: Vec<Vec<i64>> = vec![Vec::new()];
            for _ in 0..rank {
                let longer = |b: &Vec<i64>| {
                    let rest = taps / b.iter().product::<i64>();
                    let b = b.clone();
                    let divides = (1..=rest).filter(move |n| rest % n == 0);
                    divides.map(move |n| [&b[..], &[n]].concat())
                };
                blocks = blocks.iter().flat_map(longer).collect();
                if blocks.len() > 64 * TRIED {
                    return none();
                }
            }
            blocks
        }
    };
    let list = |name: &str, n: usize, default: i64| -> Outcome<Vec<i64>> {
        let list = m.node.ints(name).map_err(Some)?;
        Ok(list.map_or_else(|| vec![default; n], <[i64]>::to_vec))
    };
    let (pads, strides, dilations) = (
        list("pads", 2 * rank, 0)?,
        list("strides", rank, 1)?,
        list("dilations", rank, 1)?,
    );
    if [pads.len(), strides.len(), dilations.len()] != [2 * rank, rank, rank]
        || strides.iter().any(|s| *s < 1)
    {
        return none();
    }
    blocks.retain(|block| {
        let places = |d: usize| {
            let span = (block[d] - 1) * dilations[d] + 1;
            (image[d] + pads[d] + pads[rank + d] - span).div_euclid(strides[d]) + 1
        };
        block.len() == rank
            && block.iter().product::<i64>() == taps
            && (0..rank).all(|d| places(d) >= 1)
            && (0..rank).map(places).product::<i64>() == count
    });
    if blocks.len() > TRIED {
        return none();
    }
    let mut cases = Vec::new();
    for block in blocks {
        let (mut known, mut holds, mut said) = (Vec::new(), m.truth(true)?, Vec::new());
        for (k, sizes, what) in [(1, image, "image"), (2, &block[..], "window")] {
            if m.is_open(k) {
                let case = m.case(k, sizes.to_vec(), what)?;
                holds = m.and(holds, case.holds)?;
                known.extend(case.known);
                said.push(format!("{sizes:?}"));
            }
        }
        let said = said.join(" and ");
        let what = "sizes of image and window".to_string();
        cases.push(Case {
            known,
            holds,
            what,
            said,
        });
    }
    Ok(cases)
}

/// An axis, and a length that gives the stated number of points.
fn transform(m: &mut Make<'_, '_>) -> Outcome<Vec<Case>> {
    let x = m.operand(0)?;
    let rank = m.rank(x);
    let axes = match m.is_open(2) {
        true => m.sets(2, rank, |d| d + 1 < rank)?,
        false => Vec::new(),
    };
    if !m.is_open(1) {
        return Ok(axes);
    }
    let Some(whole) = m.stated(0) else {
        return none();
    };
    let fixed = match m.constant(2).as_deref() {
        Some([axis]) => *axis,
        _ => m.int(
            "axis",
            if m.node.attributes.contains_key("axis") {
                1
            } else {
                -2
            },
        )?,
    };
    let dims: Vec<(usize, Option<Case>)> = match axes.is_empty() {
        true => vec![(m.dimension(fixed, rank)?, None)],
        false => {
            let at = |case: &Case| case.known[0].1.get_int(0).unwrap_or(0) as usize;
            axes.into_iter()
                .map(|case| (at(&case), Some(case)))
                .collect()
        }
    };
    let mut cases = Vec::new();
    for (d, axis) in dims {
        let points = whole.get(d).copied().unwrap_or(0);
        for length in lengths(points, m.flag("onesided")?) {
            let mut case = m.case(1, vec![length], "lengths and axes")?;
            if let Some(axis) = &axis {
                case.known.extend(axis.known.iter().cloned());
                case.holds = m.and(case.holds, axis.holds)?;
                case.said += &format!(" and {d}");
            }
            cases.push(case);
        }
    }
    Ok(cases)
}

/// How many samples a number of points of a spectrum may be of.
fn lengths(points: i64, onesided: bool) -> Vec<i64> {
    let mut list = match onesided {
        true => vec![2 * points - 2, 2 * points - 1],
        false => vec![],
    };
    list.extend((!list.contains(&points)).then_some(points));
    list.retain(|n| *n > 0);
    list
}

/// Steps and lengths that give the stated number of windows.
fn windows(m: &mut Make<'_, '_>) -> Outcome<Vec<Case>> {
    let x = m.operand(0)?;
    let (whole, from) = (m.stated(0).unwrap_or_default(), m.shape(x));
    let (&[_, count, points, ..], &[_, samples, ..]) = (&whole[..], &from[..]) else {
        return none();
    };
    let sizes = match (m.constant(3), m.optional(2)?) {
        (Some(list), _) => list,
        (None, Some(window)) => m.shape(window),
        (None, None) => lengths(points, m.int("onesided", 1)? != 0),
    };
    let mut cases = Vec::new();
    for size in sizes {
        let steps: Vec<i64> = match m.constant(1) {
            Some(list) => list,
            None if count < 2 => return none(),
            None => (1..=samples)
                .filter(|s| (samples - size).div_euclid(*s) + 1 == count)
                .collect(),
        };
        for step in steps {
            let (mut known, mut holds) = (Vec::new(), m.truth(true)?);
            for (k, n) in [(1, step), (3, size)] {
                if m.is_open(k) {
                    let case = m.case(k, vec![n], "")?;
                    holds = m.and(holds, case.holds)?;
                    known.extend(case.known);
                }
            }
            let (what, said) = ("step and length".to_string(), format!("{step} and {size}"));
            cases.push(Case {
                known,
                holds,
                what,
                said,
            });
        }
        if cases.len() > TRIED {
            return none();
        }
    }
    Ok(cases)
}

/// Steps of a loop that collects values, of which the file states how many there are.
fn steps(m: &mut Make<'_, '_>) -> Outcome<Vec<Case>> {
    let carried = m.node.inputs.len().saturating_sub(2);
    let lists = carried..m.node.outputs.len();
    let Some(count) = lists
        .filter_map(|k| m.stated(k).and_then(|shape| shape.first().copied()))
        .next()
    else {
        return none();
    };
    let mut case = m.case(0, vec![count], "steps")?;
    if m.is_open(1) {
        let goes_on = m.operand(1)?;
        let goes_on = m.reshape(goes_on, &[])?;
        case.holds = m.and(case.holds, goes_on)?;
        let truth = m.truth(true)?;
        let truth = m.cx.constant_of(truth);
        case.known.extend(truth.map(|array| (1, array)));
    }
    Ok(vec![case])
}
