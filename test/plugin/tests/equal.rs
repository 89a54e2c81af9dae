//! Programs with ops of fixed: every program of their e-graph means the same.

use tir::pass::Settings;
use tir::text::{ParseOptions, PrintOptions, parse, print};
use tir::{Name, PassManager};
use tir_support::equal::{Kind, arguments, compare, program, results};

#[test]
fn every_equal_program_means_the_same() {
    tir_opt::stock().load();
    fixed_point::DIALECT.load();
    let mut fixed = 0;
    let mut as_floats = 0;
    for seed in 0..60u64 {
        // Numbers are rounded to points: no program is smooth.
        let kind = [Kind::Exact, Kind::Finite][(seed % 2) as usize];
        let text = program(seed, kind, true);
        let ir = parse(&text, Name::new("test.tir"), &ParseOptions::default());
        let ir = ir.unwrap_or_else(|e| panic!("seed {seed}: {e:?}\n{text}"));
        let mut chosen = ir.clone();
        let passes = format!("egraph{{random={seed} nodes=1500 iterations=6 steps=200000}}");
        let settings = Settings {
            rule_classes: kind.classes().iter().map(ToString::to_string).collect(),
            ..Settings::default()
        };
        let passes = tir_opt::stock().passes.parse(&passes).unwrap();
        let report = PassManager::with(passes, settings).run(&mut chosen);
        let shown = print(&chosen, &PrintOptions::default());
        assert!(
            report.errors.is_empty(),
            "seed {seed}: {:?}\n{text}",
            report.errors
        );
        let args = arguments(&ir, seed, kind);
        let [before, after] = [&ir, &chosen].map(|ir| {
            results(ir, &args).unwrap_or_else(|why| panic!("seed {seed}: {why}\n{text}"))
        });
        compare(kind, &before, &after)
            .unwrap_or_else(|why| panic!("seed {seed}, {kind:?}: {why}\n{text}\n{shown}"));
        let products = |text: &str| text.matches("fixed.matmul").count();
        fixed += products(&text);
        as_floats += usize::from(products(&shown) < products(&text));
    }
    assert!(
        fixed > 20 && as_floats > 5,
        "{fixed} products, {as_floats} as floats"
    );
}
