//! The networks of `test/e2e/models/networks`, whose weights are not stored but made here, by the rules that
//! `make_networks.py` has beside them.

use std::path::{Path, PathBuf};

use prost::Message;
use tir_data::{Array, Bytes, DType, Random};
use tir_onnx::{ValueType, load, proto};

use crate::common::{arrays, root};

/// The seed of the first input.
const INPUTS: u64 = 1_000_000;

/// A network with its weights in a folder of its own, which is gone with it.
pub(crate) struct Network {
    folder: PathBuf,
    pub(crate) model: PathBuf,
    #[allow(
        dead_code,
        reason = "of the tests that read this file, some run no network"
    )]
    pub(crate) inputs: Vec<Array>,
    /// ONNX Runtime's answers.
    #[allow(
        dead_code,
        reason = "of the tests that read this file, some run no network"
    )]
    pub(crate) outputs: Vec<Array>,
}

impl Drop for Network {
    fn drop(&mut self) {
        // What is left lies in the folder of build results.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Elements of one external tensor.
fn weights(tensor: &proto::TensorProto, seed: u64) -> Vec<u8> {
    let dims: Vec<usize> = tensor.dims.iter().map(|dim| *dim as usize).collect();
    if DType::I8 == dtype(tensor) {
        let mut random = Random::new(seed);
        let top = |random: &mut Random| (random.next_u64() >> 56) as u8;
        return (0..dims.iter().product())
            .map(|_| top(&mut random))
            .collect();
    }
    let scale = match dims[..] {
        [_] => 0.1,
        _ => (6.0 / dims[1..].iter().product::<usize>() as f64).sqrt() as f32,
    };
    let drawn = Array::random(DType::F32, &dims, seed).expect("small enough");
    let scaled = drawn.iter_f64().map(|x| x as f32 * scale);
    scaled.flat_map(f32::to_le_bytes).collect()
}

/// The element type of an external tensor: floats or bytes.
fn dtype(tensor: &proto::TensorProto) -> DType {
    match tensor.data_type {
        1 => DType::F32,
        3 => DType::I8,
        other => panic!("'{}' has elements of type {other}", tensor.name),
    }
}

/// A network by its name; its folder is that of a test.
pub(crate) fn network(name: &str, test: &str) -> Network {
    let stored = root().join("test/e2e/models/networks");
    let file = stored.join(format!("{name}.onnx"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{name}"));
    std::fs::create_dir_all(&folder).expect("a folder of build results");
    let bytes = std::fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let model = folder.join(format!("{name}.onnx"));
    std::fs::write(&model, &bytes).expect("room");
    let parsed = proto::ModelProto::decode(Bytes::from(bytes)).expect("a model");
    let tensors = parsed.graph.into_iter().flat_map(|graph| graph.initializer);
    let external = tensors.filter(|tensor| tensor.data_location == 1);
    let all: Vec<u8> = external
        .zip(0..)
        .flat_map(|(tensor, seed)| weights(&tensor, seed))
        .collect();
    std::fs::write(folder.join(format!("{name}.weights")), all).expect("room");
    let loaded = load(&model).unwrap_or_else(|e| panic!("{e}"));
    let inputs = loaded.graph.inputs.iter().zip(INPUTS..);
    let inputs = inputs.map(|(input, seed)| {
        let ValueType::Tensor(ty) = &input.ty else {
            panic!("'{}' is no tensor", input.name);
        };
        let shape = ty.static_shape().expect("a static shape");
        Array::random(DType::F32, &shape, seed).expect("small enough")
    });
    let inputs = inputs.collect();
    let outputs = arrays(|k| stored.join(format!("{name}.out_{k}.npy")));
    assert!(!outputs.is_empty(), "{name} has answers");
    Network {
        folder,
        model,
        inputs,
        outputs,
    }
}
