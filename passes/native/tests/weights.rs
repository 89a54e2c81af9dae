//! The file of constants is there whole or not at all.

use std::path::{Path, PathBuf};

use tir::data::{Array, DType};
use tir::interp::attr_of;
use tir::{Attr, BlobAttr, Name};
use tir_native::mlir::{Constant, Module};

fn constant(at: usize, value: Attr, bytes: usize) -> Constant {
    Constant {
        name: Name::new("w"),
        at,
        bytes,
        value,
    }
}

fn module(constants: Vec<Constant>, bytes: usize) -> Module {
    Module {
        text: String::new(),
        functions: Vec::new(),
        constants,
        bytes,
    }
}

fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("tir-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).expect("a folder");
    path
}

fn files(folder: &Path) -> Vec<String> {
    let all = std::fs::read_dir(folder).expect("a folder");
    let names = all.map(|file| file.expect("a file").file_name());
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into()).collect();
    names.sort();
    names
}

/// Two constants, of which the second one is large, and a place between them.
fn constants() -> (Array, Array, Vec<Constant>) {
    let small = Array::random(DType::F32, &[10], 1).expect("an array");
    let large = Array::random(DType::F32, &[100, 100], 2).expect("an array");
    let all = vec![
        constant(0, attr_of(&small), 40),
        constant(64, attr_of(&large), 40_000),
    ];
    (small, large, all)
}

#[test]
fn constants_lie_at_their_places() {
    let folder = folder("weights");
    let (small, large, all) = constants();
    let file = folder.join("x.bin");
    let module = module(all, 40_064 + 64);
    module.write_weights(&file).expect("it is written");
    let wanted = [small.bytes(), &[0; 24], large.bytes(), &[0; 64]].concat();
    assert!(std::fs::read(&file).expect("the file") == wanted);
    assert_eq!(files(&folder), ["x.bin"]);
    std::fs::remove_dir_all(&folder).expect("the folder");
}

#[test]
fn what_cannot_be_read_leaves_the_file_as_it_was() {
    let folder = folder("half");
    let file = folder.join("x.bin");
    std::fs::write(&file, "before").expect("a file");
    let (_, large, mut all) = constants();
    let lost = Attr::new(BlobAttr {
        file: "".into(),
        key: "lost".into(),
        hash: format!("sha256:{}", "0".repeat(64)).into(),
        ty: tir::interp::type_of(&large),
    });
    all.push(constant(40_064, lost, 40_000));
    let error = module(all, 80_064).write_weights(&file).unwrap_err();
    assert!(error.message.contains("'lost'"), "{}", error.message);
    assert_eq!(std::fs::read_to_string(&file).expect("the file"), "before");
    assert_eq!(files(&folder), ["x.bin"]);
    // A folder of that name is no file that may be replaced.
    let (_, _, all) = constants();
    std::fs::create_dir(folder.join("y.bin")).expect("a folder");
    let error = module(all, 40_064).write_weights(&folder.join("y.bin"));
    assert!(error.is_err());
    assert_eq!(files(&folder), ["x.bin", "y.bin"]);
    std::fs::remove_dir_all(&folder).expect("the folder");
}
