//! Weights in files: what is saved loads again, and what does not fit is said.

use std::fs;
use std::path::Path;

use tir_core::{Attr, BlobAttr, Ir, Type};
use tir_data::{Array, DType, blob, write_safetensors};
use tir_graph::Constant;
use tir_io::{Out, load_blobs, save};

/// A module with a function that holds these constants.
fn module(values: &[Attr]) -> Ir {
    for dialect in [
        &tir_builtin::DIALECT,
        &tir_func::DIALECT,
        &tir_graph::DIALECT,
    ] {
        dialect.load();
    }
    let (mut module, body) = tir_builtin::module();
    let (mut function, entry) = tir_func::function("main", Type::function([], []));
    for value in values {
        function.add(entry, Constant { value: *value });
    }
    function.add(entry, tir_func::Return { operands: vec![] });
    module.adopt(body, function);
    module
}

fn blobs(ir: &Ir) -> Vec<BlobAttr> {
    let mut out = Vec::new();
    ir.walk(&mut |op| {
        let value = op.attr("value");
        out.extend(value.and_then(|v| v.get::<BlobAttr>()).cloned());
    });
    out
}

fn array(seed: u64) -> Array {
    Array::random(DType::F32, &[20, 30], seed).unwrap()
}

#[test]
fn what_is_made_in_memory_gets_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (array(1), array(2));
    let small = tir_interp::attr_of(&Array::scalar(1f32));
    let values = [
        tir_interp::attr_named(&a, "w"),
        tir_interp::attr_named(&b, "w"),
        small,
    ];
    let mut ir = module(&values);
    let out = dir.path().join("net.tir");
    save(&mut ir, Out::File(&out), None, |_| "text".into()).unwrap();
    assert_eq!(fs::read_to_string(&out).unwrap(), "text");
    let saved = blobs(&ir);
    let places: Vec<_> = saved.iter().map(|b| (&*b.file, &*b.key)).collect();
    assert_eq!(
        places,
        [("net.safetensors", "w"), ("net.safetensors", "w_1")]
    );
    let file = tir_data::SafeTensors::open(&dir.path().join("net.safetensors")).unwrap();
    assert_eq!(file.get("w").unwrap(), a);
    assert_eq!(file.get("w_1").unwrap(), b);
    load_blobs(&ir, dir.path()).unwrap();
}

#[test]
fn what_lies_in_a_file_stays_there() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("weights");
    let other = dir.path().join("out");
    fs::create_dir(&folder).unwrap();
    fs::create_dir(&other).unwrap();
    let w = array(11);
    write_safetensors(&folder.join("w.safetensors"), [("w", &w)]).unwrap();
    let attr = |file: &str, hash: String, shape: &[i64]| {
        let ty = Type::tensor(shape, Type::f32());
        let (file, key, hash) = (file.into(), "w".into(), hash.into());
        Attr::new(BlobAttr {
            file,
            key,
            hash,
            ty,
        })
    };
    let mut ir = module(&[attr("w.safetensors", blob::hash(&w), &[20, 30])]);
    load_blobs(&ir, &folder).unwrap();
    let out = other.join("net.tir");
    save(&mut ir, Out::File(&out), None, |_| String::new()).unwrap();
    assert_eq!(&*blobs(&ir)[0].file, "../weights/w.safetensors");
    assert!(!other.join("net.safetensors").exists());
    load_blobs(&ir, &other).unwrap();
    // The file that is replaced keeps what the program has in it.
    let mut ir = module(&[
        attr("w.safetensors", blob::hash(&w), &[20, 30]),
        tir_interp::attr_named(&array(12), "v"),
    ]);
    load_blobs(&ir, &folder).unwrap();
    save(&mut ir, Out::File(&folder.join("w.tir")), None, |_| {
        String::new()
    })
    .unwrap();
    let file = tir_data::SafeTensors::open(&folder.join("w.safetensors")).unwrap();
    assert_eq!(file.get("w").unwrap(), w);
    assert_eq!(file.get("v").unwrap(), array(12));
}

#[test]
fn what_does_not_fit_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let w = array(21);
    write_safetensors(&dir.path().join("w.safetensors"), [("w", &w)]).unwrap();
    let right = blob::hash(&w);
    let error = |file: &str, key: &str, hash: &str, shape: &[i64]| {
        let ty = Type::tensor(shape, Type::f32());
        let (file, key, hash) = (file.into(), key.into(), hash.into());
        let ir = module(&[Attr::new(BlobAttr {
            file,
            key,
            hash,
            ty,
        })]);
        let folder: &Path = dir.path();
        load_blobs(&ir, folder).unwrap_err()[0].message.clone()
    };
    let file = "w.safetensors";
    assert!(error("none.safetensors", "w", &right, &[20, 30]).contains("cannot open"));
    assert!(error(file, "v", &right, &[20, 30]).contains("tensor 'v': is not in the file"));
    assert!(
        error(file, "w", &right, &[30, 20])
            .contains("is a tensor<20x30xf32>, expected a tensor<30x20xf32>")
    );
    let wrong = format!("sha256:{}", "0".repeat(64));
    assert!(
        error(file, "w", &wrong, &[20, 30])
            .contains(&format!("has hash {right}, expected {wrong}"))
    );
    assert!(error(file, "w", "md5", &[20, 30]).contains("has hash 'md5'"));
    assert!(error("", "w", &wrong, &[20, 30]).contains("names no file"));
}

#[test]
fn standard_output_needs_a_name_for_weights() {
    let mut ir = module(&[tir_interp::attr_named(&array(31), "w")]);
    let error = save(&mut ir, Out::Stdout, None, |_| String::new()).unwrap_err();
    assert_eq!(
        error.message,
        "no file is named for 1 constant in memory, first 'w'"
    );
}
