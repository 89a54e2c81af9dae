//! What a nest is does not depend on what was planned before it: a function that is lowered behind others which compute almost the
//! same is, to the letter, what it is where it is the only one.
//!
//! Plans of a product bound those of the same product with other elementwise steps behind it; here such products are drawn, with
//! steps in any order, operands on either side, and residuals read in other shapes.

mod common;

use common::{lower, root, said};
use tir::data::Random;
use tir::text::{ParseOptions, PrintOptions, parse, print};
use tir::{Ir, Name};

/// Elementwise steps of a function at most.
const STEPS: u64 = 4;

/// Functions of a module.
const FUNCTIONS: usize = 24;

/// A function of a product and some steps behind it.
fn function(number: usize, product: &Product, random: &mut Random) -> String {
    let Product {
        arguments,
        op,
        result,
        row,
        transposed,
    } = product;
    let mut text = String::new();
    let mut last = "%p".to_string();
    let (mut rows, mut same) = (0, 0);
    let mut more = Vec::new();
    for step in 0..random.next_u64() % (STEPS + 1) {
        let name = ["add", "sub", "mul"][(random.next_u64() % 3) as usize];
        let next = format!("%s{step}");
        let other = match random.next_u64() % 5 {
            0 => {
                text += &format!("  {next} = graph.relu {last} : {result}\n");
                last = next;
                continue;
            }
            1 | 2 => {
                rows += 1;
                more.push(format!("%r{rows}: {row}"));
                (format!("%r{rows}"), row)
            }
            3 if !transposed.is_empty() => {
                same += 1;
                more.push(format!("%t{same}: {transposed}"));
                text += &format!(
                    "  %m{same} = graph.transpose %t{same} [1, 0] : ({transposed}) -> {result}\n"
                );
                (format!("%m{same}"), result)
            }
            _ => {
                same += 1;
                more.push(format!("%m{same}: {result}"));
                (format!("%m{same}"), result)
            }
        };
        let (own, other) = ((last.clone(), result), other);
        let (a, b) = match random.next_u64() % 2 {
            0 => (own, other),
            _ => (other, own),
        };
        text += &format!(
            "  {next} = graph.{name} {}, {} : ({}, {}) -> {result}\n",
            a.0, b.0, a.1, b.1
        );
        last = next;
    }
    let arguments: Vec<String> = arguments.iter().cloned().chain(more).collect();
    format!(
        "func.func @f{number}({}) -> {result} {{\n  %p = {op}\n{text}  func.return {last} : {result}\n}}\n",
        arguments.join(", ")
    )
}

/// A product, with what it may be combined with.
struct Product {
    arguments: Vec<String>,
    op: String,
    result: String,
    row: String,
    transposed: String,
}

fn products() -> Vec<Product> {
    let tensor = |shape: &str| format!("tensor<{shape}xf32>");
    let matmul = |m: i64, k: i64, n: i64| {
        let [a, b, c] = [(m, k), (k, n), (m, n)].map(|(a, b)| tensor(&format!("{a}x{b}")));
        Product {
            arguments: vec![format!("%a: {a}"), format!("%b: {b}")],
            op: format!("graph.matmul %a, %b : ({a}, {b}) -> {c}"),
            result: c,
            row: tensor(&format!("{n}")),
            transposed: tensor(&format!("{n}x{m}")),
        }
    };
    let conv = |channels: i64, size: i64, filters: i64, kernel: i64| {
        let a = tensor(&format!("1x{channels}x{size}x{size}"));
        let b = tensor(&format!("{filters}x{channels}x{kernel}x{kernel}"));
        let c = tensor(&format!("1x{filters}x{size}x{size}"));
        let pad = (kernel - 1) / 2;
        Product {
            arguments: vec![format!("%a: {a}"), format!("%b: {b}")],
            op: format!(
                "graph.conv2d %a, %b {{pads = array<i64: {pad}, {pad}, {pad}, {pad}>}} : ({a}, {b}) -> {c}"
            ),
            result: c,
            row: tensor(&format!("1x{filters}x1x1")),
            transposed: String::new(),
        }
    };
    vec![
        matmul(96, 64, 160),
        matmul(49, 80, 33),
        conv(32, 14, 48, 3),
        conv(64, 10, 64, 1),
    ]
}

fn lowered(text: &str, machine: &str) -> Result<Ir, String> {
    let tool = tir_opt::stock();
    tool.load();
    let module = parse(text, Name::new("functions"), &ParseOptions::default());
    let mut module = module.map_err(|e| format!("{}\n{text}", said(&e)))?;
    let machine = root().join(format!("test/e2e/machines/{machine}.tir"));
    let pipeline = format!("to-loop{{egraph=false machine={}}}", machine.display());
    lower(&tool, &mut module, &pipeline).map_err(|e| format!("{e}\n{text}"))?;
    Ok(module)
}

/// The text of what a function does: where it stands in its file is another matter.
fn body(module: &Ir, name: &str) -> String {
    let text = print(module, &PrintOptions::default());
    let body = text.split_once(&format!("func.func @{name}("));
    let body = body.and_then(|(_, rest)| rest.split_once(" {\n"));
    let body = body.and_then(|(_, rest)| rest.split_once("\n}"));
    body.unwrap_or_else(|| panic!("no @{name} in\n{text}"))
        .0
        .to_string()
}

#[test]
fn a_nest_is_the_same_whatever_was_planned_before() {
    let mut random = Random::named(1, "siblings");
    for machine in ["npu", "npu-vector", "wide", "bursts"] {
        for product in products() {
            let functions: Vec<String> = (0..FUNCTIONS)
                .map(|number| function(number, &product, &mut random))
                .collect();
            let together = lowered(&functions.concat(), machine).unwrap_or_else(|e| panic!("{e}"));
            for (number, text) in functions.iter().enumerate() {
                let alone = lowered(text, machine).unwrap_or_else(|e| panic!("{e}"));
                let name = format!("f{number}");
                let (with, without) = (body(&together, &name), body(&alone, &name));
                assert_eq!(with, without, "{machine}: {text}");
            }
        }
    }
}
