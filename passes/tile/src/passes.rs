//! The passes `tile` and `tensorize` on functions.

use std::sync::{Arc, Mutex, PoisonError};

use tir::pass::{Memo, at_least, no_less, one_of};
use tir::workload::Workload;
use tir::{Attr, Diagnostic, Ir, Loc, Name, Pass, PassCx, PassOptions, PassResult, pass};
use tir_accel::bounds::Bounds;
use tir_accel::{AttachedMachine, MachineInfo};

use crate::chain::{Limits, Policy};
use crate::plan::{Budget, Join, Price, Target};
use crate::tile::Known;

pass! {
    /// Tiles every fused group of a function to fit the near memory of the attached machine.
    ///
    /// The layout of each tile is that of the unit's operands; of all divisions that fit,
    /// the one with the fewest estimated cycles is taken. What no unit takes is tiled too. Where no engine
    /// joins far memory with the units, tiles are cut for the space between, and once more from there.
    pub struct Tile = "tile" on "func.func" {
        /// Multi-buffering depth that tile sizes leave room for: slots per loop buffer.
        pub depth: i64 = 2 => no_less(1),
        /// Near memory to use in each space, in bytes; none: the size of the space.
        pub bytes: Option<i64> = None,
        /// Maximum number of tilings estimated per group.
        pub max_plans: usize = 4096,
        /// Stages of one loop nest at most: where that is quicker, what an operator reads of another one is
        /// computed tile by tile in near memory. One stage: every tensor between two nests goes to far memory.
        pub max_stages: usize = 8 => no_less(1),
        /// Whether a tensor between two nests stays in near memory where that is no slower, for as long as it is
        /// read.
        pub resident: bool = true,
        /// Which tensors stay then, of those that have a place in near memory: `cycles`, those with which the nests concerned
        /// are no slower by the estimate; `bytes`, those with which fewer bytes move, whatever that takes, and tiles
        /// and nests are chosen so that few bytes move, too; `static`, those
        /// that are read and written most often for each nest that they are held, as OnSRAM pins them, whatever nests are
        /// with them, also between nests of one stage each.
        pub near_policy: String = "cycles".to_string() => one_of(&["cycles", "bytes", "static"]),
        /// Maximum number of tilings estimated for the last stage of several. Twice as many in a row that bring nothing end the
        /// search, and half as many while nothing is quicker than stages apart.
        pub max_roots: usize = 48,
        /// Print so many candidates for each group's tiles, the quickest first, with their estimates:
        /// cycles by cause, bytes of near memory, the tile of each iterator, the loops around; and of
        /// what would be quicker, what comes nearest to fitting. The first is taken.
        pub print_tiles: usize = 0,
        /// Which products in groups that are too narrow for a unit are products in fewer groups with zeros between what is
        /// one, where that is quicker: `all`, `exact` (of integers), or `none`. Of floats, an infinity or NaN in one group makes NaN of those that it is one with.
        pub join_groups: String = "all".to_string() => one_of(&["all", "exact", "none"]),
        /// Report every operator that no unit computes with the nearest intrinsic and what
        /// differs; without, only contractions, what is not tiled at all, and what takes the thread longer than all of
        /// the function would take at least if units did it.
        pub remarks: bool = false,
        /// Leave functions as they are where no machine is attached, instead of an error.
        pub optional: bool = false,
    }
}

pass! {
    /// Notes on a function of ops on tensors the cycles that its nests take by the estimate that chooses their tiles,
    /// as the attribute `tir.cycles`: the price of the program. The function stays as it is.
    ///
    /// Later passes carry the attribute along, so that it stands beside what the machine takes. Where something does not
    /// fit, there is no attribute, and a remark says so.
    pub struct EstimateCycles = "estimate-cycles" on "func.func" {
        /// As `tile` has it.
        pub depth: i64 = 2 => no_less(1),
        /// As `tile` has it.
        pub max_stages: usize = 8 => no_less(1),
        /// As `tile` has it.
        pub resident: bool = true,
        /// As `tile` has it.
        pub near_policy: String = "cycles".to_string() => one_of(&["cycles", "bytes", "static"]),
        /// As `tile` has it.
        pub join_groups: String = "all".to_string() => one_of(&["all", "exact", "none"]),
        /// Print the estimate.
        pub print: bool = false,
    }
}

pass! {
    /// Replaces generics by calls of machine intrinsics that compute the same.
    pub struct Tensorize = "tensorize" on "func.func" {
        /// Leave functions as they are where no machine is attached, instead of an error.
        pub optional: bool = false,
    }
}

/// How many cycles more each one of an engine counts as where bytes decide.
const WORTH: i64 = 64;

fn prepare(parent: &Ir, cx: &mut PassCx<'_>) -> PassResult {
    cx.analysis::<AttachedMachine>(parent);
    Ok(())
}

/// Runs `work` with the attached machine; without one, or without near space, there is an error, and with `optional`
/// nothing is done without one.
fn with_target(
    ir: &mut Ir,
    cx: &mut PassCx<'_>,
    optional: bool,
    work: impl FnOnce(&mut Ir, &mut PassCx<'_>, &Target<'_>) -> PassResult,
) -> PassResult {
    let attached = cx.outer::<AttachedMachine>();
    let Some((info, machine)) = attached.as_deref().and_then(|a| a.0.as_ref()) else {
        if optional {
            cx.unchanged();
            return Ok(());
        }
        return Err(vec![AttachedMachine::none(ir)]);
    };
    let Some(target) = Target::new(info, machine) else {
        let error = Diagnostic::error(format!(
            "machine @{} has no engines that load tiles from \"{}\" and store them to it",
            info.name,
            info.far().map_or("", |far| far.name.as_str())
        ));
        return Err(vec![error.at(machine.loc(machine.root()))]);
    };
    work(ir, cx, &target)
}

impl Tile {
    /// The pass with the options that levels have for it, which an estimate of their nests needs, too.
    #[must_use]
    pub fn of_level(
        depth: i64,
        max_stages: usize,
        (resident, near_policy): (bool, &str),
        join_groups: &str,
    ) -> Self {
        Self {
            depth,
            max_stages,
            resident,
            near_policy: near_policy.to_string(),
            join_groups: join_groups.to_string(),
            ..Self::default()
        }
    }

    /// Whether the values of its options are some.
    ///
    /// # Errors
    /// The first that is none, and what is expected.
    pub fn check(&self) -> PassResult {
        at_least("depth", self.depth, 1)?;
        let stages = i64::try_from(self.max_stages).unwrap_or(i64::MAX);
        at_least("max-stages", stages, 1)?;
        self.join()?;
        self.limits()?;
        Ok(())
    }

    fn budget(&self, join: Join) -> Budget {
        let bytes = Policy::of(&self.near_policy) == Some(Policy::Bytes);
        Budget {
            worth: if bytes { WORTH } else { 0 },
            shifts: false,
            depth: self.depth,
            spare: 0,
            bytes: self.bytes.unwrap_or(i64::MAX),
            limit: self.max_plans,
            listed: self.print_tiles,
            join,
            cores: true,
        }
    }

    fn join(&self) -> Result<Join, Vec<Diagnostic>> {
        Join::of(&self.join_groups).ok_or_else(|| {
            let text = format!(
                "has join-groups={}, expected all, exact or none",
                self.join_groups
            );
            vec![Diagnostic::error(text)]
        })
    }

    fn limits(&self) -> Result<Option<Limits>, Vec<Diagnostic>> {
        let policy = Policy::of(&self.near_policy).ok_or_else(|| {
            let text = format!(
                "has near-policy={}, expected cycles, bytes or static",
                self.near_policy
            );
            vec![Diagnostic::error(text)]
        })?;
        // OnSRAM's tensors stay between nests of one stage, too.
        let several = self.max_stages > 1 || policy == Policy::Static;
        Ok(several.then_some(Limits {
            stages: self.max_stages,
            plans: self.max_roots,
            resident: self.resident,
            policy,
            written: true,
        }))
    }

    /// What all nests of a function of ops on tensors take by the estimate, if it were tiled so; `None` where
    /// something does not fit, or the machine has no space for tiles.
    #[must_use]
    pub fn price(
        &self,
        func: &Ir,
        cx: &PassCx<'_>,
        (info, machine): (&MachineInfo, &Ir),
    ) -> Option<Price> {
        let target = Target::new(info, machine)?;
        let join = Join::of(&self.join_groups)?;
        let (budget, limits) = (self.budget(join), self.limits().ok()?);
        let known = self.known(cx, info);
        crate::tile::price(&mut func.clone(), &target, budget, limits, &known)
    }

    /// What this run knows of groups on a machine.
    fn known(&self, cx: &PassCx<'_>, info: &MachineInfo) -> Arc<Known> {
        // Plans are the same with the same options, whatever else is planned.
        let key = format!("{} {:?}", info.name, self.values());
        cx.shared(Remembered::default).0.or_find(key, Arc::default)
    }
}

/// The cycles that a function takes at least on a machine, as far as it is known what it computes.
fn bound(func: &Ir, info: &MachineInfo) -> u64 {
    let work = Workload::attached(func).or_else(|| Workload::count(func));
    work.map_or(u64::MAX, |work| Bounds::of(&work, info).cycles)
}

/// Of which places of which functions a remark says that no unit computes what stands there.
#[derive(Default)]
struct Told(Mutex<Vec<(Option<Name>, Loc)>>);

impl Told {
    /// Notes a place of a function; whether it is a new one.
    fn is_new(&self, func: &Ir, loc: Loc) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = (func.op(func.root()).symbol(), loc);
        let new = !all.contains(&place);
        if new {
            all.push(place);
        }
        new
    }
}

/// What is known on machines, by their names and the options of the pass.
#[derive(Default)]
struct Remembered(Memo<String, Arc<Known>>);

impl Pass for Tile {
    fn prepare(&self, parent: &Ir, cx: &mut PassCx<'_>) -> PassResult {
        prepare(parent, cx)
    }
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        self.check()?;
        let (budget, limits) = (self.budget(self.join()?), self.limits()?);
        with_target(ir, cx, self.optional, |ir, cx, target| {
            let known = self.known(cx, target.info);
            let tiled = crate::tile::tile(ir, target, budget, limits, &known)?;
            for candidates in tiled.candidates {
                cx.remark(candidates);
            }
            if self.remarks || cx.settings().remarks {
                tiled.apart.into_iter().for_each(|why| cx.remark(why));
                tiled.joined.into_iter().for_each(|what| cx.remark(what));
            }
            let all = self.remarks || cx.settings().remarks;
            let bound = match all || tiled.unmatched.iter().all(|remark| !remark.expected) {
                true => 0,
                false => bound(ir, target.info),
            };
            let told = cx.shared(Told::default);
            for remark in tiled.unmatched {
                if !remark.expected || remark.cycles() >= bound {
                    told.is_new(ir, remark.loc());
                    cx.remark(remark.remark());
                }
            }
            Ok(())
        })
    }
}

/// The attribute of a function that says how many cycles its nests take by the estimate.
pub const CYCLES: &str = "tir.cycles";

impl Pass for EstimateCycles {
    fn prepare(&self, parent: &Ir, cx: &mut PassCx<'_>) -> PassResult {
        prepare(parent, cx)
    }
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let attached = cx.outer::<AttachedMachine>();
        let Some((info, machine)) = attached.as_deref().and_then(|a| a.0.as_ref()) else {
            return Err(vec![AttachedMachine::none(ir)]);
        };
        let tile = Tile::of_level(
            self.depth,
            self.max_stages,
            (self.resident, &self.near_policy),
            &self.join_groups,
        );
        tile.check()?;
        let root = ir.root();
        ir.remove_attr(root, CYCLES);
        let text = match tile.price(ir, cx, (info, machine)) {
            Some(Price { cycles, .. }) => {
                ir.set_attr(root, CYCLES, Attr::i64(cycles));
                format!("its nests take {cycles} cycles by the estimate")
            }
            None => "its nests have no estimate: something does not fit".to_string(),
        };
        if self.print || ir.attr(root, CYCLES).is_none() {
            cx.remark(Diagnostic::remark(text).at(ir.loc(root)));
        }
        Ok(())
    }
}

impl Pass for Tensorize {
    fn prepare(&self, parent: &Ir, cx: &mut PassCx<'_>) -> PassResult {
        prepare(parent, cx)
    }
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        with_target(ir, cx, self.optional, |ir, cx, target| {
            let done = crate::tensorize::tensorize(ir, target.innermost());
            cx.count("calls", done.made);
            cx.count("generics left", done.left);
            done.remarks
                .into_iter()
                .for_each(|remark| cx.remark(remark));
            // Steps of nests whose sums a unit computes, and stages behind others.
            let bound = match done.unmatched.is_empty() || cx.settings().remarks {
                true => 0,
                false => bound(ir, target.info),
            };
            let told = cx.shared(Told::default);
            for remark in done.unmatched {
                if remark.cycles() >= bound && told.is_new(ir, remark.loc()) {
                    cx.remark(remark.remark());
                }
            }
            Ok(())
        })
    }
}
