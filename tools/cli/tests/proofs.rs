//! Proofs of the networks of the project can be done again: what `egraph` makes of each, with and without layouts, the cheapest
//! program and a random one, is what `replay` makes of it by the steps alone.

mod common;
#[path = "common/networks.rs"]
mod stored;

use std::path::Path;

use common::cases::{files, given, stem};
use common::{lower, root, said};
use rayon::prelude::*;
use stored::network;
use tir::{Ir, Name};
use tir_support::networks::bottlenecks;
use tir_support::{digest, read};

/// The networks of `test/e2e/models/networks`.
const STORED: [&str; 5] = [
    "squeezenet",
    "mobilenet_v2",
    "resnet18",
    "lstm_cell",
    "squeezenet_qdq",
];
/// Any program instead of the cheapest, in any of these layouts.
const LAYOUTS: &str = "layouts=NHWC,NCHW16c random=7 ";
/// E-nodes: what more would show takes as many seconds.
const NODES: &str = "nodes=6000 ";

/// A network or layer that the project has, by its name, made or read when it is its turn.
struct Source {
    name: String,
    make: Box<dyn Fn() -> Result<Ir, String> + Sync + Send>,
}

impl Source {
    fn new(
        name: impl Into<String>,
        make: impl Fn() -> Result<Ir, String> + Sync + Send + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            make: Box::new(make),
        }
    }
}

/// All of them: committed as ONNX, as TASO's text, as programs; made by the tests.
fn sources() -> Vec<Source> {
    // Those that are made with their weights in the text are networks that are stored, at a minute each.
    let mut all = vec![Source::new("made.bottlenecks", || {
        Ok(read(&bottlenecks([3, 4, 6, 3])))
    })];
    for name in STORED {
        all.push(Source::new(format!("stored.{name}"), move || {
            tir_translate::import_onnx(&network(name, "proofs").model).map_err(|e| said(&e))
        }));
    }
    for path in ["models", "ops"].iter().flat_map(|f| files(f, "onnx")) {
        // Others are there to be refused.
        if path.with_extension("out_0.npy").exists() {
            all.push(Source::new(stem(&path), move || {
                let given = given(&stem(&path));
                tir_translate::import_onnx_with(&path, &given).map_err(|e| said(&e))
            }));
        }
    }
    for path in files("tensat", "model") {
        all.push(Source::new(format!("tensat.{}", stem(&path)), move || {
            tir_translate::import_tensat_model(&path).map_err(|e| said(&e))
        }));
    }
    for path in files("egraph", "tir") {
        all.push(Source::new(
            format!("tensat.{}.tir", stem(&path)),
            move || {
                let text = std::fs::read_to_string(&path).map_err(|e| e.to_string())?;
                Ok(read(&text))
            },
        ));
    }
    for name in ["resnet-layers", "stages", "vta-layers"] {
        all.push(Source::new(name, move || {
            let path = root().join(format!("test/e2e/{name}.tir"));
            let text = std::fs::read_to_string(&path).map_err(|e| e.to_string())?;
            let module = tir::text::parse(&text, Name::new(name), &Default::default());
            module.map_err(|e| said(&e))
        }));
    }
    all
}

/// Optimizes, and does the same by the proof alone; the steps of the proof.
fn replays(ir: &Ir, options: &str, name: &str) -> Result<usize, String> {
    let tool = tir_opt::stock();
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.proof"));
    let _ = std::fs::remove_file(&file);
    let mut chosen = ir.clone();
    let explain = format!("egraph{{{NODES}{options}explain=\"{}\"}}", file.display());
    lower(&tool, &mut chosen, &explain)?;
    // What returns its arguments and constants alone has nothing to be proved.
    if !file.exists() && digest(&chosen) == digest(ir) {
        return Ok(0);
    }
    let mut again = ir.clone();
    let replay = format!("replay{{file=\"{}\"}}", file.display());
    lower(&tool, &mut again, &replay)?;
    if digest(&again) != digest(&chosen) {
        return Err("the proof makes another program".to_string());
    }
    let proof = std::fs::read_to_string(&file).map_err(|e| e.to_string())?;
    let steps = proof.lines().filter(|line| line.starts_with("step "));
    Ok(steps.count())
}

#[test]
fn proofs_of_networks_replay() {
    tir_opt::stock().load();
    let sources = sources();
    assert!(sources.len() > 40, "{} networks", sources.len());
    let both = sources.par_iter().map(|source| {
        let name = &source.name;
        let ir = (source.make)().map_err(|why| format!("{name}: {why}"))?;
        let plain = replays(&ir, "", name).map_err(|why| format!("{name}: {why}"))?;
        let stored = replays(&ir, LAYOUTS, &format!("{name}.layouts"));
        let stored = stored.map_err(|why| format!("{name}, layouts: {why}"))?;
        Ok((plain, stored))
    });
    let both: Vec<Result<(usize, usize), String>> = both.collect();
    let wrong: Vec<&str> = both
        .iter()
        .filter_map(|found| Some(found.as_ref().err()?.as_str()))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let steps =
        |which: fn(&(usize, usize)) -> usize| both.iter().flatten().map(which).sum::<usize>();
    let (plain, stored) = (steps(|s| s.0), steps(|s| s.1));
    println!(
        "{} networks, {plain} steps, {stored} with layouts",
        sources.len()
    );
    assert!(
        plain > 500 && stored > plain,
        "{plain} steps, {stored} with layouts"
    );
}
