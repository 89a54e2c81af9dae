//! The loop that runs compiled code.

use std::rc::{Rc, Weak};

use tir_core::Failure;

use crate::access::{NOWHERE, Place, address, load, mac, seek, store, trips};
use crate::code::{Code, Instr, Port, Slot};
use crate::compile::placed;
use crate::data::Data;
use crate::env::{Env, out_of_steps};
use crate::scalar::Scalar;

/// What a frame stops for.
enum Stop<'m> {
    Return(Vec<Data>),
    Call(Rc<Code<'m>>, Vec<Data>),
}

/// A call in progress.
struct Active<'m> {
    code: Rc<Code<'m>>,
    frame: Frame,
    /// The instruction that runs next, that failed, or the call that is waited for.
    pc: usize,
}

impl<'m> Active<'m> {
    fn new(code: Rc<Code<'m>>, args: Vec<Data>) -> Self {
        let frame = Frame::new(&code, args);
        Self { code, frame, pc: 0 }
    }
}

/// Runs a function with arguments of its types. Calls take no place on Rust's stack.
pub(crate) fn run_code<'m>(
    env: &mut Env<'m>,
    code: Rc<Code<'m>>,
    args: Vec<Data>,
) -> Result<Vec<Data>, Failure> {
    let outer = (env.site, env.depth);
    env.enter()?;
    let mut active = vec![Active::new(code, args)];
    let result = run_active(env, &mut active);
    (env.site, env.depth) = outer;
    let mut error = match result {
        Ok(values) => return Ok(values),
        Err(error) => error,
    };
    for (i, call) in active.iter().rev().enumerate() {
        let Some(site) = call.code.site(call.pc) else {
            continue;
        };
        if i == 0 {
            error = placed(error, site);
        } else if i < 8 {
            let note = format!("called from @{}", call.code.name);
            error = Box::new((*error).note_at(site.loc, note));
        }
    }
    Err(error)
}

fn run_active<'m>(env: &mut Env<'m>, active: &mut Vec<Active<'m>>) -> Result<Vec<Data>, Failure> {
    loop {
        let Some(top) = active.last_mut() else {
            return Err("internal error: no function runs".into());
        };
        let code = top.code.clone();
        match top.frame.run(env, &code, &mut top.pc)? {
            Stop::Call(callee, args) => {
                env.enter()?;
                active.push(Active::new(callee, args));
            }
            Stop::Return(values) => {
                env.depth -= 1;
                if active.len() == 1 {
                    return Ok(values);
                }
                active.pop();
                if let Some(top) = active.last_mut() {
                    let outputs = call_outputs(top.pc, &top.code);
                    top.frame.resume(&outputs, values)?;
                    top.pc += 1;
                }
            }
        }
    }
}

/// The registers that the call at this instruction writes.
fn call_outputs(pc: usize, code: &Code<'_>) -> Vec<Slot> {
    match code.instrs.get(pc) {
        Some(Instr::Call(n)) => code.calls[*n as usize].outputs.clone(),
        _ => Vec::new(),
    }
}

struct Frame {
    regs: Vec<u64>,
    objects: Vec<Data>,
    places: Vec<Place>,
}

impl Frame {
    fn new(code: &Code<'_>, args: Vec<Data>) -> Self {
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
        frame
    }
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
    fn resume(&mut self, outputs: &[Slot], results: Vec<Data>) -> Result<(), Failure> {
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
    ) -> Result<Stop<'m>, Failure> {
        let mut pc = *at;
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
                    tri!(self.resume(&native.outputs, results));
                }
                Instr::Call(n) => {
                    let call = &code.calls[n as usize];
                    tri!(env.step(1));
                    let callee = match call.code.get().and_then(Weak::upgrade) {
                        Some(callee) => callee,
                        None => {
                            let callee = tri!(env.function(call.callee));
                            tri!(fits(&callee, &call.inputs));
                            let _ = call.code.set(Rc::downgrade(&callee));
                            callee
                        }
                    };
                    let args: Vec<Data> = call.inputs.iter().map(|p| self.get(*p)).collect();
                    *at = pc;
                    return Ok(Stop::Call(callee, args));
                }
                Instr::Return(n) => {
                    let ports = &code.returns[n as usize];
                    *at = pc;
                    return Ok(Stop::Return(ports.iter().map(|p| self.get(*p)).collect()));
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
