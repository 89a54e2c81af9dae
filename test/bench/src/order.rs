//! Bytes that live at once, in the order of the text and in that of `reorder`, and what the plan of all buffers takes then.
//!
//! The graphs are cells that are wired at random as in S. Xie and others, "Exploring Randomly Wired Neural Networks for Image
//! Recognition", ICCV 2019: a ring of nodes, each joined to its four nearest, every edge moved with a probability of 0.75
//! (D. Watts and S. Strogatz, 1998), directed from the lower to the higher number. A node adds up what it reads, and computes
//! relu and a convolution of that. The text has the nodes breadth first, as a front end writes them. What counts is the
//! outcome: the height of the plan of all buffers, not the sum that the pass made lower.

use std::fmt::Write;

use clap::Parser;
use tir_data::Random;

use crate::{run_for_text, tool};

/// The ratio that is wanted in the geometric mean.
const WANTED: f64 = 1.5;

/// How many graphs, and of which size.
#[derive(Parser)]
pub(crate) struct Options {
    /// Number of graphs
    #[arg(long, value_name = "N", default_value_t = 10)]
    graphs: u64,
    /// Nodes of a graph
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u64).range(8..))]
    nodes: u64,
    /// Sets of ops that `reorder` follows at the same time
    #[arg(long, value_name = "N", default_value_t = tir_memory::order::STATES)]
    states: usize,
    /// Ops that `reorder` tries in all
    #[arg(long, value_name = "N", default_value_t = tir_memory::order::TRIES)]
    tries: u64,
}

/// The edges of a graph, from lower to higher numbers.
fn wired(nodes: usize, seed: u64) -> Vec<[usize; 2]> {
    let mut random = Random::new(seed);
    let mut next = |below: usize| (random.next_u64() >> 33) as usize % below;
    let mut edges: Vec<[usize; 2]> = Vec::new();
    for step in [1, 2] {
        for node in 0..nodes {
            let mut to = (node + step) % nodes;
            if next(4) < 3 {
                to = next(nodes);
            }
            let edge = [node.min(to), node.max(to)];
            if node != to && !edges.contains(&edge) {
                edges.push(edge);
            }
        }
    }
    edges
}

/// Numbers of nodes, breadth first from those that read nothing; a node comes behind all that it reads.
fn breadth_first(nodes: usize, edges: &[[usize; 2]]) -> Vec<usize> {
    let mut level = vec![0; nodes];
    for node in 0..nodes {
        let before = edges.iter().filter(|[_, to]| *to == node);
        let before = before.map(|[from, _]| level[*from] + 1).max();
        level[node] = before.unwrap_or(0);
    }
    let mut order: Vec<usize> = (0..nodes).collect();
    order.sort_by_key(|node| (level[*node], *node));
    order
}

/// The program of a graph.
pub(crate) fn program(nodes: usize, seed: u64) -> String {
    let edges = wired(nodes, seed);
    let order = breadth_first(nodes, &edges);
    let image = "tensor<1x32x16x16xf32>";
    let weight = "tensor<32x32x3x3xf32>";
    let weights: String = (0..nodes).map(|n| format!(", %w{n}: {weight}")).collect();
    let mut text = format!("func.func @main(%x: {image}{weights}) -> {image} {{\n");
    let sum = |text: &mut String, name: &str, terms: &[String]| -> String {
        let mut total = terms[0].clone();
        for (i, term) in terms.iter().enumerate().skip(1) {
            let _ = writeln!(
                text,
                "  %{name}s{i} = graph.add {total}, {term} : ({image}, {image}) -> {image}"
            );
            total = format!("%{name}s{i}");
        }
        total
    };
    for node in &order {
        let mut reads: Vec<String> = edges
            .iter()
            .filter(|[_, to]| to == node)
            .map(|[from, _]| format!("%n{from}"))
            .collect();
        if reads.is_empty() {
            reads.push("%x".into());
        }
        let total = sum(&mut text, &format!("n{node}"), &reads);
        let _ = writeln!(text, "  %r{node} = graph.relu {total} : {image}");
        let _ = writeln!(
            text,
            "  %n{node} = graph.conv2d %r{node}, %w{node} {{pads = array<i64: 1, 1, 1, 1>}} : ({image}, {weight}) -> {image}"
        );
    }
    let ends: Vec<String> = order
        .iter()
        .filter(|node| edges.iter().all(|[from, _]| from != *node))
        .map(|node| format!("%n{node}"))
        .collect();
    let total = sum(&mut text, "y", &ends);
    let _ = writeln!(text, "  func.return {total} : {image}\n}}");
    text
}

/// The passes that plan all buffers of a graph in one memory and print the plan, with what orders its operators.
pub(crate) fn to_one_memory(order: Option<String>) -> Vec<String> {
    let mut args = vec!["--fuse-graph".to_string()];
    args.extend(order);
    let rest = [
        "--graph-to-tensor",
        "--canonicalize",
        "--bufferize",
        "--canonicalize",
        "--plan-memory=flat=64 print=true",
    ];
    args.extend(rest.map(String::from));
    args
}

/// The height of the plan and the largest live set of a program, with the order of the text or another.
fn planned(path: &str, reorder: Option<[u64; 2]>) -> Result<([u64; 2], String), String> {
    let reorder = reorder
        .map(|[states, tries]| format!("--reorder=states={states} tries={tries} print=true"));
    let mut args = vec![path.to_string()];
    args.extend(to_one_memory(reorder));
    args.extend(["-o", "/dev/null"].map(String::from));
    let said = run_for_text(&tool("tir-opt"), &args)?;
    let number = |after: &str| -> Option<u64> {
        let (_, rest) = said.split_once(after)?;
        rest.split_whitespace().next()?.parse().ok()
    };
    let numbers = number("@memory: ").zip(number("largest live set "));
    let (height, live) = numbers.ok_or_else(|| format!("no plan in: {said}"))?;
    Ok(([height, live], said))
}

/// Runs it: a line for each graph.
pub(crate) fn order(options: &Options) -> Result<(), String> {
    let nodes = usize::try_from(options.nodes).map_err(|e| e.to_string())?;
    println!(
        "plans of all buffers, bytes: randomly wired cells of {nodes} nodes, breadth first, and by reorder"
    );
    let mut logs = Vec::new();
    let (mut exact, mut tight) = (0, 0);
    for seed in 1..=options.graphs {
        let file = std::env::temp_dir().join(format!("tir-bench-{}.tir", std::process::id()));
        std::fs::write(&file, program(nodes, seed)).map_err(|e| e.to_string())?;
        let path = file.to_string_lossy().to_string();
        let runs = [None, Some([options.states as u64, options.tries])]
            .map(|reorder| planned(&path, reorder));
        let _ = std::fs::remove_file(&file);
        let [(before, _), (after, said)] = match runs {
            [Ok(before), Ok(after)] => [before, after],
            [Err(error), _] | [_, Err(error)] => return Err(error),
        };
        let ratio = before[0] as f64 / after[0] as f64;
        let known = said.contains("no order has fewer");
        exact += u64::from(known);
        tight += u64::from(after[0] == after[1]);
        println!(
            "  seed {seed:<3} {:>10} {:>10}   {ratio:.2} times less{}",
            before[0],
            after[0],
            if known { ", no order has fewer" } else { "" }
        );
        logs.push(ratio.ln());
    }
    let mean = (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp();
    println!(
        "geometric mean {mean:.2} (at least {WANTED} wanted); {exact} known to be the lowest, {tight} plans as high as the largest live set, of {}",
        options.graphs
    );
    Ok(())
}
