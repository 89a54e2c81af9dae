//! The part of LLVM's C interface that is used: from a module to an object for a processor.

mod processor;
mod raw;
mod shared;
mod symbols;

use std::ffi::{CStr, CString, c_char, c_int, c_uint};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Once;

use melior::ir::Module;

use crate::clock::Clock;
use raw::*;
use symbols::{attributes, packed, requirements, visible};

pub use processor::{Asked, Processor};

macro_rules! target {
    ($arch:literal: $($init:ident)*) => {
        #[cfg(target_arch = $arch)]
        unsafe extern "C" { $(fn $init();)* }
        #[cfg(target_arch = $arch)]
        fn initialize() {
            // SAFETY: they take nothing, and may be called more than once.
            unsafe { $($init();)* }
        }
    };
}
target!("x86_64": LLVMInitializeX86TargetInfo LLVMInitializeX86Target LLVMInitializeX86TargetMC
    LLVMInitializeX86AsmPrinter);
target!("aarch64": LLVMInitializeAArch64TargetInfo LLVMInitializeAArch64Target LLVMInitializeAArch64TargetMC
    LLVMInitializeAArch64AsmPrinter);

/// Options of LLVM's passes, which it has for a process as a whole: what loops it may write out in full. Those that gain by it
/// say so; of others it costs more than half of all time of compiling, and gives little.
pub const UNROLL: [&CStr; 2] = [c"-unroll-threshold=50", c"-unroll-full-max-count=4"];

/// Terms that an address has at least that loop strength reduction does not take apart: with all of them it takes two thirds of
/// the time of code generation, and finds nothing better. Those of an address of a loop's own are a base and an index.
const TERMS: c_uint = 3;

/// Sets the limits of all that is compiled.
fn unrolled() {
    let words = [c"tir-native", UNROLL[0], UNROLL[1]].map(CStr::as_ptr);
    // SAFETY: the words live as long as the program.
    unsafe { LLVMParseCommandLineOptions(words.len() as c_int, words.as_ptr(), c"".as_ptr()) };
}

/// Takes over a text of LLVM's.
///
/// # Safety
/// `text` is a text that `LLVMDisposeMessage` takes.
unsafe fn taken(text: *mut c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    let copy = unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .to_string();
    unsafe { LLVMDisposeMessage(text) };
    copy
}

fn text(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|_| format!("'{text}' has a zero byte"))
}

/// What is made of a module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Emit {
    /// LLVM's text, as it is optimized.
    Llvm,
    /// The processor's assembly.
    Assembly,
    /// An object.
    Object,
}

/// Which functions of a module others may call.
#[derive(Default)]
pub struct Symbols<'a> {
    /// What a library gives.
    pub public: &'a [String],
    /// What these call, here or in other parts of the library.
    pub private: &'a [String],
    /// Whether there are no other parts.
    pub whole: bool,
}

/// Translates a module of LLVM's dialect, optimizes it, and writes what is made of it to a file. For each public function
/// there is then another one, with `_packed` behind its name, which takes one pointer, to its arguments.
///
/// # Errors
/// If the module has ops that are not of LLVM, the processor is not known, or the file cannot be written.
pub fn compile(
    module: &Module<'_>,
    asked: &Asked,
    level: u32,
    symbols: &Symbols<'_>,
    emit: Emit,
    file: &Path,
    clock: &mut Clock,
) -> Result<(), String> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        initialize();
        unrolled();
    });
    let path = text(&file.to_string_lossy())?;
    // SAFETY: the operation lives in `module`; all else that is passed is made here, and lives as long as the program.
    unsafe {
        let context = LLVMContextCreate();
        let module =
            mlir_sys::mlirTranslateModuleToLLVMIR(module.as_operation().to_raw(), context.cast());
        if module.is_null() {
            return Err("does not translate to LLVM".to_string());
        }
        let module: Ref = module.cast();
        let processor = &asked.resolve(module)?;
        let (name, features) = (text(&processor.name)?, text(&processor.features)?);
        visible(module, symbols);
        shared::define(context, module)?;
        packed(context, module, symbols)?;
        attributes(context, module, processor)?;
        if !symbols.public.is_empty() {
            requirements(context, module, &processor.needs()?)?;
        }
        clock.lap("translate");
        let triple = LLVMGetDefaultTargetTriple();
        let (mut target, mut error) = (null_mut(), null_mut());
        if LLVMGetTargetFromTriple(triple, &mut target, &mut error) != 0 {
            return Err(taken(error));
        }
        // Optimized as the passes are, addresses relative, code of any size below 2 GiB.
        let machine = LLVMCreateTargetMachine(
            target,
            triple,
            name.as_ptr(),
            features.as_ptr(),
            level.min(3),
            2,
            0,
        );
        if machine.is_null() {
            return Err(format!("there is no processor '{}'", processor.name));
        }
        LLVMSetTarget(module, triple);
        LLVMSetModuleDataLayout(module, LLVMCreateTargetDataLayout(machine));
        let passes = text(&format!("default<O{}>", level.min(3)))?;
        let builder = LLVMCreatePassBuilderOptions();
        let failed = LLVMRunPasses(module, passes.as_ptr(), machine, builder);
        LLVMDisposePassBuilderOptions(builder);
        clock.lap("optimize");
        if !failed.is_null() {
            return Err(taken(LLVMGetErrorMessage(failed)));
        }
        tir_opaque_bases(module, TERMS);
        let mut error = null_mut();
        let failed = match emit {
            Emit::Llvm => LLVMPrintModuleToFile(module, path.as_ptr(), &mut error),
            Emit::Assembly => {
                LLVMTargetMachineEmitToFile(machine, module, path.as_ptr(), 0, &mut error)
            }
            Emit::Object => {
                LLVMTargetMachineEmitToFile(machine, module, path.as_ptr(), 1, &mut error)
            }
        };
        let done = match failed {
            0 => Ok(()),
            _ => Err(taken(error)),
        };
        LLVMDisposeTargetMachine(machine);
        LLVMDisposeModule(module);
        LLVMContextDispose(context);
        clock.lap("emit");
        done
    }
}
