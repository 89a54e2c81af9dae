//! Parts of a tensor that stays which engines bring to its home, beside those that nests compute there.
//!
//! A tensor that is put together has parts of several kinds: what a nest computes on a unit is computed into its place
//! ([`super`]); what others read, too, or what no unit computes lies in far memory, and is loaded into its place; and what an engine
//! would only copy in another order, as pixels that are repeated, from far memory to far memory, is loaded in that order, and the
//! nest that would copy it is none. All is loaded before the first nest that reads the home.
//!
//! A dimension of the home's box that counts several iterators of what is copied, as a row of pixels of which each is there twice, is
//! one for each of them in the transfer.

use tir::{LinearExpr, LinearMap, MemRefType, OpId, Value};
use tir_accel::machine::EngineInfo;
use tir_tensor::{CollapseShape, groups};

use super::{Home, Planner, State};
use crate::chain::home::Why;
use crate::chain::reach::within;
use crate::chain::stage::No;
use crate::group::{Group, Operand};
use crate::layout::{Tile, run, starts};
use crate::placed::Placed;

/// A part of a tensor that engines bring to its home.
#[derive(Clone, Debug)]
pub(in crate::chain) struct Load {
    /// The part.
    pub(super) value: Value,
    /// Where it begins in the tensor.
    pub(super) at: Vec<i64>,
    /// The nest that would copy it in another order.
    pub(super) nest: Option<usize>,
}

/// A transfer to a box of a home.
#[derive(Clone, Debug)]
pub struct Brought {
    /// What is loaded.
    pub source: Value,
    /// The place of its first element.
    pub offsets: Vec<i64>,
    /// Distance from there of each position in the box.
    pub access: LinearMap,
    /// Where in the home the box begins.
    pub start: Vec<i64>,
    /// Its sizes.
    pub sizes: Vec<i64>,
    /// The dimensions that each of its dimensions is in the transfer, the outer ones first.
    pub split: Vec<Vec<i64>>,
}

/// A group that engines copy a value with.
pub(super) struct Copies<'a> {
    /// Its number.
    pub(super) number: usize,
    pub(super) group: &'a Group,
    pub(super) operand: &'a Operand,
    /// The iterators that count each dimension of the value, those of the largest steps first.
    pub(super) digits: Vec<Vec<usize>>,
}

impl Copies<'_> {
    /// Elements that the outer one of several iterators of a dimension steps over.
    pub(super) fn repeats(&self) -> Vec<i64> {
        let inner = |of: &Vec<usize>| {
            let sizes = of.iter().skip(1).map(|d| self.group.domain[*d]);
            (of.len() > 1).then(|| sizes.product())
        };
        self.digits.iter().filter_map(inner).collect()
    }
}

/// A position as a sum of what the dimensions of a box count.
struct Sum {
    /// The number of a dimension, how far it moves the position, and its points.
    terms: Vec<(usize, i64, i64)>,
    constant: i64,
}

/// The dimensions of a box, some of them in two.
struct Dims {
    /// For each dimension of the box the numbers of those that it is now.
    split: Vec<Vec<usize>>,
    sizes: Vec<i64>,
}

impl Sum {
    /// The position in units of so many, and the rest: a dimension of smaller steps becomes two, where it begins and ends with a
    /// unit.
    fn divide(self, by: i64, dims: &mut Dims) -> Option<(Self, Self)> {
        let mut whole = Self {
            terms: Vec::new(),
            constant: self.constant.div_euclid(by),
        };
        let mut rest = Self {
            terms: Vec::new(),
            constant: self.constant.rem_euclid(by),
        };
        for (dim, step, points) in self.terms {
            if points == 1 {
                continue;
            }
            if step % by == 0 {
                whole.terms.push((dim, step / by, points));
            } else if step > 0 && by % step == 0 && points % (by / step) == 0 {
                let inner = by / step;
                let new = dims.sizes.len();
                dims.sizes[dim] = points / inner;
                dims.sizes.push(inner);
                let of = dims.split.iter_mut().find(|of| of.contains(&dim))?;
                let at = of.iter().position(|other| *other == dim)?;
                of.insert(at + 1, new);
                if points > inner {
                    whole.terms.push((dim, 1, points / inner));
                }
                rest.terms.push((new, step, inner));
            } else {
                rest.terms.push((dim, step, points));
            }
        }
        // With the rest it does not reach the next unit.
        let most = rest.terms.iter().try_fold(rest.constant, |most, term| {
            let (_, step, points) = *term;
            (step > 0).then(|| most.saturating_add(step.saturating_mul(points - 1)))
        })?;
        (most < by).then_some((whole, rest))
    }
}

impl Brought {
    /// What brings a part to some indices of a tile that stands still: the part itself, or what a group copies.
    fn new(
        tile: &Tile,
        inside: &[(i64, i64)],
        (at, source): (&[i64], Value),
        copies: Option<&Copies<'_>>,
        rank: usize,
    ) -> Option<Self> {
        let placed = Placed::of(tile);
        let mut dims = Dims {
            split: (0..inside.len()).map(|t| vec![t]).collect(),
            sizes: inside.iter().map(|(_, size)| *size).collect(),
        };
        let position = |s: usize, dims: &Dims| {
            let mut sum = Sum {
                terms: Vec::new(),
                constant: placed.start[s] - at.get(s).copied().unwrap_or(0),
            };
            for (t, extent) in placed.dims.iter().enumerate() {
                if extent.source == s && extent.step != 0 {
                    sum.constant += inside[t].0 * extent.step;
                    sum.terms.push((t, extent.step, dims.sizes[t]));
                }
            }
            sum
        };
        // The position in each dimension of the part, or each iterator of the group.
        let (sums, map): (Vec<Sum>, Option<LinearMap>) = match copies {
            None => ((0..rank).map(|s| position(s, &dims)).collect(), None),
            Some(Copies {
                group,
                operand,
                digits,
                ..
            }) => {
                let nothing = |_| Sum {
                    terms: Vec::new(),
                    constant: 0,
                };
                let mut sums: Vec<Sum> = (0..group.domain.len()).map(nothing).collect();
                for (s, of) in digits.iter().enumerate() {
                    let mut left = position(s, &dims);
                    for (i, d) in of.iter().enumerate() {
                        let step = of[i + 1..].iter().map(|d| group.domain[*d]).product();
                        let (whole, rest) = match step {
                            0 | 1 => (left, nothing(0)),
                            _ => left.divide(step, &mut dims)?,
                        };
                        (sums[*d], left) = (whole, rest);
                    }
                }
                (sums, Some(operand.map.linear()?))
            }
        };
        // Dimensions in the order of the box.
        let order: Vec<usize> = dims.split.concat();
        let forms = sums.iter().map(|sum| {
            let step = |dim: &usize| {
                let own = sum.terms.iter().filter(|(other, ..)| other == dim);
                own.map(|(_, step, _)| *step).sum::<i64>()
            };
            LinearExpr::new(order.iter().map(step).collect(), sum.constant)
        });
        let forms: LinearMap = forms.collect();
        let forms = match map {
            Some(map) => {
                let composed = map.affine(sums.len()).compose(&forms.affine(order.len()));
                composed.linear()?
            }
            None => forms,
        };
        let sizes = |of: &Vec<usize>| of.iter().map(|dim| dims.sizes[*dim]).collect();
        Some(Self {
            source,
            offsets: forms.iter().map(|form| form.constant).collect(),
            access: forms.iter().map(|form| form.with_constant(0)).collect(),
            start: inside.iter().map(|(start, _)| *start).collect(),
            sizes: inside.iter().map(|(_, size)| *size).collect(),
            split: dims.split.iter().map(sizes).collect(),
        })
    }

    /// The sizes of the box in the transfer.
    pub fn shape(&self) -> Vec<i64> {
        self.split.concat()
    }

    /// Whether all that is read lies in a tensor of this shape.
    fn lies_in(&self, shape: &[i64]) -> bool {
        let sizes = self.shape();
        let mut places = self.access.iter().zip(&self.offsets).zip(shape);
        places.all(|((form, offset), size)| {
            let reach = form.terms().map(|(t, step)| step * (sizes[t] - 1));
            let (mut low, mut high) = (*offset, *offset);
            for reach in reach {
                (low, high) = (low + reach.min(0), high + reach.max(0));
            }
            low >= 0 && high < *size
        })
    }

    /// Cycles of an engine; `whole` is the shape of the home.
    fn cycles(&self, engine: &EngineInfo, shape: &[i64], whole: &[i64], elem: i64) -> i64 {
        let sizes = self.shape();
        let dense = MemRefType::dense_strides;
        let far = dense(shape);
        let near = dense(whole).into_iter().zip(&self.split);
        let near = near.flat_map(|(stride, split)| {
            let inner = |i: usize| split[i + 1..].iter().product::<i64>();
            (0..split.len()).map(move |i| stride * inner(i))
        });
        let steps = sizes.iter().zip(near).enumerate();
        let steps = steps.map(|(t, (size, near))| {
            let moves = self.access.iter().zip(&far);
            let far = moves.map(|(form, stride)| form.at(t) * stride).sum();
            [*size, far, near]
        });
        let run = run(&steps.collect::<Vec<_>>(), engine.square / elem.max(1)) * elem;
        let bytes = sizes.iter().copied().fold(elem, i64::saturating_mul);
        let starts = starts(shape, sizes, self.access.clone(), &[], (elem, engine.dims));
        engine.cycles(bytes, bytes / run.max(1), starts)
    }
}

impl Planner<'_> {
    /// What engines bring to a home, and the cycles that takes; `inside` are the indices between its borders, for each of the
    /// sequences that are computed one by one.
    pub(super) fn brought(
        &self,
        home: &Home,
        inside: &[Vec<(i64, i64)>],
    ) -> Result<(Vec<Brought>, i64), Why> {
        let (far, near) = (self.target.far.name, self.target.near.name);
        let engine = self.target.info.engine_between(far, near);
        let engine = engine.ok_or("no engine loads it")?;
        if home.stage.group.operands[home.number()].flat.is_some() {
            return Err("it is read as another shape");
        }
        let (tile, start) = (home.tile(), Placed::of(home.tile()).start);
        let shape = self.ir.ty(home.value).shape().unwrap_or(&[]);
        let origins = start.iter().map(|at| (*at, *at)).collect();
        let elem = self.ir.ty(home.value).elem().bytes().unwrap_or(1) as i64;
        let (mut all, mut cycles) = (Vec::new(), 0i64);
        for load in &home.loads {
            let of = self.ir.ty(load.value).shape().unwrap_or(&[]);
            let copies = load.nest.map(|_| self.copies(load.value));
            let copies = copies.map(|found| found.ok_or("a part has another order"));
            let copies = copies.transpose()?;
            let source = copies.as_ref().map_or(load.value, |of| of.operand.source);
            let bounds = |s: usize| {
                let start = load.at.get(s).copied().unwrap_or(0);
                Some((start, start + of.get(s)?))
            };
            for inside in inside {
                let found = within(
                    &bounds,
                    tile,
                    (shape, &origins),
                    inside,
                    &[],
                    None,
                    &|_, _| 0,
                );
                let found = found.map_err(|no| match no {
                    No::Never(why) => why,
                    No::Cut { .. } => "parts begin inside of a tile",
                })?;
                let Some(inside) = found else { continue };
                // Shorter ones of several sequences end before.
                let beyond = (0..shape.len()).any(|s| {
                    let own = tile.dims.iter().zip(&inside);
                    let own = own.filter(|(dim, _)| dim.source.0 == s);
                    let last = own.map(|(dim, (first, size))| dim.source.1 * (first + size - 1));
                    let end = bounds(s).map_or(0, |(_, end)| end);
                    start[s] + last.sum::<i64>() >= end
                });
                if beyond {
                    return Err("a part ends inside of a tile");
                }
                let part = (&load.at[..], source);
                let brought = Brought::new(tile, &inside, part, copies.as_ref(), shape.len());
                let brought = brought.ok_or("a part has another order")?;
                let from = self.ir.ty(source).shape().unwrap_or(&[]);
                if !brought.lies_in(from) {
                    return Err("what is loaded lies outside of a part");
                }
                let own = brought.cycles(engine, from, &tile.shape(), elem);
                cycles = cycles.saturating_add(own);
                all.push(brought);
            }
        }
        Ok((all, cycles))
    }

    /// What engines copy a value with from far memory to far memory.
    pub(super) fn copies(&self, value: Value) -> Option<Copies<'_>> {
        // Its dimensions may be several of what is copied.
        let (mut copied, mut views) = (value, Vec::new());
        while let Some(view) = self.ir.def::<CollapseShape>(copied) {
            views.push(view.reassociation);
            copied = view.src;
            if self.ir.uses(copied).count() > 1 {
                return None;
            }
        }
        let number = *self.made.outs.get(&copied)?;
        let single = &self.singles[number];
        let group = &single.group;
        let [operand] = &group.operands[..] else {
            return None;
        };
        let plain = operand.padding.is_none()
            && !operand.leaves
            && operand.flat.is_none()
            && operand.inner.is_none()
            && operand.diagonal.is_none();
        if !(single.plan.moves && plain && group.outs.len() == 1 && group.moves(self.ir)) {
            return None;
        }
        let mut digits = group.digits()?;
        for view in views.iter().rev() {
            let joined = groups(view, digits.len()).ok()?.into_iter();
            digits = joined
                .map(|of| of.iter().flat_map(|dim| digits[*dim].clone()).collect())
                .collect();
        }
        Some(Copies {
            number,
            group,
            operand,
            digits,
        })
    }

    /// Whether a nest does nothing but copy something.
    pub(in crate::chain) fn copies_only(&self, state: &State, nest: usize) -> bool {
        let nest = &state.nests[nest];
        nest.count == 1 && self.singles[nest.first].plan.moves
    }

    /// The generics of nests that are none, as engines bring what they copy to a home, or its group computes it there.
    pub(super) fn copied(&self, home: &Home) -> Vec<OpId> {
        let through = home.through.iter().map(|part| &part.load);
        let nests = home.loads.iter().chain(through);
        let nests = nests.filter(|load| load.nest.is_some());
        let nests = nests.map(|load| load.value);
        let shared = home.shared.iter().flat_map(|part| &part.copied);
        let all = nests.chain(shared.copied());
        let found = all.filter_map(|value| self.copies(value));
        found.flat_map(|of| of.group.ops.clone()).collect()
    }
}
