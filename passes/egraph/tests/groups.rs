//! Groups are chosen by what they are said to take, which is more than any bound of them.

use std::sync::Mutex;

use tir::pass::{Report, Settings};
use tir::text::{ParseOptions, parse};
use tir::{Ir, Name, Pass, PassCx, PassManager, PassResult, Pipeline, pass};
use tir_egraph::groups::{Body, Price, Terms};
use tir_egraph::{Asked, Egraph};
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
            rounds: 12,
            steps: 100_000,
            ..Terms::default()
        };
        let asked = Asked {
            price: self,
            terms,
            others: &Mutex::default(),
        };
        Egraph::default().priced(ir, cx, Some(&asked))
    }
}

/// A module after groups were chosen, and what was counted.
fn run(text: &str, pass: Chosen) -> (Ir, Report) {
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
    (module, report)
}

/// The groups of a function once they are chosen, and the ops that are in none.
fn chosen(text: &str, pass: Chosen) -> Vec<String> {
    let (module, report) = run(text, pass);
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

/// Layers of a product and a step behind it, one on the other.
fn layers(count: usize) -> String {
    let weights = (0..count).map(|n| format!(", %w{n}: tensor<8x8xf32>"));
    let weights: String = weights.collect();
    let mut text = format!("func.func @f(%x0: tensor<8x8xf32>{weights}) -> tensor<8x8xf32> {{\n");
    for n in 0..count {
        let next = n + 1;
        text += &format!(
            "  %a{n} = graph.matmul %x{n}, %w{n} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %b{n} = graph.exp %a{n} : tensor<8x8xf32>
  %x{next} = graph.tanh %b{n} : tensor<8x8xf32>\n"
        );
    }
    text + &format!("  func.return %x{count} : tensor<8x8xf32>\n}}")
}

#[test]
fn equal_layers_are_planned_once() {
    let counts = |count: usize| {
        let (_, report) = run(&layers(count), Chosen::default());
        let counts = report.statistics["chosen"].clone();
        report.into_result().unwrap();
        ["groups", "groups planned", "extractions"].map(|what| counts[what])
    };
    let [groups, planned, extractions] = counts(2);
    let [more_groups, more_planned, more_extractions] = counts(16);
    assert!(more_groups > 4 * groups, "{groups} {more_groups}");
    assert_eq!((planned, extractions), (more_planned, more_extractions));
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

#[test]
fn one_order_of_operands_is_chosen_from() {
    // The e-graph holds `max(a, y)` and `max(y, a)`, of a power only what is written.
    let groups = |step: &str| {
        let text = format!(
            "func.func @f(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> tensor<8x8xf32> {{
  %a = graph.matmul %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = {step} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  func.return %b : tensor<8x8xf32>
}}"
        );
        let (_, report) = run(&text, Chosen::default());
        let counts = report.statistics["chosen"].clone();
        report.into_result().unwrap();
        assert_eq!(chosen(&text, Chosen::default()).len(), 1);
        ["groups", "groups planned"].map(|what| counts[what])
    };
    let power = groups("graph.pow %a, %y");
    assert_eq!(groups("graph.max %y, %a"), power);
}
