//! Running the ops of accel: on the machine model, or, for programs of earlier levels and without
//! a machine, at once.

mod apply;
mod body;
mod causes;
mod dry;
mod layers;
mod memory;
mod rounds;
mod semaphore;

use std::cell::OnceCell;
use std::rc::Rc;

use tir::interp::{BufferId, Kind, Memory, Scalar, StridedBox, View, array_of};
use tir::{
    Compiler, DYNAMIC, Data, Env, Failure, Ir, LowerToEval, MemRefType, Name, OpRef, SmallVec,
    Value,
};
use tir_machine as sim;
use tir_tensor::eval::padding;

pub use body::{Body, body};
pub use dry::{Stopped, run_dry};
pub use layers::{Layer, Layers};
pub use memory::MachineMemory;
pub use rounds::{Ahead, Iterations, LeftOut, Periods};

use crate::machine::MachineInfo;
use crate::transfer::{Pair, Pattern};
use crate::{Acquire, Call, Direction, DmaStart, DmaWait, Mark, Ready, Release};

/// Whether a function starts transfers, waits or marks: it is a program for a machine.
pub fn needs_machine(ir: &Ir) -> bool {
    let own = |op: &tir::OpId| {
        let transfers = ir.is::<DmaStart>(*op) || ir.is::<DmaWait>(*op);
        let tokens = ir.is::<Mark>(*op) || ir.is::<Ready>(*op);
        transfers || tokens || ir.is::<Release>(*op) || ir.is::<Acquire>(*op)
    };
    ir.walk_ids().iter().any(own)
}

/// A token while a program runs; none where everything is done at once.
struct Started(Option<sim::Token>);

fn token(started: Option<sim::Token>) -> Data {
    Data::object(Started(started))
}
fn tokens(data: &[Data]) -> Result<Vec<sim::Token>, Failure> {
    let mut out = Vec::with_capacity(data.len());
    for value in data {
        out.extend(value.as_object::<Started>()?.0);
    }
    Ok(out)
}

impl LowerToEval for Call {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let (name, count) = (self.callee.0, self.operands.len());
        let unit = self.unit.map(|unit| unit.0);
        let immediates = body::immediates(self.immediates.as_deref())?;
        let buffers = self
            .operands
            .iter()
            .any(|v| op.ir.ty(*v).is::<MemRefType>());
        let operands: Vec<Value> = op.ir.operands(op.id).collect();
        let results: Vec<Value> = op.ir.results(op.id).collect();
        if !buffers {
            cx.native(&operands, &results, move |env, data| {
                let inputs = data
                    .iter_mut()
                    .map(Data::take_tensor)
                    .collect::<Result<Vec<_>, _>>()?;
                let results = body(env, name)?.run(inputs, &immediates)?;
                Ok(results.into_iter().map(Data::Tensor).collect())
            });
            return Ok(());
        }
        let prepared = OnceCell::new();
        cx.native_by_ref(&operands, &results, move |env, data| {
            let (views, after) = data.split_at(count);
            if env.memory_as::<MachineMemory>().is_some() {
                let call = Called {
                    name,
                    unit,
                    immediates: &immediates,
                };
                start_call(env, call, &prepared, views, &tokens(after)?)?;
            } else {
                let views = views.iter().map(|d| d.as_view().cloned());
                let views = views.collect::<Result<Vec<_>, _>>()?;
                let body = body(env, name)?;
                call_at_once(env, &body, &views, &immediates)?;
            }
            Ok(Vec::new())
        });
        Ok(())
    }
}

/// What is the same each time a call runs on one machine.
struct Prepared<T> {
    /// The memory it was prepared for.
    memory: u64,
    at: sim::Site,
    queue: sim::QueueId,
    label: sim::Label,
    /// Cycles of the thread for the start.
    issue: u64,
    /// What is known of what runs.
    known: T,
}

impl<T> Prepared<T> {
    /// Runs `work` with what is prepared for the running machine; `find` gives the unit and what is
    /// known of what runs on it, by its name.
    fn with<R>(
        cell: &OnceCell<Self>,
        env: &mut Env<'_>,
        name: Name,
        find: impl Fn(&MachineInfo) -> Option<(Name, T)>,
        work: impl FnOnce(&mut MachineMemory, &Self) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let site = env.site();
        let memory = machine(env)?;
        let number = memory.number();
        let prepare = |memory: &mut MachineMemory| -> Result<Self, Failure> {
            let found = find(memory.info());
            let (unit, known) =
                found.ok_or_else(|| format!("machine @{} has no @{name}", memory.info().name))?;
            let issue = memory.info().unit(unit).map_or(0, |unit| unit.issue);
            Ok(Self {
                memory: number,
                issue: u64::try_from(issue).unwrap_or(0),
                at: memory.site(site, Some(name)),
                queue: memory
                    .machine
                    .queue(unit.as_str())
                    .ok_or("runs on a unit the machine has not")?,
                label: memory.machine.label(name.as_str()),
                known,
            })
        };
        if cell.get().is_none_or(|prepared| prepared.memory != number) {
            let made = prepare(memory)?;
            // Of a program that runs on several machines, one is remembered.
            if let Err(made) = cell.set(made) {
                return work(memory, &made);
            }
        }
        match cell.get() {
            Some(prepared) => work(memory, prepared),
            None => Err("internal error: nothing is prepared".into()),
        }
    }
}

/// What a call says of itself.
struct Called<'a> {
    name: Name,
    unit: Option<Name>,
    immediates: &'a Rc<[Scalar]>,
}

fn call_at_once(
    env: &mut Env<'_>,
    body: &Body,
    views: &[Rc<View>],
    immediates: &[Scalar],
) -> Result<(), Failure> {
    let mut inputs = Vec::new();
    for ((view, ty), read) in views.iter().zip(&body.info.operands).zip(&body.info.reads) {
        inputs.push(if *read {
            env.view_to_array(view, ty.elem())?
        } else {
            Body::blank(*ty)?
        });
    }
    for (view, result) in views.iter().zip(body.run(inputs, immediates)?) {
        env.write_view(view, result.bytes())?;
    }
    Ok(())
}

fn start_call(
    env: &mut Env<'_>,
    call: Called<'_>,
    prepared: &OnceCell<Prepared<usize>>,
    views: &[Data],
    after: &[sim::Token],
) -> Result<(), Failure> {
    let Called { name, unit, .. } = call;
    let body = match env.is_dataless() {
        true => None,
        false => Some(body(env, name)?),
    };
    let find = |machine: &MachineInfo| {
        let number = machine.intrinsics.iter().position(|i| i.name == name)?;
        Some((unit.unwrap_or(machine.intrinsics[number].unit), number))
    };
    Prepared::with(prepared, env, name, find, |memory, prepared| {
        let mut all: SmallVec<[StridedBox; 4]> = SmallVec::new();
        for view in views {
            all.push(memory.strided(view.as_view()?)?);
        }
        let info = &memory.info().intrinsics[prepared.known];
        let read = all.iter().zip(&info.reads).filter(|(_, read)| **read);
        let reads: SmallVec<[StridedBox; 4]> = read.map(|(a, _)| a.clone()).collect();
        let work = sim::Work {
            reads: &reads,
            writes: &all[..info.writes.min(all.len())],
            after,
            label: Some(prepared.label),
            macs: u64::try_from(info.macs).unwrap_or(0),
            overhead: !info.reads.contains(&true),
            ..sim::Work::new(
                prepared.at,
                sim::Cost::Cycles(u64::try_from(info.cycles).unwrap_or(0)),
            )
        };
        memory.issue(prepared.at, prepared.issue)?;
        let started = match body {
            None => memory.machine.start(prepared.queue, &work, |_| Ok(())),
            Some(body) => {
                let (operands, immediates) = (all.clone(), call.immediates.clone());
                memory.machine.start(prepared.queue, &work, move |memory| {
                    let done = run_call(memory, &body, &operands, &immediates);
                    done.map_err(|e| e.message.clone())
                })
            }
        };
        memory.check(started).map(|_| ())
    })
}

fn run_call(
    memory: &mut sim::Memory,
    body: &Body,
    all: &[StridedBox],
    immediates: &[Scalar],
) -> Result<(), Failure> {
    let mut inputs = Vec::new();
    for ((access, ty), read) in all.iter().zip(&body.info.operands).zip(&body.info.reads) {
        if *read {
            let bytes = memory.load(access)?;
            inputs.push(array_of(ty.elem(), ty.shape().unwrap_or(&[]), bytes)?);
        } else {
            inputs.push(Body::blank(*ty)?);
        }
    }
    for (access, result) in all.iter().zip(body.run(inputs, immediates)?) {
        memory.store(access, result.bytes())?;
    }
    Ok(())
}

fn machine<'a>(env: &'a mut Env<'_>) -> Result<&'a mut MachineMemory, Failure> {
    env.memory_as::<MachineMemory>()
        .ok_or_else(|| "runs on no machine".into())
}

impl LowerToEval for DmaStart {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let (far, tile) = (op.ir.ty(self.far), op.ir.ty(self.tile));
        let pattern = Pattern::new(far, tile, &self.access)?;
        let kind =
            Kind::of(tile.elem()).ok_or_else(|| format!("{} cannot be held", tile.elem()))?;
        let start = Rc::new(Start {
            engine: self.engine.0,
            read: self.direction == Direction::Read,
            kind,
            pattern,
            offsets: self.static_offsets.clone(),
            padded: self.padding.is_some(),
            dynamic: self.offsets.len(),
        });
        let operands: Vec<Value> = op.ir.operands(op.id).collect();
        let results: Vec<Value> = op.ir.results(op.id).collect();
        cx.native_by_ref(&operands, &results, move |env, data| {
            Ok(vec![start.run(env, data)?])
        });
        Ok(())
    }
}

/// A transfer, as far as it is known before it runs.
struct Start {
    engine: Name,
    read: bool,
    kind: Kind,
    pattern: Pattern,
    offsets: Vec<i64>,
    padded: bool,
    dynamic: usize,
}

impl Start {
    fn run(&self, env: &mut Env<'_>, data: &[Data]) -> Result<Data, Failure> {
        let (far, tile) = (data[0].as_view()?.clone(), data[1].as_view()?.clone());
        let mut values = data[2..2 + self.dynamic].iter();
        let mut offsets = Vec::with_capacity(self.offsets.len());
        let mut anywhere = false;
        for n in &self.offsets {
            offsets.push(match *n {
                DYNAMIC => match values.next().ok_or("has too few offsets")? {
                    // A run without data takes what is read for anything of the source.
                    at if at.is_unknown() && self.read => {
                        anywhere = true;
                        0
                    }
                    at => at.as_int()?,
                },
                n => n,
            });
        }
        let rest = &data[2 + self.dynamic..];
        let (pad, after) = if self.padded {
            (rest.first(), &rest[1..])
        } else {
            (None, rest)
        };
        let pad = match env.is_dataless() {
            true => Vec::new(),
            false => padding(pad, self.kind)?,
        };
        let mut pairs = self.pattern.pairs(&offsets, &far, &tile);
        if !self.read {
            for pair in &mut pairs {
                std::mem::swap(&mut pair.0, &mut pair.1);
            }
        }
        if env.memory_as::<MachineMemory>().is_some() {
            let after = tokens(after)?;
            let source = anywhere.then_some(&*far);
            let started = self.start(env, (far.buffer, source), &tile, &pairs, &pad, &after)?;
            return Ok(token(Some(started)));
        }
        if self.read && self.sticks_out(&pairs) {
            env.write_view(&tile, &pad.repeat(tile.elements()))?;
        }
        let kind = tile.kind;
        for (from, to) in pairs {
            let [from, to] = [from, to].map(|strided| View { kind, strided });
            env.copy_view(&from, &to)?;
        }
        Ok(token(None))
    }

    fn sticks_out(&self, pairs: &[Pair]) -> bool {
        let inside: usize = pairs.iter().map(|(_, tile)| tile.elements()).sum();
        (inside as i64) < self.pattern.tile_shape.iter().product()
    }

    fn start(
        &self,
        env: &mut Env<'_>,
        (far, source): (BufferId, Option<&View>),
        tile: &View,
        pairs: &[Pair],
        pad: &[u8],
        after: &[sim::Token],
    ) -> Result<sim::Token, Failure> {
        let site = env.site();
        let memory = machine(env)?;
        let at = memory.site(site, Some(self.engine));
        let engine = memory.info().engine(self.engine).cloned();
        let engine =
            engine.ok_or_else(|| format!("starts @{}, which the machine has not", self.engine))?;
        let queue = memory
            .machine
            .queue(engine.name.as_str())
            .ok_or("has no queue")?;
        let fill = self.read && self.sticks_out(pairs);
        if fill && !engine.pad {
            return Err(format!("reads beyond its source, and @{} cannot pad", engine.name).into());
        }
        let (froms, tos): (Vec<_>, Vec<_>) = pairs.iter().cloned().unzip();
        let (mut bytes, mut rows) = (0, 0);
        for (from, to) in pairs {
            let cost = memory.machine.transfer_cost(queue, from, to);
            if let sim::Cost::Transfer { bytes: n, rows: r } = memory.check(cost)? {
                (bytes, rows) = (bytes + n, rows + r);
            }
        }
        memory.moved(
            site,
            far,
            if self.read { &froms } else { &tos },
            self.read,
            &engine,
        );
        let whole = [memory.strided(tile)?];
        let source = source.map(|view| memory.strided(view)).transpose()?;
        let work = sim::Work {
            reads: source.as_ref().map_or(&froms, std::slice::from_ref),
            writes: if fill { &whole } else { &tos },
            after,
            ..sim::Work::new(at, sim::Cost::Transfer { bytes, rows })
        };
        memory.issue(at, u64::try_from(engine.issue).unwrap_or(0))?;
        if memory.is_dataless() {
            let started = memory.machine.start(queue, &work, |_| Ok(()));
            return memory.check(started);
        }
        let (pad, pairs) = (pad.to_vec(), pairs.to_vec());
        let filled = fill.then(|| whole[0].clone());
        let started = memory.machine.start(queue, &work, move |memory| {
            if let Some(whole) = filled {
                memory.fill(&whole, &pad)?;
            }
            let mut pairs = pairs.iter();
            pairs.try_for_each(|(from, to)| memory.copy(from, to))
        });
        memory.check(started)
    }
}

impl LowerToEval for DmaWait {
    fn lower<'m>(&self, _: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        cx.native(&self.tokens, &[], |env, data| {
            let (site, all) = (env.site(), tokens(data)?);
            if let Some(memory) = env.memory_as::<MachineMemory>() {
                let at = memory.site(site, None);
                let done = memory.machine.wait(at, &all);
                memory.check(done)?;
            }
            Ok(Vec::new())
        });
        Ok(())
    }
}

impl LowerToEval for Mark {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let (queue, results): (Name, Vec<Value>) = (self.queue.0, op.ir.results(op.id).collect());
        cx.native(&[], &results, move |env, _| {
            let Some(memory) = env.memory_as::<MachineMemory>() else {
                return Ok(vec![token(None)]);
            };
            let found = memory.machine.queue(queue.as_str());
            let found =
                found.ok_or_else(|| format!("marks @{queue}, which the machine has not"))?;
            Ok(vec![token(Some(memory.machine.mark(found)))])
        });
        Ok(())
    }
}

impl LowerToEval for Ready {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let results: Vec<Value> = op.ir.results(op.id).collect();
        cx.native(&[], &results, |env, _| {
            let memory = env.memory_as::<MachineMemory>();
            Ok(vec![token(memory.map(|memory| memory.machine.ready()))])
        });
        Ok(())
    }
}
