//! Semaphores on the machine model.

use tir::interp::Compiler;
use tir::{Data, Env, Failure, LowerToEval, Name, OpRef, Value};
use tir_machine as sim;

use super::MachineMemory;
use crate::{Acquire, Release, Semaphore};

/// A semaphore while a program runs; none where everything is done at once.
struct Made(Option<sim::Semaphore>);

impl LowerToEval for Semaphore {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let results: Vec<Value> = op.ir.results(op.id).collect();
        let name = op.ir.hint(results[0]).map_or("semaphore", Name::as_str);
        let initial = u32::try_from(self.initial).unwrap_or(0);
        cx.native(&[], &results, move |env, _| {
            let memory = env.memory_as::<MachineMemory>();
            let made = memory.map(|memory| memory.machine.semaphore(name, initial));
            Ok(vec![Data::object(Made(made))])
        });
        Ok(())
    }
}

/// Releases or acquires a unit, by the thread or as a step of a queue that takes no time.
fn step(env: &mut Env<'_>, data: &Data, queue: Option<Name>, release: bool) -> Result<(), Failure> {
    let (site, made) = (env.site(), data.as_object::<Made>()?.0);
    let (Some(memory), Some(semaphore)) = (env.memory_as::<MachineMemory>(), made) else {
        return Ok(());
    };
    let at = memory.site(site, queue);
    let Some(queue) = queue else {
        let done = match release {
            true => memory.machine.release(at, semaphore),
            false => memory.machine.acquire(at, semaphore),
        };
        return memory.check(done);
    };
    let found = memory.machine.queue(queue.as_str());
    let found = found.ok_or_else(|| format!("names @{queue}, which the machine has not"))?;
    let one = [semaphore];
    let (acquire, release): (&[_], &[_]) = if release { (&[], &one) } else { (&one, &[]) };
    let work = sim::Work {
        acquire,
        release,
        overhead: true,
        ..sim::Work::new(at, sim::Cost::Cycles(0))
    };
    let started = memory.machine.start(found, &work, |_| Ok(()));
    memory.check(started).map(|_| ())
}

impl LowerToEval for Release {
    fn lower<'m>(&self, _: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let queue = self.queue.map(|q| q.0);
        cx.native(&[self.semaphore], &[], move |env, data| {
            step(env, &data[0], queue, true).map(|()| Vec::new())
        });
        Ok(())
    }
}
impl LowerToEval for Acquire {
    fn lower<'m>(&self, _: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let queue = self.queue.map(|q| q.0);
        cx.native(&[self.semaphore], &[], move |env, data| {
            step(env, &data[0], queue, false).map(|()| Vec::new())
        });
        Ok(())
    }
}
