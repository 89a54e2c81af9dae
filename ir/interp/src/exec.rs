//! The loop that runs compiled code.
//!
//! *Terms.* A **frame** is the registers of one active call; calls stack in a list and not on the
//! thread's stack, so that recursion of a program ends in an error. A **cursor** steps through memory
//! along a loop. **Unknown** is, in a run without data, what depends on data.
//!
//! *Invariants.* Bounds of a cursor are checked where it is put on its first element, for the whole
//! loop; its loads and stores rely on that. An unknown register is never looked at: a branch, a bound
//! or an address that is unknown is an error at its op. An object register that is read for the last
//! time is moved out, so that an op may change a tensor that nobody else holds in place.

mod calls;

use std::rc::{Rc, Weak};

use tir_core::Failure;

use crate::access::{
    CursorState, NOWHERE, address, load, mac, seek, store, touch, touch_steps, trips, work,
};
use crate::code::{Code, Instr, Offset, Port, Slot, Subview};
use crate::compile::placed;
use crate::data::Data;
use crate::env::{Env, out_of_steps};
use crate::memory::Round;
use crate::ops::ScalarOp;
use crate::scalar::Scalar;

pub(crate) use calls::run_code;

/// What a frame stops for.
enum Stop<'m> {
    Return(Vec<Data>),
    Call(Rc<Code<'m>>, Vec<Data>),
}

struct Frame {
    regs: Vec<u64>,
    /// In a run without data, the scalar registers whose content depends on data. What such a
    /// register holds is of no meaning: whatever would look at it fails.
    unknown: Vec<bool>,
    objects: Vec<Data>,
    places: Vec<CursorState>,
    /// Operands of natives, kept for its memory.
    inputs: Vec<Data>,
}

impl Frame {
    fn new(code: &Code<'_>, args: Vec<Data>) -> Self {
        let mut frame = Frame {
            regs: code.scalars.clone(),
            objects: vec![Data::None; code.objects as usize],
            places: vec![NOWHERE; code.cursors.len()],
            unknown: vec![false; code.scalars.len()],
            inputs: Vec::new(),
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
                self.regs[reg.index as usize] = scalar.bits;
                self.unknown[reg.index as usize] = false;
            }
            (Slot::Scalar(reg), Data::Unknown) => self.unknown[reg.index as usize] = true,
            (Slot::Object(index), data) => self.objects[index as usize] = data,
            _ => {}
        }
    }
    fn get(&mut self, port: Port) -> Data {
        match port.slot {
            Slot::Scalar(reg) if self.unknown[reg.index as usize] => Data::Unknown,
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
    /// Makes a part of a view: in the place of the last one that stood in the register, if
    /// nobody else holds that.
    fn part(&mut self, part: &Subview) -> Result<(), Failure> {
        let mut old = std::mem::take(&mut self.objects[part.dst as usize]);
        let source = self.objects[part.src as usize].as_view()?;
        let offset = |d: usize| match part.offsets[d] {
            Offset::Number(n) => n,
            Offset::Reg(r) => self.regs[r as usize] as i64,
        };
        let same = part.keep.iter().filter(|k| **k).count();
        let done = match &mut old {
            Data::View(view) if view.shape.len() == same => match Rc::get_mut(view) {
                Some(view) => {
                    source.part_into(offset, &part.sizes, &part.steps, &part.keep, view)?;
                    old
                }
                None => source
                    .part_of(offset, &part.sizes, &part.steps, &part.keep)?
                    .into(),
            },
            _ => source
                .part_of(offset, &part.sizes, &part.steps, &part.keep)?
                .into(),
        };
        self.objects[part.dst as usize] = done;
        Ok(())
    }
    fn resume(&mut self, outputs: &[Slot], results: Vec<Data>) -> Result<(), Failure> {
        if outputs.len() != results.len() {
            let (want, found) = (outputs.len(), results.len());
            return Err(format!("gave {found} results, expected {want}").into());
        }
        for (slot, data) in outputs.iter().zip(results) {
            if let Slot::Scalar(reg) = slot
                && !data.is_unknown()
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

    /// Runs until a call or a return. `DATALESS` is a run without data, which keeps track of
    /// what depends on it.
    fn run<'m, const DATALESS: bool>(
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
        // The result depends on data if one of these registers does.
        macro_rules! depends {
            ($dst:expr, $($of:expr),*) => {
                if DATALESS {
                    self.unknown[$dst as usize] = $(self.unknown[$of as usize])||*;
                }
            };
        }
        // These registers must not depend on data.
        macro_rules! needs {
            ($what:literal, $($of:expr),*) => {
                if DATALESS && ($(self.unknown[$of as usize])||*) {
                    env.lacked_data = true;
                    tri!(Err::<(), _>(concat!($what, " depends on data")));
                }
            };
        }
        // The address of an element of a view.
        macro_rules! element {
            ($regs:expr, $view:expr, $list:expr, $rank:expr) => {{
                let indices = &code.lists[$list as usize..$list as usize + $rank as usize];
                if DATALESS && indices.iter().any(|r| self.unknown[*r as usize]) {
                    env.lacked_data = true;
                    tri!(Err::<(), _>(UNKNOWN_ADDRESS));
                }
                tri!(address(&self.objects[$view as usize], indices, $regs))
            }};
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
                    depends!(dst, a, b);
                }
                Instr::MulI { dst, a, b } => {
                    regs[dst as usize] = regs[a as usize].wrapping_mul(regs[b as usize]);
                    depends!(dst, a, b);
                }
                Instr::AddF { dst, a, b } => {
                    let sum = float(regs[a as usize]) + float(regs[b as usize]);
                    regs[dst as usize] = sum.to_bits().into();
                    depends!(dst, a, b);
                }
                Instr::SubF { dst, a, b } => {
                    let difference = float(regs[a as usize]) - float(regs[b as usize]);
                    regs[dst as usize] = difference.to_bits().into();
                    depends!(dst, a, b);
                }
                Instr::MulF { dst, a, b } => {
                    let product = float(regs[a as usize]) * float(regs[b as usize]);
                    regs[dst as usize] = product.to_bits().into();
                    depends!(dst, a, b);
                }
                Instr::Op { op, dst, a, b, c } => {
                    if DATALESS {
                        let unknown = unknown_result(op, [a, b, c], &self.unknown, regs);
                        self.unknown[dst as usize] = unknown;
                        if unknown {
                            pc += 1;
                            continue;
                        }
                    }
                    let args = [regs[a as usize], regs[b as usize], regs[c as usize]];
                    regs[dst as usize] = tri!(op.apply(args));
                }
                Instr::Move { dst, src } => {
                    regs[dst as usize] = regs[src as usize];
                    depends!(dst, src);
                }
                Instr::LoadNext { dst, cursor, kind } => {
                    let place = &mut self.places[cursor as usize];
                    let at = place.at;
                    place.at = at.wrapping_add(place.step);
                    if DATALESS {
                        tri!(touch(env, code, pc, (place.buffer, at, kind), false));
                        self.unknown[dst as usize] = true;
                    } else {
                        regs[dst as usize] = tri!(load(env, code, pc, place.buffer, at, kind));
                    }
                }
                Instr::StoreNext { src, cursor, kind } => {
                    let place = &mut self.places[cursor as usize];
                    let at = place.at;
                    place.at = at.wrapping_add(place.step);
                    if DATALESS {
                        tri!(touch(env, code, pc, (place.buffer, at, kind), true));
                        pc += 1;
                        continue;
                    }
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
                    let (buffer, at) = element!(regs, view, list, rank);
                    if DATALESS {
                        tri!(touch(env, code, pc, (buffer, at, kind), false));
                        self.unknown[dst as usize] = true;
                    } else {
                        regs[dst as usize] = tri!(load(env, code, pc, buffer, at, kind));
                    }
                }
                Instr::Store {
                    src,
                    view,
                    list,
                    rank,
                    kind,
                } => {
                    let (buffer, at) = element!(regs, view, list, rank);
                    if DATALESS {
                        tri!(touch(env, code, pc, (buffer, at, kind), true));
                        pc += 1;
                        continue;
                    }
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
                    needs!("the range of a loop", iv, upper, step);
                    if DATALESS && cursor_of.indices.iter().any(|r| self.unknown[r.0 as usize]) {
                        env.lacked_data = true;
                        tri!(Err::<(), _>(placed(UNKNOWN_ADDRESS.into(), cursor_of.site)));
                    }
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
                    if DATALESS {
                        tri!(touch_steps(env, code, pc, x, trips));
                        tri!(touch_steps(env, code, pc, y, trips));
                        self.unknown[acc as usize] = true;
                        pc += 1;
                        continue;
                    }
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
                    needs!("the range of a loop", iv, upper, step);
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
                    needs!("what a branch goes by", cond);
                    if regs[cond as usize] != 0 {
                        pc = to as usize;
                        continue;
                    }
                }
                Instr::JumpUnless { cond, to } => {
                    needs!("what a branch goes by", cond);
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
                    needs!("which memref is selected", cond);
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
                    let mut inputs = std::mem::take(&mut self.inputs);
                    inputs.extend(native.inputs.iter().map(|p| self.get(*p)));
                    let results = (native.run)(env, &mut inputs);
                    if DATALESS && results.is_err() {
                        env.lacked_data |= inputs.iter().any(Data::is_unknown);
                    }
                    let results = tri!(results);
                    inputs.clear();
                    self.inputs = inputs;
                    tri!(self.resume(&native.outputs, results));
                }
                Instr::Subview(n) => {
                    let part = &code.parts[n as usize];
                    let unknown =
                        |o: &Offset| matches!(o, Offset::Reg(r) if self.unknown[*r as usize]);
                    if DATALESS && part.offsets.iter().any(unknown) {
                        env.lacked_data = true;
                        tri!(Err::<(), _>("an offset depends on data"));
                    }
                    tri!(self.part(part));
                }
                Instr::Work(ops) => tri!(work(env, code, pc, ops.into())),
                Instr::WorkLoop {
                    ops,
                    iv,
                    upper,
                    step,
                } => {
                    let (low, high) = (regs[iv as usize] as i64, regs[upper as usize] as i64);
                    let trips = trips(low, high, regs[step as usize] as i64);
                    tri!(work(env, code, pc, trips.saturating_mul(ops.into())));
                }
                Instr::Passed(number) => env.memory().passed(number),
                Instr::Round {
                    number,
                    iv,
                    upper,
                    step,
                } => {
                    let (at, by) = (regs[iv as usize] as i64, regs[step as usize] as i64);
                    let round = Round {
                        number,
                        at,
                        step: by,
                        left: trips(at, regs[upper as usize] as i64, by),
                        objects: &self.objects,
                    };
                    let skipped = tri!(env.memory().round(&round));
                    // The last iteration is run, so that the counter ends as it would.
                    let skipped = skipped.min(round.left.saturating_sub(1));
                    let on = i64::try_from(skipped)
                        .ok()
                        .and_then(|n| at.checked_add(n.checked_mul(by)?));
                    match on {
                        Some(on) => regs[iv as usize] = on as u64,
                        None => tri!(Err::<(), _>("leaves out too many iterations")),
                    }
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
                Instr::Check { cond, message } => {
                    let unknown = DATALESS && self.unknown[cond as usize];
                    if !unknown && regs[cond as usize] == 0 {
                        *at = pc;
                        return Err(code.messages[message as usize].as_str().into());
                    }
                }
                Instr::Label(_) => {}
            }
            pc += 1;
        }
    }
}

const UNKNOWN_ADDRESS: &str = "an index depends on data";

/// Whether the result of an operation depends on data, given which registers do: a selection
/// only on what is selected.
fn unknown_result(op: ScalarOp, args: [u32; 3], unknown: &[bool], regs: &[u64]) -> bool {
    let of = |i: usize| unknown[args[i] as usize];
    match op {
        ScalarOp::Select(_) if !of(0) && regs[args[0] as usize] != 0 => of(1),
        ScalarOp::Select(_) if !of(0) => of(2),
        op => (0..op.inputs().1).any(of),
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
