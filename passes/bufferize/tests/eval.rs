//! Running below graph level: what fails says where, what is undefined shows.

mod common;

use common::read;
use tir::{Data, Interpreter, Name};

/// Runs `@f` without arguments; the first error, or the results.
fn run(text: &str) -> Result<Vec<Data>, String> {
    let ir = read(text);
    let done = Interpreter::new(&ir).run(Name::new("f"), Vec::new());
    done.map_err(|errors| errors[0].to_string())
}

#[test]
fn undefined_elements_show() {
    let text = "func.func @f() -> tensor<2xf32> {
  %e = tensor.empty() : tensor<2xf32>
  func.return %e : tensor<2xf32>
}";
    let results = run(text).unwrap();
    let values = results[0]
        .as_tensor()
        .unwrap()
        .as_f32()
        .unwrap()
        .into_owned();
    assert!(
        values.iter().all(|v| v.to_bits() == 0x7fc0_dead),
        "{values:?}"
    );
    let text = "func.func @f() -> f32 {
  %c = arith.constant 1 : index
  %e = memref.alloc() : memref<2xf32>
  %v = memref.load %e[%c] : memref<2xf32>
  func.return %v : f32
}";
    assert!(run(text).unwrap()[0].as_f64().unwrap().is_nan());
}

#[test]
fn use_after_the_end_is_an_error_with_a_place() {
    let text = "func.func @f() {
  %e = memref.alloc() : memref<2xf32>
  %o = memref.alloc() : memref<2xf32>
  memref.dealloc %e : memref<2xf32>
  memref.copy %e, %o : memref<2xf32> to memref<2xf32>
  func.return
}";
    assert_eq!(
        run(text).unwrap_err(),
        "test.tir:5:3: error: 'memref.copy': the buffer has been freed"
    );
}

#[test]
fn what_is_out_of_bounds_is_an_error_with_a_place() {
    let cases = [
        (
            "%v = memref.load %e[%c] : memref<4x2xf32>",
            "index 9 of dimension 0 is out of bounds",
        ),
        (
            "%v = memref.subview %e[%i, 0] [1, 2] [1, 1] : memref<4x2xf32> to memref<2xf32, strided<[1], offset: ?>>",
            "leave the 4 there are",
        ),
        (
            "%v = memref.view %b[%i][] : memref<16xi8> to memref<4xf32>",
            "views bytes 9 to 25 of 16",
        ),
        (
            "%v = tensor.extract_slice %t[%i, 0] [2, 2] [1, 1] : tensor<4x2xf32> to tensor<2x2xf32>",
            "leave the 4 there are",
        ),
    ];
    for (op, wanted) in cases {
        let text = format!(
            "func.func @g() -> index {{
  %c = arith.constant 9 : index
  func.return %c : index
}}
func.func @f() {{
  %i = func.call @g() : () -> index
  %c = func.call @g() : () -> index
  %e = memref.alloc() : memref<4x2xf32>
  %b = memref.alloc() : memref<16xi8>
  %t = tensor.empty() : tensor<4x2xf32>
  {}
  func.return
}}",
            op.replace("%e[%c]", "%e[%c, %c]")
        );
        let error = run(&text).unwrap_err();
        assert!(error.contains(wanted), "{op}\n{error}");
        assert!(error.starts_with("test.tir:11:3: error: '"), "{error}");
    }
}

#[test]
fn constants_of_the_module_are_one_buffer() {
    let text = "memref.global @g : memref<2xf32> = dense<[1.0, 2.0]> : tensor<2xf32>
func.func @f() -> f32 {
  %i = arith.constant 1 : index
  %v = arith.constant 5.0 : f32
  %a = memref.get_global @g : memref<2xf32>
  memref.store %v, %a[%i] : memref<2xf32>
  %b = memref.get_global @g : memref<2xf32>
  %r = memref.load %b[%i] : memref<2xf32>
  func.return %r : f32
}";
    assert_eq!(run(text).unwrap()[0].as_f64().unwrap(), 5.0);
}

#[test]
fn a_product_is_the_same_on_tensors_tiles_and_buffers() {
    let text = |body: &str| {
        format!(
            "#a = affine_map<(i, j, k) -> (i, k)>
#b = affine_map<(i, j, k) -> (k, j)>
#c = affine_map<(i, j, k) -> (i, j)>
#id = affine_map<(i, j) -> (i, j)>
func.func @f(%x: tensor<6x8xf32>, %y: tensor<8x4xf32>) -> tensor<6x4xf32> {{
  %e = tensor.empty() : tensor<6x4xf32>
  {body}
  func.return %r : tensor<6x4xf32>
}}"
        )
    };
    let generic = |name: &str, x: &str, y: &str, z: &str, [m, n, k]: [i64; 3]| {
        let (a, b, c) = (
            format!("tensor<{m}x{k}xf32>"),
            format!("tensor<{k}x{n}xf32>"),
            format!("tensor<{m}x{n}xf32>"),
        );
        format!(
            "%{name}0 = tensor.generic {{indexing_maps = [#id], iterator_types = [\"parallel\", \"parallel\"]}} ins() outs({z} : {c}) {{
    %zero = arith.constant 0.0 : f32
    tensor.yield %zero : f32
  }} -> {c}
  %{name} = tensor.generic {{indexing_maps = [#a, #b, #c], iterator_types = [\"parallel\", \"parallel\", \"reduction\"]}} ins({x}, {y} : {a}, {b}) outs(%{name}0 : {c}) combine add {{
  ^bb0(%s: f32, %t: f32):
    %p = arith.mulf %s, %t : f32
    tensor.yield %p : f32
  }} -> {c}"
        )
    };
    let whole = text(&generic("r", "%x", "%y", "%e", [6, 4, 8]));
    let tiled = text(&format!(
        "%r = loop.for %i = 0 to 6 step 2 iter_args(%w = %e) -> (tensor<6x4xf32>) {{
    %xt = tensor.transfer_read %x[%i, 0] access (m, k) -> (m, k) {{space = \"spm\"}} : tensor<6x8xf32> to tensor<2x8xf32>
    %et = tensor.empty() {{space = \"spm\"}} : tensor<2x4xf32>
    {}
    %n = tensor.transfer_write %q into %w[%i, 0] access (m, n) -> (m, n) : tensor<2x4xf32> into tensor<6x4xf32>
    loop.yield %n : tensor<6x4xf32>
  }}",
        generic("q", "%xt", "%y", "%et", [2, 4, 8])
    ));
    common::same(&whole, "f");
    let (_, report) = common::same(&tiled, "f");
    assert_eq!(report.copies, 0);
    let [a, b] = [whole, tiled].map(|text| common::run_tensors(&read(&text), "f", 3));
    assert_eq!(a[0].bytes(), b[0].bytes());
}
