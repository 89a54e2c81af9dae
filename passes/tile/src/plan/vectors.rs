//! What vector units take of a group: which of its steps they compute, and in how many cycles on the
//! tiles of a division. Beside that, which operands that a group computes are one call of an intrinsic.

use tir::{Ir, LinearMap, MemRefType, RegionId, Type};
use tir_accel::vector::{NestShape, RegionCost, Stream, VectorInfo, element_strides};
use tir_tensor::{Combine, Generic};

use super::lanes::{beside, shared};
use super::unit::elems;
use super::{Plan, Target};
use crate::group::{Group, Input, Step};
use crate::layout::Tile;
use crate::matching::{Behaviour, Mismatch, orders};
use crate::scalar::{Immediates, Scalar, same_scalar};

/// What a scalar computation costs on each vector capability of the machine; none where it does not
/// compute it.
#[derive(Clone, Debug, Default)]
struct Regions(Vec<Option<RegionCost>>);

impl Regions {
    /// The vector unit that computes a nest in the fewest cycles, if some does, and these.
    fn cycles(&self, target: &Target<'_>, nest: &NestShape) -> Option<(tir::Name, i64)> {
        let all = self.0.iter().zip(&target.vectors);
        let cycles =
            all.filter_map(|(region, vector)| Some((vector.unit, vector.cycles((*region)?, nest))));
        cycles.min_by_key(|(_, cycles)| *cycles)
    }
    /// The same, if equal units share it by parts of an iterator.
    fn cycles_shared(&self, target: &Target<'_>, nest: &NestShape) -> Option<i64> {
        let all = self.0.iter().zip(&target.vectors);
        let cycles = all.filter_map(|(region, vector)| {
            let gain = beside(target, vector.unit, &nest.domain, &nest.reductions);
            Some(shared(vector.cycles((*region)?, nest), gain))
        });
        cycles.min()
    }
    fn any(&self) -> bool {
        self.0.iter().any(Option::is_some)
    }
}

/// An intrinsic that computes an operand where its tile is as large as what it computes, and what it is computed from lies beside that.
/// Dimensions of one element do not count, as in `tensorize`.
#[derive(Clone, Debug)]
struct Call {
    /// The sizes of that.
    shape: Vec<i64>,
    /// For each value that the operand is computed from, which of these its dimensions are.
    inputs: Vec<Vec<usize>>,
    cycles: i64,
}

impl Call {
    /// The intrinsics that compute an operand element by element.
    fn all(
        ir: &Ir,
        group: &Group,
        target: &Target<'_>,
        operand: usize,
        types: &[Type],
    ) -> Vec<Self> {
        let Some(inner) = &group.operands[operand].inner else {
            return Vec::new();
        };
        if inner.reduce.is_some() {
            return Vec::new();
        }
        let mine = Scalar {
            ir,
            body: inner.body,
            extended: false,
        };
        let computes = |behaviour: &Behaviour<'_>, cycles: i64| {
            let other = &behaviour.generic;
            let elem = |value: &tir::Value| behaviour.ir.ty(*value).elem();
            let alike = other.combine.is_none()
                && other.inputs.len() == inner.inputs.len()
                && other.indexing_maps.last()?.is_identity()
                && other.outputs.iter().all(|out| elem(out) == types[operand]);
            let reads = |order: &[usize]| {
                let mut pairs = inner.inputs.iter().zip(order);
                pairs.all(|(input, at)| types[*input] == elem(&other.inputs[*at]))
            };
            let mut orders = orders(inner.inputs.len()).into_iter().filter(|_| alike);
            let order = orders.find(|order| {
                let immediates = &mut Immediates::new();
                reads(order) && same_scalar(mine, behaviour.scalar(), order, immediates)
            })?;
            let read = |at: &usize| {
                let dims = other.indexing_maps[*at].as_projection()?.into_iter();
                Some(dims.filter_map(|d| among(&behaviour.domain, d)).collect())
            };
            Some(Self {
                shape: without_ones(&behaviour.domain),
                inputs: order.iter().map(read).collect::<Option<_>>()?,
                cycles,
            })
        };
        let all = target.behaviours.iter().zip(&target.info.intrinsics);
        let all = all.filter_map(|(behaviour, info)| Some((behaviour.as_ref().ok()?, info)));
        let all = all.filter_map(|(behaviour, info)| computes(behaviour, info.cycles));
        all.collect()
    }

    /// Whether it computes an operand with the tiles of a plan.
    fn fits(&self, group: &Group, plan: &Plan, operand: usize) -> bool {
        let own = &plan.tiles[operand];
        let tile = &own.shape();
        let Some(inner) = &group.operands[operand].inner else {
            return false;
        };
        // Where tiles have other dimensions than their values, all lie in the same.
        let alike = |other: &Tile, rows: &LinearMap, dims: &[usize]| {
            let all = dims.iter().copied().eq(0..self.shape.len());
            all && rows.is_identity() && other.dims == own.dims
        };
        let number = |d: usize| among(tile, d);
        let beside = |((input, rows), dims): ((&usize, &LinearMap), &Vec<usize>)| {
            let other = &plan.tiles[*input];
            if !own.is_plain() || !other.is_plain() {
                return alike(other, rows, dims);
            }
            let shape = other.shape();
            let read = shape
                .iter()
                .zip(rows.iter())
                .filter(|(size, _)| **size != 1);
            let read = read.map(|(size, row)| Some((*size, row.as_dim().and_then(number)?)));
            let read: Option<Vec<(i64, usize)>> = read.collect();
            read.is_some_and(|read| {
                let same = |((size, d), wanted): (&(i64, usize), &usize)| {
                    d == wanted && self.shape.get(*d) == Some(size)
                };
                read.len() == dims.len() && read.iter().zip(dims).all(same)
            })
        };
        let mut inputs = inner.inputs.iter().zip(&inner.rows).zip(&self.inputs);
        self.shape == without_ones(tile) && inputs.all(beside)
    }
}

/// The number of a dimension among those of more than one element; none for one of a single element.
fn among(shape: &[i64], d: usize) -> Option<usize> {
    (shape[d] != 1).then(|| without_ones(&shape[..d]).len())
}

fn without_ones(shape: &[i64]) -> Vec<i64> {
    shape.iter().copied().filter(|size| *size != 1).collect()
}

/// What vector units compute of a group.
#[derive(Clone, Debug, Default)]
pub(super) struct Vectors {
    reduce: Option<Regions>,
    maps: Vec<Regions>,
    /// Of operands that are computed.
    inner: Vec<Option<Regions>>,
    /// Of the same, the intrinsics that compute them element by element.
    calls: Vec<Vec<Call>>,
    /// Bytes of the elements of each operand.
    bytes: Vec<i64>,
    /// Why a step is not computed.
    declined: Option<(tir::Name, Mismatch)>,
}

fn size(ty: Type) -> i64 {
    ty.bytes().unwrap_or(1) as i64
}

impl Vectors {
    pub(super) fn new(ir: &Ir, group: &Group, target: &Target<'_>) -> Self {
        let types: Vec<Type> = (group.operands.iter())
            .map(|o| ir.ty(o.source).elem())
            .collect();
        let mut declined = None;
        let mut regions = |body: RegionId, combine: Option<Combine>, elems: &[Type]| {
            let cost = |vector: &&VectorInfo| match vector.covers(ir, body, combine, elems) {
                Ok(cost) => Some(cost),
                Err(why) => {
                    declined.get_or_insert((vector.name, Mismatch::new(4, why)));
                    None
                }
            };
            Regions(target.vectors.iter().map(cost).collect())
        };
        let mut step = |step: &Step, combine: Option<Combine>| {
            let mut elems = elems(ir, group, step).unwrap_or_default();
            elems.push(step.ty.elem());
            regions(step.body, combine, &elems)
        };
        let reduce = group.reduce.as_ref();
        let reduce = reduce.map(|(main, combine, _)| step(main, Some(*combine)));
        let maps = group.maps.iter().map(|map| step(map, None)).collect();
        let inner = group.operands.iter().zip(&types).map(|(operand, ty)| {
            let inner = operand.inner.as_ref()?;
            let mut elems: Vec<Type> = inner.inputs.iter().map(|i| types[*i]).collect();
            elems.push(*ty);
            let combine = inner.reduce.as_ref().map(|(combine, _)| *combine);
            Some(regions(inner.body, combine, &elems))
        });
        let calls = 0..group.operands.len();
        Self {
            reduce,
            maps,
            inner: inner.collect(),
            calls: calls
                .map(|i| Call::all(ir, group, target, i, &types))
                .collect(),
            bytes: types.into_iter().map(size).collect(),
            declined,
        }
    }

    /// Of each elementwise step, on each vector capability that computes it, cycles of a vector and to fold its lanes.
    pub(super) fn maps(&self) -> impl Iterator<Item = Vec<Option<(i64, Option<i64>)>>> {
        let costs = |regions: &Regions| {
            let costs = regions.0.iter();
            costs
                .map(|cost| cost.map(|cost| (cost.vector, cost.fold)))
                .collect()
        };
        self.maps.iter().map(costs)
    }
    /// Cycles of the thread at all points for the reduction, and for each elementwise step, where no vector unit computes it; 0 where
    /// one does.
    pub(super) fn left_to_thread(&self, group: &Group, target: &Target<'_>) -> (i64, Vec<i64>) {
        let cycles = |step: &Step, regions: &Regions, reduces: bool| {
            if regions.any() {
                return 0;
            }
            let each = i64::try_from(target.info.thread_cycles(step.work)).unwrap_or(i64::MAX);
            let points = (0..group.core).filter(|d| reduces || !group.reductions[*d]);
            points.fold(each, |all, d| all.saturating_mul(group.domain[d]))
        };
        let reduce = group.reduce.as_ref().zip(self.reduce.as_ref());
        let reduce = reduce.map_or(0, |((step, ..), regions)| cycles(step, regions, true));
        let maps = group.maps.iter().zip(&self.maps);
        let maps = maps.map(|(step, regions)| cycles(step, regions, false));
        (reduce, maps.collect())
    }
    /// Whether a step is computed on vectors.
    pub(super) fn any(&self) -> bool {
        let mut steps = self.reduce.iter().chain(&self.maps);
        steps.any(Regions::any)
    }
    /// Whether all steps, and all operands that are computed, are so on vectors.
    pub(super) fn all(&self) -> bool {
        let steps = self.reduce.iter().chain(&self.maps);
        let mut all = steps.chain(self.inner.iter().flatten());
        all.all(Regions::any)
    }
    /// Why a vector unit does not compute a step, if none does.
    pub(super) fn declined(&self) -> Option<(tir::Name, Mismatch)> {
        self.declined.clone().filter(|_| !self.all())
    }

    /// Cycles to compute the tile of an operand once by a call.
    pub(super) fn called(&self, group: &Group, plan: &Plan, operand: usize) -> Option<i64> {
        let calls = self.calls[operand].iter();
        let fits = calls.filter(|call| call.fits(group, plan, operand));
        fits.map(|call| call.cycles).min()
    }

    /// Cycles to compute the tile of an operand once on vectors.
    pub(super) fn inner(
        &self,
        group: &Group,
        target: &Target<'_>,
        plan: &Plan,
        operand: usize,
    ) -> Option<i64> {
        let regions = self.inner[operand].as_ref()?;
        let inner = group.operands[operand].inner.as_ref()?;
        let tile = &plan.tiles[operand];
        let ranges: Vec<i64> = inner.reductions.iter().map(|d| group.domain[*d]).collect();
        let domain = [&tile.shape()[..], &ranges].concat();
        let reads = inner.inputs.iter().zip(&inner.rows);
        let read = |(input, rows): (&usize, &LinearMap)| {
            let other = &plan.tiles[*input];
            let rows = tile.relative(other, rows, &ranges)?;
            let strides = MemRefType::dense_strides(&other.shape());
            Some(Stream {
                strides: element_strides(&rows, &strides, domain.len()),
                bytes: self.bytes[*input],
            })
        };
        let mut operands: Vec<Stream> = reads.map(read).collect::<Option<_>>()?;
        let mut strides = MemRefType::dense_strides(&tile.shape());
        strides.resize(domain.len(), 0);
        operands.push(Stream {
            strides,
            bytes: self.bytes[operand],
        });
        let rank = tile.shape().len();
        regions.cycles_shared(
            target,
            &NestShape {
                reductions: (0..domain.len()).map(|d| d >= rank).collect(),
                domain,
                operands,
            },
        )
    }

    /// Where an operand of a step is in tiles that are boxes of their sources.
    fn streams(&self, group: &Group, plan: &Plan, step: &Step) -> Vec<Stream> {
        let at = |tile: &Tile, bytes: i64| Stream {
            strides: element_strides(
                &tile.forms,
                &MemRefType::dense_strides(&tile.shape()),
                group.core,
            ),
            bytes,
        };
        let stream = |input: &Input| match input {
            Input::Operand(i) => at(&plan.tiles[*i], self.bytes[*i]),
            _ => at(&plan.out, size(step.ty.elem())),
        };
        let mut all: Vec<Stream> = step.inputs.iter().map(stream).collect();
        all.push(at(&plan.out, size(step.ty.elem())));
        all
    }

    /// Cycles of all steps of a group over whole tiles, if vector units compute one of them; the
    /// thread computes the others.
    pub(super) fn whole(&self, group: &Group, target: &Target<'_>, plan: &Plan) -> Option<i64> {
        if !self.any() {
            return None;
        }
        let space = &plan.space;
        let mut nest = NestShape {
            domain: (0..group.core).map(|d| space.extent(d)).collect(),
            reductions: group.reductions[..group.core].to_vec(),
            operands: Vec::new(),
        };
        let mut all = 0i64;
        // Steps behind a reduction that is divided are computed once for all of its tiles.
        let mut add = |nest: &NestShape, regions: &Regions, step: &Step, reduces: bool| {
            let each = target.info.thread_cycles(step.work);
            let each = i64::try_from(each).unwrap_or(i64::MAX);
            let by_thread = nest.domain.iter().copied().fold(each, i64::saturating_mul);
            let cycles = regions.cycles_shared(target, nest).unwrap_or(by_thread);
            let dims = (0..group.core).filter(|d| reduces || !group.reductions[*d]);
            let trips = dims.map(|d| space.trips(d));
            all = all.saturating_add(trips.fold(cycles, i64::saturating_mul));
        };
        if let (Some((step, ..)), Some(regions)) = (&group.reduce, &self.reduce) {
            nest.operands = self.streams(group, plan, step);
            add(&nest, regions, step, true);
        }
        for d in (0..group.core).filter(|d| group.reductions[*d]) {
            nest.domain[d] = 1;
        }
        for (step, regions) in group.maps.iter().zip(&self.maps) {
            nest.operands = self.streams(group, plan, step);
            add(&nest, regions, step, false);
        }
        Some(all)
    }

    /// The vector unit that computes an elementwise step on a block of a unit, dense and of these sizes, if one
    /// does, and its cycles. `unit_out` are the iterators that each dimension of the block is.
    pub(super) fn block(
        &self,
        group: &Group,
        target: &Target<'_>,
        unit_out: &[Vec<usize>],
        step: usize,
        sizes: &[i64],
    ) -> Option<(tir::Name, i64)> {
        let regions = self.maps.get(step)?;
        let step = &group.maps[step];
        let dense = |uses: &dyn Fn(usize) -> bool, bytes: i64| {
            let shape = (0..sizes.len()).map(|i| if uses(i) { sizes[i] } else { 1 });
            let shape: Vec<i64> = shape.collect();
            let strides = MemRefType::dense_strides(&shape).into_iter().enumerate();
            let strides = strides.map(|(i, stride)| if uses(i) { stride } else { 0 });
            Stream {
                strides: strides.collect(),
                bytes,
            }
        };
        let stream = |input: &Input| match input {
            Input::Operand(i) => {
                let map = &group.operands[*i].map;
                let uses = |at: usize| {
                    let mut dims = unit_out[at].iter();
                    dims.any(|d| map.exprs.iter().any(|e| e.uses(*d)))
                };
                dense(&uses, self.bytes[*i])
            }
            _ => dense(&|_| true, size(step.ty.elem())),
        };
        let mut operands: Vec<Stream> = step.inputs.iter().map(stream).collect();
        operands.push(dense(&|_| true, size(step.ty.elem())));
        let nest = NestShape {
            domain: sizes.to_vec(),
            reductions: vec![false; sizes.len()],
            operands,
        };
        regions.cycles(target, &nest)
    }
}

impl<'a> Target<'a> {
    /// The vector capability that computes a nest on tiles in the fewest cycles, and these.
    pub fn vector(&self, ir: &Ir, nest: &Generic) -> Option<(&'a VectorInfo, i64)> {
        let all = self.vectors.iter().copied();
        let cycles = |vector: &'a VectorInfo| Some((vector, vector.nest_cycles(ir, nest).ok()?));
        all.filter_map(cycles).min_by_key(|(_, cycles)| *cycles)
    }
}
