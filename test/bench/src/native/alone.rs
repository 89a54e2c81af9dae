//! Each distinct convolution of a network alone, as a model of one layer.

use tir_data::{Array, DType, npy};

use super::convolution::{self, Convolution};
use super::peer::Model;
use super::stand_in;
use super::{Bench, Case, said};
use crate::networks::Network;

/// The time, as a part of ONNX Runtime's, that a convolution may take.
const WANTED: f64 = 1.1;

impl Bench {
    /// The distinct convolutions of a network, each with its bias and what is computed with its result element by element,
    /// beside the same model in ONNX Runtime.
    ///
    /// # Errors
    /// If one cannot be lowered, native code is not to be had, or a result is another one.
    pub(super) fn convolutions(&mut self, network: &Network) -> Result<(), String> {
        let program = network.import()?;
        let model = tir_onnx::load(&network.model()).map_err(|e| e.to_string())?;
        let mut distinct: Vec<(Convolution, usize)> = Vec::new();
        for one in convolution::all(&model, &program) {
            match distinct
                .iter_mut()
                .find(|(known, _)| known.form == one.form)
            {
                Some((_, count)) => *count += 1,
                None => distinct.push((one, 1)),
            }
        }
        if distinct.is_empty() {
            return Ok(());
        }
        println!(
            "  convolutions alone, with their layouts of inputs and results; {WANTED} of ONNX Runtime is wanted"
        );
        let mut table = self.table("convolution", true);
        let (mut over, mut compared) = (0, 0);
        for (k, (one, count)) in distinct.iter().enumerate() {
            let file = self.scratch.file(&format!("convolution{k}.onnx"));
            one.write(&network.model(), &model, &file)?;
            let shape: Option<Vec<usize>> =
                one.shape.iter().map(|n| (*n).try_into().ok()).collect();
            let array = Array::random(DType::F32, &shape.unwrap_or_default(), k as u64 + 1);
            let array = array.map_err(|e| e.to_string())?;
            let input = self.scratch.file(&format!("convolution{k}.npy"));
            npy::write(&input, &array).map_err(|e| e.to_string())?;
            let program = tir_translate::import_onnx(&file).map_err(|e| said(&e))?;
            let case = Case {
                inputs: vec![array],
                model: Model {
                    file,
                    inputs: vec![input],
                },
            };
            let measured = self.case(&case, program);
            let measured = measured.map_err(|e| format!("{}: {e}", one.title))?;
            let slow = measured.ratio().is_some_and(|ratio| ratio > WANTED);
            over += usize::from(slow);
            compared += usize::from(measured.ratio().is_some());
            let name = match count {
                1 => one.form.to_string(),
                n => format!("{} ({n} of them)", one.form),
            };
            let note = if slow { "over" } else { "" };
            table.row(&name, &measured, stand_in::share(&one.form), note);
        }
        println!("{table}");
        if compared > 0 {
            println!("  {over} of {compared} over what is wanted");
        }
        Ok(())
    }
}
