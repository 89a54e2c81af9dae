//! Makes the one library that Debian's packages lack, MLIR's C interface as a shared library, and what LLVM's C interface
//! lacks, in C++.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=MLIR_SYS_LINK_SHARED");
    println!("cargo:rerun-if-env-changed=MLIR_SYS_220_PREFIX");
    let prefix = env::var("MLIR_SYS_220_PREFIX").unwrap_or_else(|_| "/usr".to_string());
    let headers = Path::new(&prefix).join("include");
    for part in ["bases", "features"] {
        println!("cargo:rerun-if-changed=src/{part}.cpp");
        match compiled(&headers, part) {
            Ok(object) => println!("cargo:rustc-link-arg-bin=tir-native={}", object.display()),
            Err(why) => {
                eprintln!("cannot compile src/{part}.cpp: {why}");
                std::process::exit(1);
            }
        }
    }
    if env::var("MLIR_SYS_LINK_SHARED").as_deref() != Ok("1") {
        return;
    }
    let folder = Path::new(&prefix).join("lib");
    if !folder.join("libMLIR-C.so").exists() {
        // Beside the program, which finds it there wherever both are put.
        let out = PathBuf::from(env::var("OUT_DIR").unwrap_or_else(|_| ".".to_string()));
        let beside = out.ancestors().nth(3).unwrap_or(&out);
        // Whole under its name at once: the program may be running.
        let (own, library) = (out.join("libMLIR-C.so"), beside.join("libMLIR-C.so"));
        let made = make(&folder, &own)
            .and_then(|()| std::fs::rename(&own, library).map_err(|e| e.to_string()));
        if let Err(why) = made {
            eprintln!("cannot make libMLIR-C.so: {why}");
            std::process::exit(1);
        }
        println!("cargo:rustc-link-search=native={}", beside.display());
        println!("cargo:rustc-link-arg=-Wl,-rpath,$ORIGIN:$ORIGIN/..");
    }
    println!("cargo:rustc-link-arg=-Wl,-rpath,{}", folder.display());
}

/// Compiles a part in C++.
fn compiled(headers: &Path, part: &str) -> Result<PathBuf, String> {
    let out = PathBuf::from(env::var("OUT_DIR").map_err(|e| e.to_string())?);
    let object = out.join(format!("{part}.o"));
    let mut command = Command::new(env::var("CXX").unwrap_or_else(|_| "c++".to_string()));
    command.args(["-std=c++17", "-O1", "-fPIC", "-fno-exceptions", "-fno-rtti"]);
    command.arg("-isystem").arg(headers);
    command.arg("-c").arg(format!("src/{part}.cpp"));
    command.arg("-o").arg(&object);
    let status = command.status();
    let status = status.map_err(|e| format!("cannot start {command:?}: {e}"))?;
    match status.success() {
        true => Ok(object),
        false => Err(format!("{command:?} ended with {status}")),
    }
}

/// Links all archives of the C interface, in order of their names, into one library.
fn make(folder: &Path, library: &Path) -> Result<(), String> {
    let entries = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let names = entries.filter_map(|e| e.ok().map(|e| e.path()));
    let is_part = |path: &PathBuf| {
        let name = path.file_name().map(|n| n.to_string_lossy().to_string());
        name.is_some_and(|n| n.starts_with("libMLIRCAPI") && n.ends_with(".a"))
    };
    let mut parts: Vec<PathBuf> = names.filter(is_part).collect();
    parts.sort();
    if parts.is_empty() {
        let folder = folder.display();
        return Err(format!(
            "there is no libMLIRCAPI*.a in {folder}: install libmlir-22-dev"
        ));
    }
    let cxx = env::var("CXX").unwrap_or_else(|_| "c++".to_string());
    let mut command = Command::new(&cxx);
    command.arg("-shared").arg("-o").arg(library);
    command
        .arg("-Wl,--whole-archive")
        .args(parts)
        .arg("-Wl,--no-whole-archive");
    command
        .arg(format!("-L{}", folder.display()))
        .args(["-lMLIR", "-lLLVM"]);
    command.arg(format!("-Wl,-rpath,{}", folder.display()));
    let status = command
        .status()
        .map_err(|e| format!("cannot start {cxx}: {e}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{cxx} ended with {status}")),
    }
}
