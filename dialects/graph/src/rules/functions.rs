//! The guards of the rules, and the functions that compute attributes and types.

use tir::{Arg, Attr, AttrValue, FloatType, IntType, PatternSet, Type};

use crate::number::Number;
use crate::shape::broadcast;

/// The static shape of a value or type.
pub(super) fn shape(arg: &Arg) -> Option<&'static [i64]> {
    arg.ty()?.shape().filter(|s| s.iter().all(|d| *d >= 0))
}

fn axis_of(arg: &Arg, rank: usize) -> Option<usize> {
    usize::try_from(arg.int()?).ok().filter(|a| *a < rank)
}

/// The last dimensions of a shape, those that are missing being 1; `None` if others are not 1.
fn last<const N: usize>(shape: &[i64]) -> Option<[i64; N]> {
    let mut dims = [1; N];
    for (i, dim) in shape.iter().rev().enumerate() {
        match dims.len().checked_sub(i + 1) {
            Some(at) => dims[at] = *dim,
            None if *dim == 1 => {}
            None => return None,
        }
    }
    Some(dims)
}

/// The number of channels of what is one number for each channel of an image: 1 x C x 1 x 1 with
/// leading ones left out.
fn channels(arg: &Arg) -> Option<i64> {
    let found = shape(arg)?;
    match last::<4>(found)? {
        [1, c, 1, 1] if found.len() <= 4 => Some(c),
        _ => None,
    }
}

fn tensor(shape: impl Into<Vec<i64>>, like: &Arg) -> Option<Attr> {
    Some(Attr::ty(Type::tensor(shape, like.ty()?.elem())))
}

fn number(arg: &Arg) -> Option<f64> {
    Some(Number::from_attr(arg.attr()?)?.0)
}

/// A list with one function of the numbers at each place of two lists.
fn zip(a: &Arg, b: &Arg, f: impl Fn(i64, i64) -> i64) -> Option<Attr> {
    let (a, b) = (a.ints()?, b.ints()?);
    let pairs = a.iter().zip(&b).map(|(a, b)| f(*a, *b));
    (a.len() == b.len()).then(|| Attr::ints(&pairs.collect::<Vec<_>>()))
}

fn compose(p: &[i64], q: &[i64]) -> Option<Vec<i64>> {
    let at = |i: &i64| p.get(usize::try_from(*i).ok()?).copied();
    q.iter().map(at).collect()
}

fn inverse(p: &[i64]) -> Option<Vec<i64>> {
    let find = |i: usize| p.iter().position(|d| *d == i as i64).map(|at| at as i64);
    (0..p.len()).map(find).collect()
}

/// Pads that keep the size of an image at stride 1; the kernel is as large as the largest of these
/// weights, as it is if they are broadcast.
fn same_pads(weights: &[Arg]) -> Option<Vec<i64>> {
    let mut kernel = [1, 1];
    for weights in weights {
        let found = shape(weights)?.get(2..4)?;
        (0..2).for_each(|i| kernel[i] = kernel[i].max(found[i]));
    }
    let [h, w] = kernel.map(|k| k - 1);
    Some(vec![h / 2, w / 2, h - h / 2, w - w / 2])
}

/// Whether a condition that could be computed holds.
fn holds(found: Option<bool>) -> bool {
    found == Some(true)
}

/// Adds all.
pub(super) fn register(set: &mut PatternSet) {
    of_values(set);
    of_images(set);
    of_orders(set);
    of_parts(set);
    numbers(set);
}

fn of_values(set: &mut PatternSet) {
    set.guard("varies", |a| matches!(a, [Arg::Value(_, None)]))
        .guard(
            "same-type",
            |a| holds((|| Some(a[0].ty()? == a[1].ty()?))()),
        )
        .guard("same-rank", |a| {
            holds((|| Some(shape(&a[0])?.len() == shape(&a[1])?.len()))())
        })
        .guard("has-rank", |a| {
            holds((|| Some(shape(&a[0])?.len() as i64 == a[1].int()?))())
        })
        // Numbers, no truth values.
        .guard("has-numbers", |a| {
            a[0].ty().is_some_and(|ty| ty.elem().bits() != Some(1))
        })
        .guard("has-signs", |a| {
            let of_integers =
                |ty: Type| ty.elem().get::<IntType>().is_some_and(|i| !i.is_unsigned());
            a[0].ty()
                .is_some_and(|ty| ty.elem().is_float() || of_integers(ty))
        })
        .guard("has-floats", |a| {
            a[0].ty().is_some_and(|ty| ty.elem().is_float())
        })
        .guard("no-zero", |a| shape(&a[0]).is_some_and(|s| !s.contains(&0)))
        // Equal types but for one dimension.
        .guard("same-but", |a| {
            holds((|| {
                let (x, y) = (shape(&a[0])?, shape(&a[1])?);
                let at = axis_of(&a[2], x.len())?;
                let fits = (0..x.len()).all(|d| d == at || y.get(d) == Some(&x[d]));
                Some(fits && x.len() == y.len() && a[0].ty()?.elem() == a[1].ty()?.elem())
            })())
        })
        .guard("broadcasts-to", |a| {
            holds((|| {
                let both = broadcast(shape(&a[0])?, shape(&a[1])?).ok()?;
                Some(both == shape(&a[2])?)
            })())
        })
        .guard("has-fewer", |a| {
            holds((|| Some(a[0].ty()?.elements()? < a[1].ty()?.elements()?))())
        })
        // What is multiplied with rows of a matrix, or columns, as one number for each.
        .guard("one-row", |a| {
            shape(&a[0]).is_some_and(|s| s.len() < 2 || s[s.len() - 2] == 1)
        })
        .guard("one-column", |a| {
            shape(&a[0]).is_some_and(|s| s.last().is_none_or(|d| *d == 1))
        });
    set.attr_fn("last-axis", |a| {
        Some(Attr::i64(shape(&a[0])?.len().checked_sub(1)? as i64))
    })
    .attr_fn("row-axis", |a| {
        Some(Attr::i64(shape(&a[0])?.len().checked_sub(2)? as i64))
    })
    .attr_fn("zeros", |a| Some(Attr::ints(&vec![0; shape(&a[0])?.len()])))
    .attr_fn("ones", |a| Some(Attr::ints(&vec![1; shape(&a[0])?.len()])))
    // Where a part begins that lies behind one of this type.
    .attr_fn("behind", |a| {
        let shape = shape(&a[0])?;
        let at = axis_of(&a[1], shape.len())?;
        let mut starts = vec![0; shape.len()];
        starts[at] = shape[at];
        Some(Attr::ints(&starts))
    });
}

fn of_images(set: &mut PatternSet) {
    set.guard("by-channel", |a| channels(&a[0]).is_some())
        // One number, or one for each filter; or one filter, which is repeated.
        .guard("channels-fit", |a| {
            holds((|| {
                let (c, filters) = (channels(&a[0])?, *shape(&a[1])?.first()?);
                Some(c == 1 || c == filters)
            })())
        })
        .guard("bias-of", |a| {
            holds((|| Some(channels(&a[0])? == *shape(&a[1])?.first()?))())
        })
        // Ones behind some dimensions are repeated, and each is joined with the dimension before it. That an element of the
        // result is one of the input by its number over the times is right in f32 below 2^24.
        .guard("repeats", |a| {
            holds((|| {
                let [x, apart, repeated, whole] =
                    [shape(&a[0])?, shape(&a[1])?, shape(&a[2])?, shape(&a[3])?];
                let mut at = 0;
                for (size, whole) in x.iter().zip(whole) {
                    let own = apart.get(at) == Some(size) && repeated.get(at) == Some(size);
                    if !own || *size < 1 || whole % size != 0 || *whole >= 1 << 24 {
                        return Some(false);
                    }
                    at += 1;
                    if whole > size {
                        let times = repeated.get(at) == Some(&(whole / size));
                        if !times || apart.get(at) != Some(&1) {
                            return Some(false);
                        }
                        at += 1;
                    }
                }
                let all = x.len() == whole.len() && at == apart.len() && at == repeated.len();
                Some(all && x != whole)
            })())
        })
        .guard("resizes-pixels", |a| {
            let scales = match &a[2] {
                Arg::Absent => Some(true),
                scales => (|| {
                    let scales = scales.attr()?.get::<tir::ArrayAttr>()?;
                    Some(scales.0.get(..2)?.iter().all(|s| s.as_float() == Some(1.0)))
                })(),
            };
            let sizes = (|| Some(shape(&a[0])?.get(..2)? == shape(&a[1])?.get(..2)?))();
            holds(scales) && holds(sizes)
        })
        .guard("kernel-is", |a| {
            holds((|| {
                Some(shape(&a[0])?.get(2..4)? == [a[1].int()?, a[2].int()?])
            })())
        })
        .guard("around-pixels", |a| {
            let none = |list: &Arg| {
                list.ints()
                    .is_some_and(|l| l.len() == 4 && l[..2] == [0, 0])
            };
            none(&a[0]) && none(&a[1])
        })
        // Whether pads are those of a window that these weights have, so that sizes stay.
        .guard("has-same-pads", |a| {
            holds((|| Some(a[0].ints()? == same_pads(&a[1..])?))())
        })
        // Whether every window has an element of the image: padding before and behind is less than
        // the window, and elements of a window that begins in it do not step over the image.
        .guard("has-inside", |a| {
            holds((|| {
                let (k, p, d) = (a[0].ints()?, a[1].ints()?, a[2].ints()?);
                let span = |i: usize| Some((k.get(i)? - 1) * d.get(i)? + 1);
                let steps_on = |i: usize| d.get(i) == Some(&1) || p.get(i) == Some(&0);
                let inside = |i: usize| holds(span(i % 2).zip(p.get(i)).map(|(s, p)| *p < s));
                Some((0..4).all(inside) && (0..2).all(steps_on))
            })())
        });
    set.attr_fn("by-filter", |a| tensor([channels(&a[0])?, 1, 1, 1], &a[0]))
        .attr_fn("flat", |a| tensor([channels(&a[0])?], &a[0]))
        .attr_fn("filters-of", |a| {
            tensor([*shape(&a[0])?.first()?, 1, 1, 1], &a[0])
        })
        .attr_fn("channels-of", |a| {
            let mut dims = vec![1; shape(&a[1])?.len().checked_sub(1)?];
            *dims.first_mut()? = *shape(&a[0])?.first()?;
            tensor(dims, &a[0])
        })
        .attr_fn("column", |a| tensor([*shape(&a[0])?.first()?, 1], &a[0]))
        .attr_fn("filter-matrix", |a| tensor(shape(&a[0])?.get(..2)?, &a[0]))
        .attr_fn("pixel-matrix", |a| match *shape(&a[0])? {
            [n, c, h, w] => tensor([n, c, h.checked_mul(w)?], &a[0]),
            _ => None,
        })
        .attr_fn("as-pixels", |a| match *shape(&a[0])? {
            [n, c, p] => tensor([n, c, p, 1], &a[0]),
            _ => None,
        })
        .attr_fn("as-filters", |a| match *shape(&a[0])? {
            [o, i] => tensor([o, i, 1, 1], &a[0]),
            _ => None,
        })
        // Pads are top, left, bottom, right.
        .attr_fn("more-pads", |a| {
            let (p, l, h) = (a[0].ints()?, a[1].ints()?, a[2].ints()?);
            let (&[t, b, c, d], &[.., l2, l3], &[.., h2, h3]) = (&p[..], &l[..], &h[..]) else {
                return None;
            };
            Some(Attr::ints(&[t + l2, b + l3, c + h2, d + h3]))
        })
        .attr_fn("pads-before", |a| {
            Some(Attr::ints(&[
                0,
                0,
                *a[0].ints()?.first()?,
                *a[0].ints()?.get(1)?,
            ]))
        })
        .attr_fn("pads-behind", |a| {
            Some(Attr::ints(&[
                0,
                0,
                *a[0].ints()?.get(2)?,
                *a[0].ints()?.get(3)?,
            ]))
        })
        .attr_fn("wider-pads", |a| {
            match (&a[0].ints()?[..], &a[1].ints()?[..]) {
                (&[t, l, b, r], &[v, h]) => Some(Attr::ints(&[t + v, l + h, b + v, r + h])),
                _ => None,
            }
        })
        .attr_fn("higher-pads", |a| {
            match (&a[0].ints()?[..], &a[1].ints()?[..]) {
                (&[t, l, b, r], &[v, _]) => Some(Attr::ints(&[t + v, l, b + v, r])),
                _ => None,
            }
        })
        // Pads that keep the size at stride 1, for the largest of these kernels.
        .attr_fn("same-pads", |a| Some(Attr::ints(&same_pads(a)?)))
        .attr_fn("kernel-of-both", |a| zip(&a[0], &a[1], |k, l| k + l - 1))
        // The part of weights for the channels of an input.
        .attr_fn("first-inputs", |a| {
            let mut sizes = shape(&a[0])?.to_vec();
            *sizes.get_mut(1)? = *shape(&a[1])?.get(1)?;
            Some(Attr::ints(&sizes))
        })
        .attr_fn("behind-inputs", |a| {
            Some(Attr::ints(&[0, *shape(&a[0])?.get(1)?, 0, 0]))
        });
}

fn of_orders(set: &mut PatternSet) {
    set.guard("is-identity", |a| {
        a[0].ints()
            .is_some_and(|p| p.iter().copied().eq(0..p.len() as i64))
    })
    .guard("swaps-matrix", |a| {
        holds((|| {
            let p = a[0].ints()?;
            let n = p.len() as i64;
            let wanted = (0..n - 2).chain([n - 1, n - 2]);
            Some(n >= 2 && p.iter().copied().eq(wanted))
        })())
    })
    .guard("moves-units", |a| {
        holds((|| {
            let (shape, p) = (shape(&a[0])?, a[1].ints()?);
            let large = p.iter().filter(|d| shape.get(**d as usize) != Some(&1));
            Some(large.is_sorted())
        })())
    })
    // Whether dimensions that are not reduced keep their order.
    .guard("keeps-order", |a| {
        holds((|| {
            let (axes, p) = (a[0].ints()?, a[1].ints()?);
            let kept = (0..p.len() as i64).filter(|d| !axes.contains(d));
            Some(kept.map(|d| p[d as usize]).is_sorted())
        })())
    })
    .guard("last-dims", |a| {
        holds((|| {
            let (dims, rank) = (a[0].ints()?, shape(&a[1])?.len() as i64);
            let from = rank - dims.len() as i64;
            Some(!dims.is_empty() && dims == (from..rank).collect::<Vec<i64>>())
        })())
    })
    .guard("is-last", |a| {
        holds((|| {
            let rank = shape(&a[1])?.len().max(shape(&a[2])?.len());
            Some(a[0].int()? + 1 == rank as i64)
        })())
    });
    set.attr_fn("compose", |a| {
        Some(Attr::ints(&compose(&a[0].ints()?, &a[1].ints()?)?))
    })
    .attr_fn("inverse", |a| Some(Attr::ints(&inverse(&a[0].ints()?)?)))
    .attr_fn("at", |a| {
        let (list, at) = (a[0].ints()?, usize::try_from(a[1].int()?).ok()?);
        Some(Attr::i64(*list.get(at)?))
    })
    .attr_fn("axes-before", |a| {
        let mut axes = compose(&a[1].ints()?, &a[0].ints()?)?;
        axes.sort_unstable();
        Some(Attr::ints(&axes))
    })
    .attr_fn("list", |a| Some(Attr::ints(&[a[0].int()?])))
    .attr_fn("dims-from", |a| {
        let rank = shape(&a[1])?.len();
        let from = axis_of(&a[0], rank)?;
        let dims: Vec<i64> = (from as i64..rank as i64).collect();
        Some(Attr::ints(&dims))
    })
    .attr_fn("axes-of-both", |a| {
        let mut axes = a[0].ints()?;
        axes.extend(a[1].ints()?);
        axes.sort_unstable();
        axes.dedup();
        Some(Attr::ints(&axes))
    });
}

fn of_parts(set: &mut PatternSet) {
    set.guard("all-one", |a| {
        a[0].ints().is_some_and(|l| l.iter().all(|n| *n == 1))
    })
    // Whether a part of a concatenation along a dimension lies in this operand: starts, sizes
    // and steps, the first counted from where the operand begins.
    .guard("lies-inside", |a| {
        holds((|| {
            let shape = shape(&a[0])?;
            let at = axis_of(&a[1], shape.len())?;
            let list = |i: usize| a[i].ints()?.get(at).copied();
            let (start, size, step) = (list(2)?, list(3)?, list(4)?);
            let last = (size - 1).checked_mul(step)?.checked_add(start)?;
            let inside = |i: i64| (0..shape[at]).contains(&i);
            Some(size > 0 && inside(start) && inside(last))
        })())
    })
    // Whether one slice goes on where the other ends, in this dimension and no other.
    .guard("adjacent", |a| {
        holds((|| {
            let (b, n, c, s) = (a[0].ints()?, a[1].ints()?, a[2].ints()?, a[3].ints()?);
            let at = axis_of(&a[4], b.len())?;
            let next = n.get(at)?.checked_mul(*s.get(at)?)?.checked_add(b[at])?;
            let rest = (0..b.len()).all(|d| d == at || c.get(d) == Some(&b[d]));
            Some(rest && c.get(at) == Some(&next))
        })())
    })
    .guard("steps-fit", |a| {
        holds((|| {
            let (s, t) = (a[0].ints()?, a[1].ints()?);
            let product = |(s, t): (&i64, &i64)| s.checked_mul(*t).is_some();
            Some(s.iter().zip(&t).all(product))
        })())
    });
    // Whether a slice takes all of every other dimension.
    set.guard("is-whole-but", |a| {
        holds((|| {
            let shape = shape(&a[0])?;
            let at = axis_of(&a[4], shape.len())?;
            let (b, n, s) = (a[1].ints()?, a[2].ints()?, a[3].ints()?);
            let whole = |d: usize| Some((*b.get(d)?, *n.get(d)?, *s.get(d)?) == (0, shape[d], 1));
            let mut others = (0..shape.len()).filter(|d| *d != at);
            Some(others.all(|d| whole(d) == Some(true)))
        })())
    })
    // Whether a part of a concatenation along a dimension begins and ends behind these operands.
    .guard("lies-behind", |a| {
        holds((|| {
            let (first, rest) = a.split_at_checked(4)?;
            let rank = first[1].ints()?.len();
            let at = axis_of(&first[0], rank)?;
            let list = |i: usize| first[i].ints()?.get(at).copied();
            let (start, size, step) = (list(1)?, list(2)?, list(3)?);
            let last = (size - 1).checked_mul(step)?.checked_add(start)?;
            let sizes = rest.iter().map(|x| shape(x)?.get(at).copied());
            let before = sizes.sum::<Option<i64>>()?;
            Some(size > 0 && start.min(last) >= before)
        })())
    });
    set.attr_fn("starts-of-part", |a| {
        let (shape, sizes) = (shape(&a[0])?, a[2].ints()?);
        let at = axis_of(&a[1], shape.len())?;
        let before = sizes.get(..usize::try_from(a[3].int()?).ok()?)?;
        let mut starts = vec![0; shape.len()];
        starts[at] = before.iter().sum();
        Some(Attr::ints(&starts))
    })
    .attr_fn("with", |a| {
        let mut list = a[0].ints()?;
        let at = axis_of(&a[1], list.len())?;
        list[at] = a[2].int()?;
        Some(Attr::ints(&list))
    })
    .attr_fn("start-behind", |a| {
        let (mut starts, shape) = (a[0].ints()?, shape(&a[1])?);
        let at = axis_of(&a[2], shape.len())?;
        *starts.get_mut(at)? -= shape[at];
        Some(Attr::ints(&starts))
    })
    .attr_fn("start-of-both", |a| {
        let (outer, steps, inner) = (a[0].ints()?, a[1].ints()?, a[2].ints()?);
        let one = |d: usize| {
            inner
                .get(d)?
                .checked_mul(*steps.get(d)?)?
                .checked_add(outer[d])
        };
        let starts: Option<Vec<i64>> = (0..outer.len()).map(one).collect();
        Some(Attr::ints(&starts?))
    })
    .attr_fn("product", |a| zip(&a[0], &a[1], |s, t| s.wrapping_mul(t)))
    .attr_fn("joined", |a| {
        let (mut n, m) = (a[0].ints()?, a[1].ints()?);
        let at = axis_of(&a[2], n.len())?;
        n[at] = n[at].checked_add(*m.get(at)?)?;
        Some(Attr::ints(&n))
    });
}

fn numbers(set: &mut PatternSet) {
    set.guard("is-zero", |a| number(&a[0]) == Some(0.0))
        .guard("is-absent", |a| matches!(a, [Arg::Absent]));
    set
        // The zero of the elements of a value.
        .attr_fn("zero", |a| {
            let elem = a[0].ty()?.elem();
            match elem.is::<FloatType>() {
                true => Some(Attr::float(0.0, elem)),
                false => Some(Attr::int(0, elem)),
            }
        })
        // The elements of a type, all this number.
        .attr_fn("scalar", |a| {
            let ty = Type::tensor([], a[1].ty()?.elem());
            tir::rewrite::Literal::Float(number(&a[0])?).constant(ty)
        })
        .attr_fn("only-number", |a| {
            let array = tir::interp::elements(a[0].attr()?).ok()?;
            let mut numbers = array.iter_f64();
            let first = numbers.next().filter(|x| x.is_finite())?;
            numbers.next().is_none().then(|| Number(first).to_attr())
        })
        .attr_fn("splat", |a| {
            let ty = a[1].ty()?;
            tir::rewrite::Literal::Float(number(&a[0])?).constant(ty)
        })
        // Filters that make means of windows: one for each channel of an image, all elements one of their number.
        .attr_fn("mean-filters", |a| {
            let (image, kernel) = (shape(&a[0])?, a[1].ints()?);
            let (&[_, channels, ..], &[h, w]) = (image, &kernel[..]) else {
                return None;
            };
            let points = h.checked_mul(w).filter(|points| *points > 0)?;
            let ty = Type::tensor([channels, 1, h, w], a[0].ty()?.elem());
            tir::rewrite::Literal::Float(1.0 / points as f64).constant(ty)
        })
        // Filters of one element that turn the sign of each channel of an image.
        .attr_fn("minus-filters", |a| {
            let channels = *shape(&a[0])?.get(1)?;
            let ty = Type::tensor([channels, 1, 1, 1], a[0].ty()?.elem());
            tir::rewrite::Literal::Float(-1.0).constant(ty)
        })
        // The same number for each channel of an image.
        .attr_fn("channel-splat", |a| {
            let channels = *shape(&a[1])?.get(1)?;
            let ty = Type::tensor([channels], a[1].ty()?.elem());
            tir::rewrite::Literal::Float(number(&a[0])?).constant(ty)
        })
        // A lower bound, or (if absent) none, raised to another.
        .attr_fn("raise-low", |a| match (number(&a[0]), number(&a[1])) {
            (Some(x), Some(y)) => Some(Number(x.max(y)).to_attr()),
            (Some(x), None) | (None, Some(x)) => Some(Number(x).to_attr()),
            (None, None) => None,
        })
        // An upper bound raised to a number; one that is absent is above every number.
        .attr_fn("raise-high", |a| {
            Some(Number(number(&a[0])?.max(number(&a[1])?)).to_attr())
        })
        // The upper bound of two clips, given the upper bounds and between them the lower one of
        // the second.
        .attr_fn("bound-high", |a| {
            let first = match (number(&a[0]), number(&a[1])) {
                (Some(high), Some(low)) => Some(high.max(low)),
                (high, _) => high,
            };
            match (first, number(&a[2])) {
                (Some(x), Some(y)) => Some(Number(x.min(y)).to_attr()),
                (Some(x), None) | (None, Some(x)) => Some(Number(x).to_attr()),
                (None, None) => None,
            }
        });
}
