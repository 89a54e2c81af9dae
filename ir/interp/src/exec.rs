//! The loop that runs compiled code.

use std::rc::Rc;

use tir_core::Failure;

use crate::code::{Code, Cursor, Instr, Port, Slot};
use crate::compile::placed;
use crate::data::Data;
use crate::env::{Env, Store, out_of_steps};
use crate::memory::{Buffer, Site};
use crate::scalar::{Kind, Scalar};
use crate::view::{View, out_of_bounds};

/// Where a cursor stands.
#[derive(Clone, Copy)]
struct Place {
    buffer: Buffer,
    at: i64,
    step: i64,
}

const NOWHERE: Place = Place {
    buffer: Buffer(u32::MAX),
    at: 0,
    step: 0,
};

/// Runs a function with arguments of its types.
pub(crate) fn run_code<'m>(
    env: &mut Env<'m>,
    code: &Code<'m>,
    args: Vec<Data>,
) -> Result<Vec<Data>, Failure> {
    if env.depth >= env.options.depth {
        return Err(format!(
            "calls nest deeper than {}, the limit of this run",
            env.options.depth
        )
        .into());
    }
    env.depth += 1;
    let outer = env.site;
    let mut frame = Frame {
        regs: code.scalars.clone(),
        objects: vec![Data::None; code.objects as usize],
        places: vec![NOWHERE; code.cursors.len()],
    };
    for (index, data) in &code.constants {
        frame.objects[*index as usize] = data.clone();
    }
    for (data, (slot, _)) in args.into_iter().zip(&code.params) {
        frame.put(*slot, data);
    }
    let mut pc = 0;
    let result = frame.run(env, code, &mut pc);
    env.depth -= 1;
    env.site = outer;
    result.map_err(|e| match code.site(pc) {
        Some(site) if e.loc.is_unknown() => placed(e, site),
        Some(site) if matches!(code.instrs.get(pc), Some(Instr::Call(_))) && e.notes.len() < 8 => {
            let note = format!("called from @{}", code.name);
            Box::new((*e).note_at(site.loc, note))
        }
        _ => e,
    })
}

struct Frame {
    regs: Vec<u64>,
    objects: Vec<Data>,
    places: Vec<Place>,
}

impl Frame {
    fn put(&mut self, slot: Slot, data: Data) {
        match (slot, data) {
            (Slot::Scalar(reg), Data::Scalar(scalar)) => {
                self.regs[reg.index as usize] = scalar.bits
            }
            (Slot::Object(index), data) => self.objects[index as usize] = data,
            _ => {}
        }
    }
    fn get(&mut self, port: Port) -> Data {
        match port.slot {
            Slot::Scalar(reg) => {
                let bits = self.regs[reg.index as usize];
                Data::Scalar(Scalar {
                    kind: reg.kind,
                    bits,
                })
            }
            Slot::Object(index) if port.last => std::mem::take(&mut self.objects[index as usize]),
            Slot::Object(index) => self.objects[index as usize].clone(),
        }
    }
    fn finish(&mut self, outputs: &[Slot], results: Vec<Data>) -> Result<(), Failure> {
        if outputs.len() != results.len() {
            let (want, found) = (outputs.len(), results.len());
            return Err(format!("gave {found} results, expected {want}").into());
        }
        for (slot, data) in outputs.iter().zip(results) {
            if let Slot::Scalar(reg) = slot
                && data.as_scalar()?.kind != reg.kind
            {
                return Err(
                    format!("gave {data:?}, expected a scalar of kind {:?}", reg.kind).into(),
                );
            }
            self.put(*slot, data);
        }
        Ok(())
    }

    fn run<'m>(
        &mut self,
        env: &mut Env<'m>,
        code: &Code<'m>,
        at: &mut usize,
    ) -> Result<Vec<Data>, Failure> {
        let mut pc = 0usize;
        // The instruction that fails is where `at` points.
        macro_rules! tri {
            ($e:expr) => {
                match $e {
                    Ok(value) => value,
                    Err(error) => {
                        *at = pc;
                        return Err(error.into());
                    }
                }
            };
        }
        let instrs = &code.instrs[..];
        loop {
            let Some(instr) = instrs.get(pc) else {
                *at = pc;
                return Err("the function ends without a return".into());
            };
            let regs = &mut self.regs[..];
            match *instr {
                Instr::AddI { dst, a, b } => {
                    regs[dst as usize] = regs[a as usize].wrapping_add(regs[b as usize]);
                }
                Instr::MulI { dst, a, b } => {
                    regs[dst as usize] = regs[a as usize].wrapping_mul(regs[b as usize]);
                }
                Instr::AddF { dst, a, b } => {
                    let sum = float(regs[a as usize]) + float(regs[b as usize]);
                    regs[dst as usize] = sum.to_bits().into();
                }
                Instr::SubF { dst, a, b } => {
                    let difference = float(regs[a as usize]) - float(regs[b as usize]);
                    regs[dst as usize] = difference.to_bits().into();
                }
                Instr::MulF { dst, a, b } => {
                    let product = float(regs[a as usize]) * float(regs[b as usize]);
                    regs[dst as usize] = product.to_bits().into();
                }
                Instr::Op { op, dst, a, b, c } => {
                    let args = [regs[a as usize], regs[b as usize], regs[c as usize]];
                    regs[dst as usize] = tri!(op.apply(args));
                }
                Instr::Move { dst, src } => regs[dst as usize] = regs[src as usize],
                Instr::LoadNext { dst, cursor, kind } => {
                    let place = &mut self.places[cursor as usize];
                    let at = place.at;
                    place.at = at.wrapping_add(place.step);
                    regs[dst as usize] = tri!(load(env, code, pc, place.buffer, at, kind));
                }
                Instr::StoreNext { src, cursor, kind } => {
                    let place = &mut self.places[cursor as usize];
                    let at = place.at;
                    place.at = at.wrapping_add(place.step);
                    tri!(store(
                        env,
                        code,
                        pc,
                        place.buffer,
                        at,
                        kind,
                        regs[src as usize]
                    ));
                }
                Instr::Load {
                    dst,
                    view,
                    list,
                    rank,
                    kind,
                } => {
                    let indices = &code.lists[list as usize..list as usize + rank as usize];
                    let (buffer, at) = tri!(address(&self.objects[view as usize], indices, regs));
                    regs[dst as usize] = tri!(load(env, code, pc, buffer, at, kind));
                }
                Instr::Store {
                    src,
                    view,
                    list,
                    rank,
                    kind,
                } => {
                    let indices = &code.lists[list as usize..list as usize + rank as usize];
                    let (buffer, at) = tri!(address(&self.objects[view as usize], indices, regs));
                    tri!(store(env, code, pc, buffer, at, kind, regs[src as usize]));
                }
                Instr::Seek {
                    cursor,
                    iv,
                    upper,
                    step,
                } => {
                    let count = (
                        regs[iv as usize] as i64,
                        regs[upper as usize] as i64,
                        regs[step as usize] as i64,
                    );
                    let cursor_of = &code.cursors[cursor as usize];
                    let view = &self.objects[cursor_of.view as usize];
                    self.places[cursor as usize] = tri!(seek(cursor_of, view, regs, count));
                }
                Instr::MacLoop {
                    acc,
                    x,
                    y,
                    iv,
                    upper,
                    step,
                } => {
                    let (low, high) = (regs[iv as usize] as i64, regs[upper as usize] as i64);
                    let trips = trips(low, high, regs[step as usize] as i64);
                    tri!(env.step(trips));
                    let (x, y) = (self.places[x as usize], self.places[y as usize]);
                    let start = float(regs[acc as usize]);
                    let sum = tri!(mac(env, code, pc, start, x, y, trips));
                    regs[acc as usize] = sum.to_bits().into();
                }
                Instr::LoopEnter {
                    iv,
                    upper,
                    step,
                    exit,
                } => {
                    if regs[step as usize] as i64 <= 0 {
                        *at = pc;
                        return Err(format!(
                            "the step is {}, expected more than 0",
                            regs[step as usize] as i64
                        )
                        .into());
                    }
                    if regs[iv as usize] as i64 >= regs[upper as usize] as i64 {
                        pc = exit as usize;
                        continue;
                    }
                }
                Instr::LoopNext {
                    iv,
                    upper,
                    step,
                    body,
                } => {
                    if env.left == 0 {
                        *at = pc;
                        return Err(out_of_steps(env.options.steps));
                    }
                    env.left -= 1;
                    let next = (regs[iv as usize] as i64).checked_add(regs[step as usize] as i64);
                    if let Some(next) = next
                        && next < regs[upper as usize] as i64
                    {
                        regs[iv as usize] = next as u64;
                        pc = body as usize;
                        continue;
                    }
                }
                Instr::Jump(to) => {
                    tri!(env.step(1));
                    pc = to as usize;
                    continue;
                }
                Instr::JumpIf { cond, to } => {
                    if regs[cond as usize] != 0 {
                        pc = to as usize;
                        continue;
                    }
                }
                Instr::JumpUnless { cond, to } => {
                    if regs[cond as usize] == 0 {
                        pc = to as usize;
                        continue;
                    }
                }
                Instr::MoveObject { dst, src } => {
                    let data = std::mem::take(&mut self.objects[src as usize]);
                    self.objects[dst as usize] = data;
                }
                Instr::CopyObject { dst, src } => {
                    let data = self.objects[src as usize].clone();
                    self.objects[dst as usize] = data;
                }
                Instr::SelectObject { dst, cond, a, b } => {
                    let chosen = if regs[cond as usize] != 0 { a } else { b };
                    let data = self.objects[chosen as usize].clone();
                    self.objects[dst as usize] = data;
                }
                Instr::Native(n) => {
                    let native = &code.natives[n as usize];
                    if let Some(site) = code.site(pc) {
                        env.site = site;
                    }
                    tri!(env.step(1));
                    let mut inputs: Vec<Data> =
                        native.inputs.iter().map(|p| self.get(*p)).collect();
                    let results = tri!((native.run)(env, &mut inputs));
                    tri!(self.finish(&native.outputs, results));
                }
                Instr::Call(n) => {
                    let call = &code.calls[n as usize];
                    tri!(env.step(1));
                    let callee = match call.code.get() {
                        Some(callee) => callee.clone(),
                        None => {
                            let callee = tri!(env.function(call.callee));
                            tri!(fits(&callee, &call.inputs));
                            let _ = call.code.set(callee.clone());
                            callee
                        }
                    };
                    let args: Vec<Data> = call.inputs.iter().map(|p| self.get(*p)).collect();
                    if let Some(site) = code.site(pc) {
                        env.site = site;
                    }
                    let results = tri!(run_code(env, &callee, args));
                    tri!(self.finish(&call.outputs, results));
                }
                Instr::Return(n) => {
                    let ports = &code.returns[n as usize];
                    return Ok(ports.iter().map(|p| self.get(*p)).collect());
                }
                Instr::Fail(n) => {
                    *at = pc;
                    return Err(code.messages[n as usize].as_str().into());
                }
                Instr::Label(_) => {}
            }
            pc += 1;
        }
    }
}

#[inline(always)]
fn float(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

/// Whether the operands of a call are what the function takes.
fn fits(callee: &Rc<Code<'_>>, inputs: &[Port]) -> Result<(), Failure> {
    let alike = |a: Slot, b: Slot| match (a, b) {
        (Slot::Scalar(a), Slot::Scalar(b)) => a.kind == b.kind,
        (Slot::Object(_), Slot::Object(_)) => true,
        _ => false,
    };
    let same = callee.params.len() == inputs.len()
        && callee
            .params
            .iter()
            .zip(inputs)
            .all(|((p, _), i)| alike(*p, i.slot));
    if same {
        Ok(())
    } else {
        Err(format!("the operands are not those of @{}", callee.name).into())
    }
}

#[inline(always)]
fn address(view: &Data, indices: &[u32], regs: &[u64]) -> Result<(Buffer, i64), Failure> {
    let Data::View(view) = view else {
        return Err(no_view(view));
    };
    if indices.len() != view.shape.len() {
        let (found, rank) = (indices.len(), view.shape.len());
        return Err(format!("{found} indices into a memref of rank {rank}").into());
    }
    let mut at = view.offset;
    let dims = view.shape.iter().zip(&view.strides);
    for (dim, (reg, (n, stride))) in indices.iter().zip(dims).enumerate() {
        let index = regs[*reg as usize];
        if index >= *n as u64 {
            return Err(out_of_bounds(dim, index as i64, *n));
        }
        at = at.wrapping_add((index as i64).wrapping_mul(*stride));
    }
    Ok((view.buffer, at))
}

#[cold]
fn no_view(data: &Data) -> Failure {
    format!("expected a memref, found {}", data.what()).into()
}

fn trips(low: i64, high: i64, step: i64) -> u64 {
    if step <= 0 || low >= high {
        return 0;
    }
    high.abs_diff(low).div_ceil(step as u64)
}

/// Puts a cursor on the first element; checks that the first and the last are in bounds.
fn seek(
    cursor: &Cursor,
    view: &Data,
    regs: &[u64],
    (low, high, step): (i64, i64, i64),
) -> Result<Place, Failure> {
    let fail = |e: Failure| placed(e, cursor.site);
    let Data::View(view) = view else {
        return Err(fail(no_view(view)));
    };
    if cursor.indices.len() != view.shape.len() {
        let (found, rank) = (cursor.indices.len(), view.shape.len());
        return Err(fail(
            format!("{found} indices into a memref of rank {rank}").into(),
        ));
    }
    let last = trips(low, high, step) as i64 - 1;
    let mut place = Place {
        buffer: view.buffer,
        at: view.offset,
        step: 0,
    };
    for (dim, &(reg, grows)) in cursor.indices.iter().enumerate() {
        let (n, stride) = (view.shape[dim], view.strides[dim]);
        let first = regs[reg as usize] as i64;
        let by = grows.wrapping_mul(step);
        let end = if grows == 0 {
            first
        } else {
            first.saturating_add(by.saturating_mul(last))
        };
        for index in [first, end] {
            if index < 0 || index >= n {
                // The index that leaves first.
                let index = if (0..n).contains(&first) && by != 0 {
                    let room = if by > 0 { n - 1 - first } else { first };
                    first + (room / by.abs() + 1) * by
                } else {
                    first
                };
                return Err(fail(out_of_bounds(dim, index, n)));
            }
        }
        place.at = place.at.wrapping_add(first.wrapping_mul(stride));
        place.step = place.step.wrapping_add(by.wrapping_mul(stride));
    }
    Ok(place)
}

#[inline(always)]
fn load(
    env: &mut Env<'_>,
    code: &Code<'_>,
    pc: usize,
    buffer: Buffer,
    at: i64,
    kind: Kind,
) -> Result<u64, Failure> {
    if let Store::Plain(plain) = &env.store {
        let bytes = plain.fast(buffer).get(at as usize..).unwrap_or(&[]);
        let found = match kind {
            Kind::F32 => bytes
                .first_chunk()
                .map(|b| u64::from(u32::from_le_bytes(*b))),
            kind => kind.read(bytes),
        };
        if let Some(found) = found {
            return Ok(found);
        }
    }
    slow_load(env, code, pc, buffer, at, kind)
}

fn element(buffer: Buffer, at: i64, kind: Kind) -> View {
    View {
        buffer,
        kind,
        offset: at,
        shape: Vec::new(),
        strides: Vec::new(),
    }
}
fn site(env: &Env<'_>, code: &Code<'_>, pc: usize) -> Site {
    code.site(pc).unwrap_or(env.site)
}

#[inline(never)]
fn slow_load(
    env: &mut Env<'_>,
    code: &Code<'_>,
    pc: usize,
    buffer: Buffer,
    at: i64,
    kind: Kind,
) -> Result<u64, Failure> {
    let site = site(env, code, pc);
    let memory = env.memory();
    memory.touch(&element(buffer, at, kind), false, site)?;
    let bytes = memory.bytes(buffer)?;
    let found = usize::try_from(at)
        .ok()
        .and_then(|at| kind.read(bytes.get(at..)?));
    found.ok_or_else(|| beyond(at, kind, bytes.len()))
}

fn beyond(at: i64, kind: Kind, len: usize) -> Failure {
    format!(
        "byte {at} (of {}) is beyond a buffer of {len} bytes",
        kind.bytes()
    )
    .into()
}

#[inline(always)]
fn store(
    env: &mut Env<'_>,
    code: &Code<'_>,
    pc: usize,
    buffer: Buffer,
    at: i64,
    kind: Kind,
    bits: u64,
) -> Result<(), Failure> {
    if let Store::Plain(plain) = &mut env.store {
        let bytes = plain
            .fast_mut(buffer)
            .get_mut(at as usize..)
            .unwrap_or(&mut []);
        if kind == Kind::F32 {
            if let Some(chunk) = bytes.first_chunk_mut() {
                *chunk = (bits as u32).to_le_bytes();
                return Ok(());
            }
        } else if kind.write(bits, bytes).is_some() {
            return Ok(());
        }
    }
    let site = site(env, code, pc);
    let memory = env.memory();
    memory.touch(&element(buffer, at, kind), true, site)?;
    let bytes = memory.bytes_mut(buffer)?;
    let len = bytes.len();
    let done = usize::try_from(at)
        .ok()
        .and_then(|at| kind.write(bits, bytes.get_mut(at..)?));
    done.ok_or_else(|| beyond(at, kind, len))
}

/// `start + x[0]·y[0] + x[1]·y[1] + …`, in this order.
fn mac(
    env: &mut Env<'_>,
    code: &Code<'_>,
    pc: usize,
    start: f32,
    x: Place,
    y: Place,
    trips: u64,
) -> Result<f32, Failure> {
    let mut sum = start;
    if let Store::Plain(plain) = &env.store {
        let (a, b) = (plain.fast(x.buffer), plain.fast(y.buffer));
        let at = |bytes: &[u8], at: i64| {
            let chunk = bytes.get(at as usize..)?.first_chunk()?;
            Some(f32::from_le_bytes(*chunk))
        };
        let (mut i, mut j) = (x.at, y.at);
        let mut done = 0;
        while done < trips {
            let (Some(p), Some(q)) = (at(a, i), at(b, j)) else {
                break;
            };
            sum += p * q;
            i = i.wrapping_add(x.step);
            j = j.wrapping_add(y.step);
            done += 1;
        }
        if done == trips {
            return Ok(sum);
        }
        // Freed memory: said by the slow way.
        sum = start;
    }
    let (mut i, mut j) = (x.at, y.at);
    for _ in 0..trips {
        let p = float(slow_load(env, code, pc, x.buffer, i, Kind::F32)?);
        let q = float(slow_load(env, code, pc, y.buffer, j, Kind::F32)?);
        sum += p * q;
        i = i.wrapping_add(x.step);
        j = j.wrapping_add(y.step);
    }
    Ok(sum)
}
