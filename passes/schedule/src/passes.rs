//! The passes of this crate: on functions, and on modules where functions that call are run.

use std::collections::HashSet;

use tir::pass::{at_least, no_less};
use tir::remarks::{MEMORY, QUEUE_FULL, SPLIT_TRANSFER, UNUSED_SPACE, UNUSED_UNIT};
use tir::{
    Diagnostic, Failure, Ir, MemRefType, OpId, OpRef, Pass, PassCx, PassResult, SymbolTable,
    grouped, pass,
};
use tir_accel::{AttachedMachine, MachineInfo, TargetProcessor};
use tir_func::Func;
use tir_memory::far::too_full;
use tir_memory::plan_memory::plans_of;
use tir_memory::unplanned::{Ordered, unplanned};
use tir_packing::Effort;

use crate::dry_run::{Edge, dry_run, dry_run_worth, edges};
use crate::expand_generic::{Form, Registers};
use crate::place::{Cycles, Place};
use crate::schedule::{Schedule, unmark};

pass! {
    /// Splits loops whose iterations are independent among equal cores and equal units of the attached
    /// machine: what runs on them stands beside each other in each iteration (unroll and jam).
    pub struct Distribute = "distribute" on "func.func" {}
}
pass! {
    /// Multi-buffers loops: hoists the buffer of an iteration as one with several slots; sliding
    /// windows become ring buffers.
    pub struct MultiBuffer = "multi-buffer" on "func.func" {
        /// Multi-buffering depth: slots per loop buffer.
        pub depth: i64 = 2 => no_less(1),
        /// Use ring buffers for sliding windows.
        pub ring: bool = true,
        /// Let the first window of a ring's next sweep follow the last one of a sweep: rings have room for both.
        pub sweeps: bool = false,
    }
}
pass! {
    /// Converts copies between memory spaces to DMA transfers; loads are prefetched ahead of the
    /// iteration that uses them.
    pub struct InsertDma = "insert-dma" on "func.func" {
        /// Prefetch loads.
        pub prefetch: bool = true,
        /// Spread prefetched loads over the calls of an iteration where its queue does not hold them.
        pub spread: bool = true,
    }
}
pass! {
    /// Runs `multi-buffer` and `insert-dma`, with fewer slots per buffer until `plan-memory` will
    /// fit.
    ///
    /// Where the buffers do not fit, the largest one of the peak that has several slots gets one less.
    pub struct ScheduleTransfers = "schedule-transfers" on "func.func" {
        /// Multi-buffering depth to start from: slots per loop buffer.
        pub depth: i64 = 2 => no_less(1),
        /// Use ring buffers for sliding windows.
        pub ring: bool = true,
        /// Start the first loads of a loop nest in the nest before it, where memory suffices.
        pub preload: bool = true,
        /// Load first tiles of a nest that loads for longer than it computes in nests before, where memory suffices.
        pub early: bool = true,
        /// Spread prefetched loads over the calls of an iteration where its queue does not hold them.
        pub spread: bool = true,
        /// Maximum number of memory plans to try.
        pub tries: usize = 32,
        /// Number of plans with loads ahead of their nests, beside one without, that may be missed before the search for each is a
        /// short one.
        pub long_misses: usize = 1,
        /// Number of such plans after each of which one load less is ahead; behind them the number doubles with each, as each
        /// builds the program anew.
        pub single_misses: usize = 6,
        /// Print the plan: offsets, arena size, and the largest live set.
        pub print: bool = false,
        /// Say what fills each space: the moment at which most bytes are live, the buffers that live then and why, and
        /// what would lower it.
        pub memory_report: bool = false,
    }
}
pass! {
    /// Assigns every buffer an offset in one arena per memory space, as `plan-memory`; where there is room, buffers whose
    /// reuse of bytes would make one queue wait for another lie apart.
    ///
    /// What reuse costs is seen in a run without any; plans are compared by their cycles on the machine model, so the
    /// one that is taken is not slower than the lowest one.
    pub struct PlaceBuffers = "place-buffers" on "func.func" {
        /// Maximum number of steps of the command stream for plans to be compared; of a longer one the lowest plan is taken.
        pub steps: u64 = 400_000,
        /// Maximum number of times that work of one buffer is compared with work of another one; where it takes more, the lowest plan
        /// is taken.
        pub looks: usize = 100_000_000,
        /// Maximum number of plans that are run beside the lowest one; 0: the lowest plan is taken.
        pub tries: usize = 3,
        /// Write what is planned into this folder, as `tir-plan` reads it: `FUNCTION.csv`, and with offsets `FUNCTION.plan.csv`.
        pub problem: Option<String> = None,
        /// Print the plan: offsets, arena size, and the largest live set; and the cycles of the plans that were compared.
        pub print: bool = false,
        /// Say of each space in which the plan that is taken is not the lowest one how many bytes more it has, and why.
        pub memory_report: bool = false,
    }
}
pass! {
    /// Orders the queues with tokens and waits so that every dependence holds.
    /// The command stream is executed without data to find the hazards that no order covers yet;
    /// each token or wait covers one.
    pub struct InsertTokens = "insert-tokens" on "func.func" {
        /// Wait for each transfer and call right after it is started.
        pub sync: bool = false,
        /// Remove dependence edges that others imply.
        pub prune: bool = true,
        /// Number of steps up to which every iteration is executed; of a longer stream, iterations
        /// whose work is ordered as that of those before them are left out.
        pub full: u64 = 2_000_000,
        /// Maximum number of executed steps; beyond it, `sync` is used.
        pub limit: u64 = 50_000_000,
        /// Say how many bytes the function moves to and from far memory, beside those that must move: arguments, constants
        /// and results once.
        pub memory_report: bool = false,
    }
}
pass! {
    /// Removes wait operands that other dependences imply.
    pub struct PruneEdges = "prune-edges" on "func.func" {
        /// Maximum number of executed steps; more are an error.
        pub limit: u64 = 50_000_000,
    }
}
pass! {
    /// Lowers ops that no unit or engine takes to loops of loads and stores.
    pub struct ExpandGeneric = "expand-generic" on "func.func" {
        /// Carry what is reduced through loops as values: reductions are innermost, and an element of an output is
        /// loaded and stored once. Without, loops keep the order of iterators.
        pub carry: bool = false,
        /// Bytes of a vector register: neighbours are computed at once (dialect vector), and what is reduced is carried.
        /// 0: elements one by one.
        pub vector_bytes: i64 = 0 => no_less(0),
        /// Number of vector registers, which blocks of results are held in.
        pub registers: i64 = 32 => no_less(0),
        /// Bytes of the smallest elements that vectors are loaded and stored of by masks: where a tile sticks out of its
        /// buffer, it is moved so, and rows shorter than a vector are one. 0: element by element, and by shorter vectors.
        pub masked_bytes: i64 = 0 => no_less(0),
        /// Take all three from the processor that the program is for, where its machine says that it is one.
        pub processor: bool = false,
        /// The innermost loop of a block's sums is written out if that takes at most so many steps of vectors; 0: never.
        pub unroll: i64 = 128 => no_less(0),
    }
}
pass! {
    /// Makes one loop of two that count alike, where the first one writes what the second one reads, and each iteration
    /// depends on the one at the same count alone.
    pub struct FuseLoops = "fuse-loops" on "func.func" {}
}
pass! {
    /// Says of loops that their iterations are independent, where the accesses show it: elements that different iterations
    /// write are others than those that they access otherwise.
    ///
    /// Looked at are outermost loops, and in a loop that was found the one that is alone in it. What iterations
    /// access must be known: loads and stores of elements and vectors, by indices that are linear in counters.
    pub struct FindParallel = "find-parallel" on "func.func" {}
}
pass! {
    /// Makes a private function that is one nest of independent iterations a function of a range of them, which threads
    /// may share: its first two arguments are the ends of the range (attribute `loop.range`).
    ///
    /// Calls give the whole range.
    pub struct SplitNests = "split-nests" on "builtin.module" {
        /// Ops that a nest runs at least; smaller ones stay as they are.
        pub least: u64 = 4096,
        /// Nested loops are counted through together until there are so many iterations.
        pub pieces: i64 = 64 => no_less(1),
    }
}
pass! {
    /// Runs the command stream of each function on the machine model without data and prints
    /// cycles, stalls and traffic.
    /// Functions that are called run with what calls them; private ones of these not on their own.
    pub struct DryRun = "dry-run" on "builtin.module" {
        /// Maximum number of executed steps; more are an error.
        pub limit: u64 = 50_000_000,
        /// Print the report of cycles, stalls and traffic.
        pub print: bool = true,
        /// Execute every iteration. Without, iterations that do the same as those before them are left out; the report is
        /// the same.
        pub full: bool = false,
        /// Number of pieces of work that a loop has to start yet for iterations to be left out.
        pub worth: u64 = 4096,
    }
}
pass! {
    /// Checks that each wait operand is needed: that the machine model finds a race without it.
    /// Functions that are called run with what calls them.
    pub struct CheckEdges = "check-edges" on "builtin.module" {
        /// Maximum number of executed steps; more are an error.
        pub limit: u64 = 50_000_000,
        /// Execute every iteration. Without, iterations that do the same as those before them are left out; the verdict is
        /// the same.
        pub full: bool = false,
        /// Number of pieces of work that a loop has to start yet for iterations to be left out.
        pub worth: u64 = 4096,
    }
}

fn one<T>(result: Result<T, Failure>) -> Result<T, Vec<Diagnostic>> {
    result.map_err(|e| vec![*e])
}

macro_rules! passes {
    ($($pass:ident $([$of_program:ty])? |$self:ident, $ir:ident, $cx:ident, $info:ident| $body:expr;)*) => {$(
        impl Pass for $pass {
            fn prepare(&self, parent: &Ir, cx: &mut PassCx<'_>) -> PassResult {
                cx.analysis::<AttachedMachine>(parent);
                $(cx.analysis::<$of_program>(parent);)?
                Ok(())
            }
            fn run(&$self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
                AttachedMachine::with(ir, cx, |$ir, $cx, $info| $body)
            }
        }
    )*};
}
passes! {
    Distribute |self, ir, cx, info| {
        let before = ir.clone();
        let [cores, units] = crate::distribute::distribute(ir, info);
        let fits = |ir: &Ir| plans_of(ir, info, true, Effort::Little).map(|_| ());
        if units > 0
            && let Err(no) = fits(ir)
            && fits(&before).is_ok()
        {
            *ir = before;
            let text = "one of several equal units computes all: with buffers for each of them the plan does not fit";
            let why = no.diagnostic(ir, info).message;
            let remark = Diagnostic::remark(text).category(UNUSED_UNIT).note(why);
            say(cx, remark.at(ir.loc(ir.root())));
            return Ok(());
        }
        cx.count("loops split among cores", cores);
        cx.count("loops split among units", units);
        if cx.settings().remarks {
            crate::idle::idle(ir, info).into_iter().for_each(|remark| say(cx, remark));
        }
        Ok(())
    };
    MultiBuffer |self, ir, _cx, info| {
        at_least("depth", self.depth, 1)?;
        one(self.apply(ir, info))
    };
    InsertDma |self, ir, cx, info| {
        one(self.apply(ir, info))?.into_iter().for_each(|remark| say(cx, remark));
        Ok(())
    };
    ScheduleTransfers |self, ir, cx, info| {
        at_least("depth", self.depth, 1)?;
        let schedule = Schedule {
            depth: self.depth,
            ring: self.ring,
            preload: self.preload,
            early: self.early,
            spread: self.spread,
            tries: self.tries,
            long_misses: self.long_misses,
            single_misses: self.single_misses,
        };
        let done = schedule.apply(ir, info);
        let said = match done.is_ok() && self.memory_report {
            true => tir_memory::say_report(ir, cx, info),
            false => Ok(()),
        };
        unmark(ir);
        let done = done.map_err(|e| vec![e])?;
        said?;
        done.remarks.iter().for_each(|remark| say(cx, remark.clone()));
        cx.count("plans that did not fit", done.retries);
        cx.count("buffers with fewer slots", done.shallow);
        cx.count("loads started a nest early", done.preloaded);
        let early = usize::try_from(done.early).unwrap_or(0);
        cx.count("tiles loaded in nests before", early);
        cx.count("buffers not loaded early for want of memory", done.crowded);
        cx.count("plans with loads ahead that a short search missed", done.missed);
        if done.missed > 0 && cx.settings().remarks {
            let text = format!(
                "{} plans with loads ahead of their nests were missed by a short search: a longer one may find more room \
                 (schedule-transfers{{long-misses=COUNT}})",
                done.missed
            );
            cx.remark(Diagnostic::remark(text).at(ir.loc(ir.root())));
        }
        for p in &done.planned {
            cx.count(&format!("bytes of @{}", p.space), p.plan.height as usize);
        }
        if self.print {
            let text = tir_memory::plan_memory::text(&done.planned);
            cx.remark(Diagnostic::remark(text.trim_end()).at(ir.loc(ir.root())));
        }
        Ok(())
    };
    PlaceBuffers [Ordered] |self, ir, cx, info| {
        let refused = unplanned(ir, info, Ordered::around(ir, cx));
        if !refused.is_empty() {
            return Err(refused);
        }
        let place = Place {
            steps: self.steps,
            looks: self.looks,
            tries: self.tries,
            texts: self.problem.is_some(),
        };
        let done = place.apply(ir, info).map_err(|e| vec![e.diagnostic(ir, info)])?;
        too_full(ir, info, &done.planned).map_or(Ok(()), |error| Err(vec![error]))?;
        for p in &done.planned {
            cx.count(&format!("bytes of @{}", p.space), p.plan.height as usize);
        }
        if done.too_long && cx.settings().remarks {
            let what = format!(
                "the lowest plan of memory is taken, though bytes that are used again may make queues wait: that takes more than \
                 'steps={}' or 'looks={}' to look at, or depends on data",
                self.steps, self.looks
            );
            cx.remark(Diagnostic::remark(what).at(ir.loc(ir.root())));
        }
        if let (Some(folder), Some(texts)) = (&self.problem, &done.texts) {
            cx.remark(texts.write_for(ir, folder).map_err(|e| vec![e])?);
        }
        for (space, lowest, taken) in done.higher.iter().filter(|_| self.memory_report) {
            let text = format!(
                "@{space}: {} bytes are taken, {} more than the lowest plan has: buffers lie apart, so that no queue waits for bytes \
                 that another one still uses (to-accel{{spare=false}} takes the lowest)",
                grouped(*taken),
                grouped(taken - lowest)
            );
            let said = Diagnostic::remark(text).category(MEMORY);
            cx.remark(said.at(ir.loc(ir.root())));
        }
        let saved = done.cycles.map_or(0, |c| c.lowest - c.taken);
        cx.count("cycles fewer by spare bytes", saved as usize);
        if self.print {
            let mut text = tir_memory::plan_memory::text(&done.planned);
            if let Some(Cycles { lowest, taken, free }) = done.cycles {
                text += &format!("{taken} cycles, {lowest} by the lowest plan, {free} without reuse\n");
            }
            cx.remark(Diagnostic::remark(text.trim_end()).at(ir.loc(ir.root())));
        }
        Ok(())
    };
    InsertTokens |self, ir, cx, info| {
        if let Some(warning) = one(self.apply(ir, info))? {
            cx.remark(warning);
        }
        if self.memory_report
            && let Ok(report) = dry_run(ir, None, info, self.limit)
        {
            let said = Diagnostic::remark(crate::moved::moved(&report));
            cx.remark(said.category(MEMORY).at(ir.loc(ir.root())));
        }
        if cx.settings().remarks {
            unused(ir, info).into_iter().for_each(|remark| cx.remark(remark));
        }
        Ok(())
    };
    PruneEdges |self, ir, cx, info| {
        if let Some(op) = crate::insert_tokens::calling(ir) {
            let text = "no wait operand is taken out: another function is called, and the order is that of one function alone";
            say(cx, Diagnostic::remark(text).at(ir.loc(op)).category(tir::remarks::SYNCHRONOUS));
            return Ok(());
        }
        let gone = one(crate::prune_edges::prune_edges(ir, info, self.limit))?;
        cx.count("edges taken out", gone);
        Ok(())
    };
}

/// Makes a remark; that an engine takes several starts is usual.
fn say(cx: &mut PassCx<'_>, remark: Diagnostic) {
    let usual = [QUEUE_FULL, SPLIT_TRANSFER]
        .map(Some)
        .contains(&remark.category);
    if !usual || cx.settings().remarks {
        cx.remark(remark);
    }
}

/// Remarks for units and spaces of the machine that a function does not use.
fn unused(ir: &Ir, machine: &MachineInfo) -> Vec<Diagnostic> {
    let ops = ir.walk_ids();
    let busy: HashSet<_> = ops
        .iter()
        .filter_map(|op| machine.unit_of(ir, *op))
        .collect();
    let values = ops.iter().flat_map(|op| ir.results(*op));
    let held = values.filter_map(|v| ir.ty(v).get::<MemRefType>()?.space_name());
    let held: HashSet<_> = held.collect();
    let at = ir.loc(ir.root());
    let units = machine
        .units
        .iter()
        .filter(|unit| !busy.contains(&unit.name));
    let units = units.map(|unit| {
        let text = format!("no call runs on the unit @{}", unit.name);
        Diagnostic::remark(text).category(UNUSED_UNIT).at(at)
    });
    // The first space is where arguments lie.
    let spaces = machine.spaces.iter().skip(1);
    let spaces = spaces.filter(|space| !held.contains(&space.name));
    let spaces = spaces.map(|space| {
        let text = format!("no buffer lies in the space @{}", space.name);
        Diagnostic::remark(text).category(UNUSED_SPACE).at(at)
    });
    units.chain(spaces).collect()
}

/// Judges each function of a module that has a body, with what it calls; private ones that others
/// call are parts of those.
fn each_function(
    module: &Ir,
    mut judge: impl FnMut(&Ir, &MachineInfo) -> PassResult,
) -> PassResult {
    let Some(info) = MachineInfo::attached(module) else {
        return Err(vec![AttachedMachine::none(module)]);
    };
    let (mut errors, left_out) = (Vec::new(), called(module));
    for slot in module
        .slots()
        .into_iter()
        .filter(|slot| !left_out.contains(slot))
    {
        let function = module.child(slot).filter(|ir| ir.is::<Func>(ir.root()));
        let function = function.filter(|ir| ir.body_block(ir.root(), 0).is_some());
        if let Some(Err(found)) = function.map(|ir| judge(ir, &info)) {
            errors.extend(found);
        }
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors)
    }
}

/// Private functions that others call: they run as parts of those.
fn called(module: &Ir) -> HashSet<OpId> {
    let table = SymbolTable::new(module);
    let private = |op: &OpRef<'_>| !tir::is_public(*op);
    let mut found = HashSet::new();
    tir::symbol_uses(module, &mut |_, symbol| {
        let target = symbol.path.first().and_then(|name| table.get(*name));
        found.extend(target.filter(private).map(|op| op.id));
    });
    found
}

impl Pass for CheckEdges {
    fn run(&self, module: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        cx.unchanged();
        let module = &*module;
        let mut all: Vec<Edge> = Vec::new();
        let worth = (!self.full).then_some(self.worth);
        each_function(module, |ir, info| {
            all.extend(one(edges(ir, Some(module), info, self.limit, worth))?);
            Ok(())
        })?;
        // What several functions call may wait for the sake of one of them.
        let is = |a: &Edge, b: &Edge| a.op.id == b.op.id && a.operand == b.operand;
        let mut errors = Vec::new();
        for (i, edge) in all.iter().enumerate() {
            let needed = all.iter().any(|other| is(edge, other) && other.needed);
            if !needed && !all[..i].iter().any(|other| is(edge, other)) {
                let (name, operand) = (edge.op.op, edge.operand);
                let text = format!("'{name}': operand {operand} is no needed edge");
                errors.push(Diagnostic::error(text).at(edge.op.loc));
            }
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(errors)
        }
    }
}
impl Pass for DryRun {
    fn run(&self, module: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        cx.unchanged();
        let module = &*module;
        let worth = (!self.full).then_some(self.worth);
        each_function(module, |ir, info| {
            let report = one(dry_run_worth(ir, Some(module), info, self.limit, worth))?;
            if self.print {
                let text = report.to_string();
                cx.remark(Diagnostic::remark(text.trim_end()).at(ir.loc(ir.root())));
            }
            Ok(())
        })
    }
}
impl Pass for ExpandGeneric {
    fn prepare(&self, parent: &Ir, cx: &mut PassCx<'_>) -> PassResult {
        cx.analysis::<TargetProcessor>(parent);
        Ok(())
    }
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        at_least("vector-bytes", self.vector_bytes, 0)?;
        at_least("registers", self.registers, 0)?;
        at_least("masked-bytes", self.masked_bytes, 0)?;
        at_least("unroll", self.unroll, 0)?;
        let target = cx.outer::<TargetProcessor>().filter(|_| self.processor);
        let registers = match target.as_ref().and_then(|target| target.0.as_ref()) {
            Some(processor) => Registers {
                bytes: processor.vector_bytes,
                count: processor.registers,
                masked: processor.masked_bytes,
                unroll: self.unroll,
            },
            None => Registers {
                bytes: self.vector_bytes,
                count: self.registers,
                masked: self.masked_bytes,
                unroll: self.unroll,
            },
        };
        let form = Form {
            carry: self.carry,
            vectors: (registers.bytes > 0).then_some(registers),
        };
        one(crate::expand_generic::expand(ir, form))
    }
}

impl Pass for FuseLoops {
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let fused = crate::fuse_loops::fuse(ir);
        cx.count("loops fused", fused);
        if fused == 0 {
            cx.unchanged();
        }
        Ok(())
    }
}

impl Pass for FindParallel {
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let found = crate::independent::find(ir);
        cx.count("parallel loops", found);
        if found == 0 {
            cx.unchanged();
        }
        Ok(())
    }
}

impl Pass for SplitNests {
    fn run(&self, module: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        at_least("pieces", self.pieces, 1)?;
        let done = crate::split_nests::split(module, self.least, self.pieces);
        let [all, split] = done.work;
        cx.count("functions of a range", done.functions);
        cx.count("ops of called functions", all as usize);
        cx.count("ops of functions of a range", split as usize);
        if done.functions == 0 {
            cx.unchanged();
        }
        Ok(())
    }
}
