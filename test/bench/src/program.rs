//! A fixed program: many functions of func, arith and memref ops in generic form.

use std::fmt::Write;

/// So many functions with so many ops each, in generic form that mlir-opt reads too. The same
/// numbers give the same text.
pub(crate) fn generic_program(functions: usize, ops: usize) -> String {
    let mut out = String::from("\"builtin.module\"() ({\n");
    let mut random = tir_data::Random::new(1);
    let mut next = |n: usize| random.below(n);
    for f in 0..functions {
        let _ = writeln!(
            out,
            "  \"func.func\"() <{{function_type = (memref<64x64xf32>, f32, i32) -> f32, sym_name = \"f{f}\"}}> ({{"
        );
        let _ = writeln!(
            out,
            "  ^bb0(%arg0: memref<64x64xf32>, %arg1: f32, %arg2: i32):"
        );
        let mut floats = vec!["%arg1".to_string()];
        let mut ints = vec!["%arg2".to_string()];
        let mut indices = Vec::new();
        for i in 0..2 {
            let _ = writeln!(
                out,
                "    %i{i} = \"arith.constant\"() <{{value = {} : index}}> : () -> index",
                next(64)
            );
            indices.push(format!("%i{i}"));
        }
        // One return at the end.
        for n in 0..ops.saturating_sub(3) {
            let pick =
                |list: &[String], r: usize| list[list.len() - 1 - r % list.len().min(32)].clone();
            match next(8) {
                0 => {
                    let _ = writeln!(
                        out,
                        "    %v{n} = \"arith.constant\"() <{{value = {}.5 : f32}}> : () -> f32",
                        next(1000)
                    );
                    floats.push(format!("%v{n}"));
                }
                1..=2 => {
                    let (a, b) = (pick(&floats, next(32)), pick(&floats, next(32)));
                    let name = ["addf", "mulf", "subf"][next(3)];
                    let _ = writeln!(
                        out,
                        "    %v{n} = \"arith.{name}\"({a}, {b}) <{{fastmath = #arith.fastmath<none>}}> : (f32, f32) -> f32"
                    );
                    floats.push(format!("%v{n}"));
                }
                3..=4 => {
                    let (a, b) = (pick(&ints, next(32)), pick(&ints, next(32)));
                    let name = ["addi", "muli", "subi"][next(3)];
                    let _ = writeln!(
                        out,
                        "    %v{n} = \"arith.{name}\"({a}, {b}) <{{overflowFlags = #arith.overflow<none>}}> : (i32, i32) -> i32"
                    );
                    ints.push(format!("%v{n}"));
                }
                5 => {
                    let (i, j) = (pick(&indices, next(2)), pick(&indices, next(2)));
                    let _ = writeln!(
                        out,
                        "    %v{n} = \"memref.load\"(%arg0, {i}, {j}) <{{nontemporal = false}}> : (memref<64x64xf32>, index, index) -> f32"
                    );
                    floats.push(format!("%v{n}"));
                }
                6 => {
                    let (v, i, j) = (
                        pick(&floats, next(32)),
                        pick(&indices, next(2)),
                        pick(&indices, next(2)),
                    );
                    let _ = writeln!(
                        out,
                        "    \"memref.store\"({v}, %arg0, {i}, {j}) <{{nontemporal = false}}> : (f32, memref<64x64xf32>, index, index) -> ()"
                    );
                }
                _ => {
                    let a = pick(&ints, next(32));
                    let _ = writeln!(
                        out,
                        "    %v{n} = \"arith.index_cast\"({a}) : (i32) -> index"
                    );
                }
            }
        }
        let last = floats.last().cloned().unwrap_or_default();
        let _ = writeln!(out, "    \"func.return\"({last}) : (f32) -> ()");
        let _ = writeln!(out, "  }}) : () -> ()");
    }
    out.push_str("}) : () -> ()\n");
    out
}

/// What the ops of a [`chain`] share.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chain {
    /// A value that nothing folds with.
    Shared,
    /// The constant 0, which is added: every op goes.
    Zero,
    /// Nothing: each has a constant of its own, of few values, so that most are merged.
    Constants,
}

/// A function of one chain of so many ops, `v = v op c`, in generic form that mlir-opt reads too.
pub(crate) fn chain(kind: Chain, ops: usize) -> String {
    let mut out = String::from(
        "\"builtin.module\"() ({\n  \"func.func\"() <{function_type = (i32, i32) -> i32, sym_name = \"f\"}> ({\n  ^bb0(%x: i32, %s: i32):\n",
    );
    let constant = |value: usize, name: &str| {
        format!("    {name} = \"arith.constant\"() <{{value = {value} : i32}}> : () -> i32\n")
    };
    let op = |op: &str, to: &str, a: &str, b: &str| {
        let flags = "<{overflowFlags = #arith.overflow<none>}>";
        format!("    {to} = \"arith.{op}\"({a}, {b}) {flags} : (i32, i32) -> i32\n")
    };
    match kind {
        Chain::Shared => out += &op("muli", "%t", "%s", "%s"),
        Chain::Zero => out += &constant(0, "%t"),
        Chain::Constants => {}
    }
    let mut last = "%x".to_string();
    for n in 0..ops {
        let next = format!("%v{n}");
        if kind == Chain::Constants {
            let own = format!("%c{n}");
            out += &constant(2 + n % 97, &own);
            // No two of these fold together.
            let name = if n % 2 == 0 { "xori" } else { "muli" };
            let flags = if n % 2 == 0 {
                " "
            } else {
                " <{overflowFlags = #arith.overflow<none>}> "
            };
            let _ = writeln!(
                out,
                "    {next} = \"arith.{name}\"({last}, {own}){flags}: (i32, i32) -> i32"
            );
        } else {
            out += &op("addi", &next, &last, "%t");
        }
        last = next;
    }
    let _ = writeln!(
        out,
        "    \"func.return\"({last}) : (i32) -> ()\n  }}) : () -> ()\n}}) : () -> ()"
    );
    out
}
