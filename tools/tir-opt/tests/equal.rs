//! Every program of an e-graph means the same: random programs, machines, layouts and extractions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tir::pass::Settings;
use tir::text::{ParseOptions, PrintOptions, parse, print};
use tir::{Ir, Name, PassManager};
use tir_support::equal::{Kind, arguments, compare, program, results};

/// Programs in the suite; `TIR_EQUAL_PROGRAMS` says another number, `TIR_SEED` the first seed.
const PROGRAMS: u64 = 240;

fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap(),
        Err(_) => default,
    }
}

fn machines() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../test/e2e/machines");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

/// The passes for a seed: a machine or none, layouts or those it wants, any program or the cheapest.
fn pipeline(seed: u64, machines: &[PathBuf]) -> String {
    let mut random = tir::data::Random::new(seed);
    let machine = match random.percent(60) {
        true => random.pick(machines),
        false => None,
    };
    let attach = machine.map_or(String::new(), |m| {
        format!("attach-machine{{file=\"{}\"}},", m.display())
    });
    let layouts = [
        "",
        "layouts=NHWC ",
        "layouts=NHWC,NCHW2c ",
        "layouts=NCHW4c ",
        "layouts=NCHW ",
    ];
    let layouts = random.pick(&layouts).unwrap();
    let how = match random.percent(75) {
        true => format!("random={seed} "),
        false => String::new(),
    };
    format!("{attach}egraph{{{layouts}{how}nodes=1500 iterations=6 steps=200000}}")
}

fn read(text: &str) -> Result<Ir, String> {
    let ir = parse(text, Name::new("test.tir"), &ParseOptions::default());
    let ir = ir.map_err(|e| format!("{:?}", e.first().map(ToString::to_string)))?;
    tir::verify(&ir).map_err(|e| format!("{:?}", e.first().map(ToString::to_string)))?;
    Ok(ir)
}

#[test]
fn every_equal_program_means_the_same() {
    tir_opt::stock().load();
    let machines = machines();
    let first = number("TIR_SEED", 0);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in first..first + number("TIR_EQUAL_PROGRAMS", PROGRAMS) {
        let kind = Kind::of(seed);
        let text = program(seed, kind, false);
        let ir = read(&text).unwrap_or_else(|why| panic!("seed {seed}: {why}\n{text}"));
        let passes = pipeline(seed, &machines);
        let mut chosen = ir.clone();
        let settings = Settings {
            rule_classes: kind.classes().iter().map(ToString::to_string).collect(),
            ..Settings::default()
        };
        let report = PassManager::with(tir_opt::stock().passes.parse(&passes).unwrap(), settings)
            .run(&mut chosen);
        let shown = print(&chosen, &PrintOptions::default());
        assert!(
            report.errors.is_empty(),
            "seed {seed}, {passes}: {:?}\n{text}",
            report.errors
        );
        tir::verify(&chosen).unwrap_or_else(|e| panic!("seed {seed}, {passes}: {e:?}\n{shown}"));
        *counts.entry("changed").or_default() +=
            usize::from(shown != print(&ir, &PrintOptions::default()));
        *counts.entry("laid out").or_default() += usize::from(shown.contains("graph.layout"));
        for draw in 0..2 {
            let args = arguments(&ir, seed + draw, kind);
            let before =
                results(&ir, &args).unwrap_or_else(|why| panic!("seed {seed}: {why}\n{text}"));
            let after = results(&chosen, &args)
                .unwrap_or_else(|why| panic!("seed {seed}, {passes}: {why}\n{text}\n{shown}"));
            let agree = compare(kind, &before, &after).unwrap_or_else(|why| {
                panic!("seed {seed}, {kind:?}, {passes}: {why}\n{text}\n{shown}")
            });
            *counts.entry("compared").or_default() += usize::from(agree > 0);
        }
        *counts.entry("programs").or_default() += 1;
        for (what, word) in [
            ("loops", "loop.for"),
            ("branches", "loop.if"),
            ("blocks", "cf.cond_br"),
            ("calls", "func.call"),
        ] {
            *counts.entry(what).or_default() += usize::from(text.contains(word));
        }
    }
    println!("{counts:?}");
    let share = |what: &str, percent: usize| {
        assert!(
            100 * counts[what] >= percent * counts["programs"],
            "{what}: {counts:?}"
        );
    };
    share("changed", 70);
    share("laid out", 5);
    share("compared", 180);
    for what in ["loops", "branches", "blocks", "calls"] {
        share(what, 3);
    }
}
