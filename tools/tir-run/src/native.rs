//! Native code: the program is lowered, exported to MLIR, compiled by `tir-native`, and called in a process of its own
//! by `tir-native-run`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tir::{Diagnostic, Ir, TensorType, Type};
use tir_accel::{MachineInfo, Processor};
use tir_data::Array;
use tir_levels::ToNative;
use tir_levels::processors::HOST;
use tir_native::mlir::{self, Function, Module, Role};
use tir_pass::{PassManager, Pipeline};

use crate::bind;
use crate::execute::{Entry, Execution};
use crate::on_machine;

mod layers;

pub use layers::NativeLayer;

type Errors = Vec<Diagnostic>;

/// How native code is made and run.
#[derive(Clone, Debug, Default)]
pub struct Native {
    /// Keep every bit of what the interpreter gives.
    pub strict: bool,
    /// Calls; the time is that of the quickest.
    pub repeat: usize,
    /// Threads that share the work; results do not depend on it.
    pub threads: usize,
    /// Take the time of each layer too.
    pub by_layer: bool,
}

/// The category of the error that a program is for a processor which has more than this one.
pub const LESSER_PROCESSOR: &str = "lesser-processor";

/// The status of `tir-native-run` then.
const LESSER: i32 = 3;

/// A program as a library.
pub struct Built {
    /// The program at its last level.
    pub program: Ir,
    /// What the functions of the library take; its text is gone.
    pub module: Module,
    /// The library.
    pub library: PathBuf,
    /// The bytes of its constants, if they lie in a file.
    pub constants: Option<PathBuf>,
}

/// Where a library and its constants are to lie.
#[derive(Clone, Debug)]
pub struct Files {
    /// The library.
    pub library: PathBuf,
    /// The bytes of the constants.
    pub constants: PathBuf,
    /// Both were made before of the same program in the same way: nothing is compiled or written.
    pub made: bool,
}

fn fail(message: impl Into<String>) -> Errors {
    vec![Diagnostic::error(message.into())]
}

/// The programs that make and run native code: where `TIR_NATIVE` says, or beside this one.
///
/// # Errors
/// If they are not there, what to do.
pub fn programs() -> Result<[PathBuf; 2], Errors> {
    let said = std::env::var_os("TIR_NATIVE").map(PathBuf::from);
    let own = std::env::current_exe().ok();
    let beside = own.and_then(|path| Some(path.parent()?.join("tir-native")));
    let compiler = said
        .or(beside)
        .unwrap_or_else(|| PathBuf::from("tir-native"));
    let runner = compiler.with_file_name("tir-native-run");
    if compiler.is_file() && runner.is_file() {
        return Ok([compiler, runner]);
    }
    let error = Diagnostic::error(format!(
        "native code needs {}, which is not there",
        compiler.display()
    ));
    Err(vec![error.note(
        "with LLVM 22's packages libmlir-22-dev and mlir-22-tools, 'cd tools/native && cargo build --release' builds it; \
         copy tools/native/target/release/{tir-native,tir-native-run,libtir_math.a,libMLIR-C.so} there, or set TIR_NATIVE",
    )])
}

/// Lowers a program to native code and compiles it: library and constants go to files, or the library to the cache.
///
/// # Errors
/// If the program does not lower to native code, the program that compiles it is not there or fails, or a file cannot be
/// written.
pub fn build(module: &Ir, native: &Native, files: Option<&Files>) -> Result<Built, Errors> {
    let [compiler, _] = programs()?;
    let mut module = module.clone();
    let mut pipeline = Pipeline::new();
    let mut level = ToNative {
        // It looks for other algebra of tensors.
        egraph: (!tensors(&module)).then_some(false),
        approximate: !native.strict,
        ..ToNative::default()
    };
    if Processor::of_module(&module).is_none() {
        let (bytes, count) = vectors();
        (level.vector_bytes, level.registers) = (Some(bytes), Some(count));
    }
    pipeline.alias(level);
    PassManager::new(pipeline).run(&mut module).into_result()?;
    let options = mlir::Options {
        strict: native.strict,
        marks: native.by_layer,
        ..mlir::Options::default()
    };
    let mut made = mlir::export(&module, &options).map_err(|e| vec![*e])?;
    let text = std::mem::take(&mut made.text);
    let library = match files {
        Some(files) if files.made => files.library.clone(),
        _ => compile(&compiler, text, files.map(|files| &*files.library))?,
    };
    if let Some(files) = files.filter(|files| !files.made) {
        let written = made.write_weights(&files.constants);
        written.map_err(|error| vec![*error])?;
    }
    Ok(Built {
        program: module,
        module: made,
        library,
        constants: files.map(|files| files.constants.clone()),
    })
}

impl Entry {
    /// Runs the function as native code; an input is the number of an argument and its value.
    ///
    /// # Errors
    /// If the program does not lower to native code, the programs that make and run it are not there, or fail.
    pub fn execute_native(
        &self,
        module: &Ir,
        inputs: &[(usize, &Array)],
        native: &Native,
    ) -> Result<Execution, Errors> {
        self.call_native(&build(module, native, None)?, inputs, native)
    }

    /// Calls the function of a library that was built with these options; an input is the number of an argument and its
    /// value.
    ///
    /// # Errors
    /// If the library has no such function, or the program that calls it is not there or fails.
    pub fn call_native(
        &self,
        built: &Built,
        inputs: &[(usize, &Array)],
        native: &Native,
    ) -> Result<Execution, Errors> {
        let [_, runner] = programs()?;
        let function = built.module.functions.iter().find(|f| f.name == self.name);
        let function =
            function.ok_or_else(|| fail(format!("@{} is no public function", self.name)))?;
        let folder = Folder::new()?;
        let (seconds, layers) = call(&runner, built, function, inputs, native, &folder.0)?;
        Ok(Execution {
            outputs: self.native_outputs(function, &folder.0)?,
            machine: None,
            layers,
            trace: None,
            timeline: None,
            seconds,
        })
    }

    /// What the function gave: results, then arguments that are outputs. Results that are tensors became arguments
    /// behind those that the program has.
    fn native_outputs(&self, function: &Function, folder: &Path) -> Result<Vec<Array>, Errors> {
        let own = self.params.len();
        let find = |wanted: &dyn Fn(Role) -> bool| -> Vec<usize> {
            let all = function.arguments.iter().enumerate();
            all.filter(|(_, a)| wanted(a.role))
                .map(|(k, _)| k)
                .collect()
        };
        let tensors = find(&|role| matches!(role, Role::Output(k) if k >= own));
        let scalars = find(&|role| matches!(role, Role::Result(_)));
        let marked = find(&|role| matches!(role, Role::Output(k) if k < own));
        let (mut tensors, mut scalars) = (tensors.into_iter(), scalars.into_iter());
        let mut all: Vec<(Type, usize)> = Vec::new();
        for ty in &self.results {
            let place = match ty.shape() {
                Some(_) => tensors.next(),
                None => scalars.next(),
            };
            all.push((
                *ty,
                place.ok_or_else(|| fail("internal error: a result is missing"))?,
            ));
        }
        let params = self.params.iter().filter(|p| p.out);
        all.extend(params.map(|p| p.ty).zip(marked));
        all.into_iter()
            .map(|(ty, place)| {
                let path = file(folder, place);
                let bytes = std::fs::read(&path);
                let bytes =
                    bytes.map_err(|e| fail(format!("cannot read '{}': {e}", path.display())))?;
                let (dtype, shape) = bind::form(ty).map_err(|e| vec![*e])?;
                let array = Array::new(dtype, &shape, bytes.into());
                let array = array.map_err(|e| fail(e.to_string()))?;
                tir_interp::fitted(array, ty).map_err(|e| vec![*e])
            })
            .collect()
    }
}

/// Whether ops of a program give tensors.
fn tensors(ir: &Ir) -> bool {
    ir.walk_ids().into_iter().any(|op| {
        let mut results = ir.results(op);
        results.any(|value| ir.ty(value).is::<TensorType>()) || ir.child(op).is_some_and(tensors)
    })
}

/// Attaches the machine file of this processor to a program of whole tensors that no machine is attached to; says so.
///
/// # Errors
/// If the program has no body.
pub fn plan(module: &mut Ir) -> Result<Option<Diagnostic>, Errors> {
    if MachineInfo::slot(module).is_some() || !tensors(module) {
        return Ok(None);
    }
    on_machine::replace(module, Path::new(HOST))
}

/// Bytes and number of the vector registers of this processor, for programs that were planned for none.
pub fn vectors() -> (i64, i64) {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            return (64, 32);
        }
        if std::arch::is_x86_feature_detected!("avx") {
            return (32, 16);
        }
        (16, 16)
    }
    #[cfg(not(target_arch = "x86_64"))]
    (16, 32)
}

/// The file of an argument.
fn file(folder: &Path, k: usize) -> PathBuf {
    folder.join(format!("{k}.bin"))
}

/// Has a program compiled; gives the library, which lies in the cache unless a file is given.
fn compile(compiler: &Path, text: String, output: Option<&Path>) -> Result<PathBuf, Errors> {
    // What lowering took is free, and the other program needs memory too.
    tir_data::give_back_memory();
    let mut command = Command::new(compiler);
    command.arg("-");
    if let Some(output) = output {
        command.arg("-o").arg(output);
    }
    let start = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let name = compiler.display();
    let mut child = start.map_err(|e| fail(format!("cannot start '{name}': {e}")))?;
    let written = child
        .stdin
        .take()
        .map(|mut to| to.write_all(text.as_bytes()));
    // The other program has it: not two of it beside each other.
    drop(text);
    let done = child.wait_with_output();
    let done = done.map_err(|e| fail(format!("'{name}': {e}")))?;
    let said = String::from_utf8_lossy(&done.stderr);
    if !done.status.success() {
        let said: Vec<&str> = said.lines().take(20).collect();
        return Err(fail(format!(
            "'{name}' ended with {}:\n{}",
            done.status,
            said.join("\n")
        )));
    }
    if let Some(Err(e)) = written {
        return Err(fail(format!("'{name}' does not read its input: {e}")));
    }
    if let Some(output) = output {
        return Ok(output.to_path_buf());
    }
    let out = String::from_utf8_lossy(&done.stdout);
    match out.lines().next() {
        Some(path) => Ok(PathBuf::from(path)),
        None => Err(fail(format!("'{name}' says no library"))),
    }
}

/// Calls a function of a library; gives the seconds of the quickest call, and those of each layer if they are asked for.
fn call(
    runner: &Path,
    built: &Built,
    function: &Function,
    inputs: &[(usize, &Array)],
    native: &Native,
    folder: &Path,
) -> Result<(f64, Vec<NativeLayer>), Errors> {
    let write = |k: usize, all: &dyn Fn(&mut std::fs::File) -> std::io::Result<()>| {
        let path = file(folder, k);
        let done = std::fs::File::create(&path).and_then(|mut file| all(&mut file));
        done.map_err(|e| fail(format!("cannot write '{}': {e}", path.display())))?;
        Ok::<String, Errors>(format!("in:{}", path.display()))
    };
    let mut command = Command::new(runner);
    command.arg(&built.library).arg(&function.symbol);
    command.args(["--repeat", &native.repeat.max(1).to_string()]);
    command.args(["--threads", &native.threads.max(1).to_string()]);
    for (k, argument) in function.arguments.iter().enumerate() {
        command.arg(match argument.role {
            Role::Input(own) => {
                let input = inputs.iter().find(|(argument, _)| *argument == own);
                let (_, array) =
                    input.ok_or_else(|| fail(format!("argument {own} has no value")))?;
                write(k, &|file| file.write_all(array.bytes()))?
            }
            Role::Output(_) | Role::Result(_) => {
                format!("out:{}:{}", argument.bytes(), file(folder, k).display())
            }
        });
    }
    let constants = |file: &mut std::fs::File| {
        let fail = |e: tir::Failure| std::io::Error::other(e.message);
        let mut parts = built.module.weights();
        parts.try_for_each(|part| file.write_all(&part.map_err(fail)?))
    };
    command.arg(match &built.constants {
        Some(file) => format!("in:{}", file.display()),
        None => write(function.arguments.len(), &constants)?,
    });
    command.arg(format!("arena:{}:{}", function.arena, function.further));
    command.arg("threads");
    let marks = folder.join("marks.bin");
    if native.by_layer {
        let bytes = (function.marks.len() + 1) * size_of::<u64>();
        command.arg(format!("each:{bytes}:{}", marks.display()));
    }
    let name = runner.display();
    let done = command
        .output()
        .map_err(|e| fail(format!("cannot start '{name}': {e}")))?;
    if !done.status.success() {
        let why = String::from_utf8_lossy(&done.stderr);
        let why = why.trim_end();
        if done.status.code() == Some(LESSER) {
            let error = Diagnostic::error(why.strip_prefix("error: ").unwrap_or(why));
            return Err(vec![error.category(LESSER_PROCESSOR)]);
        }
        let status = done.status;
        return Err(fail(format!("'{name}' ended with {status}: {why}")));
    }
    let out = String::from_utf8_lossy(&done.stdout);
    let seconds: Vec<f64> = out.lines().filter_map(|line| line.parse().ok()).collect();
    let least = seconds.iter().copied().reduce(f64::min);
    let least = least.ok_or_else(|| fail(format!("'{name}' says no time")))?;
    if !native.by_layer {
        return Ok((least, Vec::new()));
    }
    let counts = std::fs::read(&marks);
    let counts = counts.map_err(|e| fail(format!("cannot read '{}': {e}", marks.display())))?;
    let (words, _) = counts.as_chunks::<{ size_of::<u64>() }>();
    let words: Vec<u64> = words.iter().map(|word| u64::from_ne_bytes(*word)).collect();
    let of_calls = words.chunks(function.marks.len() + 1).map(<[u64]>::to_vec);
    let calls: Vec<(f64, Vec<u64>)> = seconds.into_iter().zip(of_calls).collect();
    Ok((least, NativeLayer::all(&built.program, function, &calls)))
}

/// A folder of files for a run, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, Errors> {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tir-run-{}-{number}", std::process::id()));
        let made = std::fs::create_dir_all(&path);
        made.map_err(|e| fail(format!("cannot make the folder '{}': {e}", path.display())))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is in the folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
