//! Bufferization: what is in place, what is copied and why, and that results stay.

mod common;

use common::{on_buffers, run_tensors, same, show};
use tir::Ir;

fn count(ir: &Ir, what: &str) -> usize {
    show(ir).matches(what).count()
}
fn notes(report: &tir_bufferize::Report) -> String {
    let text = |d: &tir::Diagnostic| {
        let notes: Vec<&str> = d.notes.iter().map(|n| &*n.message).collect();
        format!("{}; {}", d.message, notes.join("; "))
    };
    report
        .remarks
        .iter()
        .map(text)
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn walkthrough_has_four_transfers_and_no_copy() {
    let (ir, report) = on_buffers(include_str!(
        "../../../test/passes/bufferize/walkthrough.tir"
    ));
    assert_eq!((report.copies, notes(&report)), (0, String::new()));
    assert_eq!(count(&ir, "memref.transfer_read"), 3);
    assert_eq!(count(&ir, "memref.transfer_write"), 1);
    assert_eq!(count(&ir, "memref.alloc"), 5);
    assert_eq!(count(&ir, "memref.dealloc"), 5);
    let text = show(&ir);
    let function = &text[text.find("func.func").unwrap()..];
    assert!(!function.contains("tensor<"), "{function}");
    assert!(
        function.contains("%y: memref<1x32x16x16xf32, \"dram\"> {func.out}"),
        "{function}"
    );
}

/// What most of the tests are about: ops on one tensor type.
const HEAD: &str = r#"
!M = tensor<4x4xf32>
!H = tensor<2x4xf32>
#id = affine_map<(i, j) -> (i, j)>
#tr = affine_map<(i, j) -> (j, i)>
"#;

fn add(name: &str, x: &str, y: &str, out: &str) -> String {
    format!(
        "%{name} = tensor.generic {{indexing_maps = [#id, #id, #id], iterator_types = [\"parallel\", \"parallel\"]}}
           ins(%{x}, %{y} : !M, !M) outs(%{out} : !M) {{
         ^bb0(%s: f32, %t: f32):
           %u = arith.addf %s, %t : f32
           tensor.yield %u : f32
         }} -> !M\n"
    )
}

fn program(body: &str) -> String {
    format!("{HEAD}func.func @f(%a: !M, %b: !M) -> !M {{\n{body}}}\n")
}

#[test]
fn elementwise_work_runs_in_place() {
    let body = "%e = tensor.empty() : !M\n".to_string()
        + &add("x", "a", "b", "e")
        + &add("y", "x", "b", "x")
        + "func.return %y : !M\n";
    let (ir, report) = same(&program(&body), "f");
    assert_eq!(
        (report.copies, count(&ir, "memref.alloc")),
        (0, 0),
        "{}",
        show(&ir)
    );
}

#[test]
fn what_is_read_later_is_kept() {
    let body = "%e = tensor.empty() : !M\n".to_string()
        + &add("x", "a", "b", "e")
        + "%y = tensor.insert_slice %h into %x[1, 0] [2, 4] [1, 1] : !H into !M\n"
        + &add("z", "x", "y", "y")
        + "func.return %z : !M\n";
    let body = format!("%h = tensor.extract_slice %a[0, 0] [2, 4] [1, 1] : !M to !H\n{body}");
    let (_, report) = same(&program(&body), "f");
    let notes = notes(&report);
    assert!(
        notes.contains("'tensor.insert_slice' copies operand 1"),
        "{notes}"
    );
    assert!(
        notes.contains("'tensor.generic' reads afterwards what it held before"),
        "{notes}"
    );
}

#[test]
fn arguments_and_constants_are_not_written() {
    let body = "%c = arith.constant dense<1.0> : !M\n".to_string()
        + "%h = tensor.extract_slice %b[2, 0] [2, 4] [1, 1] : !M to !H\n"
        + "%x = tensor.insert_slice %h into %c[1, 0] [2, 4] [1, 1] : !H into !M\n"
        + "%d = arith.constant dense<1.0> : !M\n"
        + &add("y", "x", "d", "x")
        + "%z = tensor.insert_slice %h into %a[1, 0] [2, 4] [1, 1] : !H into !M\n"
        + &add("r", "y", "z", "z")
        + "func.return %r : !M\n";
    let (ir, report) = same(&program(&body), "f");
    assert_eq!(count(&ir, "memref.global constant"), 1, "{}", show(&ir));
    let notes = notes(&report);
    assert!(notes.contains("it is a constant"), "{notes}");
    assert!(
        notes.contains("it is an argument of the function"),
        "{notes}"
    );
}

#[test]
fn carried_tensors_that_change_places_go_by_way_of_others() {
    let body = "%e = tensor.empty() : !M\n%o = tensor.empty() : !M\n".to_string()
        + &add("x", "a", "a", "e")
        + &add("y", "b", "a", "o")
        + "%r:2 = loop.for %i = 0 to 3 iter_args(%p = %x, %q = %y) -> (!M, !M) {\n"
        + "  loop.yield %q, %p : !M, !M\n}\nfunc.return %r#0 : !M\n";
    same(&program(&body), "f");
}

#[test]
fn conditions_join_what_is_in_place() {
    let body = "%e = tensor.empty() : !M\n%c2 = arith.constant 2 : index\n".to_string()
        + &add("x", "a", "b", "e")
        + "%r = loop.for %i = 0 to 4 iter_args(%p = %x) -> (!M) {\n"
        + "  %c = arith.cmpi ult, %i, %c2 : index\n"
        + "  %k = loop.if %c -> (!M) {\n"
        + &add("y", "p", "b", "p")
        + "    loop.yield %y : !M\n  } else {\n    loop.yield %p : !M\n  }\n"
        + "  loop.yield %k : !M\n}\nfunc.return %r : !M\n";
    let (ir, report) = same(&program(&body), "f");
    assert_eq!(
        (report.copies, count(&ir, "memref.alloc")),
        (0, 0),
        "{}",
        show(&ir)
    );
}

#[test]
fn calls_hand_over_buffers() {
    let text = program("%r = func.call @g(%a, %b) : (!M, !M) -> !M\nfunc.return %r : !M\n")
        + "func.func private @g(%a: !M, %b: !M) -> !M {\n%e = tensor.empty() : !M\n"
        + &add("x", "a", "b", "e")
        + "func.return %x : !M\n}\n";
    let (ir, report) = same(&text, "f");
    assert_eq!(
        (report.copies, count(&ir, "memref.alloc")),
        (0, 0),
        "{}",
        show(&ir)
    );
}

#[test]
fn tiles_that_stick_out_read_padding_and_drop() {
    let text = r#"
!T = tensor<3x4xf32>
func.func @f(%x: tensor<5x7xf32>) -> tensor<7x5xf32> {
  %pad = arith.constant 0.5 : f32
  %e = tensor.empty() : tensor<7x5xf32>
  %y = loop.for %i = -1 to 6 step 3 iter_args(%p = %e) -> (tensor<7x5xf32>) {
    %q = loop.for %j = 0 to 7 step 4 iter_args(%s = %p) -> (tensor<7x5xf32>) {
      %t = tensor.transfer_read %x[%i, %j] pad %pad access (r, c) -> (r, c) : tensor<5x7xf32> to !T
      %n = tensor.transfer_write %t into %s[%j, %i] access (r, c) -> (c, r) : !T into tensor<7x5xf32>
      loop.yield %n : tensor<7x5xf32>
    }
    loop.yield %q : tensor<7x5xf32>
  }
  func.return %y : tensor<7x5xf32>
}
"#;
    let (ir, report) = same(text, "f");
    assert_eq!(report.copies, 0, "{}", show(&ir));
    // It is the transposed.
    let before = common::read(text);
    let x = tir::Data::random(tir::Type::tensor([5, 7], tir::Type::f32()), 1).unwrap();
    let x = x.as_tensor().unwrap().as_f32().unwrap().into_owned();
    let y = run_tensors(&before, "f", 1)[0]
        .as_f32()
        .unwrap()
        .into_owned();
    for i in 0..5 {
        for j in 0..7 {
            assert_eq!(y[j * 5 + i].to_bits(), x[i * 7 + j].to_bits());
        }
    }
}

#[test]
fn unknown_work_on_tensors_is_an_error() {
    let mut ir = common::read(&program(
        "%r = arith.addf %a, %b : !M\nfunc.return %r : !M\n",
    ));
    let errors = tir_bufferize::bufferize(&mut ir).unwrap_err();
    assert_eq!(
        errors[0].to_string(),
        "test.tir:7:1: error: 'arith.addf' works on tensors, and is not known to work on buffers"
    );
}

#[test]
fn programs_that_were_never_tiled_work_on_far_buffers() {
    let body = "%y = graph.fused {\n%e = tensor.empty() : !M\n".to_string()
        + &add("x", "a", "b", "e")
        + &add("z", "x", "a", "e")
        + "graph.yield %z : !M\n} : !M\nfunc.return %y : !M\n";
    let (ir, report) = same(&program(&body), "f");
    assert_eq!(
        (report.copies, count(&ir, "memref.alloc")),
        (0, 0),
        "{}",
        show(&ir)
    );
}
