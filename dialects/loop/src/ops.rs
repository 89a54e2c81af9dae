//! The ops of loop.

use tir::constraints::{BOOL, INDEX};
use tir::interfaces::{RegionBranchLike, RegionEdge, RegionPoint};
use tir::{
    Canonicalize, DYNAMIC, Decline, Failure, Interval, Ir, LoopLike, Op, OpId, OpRef, PatternSet,
    RegionId, Rets, Type, Value, Verify,
};

/// Runs its region for each index from the lower bound up to below the upper one. Values that
/// change from one iteration to the next are arguments of the region and its yielded values.
///
/// Each bound and the step are a number in the text or an operand; the step is positive.
///
/// Syntax: `%r = loop.for %i = 0 to %n step 2 iter_args(%a = %x) -> (f32) { … loop.yield %b : f32 }`;
/// without carried values `loop.yield` need not be written.
#[derive(Op)]
#[op(
    "loop.for",
    StrictAttributes,
    SingleBlock,
    terminator(Yield),
    RecursiveEffects,
    loop_like,
    region_branch,
    canonicalize,
    asm,
    verify,
    lower_to_eval
)]
pub struct For {
    /// Lower bound, upper bound and step, those that are not numbers.
    #[is(INDEX)]
    pub bounds: Vec<Value>,
    /// What the carried values begin with.
    pub init: Vec<Value>,
    /// Lower bound, upper bound and step, `DYNAMIC` where they are operands.
    pub static_bounds: Vec<i64>,
    /// Whether iterations may run in any order and at the same time: none writes what another one reads or
    /// writes.
    #[default(false)]
    pub parallel: bool,
    /// Takes the index and the carried values.
    pub body: RegionId,
    /// The carried values after the last iteration.
    pub results: Rets,
}

/// An attribute of a loop: iterations of the loop in it, which is alone there, are independent of those at another count in
/// all iterations of both, though its own depend on one another (sums over blocks, around results).
pub const THROUGH: &str = "loop.through";
/// The attribute of a function whose first two arguments are the ends of a range of iterations that are independent of each
/// other: a call may be replaced by calls for parts of its range, in any order and at the same time.
pub const RANGE: &str = "loop.range";

/// A bound of a loop: a number or a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bounds {
    /// A number.
    Static(i64),
    /// An operand.
    Dynamic(Value),
}

impl For {
    /// Lower bound, upper bound and step.
    pub fn all_bounds(&self) -> Option<[Bounds; 3]> {
        let mut values = self.bounds.iter();
        let mut out = [Bounds::Static(0); 3];
        if self.static_bounds.len() != 3 {
            return None;
        }
        for (slot, n) in out.iter_mut().zip(&self.static_bounds) {
            *slot = match *n {
                DYNAMIC => Bounds::Dynamic(*values.next()?),
                n => Bounds::Static(n),
            };
        }
        values.next().is_none().then_some(out)
    }

    /// The bounds, if all are numbers.
    pub fn static_range(&self) -> Option<[i64; 3]> {
        let bounds: [i64; 3] = self.static_bounds.clone().try_into().ok()?;
        (!bounds.contains(&DYNAMIC)).then_some(bounds)
    }

    /// The number of iterations, if the bounds are numbers.
    pub fn trip_count(&self) -> Option<i64> {
        let [low, high, step] = self.static_range()?;
        (step > 0).then(|| {
            (high - low).max(0).div_euclid(step) + i64::from((high - low).max(0) % step != 0)
        })
    }

    /// A loop with these bounds; `init` and the region go with it.
    pub fn new(bounds: [Bounds; 3], init: Vec<Value>, body: RegionId, results: Vec<Type>) -> Self {
        let value = |b: &Bounds| match b {
            Bounds::Dynamic(v) => Some(*v),
            Bounds::Static(_) => None,
        };
        let number = |b: &Bounds| match b {
            Bounds::Dynamic(_) => DYNAMIC,
            Bounds::Static(n) => *n,
        };
        Self {
            bounds: bounds.iter().filter_map(value).collect(),
            init,
            static_bounds: bounds.iter().map(number).collect(),
            parallel: false,
            body,
            results: Rets(results),
        }
    }
}

impl Canonicalize for For {
    fn patterns(set: &mut PatternSet) {
        set.on("drop-empty-loop", |looped: Self, op, rw| {
            if looped.trip_count() != Some(0) {
                return Err(Decline::because(|| "it may have an iteration".to_string()));
            }
            rw.replace(op, &looped.init);
            Ok(())
        });
    }
}

/// What a region yields.
pub(crate) fn yielded(ir: &Ir, region: RegionId) -> Result<(OpId, Vec<Type>), Failure> {
    let last = ir.entry(region).and_then(|block| ir.last(block));
    let Some(last) = last.filter(|last| ir.is::<Yield>(*last)) else {
        return Err("has a region that does not end in loop.yield".into());
    };
    Ok((last, ir.operands(last).map(|v| ir.ty(v)).collect()))
}

impl LoopLike for For {
    fn bodies(&self, _: OpRef<'_>) -> Vec<RegionId> {
        vec![self.body]
    }
    fn trip_count(&self, _: OpRef<'_>) -> Option<i64> {
        For::trip_count(self)
    }
    fn counter(&self, op: OpRef<'_>) -> Option<(Value, Interval)> {
        let ([low, _, step], last) = (self.static_range()?, For::trip_count(self)? - 1);
        let value = op.ir.args(op.ir.entry(self.body)?).next()?;
        let high = low.checked_add(step.checked_mul(last)?)?;
        (last >= 0).then(|| (value, Interval::new(low, high)))
    }
}
/// An edge with values in their order.
fn edge(
    from: RegionPoint,
    to: RegionPoint,
    given: Vec<Value>,
    taken: impl IntoIterator<Item = Value>,
) -> RegionEdge {
    let values = given.into_iter().zip(taken).collect();
    RegionEdge { from, to, values }
}
/// What the end of a region hands on; nothing if it has none.
fn handed_on(ir: &Ir, region: RegionId) -> Vec<Value> {
    let end = ir.entry(region).and_then(|block| ir.last(block));
    end.map_or_else(Vec::new, |end| ir.operands(end).collect())
}
impl RegionBranchLike for For {
    fn edges(&self, op: OpRef<'_>) -> Vec<RegionEdge> {
        use RegionPoint::{Parent, Region};
        let ir = op.ir;
        let args = ir.entry(self.body).map(|block| ir.args(block).skip(1));
        let args: Vec<Value> = args.into_iter().flatten().collect();
        let next = handed_on(ir, self.body);
        vec![
            edge(Parent, Region(0), self.init.clone(), args.clone()),
            edge(Parent, Parent, self.init.clone(), ir.results(op.id)),
            edge(Region(0), Region(0), next.clone(), args),
            edge(Region(0), Parent, next, ir.results(op.id)),
        ]
    }
}
impl Verify for For {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let ir = op.ir;
        if self.all_bounds().is_none() {
            let (n, found) = (self.static_bounds.len(), self.bounds.len());
            return Err(format!(
                "has {n} bounds, {found} of them operands: expected lower, upper and step"
            )
            .into());
        }
        if let Some(step) = self
            .static_bounds
            .get(2)
            .filter(|s| **s != DYNAMIC && **s < 1)
        {
            return Err(format!("has step {step}, expected at least 1").into());
        }
        let Some(block) = ir.entry(self.body) else {
            return Err("has an empty region".into());
        };
        let init: Vec<Type> = self.init.iter().map(|v| ir.ty(*v)).collect();
        let (_, yielded) = yielded(ir, self.body)?;
        let args: Vec<Type> = ir.args(block).map(|v| ir.ty(v)).collect();
        let mut wanted = vec![Type::index()];
        wanted.extend(&init);
        let show = |types: &[Type]| Type::function([], types.to_vec()).to_string();
        if args != wanted {
            return Err(format!(
                "has a region that takes {}, expected {}",
                show(&args),
                show(&wanted)
            )
            .into());
        }
        if yielded != init || self.results.0 != init {
            return Err(format!(
                "carries {}, but yields {} and results in {}",
                show(&init),
                show(&yielded),
                show(&self.results.0)
            )
            .into());
        }
        Ok(())
    }
}

/// Runs the first region if the condition is true, else the second one, which may be without
/// block if there are no results.
///
/// Syntax: `%r = loop.if %c -> (f32) { … } else { … }`.
#[derive(Op)]
#[op(
    "loop.if",
    StrictAttributes,
    RecursiveEffects,
    terminator(Yield),
    region_branch,
    asm,
    verify,
    lower_to_eval
)]
pub struct If {
    /// Which one.
    #[is(BOOL)]
    pub condition: Value,
    /// What runs if it is true.
    pub then_region: RegionId,
    /// What runs if it is false.
    pub else_region: RegionId,
    /// What the regions yield.
    pub results: Rets,
}
impl RegionBranchLike for If {
    fn edges(&self, op: OpRef<'_>) -> Vec<RegionEdge> {
        use RegionPoint::{Parent, Region};
        let mut edges = Vec::new();
        for (index, region) in [self.then_region, self.else_region].into_iter().enumerate() {
            if op.ir.entry(region).is_none() {
                edges.push(edge(Parent, Parent, Vec::new(), []));
                continue;
            }
            let given = handed_on(op.ir, region);
            edges.push(edge(Parent, Region(index), Vec::new(), []));
            edges.push(edge(Region(index), Parent, given, op.ir.results(op.id)));
        }
        edges
    }
}
impl Verify for If {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        for (region, name) in [(self.then_region, "first"), (self.else_region, "second")] {
            if name == "second" && op.ir.entry(region).is_none() && self.results.0.is_empty() {
                continue;
            }
            let (_, yielded) = yielded(op.ir, region)?;
            if yielded != self.results.0 {
                let (found, wanted) = (
                    Type::function([], yielded),
                    Type::function([], self.results.0.clone()),
                );
                return Err(
                    format!("yields {found} from its {name} region, expected {wanted}").into(),
                );
            }
        }
        Ok(())
    }
}

/// Ends an iteration or a branch: hands on the carried values or the results.
#[derive(Op)]
#[op(
    "loop.yield",
    StrictAttributes,
    Terminator,
    Pure,
    ReturnLike,
    parent(For, If)
)]
#[asm("attr-dict ($values^ `:` type($values))?")]
pub struct Yield {
    /// The values.
    pub values: Vec<Value>,
}
