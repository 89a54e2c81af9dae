//! Random programs, planned: the check of plans finds nothing, they compute what they computed without a plan, and so does a
//! twin that overwrites bytes as they become free. And of faults that are put into plans and programs, most are found.
//!
//! `TIR_PLANS` says how many programs, `TIR_SEED` the first.

#[path = "../common/mod.rs"]
mod common;
mod machine;
mod program;
mod truth;

use std::collections::BTreeMap;
use std::fmt::Write;

use program::{Texts, program};
use tir::data::Random;
use tir::{Ir, Name, OpId};
use tir_accel::MachineInfo;
use tir_memory::check_plan::check_plan;
use tir_memory::liveness::{liveness, timeline, with_holes};
use tir_memory::plan_memory::{Planned, Plans, plans, problem};
use tir_memref::Alloc;
use truth::{Apart, Truth};

/// Programs that are tried if nothing else is said.
const PROGRAMS: u64 = 300;

/// A program that was read.
struct Read {
    module: Ir,
    slot: OpId,
}

impl Read {
    fn of(text: &str) -> Read {
        let module = tir_support::read(text);
        let slots = module.slots();
        let slot = slots
            .into_iter()
            .find(|op| module.name(*op) == Name::new("func.func"));
        Read {
            slot: slot.unwrap(),
            module,
        }
    }

    fn ir(&self) -> &Ir {
        self.module.child(self.slot).unwrap()
    }

    /// The program with something changed in its function.
    fn changed(&self, change: impl FnOnce(&mut Ir, &Ir)) -> Read {
        let mut module = self.module.clone();
        let slot = module.twin(self.slot, &self.module);
        change(module.child_mut(slot).unwrap(), self.ir());
        Read { module, slot }
    }

    fn planned(&self, plans: &Plans, machine: &MachineInfo) -> Read {
        self.changed(|ir, before| plans.twin(ir, before).apply(ir, machine).unwrap())
    }

    /// What a run on the machine gives, or what is wrong.
    fn run(&self, machine: &MachineInfo) -> Result<Vec<u8>, String> {
        let value = |argument, n| {
            Some(if argument == 0 {
                (n * 37 % 4093) as f32
            } else {
                0.0
            })
        };
        let (bytes, _) = common::run(&self.module, self.ir(), machine, value)?;
        Ok(bytes)
    }
}

/// Plans with the holes of live ranges.
fn plans_with_holes(ir: &Ir, machine: &MachineInfo) -> Plans {
    let spaces = with_holes(ir, machine).unwrap();
    let mut planned = Vec::new();
    for (space, buffers) in &spaces {
        let plan = tir_packing::plan(&problem(buffers).unwrap(), u64::MAX >> 2).unwrap();
        planned.push(Planned {
            space: *space,
            buffers: Vec::new(),
            plan,
        });
    }
    Plans { spaces, planned }
}

/// The same plans for the twin of a program, whose allocations come in the same order.
fn for_twin(plans: &Plans, ir: &Ir, twin: &Ir) -> Plans {
    let allocs = |ir: &Ir| -> Vec<OpId> {
        let ops = ir.walk_ids().into_iter();
        ops.filter(|op| ir.is::<Alloc>(*op)).collect()
    };
    let of: BTreeMap<usize, OpId> = allocs(twin).into_iter().enumerate().collect();
    let own = allocs(ir);
    let mut plans = plans.clone();
    for buffer in plans.spaces.values_mut().flatten() {
        let number = own.iter().position(|op| *op == buffer.op).unwrap();
        buffer.op = of[&number];
        buffer.uses.clear();
    }
    plans
}

/// A program with its twin, and what both compute.
struct Case {
    plain: Read,
    poisoned: Read,
    machine: MachineInfo,
    right: Vec<u8>,
}

/// Who finds something wrong with a plan.
#[derive(Default, Clone, Copy)]
struct Found {
    check: bool,
    run: bool,
    poison: bool,
}

impl Case {
    fn of(texts: &Texts) -> Case {
        let (plain, poisoned) = (Read::of(&texts.plain), Read::of(&texts.poisoned));
        let machine = MachineInfo::attached(&plain.module).unwrap();
        let right = plain.run(&machine);
        let right = right.unwrap_or_else(|e| panic!("{e}\n{}", texts.plain));
        Case {
            plain,
            poisoned,
            machine,
            right,
        }
    }

    fn look(&self, plans: &Plans) -> (Found, String) {
        let planned = self.plain.planned(plans, &self.machine);
        let errors = check_plan(planned.ir(), &self.machine);
        let run = planned.run(&self.machine);
        let twin = for_twin(plans, self.plain.ir(), self.poisoned.ir());
        let poison = self
            .poisoned
            .planned(&twin, &self.machine)
            .run(&self.machine);
        let found = Found {
            check: !errors.is_empty(),
            run: run.as_ref() != Ok(&self.right),
            poison: poison.as_ref() != Ok(&self.right),
        };
        let said: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let say = |r: Result<Vec<u8>, String>| match r {
            Ok(bytes) if bytes == self.right => "right".to_string(),
            Ok(_) => "other numbers".to_string(),
            Err(error) => error,
        };
        let said = format!(
            "check: {}\nrun: {}\npoisoned: {}",
            said.join("; "),
            say(run),
            say(poison)
        );
        (found, said)
    }
}

/// Where buffers lie: by allocation the space, and the bytes.
fn places(plans: &Plans) -> BTreeMap<OpId, (usize, usize, u64, u64)> {
    let mut out = BTreeMap::new();
    for (space, (buffers, planned)) in plans.spaces.values().zip(&plans.planned).enumerate() {
        for (number, (b, at)) in buffers.iter().zip(&planned.plan.offsets).enumerate() {
            out.insert(b.op, (space, number, *at, at + b.bytes));
        }
    }
    out
}

fn shares(plans: &Plans, pair: &Apart) -> bool {
    let places = places(plans);
    let (Some(a), Some(b)) = (places.get(&pair.held), places.get(&pair.other)) else {
        return false;
    };
    a.0 == b.0 && a.2 < b.3 && b.2 < a.3
}

/// Makes the allocation of a space as large as its buffers need, whatever was done to them.
fn enlarge(plans: &mut Plans) {
    for (buffers, planned) in plans.spaces.values().zip(&mut plans.planned) {
        let ends = buffers
            .iter()
            .zip(&planned.plan.offsets)
            .map(|(b, at)| b.bytes + at);
        let height = ends.max().unwrap_or(0);
        planned.plan.height = planned.plan.height.max(height);
    }
}

/// A plan for which a buffer lives no longer when another is written that it must not share bytes with: one that is read
/// later, or one of work that may still run.
fn shortened(
    (plans, running): (&Plans, bool),
    ir: &Ir,
    truth: &Truth,
    random: &mut Random,
) -> Option<Plans> {
    let mut pairs = truth.apart.clone();
    pairs.retain(|pair| pair.running == running);
    random.shuffle(&mut pairs);
    let times = timeline(ir);
    for pair in pairs.iter().take(12) {
        let mut faulty = plans.clone();
        let (space, number, ..) = places(plans)[&pair.held];
        let (buffers, planned) = (
            faulty.spaces.values_mut().nth(space)?,
            &mut faulty.planned[space],
        );
        let now = times.iter().position(|op| *op == pair.by)? as u64;
        let live = &mut buffers[number].live;
        live.retain(|range| range.start < now);
        live.iter_mut()
            .for_each(|range| range.end = range.end.min(now));
        planned.plan = tir_packing::plan(&problem(buffers).ok()?, u64::MAX >> 2).ok()?;
        if shares(&faulty, pair) {
            return Some(faulty);
        }
    }
    None
}

/// A plan with one buffer at another offset, over bytes of one that it must not share bytes with.
fn shifted(plans: &Plans, truth: &Truth, random: &mut Random) -> Option<Plans> {
    let pair = random.pick(&truth.apart)?;
    let places = places(plans);
    let (moved, stays) = match random.below(2) {
        0 => (pair.held, pair.other),
        _ => (pair.other, pair.held),
    };
    let ((space, number, from, to), (_, _, low, high)) = (places[&moved], places[&stays]);
    let align = plans.spaces.values().nth(space)?[number].align;
    let size = to - from;
    let all: Vec<u64> = (0..high)
        .step_by(align as usize)
        .filter(|at| at + size > low)
        .collect();
    let at = random.pick(&all)?;
    let mut faulty = plans.clone();
    faulty.planned[space].plan.offsets[number] = at;
    enlarge(&mut faulty);
    shares(&faulty, &pair).then_some(faulty)
}

/// A plan with the offsets of two buffers exchanged, so that two share bytes that must not.
fn swapped(plans: &Plans, truth: &Truth, random: &mut Random) -> Option<Plans> {
    for _ in 0..20 {
        let space = random.below(plans.planned.len().max(1));
        let count = plans.planned.get(space)?.plan.offsets.len();
        if count < 2 {
            continue;
        }
        let (a, b) = (random.below(count), random.below(count));
        let mut faulty = plans.clone();
        faulty.planned[space].plan.offsets.swap(a, b);
        enlarge(&mut faulty);
        if truth.apart.iter().any(|pair| shares(&faulty, pair)) {
            return Some(faulty);
        }
    }
    None
}

/// What was done to how many programs, and who found it.
#[derive(Default)]
struct Tally {
    seeded: usize,
    check: usize,
    run: usize,
    poison: usize,
    found: usize,
}

impl Tally {
    fn count(&mut self, found: Found) {
        self.seeded += 1;
        self.check += usize::from(found.check);
        self.run += usize::from(found.run);
        self.poison += usize::from(found.poison);
        self.found += usize::from(found.check || found.run || found.poison);
    }
}

const KINDS: [&str; 5] = [
    "range shortened",
    "work in flight forgotten",
    "offset shifted",
    "buffers swapped",
    "wait dropped",
];

fn seed_faults(
    case: &Case,
    plans: &Plans,
    random: &mut Random,
    tally: &mut [Tally; 5],
) -> Vec<String> {
    let ir = case.plain.ir();
    let truth = Truth::of(ir, &case.machine);
    let mut missed = Vec::new();
    let faulty = [
        shortened((plans, false), ir, &truth, random),
        shortened((plans, true), ir, &truth, random),
        shifted(plans, &truth, random),
        swapped(plans, &truth, random),
    ];
    for (kind, faulty) in faulty.iter().enumerate() {
        let Some(faulty) = faulty else { continue };
        let (found, said) = case.look(faulty);
        tally[kind].count(found);
        if !(found.check || found.run || found.poison) {
            missed.push(format!("{}: {said}", KINDS[kind]));
        }
    }
    if let Some(needed) = random.pick(&truth.needed) {
        let dropped = case.plain.changed(|ir, before| {
            let op = ir.twin(needed.op, before);
            let plans = plans.twin(ir, before);
            let ready = ir.add(tir::At::Before(op), tir_accel::Ready {});
            ir.set_operand(op, needed.operand, ready);
            plans.apply(ir, &case.machine).unwrap();
        });
        let errors = check_plan(dropped.ir(), &case.machine);
        let run = dropped.run(&case.machine);
        let found = Found {
            check: !errors.is_empty(),
            run: run.as_ref() != Ok(&case.right),
            poison: false,
        };
        tally[4].count(found);
        if !(found.check || found.run) {
            missed.push(format!("{}: {needed:?}", KINDS[4]));
        }
    }
    missed
}

#[test]
fn random_programs_keep_their_numbers_and_faults_are_found() {
    let number = |variable| std::env::var(variable).ok()?.parse::<u64>().ok();
    let first = number("TIR_SEED").unwrap_or(1);
    let programs = number("TIR_PLANS").unwrap_or(PROGRAMS);
    let mut tally: [Tally; 5] = Default::default();
    let (mut wrong, mut missed) = (Vec::new(), Vec::new());
    let (mut buffers, mut bytes, mut height, mut low) = (0, 0, 0, 0);
    for seed in first..first + programs {
        let texts = program(seed);
        let case = Case::of(&texts);
        let ir = case.plain.ir();
        let all = plans(ir, &case.machine).unwrap();
        let holes = plans_with_holes(ir, &case.machine);
        for (how, all) in [("", &all), (" with holes", &holes)] {
            let (found, said) = case.look(all);
            if found.check || found.run || found.poison {
                wrong.push(format!("seed {seed}{how}: {said}\n{}", texts.plain));
            }
        }
        let spaces = liveness(ir, &case.machine).unwrap();
        buffers += spaces.values().map(Vec::len).sum::<usize>();
        bytes += spaces.values().flatten().map(|b| b.bytes).sum::<u64>();
        height += all.planned.iter().map(|p| p.plan.height).sum::<u64>();
        low += holes.planned.iter().map(|p| p.plan.height).sum::<u64>();
        let mut random = Random::new(seed ^ 0x66_6175_6c74);
        let of = seed_faults(&case, &all, &mut random, &mut tally);
        missed.extend(of.into_iter().map(|one| format!("seed {seed}, {one}")));
    }
    let mut said = format!(
        "{programs} programs, {buffers} buffers of {bytes} bytes in {height}, {low} with holes; {} with an overlap\n",
        wrong.len()
    );
    let (mut seeded, mut found) = (0, 0);
    for (kind, t) in KINDS.iter().zip(&tally) {
        let Tally {
            check, run, poison, ..
        } = t;
        let _ = writeln!(
            said,
            "{kind}: {} seeded, {} found ({check} by the check, {run} by a run, {poison} by a poisoned run)",
            t.seeded, t.found
        );
        seeded += t.seeded;
        found += t.found;
        assert!(
            t.seeded as u64 * 10 > programs,
            "{kind}: {} seeded",
            t.seeded
        );
    }
    println!(
        "{said}{found} of {seeded} faults found\n{}",
        missed.join("\n")
    );
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong[0]);
    assert!(
        found * 100 >= seeded * 95,
        "{found} of {seeded}\n{said}{}",
        missed.join("\n")
    );
    assert!(
        low < height && height * 10 < bytes * 9,
        "no bytes are used twice: {said}"
    );
}
