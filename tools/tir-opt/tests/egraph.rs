//! What `egraph` promises: its result is the program it was given, no dearer than greedy's, the
//! same whatever the threads; its proofs can be done again; without rules nothing changes.

mod graphs;

use std::path::{Path, PathBuf};

use graphs::{looped, program, results};
use tir::pass::Settings;
use tir::text::{ParseOptions, PrintOptions, parse, print};
use tir::{Ir, Name, PassManager};
use tir_support::digest;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A program that is well formed, else none.
fn read(text: &str) -> Option<Ir> {
    tir_opt::stock().load();
    let ir = parse(text, Name::new("test.tir"), &ParseOptions::default()).ok()?;
    tir::verify(&ir).ok()?;
    Some(ir)
}

fn show(ir: &Ir) -> String {
    print(ir, &PrintOptions::default())
}

/// Runs passes; what they tell.
fn run(ir: &mut Ir, pipeline: &str, settings: Settings) -> Result<String, String> {
    let pipeline = tir_opt::stock().passes.parse(pipeline).expect("a pipeline");
    let report = PassManager::with(pipeline, settings).run(ir);
    let text = |all: &[tir::Diagnostic]| -> String {
        let lines = all.iter().map(|d| format!("{}\n", d.message));
        lines.collect()
    };
    match report.errors.is_empty() {
        true => Ok(text(&report.remarks)),
        false => Err(text(&report.errors)),
    }
}

/// All programs below a folder of tests.
fn programs(folder: &str) -> Vec<(PathBuf, Ir)> {
    let mut found = Vec::new();
    let mut work = vec![root().join(folder)];
    while let Some(path) = work.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).expect("a folder");
            work.extend(entries.map(|entry| entry.expect("an entry").path()));
        } else if path.extension().is_some_and(|e| e == "tir") {
            let text = std::fs::read_to_string(&path).expect("text");
            found.extend(read(&text).map(|ir| (path, ir)));
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

/// Replays the proof of what `egraph` makes of a program; says how many steps it has.
fn replays(ir: &Ir, options: &str, name: &str) -> usize {
    replays_with(ir, options, "nodes=8000", name)
}

/// The same with options of `egraph`.
fn replays_with(ir: &Ir, options: &str, own: &str, name: &str) -> usize {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.proof"));
    let _ = std::fs::remove_file(&file);
    let mut chosen = ir.clone();
    let explain = format!("{options}egraph{{{own} explain=\"{}\"}}", file.display());
    if run(&mut chosen, &explain, Settings::default()).is_err() || !file.exists() {
        return 0;
    }
    let mut again = ir.clone();
    let replay = format!("{options}replay{{file=\"{}\"}}", file.display());
    if let Err(errors) = run(&mut again, &replay, Settings::default()) {
        panic!("{name}: {errors}\n{}", show(ir));
    }
    let same = digest(&again) == digest(&chosen);
    assert!(same, "{name}:\n{}\n{}", show(&again), show(&chosen));
    let proof = std::fs::read_to_string(file).expect("a proof");
    proof
        .lines()
        .filter(|line| line.starts_with("step "))
        .count()
}

#[test]
fn proofs_of_committed_programs_replay() {
    let bursts = root().join("test/e2e/machines/bursts.tir");
    let bursts = format!("attach-machine{{file=\"{}\"}},", bursts.display());
    let mut steps = 0;
    for folder in [
        "test/passes/egraph",
        "test/e2e/egraph",
        "test/rules",
        "test/dialects/graph",
    ] {
        if !root().join(folder).exists() {
            continue;
        }
        for (path, ir) in programs(folder) {
            let name = path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .to_string();
            steps += replays(&ir, "", &name);
            // One network is enough to show it with layouts.
            if !folder.contains("e2e") || name == "resnet50" {
                steps += replays(&ir, &bursts, &format!("{name}.layouts"));
            }
        }
    }
    assert!(steps > 500, "{steps} steps");
}

#[test]
fn random_programs_mean_the_same() {
    let mut changed = 0;
    for seed in 0..60 {
        let text = program(seed);
        let ir = read(&text).unwrap_or_else(|| panic!("seed {seed}:\n{text}"));
        let mut chosen = ir.clone();
        let told = run(
            &mut chosen,
            "egraph{print=true nodes=3000}",
            Settings::default(),
        );
        let told = told.unwrap_or_else(|errors| panic!("seed {seed}: {errors}\n{text}"));
        tir::verify(&chosen).unwrap_or_else(|e| panic!("seed {seed}: {e:?}"));
        changed += usize::from(show(&chosen) != show(&ir));
        let (before, after) = (results(&ir, seed), results(&chosen, seed));
        assert_eq!(before, after, "seed {seed}:\n{text}\n{}", show(&chosen));
        never_dearer(&told, seed);
        replays(&ir, "", &format!("random{seed}"));
    }
    assert!(changed > 20, "{changed} programs were changed");
}

#[test]
fn proofs_in_loops_replay() {
    let (mut changed, mut steps) = (0, 0);
    for seed in 0..60 {
        let text = looped(seed);
        let ir = read(&text).unwrap_or_else(|| panic!("seed {seed}:\n{text}"));
        let mut chosen = ir.clone();
        let ran = run(&mut chosen, "egraph{nodes=3000}", Settings::default());
        ran.unwrap_or_else(|errors| panic!("seed {seed}: {errors}\n{text}"));
        tir::verify(&chosen).unwrap_or_else(|e| panic!("seed {seed}: {e:?}"));
        changed += usize::from(show(&chosen) != show(&ir));
        let (before, after) = (results(&ir, seed), results(&chosen, seed));
        assert_eq!(before, after, "seed {seed}:\n{text}\n{}", show(&chosen));
        steps += replays(&ir, "", &format!("looped{seed}"));
        let random = format!("nodes=3000 random={}", seed + 1);
        steps += replays_with(&ir, "", &random, &format!("looped{seed}.random"));
    }
    assert!(changed > 20, "{changed} programs were changed");
    assert!(steps > 30, "{steps} steps");
}

/// The costs that a report tells: the choice is no dearer than greedy's, and no cheaper than the
/// bound.
fn never_dearer(told: &str, seed: u64) {
    let number = |text: &str| -> f64 {
        let digits: String = text
            .chars()
            .take_while(|c| c.is_ascii_digit() || *c == '.')
            .collect();
        digits
            .parse()
            .unwrap_or_else(|_| panic!("seed {seed}: {told}"))
    };
    let behind = |word: &str| told.split_once(word).map(|(_, rest)| number(rest));
    let before = behind("cost: ").expect("a cost");
    let after = behind(" cycles before, ").expect("a cost");
    let bound = behind("no program below ").expect("a bound");
    let greedy = behind("greedy: ").expect("a canonical form");
    assert!(after <= before && after <= greedy, "seed {seed}: {told}");
    assert!(bound <= after + 1.0, "seed {seed}: {told}");
}

#[test]
fn threads_and_runs_do_not_matter() {
    let mut text = String::new();
    for seed in 100..106 {
        text += &program(seed).replace("@main", &format!("@f{seed}"));
    }
    let mut seen: Option<String> = None;
    for threads in [1, 2, 8, 1] {
        let mut ir = read(&text).expect("a program");
        let settings = Settings {
            threads,
            ..Settings::default()
        };
        let told = run(&mut ir, "egraph{print=true nodes=3000}", settings).expect("no errors");
        let all = format!("{told}{}", show(&ir));
        assert_eq!(seen.get_or_insert(all.clone()), &all, "{threads} threads");
    }
}

#[test]
fn without_rules_nothing_changes() {
    let set = {
        tir_opt::stock().load();
        tir::rule_file::rules_of(&[]).expect("rules")
    };
    let all = set.finish(&Default::default()).expect("rules");
    let names = all.rules().iter().map(|rule| rule.name.to_string());
    let disabled_rules: std::collections::BTreeSet<String> = names.collect();
    let mut programs = programs("test");
    assert!(programs.len() > 100, "{} programs", programs.len());
    for (path, ir) in &mut programs {
        let before = show(ir);
        let settings = Settings {
            disabled_rules: disabled_rules.clone(),
            ..Settings::default()
        };
        run(ir, "egraph{layouts=NCHW}", settings)
            .unwrap_or_else(|errors| panic!("{}: {errors}", path.display()));
        assert_eq!(before, show(ir), "{}", path.display());
    }
}

#[test]
fn limits_leave_a_program_and_say_so() {
    for seed in 200..206 {
        let text = program(seed);
        for (limits, why) in [
            ("nodes=40", "stopped by the limit on e-nodes"),
            ("iterations=1", "stopped by the limit on iterations"),
        ] {
            let ir = read(&text).expect("a program");
            let mut chosen = ir.clone();
            let told = run(
                &mut chosen,
                &format!("egraph{{print=true {limits}}}"),
                Settings::default(),
            );
            let told = told.unwrap_or_else(|errors| panic!("seed {seed}: {errors}"));
            assert!(told.contains(why), "seed {seed}, {limits}: {told}");
            assert_eq!(
                results(&ir, seed),
                results(&chosen, seed),
                "seed {seed}, {limits}"
            );
        }
    }
}
