//! Calls in progress, in a list.

use std::rc::Rc;

use tir_core::Failure;

use super::{Frame, Stop};
use crate::code::{Code, Instr, Slot};
use crate::compile::placed;
use crate::data::Data;
use crate::env::Env;

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
        let stop = match env.dataless {
            false => top.frame.run::<false>(env, &code, &mut top.pc)?,
            true => top.frame.run::<true>(env, &code, &mut top.pc)?,
        };
        match stop {
            Stop::Call(callee, args) => {
                env.enter()?;
                active.push(Active::new(callee, args));
            }
            Stop::Return(values) => {
                env.depth -= 1;
                let exit = code.site(top.pc);
                if active.len() == 1 {
                    env.exit = exit;
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
