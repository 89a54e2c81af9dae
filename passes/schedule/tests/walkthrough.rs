//! The program of the walkthrough, from buffers to the command stream: its account and its edges.

use tir::data::Array;
use tir::interp::Kind;
use tir::{Diagnostic, Interpreter, Ir, Name, OpId};
use tir_accel::MachineInfo;
use tir_accel::eval::MachineMemory;
use tir_memory::check_plan::check_plan;
use tir_memory::plan_memory::plan_memory;
use tir_schedule::dry_run::dry_run;
use tir_schedule::insert_dma::InsertDma;
use tir_schedule::insert_tokens::InsertTokens;
use tir_schedule::multi_buffer::MultiBuffer;

const LIMIT: u64 = 10_000_000;

fn load() -> Ir {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../test/passes/schedule/walkthrough-memref.tir"
    );
    let text = std::fs::read_to_string(path).unwrap();
    tir_support::read(&text)
}

fn function(module: &Ir) -> OpId {
    let slots = module.slots();
    slots
        .into_iter()
        .find(|op| module.name(*op) == "func.func")
        .unwrap()
}

fn verify(module: &Ir) {
    if let Err(errors) = tir::verify(module) {
        let text = tir_text::print(module, &tir_text::PrintOptions::default());
        panic!(
            "{}{text}",
            errors
                .iter()
                .map(|d| format!("{d:?}\n"))
                .collect::<String>()
        );
    }
}

fn lower(depth: i64, ring: bool, sync: bool) -> (Ir, OpId, MachineInfo) {
    let mut module = load();
    verify(&module);
    let machine = MachineInfo::attached(&module).unwrap();
    let slot = function(&module);
    let ir = module.child_mut(slot).unwrap();
    MultiBuffer {
        depth,
        ring,
        sweeps: false,
    }
    .apply(ir, &machine)
    .unwrap();
    InsertDma::default().apply(ir, &machine).unwrap();
    verify(&module);
    let ir = module.child_mut(slot).unwrap();
    if depth <= 2 {
        plan_memory(ir, &machine).unwrap_or_else(|e| panic!("{:?}", e.diagnostic(ir, &machine)));
        assert_eq!(check_plan(ir, &machine), []);
    }
    InsertTokens {
        sync,
        ..InsertTokens::default()
    }
    .apply(ir, &machine)
    .unwrap();
    verify(&module);
    (module, slot, machine)
}

fn account(depth: i64, ring: bool, sync: bool) -> tir_machine::Report {
    let (module, slot, machine) = lower(depth, ring, sync);
    let ir = module.child(slot).unwrap();
    dry_run(ir, None, &machine, LIMIT).unwrap_or_else(|e| {
        let text = tir_text::print(&module, &tir_text::PrintOptions::default());
        panic!("{e:?}\n{text}")
    })
}

#[test]
fn the_account_comes_out() {
    let report = account(2, true, false);
    println!("{report}");
    let calls: Vec<_> = report
        .labels
        .iter()
        .map(|l| (l.name.as_str(), l.calls, l.macs))
        .collect();
    assert_eq!(
        calls,
        [
            ("clear16", 32, 0),
            ("gemm16", 288, 1_179_648),
            ("bias_relu16", 32, 0)
        ]
    );
    let moved: Vec<_> = report
        .causes
        .iter()
        .map(|c| (c.from.as_str(), c.bytes))
        .collect();
    assert_eq!(moved, [("dram", 39_296), ("spm", 32_768)]);
    assert!(report.cycles <= 8_512, "{report}");
    assert_eq!(report.spaces[1].peak_extent, 29_312);
    // One transfer for the first window and two for the weights: 64 cycles less than 16,944.
    assert_eq!(account(2, true, true).cycles, 16_880);
}

#[test]
fn each_mechanism_pays() {
    let cycles = |depth, ring| account(depth, ring, false).cycles;
    let (rings, double, single) = (cycles(2, true), cycles(2, false), cycles(1, false));
    println!("ring and two slots {rings}, two slots {double}, one slot {single}");
    assert!(rings < double && double < single);
    assert!(rings * 10 <= single * 8);
}

/// The operands of all waits: an op, and which of its operands.
fn edges(ir: &Ir) -> Vec<(OpId, usize)> {
    let token = tir_accel::token();
    let mut out = Vec::new();
    for op in ir.walk_ids() {
        let name = ir.name(op);
        if name == "loop.for" || name == "loop.yield" {
            continue;
        }
        let tokens = ir
            .operands(op)
            .enumerate()
            .filter(|(_, v)| ir.ty(*v) == token);
        out.extend(tokens.map(|(i, _)| (op, i)));
    }
    out
}

#[test]
fn each_edge_is_needed() {
    for (depth, ring) in [(2, true), (2, false), (1, true), (1, false)] {
        let (module, slot, machine) = lower(depth, ring, false);
        let ir = module.child(slot).unwrap();
        let all = edges(ir);
        assert!(all.len() >= 6, "{} edges", all.len());
        for (op, operand) in all {
            let mut cut = ir.clone();
            let op = cut.twin(op, ir);
            let ready = cut.add(tir::At::Before(op), tir_accel::Ready {});
            cut.set_operand(op, operand, ready);
            let error = dry_run(&cut, None, &machine, LIMIT).expect_err("an edge too many");
            let race = error.message.contains("may still") || error.message.contains("not waited");
            assert!(race, "{error:?}");
        }
    }
}

fn noise(n: usize, seed: u64) -> Vec<f32> {
    let array = tir::data::Array::random(tir::data::DType::F32, &[n], seed);
    array.unwrap().as_slice::<f32>().unwrap().to_vec()
}

/// The sums in the order of the loops.
fn naive(x: &[f32], w: &[f32], b: &[f32]) -> Vec<f32> {
    let mut y = vec![0.0; 8192];
    for (at, y) in y.iter_mut().enumerate() {
        let (o, h, q) = (at / 256, at / 16 % 16, at % 16);
        let mut sum = 0f32;
        for (kh, kw) in (0..9).map(|k| (k / 3, k % 3)) {
            for c in 0..16 {
                sum += x[c * 324 + (h + kh) * 18 + q + kw] * w[o * 144 + c * 9 + kh * 3 + kw];
            }
        }
        *y = (sum + b[o]).max(0.0);
    }
    y
}

/// Runs a module; on the machine, with its account.
fn run(
    module: &Ir,
    machine: Option<&MachineInfo>,
) -> Result<(Vec<f32>, Option<tir_machine::Report>), Vec<Diagnostic>> {
    let (x, w, b) = (noise(16 * 324, 1), noise(32 * 144, 2), noise(32, 3));
    let mut interpreter = Interpreter::new(module);
    let env = &mut interpreter.env;
    if let Some(machine) = machine {
        env.set_memory(MachineMemory::new(machine, false).unwrap());
    }
    let dram = Some(Name::new("dram"));
    let mut args = Vec::new();
    for (shape, values) in [
        (&[1, 16, 18, 18][..], &x),
        (&[32, 16, 3, 3], &w),
        (&[32], &b),
    ] {
        let array = Array::from_vec(shape, values.clone()).unwrap();
        args.push(env.array_to_view(&array, dram).unwrap().into());
    }
    let y = env.alloc(Kind::F32, &[1, 32, 16, 16], 64, dram).unwrap();
    args.push(y.clone().into());
    interpreter.run(Name::new("f"), args)?;
    let env = &mut interpreter.env;
    let end = env.exit().unwrap();
    let mut report = None;
    if let Some(memory) = env.memory_as::<MachineMemory>() {
        memory.finish(end).map_err(|e| vec![*e])?;
        report = Some(memory.report());
    }
    let got = env.view_to_array(&y, tir::Type::f32()).unwrap();
    let got = got.as_f32().unwrap().to_vec();
    assert_eq!(got, naive(&x, &w, &b));
    Ok((got, report))
}

#[test]
fn it_computes_at_every_level() {
    let module = load();
    run(&module, None).unwrap();
    for (depth, ring, sync) in [(2, true, false), (2, true, true), (1, false, false)] {
        let (module, slot, machine) = lower(depth, ring, sync);
        run(&module, None).unwrap();
        let (_, report) = run(&module, Some(&machine)).unwrap();
        let report = report.unwrap();
        println!("{report}");
        let dry = dry_run(module.child(slot).unwrap(), None, &machine, LIMIT).unwrap();
        assert_eq!((report.cycles, &report.labels), (dry.cycles, &dry.labels));
    }
    let (module, _, machine) = lower(2, true, false);
    let report = run(&module, Some(&machine)).unwrap().1.unwrap();
    let causes: Vec<_> = report
        .causes
        .iter()
        .map(|c| (c.cause.as_str(), c.bytes, c.transfers))
        .collect();
    assert_eq!(
        causes,
        [("compulsory", 39_296, 19), ("compulsory", 32_768, 16)]
    );
    assert_eq!(report.spaces[1].peak_extent, 29_312);
}

#[test]
fn pruning_takes_out_what_was_put_in() {
    let (mut module, slot, machine) = lower(2, true, false);
    let ir = module.child_mut(slot).unwrap();
    assert_eq!(
        tir_schedule::prune_edges::prune_edges(ir, &machine, LIMIT).unwrap(),
        0
    );
    let all = edges(ir).len();
    // The clear waits for the load too: the product behind it on the same queue does.
    let calls: Vec<OpId> = ir
        .walk_ids()
        .into_iter()
        .filter(|op| ir.is::<tir_accel::Call>(*op))
        .collect();
    let mut tokens = tir_schedule::edit::group(ir, calls[0], 1);
    tokens.extend(tir_schedule::edit::group(ir, calls[1], 1));
    tokens.push(tokens[0]);
    tir_schedule::edit::set_group(ir, calls[0], 1, &tokens);
    let gone = tir_schedule::prune_edges::prune_edges(ir, &machine, LIMIT).unwrap();
    assert_eq!((gone, edges(ir).len()), (2, all));
    verify(&module);
}

#[test]
fn what_does_not_fit_says_who_holds_what() {
    let mut module = load();
    let machine = MachineInfo::attached(&module).unwrap();
    let slot = function(&module);
    let ir = module.child_mut(slot).unwrap();
    let schedule = tir_schedule::schedule::Schedule {
        depth: 4,
        ring: true,
        preload: true,
        early: true,
        spread: true,
        tries: 32,
        long_misses: 1,
        single_misses: 6,
    };
    let done = schedule.apply(ir, &machine).unwrap();
    println!("{}", tir_memory::plan_memory::text(&done.planned));
    assert!(done.retries > 0 && done.planned[0].plan.height <= 32_768);

    let mut small = machine.clone();
    small.spaces[1].bytes = 16_384;
    let mut module = load();
    let slot = function(&module);
    let error = schedule
        .apply(module.child_mut(slot).unwrap(), &small)
        .unwrap_err();
    println!("{error:?}");
    assert!(error.message.contains("do not fit"), "{error:?}");
    assert!(
        error
            .notes
            .iter()
            .any(|n| n.message.contains("ws holds 18432")),
        "{error:?}"
    );
}
