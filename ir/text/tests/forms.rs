//! Generic and pretty forms: what reads, and what prints back.
#![allow(missing_docs)]

mod common;
use common::*;
use tir::*;

#[test]
fn generic_as_mlir_prints_it() {
    let text = r#""builtin.module"() ({
  %0:2 = "d.op"() : () -> (i32, f32)
  "d.region"(%0#0, %0#1) ({
  ^bb0(%arg0: i32, %arg1: f32):
    "d.br"(%arg0)[^bb1] : (i32) -> ()
  ^bb1(%1: i32):  // 2 preds: ^bb0, ^bb1
    "d.cond"(%1)[^bb1, ^bb2] {a = 1 : i32, "b c", d = [true, "x"]} : (i32) -> ()
  ^bb2:  // pred: ^bb1
    "d.end"() : () -> ()
  }, {
  }) : (i32, f32) -> ()
  "func.func"() <{function_type = (i32) -> i32, sym_name = "f"}> ({
  ^bb0(%arg0: i32):
    "func.return"(%arg0) : (i32) -> ()
  }) : () -> ()
}) : () -> ()
"#;
    let ir = read(text);
    let generic = PrintOptions {
        generic: true,
        ..PrintOptions::default()
    };
    assert_eq!(text::print(&ir, &generic), text);
    round_trip(text);
}

#[test]
fn functions() {
    let text = "\
func.func @f(%x: tensor<4xf32> {func.attr = 1 : i64}, %y: i32) -> (tensor<4xf32>, i32) attributes {a} {
  func.return %x, %y : tensor<4xf32>, i32
}
func.func private @g(i32) -> i32
func.func @empty() {
  func.return
}
func.func @blocks(%c: i1) {
  cf.cond_br %c, ^bb1, ^join(%c : i1)
^bb1:  // pred: ^bb0
  cf.br ^join(%c : i1)
^join(%d: i1):  // 2 preds: ^bb0, ^bb1
  func.return
}
";
    assert_eq!(round_trip(text), text);
}

#[test]
fn loops() {
    let text = "\
func.func @f(%x: f32, %z: f32) -> f32 {
  %c0 = t.const 0 : index
  %c16 = t.const 16 : index
  %y:2 = loop.for %h = %c0 to %c16 step %c0 iter_args(%a = %x, %b = %z) -> (f32, f32) {
    %s = t.add %a, %b : f32
    loop.yield %s, %a : f32, f32
  }
  loop.for %i = %c0 to %c16 {
    %s = t.add %i, %c0 : index
  }
  t.repeat %c16 {
  } {note = \"empty\"}
  func.return %y#1 : f32
}
";
    assert_eq!(round_trip(text), text);
}

#[test]
fn tensors_and_views() {
    let text = "\
!T = tensor<16x16xf32>
#mk = affine_map<(m, n, k) -> (m, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
func.func @f(%a: !T, %c: !T, %m: memref<64x64xf32, \"spm\">) -> !T {
  %i = t.const 3 : index
  %v = memref.subview %m[%i, 0] [16, %i] : memref<64x64xf32, \"spm\"> to memref<16x?xf32, strided<[64, 1], offset: ?>, \"spm\">
  t.dma %a[0, %i] max after(%i, %i) bank 3 fast {x = 1} : !T, index, index
  t.dma %a[] add : !T
  %r = tensor.generic {indexing_maps = [#mk, #mn], iterator_types = [\"parallel\", \"parallel\", \"reduction\"]}
      ins(%a : !T) outs(%c : !T) combine add {
  ^bb0(%s: f32, %t: f32):
    loop.yield %s : f32
  } -> !T
  %e = tensor.generic {indexing_maps = [#mn], iterator_types = []} ins() outs(%c : !T) {
    %z = t.const 0.0 : f32
    loop.yield %z : f32
  } -> !T
  func.return %r : !T
}
";
    let expected = "\
func.func @f(%a: tensor<16x16xf32>, %c: tensor<16x16xf32>, %m: memref<64x64xf32, \"spm\">) -> tensor<16x16xf32> {
  %i = t.const 3 : index
  %v = memref.subview %m[%i, 0] [16, %i] : memref<64x64xf32, \"spm\"> to memref<16x?xf32, strided<[64, 1], offset: ?>, \"spm\">
  t.dma %a[0, %i] max after(%i, %i) bank 3 fast {x = 1 : i64} : tensor<16x16xf32>, index, index
  t.dma %a[] add : tensor<16x16xf32>
";
    let printed = round_trip(text);
    assert!(printed.starts_with(expected), "{printed}");
}

#[test]
fn machines() {
    let text = "\
accel.machine @npu {
  accel.unit @gemm
  accel.unit @vector {queue = 8 : i64}
  accel.intrinsic @copy on @gemm (%c: f32) cycles \"16\" {
    loop.yield %c : f32
  }
  accel.intrinsic @none on @gemm () cycles \"1\" {
    loop.yield
  }
}
";
    assert_eq!(round_trip(text), text);
}

#[test]
fn modules() {
    assert_eq!(round_trip(""), "");
    assert_eq!(round_trip("builtin.module {\n}\n"), "");
    let named = "builtin.module @m attributes {a = 1 : i64} {\n  t.repeat_not_known\n}\n";
    load();
    let errors = text::parse(named, Name::new("test.tir"), &options());
    assert!(errors.is_err());
    let text = "builtin.module @m attributes {a = 1 : i64} {\n  %c1_i32 = t.const 1 : i32\n}\n";
    assert_eq!(round_trip(text), text);
    let inner = "builtin.module {\n  builtin.module @m {\n  }\n}\n";
    assert_eq!(round_trip(inner), inner);
}

#[test]
fn attributes_and_types_read_back() {
    load();
    for text in [
        "1 : i32",
        "-1 : i8",
        "true",
        "false",
        "1.0 : f32",
        "0x7FC00001 : f32",
        "0xFFF0000000000001 : f64",
        "0x7F800000 : f32",
        "1.0E+30 : f32",
        "-0.0 : f64",
        "0x7E01 : f16",
        "0x7FC1 : bf16",
        "\"a\\0A\\\"b\\\\\"",
        "\"x\" : i32",
        "unit",
        "[1 : i32, [], {}]",
        "{a, \"b c\" = 2 : i64}",
        "@a::@\"b c\"::@d",
        "array<i64: 1, -2>",
        "array<i64>",
        "array<i1: true, false>",
        "array<f32: 1.5, 0x7FC00000>",
        "dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>",
        "dense<1.5> : tensor<4xf32>",
        "dense<> : tensor<0x4xf32>",
        "dense<true> : vector<4xi1>",
        "dense<[true, false]> : tensor<2xi1>",
        "dense<-7> : tensor<i64>",
        "dense<[0x7FC00001, 1.0]> : tensor<2xf32>",
        "dense<[255, 1]> : tensor<2xui8>",
        "affine_map<() -> ()>",
        "affine_map<(d0, d1)[s0] -> (d0 + s0 * 2, d1 floordiv 4, d0 mod 3, d1 ceildiv 2)>",
        "affine_map<(d0) -> (d0 - 1, d0 * -1, (d0 + 1) * 2)>",
        "strided<[4, 1], offset: ?>",
        "strided<[]>",
        "loc(unknown)",
        "loc(\"f.mlir\":1:2)",
        "loc(\"f\":1:2 to 3:4)",
        "loc(\"n\"(\"f\":1:2))",
        "loc(\"n\")",
        "loc(callsite(\"a\":1:2 at \"b\"))",
        "loc(fused<\"m\">[\"a\", unknown])",
        "loc(fused[])",
        "#foo.bar<a, (b)>",
        "#foo.bar",
        "#foo<bar>",
        "#graph.layout<NCHW>",
        "affine_set<(d0) : (d0 >= 0)>",
        "sparse<1> : tensor<2xi32>",
        "i1",
        "() -> ()",
        "(i32) -> ((i32) -> f32)",
        "dense<(1.0,2.0)> : tensor<2xcomplex<f32>>",
    ] {
        let attr = match tir::parse_attr(text) {
            Ok(attr) => attr,
            Err(error) => panic!("{text}: {error}"),
        };
        assert_eq!(attr.to_string(), text);
    }
    for text in [
        "i1",
        "si8",
        "ui64",
        "index",
        "none",
        "f16",
        "bf16",
        "f32",
        "f64",
        "(i32, f32) -> (i1, i2)",
        "tensor<f32>",
        "tensor<?x4xf32>",
        "tensor<4xf32, #graph.layout<NCHW>>",
        "tensor<*xf32>",
        "memref<*xf32, \"spm\">",
        "memref<4x?xf32, strided<[4, 1], offset: ?>, \"spm\">",
        "memref<4xf32, affine_map<(d0) -> (d0 * 2)>>",
        "vector<4x[4]xf32>",
        "vector<f32>",
        "tuple<>",
        "tuple<i32, tuple<f32>>",
        "complex<f32>",
        "!accel.token",
        "!foo.bar<a -> b>",
        "!foo.bar",
        "memref<4xmemref<2xf32>>",
        "tensor<0xf32>",
        "f8E4M3FN",
    ] {
        let ty = match tir::parse_type(text) {
            Ok(ty) => ty,
            Err(error) => panic!("{text}: {error}"),
        };
        assert_eq!(ty.to_string(), text);
    }
    let same = tir::parse_type("memref<4xf32, affine_map<(x) -> (x)>, 1>");
    assert_eq!(
        same.map(|t| t.to_string()),
        Ok("memref<4xf32, 1 : i64>".to_string())
    );
    let map = tir::parse_attr("affine_map<(m, k)[n] -> (2 * m + k - n, -(m + k))>");
    assert_eq!(
        map.map(|t| t.to_string()),
        Ok("affine_map<(d0, d1)[s0] -> (d0 * 2 + d1 + s0 * -1, (d0 + d1) * -1)>".to_string())
    );
}

#[test]
fn big_constants_are_hexadecimal() {
    let numbers: Vec<String> = (0..200).map(|i| i.to_string()).collect();
    let text = format!(
        "%0 = t.const dense<[{}]> : tensor<200xi32>\n",
        numbers.join(", ")
    );
    let printed = round_trip(&text);
    assert!(
        printed.starts_with("%0 = t.const dense<\"0x0000000001000000020000"),
        "{printed}"
    );
    let ir = read(&text);
    let opts = PrintOptions {
        elide_constants: Some(10),
        ..PrintOptions::default()
    };
    assert_eq!(
        text::print(&ir, &opts),
        "%0 = t.const dense_resource<__elided__> : tensor<200xi32>\n"
    );
}

#[test]
fn locations_and_aliases() {
    let text = "\
#loc1 = loc(\"f\":1:2)
\"d.a\"() : () -> () loc(#loc1)
\"d.b\"() : () -> ()
t.repeat_not : no
";
    load();
    assert!(text::parse(text, Name::new("test.tir"), &options()).is_err());
    let text = &text[..text.len() - 18];
    let ir = read(text);
    let mut locs = Vec::new();
    ir.walk(&mut |op| locs.push(op.loc().to_string()));
    assert_eq!(locs[1..], ["loc(\"f\":1:2)", "loc(\"test.tir\":3:1)"]);
    let opts = PrintOptions {
        locations: true,
        generic: true,
        ..PrintOptions::default()
    };
    let printed = text::print(&ir, &opts);
    let again = read(&printed);
    assert!(text::equal(&ir, &again, true).is_ok(), "{printed}");
}

#[test]
fn names_are_kept_where_free() {
    let text = "\
\"d.r\"() ({
  %x = \"d.a\"() : () -> i32
  %1 = \"d.a\"() : () -> i32
}, {
  %x = \"d.b\"() : () -> i32
}) : () -> ()
%q, %r = \"d.c\"() : () -> (i32, i32)
%s, %5, %t:2 = \"d.c\"() : () -> (i32, i32, i32, i32)
\"d.use\"(%q, %r, %s, %5, %t#0, %t#1) : (i32, i32, i32, i32, i32, i32) -> ()
";
    let expected = text
        .replace("%1 = ", "%0 = ")
        .replace("%s, %5, %t:2", "%s:2, %t:2")
        .replace("%s, %5,", "%s#0, %s#1,");
    assert_eq!(round_trip(text), expected);
}

#[test]
fn forward_references() {
    let text = "\
\"d.graph\"() ({
  %0 = \"d.a\"(%1) : (i32) -> i32
  %1 = \"d.b\"(%0) : (i32) -> i32
}) : () -> ()
";
    assert_eq!(round_trip(text), text);
}

#[test]
fn split() {
    let parts = text::split_input("a\n// -----\nb\nc\n// -----\n");
    assert_eq!(parts, [(0, "a\n"), (2, "b\nc\n"), (5, "")]);
}

#[test]
fn threads_agree() {
    let mut text = String::new();
    for i in 0..3000 {
        text.push_str(&format!("func.func @f{i}(%x: i32) -> i32 {{\n  %a = t.add %x, %x : i32\n  func.return %a : i32\n}}\n"));
        if i % 100 == 0 {
            text.push_str(&format!("%g{i} = t.const {i} : i32\n"));
        }
    }
    load();
    let mut printed = Vec::new();
    for threads in [1, 2, 4] {
        let opts = ParseOptions {
            threads,
            ..options()
        };
        match text::parse(&text, Name::new("test.tir"), &opts) {
            Ok(ir) => printed.push(text::print(&ir, &PrintOptions::default())),
            Err(errors) => panic!("{}", rendered(&text, &errors)),
        }
    }
    assert_eq!(printed[0], text);
    assert!(printed.iter().all(|p| *p == printed[0]));
}

#[test]
fn long_lists_are_broken() {
    let mut text = String::from("func.func @f(");
    let args: Vec<String> = (0..12)
        .map(|i| format!("%argument{i}: tensor<16x16xf32>"))
        .collect();
    text.push_str(&args.join(", "));
    text.push_str(") {\n  func.return\n}\n");
    insta::assert_snapshot!(round_trip(&text), @r"
    func.func @f(
        %argument0: tensor<16x16xf32>, %argument1: tensor<16x16xf32>, %argument2: tensor<16x16xf32>,
        %argument3: tensor<16x16xf32>, %argument4: tensor<16x16xf32>, %argument5: tensor<16x16xf32>,
        %argument6: tensor<16x16xf32>, %argument7: tensor<16x16xf32>, %argument8: tensor<16x16xf32>,
        %argument9: tensor<16x16xf32>, %argument10: tensor<16x16xf32>, %argument11: tensor<16x16xf32>) {
      func.return
    }
    ");
}

#[test]
fn formats_are_checked() {
    let mut info = OpInfo::new(Name::new("t.x"));
    for (format, error) in [
        ("$y", "the format names `$y`, which is no field"),
        ("`a", "a literal is not closed by a backtick"),
        ("(`a`)?", "an optional group needs an anchor `^`"),
        ("(`a`", "a group is not closed by `)`"),
        ("typ(operands)", "unexpected `typ` in the format"),
        ("attr-dict )", "unexpected `)` in the format"),
        ("`a` `;`", "the grammar of operations has no `;`"),
        ("`return`", "the word `return` begins an operation"),
        (
            "successors `:`",
            "`:` behind a successor would begin a block",
        ),
    ] {
        info.asm = Some(format.to_string());
        assert_eq!(text::check_format(&info), Err(error.to_string()));
    }
}

/// A sum whose type no one gives.
#[derive(Op)]
#[op("t.sum", Pure)]
#[asm("$values attr-dict `:` type($values)")]
struct Sum {
    values: Vec<Value>,
    sum: Ret,
}

/// A format without its operands.
#[derive(Op)]
#[op("t.drop", Pure)]
#[asm("attr-dict `:` type($values)")]
struct Drop {
    values: Vec<Value>,
}

/// A format in which a successor ends as a label does.
#[derive(Op)]
#[op("t.go", Terminator)]
#[asm("$to `:` attr-dict")]
struct Go {
    to: tir::Successor,
}

static OTHER: tir::Dialect = tir::Dialect {
    name: "u",
    doc: "Ops of another one.",
    ops: &[<Sum as Op>::SPEC],
    types: &[],
    attrs: &[],
    constant: None,
    load: None,
    attached: tir::Attached::new(),
};

#[test]
fn ops_are_called_as_their_dialect() {
    let error = "'t.sum' is no op of dialect 'u', whose ops are called 'u.…'";
    assert_eq!(text::check_formats(&OTHER), Err(error.to_string()));
}

#[test]
fn formats_give_what_an_op_needs() {
    let check = |spec| text::check_format(&OpInfo::from_spec(spec));
    let error = "the format does not give the type of the result `$sum`, and the op does not infer \
                 it: add `type($sum)`, or the hook `infer`";
    assert_eq!(check(<Sum as Op>::SPEC), Err(error.to_string()));
    let error = "`:` behind a successor would begin a block";
    assert_eq!(check(<Go as Op>::SPEC), Err(error.to_string()));
    let error = "the format leaves out the operand `$values`";
    assert_eq!(check(<Drop as Op>::SPEC), Err(error.to_string()));
}
