//! What a vector unit computes, and in how many cycles: the one formula of the planner, of `--dry-run`
//! and of the machine model.
//!
//! *Terms.* A **vector** is `lanes` neighbouring points of a nest. A **run** is a sequence of points
//! that fills vectors one behind the other: along it each operand is contiguous, constant, or repeats
//! with a period that vectors do not cut. Points of a run are either parallel or reduced; in the second
//! case each lane holds a part of the result, and the lanes are folded in the end.
//!
//! *Formula.* `start + vectors · (max(1, costliest op, ⌈Σ ops / chain⌉, ⌈bytes / port⌉) + Σ (distance − 1)) + folded results ·
//! fold`, where a combiner is one more op, and distances are those of elements that are put together from several loads.

use tir::{Ir, MemRefType, Name, RegionId, Traits, Type};
use tir_tensor::{Combine, Generic};

/// A vector unit's capability; see [`Vector`](crate::Vector).
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct VectorInfo {
    pub name: Name,
    pub unit: Name,
    pub space: Name,
    pub types: Vec<Type>,
    /// Cycles of an op on a vector, by its name.
    pub ops: Vec<(Name, i64)>,
    /// Cycles of an op that is not listed, if it computes all.
    pub any: Option<i64>,
    /// Cycles to fold the lanes of a result.
    pub reduce: Vec<(Combine, i64)>,
    pub lanes: i64,
    pub start: i64,
    pub chain: i64,
    pub port: i64,
    pub strided: bool,
    pub apart: i64,
}

/// What the scalar computation of a nest costs on a vector unit that computes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegionCost {
    /// Cycles of a vector, apart from the bytes that it moves.
    pub vector: i64,
    /// Cycles to fold the lanes of one result; none if they cannot be folded.
    pub fold: Option<i64>,
}

/// An operand of a nest, as it lies in memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stream {
    /// How many elements further it is read or written with the next point of each iterator.
    pub strides: Vec<i64>,
    /// Bytes of an element.
    pub bytes: i64,
}

/// The points of a nest, and where its operands lie.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NestShape {
    /// The range of each iterator.
    pub domain: Vec<i64>,
    /// Which iterators are reductions.
    pub reductions: Vec<bool>,
    /// Inputs, then outputs.
    pub operands: Vec<Stream>,
}

impl NestShape {
    /// The shape of a generic on tensors, taken as dense, or on buffers. `None` where a map is not
    /// linear or a layout or shape not known.
    pub fn of(ir: &Ir, nest: &Generic) -> Option<Self> {
        let domain = nest.domain(ir).ok()?;
        let stream = |(value, map): (_, &tir::AffineMap)| {
            let ty = ir.ty(value);
            let strides = match ty.get::<MemRefType>() {
                Some(memref) => memref.strides()?.0,
                None => MemRefType::dense_strides(ty.shape()?),
            };
            if strides.contains(&tir::DYNAMIC) {
                return None;
            }
            Some(Stream {
                strides: element_strides(&map.linear()?, &strides, domain.len()),
                bytes: i64::try_from(ty.elem().bytes()?).ok()?,
            })
        };
        let operands = nest.operands().zip(&nest.indexing_maps).map(stream);
        let operands = operands.collect::<Option<_>>()?;
        (!domain.contains(&tir::DYNAMIC)).then(|| Self {
            operands,
            reductions: nest.reductions(),
            domain,
        })
    }

    fn points(&self) -> i64 {
        self.domain.iter().copied().fold(1, i64::saturating_mul)
    }
    fn results(&self) -> i64 {
        let ranges = self.domain.iter().zip(&self.reductions);
        let parallel = ranges.filter(|(_, reduced)| !**reduced).map(|(n, _)| *n);
        parallel.fold(1, i64::saturating_mul)
    }
}

/// How many elements further a position moves with the next point of each iterator.
pub fn element_strides(map: &tir::LinearMap, strides: &[i64], iterators: usize) -> Vec<i64> {
    let step = |d: usize| {
        let steps = map.iter().zip(strides);
        let steps = steps.map(|(row, stride)| row.at(d).saturating_mul(*stride));
        steps.fold(0, i64::saturating_add)
    };
    (0..iterators).map(step).collect()
}

/// How an operand goes on along a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Course {
    Constant,
    Contiguous(i64),
    Period(i64),
}

fn ceil(n: i64, by: i64) -> i64 {
    let by = by.max(1);
    n.saturating_add(by - 1) / by
}

impl VectorInfo {
    /// What the scalar computation of a nest costs; or why it is not computed. Scalars from outside of
    /// the region are passed along with the nest, as constants are. `elems` are the element
    /// types of the inputs, then of the outputs.
    pub fn covers(
        &self,
        ir: &Ir,
        body: RegionId,
        combine: Option<Combine>,
        elems: &[Type],
    ) -> Result<RegionCost, String> {
        let takes = |ty: Type| ty == Type::int(1) || self.types.contains(&ty);
        let refused = |ty: Type| Err(format!("it takes no elements of {ty}"));
        if let Some(ty) = elems.iter().find(|ty| !takes(**ty)) {
            return refused(*ty);
        }
        let block = ir.entry(body).ok_or("the region is empty")?;
        let mut costs = Vec::new();
        for op in ir.ops_in(block) {
            if ir.has(op, Traits::Terminator) || ir.has(op, Traits::ConstantLike) {
                continue;
            }
            if let Some(value) = ir.results(op).find(|v| !takes(ir.ty(*v))) {
                return refused(ir.ty(value));
            }
            if ir.regions(op).len() > 0 {
                return Err(format!("'{}' has a region", ir.name(op)));
            }
            costs.push(self.cost(ir.name(op))?);
        }
        let mut fold = None;
        if let (Some(combine), Some(elem)) = (combine, elems.last()) {
            costs.push(self.cost(combine.op(*elem))?);
            let listed = self.reduce.iter().find(|(how, _)| *how == combine);
            fold = listed.map(|(_, cycles)| *cycles);
        }
        let sum = costs.iter().copied().fold(0, i64::saturating_add);
        let costliest = costs.iter().copied().max().unwrap_or(1);
        Ok(RegionCost {
            vector: costliest.max(ceil(sum, self.chain)).max(1),
            fold,
        })
    }

    fn cost(&self, op: Name) -> Result<i64, String> {
        let listed = self.ops.iter().find(|(name, _)| *name == op);
        let cycles = listed.map(|(_, cycles)| *cycles).or(self.any);
        cycles.ok_or_else(|| format!("'{op}' is not among its ops"))
    }

    /// Cycles of a nest whose scalar computation costs this: along the iterators for which that is
    /// least.
    pub fn cycles(&self, region: RegionCost, nest: &NestShape) -> i64 {
        let points = nest.points();
        if points == 0 {
            return self.start;
        }
        let whole = |vectors: i64, bytes: i64, folds: i64, more: i64| {
            let moved = if self.port > 0 {
                ceil(bytes, self.port)
            } else {
                1
            };
            let one = region.vector.max(moved).saturating_add(more);
            let vectors = vectors.saturating_mul(one);
            vectors.saturating_add(folds).saturating_add(self.start)
        };
        // One lane alone computes anything.
        let single = nest.operands.iter().map(|o| o.bytes).sum();
        let mut least = whole(points, single, 0, 0);
        for first in (0..nest.domain.len()).filter(|d| nest.domain[*d] > 1) {
            let folds = match (nest.reductions[first], region.fold) {
                (false, _) => 0,
                (true, Some(fold)) => fold.saturating_mul(nest.results()),
                (true, None) => continue,
            };
            let Some((run, courses)) = self.run(nest, first) else {
                continue;
            };
            let used = run.min(self.lanes);
            let loads = courses.iter().map(|course| match course {
                Course::Contiguous(step) if !self.strided => step - 1,
                _ => 0,
            });
            let more: i64 = loads.sum();
            let bytes = nest
                .operands
                .iter()
                .zip(courses)
                .map(|(o, course)| match course {
                    Course::Constant => o.bytes,
                    _ => o.bytes.saturating_mul(used),
                });
            let vectors = (points / run).saturating_mul(ceil(run, self.lanes));
            least = least.min(whole(vectors, bytes.sum(), folds, more));
        }
        least
    }

    /// The length of the run that begins along an iterator, and how each operand goes along it; `None`
    /// if one lies so that a vector of it cannot be read at once.
    fn run(&self, nest: &NestShape, first: usize) -> Option<(i64, Vec<Course>)> {
        let course = |o: &Stream| match o.strides[first] {
            0 => Some(Course::Constant),
            1 => Some(Course::Contiguous(1)),
            step => (self.strided || (2..=self.apart).contains(&step))
                .then_some(Course::Contiguous(step)),
        };
        let courses = nest.operands.iter().map(course);
        let mut courses: Vec<Course> = courses.collect::<Option<_>>()?;
        let mut run = nest.domain[first];
        let mut taken = vec![first];
        // A run of whole vectors is as good as a longer one.
        while run % self.lanes != 0 {
            let whole = |period: i64| self.lanes % period == 0;
            let next = |o: &Stream, course: Course, d: usize| match (course, o.strides[d]) {
                (Course::Constant, 0) => Some(Course::Constant),
                (Course::Contiguous(step), by) if by == step.saturating_mul(run) => Some(course),
                (Course::Contiguous(_), 0) if whole(run) => Some(Course::Period(run)),
                (Course::Period(period), 0) => Some(Course::Period(period)),
                _ => None,
            };
            let longer = (0..nest.domain.len()).rev().find_map(|d| {
                let same = nest.reductions[d] == nest.reductions[first];
                if taken.contains(&d) || !same || nest.domain[d] <= 1 {
                    return None;
                }
                let all = nest.operands.iter().zip(&courses);
                let all = all.map(|(o, course)| next(o, *course, d));
                Some((d, all.collect::<Option<Vec<_>>>()?))
            });
            let Some((d, longer)) = longer else {
                break;
            };
            taken.push(d);
            courses = longer;
            run = run.saturating_mul(nest.domain[d]);
        }
        Some((run, courses))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(lanes: i64) -> VectorInfo {
        VectorInfo {
            name: Name::new("v"),
            unit: Name::new("u"),
            space: Name::new("s"),
            types: Vec::new(),
            ops: Vec::new(),
            any: None,
            reduce: Vec::new(),
            lanes,
            start: 0,
            chain: 1,
            port: 0,
            strided: false,
            apart: 1,
        }
    }
    /// A nest of two iterators with operands of 4 bytes.
    fn nest(domain: [i64; 2], reduced: bool, strides: &[[i64; 2]]) -> NestShape {
        let stream = |strides: &[i64; 2]| Stream {
            strides: strides.to_vec(),
            bytes: 4,
        };
        NestShape {
            domain: domain.to_vec(),
            reductions: vec![false, reduced],
            operands: strides.iter().map(stream).collect(),
        }
    }
    fn cost(vector: i64, fold: Option<i64>) -> RegionCost {
        RegionCost { vector, fold }
    }

    #[test]
    fn vectors_go_on_over_rows_that_lie_one_behind_the_other() {
        let dense = nest([3, 10], false, &[[10, 1], [10, 1]]);
        assert_eq!(unit(16).cycles(cost(1, None), &dense), 2);
        let apart = nest([3, 10], false, &[[12, 1], [10, 1]]);
        assert_eq!(unit(16).cycles(cost(1, None), &apart), 3);
    }

    #[test]
    fn a_period_that_divides_the_lanes_is_as_good_as_contiguous() {
        let bias = |n| nest([8, n], false, &[[n, 1], [0, 1], [n, 1]]);
        assert_eq!(unit(32).cycles(cost(2, None), &bias(8)), 4);
        assert_eq!(unit(32).cycles(cost(2, None), &bias(6)), 16);
        // One scalar for each row ends the run with it.
        let scaled = nest([8, 8], false, &[[8, 1], [1, 0], [8, 1]]);
        assert_eq!(unit(32).cycles(cost(1, None), &scaled), 8);
    }

    #[test]
    fn lanes_are_folded_only_where_the_unit_can() {
        let rows = nest([4, 64], true, &[[64, 1], [1, 0]]);
        assert_eq!(unit(16).cycles(cost(1, Some(5)), &rows), 16 + 4 * 5);
        assert_eq!(unit(16).cycles(cost(1, None), &rows), 256);
        // Across rows nothing is folded: the lanes are those of the results.
        let columns = nest([64, 4], true, &[[1, 64], [1, 0]]);
        assert_eq!(unit(16).cycles(cost(1, None), &columns), 16);
    }

    #[test]
    fn elements_apart_are_vectors_of_one_unless_the_unit_takes_strides() {
        let strided = nest([1, 64], false, &[[0, 2], [0, 1]]);
        assert_eq!(unit(16).cycles(cost(1, None), &strided), 64);
        let takes = VectorInfo {
            strided: true,
            ..unit(16)
        };
        assert_eq!(takes.cycles(cost(1, None), &strided), 4);
        // By two loads each, and the third element is too far away.
        let puts_together = VectorInfo {
            apart: 2,
            ..unit(16)
        };
        assert_eq!(puts_together.cycles(cost(1, None), &strided), 8);
        let further = nest([1, 64], false, &[[0, 3], [0, 1]]);
        assert_eq!(puts_together.cycles(cost(1, None), &further), 64);
    }

    #[test]
    fn the_port_bounds_what_a_vector_moves() {
        let narrow = VectorInfo {
            port: 32,
            ..unit(16)
        };
        let sum = nest([1, 64], false, &[[0, 1], [0, 1], [0, 1]]);
        assert_eq!(narrow.cycles(cost(1, None), &sum), 4 * 6);
        // A scalar is read once for a vector.
        let scaled = nest([1, 64], false, &[[0, 1], [0, 0], [0, 1]]);
        assert_eq!(narrow.cycles(cost(1, None), &scaled), 4 * 5);
    }
}
