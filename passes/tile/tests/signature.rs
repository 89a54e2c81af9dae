//! What tells groups apart for their plans.

use std::collections::HashMap;

use tir::{Ir, OpId};
use tir_tensor::Generic;
use tir_tile::group::{Freedom, Group, Scope, Signature};

/// Two layers: a product whose result a step changes by a number.
const LAYERS: &str = "
func.func @main(%x: tensor<32x48xf32>, %v: tensor<48x48xf32>, %w: tensor<48x48xf32>) -> tensor<32x48xf32> {
  %first = tensor.empty() : tensor<32x48xf32>
  %zero = tensor.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = [\"parallel\", \"parallel\"]} ins() outs(%first : tensor<32x48xf32>) {
    %z = arith.constant 0.0 : f32
    tensor.yield %z : f32
  } -> tensor<32x48xf32>
  %a = tensor.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = [\"parallel\", \"parallel\", \"reduction\"]} ins(%x, %v : tensor<32x48xf32>, tensor<48x48xf32>) outs(%zero : tensor<32x48xf32>) combine add {
  ^bb0(%s: f32, %t: f32):
    %p = arith.mulf %s, %t : f32
    tensor.yield %p : f32
  } -> tensor<32x48xf32>
  %second = tensor.empty() : tensor<32x48xf32>
  %nought = tensor.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = [\"parallel\", \"parallel\"]} ins() outs(%second : tensor<32x48xf32>) {
    %z = arith.constant 0.0 : f32
    tensor.yield %z : f32
  } -> tensor<32x48xf32>
  %b = tensor.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (MAP)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = [\"parallel\", \"parallel\", \"reduction\"]} ins(%a, %w : tensor<32x48xf32>, tensor<48x48xf32>) outs(%nought : tensor<32x48xf32>) combine COMBINE {
  ^bb0(%q: f32, %r: f32):
    %k = arith.constant NUMBER : f32
    %m = arith.OP %q, %r : f32
    %n = arith.mulf FIRST, %k : f32
    tensor.yield %n : f32
  } -> tensor<32x48xf32>
  func.return %b : tensor<32x48xf32>
}
";

/// The signature of the last layer, some words of which are others.
fn signature(others: &[(&str, &str)]) -> Signature {
    let usual = [
        ("MAP", "d2, d1"),
        ("COMBINE", "add"),
        ("NUMBER", "2.0"),
        ("OP", "mulf"),
        ("FIRST", "%m"),
    ];
    let mut text = LAYERS.to_string();
    for (word, other) in others.iter().chain(&usual) {
        text = text.replace(word, other);
    }
    of(&tir_support::read(&text), 0)
}

/// The signature of the group of a layer from the last one on.
fn of(module: &Ir, layer: usize) -> Signature {
    let slot = module
        .walk_ids()
        .into_iter()
        .find_map(|op| module.child(op));
    let ir = slot.expect("a function");
    let mut generics: Vec<OpId> = ir.walk_ids();
    generics.retain(|op| ir.is::<Generic>(*op));
    let combined = |op: &&OpId| ir.get::<Generic>(**op).is_some_and(|g| g.combine.is_some());
    let last = generics.iter().rev().filter(combined).nth(layer);
    let last = *last.expect("a product");
    let scope = Scope::new(generics.clone(), HashMap::new());
    let all = Freedom {
        inner: true,
        reshapes: true,
        moves: true,
    };
    let group = Group::ending_in(ir, last, &scope, all).expect("a group");
    group.signature(ir)
}

#[test]
fn what_is_computed_otherwise_has_another_signature() {
    let usual = signature(&[]);
    assert_eq!(usual, signature(&[]));
    let changes: [&[(&str, &str)]; 7] = [
        &[("MAP", "d1, d2")],
        &[("COMBINE", "max")],
        &[("NUMBER", "3.0")],
        &[("NUMBER", "-2.0")],
        &[("OP", "addf")],
        &[("FIRST", "%q")],
        &[("32x48", "16x48")],
    ];
    let mut seen = vec![usual];
    for change in changes {
        let other = signature(change);
        assert!(
            !seen.contains(&other),
            "{change:?} has a signature of before"
        );
        seen.push(other);
    }
}

#[test]
fn names_and_places_are_no_part_of_it() {
    let equal = LAYERS
        .replace("MAP", "d2, d1")
        .replace("COMBINE", "add")
        .replace("    %k = arith.constant NUMBER : f32\n", "")
        .replace("    %n = arith.mulf FIRST, %k : f32\n", "")
        .replace("OP", "mulf")
        .replace("yield %n", "yield %m");
    let module = tir_support::read(&equal);
    assert_eq!(of(&module, 0), of(&module, 1));
}
