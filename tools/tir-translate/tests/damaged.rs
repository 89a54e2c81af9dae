//! A thousand damaged files, made from all committed models: each is imported to a verified program or refused with the place
//! of what is wrong with it, in memory of twice the file and a constant, and never a panic.
//!
//! Damage is of bytes, which mostly ends in what reads messages, and of messages: sizes, numbers, names and operands are
//! changed in files that are well formed, which ends in what gives operators their meaning.

use std::path::{Path, PathBuf};

use cap::Cap;
use tir_core::Diagnostic;
use tir_data::{Bytes, Random};
use tir_onnx::{messages, proto, write};
use tir_translate::{OnnxOptions, import_model_with};

/// Beyond the limit that the test sets, allocation fails and the test aborts.
#[global_allocator]
static ALLOCATOR: Cap<std::alloc::System> = Cap::new(std::alloc::System, usize::MAX);

/// Damaged files.
const FILES: usize = 1_000;

/// Bytes that an import may take beside twice the file.
const CONSTANT: usize = 32 << 20;

/// Numbers in a table that an operator is put together with.
const TABLE: usize = 1 << 19;

/// Numbers that sizes and steps should not be.
const ODD: [i64; 15] = [
    -1,
    0,
    1,
    2,
    7,
    1_000,
    1 << 20,
    1 << 31,
    1 << 32,
    1 << 40,
    1 << 62,
    i64::MAX,
    i64::MIN,
    i64::MIN + 1,
    -3,
];

fn models() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../test/e2e");
    let mut models = Vec::new();
    for folder in ["models", "ops"] {
        let entries = std::fs::read_dir(root.join(folder)).expect("a folder of models");
        let paths = entries.map(|e| e.expect("an entry").path());
        models.extend(paths.filter(|p| p.extension().is_some_and(|e| e == "onnx")));
    }
    models.sort();
    models
}

/// Changes bytes: single ones, a part that is cut, doubled or taken out, a run of large numbers.
fn bytes(random: &mut Random, file: &mut Vec<u8>) {
    for _ in 0..=random.below(3) {
        let at = random.below(file.len().max(1));
        let len = random.below(40).min(file.len() - at);
        match random.below(6) {
            0 => file.truncate(at),
            1 => drop(file.drain(at..at + len)),
            2 => {
                let part = file[at..at + len].to_vec();
                let to = random.below(file.len() + 1);
                drop(file.splice(to..to, part));
            }
            3 => file[at..at + len.min(9)].fill(0xff),
            _ => {
                if let Some(byte) = file.get_mut(at) {
                    *byte = random.next_u64() as u8;
                }
            }
        }
    }
}

fn odd(random: &mut Random) -> i64 {
    ODD[random.below(ODD.len())]
}

/// Changes what an entry of a list is, or how many there are.
fn list<T: Clone>(random: &mut Random, list: &mut Vec<T>, change: impl Fn(&mut Random, &mut T)) {
    if list.is_empty() {
        return;
    }
    let at = random.below(list.len());
    match random.below(6) {
        0 => drop(list.remove(at)),
        1 => list.push(list[at].clone()),
        2 => list.swap(at, 0),
        _ => change(random, &mut list[at]),
    }
}

fn tensor(random: &mut Random, tensor: &mut proto::TensorProto) {
    match random.below(4) {
        0 => list(random, &mut tensor.dims, |r, d| *d = odd(r)),
        1 => tensor.data_type = random.below(25) as i32,
        2 => list(random, &mut tensor.int64_data, |r, n| *n = odd(r)),
        _ => {
            let Some(data) = &tensor.raw_data else { return };
            let mut data = data.to_vec();
            // Sizes, axes and indices are integers of 64 bits.
            let places = data.len() / 8;
            if places > 0 {
                let at = 8 * random.below(places);
                data[at..at + 8].copy_from_slice(&odd(random).to_le_bytes());
            }
            tensor.raw_data = Some(Bytes::from(data));
        }
    }
}

fn attribute(random: &mut Random, attribute: &mut proto::AttributeProto) {
    match random.below(5) {
        0 => attribute.r#type = random.below(15) as i32,
        1 => attribute.name.push('x'),
        2 => attribute.f = attribute.f.map(|_| f32::NAN),
        _ => {
            attribute.i = attribute.i.map(|_| odd(random));
            list(random, &mut attribute.ints, |r, n| *n = odd(r));
            if let Some(t) = &mut attribute.t {
                tensor(random, t);
            }
            if let Some(inner) = &mut attribute.g {
                graph(random, inner);
            }
        }
    }
}

fn value(random: &mut Random, value: &mut proto::ValueInfoProto) {
    let kind = value.r#type.as_mut().and_then(|t| t.value.as_mut());
    let Some(proto::TypeKind::Tensor(ty)) = kind else {
        return;
    };
    match (random.below(3), &mut ty.shape) {
        (0, _) => ty.elem_type = random.below(25) as i32,
        (1, shape) => *shape = None,
        (_, Some(shape)) => list(random, &mut shape.dim, |r, d| {
            d.value = Some(proto::DimensionKind::Value(odd(r)));
        }),
        _ => {}
    }
}

fn graph(random: &mut Random, graph: &mut proto::GraphProto) {
    let names: Vec<String> = graph.node.iter().flat_map(|n| n.output.clone()).collect();
    match random.below(8) {
        0 => list(random, &mut graph.initializer, tensor),
        1 => list(random, &mut graph.input, value),
        2 => list(random, &mut graph.output, value),
        3 => list(random, &mut graph.node, |r, node| {
            list(r, &mut node.input, |r, name| {
                *name = names[r.below(names.len())].clone();
            });
        }),
        4 => list(random, &mut graph.node, |_, node| node.op_type.push('2')),
        _ => list(random, &mut graph.node, |r, node| {
            list(r, &mut node.attribute, attribute);
        }),
    }
}

/// Whether an error says where it is.
fn placed(error: &Diagnostic) -> bool {
    let said = |what: &str| error.message.contains(what);
    let places = [
        "node '",
        "node #",
        "input '",
        "input #",
        "output '",
        "output #",
        "initializer",
        "value_info",
        "function '",
        "opset",
        "byte ",
        "graph",
    ];
    places.iter().any(|place| said(place)) || !error.notes.is_empty() || error.loc.place().is_some()
}

// One test, since the allocator's limit is shared by all threads.
#[test]
fn damaged_files_are_refused_with_a_place() {
    tir_translate::load_dialects();
    let options = OnnxOptions {
        max_table: TABLE,
        ..OnnxOptions::default()
    };
    let models = models();
    let mut random = Random::new(11);
    let (mut programs, mut refused, mut unread) = (0, 0, 0);
    for k in 0..FILES {
        let path = &models[random.below(models.len())];
        let mut file = std::fs::read(path).expect("a committed model");
        let what = format!("file {k}, {}", path.display());
        if k % 3 == 0 {
            bytes(&mut random, &mut file);
        } else {
            let mut model = messages(file.into()).unwrap_or_else(|e| panic!("{what}: {e}"));
            for _ in 0..=random.below(2) {
                if let Some(whole) = &mut model.graph {
                    graph(&mut random, whole);
                }
            }
            file = write::encode(&model);
        }
        let limit = ALLOCATOR.allocated() + 2 * file.len() + CONSTANT;
        ALLOCATOR.set_limit(limit).expect("more than there is");
        match tir_onnx::decode(file.into(), None) {
            Err(error) => {
                unread += 1;
                assert!(error.place.is_some(), "{what}: no place in: {error}");
            }
            Ok(model) => match import_model_with(&model, &options) {
                Ok(ir) => {
                    tir::verify(&ir).unwrap_or_else(|e| panic!("{what}: {e:?}"));
                    programs += 1;
                }
                Err(errors) => {
                    refused += 1;
                    assert!(!errors.is_empty(), "{what}");
                    for error in errors {
                        assert!(placed(&error), "{what}: no place in: {}", error.message);
                    }
                }
            },
        }
        ALLOCATOR.set_limit(usize::MAX).expect("more than there is");
    }
    println!("{programs} programs, {refused} refused, {unread} no model");
    assert!(programs > 100 && refused > 100 && unread > 100);
}
