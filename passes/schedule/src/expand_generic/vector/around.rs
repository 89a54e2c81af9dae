//! A sum with the nests around it, computed block by block.
//!
//! *Terms.* The **fill** is the nest that sets a buffer before a sum is added to it. The **epilogue** is the nest that reads what
//! was summed up. Where each point of them is a point of the sum, a block of the sum begins with what the fill yields and
//! ends as the epilogue's results, and is never in memory.

use std::collections::HashMap;

use tir::{Access, AffineMap, At, Builder, Failure, Ir, OpId, Value};
use tir_memref::Alloc;
use tir_memref::alias::{ended, may_access, may_alias, origins};
use tir_tensor::Generic;

use super::super::Region;
use super::{Block, Course, Plan, Registers, course, has_bytes, is_elementwise};

/// A sum that is filled or read by another nest: as ops.
struct Neighbours {
    fill: Option<OpId>,
    epilogue: Option<Epilogue>,
}

#[derive(Clone, Copy)]
struct Epilogue {
    op: OpId,
    /// The number of the input that was summed up.
    input: usize,
}

/// Makes blocks of a sum, the nest that fills its buffer and the one that reads it, if there are such nests. The sum has one
/// output.
///
/// # Errors
/// If an index cannot be computed.
pub(in super::super) fn expand(
    ir: &mut Ir,
    op: OpId,
    registers: Registers,
) -> Result<bool, Failure> {
    let Some(sum) = ir.get::<Generic>(op).filter(|sum| sum.combine.is_some()) else {
        return Ok(false);
    };
    let [buffer] = sum.outputs[..] else {
        return Ok(false);
    };
    let domain = sum.domain(ir)?;
    let region = Region::of(ir, &sum)?;
    let Some(plan) = Plan::of(ir, &sum, &region, &domain, registers) else {
        return Ok(false);
    };
    let Neighbours { fill, epilogue } = Neighbours::of(ir, op, &sum, buffer);
    let fill = fill.and_then(|fill| Some((fill, ir.get::<Generic>(fill)?)));
    let epilogue = epilogue.and_then(|found| Some((found, ir.get::<Generic>(found.op)?)));
    let fill_region = fill.as_ref().map(|(_, fill)| Region::of(ir, fill));
    let fill_region = fill_region.transpose()?;
    let last_region = epilogue.as_ref().map(|(_, last)| Region::of(ir, last));
    let last_region = last_region.transpose()?;
    let fill_domain = fill.as_ref().map(|(_, fill)| fill.domain(ir)).transpose()?;
    let last_domain = epilogue
        .as_ref()
        .map(|(_, last)| last.domain(ir))
        .transpose()?;

    let first = || {
        let ((_, fill), region, domain) =
            (fill.as_ref()?, fill_region.as_ref()?, fill_domain.as_ref()?);
        let map = fill.indexing_maps.first()?;
        plan.along(ir, fill, region, domain, map, None)
    };
    let last = || {
        let ((found, last), region, domain) = (
            epilogue.as_ref()?,
            last_region.as_ref()?,
            last_domain.as_ref()?,
        );
        let map = last.indexing_maps.get(found.input)?;
        plan.along(ir, last, region, domain, map, Some(found.input))
    };
    // Without a fill the sum goes on with what lies there, and somebody else may after it.
    let Some(first) = first() else {
        return Ok(false);
    };
    let around = Around {
        first: Some(first),
        last: last(),
    };
    // Where all that they read is known.
    let at = match (&around.last, &epilogue) {
        (Some(_), Some((found, _))) => found.op,
        _ => op,
    };
    let mut b = ir.at(At::Before(at));
    b.loc = b.ir.loc(op);
    plan.emit(&mut b, &around)?;
    let read = around.last.is_some();
    if let Some((fill, _)) = fill {
        ir.erase(fill);
    }
    ir.erase(op);
    if let Some((found, _)) = epilogue.filter(|_| read) {
        ir.erase(found.op);
        // Nothing else reads the buffer: what is left is its end, and other fills of it.
        let made = ir.owner(buffer);
        let users: Vec<OpId> = ir.uses(buffer).map(|used| used.op).collect();
        for user in users {
            ir.erase(user);
        }
        made.into_iter().for_each(|made| ir.erase(made));
    }
    Ok(true)
}

impl Neighbours {
    fn of(ir: &Ir, op: OpId, sum: &Generic, buffer: Value) -> Self {
        let mut users: Vec<OpId> = ir.uses(buffer).map(|used| used.op).collect();
        users.sort_unstable();
        users.dedup();
        let epilogue = Epilogue::of(ir, op, sum, buffer, &users);
        let places = origins(ir, buffer);
        let apart = sum
            .inputs
            .iter()
            .all(|value| !may_alias(ir, *value, &places));
        Self {
            fill: fill(ir, op, buffer).filter(|_| apart),
            epilogue,
        }
    }
}

/// All that is done to memory that is there.
const ANY: [Access; 4] = [Access::Read, Access::Write, Access::Free, Access::Fetch];

/// The nest before a sum that sets its buffer, and reads no memory.
fn fill(ir: &Ir, op: OpId, buffer: Value) -> Option<OpId> {
    let places = origins(ir, buffer);
    let mut before = ir.prev(op);
    while let Some(other) = before {
        let fill = ir.get::<Generic>(other);
        if let Some(fill) = fill.filter(|fill| fill.outputs[..] == [buffer]) {
            return (fill.combine.is_none() && fill.inputs.is_empty()).then_some(other);
        }
        for below in std::iter::once(other).chain(ir.walk_below(other)) {
            if may_access(ir, below, &ANY, &places) {
                return None;
            }
        }
        before = ir.prev(other);
    }
    None
}

impl Epilogue {
    /// The only nest that reads a buffer which is made for a sum, if nothing but pure ops is between them, and it writes nothing
    /// that the sum reads.
    fn of(ir: &Ir, op: OpId, sum: &Generic, buffer: Value, users: &[OpId]) -> Option<Self> {
        ir.owner(buffer).filter(|made| ir.is::<Alloc>(*made))?;
        let mut behind = ir.next(op);
        while let Some(other) = behind.filter(|other| ir.is_pure(*other)) {
            behind = ir.next(other);
        }
        let behind = behind?;
        let last = ir.get::<Generic>(behind)?;
        let mut reads = (0..last.inputs.len()).filter(|k| last.inputs[*k] == buffer);
        let (input, again) = (reads.next()?, reads.next());
        let others = users.iter().filter(|user| **user != op && **user != behind);
        let mut others = others.filter(|user| ended(ir, **user).is_none());
        let filled = |user: &OpId| {
            let fill = ir.get::<Generic>(*user);
            fill.is_some_and(|fill| fill.outputs[..] == [buffer] && fill.combine.is_none())
        };
        if again.is_some() || last.combine.is_some() || !others.all(filled) {
            return None;
        }
        for output in &last.outputs {
            let written = origins(ir, *output);
            let read_as = |k: usize| (last.inputs[k], &last.indexing_maps[k]);
            let n = last.inputs.len();
            let own = last.outputs.iter().zip(&last.indexing_maps[n..]);
            let own: Vec<(Value, &AffineMap)> = own.map(|(value, map)| (*value, map)).collect();
            // What is read where it is written is read before.
            let mut inputs = (0..n).filter(|k| !own.contains(&read_as(*k)));
            let changes = |value: &Value| may_alias(ir, *value, &written);
            if inputs.any(|k| changes(&last.inputs[k])) || sum.inputs.iter().any(changes) {
                return None;
            }
        }
        Some(Self { op: behind, input })
    }
}

/// What a block of a sum begins with and becomes.
#[derive(Default)]
pub(in super::super) struct Around<'a> {
    first: Option<Along<'a>>,
    last: Option<Along<'a>>,
}

/// A nest whose points are points of a sum.
struct Along<'a> {
    plan: Plan<'a>,
    /// The iterator of the sum that each of its iterators is.
    iterators: Vec<usize>,
    /// The number of the input that was summed up.
    summed: Option<usize>,
}

impl<'a> Plan<'a> {
    /// The plan of a nest whose points are those of this one: `map` says at which place of the output a point of it is.
    fn along(
        &self,
        ir: &Ir,
        generic: &'a Generic,
        region: &'a Region<'a>,
        domain: &'a [i64],
        map: &AffineMap,
        summed: Option<usize>,
    ) -> Option<Along<'a>> {
        let own = self.generic.indexing_maps.last()?;
        if !map.is_permutation() || !region.ops.iter().all(|op| is_elementwise(ir, *op)) {
            return None;
        }
        let mut iterators = vec![None; domain.len()];
        for (theirs, ours) in map.linear()?.iter().zip(own.linear()?.iter()) {
            let (theirs, ours) = (theirs.as_dim()?, ours.as_dim()?);
            if domain[theirs] != self.domain[ours] {
                return None;
            }
            iterators[theirs] = Some(ours);
        }
        let iterators: Vec<usize> = iterators.into_iter().collect::<Option<_>>()?;
        let theirs = |ours: usize| iterators.iter().position(|d| *d == ours);
        let lanes = theirs(self.lanes)?;
        let rows = self.rows.iter().filter(|_| !self.folds);
        let rows = rows.map(|(d, points)| Some((theirs(*d)?, *points)));
        let rows: Vec<(usize, i64)> = rows.collect::<Option<_>>()?;
        let maps = generic.indexing_maps.iter().map(AffineMap::linear);
        let maps = maps.collect::<Option<Vec<_>>>()?;
        let operands: Vec<Value> = generic.operands().collect();
        if !operands.iter().all(|value| has_bytes(ir.ty(*value))) {
            return None;
        }
        let bytes = region.largest(ir, &operands)?;
        let ours: Vec<Value> = self.generic.operands().collect();
        if bytes > self.region.largest(ir, &ours)? {
            return None;
        }
        let courses = operands.iter().zip(&maps).enumerate();
        let courses = courses.map(|(k, (value, map))| match summed == Some(k) {
            true => Some(Course::Contiguous),
            false => course(ir, *value, map, lanes),
        });
        let courses: Vec<Course> = courses.collect::<Option<_>>()?;
        let given = if summed.is_some() {
            generic.inputs.len()
        } else {
            operands.len()
        };
        if courses[given..]
            .iter()
            .any(|course| *course != Course::Contiguous)
        {
            return None;
        }
        let by_row = maps.iter().map(|map| {
            let rows = rows.iter().map(|(d, _)| map.uses(*d));
            rows.collect()
        });
        let plan = Plan {
            by_row: by_row.collect(),
            generic,
            region,
            domain,
            lanes,
            width: self.width,
            rows,
            vectors: self.vectors,
            unroll: self.unroll,
            masks: region.is_masked(ir, &operands, self.masked),
            masked: self.masked,
            half_line: self.half_line,
            courses,
            dot: None,
            folds: false,
        };
        Some(Along {
            plan,
            iterators,
            summed,
        })
    }
}

impl Along<'_> {
    /// What the nest yields at the points of a block: of each the vectors, and where its outputs are.
    fn values(
        &self,
        b: &mut Builder<'_>,
        block: &Block<'_>,
        at: &[Option<Value>],
        sums: &[Value],
    ) -> Result<Vec<Vec<Value>>, Failure> {
        let own = self.block(block);
        let at: Vec<Option<Value>> = self.iterators.iter().map(|d| at[*d]).collect();
        let mut known = HashMap::new();
        if let Some(summed) = self.summed {
            for ((j, i), sum) in own.points().zip(sums) {
                known.insert([summed, own.row(summed, j), i], *sum);
            }
        }
        let points: Vec<(usize, usize)> = own.points().collect();
        let mut all = Vec::new();
        for point in points {
            all.push(own.values(b, &own.at(&at, point), point, &mut known)?);
        }
        Ok(all)
    }

    /// The block of the nest that is a block of the sum.
    fn block<'b>(&'b self, block: &Block<'_>) -> Block<'b> {
        Block {
            plan: &self.plan,
            rows: block.rows.clone(),
            lanes: block.lanes.clone(),
            width: block.width,
            held: block.held,
        }
    }
}

impl Around<'_> {
    /// Whether a block that is computed once more is the same: it begins with a fill, and nothing that it reads is what it
    /// writes.
    pub(super) fn is_repeatable(&self) -> bool {
        let last = self.last.as_ref().map(|last| last.plan.generic);
        let apart = last.is_none_or(|last| !last.inputs.iter().any(|v| last.outputs.contains(v)));
        self.first.is_some() && apart
    }

    /// Whether vectors of what surrounds a block may be masked.
    pub(super) fn masks(&self) -> bool {
        let mut all = [&self.first, &self.last].into_iter().flatten();
        all.all(|along| along.plan.masks)
    }

    /// What the sums of a block begin with; none if that lies in memory.
    pub(super) fn first(
        &self,
        b: &mut Builder<'_>,
        block: &Block<'_>,
        at: &[Option<Value>],
    ) -> Result<Option<Vec<Value>>, Failure> {
        let Some(first) = &self.first else {
            return Ok(None);
        };
        let values = first.values(b, block, at, &[])?;
        Ok(Some(values.concat()))
    }

    /// Stores what becomes of the sums of a block, if they go no other way.
    pub(super) fn last(
        &self,
        b: &mut Builder<'_>,
        block: &Block<'_>,
        at: &[Option<Value>],
        sums: &[Value],
    ) -> Result<bool, Failure> {
        let Some(last) = &self.last else {
            return Ok(false);
        };
        let values = last.values(b, block, at, sums)?;
        let own = last.block(block);
        let at: Vec<Option<Value>> = last.iterators.iter().map(|d| at[*d]).collect();
        let points: Vec<(usize, usize)> = own.points().collect();
        for (point, values) in points.into_iter().zip(&values) {
            let places = last.plan.region.places(b, &own.at(&at, point))?;
            let outputs = last.plan.generic.outputs.iter().zip(&places);
            for ((output, place), value) in outputs.zip(values) {
                own.store(b, *value, *output, place);
            }
        }
        Ok(true)
    }
}
