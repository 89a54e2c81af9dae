//! The greedy driver: folds, rules and patterns until nothing changes.

use std::collections::BTreeMap;

use tir_core::{Ir, Loc, Name, OpId, SmallVec, Traits, Value};

use crate::fold::{Constants, fold_op};
use crate::pattern::Patterns;
use crate::rewriter::{Event, Rewriter};

/// What the greedy driver does, and when it gives up.
///
/// Each op, in program order, is erased if it is dead, else folded, else rewritten by the best
/// pattern that applies; what a change touches is looked at again. Operands of commutative ops
/// that are constants move right; constants move to the head of their scope and are one of a kind.
#[derive(Clone, Copy)]
pub struct Greedy<'a> {
    /// Rules and patterns.
    pub patterns: &'a Patterns,
    /// Whether ops are folded; default yes.
    pub fold: bool,
    /// Whether constants are brought to the head of their scope, one of a kind; default yes.
    pub unify_constants: bool,
    /// Whether unused ops without effects are erased; default yes.
    pub erase_dead: bool,
    /// How often the whole arena is looked at; default 10.
    pub max_iterations: usize,
    /// How many folds and rewrites there may be; default (`None`) 64 for each op that is there at
    /// the start, and 4096 more.
    pub max_rewrites: Option<usize>,
    /// Whether each step is recorded; default no.
    pub trace: bool,
}

/// Why the driver gave up before nothing changed any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stopped {
    /// [`Greedy::max_iterations`].
    Iterations,
    /// [`Greedy::max_rewrites`].
    Rewrites,
}

/// One applied pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// Its name; `fold` for a fold.
    pub pattern: String,
    /// The name of the op it was applied to.
    pub op: Name,
    /// The place of that op.
    pub loc: Loc,
}

/// What happened how often.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Stats {
    /// Applications of each pattern and rule by name.
    pub applied: BTreeMap<String, u64>,
    /// Folded ops.
    pub folded: u64,
    /// Erased dead ops.
    pub erased: u64,
}

/// How a run of the driver ended.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Whether anything changed.
    pub changed: bool,
    /// Whole looks at the arena.
    pub iterations: usize,
    /// Looks at single ops, all together.
    pub visits: u64,
    /// Set if it gave up.
    pub stopped: Option<Stopped>,
    /// Counts.
    pub stats: Stats,
    /// The steps, if they were asked for.
    pub trace: Vec<Step>,
}

impl<'a> Greedy<'a> {
    /// The driver with its defaults.
    pub fn new(patterns: &'a Patterns) -> Self {
        Self {
            patterns,
            fold: true,
            unify_constants: true,
            erase_dead: true,
            max_iterations: 10,
            max_rewrites: None,
            trace: false,
        }
    }

    /// Works on the ops below the root of one arena; isolated ops in it are left as they are.
    pub fn run(&self, ir: &mut Ir) -> Outcome {
        let ids = ir.walk_ids();
        let limit = self.max_rewrites.unwrap_or(ids.len() * 64 + 4096);
        let mut run = Driver {
            cx: self,
            left: limit as u64,
            work: Worklist::default(),
            constants: Constants::default(),
            outcome: Outcome::default(),
        };
        run.iterate(ir, ids);
        run.outcome
    }
}

/// A stack of ops, each at most once.
#[derive(Default)]
struct Worklist {
    stack: Vec<Option<OpId>>,
    /// By the index of an op, where it stands if it does: an index is handed out again once its op
    /// is erased, so what stands there counts.
    place: Vec<u32>,
}

impl Worklist {
    fn place(&self, op: OpId) -> Option<usize> {
        let place = *self.place.get(op.index())? as usize;
        (self.stack.get(place) == Some(&Some(op))).then_some(place)
    }
    fn push(&mut self, op: OpId) {
        if self.place(op).is_none() {
            if self.place.len() <= op.index() {
                self.place.resize(op.index() + 1, 0);
            }
            self.place[op.index()] = self.stack.len() as u32;
            self.stack.push(Some(op));
        }
    }
    fn extend(&mut self, ops: impl Iterator<Item = OpId>) {
        ops.for_each(|op| self.push(op));
    }
    fn pop(&mut self) -> Option<OpId> {
        loop {
            if let Some(op) = self.stack.pop()? {
                return Some(op);
            }
        }
    }
    fn remove(&mut self, op: OpId) {
        if let Some(place) = self.place(op) {
            self.stack[place] = None;
        }
    }
}

struct Driver<'a> {
    cx: &'a Greedy<'a>,
    left: u64,
    work: Worklist,
    constants: Constants,
    outcome: Outcome,
}

impl Driver<'_> {
    fn iterate(&mut self, ir: &mut Ir, mut ids: Vec<OpId>) {
        // One rewriter, and with it one list of events, for all ops that are looked at.
        let root = ir.root();
        let mut rw = Rewriter::new(ir, root);
        loop {
            if self.outcome.iterations == self.cx.max_iterations {
                self.outcome.stopped = Some(Stopped::Iterations);
                return;
            }
            self.outcome.iterations += 1;
            for op in ids.into_iter().rev() {
                self.work.push(op);
            }
            let mut changed = false;
            while let Some(op) = self.work.pop() {
                if !rw.contains(op) || rw.block_of(op).is_none() {
                    continue;
                }
                if self.left == 0 {
                    self.outcome.stopped = Some(Stopped::Rewrites);
                    self.outcome.changed |= changed;
                    return;
                }
                self.outcome.visits += 1;
                rw.focus(op);
                changed |= self.visit(&mut rw, op);
                self.requeue(&rw);
                rw.forget_events();
            }
            self.outcome.changed |= changed;
            if !changed {
                return;
            }
            ids = rw.walk_ids();
        }
    }

    /// Looks again at what a change touched. A lost use is not passed on to the other users, or a
    /// value that many ops share would be looked at by all of them whenever one goes; only for the
    /// last user that is left may it make a difference.
    fn requeue(&mut self, rw: &Rewriter<'_>) {
        for event in rw.events() {
            match *event {
                Event::Erased(op) => self.work.remove(op),
                Event::LostUse(op) => {
                    if !rw.contains(op) {
                        continue;
                    }
                    let mut unused = true;
                    for value in rw.results(op) {
                        unused &= rw.is_unused(value);
                        if rw.has_one_use(value) {
                            self.work.extend(rw.uses(value).map(|one| one.op));
                        }
                    }
                    // Of a constant nothing else depends on how many use it.
                    if unused || !rw.has(op, Traits::ConstantLike) {
                        self.work.push(op);
                    }
                }
                Event::Inserted(op) | Event::Touched(op) => {
                    if !rw.contains(op) {
                        continue;
                    }
                    for value in rw.results(op) {
                        self.work.extend(rw.uses(value).map(|one| one.op));
                    }
                    self.work.push(op);
                }
            }
        }
    }

    fn visit(&mut self, rw: &mut Rewriter<'_>, op: OpId) -> bool {
        let info = rw.info(op);
        let has = |traits| info.is_some_and(|info| info.has(traits));
        let constant = has(Traits::ConstantLike);
        if self.cx.erase_dead && rw.results(op).all(|v| rw.is_unused(v)) && rw.is_removable(op) {
            if constant {
                self.constants.forget(rw.ir(), op);
            }
            rw.erase(op);
            self.outcome.stats.erased += 1;
            return true;
        }
        if constant {
            return self.cx.unify_constants && self.constants.adopt(rw, op);
        }
        let (name, loc) = (rw.name(op), rw.loc(op));
        if self.fold(rw, op, name, loc) {
            return true;
        }
        let mut changed = has(Traits::Commutative) && constants_right(rw, op);
        if changed && self.fold(rw, op, name, loc) {
            return true;
        }
        for pattern in self.cx.patterns.of(name) {
            let before = rw.events().len();
            match pattern.rewrite(op, rw) {
                Ok(()) => {
                    let stats = &mut self.outcome.stats.applied;
                    *stats.entry(pattern.name().to_string()).or_default() += 1;
                    self.step(pattern.name(), name, loc);
                    changed = true;
                    break;
                }
                Err(why) => assert!(
                    rw.events().len() == before,
                    "internal error: pattern '{}' declined '{name}' ({why}) after it had changed \
                     the IR",
                    pattern.name()
                ),
            }
        }
        changed
    }

    fn fold(&mut self, rw: &mut Rewriter<'_>, op: OpId, name: Name, loc: Loc) -> bool {
        let folded = self.cx.fold && fold_op(rw, &mut self.constants, op);
        if folded {
            self.outcome.stats.folded += 1;
            self.step("fold", name, loc);
        }
        folded
    }

    fn step(&mut self, pattern: &str, op: Name, loc: Loc) {
        self.left = self.left.saturating_sub(1);
        if self.cx.trace {
            self.outcome.trace.push(Step {
                pattern: pattern.to_string(),
                op,
                loc,
            });
        }
    }
}

/// Moves the constants among the operands of a commutative op to the right.
fn constants_right(rw: &mut Rewriter<'_>, op: OpId) -> bool {
    let is_constant = |v: &Value| rw.constant(*v).is_some();
    if rw.operands(op).is_sorted_by_key(|v| is_constant(&v)) {
        return false;
    }
    let mut sorted: SmallVec<[Value; 4]> = rw.operands(op).collect();
    sorted.sort_by_key(is_constant);
    rw.set_operands(op, &sorted);
    true
}
