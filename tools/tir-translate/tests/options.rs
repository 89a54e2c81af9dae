//! What a program depends on of the options of an import.

use std::path::Path;

use clap::Parser;
use tir_data::{Array, npy};
use tir_translate::OnnxOptions;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    onnx: OnnxOptions,
}

fn key(words: &[String]) -> Option<String> {
    let words = std::iter::once("tool".to_string()).chain(words.iter().cloned());
    Cli::try_parse_from(words).expect("options").onnx.key()
}

#[test]
fn a_bound_file_is_known_by_its_content() {
    let folder = std::env::temp_dir().join(format!("tir-bound-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (one, two) = (folder.join("one.npy"), folder.join("two.npy"));
    let write = |path: &std::path::Path, values: Vec<f32>| {
        let array = Array::from_vec(&[values.len()], values).expect("an array");
        npy::write(path, &array).expect("a file");
    };
    let bound = |path: &std::path::Path| key(&["--bind".into(), format!("x={}", path.display())]);
    assert_eq!(bound(&one), None);
    write(&one, vec![1.0, 2.0]);
    write(&two, vec![1.0, 2.0]);
    let before = bound(&one);
    assert!(before.is_some());
    assert_eq!(before, bound(&two));
    write(&one, vec![1.0, 3.0]);
    assert_ne!(before, bound(&one));
    // The same bytes in another shape are another value.
    let array = Array::from_vec(&[2, 1], vec![1.0f32, 2.0]).expect("an array");
    npy::write(&two, &array).expect("a file");
    assert_ne!(before, bound(&two));
    std::fs::remove_dir_all(&folder).expect("the folder");
}

#[test]
fn nodes_are_counted_wherever_they_are_written_out() {
    let model =
        tir_onnx::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../test/e2e/ops/loop.onnx"))
            .unwrap();
    let import = |max_nodes: usize| {
        let options = OnnxOptions {
            max_nodes,
            ..OnnxOptions::default()
        };
        tir_translate::import_model_with(&model, &options)
    };
    // The loop, and three nodes of four steps.
    assert!(import(13).is_ok());
    let errors = import(12).err().unwrap();
    let message = format!("{:?}", errors[0]);
    assert!(message.contains("beyond the first 12 nodes"), "{message}");
}

#[test]
fn every_option_is_in_the_key() {
    let plain = key(&[]);
    for words in [
        ["--bind", "x=1"],
        ["--shape", "x=1"],
        ["--dim", "x=1"],
        ["--max-steps", "1"],
        ["--max-table", "1"],
        ["--max-nodes", "1"],
    ] {
        assert_ne!(plain, key(&words.map(str::to_string)), "{words:?}");
    }
    let names = ["--bind", "x=1"].map(str::to_string);
    assert_ne!(key(&names), key(&["--bind", "y=1"].map(str::to_string)));
}
