//! Live ranges of many buffers and a first plan of them, on programs of the accel level; beside a bound.
//!
//! In each kind of program the buffers are as many, of sizes that differ by orders of magnitude, and each is used a few
//! times in the ops behind its allocation; a few live through much of the program.
//!
//! - *straight*: one block.
//! - *loops*: loops in loops with branches in them, 16 buffers each, some of which are made before and used inside.
//! - *views*: one block, half of all uses by a part of the buffer.
//! - *waits*: loads, calls and stores in flight, each waited for a few ops later.

use std::fmt::Write;
use std::time::Duration;

use tir::text::{ParseOptions, parse};
use tir::{Ir, Name};
use tir_accel::MachineInfo;
use tir_data::Random;
use tir_memory::liveness::liveness;
use tir_memory::plan_memory::{plans, problem};
use tir_packing::{Order, first_fit};

use crate::egraph::on_cpu;

/// What live ranges and a first plan may take.
const BOUND: Duration = Duration::from_millis(100);

const MACHINE: &str = r#"
accel.machine @near {
  accel.space @dram {bytes = 1073741824, align = 64}
  accel.space @spm {bytes = 1073741824, align = 64}
  accel.dma @load {from = @dram, to = @spm, bytes_per_cycle = 8, latency = 10, dims = 2, queue = 8}
  accel.dma @store {from = @spm, to = @dram, bytes_per_cycle = 8, latency = 10, dims = 2, queue = 8}
}
"#;

/// How many buffers, and how often.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Buffers of each program
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    buffers: usize,
    /// Runs; the median is printed
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
}

const KINDS: [&str; 4] = ["straight", "loops", "views", "waits"];

/// Measures all kinds of programs and prints a line for each.
///
/// # Errors
/// A program that cannot be read or planned: none should.
pub(crate) fn lives(options: &Options) -> Result<(), String> {
    tir_support::load();
    println!(
        "{} buffers each, processor time in ms, medians of {}; a first plan: first fit in the order of starts;\n\
         then what plan-memory does in all",
        options.buffers, options.rounds
    );
    println!(
        "{:<10} {:>8} {:>9} {:>11} {:>9} {:>7} {:>13} {:>10} {:>8}",
        "program",
        "ops",
        "liveness",
        "first plan",
        "together",
        "ratio",
        "height/bound",
        "all plans",
        "height"
    );
    let mut worst: f64 = 0.0;
    for kind in KINDS {
        let text = program(kind, options.buffers);
        let sources = ParseOptions::default();
        let module = parse(&text, Name::new(kind), &sources);
        let module = module.map_err(|errors| format!("{kind}: {errors:?}"))?;
        let machine = MachineInfo::attached(&module).ok_or("no machine")?;
        let slots = module.slots().into_iter();
        let function = slots.filter_map(|slot| module.child(slot));
        let mut function = function.filter(|ir| ir.root_name() == Name::new("func.func"));
        let function: &Ir = function.next().ok_or("no function")?;
        let mut runs = Vec::new();
        let mut ratio = 0.0;
        for _ in 0..options.rounds {
            let begin = on_cpu();
            let spaces = liveness(function, &machine).map_err(|e| e.to_string())?;
            let live = on_cpu();
            let buffers: Vec<_> = spaces.into_values().flatten().collect();
            let problem = problem(&buffers).map_err(|e| e.to_string())?;
            let plan = first_fit(&problem, Order::Start);
            let done = on_cpu();
            ratio = plan.height as f64 / problem.largest_live_set().bytes.max(1) as f64;
            runs.push((done - begin, live - begin));
        }
        runs.sort();
        let (all, live) = runs[runs.len() / 2];
        let begin = on_cpu();
        let whole = plans(function, &machine).map_err(|_| "does not fit")?;
        let whole_time = on_cpu() - begin;
        let (height, bound) = whole.planned.iter().fold((0, 0), |(height, bound), p| {
            (height + p.plan.height, bound + p.plan.lower_bound.bytes)
        });
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let beside = all.as_secs_f64() / BOUND.as_secs_f64();
        worst = worst.max(beside);
        println!(
            "{kind:<10} {:>8} {:>9.1} {:>11.1} {:>9.1} {beside:>7.2} {ratio:>13.3} {:>10.1} {:>8.3}",
            function.walk_ids().len(),
            ms(live),
            ms(all - live),
            ms(all),
            ms(whole_time),
            height as f64 / bound.max(1) as f64
        );
    }
    println!("ratio to the bound of 100 ms: at most {worst:.2} (1.00 wanted)");
    Ok(())
}

/// A program of one kind.
fn program(kind: &str, count: usize) -> String {
    let mut program = Growing {
        random: Random::new(10_000),
        text: String::new(),
        recent: Vec::new(),
        count: 0,
        waits: kind == "waits",
        views: kind == "views",
        running: Vec::new(),
    };
    match kind {
        "loops" => {
            while program.count < count {
                program.nest(3, count);
            }
        }
        _ => {
            for _ in 0..count {
                program.buffer();
            }
        }
    }
    program.text += "func.return\n}\n";
    MACHINE.to_string()
        + "!M = memref<65536xi8, \"dram\">\nfunc.func @f(%x: !M, %y: !M {func.out}, %c: i1) {\n"
        + "%zero = arith.constant 0 : index\n"
        + &program.text
}

struct Growing {
    random: Random,
    text: String,
    /// Buffers that may be used, with their bytes; those of open blocks only.
    recent: Vec<(usize, usize)>,
    count: usize,
    waits: bool,
    views: bool,
    /// Tokens that nobody waited for.
    running: Vec<String>,
}

impl Growing {
    fn buffer(&mut self) {
        let n = self.count;
        self.count += 1;
        let most = 1 << (1 + self.random.below(9));
        let bytes = 64 * (1 + self.random.below(most));
        let _ = writeln!(
            self.text,
            "%b{n} = memref.alloc() : memref<{bytes}xi8, \"spm\">"
        );
        self.transfer("load", n, bytes);
        self.recent.push((n, bytes));
        for _ in 0..2 {
            // Most uses are of what was made lately.
            let far = if self.random.below(16) == 0 { 200 } else { 12 };
            let back = 1 + self.random.below(far);
            let at = self.recent.len().saturating_sub(back);
            let (n, bytes) = self.recent[at];
            self.transfer("store", n, bytes);
        }
        let waits = if self.waits {
            self.running.len().saturating_sub(6)
        } else {
            0
        };
        for token in self.running.drain(..waits) {
            let _ = writeln!(self.text, "accel.dma_wait {token}");
        }
    }

    fn transfer(&mut self, engine: &str, n: usize, bytes: usize) {
        let t = self.text.len();
        let (mut name, mut ty) = (format!("%b{n}"), format!("memref<{bytes}xi8, \"spm\">"));
        if self.views && self.random.below(2) == 0 {
            let part = "memref<32xi8, \"spm\">";
            let _ = writeln!(
                self.text,
                "%v{t} = memref.subview {name}[0] [32] [1] : {ty} to {part}"
            );
            (name, ty) = (format!("%v{t}"), part.to_string());
        }
        let access = "access (c) -> (c)";
        let _ = match engine {
            "load" => writeln!(
                self.text,
                "%t{t} = accel.dma_start @load read %x[%zero] into {name} {access} : !M to {ty}"
            ),
            _ => writeln!(
                self.text,
                "%t{t} = accel.dma_start @store write {name} into %y[%zero] {access} : {ty} to !M"
            ),
        };
        self.running.push(format!("%t{t}"));
    }

    /// A loop, or a branch, with buffers and others in it.
    fn nest(&mut self, depth: usize, most: usize) {
        let open = self.recent.len();
        let n = self.text.len();
        let _ = match self.random.below(3) {
            0 => writeln!(self.text, "loop.if %c {{"),
            _ => writeln!(self.text, "loop.for %i{n} = 0 to 4 {{"),
        };
        for at in 0..16 {
            if self.count < most {
                self.buffer();
            }
            if depth > 0 && at % 6 == 5 {
                self.nest(depth - 1, most);
            }
        }
        self.text += "}\n";
        self.recent.truncate(open);
        if self.count < most {
            self.buffer();
        }
    }
}
