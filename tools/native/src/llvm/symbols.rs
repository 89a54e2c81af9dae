//! Functions of a module: who sees them, what they may use, and those that are added for callers of a library.

use std::ffi::{CStr, c_uint};
use std::ptr::null_mut;

use super::raw::*;
use super::{Processor, Symbols, text};

/// The name of a function.
///
/// # Safety
/// `function` is a function of LLVM.
pub(super) unsafe fn named(function: Ref) -> String {
    let name = unsafe { CStr::from_ptr(LLVMGetValueName2(function, &mut 0)) };
    name.to_string_lossy().to_string()
}

/// What functions of one library alone call is not seen outside of it.
///
/// # Safety
/// `module` is a module of LLVM.
pub(super) unsafe fn visible(module: Ref, symbols: &Symbols<'_>) {
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
pub(super) unsafe fn functions(module: Ref) -> Vec<Ref> {
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
pub(super) unsafe fn packed(
    context: Ref,
    module: Ref,
    symbols: &Symbols<'_>,
) -> Result<(), String> {
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
pub(super) unsafe fn requirements(context: Ref, module: Ref, names: &[&str]) -> Result<(), String> {
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
pub(super) unsafe fn attribute(
    context: Ref,
    function: Ref,
    key: &str,
    value: &str,
) -> Result<(), String> {
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
pub(super) unsafe fn attributes(
    context: Ref,
    module: Ref,
    processor: &Processor,
) -> Result<(), String> {
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
