//! What tests of random command streams share: a unit, and runs on the machine.

use tir::interp::Kind;
use tir::{Interpreter, Ir, MemRefType, Name, Value};
use tir_accel::MachineInfo;
use tir_accel::eval::MachineMemory;

/// The unit of their machines, of vectors `!V` that `#n` counts in `@spm`: `o = a + a`, and `o += a`.
const UNIT: &str = r#"
  accel.unit @alu {queue = 4}
  accel.intrinsic @double on @alu (%o: !V, %a: !V) in @spm cycles "CYCLES" {
    %r = tensor.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%a : !V) outs(%o : !V) {
    ^bb0(%a_: f32):
      %x = arith.addf %a_, %a_ : f32
      tensor.yield %x : f32
    } -> !V
    accel.yield %r : !V
  }
  accel.intrinsic @sum on @alu (%o: !V, %a: !V) in @spm cycles "4" {
    %r = tensor.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%a : !V) outs(%o : !V) combine add {
    ^bb0(%a_: f32):
      tensor.yield %a_ : f32
    } -> !V
    accel.yield %r : !V
  }
"#;

/// A machine's text with that unit in the place of `UNIT`; what doubles a vector takes so many cycles.
pub(crate) fn with_unit(machine: &str, double: u64) -> String {
    let unit = UNIT.replace("CYCLES", &double.to_string());
    machine.replace("  UNIT", unit.trim_matches('\n'))
}

/// Runs `@f` of a module on its machine, its arguments filled with what `value` gives by number and position; of one for which that
/// is nothing, nothing is written. Gives the bytes of the second one then, and cycles; or what is wrong.
pub(crate) fn run(
    module: &Ir,
    function: &Ir,
    machine: &MachineInfo,
    value: impl Fn(usize, usize) -> Option<f32>,
) -> Result<(Vec<u8>, u64), String> {
    let mut interpreter = Interpreter::new(module);
    let env = &mut interpreter.env;
    env.set_memory(MachineMemory::new(machine, false).unwrap());
    let block = function.body_block(function.root(), 0).unwrap();
    let args: Vec<Value> = function.args(block).collect();
    let mut views = Vec::new();
    for (i, arg) in args.into_iter().enumerate() {
        let ty: &MemRefType = function.ty(arg).get().unwrap();
        let name = function.hint(arg);
        let view = env.alloc_named(Kind::F32, &ty.shape, 64, ty.space_name(), name);
        let view = view.unwrap();
        let values: Option<Vec<f32>> = (0..view.elements()).map(|n| value(i, n)).collect();
        if let Some(values) = values {
            let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            env.write_view(&view, &bytes).unwrap();
        }
        views.push(view);
    }
    let data = views.iter().map(|view| view.clone().into()).collect();
    let done = interpreter.run(Name::new("f"), data);
    let env = &mut interpreter.env;
    let exit = env.exit();
    done.map_err(|e| e[0].message.clone())?;
    let memory = env.memory_as::<MachineMemory>().unwrap();
    memory
        .finish(exit.unwrap())
        .map_err(|e| e.message.clone())?;
    let cycles = memory.report().cycles;
    let bytes = env.read_view(&views[1]);
    Ok((bytes.map_err(|e| e.message.clone())?, cycles))
}
