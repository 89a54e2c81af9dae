//! Tiling and tensorization of programs built as records.

use tir::*;
use tir_accel::{Call, Dma, Intrinsic, MachineInfo, Space, Unit};
use tir_arith::{AddF, MaximumF, MulF, constant_float};
use tir_builtin::module;
use tir_func::{Return, function};
use tir_loop::For;
use tir_tensor::generic::iterators;
use tir_tensor::{Combine, Empty, Generic, TransferRead, TransferWrite, Yield};
use tir_tile::plan::{Budget, Join, Target};

type Region<'a> = &'a dyn Fn(&mut Builder<'_>, &[Value]) -> Value;

fn generic(
    b: &mut Builder<'_>,
    inputs: &[Value],
    output: Value,
    maps: &[AffineMap],
    reductions: usize,
    combine: Option<Combine>,
    region: Region<'_>,
) -> Value {
    let elems: Vec<Type> = inputs.iter().map(|v| b.ty(*v).elem()).collect();
    let body = b.body(&elems, |b, args| {
        let value = region(b, args);
        b.add(Yield {
            values: vec![value],
        });
    });
    let results = Rets(vec![b.ty(output)]);
    let dims = maps[0].dims;
    b.add(Generic {
        inputs: inputs.to_vec(),
        outputs: vec![output],
        indexing_maps: maps.to_vec(),
        iterator_types: iterators(dims - reductions, reductions),
        combine,
        sizes: None,
        body,
        results,
    })[0]
}

fn relu(b: &mut Builder<'_>, x: Value) -> Value {
    let rhs = constant_float(b, 0.0, Type::f32());
    b.add(MaximumF::new(x, rhs))
}
fn product(b: &mut Builder<'_>, args: &[Value]) -> Value {
    b.add(MulF::new(args[0], args[1]))
}
fn bias_relu(b: &mut Builder<'_>, args: &[Value]) -> Value {
    let sum = b.add(AddF::new(args[0], args[1]));
    relu(b, sum)
}
fn zero(b: &mut Builder<'_>, _: &[Value]) -> Value {
    constant_float(b, 0.0, Type::f32())
}

fn intrinsic(
    ir: &mut Ir,
    block: BlockId,
    name: &str,
    unit: &str,
    types: &[Type],
    build: &dyn Fn(&mut Builder<'_>, &[Value]) -> Value,
) {
    let mut b = ir.at(block);
    let body = b.body(types, |b, args| {
        let value = build(b, args);
        b.add(tir_accel::Yield {
            values: vec![value],
        });
    });
    b.add(Intrinsic {
        sym_name: name.into(),
        unit: Sym(unit.into()),
        spaces: vec![Attr::symbol("spm".into()); types.len()],
        cycles: "16".into(),
        strided: None,
        family: None,
        body,
    });
}

/// The machine of the walkthrough, with a near memory of so many bytes.
fn machine(bytes: i64) -> Ir {
    let mut ir = Ir::new("accel.machine");
    let root = ir.root();
    ir.set_attr(root, "sym_name", Attr::str("npu"));
    let region = ir.new_region();
    ir.attach_region(root, region);
    let block = ir.new_block(region);
    for (name, bytes) in [("dram", 1 << 30), ("spm", bytes)] {
        ir.add(
            block,
            Space {
                core: None,
                sym_name: name.into(),
                bytes,
                align: 64,
                banks: 1,
                ports: 0,
                bytes_per_cycle: 16,
                latency: 64,
            },
        );
    }
    for (name, from, to) in [("load", "dram", "spm"), ("store", "spm", "dram")] {
        ir.add(
            block,
            Dma {
                packs: false,
                issue: 0,
                step: None,
                sym_name: name.into(),
                from: Sym(from.into()),
                to: Sym(to.into()),
                bytes_per_cycle: 8,
                latency: Some(64),
                dims: 4,
                queue: 8,
                granule: 4,
                square: 0,
                pad: true,
            },
        );
    }
    for name in ["gemm", "vector"] {
        ir.add(
            block,
            Unit {
                issue: 0,
                core: None,
                count: 1,
                sym_name: name.into(),
                queue: 16,
            },
        );
    }
    let t = Type::tensor([16, 16], Type::f32());
    let v = Type::tensor([16], Type::f32());
    let p = |dims: usize, list: &[usize]| AffineMap::project(dims, list);
    intrinsic(&mut ir, block, "clear16", "gemm", &[t], &|b, a| {
        generic(b, &[], a[0], &[p(2, &[0, 1])], 0, None, &zero)
    });
    intrinsic(&mut ir, block, "gemm16", "gemm", &[t, t, t], &|b, a| {
        let maps = [p(3, &[0, 2]), p(3, &[2, 1]), p(3, &[0, 1])];
        generic(
            b,
            &[a[1], a[2]],
            a[0],
            &maps,
            1,
            Some(Combine::Add),
            &product,
        )
    });
    intrinsic(
        &mut ir,
        block,
        "bias_relu16",
        "vector",
        &[t, t, v],
        &|b, a| {
            let maps = [p(2, &[0, 1]), p(2, &[1]), p(2, &[0, 1])];
            generic(b, &[a[1], a[2]], a[0], &maps, 0, None, &bias_relu)
        },
    );
    ir
}

/// `relu(x * w + b)` with a window of `k` x `k`, a stride, and padding on all sides.
fn program(x: [i64; 4], w: [i64; 4], stride: i64, pad: i64) -> Ir {
    tir_support::load();
    let f32 = Type::f32();
    let (oh, ow) = (
        (x[2] + 2 * pad - w[2]) / stride + 1,
        (x[3] + 2 * pad - w[3]) / stride + 1,
    );
    let y = Type::tensor([x[0], w[0], oh, ow], f32);
    let inputs = [
        Type::tensor(x, f32),
        Type::tensor(w, f32),
        Type::tensor([w[0]], f32),
    ];
    let (mut func, block) = function("f", Type::function(inputs, [y]));
    let args: Vec<Value> = func.args(block).collect();
    let mut b = func.at(block);
    let mut source = args[0];
    if pad > 0 {
        let padded = Type::tensor([x[0], x[1], x[2] + 2 * pad, x[3] + 2 * pad], f32);
        source = b.add(TransferRead {
            source,
            offsets: vec![],
            padding: None,
            into: None,
            static_offsets: vec![0, 0, -pad, -pad],
            access: AffineMap::identity(4),
            space: None,
            result: Ret(padded),
        });
    }
    let empty = b.add(Empty {
        dynamic_sizes: vec![],
        space: None,
        result: Ret(y),
    });
    let start = generic(
        &mut b,
        &[],
        empty,
        &[AffineMap::identity(4)],
        0,
        None,
        &zero,
    );
    let d = AffineExpr::Dim;
    let at = |o: usize, k: usize| d(o) * AffineExpr::Const(stride) + d(k);
    let maps = [
        AffineMap::new(7, vec![d(0), d(4), at(2, 5), at(3, 6)]),
        AffineMap::project(7, &[1, 4, 5, 6]),
        AffineMap::project(7, &[0, 1, 2, 3]),
    ];
    let sum = generic(
        &mut b,
        &[source, args[1]],
        start,
        &maps,
        3,
        Some(Combine::Add),
        &product,
    );
    let maps = [
        AffineMap::identity(4),
        AffineMap::project(4, &[1]),
        AffineMap::identity(4),
    ];
    let out = generic(&mut b, &[sum, args[2]], empty, &maps, 0, None, &bias_relu);
    b.add(Return {
        operands: vec![out],
    });
    func
}

/// The tiled function, inside a module with its machine, verified.
fn tiled(mut func: Ir, bytes: i64) -> Result<Ir, Vec<Diagnostic>> {
    tir_support::load();
    let machine = machine(bytes);
    let info = MachineInfo::of(&machine).expect("a machine");
    let target = Target::new(&info, &machine).expect("a near space");
    verify(&func).expect("valid");
    let budget = Budget {
        depth: 2,
        bytes,
        spare: 0,
        limit: 4096,
        listed: 0,
        join: Join::All,
        cores: true,
        shifts: false,
        worth: 0,
    };
    let known = &mut tir_tile::tile::Known::default();
    tir_tile::tile::tile(&mut func, &target, budget, None, known)?;
    tir_tile::tensorize::tensorize(&mut func, &target);
    let (mut module, block) = module();
    module.adopt(block, machine);
    module.adopt(block, func.clone());
    verify(&module).expect("valid after tiling");
    Ok(func)
}

/// How often each op would run, given the loops around it.
fn executions<T: Op>(func: &Ir, wanted: &dyn Fn(&T) -> bool) -> i64 {
    let ops = func
        .walk_ids()
        .into_iter()
        .filter(|op| func.get::<T>(*op).is_some_and(|r| wanted(&r)));
    ops.map(|op| {
        let around = std::iter::successors(func.parent(op), |op| func.parent(*op));
        around
            .filter_map(|op| func.get::<For>(op)?.trip_count())
            .product::<i64>()
    })
    .sum()
}

fn calls(func: &Ir, name: &str) -> i64 {
    executions::<Call>(func, &|call| call.callee.0 == name)
}

#[test]
fn walkthrough() {
    let func = tiled(program([1, 16, 18, 18], [32, 16, 3, 3], 1, 0), 32768).expect("fits");
    assert_eq!(calls(&func, "gemm16"), 288);
    assert_eq!(calls(&func, "clear16"), 32);
    assert_eq!(calls(&func, "bias_relu16"), 32);
    assert_eq!(executions::<Generic>(&func, &|_| true), 0);
    assert_eq!(executions::<TransferWrite>(&func, &|_| true), 16);
    assert_eq!(executions::<TransferRead>(&func, &|_| true), 18);
}

#[test]
fn strides_padding_and_remainders() {
    // 3 input channels and 14 columns fill no unit.
    for (x, w, stride, pad) in [
        ([1, 3, 32, 32], [16, 3, 3, 3], 1, 1),
        ([1, 16, 28, 28], [32, 16, 3, 3], 2, 1),
        ([1, 64, 14, 14], [64, 64, 1, 1], 1, 0),
        ([2, 20, 9, 9], [24, 20, 1, 1], 2, 0),
        ([1, 64, 56, 56], [64, 64, 3, 3], 1, 1),
    ] {
        let func = tiled(program(x, w, stride, pad), 1 << 18).expect("fits");
        // What is left is for an engine: it fills tiles of several blocks.
        let left = |nest: &Generic| {
            let elements: i64 = func.ty(nest.outputs[0]).shape().unwrap().iter().product();
            nest.constant(&func).is_none() || elements <= 16 * 16
        };
        assert_eq!(executions::<Generic>(&func, &left), 0, "{x:?} {w:?}");
        assert!(calls(&func, "gemm16") > 0);
    }
}

#[test]
fn too_large_says_why() {
    let program = || program([1, 16, 18, 18], [32, 16, 3, 3], 1, 0);
    // Where no block of the unit fits, the thread computes it in parts.
    let func = tiled(program(), 1024).expect("fits");
    assert_eq!(calls(&func, "gemm16"), 0);
    let result = tiled(program(), 128);
    let errors = result.err().expect("too small");
    assert!(
        errors[0].message.contains("does not fit \"spm\""),
        "{}",
        errors[0].message
    );
    assert!(
        errors[0]
            .notes
            .iter()
            .any(|n| n.message.contains("operand 1"))
    );
}
