//! Which operators `fuse-graph` puts together: the groups that TVM's classes give.

use tir::{Builder, Ir, Pipeline, Type, Value};
use tir_convert::FuseGraph;
use tir_graph::{Add, Conv2d, Fused, GlobalAvgPool, Mul, Relu, Reshape, Sub, Transpose};

fn image() -> Type {
    Type::tensor([1, 4, 6, 6], Type::f32())
}

/// Builds `@main`, fuses it, and gives the sizes of what is left in order: ops in groups, 1 for an
/// op alone. Constants do not count.
/// The greedy choice and the one by cost are the same here.
fn sizes(build: impl Fn(&mut B<'_>) -> Vec<Value>) -> Vec<usize> {
    let greedy = FuseGraph {
        partition: "greedy".to_string(),
        ..FuseGraph::default()
    };
    let found = sizes_with(&greedy, &build);
    assert_eq!(found, sizes_with(&FuseGraph::default(), &build));
    found
}

fn sizes_with(pass: &FuseGraph, build: impl FnOnce(&mut B<'_>) -> Vec<Value>) -> Vec<usize> {
    for dialect in [
        &tir_builtin::DIALECT,
        &tir_func::DIALECT,
        &tir_graph::DIALECT,
    ] {
        dialect.load();
    }
    let weights = Type::tensor([4, 4, 1, 1], Type::f32());
    let (mut ir, block) =
        tir_func::function("main", Type::function([image(), weights, image()], []));
    let args: Vec<Value> = ir.args(block).collect();
    let mut b = B {
        b: ir.at(block),
        w: args[1],
        x: args[0],
        y: args[2],
    };
    let operands = build(&mut b);
    let results: Vec<Type> = operands.iter().map(|v| ir.ty(*v)).collect();
    let ty = Type::function([image(), weights, image()], results);
    ir.add(block, tir_func::Return { operands });
    let root = ir.root();
    ir.set_attr(root, "function_type", tir::Attr::ty(ty));
    let (mut module, body) = tir_builtin::module();
    module.adopt(body, ir);
    tir::verify(&module).unwrap();
    // What is in a group stays in it, so a second run changes nothing.
    run(&mut module, pass);
    run(&mut module, pass);
    tir::verify(&module).unwrap();
    let slot = module.slots()[0];
    let ir = module.child(slot).unwrap();
    let block = ir.body_block(ir.root(), 0).unwrap();
    let size = |op| match ir.get::<Fused>(op) {
        Some(fused) => ir.ops_in(ir.entry(fused.body).unwrap()).count() - 1,
        None => 1,
    };
    let ops: Vec<_> = ir.ops_in(block).collect();
    ops[..ops.len() - 1].iter().map(|op| size(*op)).collect()
}

fn run(module: &mut Ir, pass: &FuseGraph) {
    let mut pipeline = Pipeline::default();
    pipeline.add(pass.clone());
    tir::PassManager::new(pipeline)
        .run(module)
        .into_result()
        .unwrap();
}

struct B<'a> {
    b: Builder<'a>,
    w: Value,
    x: Value,
    y: Value,
}
impl B<'_> {
    fn conv(&mut self, x: Value) -> Value {
        self.b.add(Conv2d {
            x,
            w: self.w,
            bias: None,
            strides: vec![1, 1],
            pads: vec![0; 4],
            dilations: vec![1, 1],
            groups: 1,
        })
    }
    fn relu(&mut self, x: Value) -> Value {
        self.b.add(Relu { x })
    }
    fn add(&mut self, x: Value, y: Value) -> Value {
        self.b.add(Add { x, y })
    }
    fn mul(&mut self, x: Value, y: Value) -> Value {
        self.b.add(Mul { x, y })
    }
    fn sum(&mut self, x: Value) -> Value {
        self.b.add(GlobalAvgPool { x })
    }
}

#[test]
fn convolution_bias_norm_relu_is_one() {
    let found = sizes(|b| {
        let c = b.conv(b.x);
        let bias = b.add(c, b.y);
        let norm = b.mul(bias, b.y);
        vec![b.relu(norm)]
    });
    assert_eq!(found, [4]);
}

#[test]
fn scale_then_sum_is_one() {
    let found = sizes(|b| {
        let scaled = b.mul(b.x, b.y);
        vec![b.sum(scaled)]
    });
    assert_eq!(found, [2]);
}

#[test]
fn relu_before_a_convolution_stays_out() {
    let found = sizes(|b| {
        let r = b.relu(b.x);
        vec![b.conv(r)]
    });
    assert_eq!(found, [1, 1]);
}

#[test]
fn parallel_ways_that_meet_are_one() {
    let found = sizes(|b| {
        let c = b.conv(b.x);
        let p = b.relu(c);
        let q = b.mul(c, b.y);
        let r = b.b.add(Sub { x: c, y: b.y });
        let s = b.add(p, q);
        vec![b.add(s, r)]
    });
    assert_eq!(found, [6]);
}

#[test]
fn two_convolutions_are_two() {
    let found = sizes(|b| {
        let c = b.conv(b.x);
        let r = b.relu(c);
        vec![b.conv(r)]
    });
    assert_eq!(found, [2, 1]);
}

#[test]
fn nothing_goes_behind_a_sum() {
    let found = sizes(|b| {
        let s = b.sum(b.x);
        vec![b.relu(s)]
    });
    assert_eq!(found, [1, 1]);
}

#[test]
fn opaque_ops_stay_alone() {
    let found = sizes(|b| {
        let r = b.relu(b.x);
        let y = tir::Ret(Type::tensor([4, 36], Type::f32()));
        vec![b.b.add(Reshape { x: r, y })]
    });
    assert_eq!(found, [1, 1]);
}

#[test]
fn what_is_a_result_too_is_not_fused_forward() {
    let found = sizes(|b| {
        let c = b.conv(b.x);
        let r = b.relu(c);
        vec![c, r]
    });
    assert_eq!(found, [1, 1]);
}

#[test]
fn a_residual_sum_goes_with_the_later_convolution() {
    let found = sizes(|b| {
        let c = b.conv(b.x);
        let d = b.conv(b.y);
        let s = b.add(c, d);
        vec![b.relu(s)]
    });
    assert_eq!(found, [1, 3]);
}

#[test]
fn an_operand_that_nobody_else_needs_goes_along() {
    let found = sizes(|b| {
        let c = b.conv(b.x);
        let scaled = b.mul(b.x, b.y);
        vec![b.add(c, scaled)]
    });
    assert_eq!(found, [3]);
}

#[test]
fn injective_ops_are_one() {
    let found = sizes(|b| {
        let r = b.relu(b.x);
        let t = b.b.add(Transpose {
            x: r,
            perm: vec![0, 1, 3, 2],
        });
        vec![b.add(t, b.y)]
    });
    assert_eq!(found, [3]);
}

fn several() -> FuseGraph {
    FuseGraph {
        multi_output: true,
        ..FuseGraph::default()
    }
}

#[test]
fn with_several_results_what_is_a_result_too_goes_along() {
    let found = sizes_with(&several(), |b| {
        let c = b.conv(b.x);
        let r = b.relu(c);
        vec![c, r]
    });
    assert_eq!(found, [2]);
}

#[test]
fn siblings_with_the_same_input_are_read_once() {
    let found = sizes_with(&several(), |b| {
        let r = b.relu(b.x);
        let m = b.mul(b.x, b.y);
        vec![r, m]
    });
    assert_eq!(found, [2]);
    let found = sizes(|b| {
        let r = b.relu(b.x);
        let m = b.mul(b.x, b.y);
        vec![r, m]
    });
    assert_eq!(found, [1, 1]);
}

#[test]
fn a_group_does_not_stand_around_what_it_needs() {
    // The sum needs the second convolution, which needs the first relu.
    let found = sizes_with(&several(), |b| {
        let c = b.conv(b.x);
        let r = b.relu(c);
        let d = b.conv(r);
        let s = b.sum(d);
        vec![b.add(r, s)]
    });
    assert_eq!(found, [2, 1, 1, 1]);
}

#[test]
fn users_of_the_first_result_come_behind_the_group() {
    // The sum uses the convolution and stands before the last op of its group.
    let found = sizes_with(&several(), |b| {
        let c = b.conv(b.x);
        let s = b.sum(c);
        let r = b.relu(c);
        vec![s, r]
    });
    assert_eq!(found, [2, 1]);
}

#[test]
fn cheap_ops_are_computed_again() {
    let pass = FuseGraph {
        recompute: true,
        ..FuseGraph::default()
    };
    let build = |b: &mut B<'_>| {
        let r = b.relu(b.x);
        let s = b.sum(r);
        let t = b.b.add(Transpose {
            x: r,
            perm: vec![0, 1, 3, 2],
        });
        vec![s, t]
    };
    assert_eq!(sizes_with(&pass, build), [2, 2]);
    assert_eq!(sizes(build), [1, 1, 1]);
}

#[test]
fn alone_each_is_a_group() {
    let pass = FuseGraph {
        partition: "none".to_string(),
        ..FuseGraph::default()
    };
    let found = sizes_with(&pass, |b| {
        let c = b.conv(b.x);
        vec![b.relu(c)]
    });
    assert_eq!(found, [1, 1]);
}
