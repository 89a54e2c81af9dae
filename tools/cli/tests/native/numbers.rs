//! What strict code may not lose: how doubles and floats are rounded to bf16, which zero is the larger one, and small numbers.

use tir::Name;
use tir_data::Array;

use super::{can_compile, execute, native, same};

/// Sums, quotients and casts in bf16, larger and smaller elements of several types, and logarithms.
const NUMBERS: &str = "
#n = affine_map<(n) -> (n)>
func.func @main(%x: memref<64xf64>, %y: memref<64xf64>, %a: memref<64xbf16> {func.out}, %b: memref<64xbf16> {func.out},
    %c: memref<64xf32> {func.out}, %d: memref<64xf16> {func.out}, %e: memref<64xf64> {func.out}, %f: memref<64xf64> {func.out},
    %g: memref<64xbf16> {func.out}) {
  loop.for %i = 0 to 64 {
    %p = memref.load %x[%i] : memref<64xf64>
    %q = memref.load %y[%i] : memref<64xf64>
    %p16 = arith.truncf %p : f64 to bf16
    %q16 = arith.truncf %q : f64 to bf16
    memref.store %p16, %a[%i] : memref<64xbf16>
    %sum = arith.addf %p16, %q16 : bf16
    %quotient = arith.divf %sum, %q16 : bf16
    memref.store %quotient, %b[%i] : memref<64xbf16>
    %p32 = arith.truncf %p : f64 to f32
    %q32 = arith.truncf %q : f64 to f32
    %max = arith.maximumf %p32, %q32 : f32
    %number = arith.maxnumf %q32, %p32 : f32
    %most = arith.addf %max, %number : f32
    memref.store %most, %c[%i] : memref<64xf32>
    %h = arith.truncf %p : f64 to f16
    %k = arith.truncf %q : f64 to f16
    %low = arith.minimumf %k, %h : f16
    memref.store %low, %d[%i] : memref<64xf16>
    %least = arith.minnumf %p, %q : f64
    memref.store %least, %e[%i] : memref<64xf64>
    %log = math.log1p %p : f64
    memref.store %log, %f[%i] : memref<64xf64>
    %larger = arith.maximumf %p16, %q16 : bf16
    memref.store %larger, %g[%i] : memref<64xbf16>
  }
  func.return
}
";

#[test]
fn strict_code_rounds_and_orders_as_the_interpreter() {
    let tool = tir_opt::stock();
    tool.load();
    if !can_compile() {
        return;
    }
    // A double between two of bf16, and a little more: rounded to a float first, it goes the other way.
    let tie = 1.0 + 1.0 / 256.0;
    let mut values = vec![
        0.0,
        -0.0,
        1e-17,
        -1e-80,
        5e-324,
        tie,
        tie + 1e-12,
        tie - 1e-12,
        3.0 * tie,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::from(f32::MAX),
        3.3961e38,
        1e300,
        -1e300,
        f64::from(f32::from_bits(0x007f_ffff)),
        -f64::from(f32::from_bits(1)),
        0.5,
        -0.75,
    ];
    values.resize(32, 7.0);
    let first: Vec<f64> = values.iter().chain(&values).copied().collect();
    // Beside another one each, and beside the zero of the other sign.
    let rest = values.iter().rev().chain(values.iter().skip(1));
    let second: Vec<f64> = rest.copied().chain([-0.0]).collect();
    let inputs = [first, second].map(|all| Array::from_vec(&[64], all).expect("an array"));
    let module = tir::text::parse(NUMBERS, Name::new("numbers.tir"), &Default::default());
    let module = module.expect("a program");
    let function = Name::new("main");
    let wanted = execute(&module, function, &inputs).expect("it runs");
    let found = native(&module, function, &inputs, true, 1).expect("it runs");
    same(&wanted.outputs, &found).unwrap_or_else(|why| panic!("{why}"));
    // Fast code keeps what is small, too.
    let fast = native(&module, function, &inputs, false, 1).expect("it runs");
    let small = |all: &[Array]| all[5].get_f64(2);
    assert_eq!(small(&fast), small(&wanted.outputs));
}

#[test]
fn modes_of_rounding_are_refused() {
    let tool = tir_opt::stock();
    tool.load();
    if !can_compile() {
        return;
    }
    let rounds = "func.func @main(%x: memref<f64>, %y: memref<f32> {func.out}) {
  %a = memref.load %x[] : memref<f64>
  %b = arith.truncf %a upward : f64 to f32
  memref.store %b, %y[] : memref<f32>
  func.return
}";
    let rounds = tir::text::parse(rounds, Name::new("rounds.tir"), &Default::default());
    let one = [Array::scalar(1.5f64)];
    let refused = native(
        &rounds.expect("a program"),
        Name::new("main"),
        &one,
        true,
        1,
    );
    let refused = refused.expect_err("rounds upward");
    assert!(refused.contains("only to_nearest_even runs"), "{refused}");
}

#[test]
fn integers_of_few_bits_have_their_sign_on_files() {
    let tool = tir_opt::stock();
    tool.load();
    if !can_compile() {
        return;
    }
    let function = Name::new("main");
    let narrow = "func.func @main(%x: memref<4xi8>, %y: memref<4xi7> {func.out}) -> i7 {
  loop.for %i = 0 to 4 {
    %a = memref.load %x[%i] : memref<4xi8>
    %b = arith.trunci %a : i8 to i7
    memref.store %b, %y[%i] : memref<4xi7>
  }
  %c = arith.constant -3 : i7
  func.return %c : i7
}";
    let narrow = tir::text::parse(narrow, Name::new("narrow.tir"), &Default::default());
    let narrow = narrow.expect("a program");
    let bytes = [Array::from_vec(&[4], vec![-1i8, -64, 64, 3]).expect("an array")];
    let wanted = execute(&narrow, function, &bytes).expect("it runs");
    let found = native(&narrow, function, &bytes, true, 1).expect("it runs");
    same(&wanted.outputs, &found).unwrap_or_else(|why| panic!("{why}"));
    assert!(found.iter().any(|array| array.get_int(0) == Some(-3)));
}
