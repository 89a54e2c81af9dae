//! `choose-graph`: what the e-graph makes of a function, where its nests take fewer cycles.
//!
//! What is extracted are groups of operators, each at what it takes as a nest by the estimate that chooses tiles
//! ([`Price`]). What nests share, such as tensors that stay near, is no property of one, so programs are compared whole
//! by the same estimate before one is taken: as the function is, as rewritten, and with the groups that were chosen.

mod near;
mod whole;

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use tir::interp::to_attr;
use tir::pass::{Memo, PassOptions, no_less, one_of};
use tir::{
    At, Attr, Data, Diagnostic, Ir, Mapping, Op, OpId, Pass, PassCx, PassResult, Pipeline,
    TensorType, Traits, Type, Value, pass,
};
use tir_accel::{AttachedMachine, Processor};
use tir_convert::{FuseElementwise, FuseGraph, GraphToTensor};
use tir_egraph::groups::{Body, Input, Price, Terms};
use tir_egraph::one_op::add_constant;
use tir_egraph::region::captures;
use tir_egraph::{Asked, Egraph};
use tir_func::{Return, function};
use tir_generic::{Canonicalize, ConstantFold, Cse};
use tir_graph::fusion::ungroup;
use tir_graph::{Constant, Fused};
use tir_tensor::{Empty, TransferRead};
use tir_tile::Tile;

use crate::shape::Shape;
use near::{AS_IT_IS, Program};
use whole::Prices;

pass! {
    /// Runs `egraph` and `constant-fold` on a copy of a function, where groups of ops are extracted at the cycles that each
    /// takes as a nest, and keeps the copy if all its nests take fewer cycles on the attached machine, by the
    /// estimate of `tile`, than those of the function as it is, operators of both fused: with the groups extracted as
    /// `graph.fused`, or without, whichever takes fewer. Where the estimate may be wrong about that, both are lowered as `to-accel`
    /// does, and run on the machine model without data.
    ///
    /// For processors, for functions of few cycles, and where the function as it is cannot be estimated, `egraph`
    /// is run where layouts matter; of functions of few cycles its program is taken if it is no slower.
    pub struct ChooseGraph = "choose-graph" on "func.func" {
        /// How operators are fused: `fuse-graph`'s `partition`.
        pub partition: String = "cost".to_string() => one_of(&["cost", "greedy", "none", "random"]),
        /// Groups with several results: as `fuse-graph` finds them, or, if false, where they gain as much as a program has to.
        pub multi_output: bool = false,
        /// Multi-buffering depth that tile sizes leave room for: slots per loop buffer.
        pub depth: i64 = 2 => no_less(1),
        /// Stages of one loop nest at most.
        pub max_stages: usize = 8 => no_less(1),
        /// Whether a tensor between two nests stays in near memory where that is no slower.
        pub resident: bool = true,
        /// Which tensors stay then: `cycles`, `bytes`, or `static`, as `tile` has it.
        pub near_policy: String = "cycles".to_string() => one_of(&["cycles", "bytes", "static"]),
        /// Which products in groups `tile` may join: `all`, `exact`, or `none`.
        pub join_groups: String = "all".to_string() => one_of(&["all", "exact", "none"]),
        /// Groups of several ops to choose from for each value.
        pub cuts: usize = 6,
        /// Maximum number of ops of a group that is extracted.
        pub group_ops: usize = 5,
        /// Maximum number of different groups that are planned as they are chosen. With more to choose from, groups count as what is
        /// expected of them to the end, not as their bounds.
        pub plans: usize = 2000,
        /// Groups of tensors of so many dimensions at most are planned before one is chosen, where three in four of all are such, and no
        /// more than `plans`: that takes a fraction of a millisecond each; the others, too, where they are one in six of all at most. 0:
        /// none; more than tensors have: all groups, so that the bound that `print` prints is that of their prices, which takes minutes for
        /// large functions.
        pub at_once: usize = 3,
        /// Maximum number of extractions one after the other that find nothing better; behind each, what it chose is planned.
        pub rounds: usize = 24,
        /// Number of search steps of each of them to begin with.
        pub steps: u64 = 2_000_000,
        /// Maximum number of search steps of each of them: those behind one that found nothing new to plan, and proved nothing, have
        /// five times as many.
        pub most_steps: u64 = 10_000_000,
        /// An extraction finds something better where it takes one in so many cycles less.
        pub gain: u64 = 500,
        /// Extraction ends where one in so many cycles is left to gain at most.
        pub near: u64 = 200,
        /// Extraction goes on by bounds of groups where more than one in so many cycles is expected to be left to gain.
        pub gap: u64 = 5,
        /// Maximum number of times that a function is rewritten, as long as each takes one in `worth` of its cycles away.
        pub repeat: usize = 4,
        /// Functions of more ops than that, constants apart, are rewritten once: to begin again takes as long as the first time, and brings
        /// one in a hundred at most where layers repeat. Of several programs those are planned whose groups, each by
        /// itself, take no more than one in `worth` of its cycles more than those of the first; where the groups chosen take one in `doubt`
        /// fewer than those of `fuse-graph`, they are all that is planned of programs beside the first.
        pub repeat_ops: usize = 300,
        /// A function is rewritten again, and extracted groups are compared with those of `fuse-graph`, where one in so many
        /// cycles is gained.
        pub worth: u64 = 100,
        /// A program that takes no more than one in so many cycles less changes nothing: the estimate is not that exact.
        pub slight: i64 = 1000,
        /// Of two programs the one that takes fewer cycles by the estimate is taken where that is one in so many. Of those that
        /// are nearer to each other, the estimate may take the slower one: both are lowered and run on the machine model without data.
        pub sure: i64 = 5,
        /// Where programs cannot be run or shall not: the function stays as it is unless one in so many of its cycles is gained by the
        /// estimate.
        pub doubt: i64 = 20,
        /// Maximum number of programs that are run so, besides the function as it is; 0: none.
        pub runs: usize = 3,
        /// Cycles by the estimate above which functions are not run so: that takes as long as to lower them.
        pub largest: i64 = 5_000_000,
        /// Maximum number of steps of such a run.
        pub limit: u64 = 50_000_000,
        /// Cycles by the estimate below which functions are left to `egraph`, whose program is taken if it is no slower: of such,
        /// latencies and starts, which queues overlap, are most.
        pub least: i64 = 20_000,
        /// Write the groups to choose from as an e-graph in the JSON format of egraph-serialize and extraction-gym, a node for
        /// each with its cycles, those chosen marked: of the last time that a function was rewritten.
        pub json: Option<String> = None,
        /// Print the estimates, and how many groups there were, with a bound of their cycles.
        pub print: bool = false,
    }
}

impl ChooseGraph {
    /// Whether operators may be in groups.
    fn fuses(&self) -> bool {
        self.partition != "none"
    }

    /// What `egraph` makes of a function of few cycles, or of one that cannot be estimated: taken if it is no slower.
    fn few(&self, ir: &mut Ir, before: Option<i64>, cx: &mut PassCx<'_>) -> PassResult {
        let mut pipeline = Pipeline::new();
        pipeline.add(Egraph {
            always: false,
            ..Egraph::default()
        });
        pipeline.add(ConstantFold::default());
        let mut made = ir.clone();
        let said = cx.attempt(&pipeline, &mut made)?;
        said.into_iter().for_each(|remark| cx.remark(remark));
        let after = before.and_then(|_| self.price(&made, cx));
        if let (Some(before), Some(after)) = (before, after) {
            self.print(ir, cx, || {
                format!("as it is the function takes {before} cycles by the estimate, fewer than {}; behind `egraph` it takes {after}", self.least)
            });
            let program = |what, ir: &Ir, cycles| Program::new(what, ir.clone(), cycles);
            let both = [
                program(AS_IT_IS, ir, before),
                program("rewritten", &made, after),
            ];
            if self.is_slower(both, cx) {
                cx.unchanged();
                return Ok(());
            }
        }
        *ir = made;
        Ok(())
    }

    /// The cycles of a function's nests by the estimate.
    fn price(&self, ir: &Ir, cx: &PassCx<'_>) -> Option<i64> {
        let lowered = self.lowered(ir, cx)?;
        self.nests(&lowered, cx)
    }

    /// A function in ops on tensors, grouped.
    fn lowered(&self, ir: &Ir, cx: &PassCx<'_>) -> Option<Ir> {
        let mut lowered = self.fused(ir, cx)?;
        let mut pipeline = Pipeline::new();
        tir_graph::lowering::join(&mut pipeline);
        pipeline.add(GraphToTensor {
            stored_arguments: true,
        });
        pipeline.add(FuseElementwise::default());
        pipeline.add(Canonicalize::default());
        cx.attempt(&pipeline, &mut lowered).ok()?;
        Some(lowered)
    }

    /// A function with its operators grouped.
    fn fused(&self, ir: &Ir, cx: &PassCx<'_>) -> Option<Ir> {
        self.fused_as(ir, self.multi_output, cx)
    }

    /// The same, groups having several results or not.
    fn fused_as(&self, ir: &Ir, multi_output: bool, cx: &PassCx<'_>) -> Option<Ir> {
        let mut fused = ir.clone();
        let mut pipeline = Pipeline::new();
        pipeline.add(FuseGraph {
            partition: self.partition.clone(),
            multi_output,
            ..FuseGraph::default()
        });
        cx.attempt(&pipeline, &mut fused).ok()?;
        Some(fused)
    }

    /// A function grouped so that some groups have several results, if there are such.
    fn of_several(&self, ir: &Ir, cx: &PassCx<'_>) -> Option<Ir> {
        if self.multi_output || !self.fuses() {
            return None;
        }
        let several = self.fused_as(ir, true, cx)?;
        let has_several = |op: &OpId| several.is::<Fused>(*op) && several.results(*op).len() > 1;
        several
            .walk_ids()
            .iter()
            .any(has_several)
            .then_some(several)
    }

    /// The cycles of a function's groups, each by itself.
    fn apart(&self, ir: &Ir, cx: &PassCx<'_>) -> Option<i64> {
        let block = ir.body_block(ir.root(), 0)?;
        let computed =
            |op: &OpId| !ir.has(*op, Traits::ConstantLike) && !ir.has(*op, Traits::Terminator);
        let cycles = |op: OpId| {
            let read = ir.operands(op).chain(captures(ir, op));
            let given: HashSet<Value> = read.filter(|v| ir.owner(*v).is_none()).collect();
            let given = given.into_iter().map(|value| bytes(ir.ty(value))).sum();
            self.by_itself(&alone(ir, op), given, cx)
        };
        let all = cx.map(ir.ops_in(block).filter(computed).collect(), cycles);
        let sum = |sum: i64, cycles: Option<i64>| Some(sum.saturating_add(cycles?));
        all.into_iter().try_fold(0, sum)
    }

    /// The cycles of a function of one group.
    ///
    /// What computes nothing, as a concatenation, is written in its place by the nests that compute its parts. But no nest
    /// writes those that are given from outside, of so many bytes: they are copied.
    fn by_itself(&self, group: &Ir, given: u64, cx: &PassCx<'_>) -> Option<i64> {
        let taken = self.planned(group, given > 0, cx)?;
        if taken.computes || given == 0 {
            return Some(taken.cycles);
        }
        let block = group.body_block(group.root(), 0)?;
        let all: u64 = group.args(block).map(|value| bytes(group.ty(value))).sum();
        let part = i128::from(taken.cycles) * i128::from(given.min(all)) / i128::from(all.max(1));
        i64::try_from(part).ok()
    }

    /// What a function of one group takes, found once for all that are the same; what computes nothing takes something only if it is
    /// `copied`.
    fn planned(&self, group: &Ir, copied: bool, cx: &PassCx<'_>) -> Option<Taken> {
        let attached = cx.outer::<AttachedMachine>()?;
        let machine = &attached.0.as_ref()?.0.name;
        let options = format!("{machine} {:?} {copied}", self.values());
        let key = (options, Shape::of(group));
        cx.shared(Alone::default).0.or_find(key, || {
            let lowered = self.lowered(group, cx)?;
            let computes = computes(&lowered);
            let cycles = match computes || copied {
                true => self.nests(&lowered, cx)?,
                false => 0,
            };
            Some(Taken { computes, cycles })
        })
    }

    /// The pass that estimates nests.
    fn tiling(&self) -> Tile {
        Tile::of_level(
            self.depth,
            self.max_stages,
            (self.resident, &self.near_policy),
            &self.join_groups,
        )
    }

    fn nests(&self, lowered: &Ir, cx: &PassCx<'_>) -> Option<i64> {
        let attached = cx.outer::<AttachedMachine>()?;
        let (info, machine) = attached.0.as_ref()?;
        Some(self.tiling().price(lowered, cx, (info, machine))?.weighed)
    }
}

/// A function of one op, which may be a group; what is constant around it is constant in it.
pub fn alone(function: &Ir, op: OpId) -> Ir {
    let (mut copied, mut arguments) = (Vec::new(), Vec::new());
    let mut seen = HashSet::new();
    let operands = function.operands(op).chain(captures(function, op));
    for value in operands.filter(|value| seen.insert(*value)) {
        // What needs nothing is made again.
        let needs_nothing = |op: &OpId| {
            let inner = function.regions(*op).len();
            inner + function.operands(*op).len() == 0 && function.is_pure(*op)
        };
        match function.owner(value).filter(needs_nothing) {
            Some(op) => copied.push(op),
            None => arguments.push(value),
        }
    }
    let types: Vec<Type> = arguments.iter().map(|v| function.ty(*v)).collect();
    let results = function.result_types(op);
    let (mut made, block) = tir_func::function("group", Type::function(types, results));
    let mut map = Mapping::default();
    for (number, value) in arguments.iter().enumerate() {
        map.map(*value, made.arg(block, number));
    }
    for op in copied {
        made.copy_op(function, op, At::End(block), &mut map);
    }
    let copy = made.copy_op(function, op, At::End(block), &mut map);
    let operands: Vec<Value> = made.results(copy).collect();
    made.add(At::End(block), Return { operands });
    made
}

/// Bytes of a tensor.
fn bytes(ty: Type) -> u64 {
    (ty.elements().unwrap_or(0) * ty.bytes().unwrap_or(0)) as u64
}

/// Whether a function computes anything: what changes shapes alone, or puts parts together, is where it is written.
fn computes(lowered: &Ir) -> bool {
    lowered.walk_ids().into_iter().any(|op| {
        let holds = op == lowered.root() || lowered.is::<Fused>(op);
        lowered.is::<TransferRead>(op) || lowered.regions(op).len() > 0 && !holds
    })
}

/// Programs that an e-graph has of a function, each for `fuse-graph` to group and with groups that were chosen, the one of the
/// least sum first; and remarks of the pass.
type Made = (Vec<[Ir; 2]>, Vec<Diagnostic>);

impl ChooseGraph {
    /// What the e-graph makes of a function, groups chosen by what they take as nests: for `fuse-graph` to group, and with
    /// these groups.
    fn grouped(&self, ir: &Ir, cx: &PassCx<'_>) -> Result<Made, Vec<Diagnostic>> {
        let mut grouped = ir.clone();
        let others = Mutex::default();
        let terms = Terms {
            cuts: self.cuts,
            nodes: if self.fuses() { self.group_ops } else { 1 },
            plans: self.plans,
            at_once: self.at_once,
            rounds: self.rounds,
            steps: self.steps,
            most_steps: self.most_steps,
            gain: self.gain,
            near: self.near,
            gap: self.gap,
            bound: self.print,
        };
        let run = |ir: &mut Ir, cx: &mut PassCx<'_>| {
            let egraph = Egraph {
                print: self.print,
                json: self.json.clone(),
                ..Egraph::default()
            };
            let asked = Asked {
                price: self,
                terms,
                others: &others,
            };
            egraph.priced(ir, cx, Some(&asked))
        };
        let said = cx.attempt_one(Egraph::NAME, &mut grouped, &run)?;
        let others = others.into_inner().unwrap_or_else(PoisonError::into_inner);
        let made = std::iter::once(grouped).chain(others);
        let forms = made.map(|grouped| self.forms(ir, grouped, cx));
        Ok((forms.collect::<Result<_, _>>()?, said))
    }

    /// What was made of a function, for `fuse-graph` to group, and with the groups that were chosen.
    fn forms(&self, ir: &Ir, mut grouped: Ir, cx: &PassCx<'_>) -> Result<[Ir; 2], Vec<Diagnostic>> {
        let mut pipeline = Pipeline::new();
        pipeline.add(ConstantFold::default());
        cx.attempt(&pipeline, &mut grouped)?;
        let mut open = grouped.clone();
        for op in open.walk_ids() {
            let made = open.contains(op) && open.is::<Fused>(op) && !ir.contains(op);
            if made {
                ungroup(&mut open, op);
            }
        }
        let mut pipeline = Pipeline::new();
        pipeline.add(Cse {
            keep: vec![Empty::name().to_string()],
        });
        cx.attempt(&pipeline, &mut open)?;
        Ok([open, grouped])
    }
}

/// What a function of one group takes.
#[derive(Clone, Copy)]
struct Taken {
    /// Whether it computes anything.
    computes: bool,
    cycles: i64,
}

/// What functions of one group take, by machine and options, and by what they compute; none of those that do not fit.
#[derive(Default)]
struct Alone(Memo<(String, Shape), Option<Taken>>);

/// Random constants by their types.
#[derive(Default)]
struct Numbers(Memo<Type, Option<Attr>>);

impl Numbers {
    fn of(&self, ty: Type) -> Option<Attr> {
        let make = || to_attr(&Data::random(ty, 1).ok()?, ty);
        self.0.or_find(ty, make)
    }
}

/// What a group takes by itself.
impl Price for ChooseGraph {
    fn cycles(&self, body: &Body, cx: &PassCx<'_>) -> Option<u64> {
        let result = body.parts.last()?.ty;
        let is_argument = |input: &&Input| !input.known;
        let arguments = body.inputs.iter().filter(is_argument).map(|input| input.ty);
        let arguments: Vec<Type> = arguments.collect();
        let (mut ir, block) = function("group", Type::function(arguments, vec![result]));
        let mut given = ir.args(block).collect::<Vec<Value>>().into_iter();
        let mut inputs = Vec::new();
        for input in &body.inputs {
            inputs.push(match (&input.constant, input.known) {
                (Some((name, attrs)), _) => add_constant(&mut ir, block, input.ty, (*name, attrs)),
                // What it holds decides nothing: one for all of a type.
                (None, true) => {
                    let value = cx.shared(Numbers::default).of(input.ty)?;
                    ir.add(At::End(block), Constant { value })
                }
                (None, false) => given.next()?,
            });
        }
        let made = body.build(&mut ir, block, &inputs)?;
        let operands = vec![made];
        ir.add(At::End(block), Return { operands });
        let given = body.inputs.iter().filter(|input| input.given);
        let given = given.map(|input| bytes(input.ty)).sum();
        u64::try_from(self.by_itself(&ir, given, cx)?).ok()
    }
}

impl Pass for ChooseGraph {
    fn prepare(&self, parent: &Ir, cx: &mut PassCx<'_>) -> PassResult {
        cx.analysis::<AttachedMachine>(parent);
        cx.analysis::<OnProcessor>(parent);
        Ok(())
    }

    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        FuseGraph::check(&self.partition)?;
        self.tiling().check()?;
        let is_tensor = |value: Value| ir.ty(value).is::<TensorType>();
        let ops = ir.walk_ids();
        if !ops.iter().any(|op| ir.results(*op).any(is_tensor)) {
            cx.unchanged();
            return Ok(());
        }
        let processor = cx.outer::<OnProcessor>().is_some_and(|found| found.0);
        let known = if processor { None } else { self.price(ir, cx) };
        let Some(before) = known.filter(|cycles| *cycles >= self.least) else {
            return self.few(ir, known, cx);
        };
        let mut found = Vec::new();
        let known = Prices::default();
        let mut least = before;
        // What is rewritten can be rewritten further: another e-graph begins where the last one ended.
        let mut from = ir.clone();
        let mut shape = Shape::of(&from);
        let left = 1.0 - 1.0 / self.worth.max(1) as f64;
        let ops = ir.walk_ids().into_iter();
        let ops = ops.filter(|op| !ir.has(*op, Traits::ConstantLike)).count();
        let once = self.repeat > 1 && ops > self.repeat_ops;
        let times = if once { 1 } else { self.repeat };
        for round in 1..=times {
            let reached = least;
            let (all, said) = self.grouped(&from, cx)?;
            said.into_iter().for_each(|remark| cx.remark(remark));
            let mut best: Option<(i64, Ir)> = None;
            let near = self.near_to_first(ir, all, ops, cx);
            let planned = self.planned_whole(near, once, &known, cx);
            let programs = planned.len();
            for (number, (open, made)) in planned.into_iter().enumerate() {
                let mut quickest: Option<i64> = None;
                for (what, other, cycles) in made {
                    self.print(ir, cx, || {
                        let after =
                            cycles.map_or("does not fit".to_string(), |n| format!("takes {n}"));
                        format!(
                            "round {round}, program {} of {programs}: as it is the function takes {before} cycles by the estimate, {what} it {after}",
                            number + 1
                        )
                    });
                    if let Some(cycles) = cycles {
                        quickest = Some(quickest.map_or(cycles, |least| least.min(cycles)));
                        found.push(Program::new(what, other, cycles));
                    }
                }
                if let Some(cycles) = quickest
                    && best.as_ref().is_none_or(|(least, _)| cycles < *least)
                {
                    best = Some((cycles, open));
                }
            }
            // The quickest is what is rewritten again. The same program has the same e-graph.
            let Some((cycles, open)) = best else { break };
            least = least.min(cycles);
            let now = Shape::of(&open);
            let last = now == shape;
            (from, shape) = (open, now);
            if last || least as f64 > left * reached as f64 {
                break;
            }
            if once && cx.settings().remarks {
                let text = format!(
                    "rewritten once, from {reached} to {least} cycles by the estimate: functions of more than {} ops, here {ops}, are not rewritten again; `repeat-ops={ops}` does so",
                    self.repeat_ops
                );
                cx.remark(Diagnostic::remark(text).at(ir.loc(ir.root())));
            }
        }
        let given = Program::new(AS_IT_IS, ir.clone(), before);
        let mut best = self.best(given, found, cx);
        // What several groups read or compute is read or computed once by one of several results.
        if let Some(several) = self.of_several(&best.ir, cx)
            && let Some(after) = self.price(&several, cx)
        {
            let without = best.estimated;
            self.print(ir, cx, || {
                format!("with groups of several results it takes {after} cycles, not {without}")
            });
            let several = Program::new("with groups of several results", several, after);
            best = self.best(best, vec![several], cx);
        }
        if best.what == AS_IT_IS {
            cx.unchanged();
        } else {
            cx.count("functions rewritten", 1);
            *ir = best.ir;
        }
        Ok(())
    }
}

/// Whether a module's machine is a processor.
struct OnProcessor(bool);

impl tir::Analysis for OnProcessor {
    fn new(module: &Ir) -> Self {
        Self(Processor::of_module(module).is_some())
    }
}
