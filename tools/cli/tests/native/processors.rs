//! Code for a processor that a machine file names: what it is made of, and what a lesser processor does with it.

use super::*;

/// The assembly of a program for a machine file of a processor.
fn assembly(file: &File, text: &str) -> String {
    let [compiler, _] = programs().expect("was asked for");
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
    let folder = std::env::temp_dir().join(format!("tir-code-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (input, output) = (folder.join("code.mlir"), folder.join("code.s"));
    std::fs::write(&input, made.text).expect("a file");
    let mut command = std::process::Command::new(compiler);
    command
        .args(["--emit", "asm", "-o"])
        .arg(&output)
        .arg(&input);
    let done = command.output().expect("starts");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    let code = std::fs::read_to_string(&output).expect("a text");
    std::fs::remove_dir_all(&folder).expect("the folder");
    code
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
