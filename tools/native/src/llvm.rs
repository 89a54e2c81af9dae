//! The part of LLVM's C interface that is used: from a module to an object for a processor.

mod shared;

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Once;

use melior::ir::Module;

use crate::Clock;

/// LLVM's things, which it alone knows.
type Ref = *mut c_void;

unsafe extern "C" {
    fn LLVMParseCommandLineOptions(
        count: c_int,
        words: *const *const c_char,
        overview: *const c_char,
    );
    fn LLVMContextCreate() -> Ref;
    fn LLVMContextDispose(context: Ref);
    fn LLVMDisposeModule(module: Ref);
    fn LLVMDisposeTargetMachine(machine: Ref);
    fn LLVMDisposePassBuilderOptions(options: Ref);
    fn LLVMSetVisibility(global: Ref, visibility: c_uint);
    fn LLVMGetDefaultTargetTriple() -> *mut c_char;
    fn LLVMGetTargetFromTriple(
        triple: *const c_char,
        target: *mut Ref,
        error: *mut *mut c_char,
    ) -> c_int;
    fn LLVMGetHostCPUName() -> *mut c_char;
    fn LLVMGetHostCPUFeatures() -> *mut c_char;
    fn LLVMDisposeMessage(text: *mut c_char);
    fn LLVMCreateTargetMachine(
        target: Ref,
        triple: *const c_char,
        cpu: *const c_char,
        features: *const c_char,
        level: c_uint,
        reloc: c_uint,
        model: c_uint,
    ) -> Ref;
    fn LLVMCreateTargetDataLayout(machine: Ref) -> Ref;
    fn LLVMSetModuleDataLayout(module: Ref, layout: Ref);
    fn LLVMSetTarget(module: Ref, triple: *const c_char);
    fn LLVMCreatePassBuilderOptions() -> Ref;
    fn LLVMRunPasses(module: Ref, passes: *const c_char, machine: Ref, options: Ref) -> Ref;
    fn LLVMGetErrorMessage(error: Ref) -> *mut c_char;
    fn LLVMTargetMachineEmitToFile(
        machine: Ref,
        module: Ref,
        file: *const c_char,
        kind: c_uint,
        error: *mut *mut c_char,
    ) -> c_int;
    fn LLVMPrintModuleToFile(module: Ref, file: *const c_char, error: *mut *mut c_char) -> c_int;
    fn LLVMGetFirstFunction(module: Ref) -> Ref;
    fn LLVMGetNextFunction(function: Ref) -> Ref;
    fn LLVMIsDeclaration(value: Ref) -> c_int;
    fn LLVMSetLinkage(value: Ref, linkage: c_uint);
    fn LLVMCountParams(function: Ref) -> c_uint;
    fn LLVMGetParam(function: Ref, index: c_uint) -> Ref;
    fn LLVMGlobalGetValueType(global: Ref) -> Ref;
    fn LLVMGetValueName2(value: Ref, length: *mut usize) -> *const c_char;
    fn LLVMAddFunction(module: Ref, name: *const c_char, ty: Ref) -> Ref;
    fn LLVMFunctionType(result: Ref, parameters: *mut Ref, count: c_uint, variadic: c_int) -> Ref;
    fn LLVMVoidTypeInContext(context: Ref) -> Ref;
    fn LLVMPointerTypeInContext(context: Ref, space: c_uint) -> Ref;
    fn LLVMInt64TypeInContext(context: Ref) -> Ref;
    fn LLVMConstInt(ty: Ref, value: u64, signed: c_int) -> Ref;
    fn LLVMAppendBasicBlockInContext(context: Ref, function: Ref, name: *const c_char) -> Ref;
    fn LLVMCreateBuilderInContext(context: Ref) -> Ref;
    fn LLVMPositionBuilderAtEnd(builder: Ref, block: Ref);
    fn LLVMBuildGEP2(
        builder: Ref,
        ty: Ref,
        from: Ref,
        indices: *mut Ref,
        count: c_uint,
        name: *const c_char,
    ) -> Ref;
    fn LLVMBuildLoad2(builder: Ref, ty: Ref, from: Ref, name: *const c_char) -> Ref;
    fn LLVMBuildCall2(
        builder: Ref,
        ty: Ref,
        function: Ref,
        args: *mut Ref,
        count: c_uint,
        name: *const c_char,
    ) -> Ref;
    fn LLVMBuildRetVoid(builder: Ref) -> Ref;
    fn LLVMGetNamedFunction(module: Ref, name: *const c_char) -> Ref;
    fn LLVMTypeOf(value: Ref) -> Ref;
    fn LLVMInt8TypeInContext(context: Ref) -> Ref;
    fn LLVMStructTypeInContext(context: Ref, parts: *mut Ref, count: c_uint, packed: c_int) -> Ref;
    fn LLVMBuildStructGEP2(
        builder: Ref,
        ty: Ref,
        from: Ref,
        index: c_uint,
        name: *const c_char,
    ) -> Ref;
    fn LLVMBuildAlloca(builder: Ref, ty: Ref, name: *const c_char) -> Ref;
    fn LLVMBuildStore(builder: Ref, value: Ref, to: Ref) -> Ref;
    fn LLVMBuildAdd(builder: Ref, lhs: Ref, rhs: Ref, name: *const c_char) -> Ref;
    fn LLVMBuildSub(builder: Ref, lhs: Ref, rhs: Ref, name: *const c_char) -> Ref;
    fn LLVMBuildMul(builder: Ref, lhs: Ref, rhs: Ref, name: *const c_char) -> Ref;
    fn LLVMBuildSDiv(builder: Ref, lhs: Ref, rhs: Ref, name: *const c_char) -> Ref;
    fn LLVMBuildICmp(
        builder: Ref,
        predicate: c_uint,
        lhs: Ref,
        rhs: Ref,
        name: *const c_char,
    ) -> Ref;
    fn LLVMBuildIsNull(builder: Ref, value: Ref, name: *const c_char) -> Ref;
    fn LLVMBuildCondBr(builder: Ref, on: Ref, then: Ref, otherwise: Ref) -> Ref;
    fn LLVMDisposeBuilder(builder: Ref);
    fn LLVMCreateStringAttribute(
        context: Ref,
        key: *const c_char,
        key_length: c_uint,
        value: *const c_char,
        value_length: c_uint,
    ) -> Ref;
    fn LLVMAddAttributeAtIndex(function: Ref, index: c_uint, attribute: Ref);
}

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

/// Sets the limits of all that is compiled.
fn unrolled() {
    let words = [c"tir-native", UNROLL[0], UNROLL[1]].map(CStr::as_ptr);
    // SAFETY: the words live as long as the program.
    unsafe { LLVMParseCommandLineOptions(words.len() as c_int, words.as_ptr(), c"".as_ptr()) };
}

/// What machine code is made for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Processor {
    /// LLVM's name of it.
    pub name: String,
    /// What it has beyond, or lacks, of what the name says: `+avx2,-avx512f`.
    pub features: String,
    /// Bits of vectors to use.
    pub vector: u32,
}

impl Processor {
    /// The one that this program runs on.
    pub fn host() -> Self {
        // SAFETY: both give text that is to be disposed.
        let (name, features) =
            unsafe { (taken(LLVMGetHostCPUName()), taken(LLVMGetHostCPUFeatures())) };
        let vector = vector_bits(&features);
        Self {
            name,
            features,
            vector,
        }
    }
    /// One of a name.
    pub fn named(name: &str, features: &str, vector: u32) -> Self {
        Self {
            name: name.to_string(),
            features: features.to_string(),
            vector,
        }
    }
}

/// Bits of the vectors that a processor with these features has.
fn vector_bits(features: &str) -> u32 {
    let has = |wanted: &str| features.split(',').any(|f| f == wanted);
    match () {
        () if has("+avx512f") => 512,
        () if has("+avx") => 256,
        () => 128,
    }
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
    processor: &Processor,
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
    let (name, features) = (text(&processor.name)?, text(&processor.features)?);
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
        visible(module, symbols);
        shared::define(context, module)?;
        packed(context, module, symbols)?;
        attributes(context, module, processor)?;
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

/// The name of a function.
///
/// # Safety
/// `function` is a function of LLVM.
unsafe fn named(function: Ref) -> String {
    let name = unsafe { CStr::from_ptr(LLVMGetValueName2(function, &mut 0)) };
    name.to_string_lossy().to_string()
}

/// What functions of one library alone call is not seen outside of it.
///
/// # Safety
/// `module` is a module of LLVM.
unsafe fn visible(module: Ref, symbols: &Symbols<'_>) {
    unsafe {
        let mut function = LLVMGetFirstFunction(module);
        while !function.is_null() {
            if symbols.private.contains(&named(function)) {
                match symbols.whole && LLVMIsDeclaration(function) == 0 {
                    // Internal: 8; hidden: 1.
                    true => LLVMSetLinkage(function, 8),
                    false => LLVMSetVisibility(function, 1),
                }
            }
            function = LLVMGetNextFunction(function);
        }
    }
}

/// The functions of a module that have a body.
///
/// # Safety
/// `module` is a module of LLVM.
unsafe fn functions(module: Ref) -> Vec<Ref> {
    let mut all = Vec::new();
    let mut function = unsafe { LLVMGetFirstFunction(module) };
    while !function.is_null() {
        if unsafe { LLVMIsDeclaration(function) } == 0 {
            all.push(function);
        }
        function = unsafe { LLVMGetNextFunction(function) };
    }
    all
}

/// Adds for each public function one that takes its arguments in an array.
///
/// # Safety
/// `module` is a module of LLVM in `context`, whose public functions take pointers and give nothing.
unsafe fn packed(context: Ref, module: Ref, symbols: &Symbols<'_>) -> Result<(), String> {
    unsafe {
        let pointer = LLVMPointerTypeInContext(context, 0);
        for function in functions(module) {
            let name = named(function);
            if !symbols.public.contains(&name) {
                continue;
            }
            let name = text(&format!("{name}_packed"))?;
            let ty = LLVMFunctionType(LLVMVoidTypeInContext(context), [pointer].as_mut_ptr(), 1, 0);
            let made = LLVMAddFunction(module, name.as_ptr(), ty);
            let builder = LLVMCreateBuilderInContext(context);
            LLVMPositionBuilderAtEnd(
                builder,
                LLVMAppendBasicBlockInContext(context, made, c"entry".as_ptr()),
            );
            let mut args = Vec::new();
            for k in 0..LLVMCountParams(function) {
                let index = LLVMConstInt(LLVMInt64TypeInContext(context), k.into(), 0);
                let from = LLVMGetParam(made, 0);
                let at = LLVMBuildGEP2(
                    builder,
                    pointer,
                    from,
                    [index].as_mut_ptr(),
                    1,
                    c"".as_ptr(),
                );
                args.push(LLVMBuildLoad2(builder, pointer, at, c"".as_ptr()));
            }
            let ty = LLVMGlobalGetValueType(function);
            LLVMBuildCall2(
                builder,
                ty,
                function,
                args.as_mut_ptr(),
                args.len() as c_uint,
                c"".as_ptr(),
            );
            LLVMBuildRetVoid(builder);
            LLVMDisposeBuilder(builder);
        }
    }
    Ok(())
}

/// Says of each function what vectors it may use: LLVM takes half of AVX-512's by itself.
///
/// # Safety
/// `module` is a module of LLVM in `context`.
unsafe fn attributes(context: Ref, module: Ref, processor: &Processor) -> Result<(), String> {
    let bits = processor.vector.to_string();
    let all = [
        ("prefer-vector-width", bits.as_str()),
        ("min-legal-vector-width", bits.as_str()),
        ("target-cpu", &processor.name),
        ("target-features", &processor.features),
    ];
    unsafe {
        for function in functions(module) {
            for (key, value) in all {
                let (length, long) = (key.len() as c_uint, value.len() as c_uint);
                let (key, value) = (text(key)?, text(value)?);
                let made =
                    LLVMCreateStringAttribute(context, key.as_ptr(), length, value.as_ptr(), long);
                // Of the function itself.
                LLVMAddAttributeAtIndex(function, c_uint::MAX, made);
            }
        }
    }
    Ok(())
}
