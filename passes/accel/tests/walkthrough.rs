//! The program of the walkthrough, from buffers to the command stream: its account and its edges.

use tir::{Ir, Name, OpId};
use tir_accel::MachineInfo;
use tir_accel_passes::dry_run::dry_run;
use tir_accel_passes::insert_dma::InsertDma;
use tir_accel_passes::insert_tokens::InsertTokens;
use tir_accel_passes::multi_buffer::MultiBuffer;

const LIMIT: u64 = 10_000_000;

fn load() -> Ir {
    for dialect in [
        &tir_builtin::DIALECT,
        &tir_func::DIALECT,
        &tir_arith::DIALECT,
        &tir_tensor::DIALECT,
        &tir_loop::DIALECT,
        &tir_memref::DIALECT,
        &tir_accel::DIALECT,
    ] {
        dialect.load();
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../test/passes/accel/walkthrough-memref.tir");
    let text = std::fs::read_to_string(path).unwrap();
    tir_text::parse(&text, Name::new("walkthrough-memref.tir"), &tir_text::ParseOptions::default())
        .unwrap_or_else(|e| panic!("{}", e.iter().map(|d| format!("{d:?}\n")).collect::<String>()))
}

fn function(module: &Ir) -> OpId {
    let slots = module.slots();
    slots.into_iter().find(|op| module.name(*op) == "func.func").unwrap()
}

fn verify(module: &Ir) {
    if let Err(errors) = tir::verify(module) {
        let text = tir_text::print(module, &tir_text::PrintOptions::default());
        panic!("{}{text}", errors.iter().map(|d| format!("{d:?}\n")).collect::<String>());
    }
}

fn lower(depth: i64, ring: bool, sync: bool) -> (Ir, OpId, MachineInfo) {
    let mut module = load();
    verify(&module);
    let machine = MachineInfo::attached(&module).unwrap();
    let slot = function(&module);
    let ir = module.child_mut(slot).unwrap();
    MultiBuffer { depth, ring }.run(ir, &machine).unwrap();
    InsertDma::default().run(ir, &machine).unwrap();
    verify(&module);
    if std::env::var("SHOW").is_ok() {
        println!("{}", tir_text::print(&module, &tir_text::PrintOptions::default()));
    }
    let ir = module.child_mut(slot).unwrap();
    InsertTokens { sync, ..InsertTokens::default() }.run(ir, &machine).unwrap();
    verify(&module);
    (module, slot, machine)
}

fn account(depth: i64, ring: bool, sync: bool) -> tir_accel_sim::Report {
    let (module, slot, machine) = lower(depth, ring, sync);
    let ir = module.child(slot).unwrap();
    dry_run(ir, &machine, LIMIT).unwrap_or_else(|e| {
        let text = tir_text::print(&module, &tir_text::PrintOptions::default());
        panic!("{e:?}\n{text}")
    })
}

#[test]
fn the_account_comes_out() {
    let report = account(2, true, false);
    println!("{report}");
    let calls: Vec<_> = report.labels.iter().map(|l| (l.name.as_str(), l.calls, l.macs)).collect();
    assert_eq!(calls, [("clear16", 32, 0), ("gemm16", 288, 1_179_648), ("bias_relu16", 32, 0)]);
    let moved: Vec<_> = report.causes.iter().map(|c| (c.from.as_str(), c.bytes)).collect();
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
        let tokens = ir.operands(op).enumerate().filter(|(_, v)| ir.ty(*v) == token);
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
            let error = dry_run(&cut, &machine, LIMIT).expect_err("an edge too many");
            let race = error.message.contains("may still") || error.message.contains("not waited");
            assert!(race, "{error:?}");
        }
    }
}
