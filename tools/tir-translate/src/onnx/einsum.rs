//! The importer of `Einsum`: operands are multiplied one after the other, each pair as a product of matrices.

use tir_core::Value;
use tir_onnx::Node;

use super::import::{Cx, Outcome};
use super::make::Make;

/// A tensor with a letter for each dimension; dots stand for numbered ones.
#[derive(Clone)]
struct Term {
    x: Value,
    letters: Vec<char>,
}

/// The letters of the dimensions that dots stand for: private ones of Unicode, the last dimension's the first.
fn dots(count: usize) -> Vec<char> {
    let letter = |i: usize| char::from_u32(0xE000 + i as u32).unwrap_or('.');
    (0..count).rev().map(letter).collect()
}

/// The letters of a term of this rank; dots stand for what is left.
fn letters(m: &Make<'_, '_>, text: &str, rank: usize) -> Outcome<Vec<char>> {
    let plain = text.chars().filter(char::is_ascii_alphabetic).count();
    let letters = match text.split_once("...") {
        None => text.chars().collect::<Vec<char>>(),
        Some((before, behind)) => {
            let Some(left) = rank.checked_sub(plain) else {
                return m.fail(format!("has term '{text}' for rank {rank}"));
            };
            let list = before.chars().chain(dots(left)).chain(behind.chars());
            list.collect()
        }
    };
    let known = |c: &char| c.is_ascii_alphabetic() || *c >= '\u{E000}';
    if letters.len() != rank || !letters.iter().all(known) {
        return m.fail(format!("has term '{text}' for rank {rank}"));
    }
    Ok(letters)
}

/// A letter that stands twice keeps the diagonal.
fn without_doubles(m: &mut Make<'_, '_>, mut term: Term) -> Outcome<Term> {
    while let Some((a, b)) = double(&term.letters) {
        let size = m.shape(term.x)[a];
        if size != m.shape(term.x)[b] {
            return m.fail(format!("takes a diagonal of {:?}", m.shape(term.x)));
        }
        // Side by side, both are one dimension in which the diagonal has steps of size + 1.
        let rank = term.letters.len();
        let mut perm: Vec<usize> = (0..rank).filter(|d| *d != a && *d != b).collect();
        perm.extend([a, b]);
        let x = m.transpose(term.x, &perm)?;
        let mut shape = m.shape(x);
        shape.truncate(rank - 2);
        shape.push(size * size);
        let x = m.reshape(x, &shape)?;
        let x = m.along(x, rank - 2, 0, size, size + 1)?;
        let letter = term.letters[a];
        let mut letters: Vec<char> = perm[..rank - 2].iter().map(|d| term.letters[*d]).collect();
        letters.push(letter);
        term = Term { x, letters };
    }
    Ok(term)
}

fn double(letters: &[char]) -> Option<(usize, usize)> {
    (0..letters.len()).find_map(|b| Some((letters[..b].iter().position(|c| *c == letters[b])?, b)))
}

/// Without the letters that are wanted no more: sums over them.
fn summed(m: &mut Make<'_, '_>, term: Term, wanted: &[char]) -> Outcome<Term> {
    let gone: Vec<usize> = (0..term.letters.len())
        .filter(|d| !wanted.contains(&term.letters[*d]))
        .collect();
    if gone.is_empty() {
        return Ok(term);
    }
    let y = m.sum(term.x, &gone)?;
    let kept = |d: &usize| !gone.contains(d);
    let shape = m.shape(y);
    let dims: Vec<usize> = (0..shape.len()).filter(kept).collect();
    let shape: Vec<i64> = dims.iter().map(|d| shape[*d]).collect();
    Ok(Term {
        x: m.reshape(y, &shape)?,
        letters: dims.iter().map(|d| term.letters[*d]).collect(),
    })
}

/// Dimensions in the order of letters, those that are not there with size 1.
fn ordered(m: &mut Make<'_, '_>, term: &Term, order: &[char]) -> Outcome<Value> {
    let at = |c: &char| term.letters.iter().position(|l| l == c);
    let perm: Vec<usize> = order.iter().filter_map(at).collect();
    let x = m.transpose(term.x, &perm)?;
    let mut sizes = m.shape(x).into_iter();
    let shape: Vec<i64> = order
        .iter()
        .map(|c| match at(c) {
            Some(_) => sizes.next().unwrap_or(1),
            None => 1,
        })
        .collect();
    m.reshape(x, &shape)
}

/// The product of two terms, summed over what is wanted no more.
fn product(m: &mut Make<'_, '_>, a: Term, b: Term, wanted: &[char]) -> Outcome<Term> {
    let both = [&a.letters[..], wanted].concat();
    let b = summed(m, b, &both)?;
    let both = [&b.letters[..], wanted].concat();
    let a = summed(m, a, &both)?;
    let inner: Vec<char> = a
        .letters
        .iter()
        .copied()
        .filter(|c| b.letters.contains(c) && !wanted.contains(c))
        .collect();
    let batch: Vec<char> = a
        .letters
        .iter()
        .copied()
        .filter(|c| b.letters.contains(c) && wanted.contains(c))
        .collect();
    let own = |t: &Term, o: &Term| -> Vec<char> {
        t.letters
            .iter()
            .copied()
            .filter(|c| !o.letters.contains(c))
            .collect()
    };
    let (left, right) = (own(&a, &b), own(&b, &a));
    let size = |m: &Make<'_, '_>, c: &char| {
        let of = |t: &Term| {
            t.letters
                .iter()
                .position(|l| l == c)
                .map(|d| m.shape(t.x)[d])
        };
        of(&a).unwrap_or(1).max(of(&b).unwrap_or(1))
    };
    let sizes =
        |m: &Make<'_, '_>, list: &[char]| list.iter().map(|c| size(m, c)).collect::<Vec<i64>>();
    let letters = [&batch[..], &left, &right].concat();
    let even = inner.iter().chain(&batch).all(|c| {
        let of = |t: &Term| {
            t.letters
                .iter()
                .position(|l| l == c)
                .map(|d| m.shape(t.x)[d])
        };
        of(&a) == of(&b)
    });
    if inner.is_empty() || !m.elem(a.x).is_float() || !even {
        // Elements are multiplied, and summed up.
        let order = [&letters[..], &inner].concat();
        let (x, y) = (ordered(m, &a, &order)?, ordered(m, &b, &order)?);
        let x = m.mul(x, y)?;
        return summed(m, Term { x, letters: order }, &letters);
    }
    let count = |list: &[i64]| list.iter().product::<i64>();
    let (bs, ls, rs, is) = (
        sizes(m, &batch),
        sizes(m, &left),
        sizes(m, &right),
        sizes(m, &inner),
    );
    let x = ordered(m, &a, &[&batch[..], &left, &inner].concat())?;
    let x = m.reshape(x, &[&bs[..], &[count(&ls), count(&is)]].concat())?;
    let y = ordered(m, &b, &[&batch[..], &inner, &right].concat())?;
    let y = m.reshape(y, &[&bs[..], &[count(&is), count(&rs)]].concat())?;
    let y = m.matmul(x, y)?;
    let x = m.reshape(y, &[bs, ls, rs].concat())?;
    Ok(Term { x, letters })
}

pub(super) fn einsum(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&["equation"])?;
    let Some(equation) = node.string("equation").map_err(Some)? else {
        return Err(Some(node.missing("equation")));
    };
    let equation: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    let (left, right) = match equation.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (equation.as_str(), None),
    };
    let texts: Vec<&str> = left.split(',').collect();
    if texts.len() != node.inputs.len() {
        let (found, wanted) = (node.inputs.len(), texts.len());
        return m.fail(format!("has {found} operands for {wanted} terms"));
    }
    let mut terms = Vec::new();
    for (k, text) in texts.iter().enumerate() {
        let x = m.operand(k)?;
        let letters = letters(&m, text, m.rank(x))?;
        terms.push(without_doubles(&mut m, Term { x, letters })?);
    }
    // Dots stand for as many dimensions as they do in the longest term.
    let most = terms
        .iter()
        .map(|t| t.letters.iter().filter(|c| **c >= '\u{E000}').count())
        .max();
    let hidden = dots(most.unwrap_or(0));
    let result: Vec<char> = match right {
        Some(text) => match text.split_once("...") {
            Some((before, behind)) => before.chars().chain(hidden).chain(behind.chars()).collect(),
            None => text.chars().collect(),
        },
        None => {
            // What stands once, in the order of the alphabet, behind the dots.
            let all: Vec<char> = left.chars().filter(char::is_ascii_alphabetic).collect();
            let mut once: Vec<char> = all
                .iter()
                .copied()
                .filter(|c| all.iter().filter(|o| *o == c).count() == 1)
                .collect();
            once.sort_unstable();
            hidden.into_iter().chain(once).collect()
        }
    };
    if double(&result).is_some()
        || !result
            .iter()
            .all(|c| terms.iter().any(|t| t.letters.contains(c)))
    {
        return m.fail(format!(
            "has equation '{equation}', whose result is not of its terms"
        ));
    }
    let mut rest = terms.into_iter();
    let Some(mut whole) = rest.next() else {
        return m.fail("has no operands");
    };
    while let Some(next) = rest.next() {
        let later: Vec<char> = rest.clone().flat_map(|t| t.letters).collect();
        let wanted = [&result[..], &later].concat();
        whole = product(&mut m, whole, next, &wanted)?;
    }
    let whole = summed(&mut m, whole, &result)?;
    let y = ordered(&mut m, &whole, &result)?;
    m.done(y)
}
