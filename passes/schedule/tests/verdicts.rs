//! Random command streams: a run without data and a run with data are one program, with one
//! verdict; and tokens that were inserted order all that the model would call a race.

mod common;

use std::fmt::Write;

use common::with_unit;
use tir::data::Random;
use tir::{Ir, OpId};
use tir_accel::MachineInfo;
use tir_machine::Report;
use tir_schedule::dry_run::{self, dry_run, dry_run_worth};
use tir_schedule::insert_tokens::InsertTokens;

const LIMIT: u64 = 100_000;

const MACHINE: &str = r#"
!M = memref<8x16xf32, "dram">
!B = memref<4x16xf32, "spm">
!T = memref<16xf32, strided<[1], offset: ?>, "spm">
!V = tensor<16xf32>
#n = affine_map<(n) -> (n)>
accel.machine @tiny {
  accel.space @dram {bytes = 131072, align = 64}
  accel.space @spm {bytes = 4096, align = 64}
  accel.dma @load {from = @dram, to = @spm, bytes_per_cycle = 8, latency = 10, dims = 2, queue = 3, granule = 4, pad = true}
  accel.dma @store {from = @spm, to = @dram, bytes_per_cycle = 8, latency = 10, dims = 2, queue = 2, granule = 4}
  UNIT
}
"#;

/// A random program of about `size` steps. `tokens` is how many of ten waits that it could make it
/// makes: 10 is a program of careful waits, 0 one that waits for nothing.
struct Program {
    random: Random,
    text: String,
    tokens: usize,
    /// Tokens that can be named at this place.
    named: Vec<String>,
    count: usize,
    /// Loops of many iterations, loops in loops, and far memory that they move through.
    long: bool,
}

impl Program {
    fn new(seed: u64, tokens: usize) -> Self {
        let random = Random::new(seed);
        let text = String::new();
        let named = Vec::new();
        Self {
            random,
            text,
            tokens,
            named,
            count: 0,
            long: false,
        }
    }

    fn long(seed: u64, tokens: usize) -> Self {
        Self {
            long: true,
            ..Self::new(seed, tokens)
        }
    }

    fn fresh(&mut self) -> usize {
        self.count += 1;
        self.count
    }

    /// A row of a buffer; in a loop, often one that goes round with it.
    fn slot(&mut self, iv: Option<&str>) -> String {
        let (n, buffer) = (self.fresh(), ["a", "b"][self.random.below(2)]);
        let row = match iv {
            Some(iv) if self.random.below(3) > 0 => {
                // All kinds of index arithmetic, none of which leaves the buffer; in long loops mostly such that come again.
                let all = [
                    "arith.remui %IV, %c4",
                    "arith.andi %IV, %c3",
                    "arith.minui %IV, %c3",
                    "arith.shrui %IV, %c1",
                    "arith.remui %IV, %c2",
                ];
                let op = match self.long && self.random.below(8) > 0 {
                    true => all[[0, 4][self.random.below(2)]],
                    false => all[self.random.below(if self.long { 3 } else { 4 })],
                };
                let op = op.replace("%IV", iv);
                _ = writeln!(self.text, "%r{n} = {op} : index");
                format!("%r{n}")
            }
            _ => format!("%c{}", self.random.below(4)),
        };
        let text = &mut self.text;
        _ = writeln!(
            text,
            "%s{n} = memref.subview %{buffer}[{row}, 0] [1, 16] [1, 1] : !B to !T"
        );
        format!("%s{n}")
    }

    fn far_row(&mut self, iv: Option<&str>) -> String {
        match iv {
            Some(iv) if self.random.below(2) > 0 => iv.to_string(),
            _ => format!("%c{}", self.random.below(4)),
        }
    }

    fn after(&mut self) -> String {
        let mut chosen = Vec::new();
        for token in self.named.clone().iter().rev().take(6) {
            if self.random.below(10) < self.tokens {
                chosen.push(token.clone());
            }
        }
        if chosen.is_empty() {
            return String::new();
        }
        format!(" after({})", chosen.join(", "))
    }

    fn step(&mut self, iv: Option<&str>, depth: usize) {
        let inner = depth == 0 || self.long && depth == 1;
        match self.random.below(if inner { 12 } else { 9 }) {
            0 | 1 => {
                let (slot, row, after, n) =
                    (self.slot(iv), self.far_row(iv), self.after(), self.fresh());
                _ = writeln!(
                    self.text,
                    "%t{n} = accel.dma_start @load read %x[{row}, 0] into {slot} access (c) -> (0, c){after} : !M to !T"
                );
                self.named.push(format!("%t{n}"));
            }
            2 | 3 => {
                let (slot, row, after, n) =
                    (self.slot(iv), self.far_row(iv), self.after(), self.fresh());
                _ = writeln!(
                    self.text,
                    "%t{n} = accel.dma_start @store write {slot} into %y[{row}, 0] access (c) -> (0, c){after} : !T to !M"
                );
                self.named.push(format!("%t{n}"));
            }
            4 | 5 => {
                let (o, a) = (self.slot(iv), self.slot(iv));
                let name = ["double", "sum"][self.random.below(2)];
                let (after, n) = (self.after(), self.fresh());
                _ = writeln!(self.text, "accel.call @{name}({o}, {a}){after} : !T, !T");
                _ = writeln!(self.text, "%t{n} = accel.mark @alu");
                self.named.push(format!("%t{n}"));
            }
            6 => {
                let named = self.named.clone();
                for token in named.iter().rev().take(4) {
                    if self.random.below(10) < self.tokens {
                        _ = writeln!(self.text, "accel.dma_wait {token}");
                    }
                }
            }
            7 => {
                // The thread itself: an element, or all of a row.
                let (from, to, n) = (self.slot(iv), self.slot(iv), self.fresh());
                if self.random.below(2) == 0 {
                    _ = writeln!(self.text, "%v{n} = memref.load {from}[%c{}] : !T", n % 4);
                    _ = writeln!(self.text, "memref.store %v{n}, {to}[%c{}] : !T", n % 3);
                } else {
                    _ = writeln!(self.text, "memref.copy {from}, {to} : !T to !T");
                }
            }
            8 => {
                let row = self.far_row(iv);
                let n = self.fresh();
                _ = writeln!(self.text, "%v{n} = memref.load %x[{row}, %c{}] : !M", n % 4);
                _ = writeln!(self.text, "memref.store %v{n}, %y[{row}, %c{}] : !M", n % 4);
            }
            9 => {
                let n = self.fresh();
                let trips = match self.long && depth == 0 {
                    true => 30 + self.random.below(150),
                    false => self.random.below(6),
                };
                _ = writeln!(self.text, "loop.for %i{n} = 0 to {trips} {{");
                self.block(Some(&format!("%i{n}")), depth + 1);
            }
            10 => {
                let n = self.fresh();
                let test = self.random.below(4);
                let left = self.random.below(4);
                let left = match iv {
                    // Some iterations are unlike others.
                    Some(iv) if self.long => iv.to_string(),
                    _ => format!("%c{left}"),
                };
                _ = writeln!(
                    self.text,
                    "%q{n} = arith.cmpi slt, {left}, %c{test} : index"
                );
                _ = writeln!(self.text, "loop.if %q{n} {{");
                self.block(iv, depth + 1);
            }
            _ => {}
        }
    }

    fn block(&mut self, iv: Option<&str>, depth: usize) {
        let outside = self.named.len();
        for _ in 0..1 + self.random.below(5) {
            self.step(iv, depth);
        }
        self.named.truncate(outside);
        self.text.push_str("}\n");
    }

    fn module(mut self, size: usize) -> String {
        let rows = if self.long { 192 } else { 8 };
        let machine = MACHINE.replace("memref<8x16xf32", &format!("memref<{rows}x16xf32"));
        let mut text = with_unit(&machine, 4);
        text.push_str("func.func @f(%x: !M, %y: !M {func.out}) {\n");
        for n in 0..5 {
            _ = writeln!(text, "%c{n} = arith.constant {n} : index");
        }
        match self.random.below(4) {
            // As a plan places buffers: side by side, or by mistake one over the other.
            0 => {
                let second = [256, 256, 128][self.random.below(3)];
                _ = write!(
                    text,
                    "%m = memref.alloc() : memref<512xi8, \"spm\">\n\
                     %low = arith.constant 0 : index\n\
                     %high = arith.constant {second} : index\n\
                     %a = memref.view %m[%low][] : memref<512xi8, \"spm\"> to !B\n\
                     %b = memref.view %m[%high][] : memref<512xi8, \"spm\"> to !B\n"
                );
            }
            _ => text.push_str("%a = memref.alloc() : !B\n%b = memref.alloc() : !B\n"),
        }
        // Most programs find all of their memory written.
        if self.random.below(4) > 0 {
            text.push_str(
                "%z = arith.constant 0.0 : f32\n\
                 loop.for %i = 0 to 4 { loop.for %j = 0 to 16 {\n\
                 memref.store %z, %a[%i, %j] : !B\nmemref.store %z, %b[%i, %j] : !B\n} }\n",
            );
        }
        _ = write!(
            text,
            "%zz = arith.constant 0.0 : f32\n\
             loop.for %i = 0 to {rows} {{ loop.for %j = 0 to 16 {{\n\
             memref.store %zz, %y[%i, %j] : !M\n}} }}\n",
        );
        for _ in 0..size {
            self.step(None, 0);
        }
        text.push_str(&self.text);
        if self.tokens > 0 {
            for queue in ["load", "store", "alu"] {
                if self.random.below(10) < 9 {
                    _ = writeln!(
                        text,
                        "%e{queue} = accel.mark @{queue}\naccel.dma_wait %e{queue}"
                    );
                }
            }
        }
        text.push_str("func.return\n}\n");
        text
    }
}

fn load(text: &str) -> (Ir, OpId, MachineInfo) {
    let module = tir_support::read(text);
    let machine = MachineInfo::attached(&module).unwrap();
    let slots = module.slots();
    let slot = slots.into_iter().find(|op| module.name(*op) == "func.func");
    let slot = slot.unwrap();
    (module, slot, machine)
}

/// Cycles, or what is wrong.
type Verdict = Result<u64, String>;

/// The verdict of a run on data.
fn run(module: &Ir, slot: OpId, machine: &MachineInfo) -> Verdict {
    let zeros = |argument, _| (argument == 0).then_some(0.0);
    let (_, cycles) = common::run(module, module.child(slot).unwrap(), machine, zeros)?;
    Ok(cycles)
}

#[test]
fn runs_with_and_without_data_give_one_verdict() {
    let (mut good, mut bad) = (0, 0);
    for seed in 1..400 {
        let text = Program::new(seed, seed as usize % 11).module(3 + seed as usize % 9);
        let (module, slot, machine) = load(&text);
        let wet = run(&module, slot, &machine);
        let dry = dry_run(module.child(slot).unwrap(), None, &machine, LIMIT);
        let dry: Verdict = dry.map(|r| r.cycles).map_err(|e| e.message.clone());
        assert_eq!(wet, dry, "seed {seed}\n{text}");
        match wet {
            Ok(_) => good += 1,
            Err(_) => bad += 1,
        }
    }
    println!("{good} right, {bad} wrong");
    assert!(good > 40 && bad > 100, "{good} right, {bad} wrong");
}

#[test]
fn inserted_tokens_leave_no_race_and_none_is_needless() {
    let mut programs = 0;
    for seed in 1..150 {
        let text = Program::new(seed, 0).module(4 + seed as usize % 9);
        // With all waits there are, only what tokens cannot mend is wrong.
        let verdict = |sync: bool| {
            let (mut module, slot, machine) = load(&text);
            let ir = module.child_mut(slot).unwrap();
            let insert = InsertTokens {
                sync,
                ..InsertTokens::default()
            };
            let warning = insert.apply(ir, &machine).unwrap();
            assert!(warning.is_none(), "seed {seed}: {warning:?}");
            let ir = module.child(slot).unwrap();
            let done = dry_run(ir, None, &machine, LIMIT);
            (done.map_err(|e| e.message.clone()), (module, slot, machine))
        };
        let ((waiting, _), (tokens, (module, slot, machine))) = (verdict(true), verdict(false));
        assert_eq!(
            waiting.as_ref().map(drop),
            tokens.as_ref().map(drop),
            "seed {seed}\n{text}"
        );
        let (Ok(waiting), Ok(tokens)) = (waiting, tokens) else {
            continue;
        };
        assert!(tokens.cycles <= waiting.cycles, "seed {seed}\n{text}");
        let ir = module.child(slot).unwrap();
        let edges = dry_run::edges(ir, None, &machine, LIMIT, None).unwrap();
        assert!(edges.iter().all(|e| e.needed), "seed {seed}\n{text}");
        programs += 1;
    }
    assert!(programs > 60, "{programs} programs compared");
}

/// What a function does without iterations that do the same as those before them, and with all.
fn both(module: &Ir, slot: OpId, machine: &MachineInfo) -> [Result<Report, String>; 2] {
    let ir = module.child(slot).unwrap();
    [Some(1), None].map(|worth| {
        let done = dry_run_worth(ir, None, machine, LIMIT, worth);
        done.map_err(|e| e.message.clone())
    })
}

#[test]
fn iterations_that_are_left_out_change_nothing() {
    let (mut good, mut bad, mut left_out) = (0, 0, 0);
    for seed in 1..1200 {
        let text = Program::long(seed, seed as usize % 11).module(2 + seed as usize % 5);
        let (module, slot, machine) = load(&text);
        let [quick, full] = both(&module, slot, &machine);
        assert_eq!(quick, full, "seed {seed}\n{text}");
        match full {
            Ok(_) => good += 1,
            Err(_) => bad += 1,
        }
        let ir = module.child(slot).unwrap();
        left_out += usize::from(dry_run::leaves_out(ir, None, &machine, LIMIT, 1));
    }
    println!("{good} right, {left_out} of them shortened, {bad} wrong");
    assert!(good > 40 && left_out > 20 && bad > 100);
}

#[test]
fn edges_are_needed_as_with_all_iterations() {
    let (mut programs, mut needed, mut needless, mut left_out) = (0, 0, 0, 0);
    for seed in 1..300 {
        // With tokens of our own, or as a program waits that thinks of it, or too often.
        let own = seed % 3 == 0;
        let tokens = if own { 0 } else { 8 + seed as usize % 3 };
        let text = Program::long(seed, tokens).module(2 + seed as usize % 5);
        let (mut module, slot, machine) = load(&text);
        if own {
            let insert = InsertTokens::default();
            let ir = module.child_mut(slot).unwrap();
            insert.apply(ir, &machine).unwrap();
        }
        let ir = module.child(slot).unwrap();
        let [quick, full] = [Some(1), None].map(|worth| {
            let edges = dry_run::edges(ir, None, &machine, LIMIT, worth);
            edges.map_err(|e| e.message.clone())
        });
        assert_eq!(quick, full, "seed {seed}\n{text}");
        let Ok(edges) = full else { continue };
        programs += 1;
        // Each is needed if the program is wrong without it.
        for edge in &edges {
            let mut cut = ir.clone();
            let op = cut.twin(edge.op.id, ir);
            let ready = cut.add(tir::At::Before(op), tir_accel::Ready {});
            cut.set_operand(op, edge.operand, ready);
            let done = dry_run_worth(&cut, None, &machine, LIMIT, None);
            assert_eq!(edge.needed, done.is_err(), "seed {seed}: {edge:?}\n{text}");
        }
        needed += edges.iter().filter(|e| e.needed).count();
        needless += edges.iter().filter(|e| !e.needed).count();
        left_out += usize::from(dry_run::leaves_out(ir, None, &machine, LIMIT, 1));
    }
    println!("{programs} programs, {left_out} shortened, {needed} edges needed, {needless} not");
    assert!(programs > 60 && left_out > 20 && needed > 60 && needless > 60);
}
