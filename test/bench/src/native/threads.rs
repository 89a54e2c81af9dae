//! Networks on two threads beside one.

use super::peer::{Engine, ONNX_RUNTIME, OPENVINO};
use super::{Bench, Case, Ready, calls, median};

/// What two threads are to be of one, where two processors are free.
const WANTED: f64 = 1.8;

impl Bench {
    /// One thread and two in turns, of the library and of its peers.
    ///
    /// # Errors
    /// If a call fails.
    pub(super) fn threads(&mut self, ready: &Ready, case: &Case) -> Result<(), String> {
        let alone = ready.run(&case.inputs, 3)?.outputs;
        if ready.run_on(&case.inputs, 3, 2)?.outputs != alone {
            return Err("results on two threads are others than on one".to_string());
        }
        let times = calls(ready.run(&case.inputs, 3)?.seconds * 1e3);
        let mut own: [Vec<f64>; 2] = Default::default();
        let mut theirs: [[Vec<f64>; 2]; 2] = Default::default();
        for _ in 0..self.rounds() {
            for (k, all) in own.iter_mut().enumerate() {
                all.push(ready.run_on(&case.inputs, times, k + 1)?.seconds * 1e3);
            }
            let Ok(peers) = &mut self.peers else {
                continue;
            };
            for (engine, all) in [ONNX_RUNTIME, OPENVINO].into_iter().zip(&mut theirs) {
                for (k, all) in all.iter_mut().enumerate() {
                    all.extend(peers.time(engine, &case.model, times, k + 1, &[])?);
                }
            }
        }
        println!("  two threads; {WANTED} of one is wanted where two processors are free");
        line("tir", own);
        let engines: [Engine; 2] = [ONNX_RUNTIME, OPENVINO];
        for (engine, all) in engines.iter().zip(theirs) {
            line(engine.name, all);
        }
        if let Ok(peers) = &mut self.peers {
            peers.forget()?;
        }
        Ok(())
    }
}

/// Says what one thread and two take, if they were measured.
fn line(name: &str, [one, two]: [Vec<f64>; 2]) {
    if let Some((one, two)) = median(one).zip(median(two)) {
        println!(
            "  {name:<14} {one:8.3} ms on one, {two:8.3} ms on two: {:.2}",
            one / two
        );
    }
}
