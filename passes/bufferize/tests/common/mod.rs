//! Running programs on tensors and on buffers.
#![allow(dead_code)]

use tir::data::Array;
use tir::{Data, Interpreter, Ir, MemRefType, Name};
use tir_bufferize::{Report, bufferize};

pub(crate) use tir_support::*;

/// The program on buffers; what is printed reads back.
pub(crate) fn on_buffers(text: &str) -> (Ir, Report) {
    let mut ir = read(text);
    let report = bufferize(&mut ir).unwrap_or_else(|errors| panic!("{errors:#?}\n{}", show(&ir)));
    check(&ir);
    let again = read(&show(&ir));
    assert_eq!(show(&again), show(&ir));
    (ir, report)
}

/// What the same function on buffers writes to its last arguments.
pub(crate) fn run_buffers(before: &Ir, ir: &Ir, function: &str, seed: u64) -> Vec<Array> {
    let mut interpreter = Interpreter::new(ir);
    let (types, _) = interpreter.signature(Name::new(function)).unwrap();
    let values = inputs(before, function, seed);
    let mut args = Vec::new();
    let mut outs = Vec::new();
    for (i, ty) in types.iter().enumerate() {
        let Some(memref) = ty.get::<MemRefType>() else {
            args.push(values[i].clone());
            continue;
        };
        let array = match values.get(i) {
            Some(value) => value.as_tensor().unwrap().clone(),
            None => Data::random(tir::Type::tensor(memref.shape.clone(), memref.elem), 99)
                .unwrap()
                .as_tensor()
                .unwrap()
                .clone(),
        };
        let view = interpreter.env.array_to_view(&array, None).unwrap();
        let elem = memref.elem;
        if i >= values.len() {
            outs.push((view.clone(), elem));
        }
        args.push(view.into());
    }
    let kept = args.clone();
    let done = interpreter.run(Name::new(function), args);
    done.unwrap_or_else(|e| panic!("{e:#?}\n{}", show(ir)));
    // Arguments stay as they were.
    for (value, arg) in values.iter().zip(&kept) {
        if let (Ok(array), Ok(view)) = (value.as_tensor(), arg.as_view()) {
            let after = interpreter.env.read_view(view).unwrap();
            assert_eq!(
                array.bytes(),
                after,
                "an argument was written:\n{}",
                show(ir)
            );
        }
    }
    let read = |(view, elem)| interpreter.env.view_to_array(&view, elem).unwrap();
    outs.into_iter().map(read).collect()
}

/// The program does the same on buffers, bit for bit; gives it.
pub(crate) fn same(text: &str, function: &str) -> (Ir, Report) {
    let before = read(text);
    let (after, report) = on_buffers(text);
    for seed in [1, 7] {
        let wanted = run_tensors(&before, function, seed);
        let found = run_buffers(&before, &after, function, seed);
        assert_eq!(wanted.len(), found.len());
        for (i, (a, b)) in wanted.iter().zip(&found).enumerate() {
            assert!(
                a.bytes() == b.bytes(),
                "result {i} differs: {:?}\n{:?}\n{}\n{}",
                a.as_f32(),
                b.as_f32(),
                show(&before),
                show(&after)
            );
        }
    }
    (after, report)
}
