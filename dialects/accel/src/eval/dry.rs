//! A run of a function without data: for the work it starts and the memory it touches alone.
//!
//! It is the run that a program with data takes too, by the same code of the same ops; only what
//! is loaded is not known, and a program whose order of accesses depends on it is refused where it
//! does. So whatever is told of a program without data holds for every run of it.

use tir::interp::{Kind, Options, View};
use tir::{Attr, Data, DictAttr, Env, Failure, Interpreter, Ir, MemRefType, Name, OpId, Value};

use super::MachineMemory;

/// Why a run without data ended early.
#[derive(Debug)]
pub enum Stopped {
    /// A branch, bound or address depends on data.
    Data(Failure),
    /// It takes more steps than it may.
    Limit(Failure),
    /// The program is wrong.
    Wrong(Failure),
}

impl From<Stopped> for Failure {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Data(e) | Stopped::Limit(e) | Stopped::Wrong(e) => e,
        }
    }
}

/// Steps of the interpreter for each step of a command stream that a run may take: loops that
/// touch nothing end too.
const STEPS: u64 = 64;

/// Runs the function at the root of an arena on memory without data ([`MachineMemory::dry`],
/// [`MachineMemory::recorder`]) from its arguments to its end, and gives the memory back.
///
/// Buffers that are arguments hold data unless they are marked `func.out`; those are results,
/// which the host reads in the end. Functions that it calls are those of `around`, its module. The
/// interpreter takes at most 64 times `limit` steps. When one of the `watched` ops has run to its
/// end, a recorder gets a note, the op's number among them. Of `loops` the memory may leave out iterations
/// ([`MachineMemory::set_periods`]), by their number among them.
///
/// # Errors
/// If the program is wrong, if what it does depends on data, or if it is too long.
pub fn run_dry(
    ir: &Ir,
    around: Option<&Ir>,
    memory: MachineMemory,
    limit: u64,
    watched: &[OpId],
    loops: &[OpId],
) -> Result<MachineMemory, Stopped> {
    let mut interpreter = Interpreter::new(ir).with_options(Options {
        steps: limit.saturating_mul(STEPS),
        ..Options::default()
    });
    let env = &mut interpreter.env;
    if let Some(module) = around {
        env.set_around(module);
    }
    env.set_memory(memory);
    env.watch(watched.iter().copied());
    env.watch_loops(loops.iter().copied());
    let done = run(ir, env);
    let lacked = env.lacked_data();
    let steps = env.is_out_of_steps();
    let Some(memory) = env.take_memory::<MachineMemory>() else {
        return Err(Stopped::Wrong("runs on no machine".into()));
    };
    match done {
        Ok(()) => Ok(memory),
        Err(e) if lacked => Err(Stopped::Data(e)),
        Err(e) if steps || memory.machine.is_full() => Err(Stopped::Limit(e)),
        Err(e) => Err(Stopped::Wrong(e)),
    }
}

fn run<'m>(ir: &'m Ir, env: &mut Env<'m>) -> Result<(), Failure> {
    let (args, outputs) = arguments(ir, env)?;
    env.call_root(args)?;
    let exit = env.exit().unwrap_or(env.site());
    if let Some(memory) = env.memory_as::<MachineMemory>() {
        memory.finish(exit)?;
    }
    outputs.iter().try_for_each(|view| env.touch(view, false))
}

/// Buffers for the arguments of the function, or values that are not known, and which of them are
/// results.
fn arguments(ir: &Ir, env: &mut Env<'_>) -> Result<(Vec<Data>, Vec<View>), Failure> {
    let body = ir.body_block(ir.root(), 0).ok_or("has no body")?;
    let attrs = ir.attr(ir.root(), "arg_attrs");
    let values: Vec<Value> = ir.args(body).collect();
    let (mut out, mut outputs) = (Vec::with_capacity(values.len()), Vec::new());
    for (i, value) in values.into_iter().enumerate() {
        let ty = ir.ty(value);
        let Some(memref) = ty.get::<MemRefType>() else {
            out.push(match Kind::of(ty) {
                Some(_) => Data::Unknown,
                None => return Err(format!("argument {i} is a {ty}, no memref or scalar").into()),
            });
            continue;
        };
        let kind =
            Kind::of(memref.elem).ok_or_else(|| format!("{} cannot be held", memref.elem))?;
        let name = ir
            .hint(value)
            .unwrap_or_else(|| Name::new(&format!("argument {i}")));
        let view = env.alloc_named(kind, &memref.shape, 64, memref.space_name(), Some(name))?;
        match attrs.is_some_and(|a| is_out(a, i)) {
            true => outputs.push(view.clone()),
            false => env.touch(&view, true)?,
        }
        out.push(view.into());
    }
    Ok((out, outputs))
}

/// Whether an argument is a result of the function: it holds no data at the start.
fn is_out(attrs: Attr, index: usize) -> bool {
    let dict = attrs
        .get::<tir::ArrayAttr>()
        .and_then(|a| a.0.get(index))
        .and_then(|d| d.get::<DictAttr>());
    dict.is_some_and(|d| d.get(tir::interp::OUT_ARGUMENT).is_some())
}
