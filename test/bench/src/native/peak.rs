//! The rate of multiply-adds of one thread: sums in registers, each multiplied and added to, and nothing else.

use tir::Name;
use tir::text::{ParseOptions, parse};
use tir_accel::Processor;
use tir_data::{Array, DType};

use super::{Ready, said};

/// Steps of the loop in a call: under a millisecond.
const STEPS: u64 = 100_000;
/// Calls of a measurement.
const CALLS: usize = 10;

/// A loop that runs at the peak of a processor.
pub(super) struct Peak {
    loop_: Ready,
    input: Array,
    /// Floating-point operations of a call.
    flops: f64,
    /// The best so far, in GFLOP/s.
    best: f64,
}

impl Peak {
    /// The loop, for vectors and registers of a processor.
    ///
    /// # Errors
    /// If it is not made.
    pub(super) fn new(processor: &Processor) -> Result<Self, String> {
        let lanes = usize::try_from(processor.vector_bytes / 4).map_err(|e| e.to_string())?;
        // Two multiply-adds of four cycles in each cycle take eight; two registers are left for what is common.
        let sums = usize::try_from(processor.registers - 4).map_err(|e| e.to_string())?;
        let sums = sums.clamp(8, 24);
        let mut module = program(lanes, sums)?;
        processor.note(&mut module);
        // A half and one: sums stay at two.
        let values = (0..2 * lanes).map(|k| if k < lanes { 0.5 } else { 1.0 });
        let input = Array::from_vec::<f32>(&[2, lanes], values.collect());
        Ok(Self {
            loop_: Ready::new(&module, false)?,
            input: input.map_err(|e| e.to_string())?,
            flops: 2.0 * STEPS as f64 * (lanes * sums) as f64,
            best: 0.0,
        })
    }

    /// Measures once more, in GFLOP/s.
    ///
    /// # Errors
    /// If the loop does not run, or gives a wrong number.
    pub(super) fn measure(&mut self) -> Result<f64, String> {
        let run = self.loop_.run(std::slice::from_ref(&self.input), CALLS)?;
        let right = run.outputs.first().is_some_and(|sums| {
            sums.dtype() == DType::F32 && sums.iter_f64().all(|sum| (sum - 2.0).abs() < 1e-6)
        });
        if !right {
            return Err("the loop of multiply-adds gives a wrong number".to_string());
        }
        let rate = self.flops / run.seconds / 1e9;
        self.best = self.best.max(rate);
        Ok(rate)
    }

    /// The best of all measurements, in GFLOP/s.
    pub(super) fn best(&self) -> f64 {
        self.best
    }
}

fn program(lanes: usize, sums: usize) -> Result<tir::Ir, String> {
    let vector = format!("vector<{lanes}xf32>");
    let list = |item: &dyn Fn(usize) -> String| {
        let all: Vec<String> = (0..sums).map(item).collect();
        all.join(", ")
    };
    let carried = list(&|k| format!("%s{k} = %b"));
    let types = list(&|_| vector.clone());
    let steps: String = (0..sums)
        .map(|k| {
            format!(
                "    %p{k} = arith.mulf %s{k}, %a : {vector}\n    %n{k} = arith.addf %p{k}, %b : {vector}\n"
            )
        })
        .collect();
    let given = list(&|k| format!("%n{k}"));
    let stores: String = (0..sums)
        .map(|k| {
            format!(
                "  %k{k} = arith.constant {k} : index\n  vector.store %r#{k}, %y[%k{k}, %z] : memref<{sums}x{lanes}xf32>, {vector}\n"
            )
        })
        .collect();
    let text = format!(
        "func.func @main(%x: memref<2x{lanes}xf32>, %y: memref<{sums}x{lanes}xf32> {{func.out}}) {{\n\
         \x20 %z = arith.constant 0 : index\n  %o = arith.constant 1 : index\n\
         \x20 %a = vector.load %x[%z, %z] : memref<2x{lanes}xf32>, {vector}\n\
         \x20 %b = vector.load %x[%o, %z] : memref<2x{lanes}xf32>, {vector}\n\
         \x20 %r:{sums} = loop.for %i = 0 to {STEPS} iter_args({carried}) -> ({types}) {{\n{steps}\
         \x20   loop.yield {given} : {types}\n  }}\n{stores}  func.return\n}}\n"
    );
    let module = parse(&text, Name::new("peak.tir"), &ParseOptions::default());
    module.map_err(|e| said(&e))
}
