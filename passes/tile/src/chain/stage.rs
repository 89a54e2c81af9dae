//! Makes a group the producer of a tile: its iteration space is rewritten over the loops around the tile and the
//! tile's dimensions.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use tir::{AffineExpr, AffineMap, Attr, IntType, Ir, Type, Value};

use super::border::{Border, Origins, border};
use super::{Made, Stage};
use crate::group::{Group, Input, Operand, Slot};
use crate::layout::{Axis, Tile};
use crate::plan::{Budget, Plan, Target, boxes, rows, stages};

/// A group that computes a box of a tensor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Maker<'a> {
    pub(super) group: &'a Group,
    /// Where in the tensor its result begins; none where it begins.
    pub(super) at: &'a [i64],
}

/// Who computes the tensors that stages of a chain read.
pub(super) type Makers<'a> = HashMap<Value, Vec<Maker<'a>>>;

/// What stages are planned with.
pub(super) struct Context<'a> {
    pub(super) ir: &'a Ir,
    pub(super) target: &'a Target<'a>,
    pub(super) budget: Budget,
    pub(super) makers: &'a Makers<'a>,
    pub(super) known: &'a Known,
}

/// The plans of stages by their signatures: many roots read the same tile, and one root ends many chains.
pub(super) type Known = RefCell<HashMap<String, Rc<Vec<Plan>>>>;

/// Why an operand cannot be computed inside the loops of a plan.
#[derive(Debug)]
pub(super) enum No {
    /// For good.
    Never(&'static str),
    /// A loop has to be cut before this trip: another producer's part begins there.
    Cut { level: usize, trip: i64 },
}

/// How many plans of a producer are tried at most.
const TRIED: usize = 4;

/// A loop around a tile: which iterator of the reader it counts, its first trip, and how many.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around {
    pub(super) iterator: usize,
    pub(super) start: i64,
    pub(super) trips: i64,
}

/// Zero bits of a type.
fn zero(elem: Type) -> Option<Attr> {
    match elem.float_width() {
        Some(_) => Some(Attr::float(0.0, elem)),
        None => elem.is::<IntType>().then(|| Attr::int(0, elem)),
    }
}

/// The constant that an operand is outside of its tensor.
fn outside(ir: &Ir, operand: &Operand) -> Result<Attr, No> {
    let value = match operand.padding {
        Some(padding) => ir.constant(padding),
        None => zero(ir.ty(operand.source).elem()),
    };
    value.ok_or(No::Never("what is read outside is no constant"))
}

/// The positions in a tensor's dimension that the result of a maker has.
fn part(maker: &Maker<'_>, s: usize) -> Option<(i64, i64)> {
    let out = &maker.group.outs.first()?.map;
    let d = out.as_projection()?.get(s).copied()?;
    let start = maker.at.get(s).copied().unwrap_or(0);
    Some((start, start + maker.group.domain[d]))
}

impl Context<'_> {
    /// The operand of a stage computed inside its loops.
    pub(super) fn made(
        &self,
        reader: &Group,
        plan: &Plan,
        number: usize,
        loops: &[Around],
    ) -> Result<Made, No> {
        let (operand, tile) = (&reader.operands[number], &plan.tiles[number]);
        let makers = &self.makers[&operand.source];
        let level = plan.level(number);
        let loops = &loops[..level];
        if tile.reassociation().is_some() {
            return Err(No::Never("iterators are one dimension of a unit"));
        }
        let space = &plan.space;
        let exact = |d: &usize| {
            let read = operand.map.exprs.iter().any(|e| e.uses(*d));
            !read || space.covered(*d) * space.block[*d] == reader.domain[*d]
        };
        if !reader.iterators(true).all(|d| exact(&d)) {
            return Err(No::Never("a reduction is rounded up"));
        }
        let step = |s: usize, around: &Around| {
            tile.forms[s].at(around.iterator) * space.extent(around.iterator)
        };
        let begin = |s: usize| {
            let starts = loops.iter().map(|around| step(s, around) * around.start);
            tile.forms[s].constant + tile.low[s] + starts.sum::<i64>()
        };
        let origins: Origins = (0..operand.shape.len())
            .map(|s| {
                let far = loops
                    .iter()
                    .map(|around| step(s, around) * (around.trips - 1));
                let far: Vec<i64> = far.collect();
                let low = far.iter().map(|f| (*f).min(0)).sum::<i64>();
                let high = far.iter().map(|f| (*f).max(0)).sum::<i64>();
                (begin(s) + low, begin(s) + high)
            })
            .collect();
        let (padded, value) = (operand.leaves, outside(self.ir, operand)?);
        // Interleaved sequences are computed one by one.
        let mut phases: Vec<Vec<Option<i64>>> = vec![vec![None; tile.dims.len()]];
        for (t, dim) in tile.dims.iter().enumerate() {
            if matches!(dim.axis, Axis::Phase(..)) {
                let all = phases.iter().flat_map(|fixed| {
                    (0..dim.size).map(move |phase| {
                        let mut fixed = fixed.clone();
                        fixed[t] = Some(phase);
                        fixed
                    })
                });
                phases = all.collect();
            }
        }
        // Units write blocks of so many rows, as large as those of the reader where that is possible; a vector unit
        // as many as there are.
        let own = tile.dims.iter().filter_map(|dim| match dim.axis {
            Axis::Unit(d, ..) => Some(space.block[d]),
            _ => None,
        });
        let own = own.collect::<Vec<i64>>();
        let rows = makers
            .iter()
            .flat_map(|maker| rows(self.ir, maker.group, self.target));
        let rows = rows.max_by_key(|(_, size)| (own.contains(size), *size));
        let block = rows.and_then(|(rank, size)| Some((tile.dims.len().checked_sub(rank)?, size)));
        let borders = phases
            .iter()
            .map(|fixed| border(tile, &operand.shape, &origins, padded, value, fixed, block))
            .collect::<Result<Vec<Border>, _>>()
            .map_err(No::Never)?;
        let mut made = Made {
            operand: number,
            level,
            before: Vec::new(),
            boxes: {
                let elem = self.ir.ty(operand.source).elem();
                boxes(self.target, plan.spaces[number], elem, &[]).map(|(unit, _)| unit)
            },
            parts: Vec::new(),
            behind: Vec::new(),
        };
        let mut shape: Vec<i64> = tile.dims.iter().map(|dim| dim.size).collect();
        for border in &borders {
            made.before.extend(border.before.iter().cloned());
            made.behind.extend(border.behind.iter().cloned());
            for (size, needed) in shape.iter_mut().zip(&border.sizes) {
                *size = (*size).max(*needed);
            }
        }
        for border in &borders {
            for maker in makers {
                let Some(inside) = within(maker, tile, &origins, &border.inside, loops, &step)?
                else {
                    continue;
                };
                let slot = Slot {
                    shape: shape.clone(),
                    at: inside.iter().map(|(start, _)| *start).collect(),
                    rows: block.map_or(1, |(_, size)| size),
                };
                let forms = Forms {
                    tile,
                    begin: &begin,
                    step: &step,
                    loops,
                    inside: &inside,
                };
                let group = forms.producer(maker, slot)?;
                let part = self.stage(group, plan.spaces[number], loops)?;
                made.parts.push(part);
            }
        }
        if made.parts.is_empty() {
            return Err(No::Never("nothing computes the tile"));
        }
        Ok(made)
    }

    /// The plans of a stage, the quickest first.
    pub(super) fn plans(&self, group: &Group) -> Rc<Vec<Plan>> {
        let signature = group.signature(self.ir);
        if let Some(plans) = self.known.borrow().get(&signature) {
            return Rc::clone(plans);
        }
        let plans = Rc::new(stages(self.ir, group, self.target, self.budget));
        let known = &mut *self.known.borrow_mut();
        known.insert(signature, Rc::clone(&plans));
        plans
    }

    /// A producer with a plan and what is computed for it in turn.
    fn stage(&self, mut group: Group, space: tir::Name, loops: &[Around]) -> Result<Stage, No> {
        for operand in &mut group.operands {
            operand.made = self.makers.contains_key(&operand.source);
        }
        let mut why = No::Never("no unit computes it in the order of the tile");
        let plans = self.plans(&group);
        let plans = plans.iter().filter(|plan| plan.held == space);
        for plan in plans.take(TRIED).cloned() {
            // Loops are counted from where the segment begins: positions know that.
            let own = loops.iter().enumerate().map(|(iterator, around)| Around {
                iterator,
                start: 0,
                trips: around.trips,
            });
            let own: Vec<Around> = own.collect();
            match self.complete(group.clone(), plan, &own) {
                Ok(stage) => return Ok(stage),
                Err(cut @ No::Cut { .. }) => return Err(cut),
                Err(other) => why = other,
            }
        }
        Err(why)
    }

    /// A stage of one segment: all its operands that others compute are computed.
    pub(super) fn complete(&self, group: Group, plan: Plan, loops: &[Around]) -> Result<Stage, No> {
        let mut stage = Stage::alone(group, plan);
        let mut made = Vec::new();
        for number in 0..stage.group.operands.len() {
            if stage.group.operands[number].made {
                made.push(self.made(&stage.group, &stage.plan, number, loops)?);
            }
        }
        stage.segments.push(super::Segment {
            start: 0,
            trips: i64::MAX,
            made,
        });
        Ok(stage)
    }
}

/// The indices of a tile that a maker computes, of those inside; `None` if none.
fn within(
    maker: &Maker<'_>,
    tile: &Tile,
    origins: &Origins,
    inside: &[(i64, i64)],
    loops: &[Around],
    step: &dyn Fn(usize, &Around) -> i64,
) -> Result<Option<Vec<(i64, i64)>>, No> {
    let mut inside = inside.to_vec();
    if maker.at.is_empty() {
        return Ok(Some(inside));
    }
    for (s, (low, high)) in origins.iter().copied().enumerate() {
        let (start, end) = part(maker, s).ok_or(No::Never("a part has another order"))?;
        let here: Vec<usize> = (0..inside.len())
            .filter(|t| tile.dims[*t].source.0 == s && tile.dims[*t].source.1 != 0)
            .collect();
        let first: i64 = here
            .iter()
            .map(|t| inside[*t].0 * tile.dims[*t].source.1)
            .sum();
        let last = here
            .iter()
            .map(|t| (inside[*t].0 + inside[*t].1 - 1) * tile.dims[*t].source.1)
            .sum::<i64>();
        if low + first >= start && high + last < end {
            continue;
        }
        if high + last < start || low + first >= end {
            return Ok(None);
        }
        if low != high {
            let mut moving = loops
                .iter()
                .enumerate()
                .filter(|(_, around)| step(s, around) != 0 && around.trips > 1);
            let (Some((level, around)), None) = (moving.next(), moving.next()) else {
                return Err(No::Never("parts begin inside of a tile"));
            };
            let bound = if low + first < start { start } else { end };
            let (far, step) = (bound - low - first, step(s, around));
            if step <= 0 || far % step != 0 {
                return Err(No::Never("parts begin inside of a tile"));
            }
            return Err(No::Cut {
                level,
                trip: around.start + far / step,
            });
        }
        // The dimension of the largest steps counts blocks of the part.
        let outer = here.iter().copied().max_by_key(|t| tile.dims[*t].source.1);
        let t = outer.ok_or(No::Never("parts begin inside of a tile"))?;
        let step = tile.dims[t].source.1;
        let rest = last - (inside[t].0 + inside[t].1 - 1) * step - (first - inside[t].0 * step);
        let from = (start - low).max(first);
        let to = (end - low).min(last + 1);
        let (own, count) = (inside[t].0 * step, inside[t].1);
        if (from - own) % step != 0
            || to - from < rest + 1
            || (to - from) % step != 0 && to != last + 1
        {
            return Err(No::Never("parts begin inside of a tile"));
        }
        let skipped = (from - own) / step;
        let blocks = ((to - from) + step - 1) / step;
        inside[t] = (inside[t].0 + skipped, blocks.min(count - skipped));
    }
    Ok(Some(inside))
}

/// Where the elements of a tile are in its tensor.
struct Forms<'a> {
    tile: &'a Tile,
    /// Position of the first one in the first step.
    begin: &'a dyn Fn(usize) -> i64,
    /// How far a loop moves it.
    step: &'a dyn Fn(usize, &Around) -> i64,
    loops: &'a [Around],
    /// The indices that are computed.
    inside: &'a [(i64, i64)],
}

impl Forms<'_> {
    /// Position in a dimension of the tensor over the loops and the dimensions of the tile.
    fn position(&self, s: usize, at: i64) -> AffineExpr {
        let mut at = (self.begin)(s) - at;
        let mut sum: Option<AffineExpr> = None;
        let mut add = |d: usize, c: i64| {
            if c != 0 {
                let term = AffineExpr::Dim(d) * AffineExpr::Const(c);
                sum = Some(match sum.take() {
                    Some(sum) => sum + term,
                    None => term,
                });
            }
        };
        for (k, around) in self.loops.iter().enumerate() {
            add(k, (self.step)(s, around));
        }
        for (t, dim) in self.tile.dims.iter().enumerate() {
            if dim.source.0 == s && dim.source.1 != 0 {
                add(self.loops.len() + t, dim.source.1);
                at += self.inside[t].0 * dim.source.1;
            }
        }
        match sum {
            Some(sum) if at == 0 => sum,
            Some(sum) => sum + AffineExpr::Const(at),
            None => AffineExpr::Const(at),
        }
    }

    /// A group that computes the tile, or its part of it.
    fn producer(&self, maker: &Maker<'_>, slot: Slot) -> Result<Group, No> {
        let from = maker.group;
        let never = No::Never("a producer's result has another order");
        let Some(places) = from.outs.first().and_then(|out| out.map.as_projection()) else {
            return Err(never);
        };
        let reductions: Vec<usize> = from.iterators(true).collect();
        let (loops, rank) = (self.loops.len(), self.tile.dims.len());
        let dims = loops + rank + reductions.len();
        let mut exprs = vec![AffineExpr::Const(0); from.core];
        for (i, d) in reductions.iter().enumerate() {
            exprs[*d] = AffineExpr::Dim(loops + rank + i);
        }
        for d in from.iterators(false) {
            let s = places.iter().position(|p| *p == d);
            let s = s.ok_or(No::Never("a producer's result has another order"))?;
            exprs[d] = self.position(s, maker.at.get(s).copied().unwrap_or(0));
        }
        let over = AffineMap::new(dims, exprs);
        // Linear forms in one normal form, so that equal stages have equal signatures.
        let moved = |map: &AffineMap| {
            let map = map.compose(&over);
            map.linear().map(|forms| forms.affine(dims))
        };
        let no = || No::Never("a producer reads at no linear place");
        let out: Vec<usize> = (loops..loops + rank).collect();
        let out = AffineMap::project(dims, &out);
        let mut group = from.clone();
        let trips = self.loops.iter().map(|around| around.trips);
        let sizes = self.inside.iter().map(|(_, size)| *size);
        let own = reductions.iter().map(|d| from.domain[*d]);
        group.domain = trips.chain(sizes).chain(own).collect();
        group.core = dims;
        group.reductions = (0..dims).map(|d| d >= loops + rank).collect();
        group.whole.clear();
        for step in group
            .reduce
            .iter_mut()
            .map(|(step, ..)| step)
            .chain(&mut group.maps)
        {
            let maps = step
                .inputs
                .iter()
                .zip(&step.maps)
                .map(|(input, map)| match input {
                    Input::Operand(_) => moved(map),
                    _ => Some(out.clone()),
                });
            step.maps = maps.collect::<Option<_>>().ok_or_else(no)?;
            step.ty = Type::tensor(slot.shape.clone(), step.ty.elem());
        }
        for operand in &mut group.operands {
            operand.map = moved(&operand.map).ok_or_else(no)?;
        }
        for step in &mut group.outs {
            step.map = out.clone();
        }
        group.out = out;
        group.outer = loops;
        group.into = Some(slot);
        Ok(group)
    }
}
