//! Kernels on the memory behind memrefs.

use tir_core::Failure;

use crate::env::{Env, Store};
use crate::kernel::{Input, Kernel, Output};
use crate::scalar::Scalar;
use crate::view::View;

impl Env<'_> {
    /// The program thread runs a kernel on memory. An input whose buffer is also written is read
    /// as it was before.
    pub fn run_kernel(
        &mut self,
        kernel: &Kernel,
        sizes: &[i64],
        inputs: &[&View],
        outputs: &[&View],
        captures: &[Scalar],
    ) -> Result<(), Failure> {
        let site = self.site();
        let points = sizes
            .iter()
            .fold(1u64, |n, d| n.saturating_mul(d.unsigned_abs()));
        self.step(points / 64)?;
        if self.counts_work {
            // The elements that are touched below are paid for there.
            let twice = u64::from(kernel.reads_outputs()) + 1;
            let read = inputs.iter().map(|v| v.elements() as u64);
            let touched = read.chain(outputs.iter().map(|v| twice * v.elements() as u64));
            let all = points.saturating_mul(kernel.work);
            let rest = all.saturating_sub(touched.sum());
            self.memory().work(rest, site)?;
        }
        if self.dataless {
            return self.touch_operands(kernel, inputs, outputs);
        }
        let memory = self.memory();
        for view in inputs {
            memory.touch(view, false, site)?;
            memory.bytes(view.buffer)?;
        }
        for view in outputs {
            if kernel.reads_outputs() {
                memory.touch(view, false, site)?;
            }
            memory.bytes(view.buffer)?;
        }
        let shared = |view: &View| outputs.iter().any(|o| o.buffer == view.buffer);
        let apart =
            (1..outputs.len()).all(|i| outputs[..i].iter().all(|o| o.buffer != outputs[i].buffer));
        let plain = apart && matches!(self.store, Store::Plain(_));
        // Copies of inputs that lie in a buffer that is written.
        let mut copies: Vec<Option<Vec<u8>>> = Vec::new();
        for view in inputs {
            let copy = !plain || shared(view);
            copies.push(if copy {
                Some(view.gather(self.memory().bytes(view.buffer)?)?)
            } else {
                None
            });
        }
        let dense = |view: &View| View::dense(view.buffer, view.kind, &view.shape);
        if let (true, Store::Plain(memory)) = (plain, &mut self.store) {
            let mut lent: Vec<Vec<u8>> = outputs.iter().map(|v| memory.lend(v.buffer)).collect();
            let reads = inputs.iter().zip(&copies).map(|(view, copy)| match copy {
                Some(bytes) => Input {
                    bytes,
                    view: dense(view),
                },
                None => Input {
                    bytes: memory.fast(view.buffer),
                    view: (*view).clone(),
                },
            });
            let reads: Vec<Input<'_>> = reads.collect();
            let writes = lent.iter_mut().zip(outputs);
            let mut writes: Vec<Output<'_>> = writes
                .map(|(bytes, view)| Output {
                    bytes,
                    view: (*view).clone(),
                })
                .collect();
            let done = kernel.run(sizes, &reads, &mut writes, captures);
            for (bytes, view) in lent.into_iter().zip(outputs) {
                memory.give(view.buffer, bytes);
            }
            return done;
        }
        let memory = self.memory();
        let mut results = Vec::new();
        for view in outputs {
            results.push(view.gather(memory.bytes(view.buffer)?)?);
        }
        let reads = inputs.iter().zip(&copies);
        let reads = reads.filter_map(|(view, copy)| {
            Some(Input {
                bytes: copy.as_ref()?,
                view: dense(view),
            })
        });
        let reads: Vec<Input<'_>> = reads.collect();
        let writes = results.iter_mut().zip(outputs);
        let mut writes: Vec<Output<'_>> = writes
            .map(|(bytes, view)| Output {
                bytes,
                view: dense(view),
            })
            .collect();
        kernel.run(sizes, &reads, &mut writes, captures)?;
        for (view, bytes) in outputs.iter().zip(&results) {
            memory.touch(view, true, site)?;
            view.scatter(memory.bytes_mut(view.buffer)?, bytes)?;
        }
        Ok(())
    }

    /// The accesses of a kernel, in the order in which a run with data makes them.
    fn touch_operands(
        &mut self,
        kernel: &Kernel,
        inputs: &[&View],
        outputs: &[&View],
    ) -> Result<(), Failure> {
        inputs.iter().try_for_each(|view| self.touch(view, false))?;
        if kernel.reads_outputs() {
            outputs
                .iter()
                .try_for_each(|view| self.touch(view, false))?;
        }
        outputs.iter().try_for_each(|view| self.touch(view, true))
    }
}
