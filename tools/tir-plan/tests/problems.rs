//! Random problems with all columns: what `tir-plan` plans, the judge finds valid, with the bound; faults that are wrong by
//! construction it finds.
//!
//! A problem is drawn with a plan, of which its fixed places, banks and pairs that must be apart are read off, so that there is one.
//! `TIR_PROBLEMS` says how many, `TIR_SEED` the first.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Parser;
use tir::Sources;
use tir::data::Random;
use tir_plan_check::Limits;

const CAPACITY: u64 = 2048;
const BANK: u64 = 256;
const SPACES: [&str; 2] = ["near", "far off"];

#[derive(Clone, Default)]
struct Row {
    space: usize,
    lives: Vec<(u64, u64)>,
    size: u64,
    align: u64,
    /// Where the drawn plan has it, or how far in the other it lies.
    at: u64,
    fixed: bool,
    banked: bool,
    apart: Vec<usize>,
    costs: Vec<(usize, u64)>,
    within: Option<usize>,
}

impl Row {
    fn meets(&self, other: &Row) -> bool {
        let times = |a: &(u64, u64)| other.lives.iter().any(|b| a.0 < b.1 && b.0 < a.1);
        self.space == other.space && self.lives.iter().any(times)
    }

    fn banks(&self) -> (u64, u64) {
        (self.at / BANK, (self.at + self.size - 1) / BANK)
    }
}

fn lives(random: &mut Random) -> Vec<(u64, u64)> {
    let mut at = random.below(40) as u64;
    let mut out = Vec::new();
    for _ in 0..1 + random.below(3) {
        let to = at + 1 + random.below(12) as u64;
        out.push((at, to));
        at = to + 1 + random.below(6) as u64;
    }
    out
}

fn drawn(random: &mut Random) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for _ in 0..8 + random.below(25) {
        let align = 1 << random.below(6);
        let mut row = Row {
            space: random.below(2),
            lives: lives(random),
            size: 1 + random.below(300) as u64,
            align,
            ..Row::default()
        };
        // The lowest of some places where it meets nothing.
        let clash = |row: &Row| {
            let mut all = rows.iter().filter(|o| o.within.is_none());
            all.any(|o| row.meets(o) && row.at < o.at + o.size && o.at < row.at + row.size)
        };
        let mut places: Vec<u64> = (0..12)
            .map(|_| random.below(CAPACITY as usize) as u64 / align * align)
            .filter(|at| at + row.size <= CAPACITY)
            .collect();
        places.sort_unstable();
        let place = places.into_iter().find(|at| {
            row.at = *at;
            !clash(&row)
        });
        let Some(at) = place else { continue };
        row.at = at;
        row.fixed = random.below(8) == 0;
        row.banked = row.banks().0 == row.banks().1 && random.below(5) == 0;
        let own = rows.iter().enumerate();
        let mut others: Vec<usize> = own
            .filter(|(_, o)| o.within.is_none() && o.space == row.space)
            .map(|(i, _)| i)
            .collect();
        others.retain(|_| random.below(8) == 0);
        for other in others {
            let (a, b) = (row.banks(), rows[other].banks());
            if a.1 < b.0 || b.1 < a.0 {
                row.apart.push(other);
            } else {
                row.costs.push((other, 1 + random.below(9) as u64));
            }
        }
        rows.push(row);
    }
    // Some lie in others, while those live: then they take nothing.
    let count = rows.len();
    for of in 0..count {
        if rows[of].size < 4 || random.below(4) > 0 {
            continue;
        }
        let align = rows[of].align.min(2);
        let at = random.below(rows[of].size as usize / 2) as u64 / align * align;
        let size = 1 + random.below((rows[of].size - at) as usize) as u64;
        rows.push(Row {
            space: rows[of].space,
            lives: vec![rows[of].lives[0]],
            size,
            align,
            at,
            within: Some(of),
            ..Row::default()
        });
    }
    rows
}

fn text(rows: &[Row]) -> String {
    let mut text = "id,lower,upper,size,alignment,gaps,space,fixed,bank,apart,within\n".to_string();
    for (i, row) in rows.iter().enumerate() {
        let gaps = row.lives.windows(2);
        let gaps: Vec<String> = gaps.map(|p| format!("{}-{}", p[0].1, p[1].0)).collect();
        let apart = row.apart.iter().map(|o| format!("b{o}"));
        let costs = row.costs.iter().map(|(o, cost)| format!("b{o}:{cost}"));
        let apart: Vec<String> = apart.chain(costs).collect();
        let number = |said: bool, n: u64| match said {
            true => n.to_string(),
            false => String::new(),
        };
        let within = row.within.map(|of| format!("b{of}+{}", row.at));
        let _ = writeln!(
            text,
            "b{i},{},{},{},{},{},{},{},{},{},{}",
            row.lives[0].0,
            row.lives.last().unwrap().1,
            row.size,
            row.align,
            gaps.join(" "),
            SPACES[row.space],
            number(row.fixed, row.at),
            number(row.banked, row.at / BANK),
            apart.join(" "),
            within.unwrap_or_default()
        );
    }
    text
}

struct Files {
    folder: PathBuf,
}

impl Files {
    fn path(&self, name: &str) -> String {
        self.folder.join(name).to_string_lossy().to_string()
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.join(name)).unwrap()
    }
}

fn limits(rows: &[Row]) -> (Vec<String>, Limits) {
    let mut said = Vec::new();
    let mut limits = Limits::default();
    for (space, name) in SPACES.iter().enumerate() {
        if rows.iter().any(|row| row.space == space) {
            said.push(format!("--capacity={name}={CAPACITY}"));
            said.push(format!("--bank={name}={BANK}"));
            limits.capacity.push((Some(name.to_string()), CAPACITY));
            limits.banks.push((Some(name.to_string()), BANK));
        }
    }
    (said, limits)
}

/// A plan with other offsets of some rows.
fn with(plan: &str, changes: &[(usize, u64)]) -> String {
    let mut lines: Vec<String> = plan.lines().map(str::to_string).collect();
    for (row, offset) in changes {
        let (rest, _) = lines[row + 1].rsplit_once(',').unwrap();
        lines[row + 1] = format!("{rest},{offset}");
    }
    lines.join("\n") + "\n"
}

/// Plans that are certainly wrong, with what is wrong.
fn faults(rows: &[Row], plan: &str, random: &mut Random) -> Vec<(&'static str, String)> {
    let offsets: Vec<u64> = plan
        .lines()
        .skip(1)
        .map(|line| line.rsplit_once(',').unwrap().1.parse().unwrap())
        .collect();
    let mut out = Vec::new();
    let mut some = |kind: &'static str, all: Vec<(usize, u64)>| {
        if let Some(change) = random.pick(&all) {
            out.push((kind, with(plan, &[change])));
        }
    };
    let each = |of: &dyn Fn(usize, &Row) -> Option<u64>| -> Vec<(usize, u64)> {
        let all = rows.iter().enumerate();
        all.filter_map(|(i, row)| Some((i, of(i, row)?))).collect()
    };
    some(
        "fixed",
        each(&|i, row| row.fixed.then_some(offsets[i] + row.align)),
    );
    some(
        "within",
        each(&|i, row| row.within.map(|_| offsets[i] + row.align)),
    );
    let next = |row: &Row| (row.at / BANK + 1) * BANK;
    some("bank", each(&|_, row| row.banked.then_some(next(row))));
    some(
        "alignment",
        each(&|i, row| (row.align > 1).then_some(offsets[i] + 1)),
    );
    let top = |row: &Row| (CAPACITY / row.align) * row.align;
    some("capacity", each(&|_, row| Some(top(row))));
    let onto = |i: usize, row: &Row| {
        let others = rows.iter().enumerate();
        let mut others = others.filter(|(o, other)| {
            *o != i && row.within.is_none() && other.within.is_none() && row.meets(other)
        });
        others.next().map(|(o, _)| offsets[o])
    };
    some("overlap", each(&onto));
    some(
        "apart",
        each(&|_, row| row.apart.first().map(|o| offsets[*o])),
    );
    let renamed = plan.replacen(SPACES[rows[0].space], "elsewhere", 1);
    out.push(("space", renamed));
    let longer = plan.replacen(&format!("b0,{}", rows[0].lives[0].0), "b0,0", 1);
    if longer != plan {
        out.push(("live range", longer));
    }
    out
}

#[test]
fn random_problems_are_planned_and_faults_are_found() {
    let number = |variable| std::env::var(variable).ok()?.parse::<u64>().ok();
    let first = number("TIR_SEED").unwrap_or(1);
    let count = number("TIR_PROBLEMS").unwrap_or(200);
    let folder = std::env::temp_dir().join(format!("tir-plan-random-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let files = Files { folder };
    let (mut fit, mut buffers, mut seeded) = (0, 0, std::collections::BTreeMap::new());
    for seed in first..first + count {
        let mut random = Random::new(seed);
        let rows = drawn(&mut random);
        if rows.is_empty() {
            continue;
        }
        buffers += rows.len();
        let problem = text(&rows);
        std::fs::write(files.path("problem.csv"), &problem).unwrap();
        let (said, limits) = limits(&rows);
        let mut args = vec!["tir-plan".to_string(), files.path("problem.csv")];
        args.extend(said);
        let outputs = [
            "-o",
            &files.path("plan.csv"),
            "--certificate",
            &files.path("bound.txt"),
        ];
        args.extend(outputs.map(str::to_string));
        let options = tir_plan::Options::parse_from(args);
        let mut sources = Sources::default();
        let report = tir_plan::run(&options, &mut sources);
        let report = report.unwrap_or_else(|e| panic!("{}\n{problem}", sources.render(&e, false)));
        let plan = files.read("plan.csv");
        let verdict = tir_plan_check::plan(Some(&problem), &plan, &limits).unwrap();
        // What is said to fit does, and nothing else.
        assert_eq!(
            verdict.is_ok(),
            report.fits,
            "seed {seed}: {verdict:?}\n{report}\n{plan}"
        );
        let bound = files.read("bound.txt");
        let shown = tir_plan_check::certificate(&problem, &bound, &limits).unwrap();
        let shown =
            shown.unwrap_or_else(|fault| panic!("seed {seed}: {fault}\n{bound}\n{problem}"));
        assert!(!shown.is_empty());
        // Without the problem the plan is judged by what its own rows say.
        let alone = tir_plan_check::plan(None, &plan, &limits).unwrap();
        assert_eq!(alone, verdict);
        let Ok(valid) = verdict else {
            println!("seed {seed} is not planned:\n{report}");
            // There is a plan, so nothing else may be said.
            assert!(
                !report.text.contains("no plan does"),
                "seed {seed}: {report}"
            );
            continue;
        };
        fit += 1;
        for (held, (_, shown)) in valid.spaces.iter().zip(&shown) {
            if let tir_plan_check::Shown::Bound(bound) = shown {
                assert!(*bound <= held.height, "seed {seed}: {bound} of {held:?}");
            }
        }
        for (kind, wrong) in faults(&rows, &plan, &mut random) {
            let verdict = tir_plan_check::plan(Some(&problem), &wrong, &limits).unwrap();
            assert!(
                verdict.is_err(),
                "seed {seed}, {kind}: not found in\n{wrong}"
            );
            *seeded.entry(kind).or_insert(0) += 1;
        }
        let higher = bound.lines().map(|line| match line.strip_prefix("bound ") {
            Some(bytes) => format!("bound {}\n", bytes.parse::<u64>().unwrap() + 1),
            None => format!("{line}\n"),
        });
        let higher: String = higher.collect();
        if !higher.contains("by search") {
            let shown = tir_plan_check::certificate(&problem, &higher, &limits).unwrap();
            assert!(shown.is_err(), "seed {seed}: {higher}");
            *seeded.entry("bound").or_insert(0) += 1;
        }
    }
    std::fs::remove_dir_all(&files.folder).unwrap();
    println!("{count} problems of {buffers} buffers, {fit} planned; faults found: {seeded:?}");
    assert!(fit * 100 >= count * 99, "{fit} of {count} planned");
    assert_eq!(seeded.len(), 10, "{seeded:?}");
}
