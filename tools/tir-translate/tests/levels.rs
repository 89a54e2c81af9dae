//! The tensor level against ONNX Runtime's answers: alone, and with what runs as one put together.

mod common;

use common::{check_networks, check_ops};
use tir::{PassManager, Pipeline};
use tir_convert::{FuseElementwise, FuseGraph, GraphToTensor};
use tir_core::Ir;

fn run(ir: &mut Ir, passes: impl FnOnce(&mut Pipeline)) -> Result<(), String> {
    for dialect in [
        &tir_arith::DIALECT,
        &tir_loop::DIALECT,
        &tir_math::DIALECT,
        &tir_tensor::DIALECT,
    ] {
        dialect.load();
    }
    let mut pipeline = Pipeline::new();
    passes(&mut pipeline);
    let done = PassManager::new(pipeline).run(ir).into_result();
    done.map_err(|errors| format!("{}", errors[0]))?;
    tir_core::verify(ir).map_err(|errors| format!("{}", errors[0]))
}

fn to_tensor(ir: &mut Ir) -> Result<(), String> {
    run(ir, |pipeline| {
        pipeline.add(GraphToTensor::default());
    })?;
    all_gone(ir, &["graph.fused", "graph.yield"])
}

fn fused(ir: &mut Ir) -> Result<(), String> {
    run(ir, |pipeline| {
        pipeline.add(FuseGraph::default());
        pipeline.add(GraphToTensor::default());
        pipeline.add(FuseElementwise::default());
    })?;
    all_gone(ir, &["graph.fused", "graph.yield"])
}

/// Of graph nothing is left but these.
fn all_gone(ir: &Ir, but: &[&str]) -> Result<(), String> {
    let mut left = Vec::new();
    ir.walk(&mut |op| {
        let name = op.name();
        if name.starts_with("graph.") && !but.contains(&name.as_str()) {
            left.push(name.to_string());
        }
    });
    if left.is_empty() {
        Ok(())
    } else {
        Err(format!("left: {left:?}"))
    }
}

#[test]
fn single_ops_at_the_tensor_level() {
    check_ops(to_tensor);
}

#[test]
fn networks_at_the_tensor_level() {
    check_networks(to_tensor);
}

#[test]
fn single_ops_with_fusion() {
    check_ops(fused);
}

#[test]
fn networks_with_fusion() {
    check_networks(fused);
}
