//! Running the ops of tensor.

use std::rc::Rc;

use tir::data::Array;
use tir::interp::{
    Input, Kernel, KernelSpec, Kind, Scalar, View, array_of, dtype_of, failure, update,
};
use tir::{
    Compiler, DYNAMIC, Data, Env, Evaluate, Failure, Ir, LowerToEval, MemRefType, OpRef, Type,
    Value,
};

use crate::generic::is_unsigned;
use crate::tiles;
use crate::{
    CollapseShape, Combine, Empty, ExpandShape, Extract, ExtractSlice, Generic, InsertSlice,
    TransferRead, TransferWrite,
};

/// The first result of an op.
pub fn result(op: OpRef<'_>) -> Result<Value, Failure> {
    op.ir
        .results(op.id)
        .next()
        .ok_or_else(|| "has no result".into())
}

/// Fills memory with what shows when it is read: a quiet NaN with the payload `dead` for floats,
/// the byte `a5` for integers, true for `i1`.
pub fn fill_undefined(bytes: &mut [u8], kind: Kind) {
    let pattern: &[u8] = match kind {
        Kind::F32 => &0x7fc0_dead_u32.to_le_bytes(),
        Kind::F64 => &0x7ff8_0000_0000_dead_u64.to_le_bytes(),
        Kind::F16 => &0x7ead_u16.to_le_bytes(),
        Kind::BF16 => &0x7fed_u16.to_le_bytes(),
        Kind::Int(1) => &[1],
        _ => &[0xa5],
    };
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = pattern[i % pattern.len()];
    }
}

/// A shape with the dynamic dimensions filled in.
pub fn filled(shape: &[i64], sizes: &[Data]) -> Result<Vec<i64>, Failure> {
    let mut sizes = sizes.iter();
    let size = |d: &i64| match *d {
        DYNAMIC => sizes.next().ok_or("has too few sizes")?.as_int(),
        d => Ok(d),
    };
    let shape: Vec<i64> = shape.iter().map(size).collect::<Result<_, Failure>>()?;
    match shape.iter().find(|d| **d < 0) {
        Some(d) => Err(format!("has a dimension of {d}").into()),
        None => Ok(shape),
    }
}

impl LowerToEval for Extract {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let operands: Vec<Value> = op.ir.operands(op.id).collect();
        let out = result(op)?;
        let elem = op.ir.ty(out);
        let kind = Kind::of(elem).ok_or_else(|| format!("{elem} cannot be held"))?;
        cx.native(&operands, &[out], move |_, data| {
            if data.iter().any(Data::is_unknown) {
                return Ok(vec![Data::Unknown]);
            }
            let (tensor, indices) = data.split_first().ok_or("has no operands")?;
            let tensor = tensor.as_tensor()?;
            let indices: Vec<i64> = indices.iter().map(Data::as_int).collect::<Result<_, _>>()?;
            let at = View::of_array(tensor).at(&indices)?;
            let bits = usize::try_from(at)
                .ok()
                .and_then(|at| kind.read(tensor.bytes().get(at..)?));
            let bits = bits.ok_or("internal error: an element beyond the tensor")?;
            Ok(vec![Data::Scalar(Scalar { kind, bits })])
        });
        Ok(())
    }
}

impl Evaluate for Empty {
    fn evaluate(&self, _: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        let (ty, elem) = (self.result.0, self.result.0.elem());
        let shape = filled(ty.shape().unwrap_or(&[]), inputs)?;
        let dtype = dtype_of(elem).ok_or_else(|| format!("{elem} cannot be held"))?;
        let shape: Vec<usize> = shape.iter().map(|d| *d as usize).collect();
        let zeros = tir::interp::zeros(dtype, &shape)?;
        let (array, ()) = update(zeros, |bytes| fill_undefined(bytes, Kind::of_dtype(dtype)))?;
        Ok(vec![Data::Tensor(array)])
    }
}

impl LowerToEval for Generic {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let ir = op.ir;
        let run = GenericKernel::new(ir, self)?;
        let mut operands: Vec<Value> = self.operands().collect();
        operands.extend(run.kernel.captures());
        let memrefs = |v: &Value| ir.ty(*v).is::<MemRefType>();
        let results: Vec<Value> = ir.results(op.id).collect();
        if self.outputs.iter().any(memrefs) {
            cx.native(&operands, &results, move |env, data| {
                run.on_buffers(env, data)
            });
        } else {
            cx.native(&operands, &results, move |env, data| {
                run.on_tensors(env, data)
            });
        }
        Ok(())
    }
}

/// A generic, compiled, with what its operands are.
pub struct GenericKernel {
    kernel: Kernel,
    domain: Option<Vec<i64>>,
    inputs: usize,
    outputs: usize,
    /// The kinds of those inputs that are scalars.
    kinds: Vec<Option<Kind>>,
}

fn shape(data: &Data) -> Vec<i64> {
    match data {
        Data::Tensor(array) => array.shape().iter().map(|d| *d as i64).collect(),
        Data::View(view) => view.shape.to_vec(),
        _ => Vec::new(),
    }
}

impl GenericKernel {
    /// The kernel of a generic.
    ///
    /// # Errors
    /// If an op of its region cannot be run.
    pub fn new(ir: &Ir, generic: &Generic) -> Result<Self, Failure> {
        let output = generic.outputs.first();
        let unsigned = output.is_some_and(|v| is_unsigned(ir.ty(*v).elem()));
        let combine = generic.combine.map(|combine| match (combine, unsigned) {
            (Combine::Add, _) => tir::interp::Combine::Add,
            (Combine::Mul, _) => tir::interp::Combine::Mul,
            (Combine::Max, false) => tir::interp::Combine::Max,
            (Combine::Min, false) => tir::interp::Combine::Min,
            (Combine::Max, true) => tir::interp::Combine::MaxU,
            (Combine::Min, true) => tir::interp::Combine::MinU,
        });
        let spec = KernelSpec {
            body: ir.entry(generic.body).ok_or("has an empty region")?,
            maps: &generic.indexing_maps,
            inputs: generic.inputs.len(),
            combine,
        };
        let kernel = Kernel::compile(ir, &spec)?;
        // Static ranges are known now; others with the operands.
        let domain = generic.domain(ir)?;
        Ok(Self {
            kernel,
            domain: (!domain.contains(&DYNAMIC)).then_some(domain),
            inputs: generic.inputs.len(),
            outputs: generic.outputs.len(),
            kinds: generic.operands().map(|v| Kind::of(ir.ty(v))).collect(),
        })
    }

    /// Scalars from outside of the region that it uses.
    pub fn captured(&self) -> &[Value] {
        self.kernel.captures()
    }

    /// The new content of the outputs of a nest of static ranges; `captures` are the scalars from
    /// outside of its region.
    pub fn on_arrays(
        &self,
        inputs: &[Array],
        outputs: Vec<Array>,
        captures: &[Scalar],
    ) -> Result<Vec<Array>, Failure> {
        let domain = self
            .domain
            .as_ref()
            .ok_or("has ranges that are not known")?;
        self.kernel.run_arrays(domain, inputs, outputs, captures)
    }

    fn sizes(&self, data: &[Data]) -> Result<Vec<i64>, Failure> {
        if let Some(domain) = &self.domain {
            return Ok(domain.clone());
        }
        let shapes: Vec<Vec<i64>> = data
            .iter()
            .take(self.inputs + self.outputs)
            .map(shape)
            .collect();
        let shapes: Vec<&[i64]> = shapes.iter().map(|s| &**s).collect();
        self.kernel.sizes(&shapes)
    }
    /// The values of the captured scalars, which are behind the operands of the nest.
    pub fn captures(&self, data: &[Data]) -> Result<Vec<Scalar>, Failure> {
        data[self.inputs + self.outputs..]
            .iter()
            .map(Data::as_scalar)
            .collect()
    }

    /// Runs it on tensors; gives the results. Behind the operands of the nest are the scalars that it
    /// captures.
    pub fn on_tensors(&self, env: &mut Env<'_>, data: &mut [Data]) -> Result<Vec<Data>, Failure> {
        let (sizes, captures) = (self.sizes(data)?, self.captures(data)?);
        let points = sizes
            .iter()
            .fold(1u64, |n, d| n.saturating_mul(d.unsigned_abs()));
        env.step(points / 64)?;
        let (inputs, outputs) = data.split_at_mut(self.inputs);
        let mut arrays = Vec::new();
        for input in inputs.iter() {
            arrays.push(match input {
                Data::View(view) => env.view_to_array(view, elem_type(view.kind))?,
                other => other.to_array()?,
            });
        }
        let outputs = outputs.iter_mut().take(self.outputs).map(Data::take_tensor);
        let outputs = outputs.collect::<Result<Vec<_>, _>>()?;
        let reads: Vec<Input<'_>> = arrays.iter().map(Input::array).collect();
        let done = self.kernel.run_to(&sizes, &reads, outputs, &captures)?;
        Ok(done.into_iter().map(Data::Tensor).collect())
    }

    /// Runs it on buffers at once.
    pub fn on_buffers(&self, env: &mut Env<'_>, data: &mut [Data]) -> Result<Vec<Data>, Failure> {
        let sizes = self.sizes(data)?;
        let captures = match env.is_dataless() {
            true => Vec::new(),
            false => self.captures(data)?,
        };
        // Inputs that are no buffers get one while it runs.
        let mut made = Vec::new();
        let mut views: Vec<Rc<View>> = Vec::new();
        for (data, kind) in data.iter().zip(&self.kinds) {
            views.push(match (data, kind) {
                (Data::View(view), _) => view.clone(),
                // A scalar of a run without data.
                (_, Some(kind)) if env.is_dataless() => {
                    let view = env.alloc(*kind, &[], 64, None)?;
                    env.touch(&view, true)?;
                    made.push(view.buffer);
                    Rc::new(view)
                }
                (other, _) => {
                    let view = Rc::new(env.array_to_view(&other.to_array()?, None)?);
                    made.push(view.buffer);
                    view
                }
            });
        }
        let views: Vec<&View> = views.iter().map(|view| &**view).collect();
        let (inputs, outputs) = views.split_at(self.inputs);
        env.run_kernel(&self.kernel, &sizes, inputs, outputs, &captures)?;
        made.into_iter()
            .try_for_each(|buffer| env.dealloc(buffer))?;
        Ok(Vec::new())
    }
}

fn elem_type(kind: Kind) -> Type {
    match kind.format() {
        Some(format) => Type::new(format),
        None if kind == Kind::Index => Type::index(),
        None => Type::int(kind.width()),
    }
}

/// Numbers of a slice or transfer, dynamic ones from `data`, which is used up from its start.
pub fn numbers(list: &[i64], data: &mut &[Data]) -> Result<Vec<i64>, Failure> {
    let number = |n: &i64| {
        if *n != DYNAMIC {
            return Ok(*n);
        }
        let (first, rest) = data.split_first().ok_or("has too few operands")?;
        *data = rest;
        first.as_int()
    };
    list.iter().map(number).collect()
}

/// Which dimensions of a slice are kept, where unit dimensions may be dropped.
pub fn kept(sizes: &[i64], part: &[i64]) -> Vec<bool> {
    let mut rest = part.iter().peekable();
    let keep = |size: &i64| match rest.peek() {
        Some(next) if *next == size || **next == DYNAMIC => rest.next().is_some(),
        _ => false,
    };
    sizes.iter().map(keep).collect()
}

/// The part of a view that a slice takes: `lists` are its offsets, sizes and strides, `data` the
/// dynamic ones in this order, `shape` that of the part.
pub fn sub_view(
    view: &View,
    lists: [&[i64]; 3],
    data: &[Data],
    shape: &[i64],
) -> Result<View, Failure> {
    let mut data = data;
    let offsets = numbers(lists[0], &mut data)?;
    let sizes = numbers(lists[1], &mut data)?;
    let strides = numbers(lists[2], &mut data)?;
    let part = view.part(&offsets, &sizes, &strides)?;
    let kept = kept(lists[1], shape);
    Ok(part.drop_dims(|d| kept.get(d).copied().unwrap_or(true)))
}

impl Evaluate for ExtractSlice {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        let (source, places) = inputs.split_first().ok_or("has no operands")?;
        let source = source.as_tensor()?;
        let lists: [&[i64]; 3] = [
            &self.static_offsets,
            &self.static_sizes,
            &self.static_strides,
        ];
        let ty = op.ir.ty(result(op)?);
        let view = sub_view(
            &View::of_array(source),
            lists,
            places,
            ty.shape().unwrap_or(&[]),
        )?;
        let bytes = view.gather(source.bytes())?;
        Ok(vec![Data::Tensor(array_of(ty.elem(), &view.shape, bytes)?)])
    }
}

impl LowerToEval for InsertSlice {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let ir = op.ir;
        let operands: Vec<Value> = ir.operands(op.id).collect();
        let shape = ir.ty(self.source).shape().unwrap_or(&[]);
        let lists = [
            &self.static_offsets,
            &self.static_sizes,
            &self.static_strides,
        ]
        .map(Vec::clone);
        cx.native(&operands, &[result(op)?], move |_, data| {
            let [source, dest, places @ ..] = data else {
                return Err("has too few operands".into());
            };
            let (source, dest) = (source.as_tensor()?.clone(), dest.take_tensor()?);
            let lists: [&[i64]; 3] = [&lists[0], &lists[1], &lists[2]];
            let view = sub_view(&View::of_array(&dest), lists, places, shape)?;
            let (dest, done) = update(dest, |bytes| view.scatter(bytes, source.bytes()))?;
            done?;
            Ok(vec![Data::Tensor(dest)])
        });
        Ok(())
    }
}

/// The bytes of the padding of a transfer: those of a scalar, zeros if there is none.
pub fn padding(data: Option<&Data>, kind: Kind) -> Result<Vec<u8>, Failure> {
    let mut bytes = vec![0; kind.bytes()];
    if let Some(data) = data {
        kind.write(data.as_scalar()?.bits, &mut bytes)
            .ok_or("has padding of unknown size")?;
    }
    Ok(bytes)
}

impl Evaluate for TransferRead {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        let (source, mut rest) = inputs.split_first().ok_or("has no operands")?;
        let source = source.as_tensor()?;
        let offsets = numbers(&self.static_offsets, &mut rest)?;
        let large = View::of_array(source);
        let pad = padding(rest.first().filter(|_| self.padding.is_some()), large.kind)?;
        let ty = op.ir.ty(result(op)?);
        let shape = ty.shape().unwrap_or(&[]);
        let bytes = tiles::read(source.bytes(), &large, shape, &offsets, &self.access, &pad)?;
        Ok(vec![Data::Tensor(array_of(ty.elem(), shape, bytes)?)])
    }
}

impl LowerToEval for TransferWrite {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let ir = op.ir;
        let operands: Vec<Value> = ir.operands(op.id).collect();
        let shape = ir.ty(self.source).shape().unwrap_or(&[]);
        let (static_offsets, access) = (self.static_offsets.clone(), self.access.clone());
        cx.native(&operands, &[result(op)?], move |_, data| {
            let [tile, dest, places @ ..] = data else {
                return Err("has too few operands".into());
            };
            let (tile, dest) = (tile.as_tensor()?.clone(), dest.take_tensor()?);
            let offsets = numbers(&static_offsets, &mut &*places)?;
            let large = View::of_array(&dest);
            let (dest, done) = update(dest, |bytes| {
                tiles::write(bytes, &large, tile.bytes(), shape, &offsets, &access)
            })?;
            done?;
            Ok(vec![Data::Tensor(dest)])
        });
        Ok(())
    }
}

fn reshaped(op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
    let source = inputs.first().ok_or("has no operand")?.as_tensor()?;
    let shape = op.ir.ty(result(op)?).shape().unwrap_or(&[]);
    let shape: Option<Vec<usize>> = shape.iter().map(|d| usize::try_from(*d).ok()).collect();
    let shape = shape.ok_or("has a result whose shape is dynamic")?;
    Ok(vec![Data::Tensor(
        source.reshaped(&shape).map_err(failure)?,
    )])
}
impl Evaluate for CollapseShape {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        reshaped(op, inputs)
    }
}
impl Evaluate for ExpandShape {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        reshaped(op, inputs)
    }
}
