//! Products of two square matrices that are both arguments.

use prost::Message;
use tir_data::{Array, DType, npy};
use tir_onnx::proto::{GraphProto, ModelProto, NodeProto, OperatorSetIdProto};

use super::convolution::value;
use super::peer::Model;
use super::{Bench, Case};

/// Rows and columns.
const SIDES: [usize; 2] = [512, 1000];

/// The share of the peak that is wanted.
const WANTED: f64 = 0.85;

/// A model of one product.
fn model(side: usize) -> ModelProto {
    let dims = [Some(side as i64), Some(side as i64)];
    let node = NodeProto {
        input: vec!["a".into(), "b".into()],
        output: vec!["c".into()],
        name: "product".into(),
        op_type: "MatMul".into(),
        ..NodeProto::default()
    };
    let graph = GraphProto {
        node: vec![node],
        name: "product".into(),
        input: vec![value("a".into(), &dims), value("b".into(), &dims)],
        output: vec![value("c".into(), &dims)],
        ..GraphProto::default()
    };
    ModelProto {
        ir_version: 8,
        graph: Some(graph),
        opset_import: vec![OperatorSetIdProto {
            domain: String::new(),
            version: 17,
        }],
        ..ModelProto::default()
    }
}

impl Bench {
    /// Products of two arguments beside ONNX Runtime and the peak.
    ///
    /// # Errors
    /// If one cannot be lowered, native code is not to be had, or a result is another one.
    pub(super) fn products(&mut self) -> Result<(), String> {
        println!("products of two arguments; {WANTED} of the peak is wanted");
        let mut table = self.table("product", false);
        for side in SIDES {
            let file = self.scratch.file(&format!("product{side}.onnx"));
            std::fs::write(&file, model(side).encode_to_vec()).map_err(|e| e.to_string())?;
            let mut case = Case {
                inputs: Vec::new(),
                model: Model {
                    file,
                    inputs: Vec::new(),
                },
            };
            for k in 0..2 {
                let array = Array::random(DType::F32, &[side, side], k as u64 + 1);
                let array = array.map_err(|e| e.to_string())?;
                let path = self.scratch.file(&format!("product{side}_{k}.npy"));
                npy::write(&path, &array).map_err(|e| e.to_string())?;
                case.model.inputs.push(path);
                case.inputs.push(array);
            }
            let program = tir_translate::import_onnx(&case.model.file);
            let program = program.map_err(|e| super::said(&e))?;
            let measured = self.case(&case, program)?;
            let note = match measured.share() < WANTED {
                true => "below what is wanted",
                false => "",
            };
            table.row(&format!("{side} x {side} x {side}"), &measured, None, note);
        }
        println!("{table}");
        Ok(())
    }
}
