//! Groups are chosen by what they are said to take, which is more than any bound of them.

use tir::pass::Settings;
use tir::text::{ParseOptions, parse};
use tir::{Ir, Name, Pass, PassCx, PassManager, PassResult, Pipeline, pass};
use tir_egraph::Egraph;
use tir_egraph::groups::{Body, Price, Terms};
use tir_graph::Fused;

/// Names of ops of a body, in order.
fn names(body: &Body) -> Vec<String> {
    let names = body.parts.iter().map(|part| part.name.to_string());
    names
        .map(|name| name.trim_start_matches("graph.").to_string())
        .collect()
}

pass! {
    /// Chooses groups by a price for tests.
    struct Chosen = "chosen" on "func.func" {
        /// What groups of several ops take.
        together: u64 = 1,
        /// What single ops take.
        alone: u64 = 10,
    }
}

impl Price for Chosen {
    fn cycles(&self, body: &Body, _: &PassCx<'_>) -> Option<u64> {
        let names = names(body);
        match &names[..] {
            [_] => Some(self.alone),
            _ => Some(self.together),
        }
    }
}

impl Pass for Chosen {
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let terms = Terms {
            cuts: 6,
            nodes: 5,
            plans: 1000,
            rounds: 12,
            steps: 100_000,
        };
        Egraph::default().priced(ir, cx, Some((self, terms)))
    }
}

/// The groups of a function once they are chosen, and the ops that are in none.
fn chosen(text: &str, pass: Chosen) -> Vec<String> {
    for dialect in [
        &tir_builtin::DIALECT,
        &tir_func::DIALECT,
        &tir_graph::DIALECT,
    ] {
        dialect.load();
    }
    let mut module = parse(text, Name::new("test.tir"), &ParseOptions::default()).unwrap();
    let mut pipeline = Pipeline::new();
    pipeline.nest("func.func", |p| {
        p.add(pass);
    });
    let report = PassManager::with(pipeline, Settings::default()).run(&mut module);
    report.into_result().unwrap();
    let slot = module.slots()[0];
    let ir = module.child(slot).unwrap();
    let top = ir.walk_ids().into_iter();
    let top = top.filter(|op| ir.parent(*op) == Some(ir.root()));
    let name = |op| ir.name(op).to_string().replace("graph.", "");
    top.filter_map(|op| {
        if ir.is::<Fused>(op) {
            let block = ir.body_block(op, 0)?;
            let inner = ir.ops_in(block).map(name);
            return Some(inner.filter(|n| n != "yield").collect::<Vec<_>>().join("+"));
        }
        Some(name(op)).filter(|n| n != "func.return")
    })
    .collect()
}

const CHAIN: &str = "func.func @f(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %a = graph.matmul %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = graph.tanh %a : tensor<8x8xf32>
  func.return %b : tensor<8x8xf32>
}";

#[test]
fn what_is_cheaper_together_is_a_group() {
    assert_eq!(chosen(CHAIN, Chosen::default()), ["matmul+tanh"]);
    let apart = Chosen {
        together: 30_000,
        ..Chosen::default()
    };
    assert_eq!(chosen(CHAIN, apart), ["matmul", "tanh"]);
}

#[test]
fn what_two_groups_hold_is_computed_twice() {
    let text = "func.func @f(%x: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %a = graph.exp %x : tensor<8x8xf32>
  %b = graph.tanh %a : tensor<8x8xf32>
  %c = graph.sin %a : tensor<8x8xf32>
  func.return %b, %c : tensor<8x8xf32>, tensor<8x8xf32>
}";
    assert_eq!(chosen(text, Chosen::default()), ["exp+tanh", "exp+sin"]);
}

#[test]
fn an_equal_program_of_fewer_groups_is_chosen() {
    let text = "func.func @f(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %a = graph.neg %x : tensor<8x4xf32>
  %b = graph.neg %a : tensor<8x4xf32>
  %c = graph.relu %b : tensor<8x4xf32>
  func.return %c : tensor<8x4xf32>
}";
    let apart = Chosen {
        together: 50_000,
        ..Chosen::default()
    };
    assert_eq!(chosen(text, apart), ["relu"]);
}
