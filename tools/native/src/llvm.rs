//! The part of LLVM's C interface that is used: from a module to an object for a processor.

mod shared;

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Once;

use melior::ir::Module;

use crate::Clock;
use crate::features::KNOWN;

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
    fn LLVMBuildRet(builder: Ref, value: Ref) -> Ref;
    fn LLVMConstStringInContext2(
        context: Ref,
        text: *const c_char,
        length: usize,
        no_zero: c_int,
    ) -> Ref;
    fn LLVMAddGlobal(module: Ref, ty: Ref, name: *const c_char) -> Ref;
    fn LLVMSetInitializer(global: Ref, value: Ref);
    fn LLVMSetGlobalConstant(global: Ref, constant: c_int);
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
    fn LLVMGetStringAttributeAtIndex(
        function: Ref,
        index: c_uint,
        key: *const c_char,
        length: c_uint,
    ) -> Ref;
    fn LLVMGetStringAttributeValue(attribute: Ref, length: *mut c_uint) -> *const c_char;
}

// Of features.cpp.
unsafe extern "C" {
    fn tir_x86_features(
        cpu: *const c_char,
        take: unsafe extern "C" fn(*mut c_void, *const c_char, usize),
        to: *mut c_void,
    ) -> bool;
}

/// The index of the attributes of a function itself.
const FUNCTION: c_uint = c_uint::MAX;

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
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_string(),
            features: String::new(),
            vector: 256,
        }
    }
    /// The one that the functions of a module say they are for, if they do.
    ///
    /// # Safety
    /// `module` is a module of LLVM.
    unsafe fn said(module: Ref) -> Option<Self> {
        let function = unsafe { functions(module) }.into_iter().next()?;
        let value = |key: &CStr| unsafe {
            let length = key.count_bytes() as c_uint;
            let attribute = LLVMGetStringAttributeAtIndex(function, FUNCTION, key.as_ptr(), length);
            if attribute.is_null() {
                return None;
            }
            let mut length = 0;
            let text = LLVMGetStringAttributeValue(attribute, &mut length);
            let bytes = std::slice::from_raw_parts(text.cast::<u8>(), length as usize);
            Some(String::from_utf8_lossy(bytes).to_string())
        };
        let named = Self::named(&value(c"target-cpu")?);
        let vector = value(c"prefer-vector-width").and_then(|bits| bits.parse().ok());
        Some(Self {
            features: value(c"target-features").unwrap_or_default(),
            vector: vector.unwrap_or(named.vector),
            ..named
        })
    }
    /// What code for it needs, of what there is a question for: LLVM's names, in the order of [`KNOWN`].
    ///
    /// # Errors
    /// If the processor is not known, or is said to have something that no library can ask for.
    fn needs(&self) -> Result<Vec<&'static str>, String> {
        unsafe extern "C" fn take(to: *mut c_void, text: *const c_char, length: usize) {
            // SAFETY: as `tir_x86_features` is called below.
            let (all, bytes) = unsafe {
                let all = &mut *to.cast::<Vec<String>>();
                (all, std::slice::from_raw_parts(text.cast::<u8>(), length))
            };
            all.push(String::from_utf8_lossy(bytes).to_string());
        }
        let mut all: Vec<String> = Vec::new();
        if cfg!(target_arch = "x86_64") {
            let name = text(&self.name)?;
            // SAFETY: `take` gets the list that it is called with.
            let known = unsafe { tir_x86_features(name.as_ptr(), take, (&raw mut all).cast()) };
            // That of the host may be new to LLVM: then its features say all.
            if !known && self.features.is_empty() {
                return Err(format!("LLVM knows no processor '{}'", self.name));
            }
        }
        for feature in self.features.split(',').filter(|f| !f.is_empty()) {
            match feature.split_at_checked(1) {
                Some(("+", name)) => all.push(name.to_string()),
                Some(("-", name)) => all.retain(|had| had != name),
                _ => return Err(format!("feature '{feature}': expected +NAME or -NAME")),
            }
        }
        let known = KNOWN.iter().copied();
        Ok(known
            .filter(|name| all.iter().any(|had| had == name))
            .collect())
    }
    /// The same with other features behind its own.
    fn with(mut self, features: &str) -> Self {
        if !self.features.is_empty() && !features.is_empty() {
            self.features.push(',');
        }
        self.features += features;
        self
    }
}

/// The first feature that is wanted and that no library can ask for.
fn unknown<'a>(lists: &[&'a str]) -> Option<&'a str> {
    let all = lists.iter().flat_map(|list| list.split(','));
    let mut wanted = all.filter_map(|feature| feature.strip_prefix('+'));
    wanted.find(|name| !KNOWN.contains(name))
}

/// What is asked for of a processor.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Asked {
    /// The processor; without one that which the functions say they are for, else this one.
    pub processor: Option<Processor>,
    /// What it has beyond, or lacks: behind what is known of it.
    pub features: String,
    /// Bits of vectors to use; without it as many as it has.
    pub vector: Option<u32>,
}

impl Asked {
    /// The processor for a module.
    ///
    /// # Safety
    /// `module` is a module of LLVM.
    unsafe fn resolve(&self, module: Ref) -> Result<Processor, String> {
        let processor = self.processor.clone();
        let named = processor.or_else(|| unsafe { Processor::said(module) });
        // What LLVM finds out of this processor goes beyond what code is made of.
        let said = named.as_ref().filter(|p| **p != Processor::host());
        let said = said.map_or("", |p| &p.features);
        if let Some(unknown) = unknown(&[said, &self.features]) {
            return Err(format!(
                "a library cannot find out whether a processor has '{unknown}'; it can for {}",
                KNOWN.join(", ")
            ));
        }
        let processor = named.unwrap_or_else(Processor::host).with(&self.features);
        let vector = self.vector.unwrap_or(processor.vector);
        Ok(Processor {
            vector,
            ..processor
        })
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

/// Adds what the library needs of a processor: `tirlib_requires`, names that end in zeros, and an empty one behind them, and
/// `tirlib_lacks`, a function that gives the first one of them that the processor lacks, or null.
///
/// # Safety
/// `module` is a module of LLVM in `context`.
unsafe fn requirements(context: Ref, module: Ref, names: &[&str]) -> Result<(), String> {
    let names: String = names.iter().map(|name| format!("{name}\0")).collect();
    unsafe {
        // A zero is added behind the text.
        let value = LLVMConstStringInContext2(context, names.as_ptr().cast(), names.len(), 0);
        let table = LLVMAddGlobal(module, LLVMTypeOf(value), c"tirlib_requires".as_ptr());
        LLVMSetInitializer(table, value);
        LLVMSetGlobalConstant(table, 1);
        // Each part with functions of the library has both, and they are the same.
        const WEAK_ODR: c_uint = 6;
        LLVMSetLinkage(table, WEAK_ODR);
        let pointer = LLVMPointerTypeInContext(context, 0);
        let asks = LLVMFunctionType(pointer, [pointer].as_mut_ptr(), 1, 0);
        let asked = LLVMAddFunction(module, c"tir_lacks".as_ptr(), asks);
        let ty = LLVMFunctionType(pointer, null_mut(), 0, 0);
        let made = LLVMAddFunction(module, c"tirlib_lacks".as_ptr(), ty);
        LLVMSetLinkage(made, WEAK_ODR);
        let builder = LLVMCreateBuilderInContext(context);
        let block = LLVMAppendBasicBlockInContext(context, made, c"entry".as_ptr());
        LLVMPositionBuilderAtEnd(builder, block);
        let given = LLVMBuildCall2(builder, asks, asked, [table].as_mut_ptr(), 1, c"".as_ptr());
        LLVMBuildRet(builder, given);
        LLVMDisposeBuilder(builder);
        // Whatever the processor is that runs it.
        let least = match cfg!(target_arch = "x86_64") {
            true => "x86-64",
            false => "generic",
        };
        attribute(context, made, "target-cpu", least)
    }
}

/// Says something of a function.
///
/// # Safety
/// `function` is a function of LLVM in `context`.
unsafe fn attribute(context: Ref, function: Ref, key: &str, value: &str) -> Result<(), String> {
    let (length, long) = (key.len() as c_uint, value.len() as c_uint);
    let (key, value) = (text(key)?, text(value)?);
    unsafe {
        let made = LLVMCreateStringAttribute(context, key.as_ptr(), length, value.as_ptr(), long);
        LLVMAddAttributeAtIndex(function, FUNCTION, made);
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
                attribute(context, function, key, value)?;
            }
        }
    }
    Ok(())
}
