//! Code for a processor that a machine file names: what it is made of, and what a lesser processor does with it.

use super::*;
use tir_levels::processors::{AVX2, AVX512, File, PORTABLE, host};

/// What `tir-native` makes of MLIR.
fn emitted(text: &str, kind: &str) -> String {
    let [compiler, _] = programs().expect("was asked for");
    let folder = std::env::temp_dir().join(format!("tir-code-{kind}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (input, output) = (folder.join("code.mlir"), folder.join("code"));
    std::fs::write(&input, text).expect("a file");
    let mut command = std::process::Command::new(compiler);
    command
        .args(["--emit", kind, "-o"])
        .arg(&output)
        .arg(&input);
    let done = command.output().expect("starts");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    let code = std::fs::read_to_string(&output).expect("a text");
    std::fs::remove_dir_all(&folder).expect("the folder");
    code
}

/// The assembly of a program for a machine file of a processor.
fn assembly(file: &File, text: &str) -> String {
    let machine = root().join("test/e2e/machines").join(file.file);
    let tool = tir_opt::stock();
    tool.load();
    let mut module =
        tir_text::parse(text, Name::new("program"), &Default::default()).expect("parses");
    let pipeline = format!("to-native{{machine={}}}", machine.display());
    lower(&tool, &mut module, &pipeline).expect("native level");
    let options = mlir::Options {
        strict: false,
        ..mlir::Options::default()
    };
    let made = mlir::export(&module, &options).expect("MLIR");
    emitted(&made.text, "asm")
}

#[test]
fn addresses_of_several_terms_that_loops_begin_at_are_opaque() {
    if !can_compile() {
        return;
    }
    let code = |row: &str| {
        let text = format!(
            "func.func @main(%m: memref<65536xf32>, %y: memref<64xf32>, %i: index, %j: index) {{
              %c0 = arith.constant 0 : index
              %c1 = arith.constant 1 : index
              %c64 = arith.constant 64 : index
              %c97 = arith.constant 97 : index
              %c331 = arith.constant 331 : index
              %block = arith.muli %i, %c97 : index
              %row = {row} : index
              %at = arith.addi %block, %row : index
              %part = memref.subview %m[%at] [64] [1]
                : memref<65536xf32> to memref<64xf32, strided<[1], offset: ?>>
              scf.for %k = %c0 to %c64 step %c1 {{
                %x = memref.load %part[%k] : memref<64xf32, strided<[1], offset: ?>>
                memref.store %x, %y[%k] : memref<64xf32>
              }}
              return
            }}"
        );
        emitted(&text, "llvm")
    };
    // A buffer, a block and a row; then a constant in place of the row.
    let code = [code("arith.muli %j, %c331"), code("arith.addi %c331, %c97")];
    let frozen = code.each_ref().map(|code| code.contains("freeze ptr"));
    assert_eq!(frozen, [true, false], "{code:?}");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn code_is_for_the_processor_of_the_machine_file() {
    if !can_compile() {
        return;
    }
    let text =
        "func.func @main(%x: tensor<56x64xf32>, %w: tensor<64x64xf32>) -> tensor<56x64xf32> {
      %y = graph.matmul %x, %w : (tensor<56x64xf32>, tensor<64x64xf32>) -> tensor<56x64xf32>
      func.return %y : tensor<56x64xf32>
    }";
    let uses = |code: &str, register: &str| code.contains(register);
    let code = assembly(&AVX512, text);
    assert!(uses(&code, "%zmm16"), "{code}");
    let code = assembly(&AVX2, text);
    assert!(uses(&code, "%ymm8") && uses(&code, "vfmadd"), "{code}");
    assert!(!uses(&code, "%zmm") && !uses(&code, "%ymm16"), "{code}");
    // For this processor, in vectors of 16 bytes.
    let code = assembly(&PORTABLE, text);
    let product = |line: &str| line.contains("fmadd") || line.contains("mulps");
    let mut products = code.lines().filter(|line| product(line)).peekable();
    assert!(products.peek().is_some(), "{code}");
    assert!(products.all(|line| line.contains("%xmm")), "{code}");
    let text = std::fs::read_to_string(root().join("test/e2e/machines").join(host().file));
    assert_eq!(text.expect("a machine file"), host().text);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_library_for_more_than_this_processor_is_refused() {
    if !can_compile() {
        return;
    }
    tir_opt::stock().load();
    let run = |features: &str| {
        let text = PORTABLE.text.replace(
            "vector_bytes",
            &format!("target = \"x86-64\", {features}vector_bytes"),
        );
        assert_ne!(text, PORTABLE.text);
        let text = text
            + "func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
          %y = graph.relu %x : tensor<8xf32>
          func.return %y : tensor<8xf32>
        }";
        let module = tir_text::parse(&text, Name::new("program"), &Default::default());
        let module = module.expect("parses");
        let input = Array::new(DType::F32, &[8], vec![0; 32].into()).expect("an array");
        native(&module, Name::new("main"), &[input], true, 1)
    };
    // Each processor of this kind.
    assert_eq!(run("").map(|all| all.len()), Ok(1));
    let why = run(&format!("features = \"+sse3,+{}\", ", lacking()));
    let wanted = format!(
        "is for a processor with {}, which this one has not",
        lacking()
    );
    assert!(
        why.clone().is_err_and(|why| why.contains(&wanted)),
        "{why:?}"
    );
    // The library could not ask.
    let why = run("features = \"+mwaitx\", ");
    let wanted = "a library cannot find out whether a processor has 'mwaitx'";
    assert!(
        why.clone().is_err_and(|why| why.contains(wanted)),
        "{why:?}"
    );
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_library_for_more_than_this_processor_is_made_and_not_run() {
    if !can_compile() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("tir-lesser-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let more = format!("target = \"x86-64\", features = \"+{}\", ", lacking());
    let machine = PORTABLE
        .text
        .replace("vector_bytes", &(more + "vector_bytes"));
    std::fs::write(folder.join("more.tir"), machine).expect("a file");
    let model = root().join("test/e2e/models/cnn.onnx");
    let model = model.display().to_string();
    let arguments = [
        "compile",
        &model,
        "--native",
        "--machine",
        "more.tir",
        "-o",
        ".",
    ];
    // What is kept says so again.
    for _ in 0..2 {
        let text = done(&folder, env!("CARGO_BIN_EXE_tir"), &arguments);
        let why = format!(
            "is for a processor with {}, which this one has not",
            lacking()
        );
        assert!(text.contains("not run: '") && text.contains(&why), "{text}");
        assert!(text.contains("library   ./cnn.so"), "{text}");
        for made in ["cnn.so", "cnn.h", "cnn.c", "cnn.bin"] {
            assert!(folder.join(made).is_file(), "{made}: {text}");
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
}
