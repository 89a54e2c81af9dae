//! From operators to ops.

use std::collections::{HashMap, HashSet};

use tir_core::{Attr, BlockId, Builder, Diagnostic, Ir, Name, Op, Ret, Type, Value};
use tir_graph::{
    Add, AvgPool, BatchNorm, Concat, Conv2d, MatMul, MaxPool, Mul, Number, Relu, Reshape, Sigmoid,
    Tanh, Transpose,
};

use super::read::Record;
use super::window::Windows;

/// TASO's types of operators, as far as they have a meaning here.
mod taso {
    pub(super) const INPUT: u64 = 0;
    pub(super) const WEIGHT: u64 = 1;
    pub(super) const CONV: u64 = 3;
    pub(super) const DROPOUT: u64 = 4;
    pub(super) const MAX_POOL: u64 = 6;
    pub(super) const AVERAGE_POOL: u64 = 7;
    pub(super) const RELU: u64 = 8;
    pub(super) const SIGMOID: u64 = 9;
    pub(super) const TANH: u64 = 10;
    pub(super) const BATCH_NORM: u64 = 11;
    pub(super) const CONCAT: u64 = 12;
    pub(super) const RESHAPE: u64 = 14;
    pub(super) const TRANSPOSE: u64 = 15;
    pub(super) const ADD: u64 = 16;
    pub(super) const MUL: u64 = 17;
    pub(super) const MATMUL: u64 = 18;
}

/// The function in the making.
struct Cx {
    ir: Ir,
    block: BlockId,
    values: HashMap<u64, Value>,
}

pub(super) fn import(records: &[Record]) -> Result<Ir, Vec<Diagnostic>> {
    let is_argument = |r: &&Record| matches!(r.op, taso::INPUT | taso::WEIGHT);
    let read: HashSet<u64> = records.iter().flat_map(operands).collect();
    let used = records
        .iter()
        .filter(is_argument)
        .filter(|r| read.contains(&r.id));
    let used: Vec<&Record> = used.collect();
    let types = used.iter().map(|r| typed(r, &r.parameters));
    let types: Vec<Type> = types.collect::<Result<_, _>>()?;
    let (ir, block) = tir_func::function("main", Type::function(types, []));
    let mut cx = Cx {
        ir,
        block,
        values: HashMap::new(),
    };
    let args: Vec<Value> = cx.ir.args(block).collect();
    for (record, arg) in used.iter().zip(args) {
        let letter = if record.op == taso::INPUT { "x" } else { "w" };
        cx.define(record, arg, letter)?;
    }
    for record in records.iter().filter(|r| !is_argument(r)) {
        let value = cx.operator(record)?;
        cx.define(record, value, "v")?;
    }
    let ends = records
        .iter()
        .filter(|r| !is_argument(r) && !read.contains(&r.id));
    let operands: Vec<Value> = ends.map(|r| cx.values[&r.id]).collect();
    let results: Vec<Type> = operands.iter().map(|v| cx.ir.ty(*v)).collect();
    cx.ir.add(block, tir_func::Return { operands });
    let args: Vec<Type> = cx.ir.args(block).map(|v| cx.ir.ty(v)).collect();
    let signature = Attr::ty(Type::function(args, results));
    let root = cx.ir.root();
    cx.ir.set_attr(root, "function_type", signature);
    let (mut module, body) = tir_builtin::module();
    module.adopt(body, cx.ir);
    tir_core::verify(&module)?;
    Ok(module)
}

/// What an operator reads. The second operand of a pool, a weight of its size, has no meaning.
fn operands(record: &Record) -> Vec<u64> {
    let inputs = record.inputs.iter().map(|(id, _)| *id);
    match record.op {
        taso::INPUT | taso::WEIGHT => Vec::new(),
        taso::MAX_POOL | taso::AVERAGE_POOL => inputs.take(1).collect(),
        _ => inputs.collect(),
    }
}

/// The tensor of a shape.
fn typed(record: &Record, shape: &[i64]) -> Result<Type, Diagnostic> {
    let ty = Type::tensor(shape, Type::f32());
    match ty.elements() {
        Some(_) if shape.iter().all(|d| *d >= 0) => Ok(ty),
        _ => Err(record.error(format!("has shape {shape:?}"))),
    }
}

impl Cx {
    fn define(&mut self, record: &Record, value: Value, letter: &str) -> Result<(), Diagnostic> {
        if self.values.insert(record.id, value).is_some() {
            return Err(record.error("is there twice"));
        }
        if self.ir.hint(value).is_none() {
            let hint = Name::new(&format!("{letter}{}", record.id));
            self.ir.set_hint(value, Some(hint));
        }
        Ok(())
    }

    fn operator(&mut self, record: &Record) -> Result<Value, Diagnostic> {
        let count = match record.op {
            taso::CONV | taso::MATMUL | taso::ADD | taso::MUL => Some(2),
            taso::BATCH_NORM => Some(5),
            taso::MAX_POOL | taso::AVERAGE_POOL => None,
            taso::CONCAT => None,
            _ => Some(1),
        };
        let found = record.inputs.len();
        if count.is_some_and(|n| n != found) || found == 0 {
            let expected = count.map_or("at least 1".to_string(), |n| n.to_string());
            return Err(record.error(format!("has {found} operands, expected {expected}")));
        }
        if let Some((id, result)) = record.inputs.iter().find(|(_, result)| *result != 0) {
            // Inputs and weights are written as results 10 and 11 of nothing; all else has one.
            return Err(record.error(format!(
                "reads result {result} of operator {id}, which has one"
            )));
        }
        let xs = operands(record).into_iter().map(|id| {
            let value = self.values.get(&id).copied();
            value.ok_or_else(|| {
                record.error(format!("reads operator {id}, which is not defined before"))
            })
        });
        let xs: Vec<Value> = xs.collect::<Result<_, _>>()?;
        let x = xs[0];
        match record.op {
            taso::CONV => self.conv(record, x, xs[1]),
            taso::MAX_POOL | taso::AVERAGE_POOL => self.pool(record, x),
            taso::RELU => {
                self.stated(record, x, &record.parameters)?;
                self.add(record, Relu { x })
            }
            taso::SIGMOID => {
                self.stated(record, x, &record.parameters)?;
                self.add(record, Sigmoid { x })
            }
            taso::TANH => {
                self.stated(record, x, &record.parameters)?;
                self.add(record, Tanh { x })
            }
            taso::BATCH_NORM => self.batch_norm(record, &xs),
            taso::ADD => {
                self.stated(record, x, &record.parameters)?;
                self.add(record, Add { x, y: xs[1] })
            }
            taso::MUL => {
                self.stated(record, x, &record.parameters)?;
                self.add(record, Mul { x, y: xs[1] })
            }
            // It changes nothing once training is over.
            taso::DROPOUT => self.stated(record, x, &record.parameters).map(|()| x),
            taso::CONCAT => {
                let [axis] = parameters(record)?;
                self.add(record, Concat { xs, axis })
            }
            taso::RESHAPE => {
                let (from, to) = (self.ir.ty(x), typed(record, &record.parameters)?);
                if from.elements() != to.elements() {
                    return Err(record.error(format!("makes {to} of {from}")));
                }
                self.add(record, Reshape { x, y: Ret(to) })
            }
            taso::TRANSPOSE => self.transpose(record, x),
            taso::MATMUL => {
                let [activation, rank] = parameters(record)?;
                let (a, b) = (x, xs[1]);
                let found = self.shape(a).len();
                if usize::try_from(rank) != Ok(found) {
                    return Err(
                        record.error(format!("is declared with rank {rank}, it has {found}"))
                    );
                }
                let y = self.add(record, MatMul { a, b })?;
                self.activation(record, y, activation)
            }
            op => Err(record.error(format!("has type {op}, which is not supported"))),
        }
    }

    /// Parameters: the input's shape, the weights' shape, strides, padding mode, activation, pads.
    fn conv(&mut self, record: &Record, x: Value, w: Value) -> Result<Value, Diagnostic> {
        let p: [i64; 14] = parameters(record)?;
        self.stated(record, x, &p[..4])?;
        self.stated(record, w, &p[4..8])?;
        let windows = Windows::new(
            [p[2], p[3]],
            [p[6], p[7]],
            [p[8], p[9]],
            p[10],
            [p[12], p[13]],
        );
        let Windows { strides, pads } = windows.map_err(|e| record.error(e))?;
        let (channels, per_group) = (p[1], p[5]);
        if per_group < 1 || channels % per_group != 0 {
            let why = format!("has {channels} channels for weights of {per_group}");
            return Err(record.error(why));
        }
        let conv = Conv2d {
            x,
            w,
            bias: None,
            strides,
            pads,
            dilations: vec![1, 1],
            groups: channels / per_group,
        };
        let y = self.add(record, conv)?;
        self.activation(record, y, p[11])
    }

    /// Parameters: the input's shape. Operands are those of ONNX in its order; what is added to the
    /// variance is not in the file, so it is ONNX's default.
    fn batch_norm(&mut self, record: &Record, xs: &[Value]) -> Result<Value, Diagnostic> {
        let &[x, scale, bias, mean, var] = xs else {
            return Err(record.error("reads other operands than it has"));
        };
        self.stated(record, x, &record.parameters)?;
        let norm = BatchNorm {
            x,
            scale,
            bias,
            mean,
            var,
            epsilon: Number(1e-5),
        };
        self.add(record, norm)
    }

    /// Parameters: the input's shape, the type, the window, strides, padding mode, activation, pads.
    fn pool(&mut self, record: &Record, x: Value) -> Result<Value, Diagnostic> {
        let p: [i64; 13] = parameters(record)?;
        self.stated(record, x, &p[..4])?;
        if u64::try_from(p[4]) != Ok(record.op) {
            let why = format!("has type {} and says {}", record.op, p[4]);
            return Err(record.error(why));
        }
        let windows = Windows::new(
            [p[2], p[3]],
            [p[5], p[6]],
            [p[7], p[8]],
            p[9],
            [p[11], p[12]],
        );
        let Windows { strides, pads } = windows.map_err(|e| record.error(e))?;
        let (kernel, dilations) = (vec![p[5], p[6]], vec![1, 1]);
        let y = if record.op == taso::MAX_POOL {
            self.add(
                record,
                MaxPool {
                    x,
                    kernel,
                    strides,
                    pads,
                    dilations,
                    ceil_mode: false,
                },
            )?
        } else {
            self.add(
                record,
                AvgPool {
                    x,
                    kernel,
                    strides,
                    pads,
                    dilations,
                    ceil_mode: false,
                    count_include_pad: false,
                },
            )?
        };
        self.activation(record, y, p[10])
    }

    /// Parameters: the order, and whether elements move (they always do here); some exporters write
    /// the rank first.
    fn transpose(&mut self, record: &Record, x: Value) -> Result<Value, Diagnostic> {
        let rank = self.shape(x).len();
        let perm = match &record.parameters[..] {
            [perm @ .., 0 | 1] if perm.len() == rank => perm,
            [first, perm @ .., 0 | 1] if perm.len() == rank && *first == rank as i64 => perm,
            other => {
                let why = format!("has parameters {other:?} for an input of rank {rank}");
                return Err(record.error(why));
            }
        };
        let perm = perm.to_vec();
        self.add(record, Transpose { x, perm })
    }

    fn activation(&mut self, record: &Record, x: Value, kind: i64) -> Result<Value, Diagnostic> {
        match kind {
            0 => Ok(x),
            1 => self.add(record, Sigmoid { x }),
            2 => self.add(record, Relu { x }),
            3 => self.add(record, Tanh { x }),
            other => Err(record.error(format!("has activation {other}, expected 0 to 3"))),
        }
    }

    fn add<T: Op>(&mut self, record: &Record, op: T) -> Result<Value, Diagnostic> {
        let mut b = Builder::new(&mut self.ir, self.block);
        b.loc = record.loc;
        let made = b.try_create(op.state());
        let made = made.map_err(|e| record.error(e.message))?;
        let result = self.ir.results(made).next();
        result.ok_or_else(|| record.error("has no result"))
    }

    fn shape(&self, value: Value) -> &'static [i64] {
        self.ir.ty(value).shape().unwrap_or(&[])
    }

    /// Checks the shape that an operator says an operand has.
    fn stated(&self, record: &Record, x: Value, shape: &[i64]) -> Result<(), Diagnostic> {
        let found = self.shape(x);
        if found == shape {
            return Ok(());
        }
        Err(record.error(format!(
            "reads a tensor of {found:?}, declared as {shape:?}"
        )))
    }
}

/// All parameters, if they are so many.
fn parameters<const N: usize>(record: &Record) -> Result<[i64; N], Diagnostic> {
    let found = record.parameters.len();
    let all = <[i64; N]>::try_from(&record.parameters[..]);
    all.map_err(|_| record.error(format!("has {found} parameters, expected {N}")))
}
