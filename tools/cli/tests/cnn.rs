//! The network of README's first command: its figures, and that its order and its plan are needed.

use std::path::{Path, PathBuf};
use std::process::Command;

use tir::{Attr, Ir, OpId, PassManager};
use tir_accel::MachineInfo;
use tir_memref::View;
use tir_schedule::dry_run::dry_run;

const LIMIT: u64 = 50_000_000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
fn file(path: &str) -> String {
    root().join("test/e2e").join(path).display().to_string()
}

/// The accel program of a network for a machine, as `to-accel` makes it.
fn accel(model: &str, machine: &str, options: &str) -> (Ir, OpId, MachineInfo) {
    let tool = tir_opt::stock();
    tool.load();
    let model = root().join("test/e2e/models").join(model);
    let mut module = tir_translate::import_onnx(&model).unwrap_or_else(|e| panic!("{e:?}"));
    let machine = file(&format!("machines/{machine}"));
    let pipeline = tool
        .passes
        .parse(&format!("to-accel{{machine={machine} {options}}}"));
    let pipeline = pipeline.unwrap_or_else(|e| panic!("{e:?}"));
    let report = PassManager::with(pipeline, Default::default()).run(&mut module);
    assert!(report.errors.is_empty(), "{:?}", report.errors);
    let info = MachineInfo::attached(&module).expect("a machine");
    let slots = module.slots();
    let main = slots.into_iter().find(|op| module.name(*op) == "func.func");
    (module, main.expect("a function"), info)
}

fn compile(machine: &str, out: &str) -> String {
    compile_for(&file(&format!("machines/{machine}")), out)
}

/// For a machine file wherever it lies.
fn compile_for(machine: &str, out: &str) -> String {
    let run = Command::new(env!("CARGO_BIN_EXE_tir"))
        .arg("compile")
        .arg(file("models/cnn.onnx"))
        .args(["--machine", machine])
        .args(["--input", &file("models/cnn.in_0.npy")])
        .args(["--compare", &file("models/cnn.out_0.npy")])
        .arg("--out")
        .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join(out))
        .output()
        .expect("tir starts");
    let text = String::from_utf8_lossy(&run.stdout).to_string();
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{text}{errors}");
    text
}

/// Paths of machine files are values of options: a pipeline has them in quotes where it needs to.
#[test]
fn a_machine_file_may_have_any_name() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("a b} \"c\"");
    std::fs::create_dir_all(&folder).expect("a folder");
    let copy = folder.join("it's.tir");
    std::fs::copy(file("machines/npu.tir"), &copy).expect("a file");
    let text = compile_for(&copy.to_string_lossy(), "cnn-named");
    assert!(text.contains("accel.tir @main"), "{text}");
}

/// Every level agrees with ONNX Runtime, on machines with levels, equal units and cores too: no Rust knows them.
#[test]
fn every_level_agrees() {
    for machine in [
        "npu.tir",
        "wide.tir",
        "levels.tir",
        "twin.tir",
        "cluster.tir",
    ] {
        let text = compile(machine, machine);
        for level in ["graph", "tensor", "loop", "memref", "accel"] {
            assert!(text.contains(&format!("  {level} ")), "{text}");
        }
        assert!(!text.contains("WRONG"), "{text}");
        assert!(text.contains("of multiply-adds on units"), "{text}");
    }
}

/// Layers that do not fit whole stay within the scratchpad; two slots hide what one waits for.
#[test]
fn it_fits_and_hides() {
    let cycles = |depth: i64| {
        let (module, main, info) = accel("cnn.onnx", "npu.tir", &format!("depth={depth}"));
        let report = dry_run(module.child(main).expect("a body"), None, &info, LIMIT);
        let report = report.unwrap_or_else(|e| panic!("{e:?}"));
        let near = report.spaces.iter().find(|s| s.name == "spm").expect("spm");
        assert!(near.peak_extent <= 262_144, "{} bytes", near.peak_extent);
        report.cycles
    };
    let (two, one) = (cycles(2), cycles(1));
    println!("two slots {two} cycles, one slot {one}");
    assert!(two * 10 <= one * 8, "{two} against {one}");
}

/// Taking away any edge, or moving any buffer onto its neighbour, is found, and both ops are named: with tensors that stay in
/// near memory, and where all go through far memory, in more transfers.
#[test]
fn order_and_plan_are_needed() {
    assert!(edges_needed("depth=2") > 40);
    assert!(edges_needed("depth=2 resident=false") > 50);
}

/// How many edges order a program, each of them needed, as each place of a buffer is.
fn edges_needed(options: &str) -> usize {
    let (module, main, info) = accel("cnn.onnx", "npu.tir", options);
    let ir = module.child(main).expect("a body");
    let token = tir_accel::token();
    let mut edges = 0;
    for op in ir.walk_ids() {
        let name = ir.name(op);
        if name == "loop.for" || name == "loop.if" || name == "loop.yield" {
            continue;
        }
        let tokens: Vec<usize> = (ir.operands(op).enumerate())
            .filter(|(_, v)| ir.ty(*v) == token)
            .map(|(i, _)| i)
            .collect();
        for operand in tokens {
            let mut cut = ir.clone();
            let op = cut.twin(op, ir);
            let ready = cut.add(tir::At::Before(op), tir_accel::Ready {});
            cut.set_operand(op, operand, ready);
            let Err(error) = dry_run(&cut, None, &info, LIMIT) else {
                panic!(
                    "operand {operand} of {name} at {} is not needed",
                    ir.loc(op)
                );
            };
            let race = error.message.contains("may still") || error.message.contains("not waited");
            assert!(race, "{error:?}");
            edges += 1;
        }
    }
    println!("{edges} edges, each needed");

    // Every planned buffer, 64 bytes lower: onto the end of the one below it, which is what that
    // one being smaller would mean.
    let mut plan: Vec<(i64, i64, OpId)> = Vec::new();
    for op in ir.walk_ids() {
        if let Some(view) = ir.get::<View>(op)
            && let Some(offset) = ir.constant_int(view.byte_shift)
        {
            let ty = view.result.0;
            let bytes = ty.elements().unwrap_or(0) * ty.bytes().unwrap_or(0);
            plan.push((offset, bytes as i64, op));
        }
    }
    assert!(plan.len() > 20, "{} buffers", plan.len());
    let (mut found, mut apart) = (0, 0);
    for (offset, bytes, op) in &plan {
        let touches = |(o, b, _): &&(i64, i64, OpId)| o + b <= *offset && o + b > offset - 64;
        if *offset < 64 || !plan.iter().any(|other| touches(&other)) {
            continue;
        }
        let mut moved = ir.clone();
        let op = moved.twin(*op, ir);
        let shift = tir_arith_constant(&mut moved, op, offset - 64);
        moved.set_operand(op, 1, shift);
        match dry_run(&moved, None, &info, LIMIT) {
            Ok(_) => apart += 1,
            Err(error) => {
                assert!(!error.notes.is_empty(), "{error:?} of {bytes} bytes");
                found += 1;
            }
        }
    }
    println!("{found} overlaps found, {apart} buffers whose neighbours live at other times");
    assert!(found > apart, "{found} {apart}");
    edges
}

fn tir_arith_constant(ir: &mut Ir, before: OpId, value: i64) -> tir::Value {
    let mut state = tir::OpState::new("arith.constant");
    state.set_attr("value", Attr::index(value));
    let op = ir.at(tir::At::Before(before)).create(state);
    ir.result(op, 0)
}
