//! Running the ops of memref.

use std::collections::BTreeMap;
use std::rc::Rc;

use tir::interp::{GIVEN_ALIGN, Kind, PlainMemory, View};
use tir::{
    Compiler, DYNAMIC, Data, Env, Failure, LowerToEval, MemRefType, Name, OpRef, Type, Value,
};
use tir_tensor::eval::{fill_undefined, filled, kept, numbers, padding, result, sub_view};
use tir_tensor::tiles;

use crate::{
    Alloc, CollapseShape, Copy, Dealloc, ExpandShape, GetGlobal, Load, Store, SubView,
    TransferRead, TransferWrite,
};

fn memref(ty: Type) -> Result<&'static MemRefType, Failure> {
    ty.get()
        .ok_or_else(|| format!("has a {ty} where a memref is expected").into())
}
fn kind(ty: &MemRefType) -> Result<Kind, Failure> {
    Kind::of(ty.elem).ok_or_else(|| format!("{} cannot be held", ty.elem).into())
}
type TwoViews<'a> = (Rc<View>, Rc<View>, &'a [Data]);

fn two(data: &mut [Data]) -> Result<TwoViews<'_>, Failure> {
    match data {
        [a, b, rest @ ..] => Ok((a.as_view()?.clone(), b.as_view()?.clone(), rest)),
        _ => Err("has too few operands".into()),
    }
}

impl LowerToEval for Alloc {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let ty = memref(self.memref.0)?;
        let (kind, align) = (kind(ty)?, self.alignment.unwrap_or(1).unsigned_abs());
        if ty.layout != tir::Layout::Identity {
            return Err(format!("makes a {}, which is not dense", self.memref.0).into());
        }
        let name = op.ir.hint(result(op)?);
        cx.native(&self.dynamic_sizes, &[result(op)?], move |env, sizes| {
            let shape = filled(&ty.shape, sizes)?;
            let view = env.alloc_named(kind, &shape, align, ty.space_name(), name)?;
            // Memory that knows what was written needs no pattern.
            if env.memory_as::<PlainMemory>().is_some() {
                fill_undefined(env.memory().bytes_mut(view.buffer)?, kind);
            }
            Ok(vec![view.into()])
        });
        Ok(())
    }
}

impl LowerToEval for Dealloc {
    fn lower<'m>(&self, _: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        cx.native(&[self.memref], &[], |env, data| {
            let buffer = data.first().ok_or("has no operand")?.as_view()?.buffer;
            env.dealloc(buffer)?;
            Ok(Vec::new())
        });
        Ok(())
    }
}

impl LowerToEval for crate::Prefetch {
    fn lower<'m>(&self, _: OpRef<'m>, _: &mut Compiler<'m>) -> Result<(), Failure> {
        Ok(())
    }
}

/// Buffers of the module that were asked for.
#[derive(Default)]
struct Globals(BTreeMap<Name, Rc<View>>);

fn global(env: &mut Env<'_>, name: Name, ty: &MemRefType) -> Result<Rc<View>, Failure> {
    if let Some(view) = env
        .ext::<Globals>()
        .and_then(|globals| globals.0.get(&name))
    {
        return Ok(view.clone());
    }
    let view = Rc::new(env.as_host(|env| new_global(env, name, ty))?);
    let mut globals = env.take_ext::<Globals>().unwrap_or_default();
    globals.0.insert(name, view.clone());
    env.put_ext(globals);
    Ok(view)
}

fn new_global(env: &mut Env<'_>, name: Name, ty: &MemRefType) -> Result<View, Failure> {
    if env.is_dataless() {
        let view = env.alloc_named(kind(ty)?, &ty.shape, 64, ty.space_name(), Some(name))?;
        env.touch(&view, true)?;
        return Ok(view);
    }
    let global = env
        .symbol(name)
        .ok_or_else(|| format!("'@{name}' is not defined"))?;
    let value = global.attr("initial_value");
    match value.filter(|v| v.type_of().is_some()) {
        Some(value) => {
            let tensor = Type::tensor(ty.shape.clone(), ty.elem);
            let data = tir::interp::constant(value, tensor)?;
            env.array_to_view(data.as_tensor()?, ty.space_name())
        }
        None => env.alloc(kind(ty)?, &ty.shape, GIVEN_ALIGN, ty.space_name()),
    }
}

impl LowerToEval for GetGlobal {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let (name, ty) = (self.name.0, memref(self.result.0)?);
        cx.native(&[], &[result(op)?], move |env, _| {
            Ok(vec![Data::View(global(env, name, ty)?)])
        });
        Ok(())
    }
}

impl LowerToEval for Load {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        cx.load(result(op)?, self.memref, &self.indices)
    }
}
impl LowerToEval for Store {
    fn lower<'m>(&self, _: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        cx.store(self.value, self.memref, &self.indices)
    }
}
impl LowerToEval for Copy {
    fn lower<'m>(&self, _: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        cx.native(&[self.source, self.target], &[], |env, data| {
            let (source, target, _) = two(data)?;
            env.copy_view(&source, &target)?;
            Ok(Vec::new())
        });
        Ok(())
    }
}

/// The thread touches the elements of the large buffer that belong to a tile. Plain memory does
/// not ask.
fn touch(
    env: &mut Env<'_>,
    large: &View,
    shape: &[i64],
    offsets: &[i64],
    access: &tir::AffineMap,
    write: bool,
) -> Result<(), Failure> {
    if env.memory_as::<PlainMemory>().is_some() {
        return Ok(());
    }
    let tile = View::dense(large.buffer, large.kind, shape);
    let site = env.site();
    tiles::rows(large, &tile, offsets, access, |row| {
        if row.low >= row.high {
            return Ok(());
        }
        let touched = large.elsewhere(row.large, [row.high - row.low], [row.large_step]);
        env.memory().touch(&touched, write, site)
    })
}

impl LowerToEval for TransferRead {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let operands: Vec<Value> = op.ir.operands(op.id).collect();
        let (static_offsets, access) = (self.static_offsets.clone(), self.access.clone());
        cx.native(&operands, &[], move |env, data| {
            let (large, tile, mut rest) = two(data)?;
            let offsets = numbers(&static_offsets, &mut rest)?;
            touch(env, &large, &tile.shape, &offsets, &access, false)?;
            if env.is_dataless() {
                env.touch(&tile, true)?;
                return Ok(Vec::new());
            }
            let pad = padding(rest.first(), large.kind)?;
            let bytes = env.memory().bytes(large.buffer)?;
            let bytes = tiles::read(bytes, &large, &tile.shape, &offsets, &access, &pad)?;
            env.write_view(&tile, &bytes)?;
            Ok(Vec::new())
        });
        Ok(())
    }
}

impl LowerToEval for TransferWrite {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let operands: Vec<Value> = op.ir.operands(op.id).collect();
        let (static_offsets, access) = (self.static_offsets.clone(), self.access.clone());
        cx.native(&operands, &[], move |env, data| {
            let (tile, large, mut rest) = two(data)?;
            let offsets = numbers(&static_offsets, &mut rest)?;
            if env.is_dataless() {
                env.touch(&tile, false)?;
                return touch(env, &large, &tile.shape, &offsets, &access, true)
                    .map(|()| Vec::new());
            }
            let elements = env.read_view(&tile)?;
            touch(env, &large, &tile.shape, &offsets, &access, true)?;
            let bytes = env.memory().bytes_mut(large.buffer)?;
            tiles::write(bytes, &large, &elements, &tile.shape, &offsets, &access)?;
            Ok(Vec::new())
        });
        Ok(())
    }
}

impl LowerToEval for SubView {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let operands: Vec<Value> = op.ir.operands(op.id).collect();
        let lists = [
            &self.static_offsets,
            &self.static_sizes,
            &self.static_strides,
        ]
        .map(Vec::clone);
        let shape = self.result.0.shape().unwrap_or(&[]);
        let moving = [&self.static_sizes, &self.static_strides];
        if !moving.iter().any(|list| list.contains(&DYNAMIC)) {
            return cx.part(
                result(op)?,
                self.source,
                (&self.static_offsets, &self.offsets),
                (&self.static_sizes, &self.static_strides),
                &kept(&self.static_sizes, shape),
            );
        }
        cx.native(&operands, &[result(op)?], move |_, data| {
            let (source, places) = data.split_first().ok_or("has no operands")?;
            let lists: [&[i64]; 3] = [&lists[0], &lists[1], &lists[2]];
            Ok(vec![
                sub_view(source.as_view()?, lists, places, shape)?.into(),
            ])
        });
        Ok(())
    }
}

impl LowerToEval for crate::View {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let operands: Vec<Value> = op.ir.operands(op.id).collect();
        let ty = memref(self.result.0)?;
        let kind = kind(ty)?;
        let name = op.ir.hint(result(op)?);
        cx.native(&operands, &[result(op)?], move |env, data| {
            let [source, shift, sizes @ ..] = data else {
                return Err("has too few operands".into());
            };
            let (source, shift) = (source.as_view()?, shift.as_int()?);
            let shape = filled(&ty.shape, sizes)?;
            let mut view = View::dense(source.buffer, kind, &shape);
            let size = i64::try_from(view.bytes()).map_err(|_| "a view overflows")?;
            let all = source.shape.first().copied().unwrap_or(0);
            if shift < 0 || shift.checked_add(size).is_none_or(|end| end > all) {
                return Err(format!(
                    "views bytes {shift} to {} of {all}",
                    shift.saturating_add(size)
                )
                .into());
            }
            let offset = source.offset + shift;
            let site = env.site();
            let own = match (u64::try_from(offset), u64::try_from(size)) {
                (Ok(at), Ok(size)) => env.memory().part(source.buffer, at, size, name, site)?,
                _ => None,
            };
            match own {
                Some(buffer) => view.strided.buffer = buffer,
                None => view.strided.offset = offset,
            }
            Ok(vec![view.into()])
        });
        Ok(())
    }
}

impl LowerToEval for crate::ReinterpretCast {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let operands: Vec<Value> = op.ir.operands(op.id).collect();
        let kind = kind(memref(self.result.0)?)?;
        let size = kind.bytes() as i64;
        let (offset, shape) = (self.static_offsets.clone(), self.static_sizes.clone());
        let strides = self.static_strides.clone();
        let farthest: i64 = shape
            .iter()
            .zip(&strides)
            .map(|(n, s)| (n - 1).max(0) * s)
            .sum();
        let empty = shape.contains(&0);
        cx.native(&operands, &[result(op)?], move |_, data| {
            let (source, moved) = data.split_first().ok_or("has no operands")?;
            let source = source.as_view()?;
            let first = match moved.first() {
                Some(place) => place.as_int()?,
                None => offset[0],
            };
            let all: i64 = source
                .shape
                .iter()
                .zip(&source.strides[..])
                .map(|(n, s)| (n - 1).max(0) * s)
                .sum();
            let last = first.saturating_add(farthest).saturating_mul(size);
            if first < 0 || !empty && last > all {
                return Err(format!(
                    "views elements {first} to {} of a buffer of {}",
                    first.saturating_add(farthest),
                    all / size + 1
                )
                .into());
            }
            let at = source.offset + first * size;
            let strides = strides.iter().map(|s| s * size);
            Ok(vec![
                source.elsewhere(at, shape.iter().copied(), strides).into(),
            ])
        });
        Ok(())
    }
}

impl LowerToEval for crate::Cast {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let (out, ty) = (result(op)?, memref(self.dest.0)?);
        let size = kind(ty)?.bytes() as i64;
        let steps = ty.strides().map(|(steps, _)| steps);
        cx.native(&[self.source], &[out], move |_, data| {
            let view = data.first().ok_or("has no operand")?.as_view()?;
            let agree = |(said, is): (&i64, i64)| *said == DYNAMIC || *said == is;
            let shape = ty.shape.iter().zip(view.shape.iter().copied()).all(agree);
            // Where there is at most one element, no step is taken.
            let mut strides = steps.iter().flatten().zip(&view.strides).zip(&view.shape);
            if !shape || !strides.all(|((said, is), n)| *n < 2 || agree((said, is / size))) {
                let (sizes, bytes) = (&view.shape, &view.strides);
                return Err(format!(
                    "the buffer has sizes {sizes:?} and strides of {bytes:?} bytes"
                )
                .into());
            }
            Ok(vec![Data::View(view.clone())])
        });
        Ok(())
    }
}
impl LowerToEval for crate::Dim {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        cx.native(&[self.source, self.index], &[result(op)?], |_, data| {
            let [source, index] = data else {
                return Err("has not two operands".into());
            };
            let (view, index) = (source.as_view()?, index.as_int()?);
            let size = usize::try_from(index)
                .ok()
                .and_then(|at| view.shape.get(at));
            let size = size.ok_or_else(|| {
                format!(
                    "asks for dimension {index} of a buffer of rank {}",
                    view.shape.len()
                )
            })?;
            Ok(vec![Data::index(*size)])
        });
        Ok(())
    }
}

/// A view with the strides of another type's layout, whose elements are the same in order.
fn reshape<'m>(cx: &mut Compiler<'m>, src: Value, op: OpRef<'m>) -> Result<(), Failure> {
    let out = result(op)?;
    let ty = memref(op.ir.ty(out))?;
    let size = kind(ty)?.bytes() as i64;
    let (strides, _) = ty.strides().ok_or("has a layout that is not strided")?;
    if strides.contains(&DYNAMIC) || ty.shape.contains(&DYNAMIC) {
        return Err(format!("makes a {}, whose strides are not known", op.ir.ty(out)).into());
    }
    cx.native(&[src], &[out], move |_, data| {
        let source = data.first().ok_or("has no operand")?.as_view()?;
        let strides = strides.iter().map(|s| s * size);
        let view = source.elsewhere(source.offset, ty.shape.iter().copied(), strides);
        Ok(vec![view.into()])
    });
    Ok(())
}
impl LowerToEval for CollapseShape {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        reshape(cx, self.src, op)
    }
}
impl LowerToEval for ExpandShape {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        reshape(cx, self.src, op)
    }
}
