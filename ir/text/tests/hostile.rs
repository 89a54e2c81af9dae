//! No panic, hang or stack overflow on any input.
#![allow(missing_docs)]

mod common;
use common::*;
use tir::data::Random;
use tir::*;

/// A text with nearly everything in it.
const EXAMPLE: &str = r##"!T = tensor<16x16xf32>
#mk = affine_map<(m, n, k) -> (m * 2, k floordiv 3)>
#loc = loc("f":1:2)
func.func @f(%a: !T {x.y = 1 : i64}, %c: i1) -> (!T, i1) attributes {a, "b c" = [1, 2.5]} {
  %c0 = t.const 0 : index // a comment
  %y:2 = loop.for %h = %c0 to %c0 step %c0 iter_args(%p = %a, %q = %a) -> (!T, !T) {
    %s = t.add %p, %q : !T
    loop.yield %s, %p : !T, !T
  }
  t.repeat %c0 {}
  t.dma %a[0, %c0] max after(%c0) bank 3 fast {x = "a\0A"} : !T, index loc(#loc)
  %r = tensor.generic {indexing_maps = [#mk], iterator_types = ["parallel"]} ins(%a : !T) outs(%a : !T) combine add {
  ^bb0(%s: f32):
    loop.yield %s : f32
  } -> !T
  cf.cond_br %c, ^bb1, ^bb2(%r, %y#1 : !T, !T)
^bb1:
  cf.br ^bb2(%a, %a : !T, !T)
^bb2(%u: !T, %v: !T loc("n"(unknown))):
  func.return %u, %c : !T, i1
}
"d.op"() <{p = dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>}> ({
  %0 = "d.a"(%1) : (memref<4x?xf32, strided<[4, ?], offset: ?>, "spm">) -> (() -> i32)
  %1 = "d.b"(%0) {t = (i32, tuple<i1>) -> !foo.bar<a -> (b)>, l = loc(callsite("a":1:2 at fused<1>[unknown]))} : (() -> i32) -> memref<4x?xf32, strided<[4, ?], offset: ?>, "spm">
}, {}) : () -> ()
func.func private @g(vector<4x[4]xf32>, tensor<*xf32>) -> ()
accel.machine @npu attributes {v = array<i64: 1, 2>} {
  accel.unit @u
  accel.intrinsic @i on @u (%x: f32) cycles "1" {
    loop.yield %x : f32
  }
}
"##;

fn try_read(text: &str) {
    let opts = ParseOptions {
        threads: 1,
        ..options()
    };
    match text::parse(text, Name::new("test.tir"), &opts) {
        Ok(ir) => {
            // What reads also prints; where it verifies, it reads back the same.
            let printed = text::print(
                &ir,
                &PrintOptions {
                    generic: true,
                    ..PrintOptions::default()
                },
            );
            match text::parse(&printed, Name::new("printed.tir"), &opts) {
                Ok(again) => {
                    if let Err(error) = text::equal(&ir, &again, false) {
                        panic!("{error}\n{text}\n{printed}");
                    }
                }
                Err(errors) => panic!("{}\n{text}\n{printed}", rendered(&printed, &errors)),
            }
            text::print(&ir, &PrintOptions::default());
        }
        Err(errors) => {
            assert!(!errors.is_empty());
            for error in &errors {
                assert!(!error.message.is_empty());
                assert!(!error.loc.is_unknown(), "{error} has no place: {text}");
            }
            rendered(text, &errors);
        }
    }
}

#[test]
fn the_example_reads() {
    round_trip(EXAMPLE);
}

#[test]
fn cut_anywhere() {
    load();
    let step = if cfg!(debug_assertions) { 5 } else { 1 };
    for at in (0..EXAMPLE.len()).step_by(step) {
        if EXAMPLE.is_char_boundary(at) {
            try_read(&EXAMPLE[..at]);
            try_read(&EXAMPLE[at..]);
        }
    }
}

#[test]
fn bytes_flipped() {
    load();
    let mut random = Random::new(0x9E37_79B9_7F4A_7C15);
    let mut done = 0;
    // Reading is slow in a debug build.
    let wanted = if cfg!(debug_assertions) {
        2_000
    } else {
        10_000
    };
    while done < wanted {
        let mut bytes = EXAMPLE.as_bytes().to_vec();
        for _ in 0..=random.below(2) {
            let at = random.below(bytes.len());
            bytes[at] = match random.below(4) {
                0 => bytes[at] ^ (1 << random.below(7)),
                1 => b"(){}[]<>\"%^#!@:,=.-x0 \n"[random.below(23)],
                2 => bytes[random.below(bytes.len())],
                _ => random.below(128) as u8,
            };
        }
        if let Ok(text) = std::str::from_utf8(&bytes) {
            try_read(text);
            done += 1;
        }
    }
}

#[test]
fn pieces_moved() {
    load();
    let mut random = Random::new(0x1234_5678_9ABC_DEF1);
    for _ in 0..if cfg!(debug_assertions) { 400 } else { 4_000 } {
        let mut cut = || {
            let (a, b) = (random.below(EXAMPLE.len()), random.below(EXAMPLE.len()));
            (a.min(b), a.max(b).min(a.min(b) + 40))
        };
        let ((a, b), (c, d)) = (cut(), cut());
        let text = format!("{}{}{}", &EXAMPLE[..a], &EXAMPLE[c..d], &EXAMPLE[b..]);
        try_read(&text);
    }
}

/// On a thread with the stack of a test or worker thread: 2 MiB.
fn on_small_stack(text: String) {
    load();
    let builder = std::thread::Builder::new().stack_size(2 << 20);
    let handle = builder.spawn(move || try_read(&text));
    assert!(handle.is_ok_and(|handle| handle.join().is_ok()));
}

#[test]
fn deep() {
    let nest = |open: &str, inner: &str, close: &str, n: usize| {
        format!("{}{inner}{}", open.repeat(n), close.repeat(n))
    };
    for n in [90, 195, 20_000] {
        on_small_stack(nest("\"d.op\"() ({\n", "", "}) : () -> ()\n", n / 2));
        on_small_stack(nest("t.repeat %x {\n", "", "}\n", n));
        on_small_stack(format!(
            "\"d.op\"() {{a = {}}} : () -> ()",
            nest("[", "", "]", n)
        ));
        on_small_stack(format!(
            "\"d.op\"() {{a = {}}} : () -> ()",
            nest("{b = ", "1", "}", n)
        ));
        on_small_stack(format!(
            "\"d.op\"() {{a = {}}} : () -> ()",
            nest("tuple<", "i1", ">", n)
        ));
        on_small_stack(format!(
            "\"d.op\"() {{a = {}}} : () -> ()",
            nest("!d.t<<", "", ">>", n / 2)
        ));
        on_small_stack(format!(
            "\"d.op\"() {{a = {}}} : () -> ()",
            nest("() -> (", "", ")", n)
        ));
        on_small_stack(format!(
            "\"d.op\"() {{a = {}()}} : () -> ()",
            "() -> ".repeat(n)
        ));
        on_small_stack(format!(
            "\"d.op\"() : () -> () loc({})",
            nest("\"a\"(", "\"b\"", ")", n)
        ));
        let affine = |e: String| format!("\"d.op\"() {{a = affine_map<(i) -> ({e})>}} : () -> ()");
        on_small_stack(affine(nest("(", "i", ")", n)));
        on_small_stack(affine(format!("i{}", " + i".repeat(n))));
        on_small_stack(affine(format!("{}i", "-".repeat(n))));
        on_small_stack(nest("(", "", "", n));
        on_small_stack(nest("", "", "}", n));
        on_small_stack(format!("d.op {}", nest("(", "", ")", n)));
    }
}

#[test]
fn wide() {
    let many = 50_000;
    on_small_stack(format!("\"d.op\"({}) : () -> ()", "%a, ".repeat(many)));
    on_small_stack(format!(
        "{} = \"d.op\"() : () -> ()",
        vec!["%a"; many].join(", ")
    ));
    on_small_stack(format!("d.op {}", "%a, ".repeat(many)));
    on_small_stack(format!("%x:{} = \"d.op\"() : () -> i32", u64::MAX));
    on_small_stack(format!(
        "\"d.op\"() {{a = [{}]}} : () -> ()",
        vec!["1"; many].join(",")
    ));
    on_small_stack(" ".repeat(many));
    on_small_stack("// x\n".repeat(many));
    on_small_stack("%a,\n".repeat(many));
    on_small_stack("%a %a\n".repeat(many));
    on_small_stack("\"d.op\"(\n".repeat(many));
    on_small_stack("} {\n".repeat(many));
    on_small_stack("return\n".repeat(many));
    on_small_stack("d.op {\n".repeat(many));
    on_small_stack(format!("\"d.op\"() ({{{}}}) : () -> ()", " ".repeat(many)));
    on_small_stack("\"d.op\"() : () -> () ".repeat(many / 10));
    on_small_stack(format!("#a = 1\n{}", "#a = 1\n".repeat(100)));
    on_small_stack("^".repeat(many));
    on_small_stack("%".repeat(many));
    on_small_stack("-".repeat(many));
    on_small_stack("a.".repeat(many));
    on_small_stack(format!(
        "\"d.op\"() {{a = tensor<{}f32>}} : () -> ()",
        "9x".repeat(many)
    ));
    on_small_stack("\u{1F600} = \u{0}".to_string());
}

#[test]
fn long_chains_of_aliases() {
    let mut text = String::from("!a0 = i32\n");
    for i in 1..=5000 {
        text.push_str(&format!("!a{i} = tuple<!a{}>\n", i - 1));
    }
    text.push_str("\"a.b\"() : () -> !a5000\n");
    let errors = text::parse(&text, Name::new("test.tir"), &options()).err();
    let errors = errors.expect("too deep");
    let message = "alias `!a201` nests deeper than 200 levels";
    assert_eq!(errors[0].message, message);
    let deep = ParseOptions {
        max_depth: 10_000,
        ..options()
    };
    assert!(text::parse(&text, Name::new("test.tir"), &deep).is_ok());
}

#[test]
fn deep_regions() {
    let depth = 20_000;
    let mut text = "\"d.r\"() ({\n".repeat(depth);
    text.push_str(&"}) : () -> ()\n".repeat(depth));
    let deep = ParseOptions {
        max_depth: 2 * depth + 10,
        ..options()
    };
    // What reads has a stack of its own; so must what walks and prints.
    let run = || {
        let ir = text::parse(&text, Name::new("test.tir"), &deep).expect("deep");
        let printed = text::print(&ir, &PrintOptions::default());
        assert!(printed.len() < 40_000_000, "indented without end");
        assert_eq!(printed.matches("({").count(), depth);
    };
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().stack_size(2 * depth * text::STACK_PER_LEVEL);
        let thread = builder.spawn_scoped(scope, run).expect("a stack");
        thread.join().expect("no panic");
    });
}
