//! What is called of LLVM's C interface, and of what is beside it in C++.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// LLVM's things, which it alone knows.
pub(super) type Ref = *mut c_void;

unsafe extern "C" {
    pub(super) fn LLVMParseCommandLineOptions(
        count: c_int,
        words: *const *const c_char,
        overview: *const c_char,
    );
    pub(super) fn LLVMContextCreate() -> Ref;
    pub(super) fn LLVMContextDispose(context: Ref);
    pub(super) fn LLVMDisposeModule(module: Ref);
    pub(super) fn LLVMDisposeTargetMachine(machine: Ref);
    pub(super) fn LLVMDisposePassBuilderOptions(options: Ref);
    pub(super) fn LLVMSetVisibility(global: Ref, visibility: c_uint);
    pub(super) fn LLVMGetDefaultTargetTriple() -> *mut c_char;
    pub(super) fn LLVMGetTargetFromTriple(
        triple: *const c_char,
        target: *mut Ref,
        error: *mut *mut c_char,
    ) -> c_int;
    pub(super) fn LLVMGetHostCPUName() -> *mut c_char;
    pub(super) fn LLVMGetHostCPUFeatures() -> *mut c_char;
    pub(super) fn LLVMDisposeMessage(text: *mut c_char);
    pub(super) fn LLVMCreateTargetMachine(
        target: Ref,
        triple: *const c_char,
        cpu: *const c_char,
        features: *const c_char,
        level: c_uint,
        reloc: c_uint,
        model: c_uint,
    ) -> Ref;
    pub(super) fn LLVMCreateTargetDataLayout(machine: Ref) -> Ref;
    pub(super) fn LLVMSetModuleDataLayout(module: Ref, layout: Ref);
    pub(super) fn LLVMSetTarget(module: Ref, triple: *const c_char);
    pub(super) fn LLVMCreatePassBuilderOptions() -> Ref;
    pub(super) fn LLVMRunPasses(
        module: Ref,
        passes: *const c_char,
        machine: Ref,
        options: Ref,
    ) -> Ref;
    pub(super) fn LLVMGetErrorMessage(error: Ref) -> *mut c_char;
    pub(super) fn LLVMTargetMachineEmitToFile(
        machine: Ref,
        module: Ref,
        file: *const c_char,
        kind: c_uint,
        error: *mut *mut c_char,
    ) -> c_int;
    pub(super) fn LLVMPrintModuleToFile(
        module: Ref,
        file: *const c_char,
        error: *mut *mut c_char,
    ) -> c_int;
    pub(super) fn LLVMGetFirstFunction(module: Ref) -> Ref;
    pub(super) fn LLVMGetNextFunction(function: Ref) -> Ref;
    pub(super) fn LLVMIsDeclaration(value: Ref) -> c_int;
    pub(super) fn LLVMSetLinkage(value: Ref, linkage: c_uint);
    pub(super) fn LLVMCountParams(function: Ref) -> c_uint;
    pub(super) fn LLVMGetParam(function: Ref, index: c_uint) -> Ref;
    pub(super) fn LLVMGlobalGetValueType(global: Ref) -> Ref;
    pub(super) fn LLVMGetValueName2(value: Ref, length: *mut usize) -> *const c_char;
    pub(super) fn LLVMAddFunction(module: Ref, name: *const c_char, ty: Ref) -> Ref;
    pub(super) fn LLVMFunctionType(
        result: Ref,
        parameters: *mut Ref,
        count: c_uint,
        variadic: c_int,
    ) -> Ref;
    pub(super) fn LLVMVoidTypeInContext(context: Ref) -> Ref;
    pub(super) fn LLVMPointerTypeInContext(context: Ref, space: c_uint) -> Ref;
    pub(super) fn LLVMInt64TypeInContext(context: Ref) -> Ref;
    pub(super) fn LLVMConstInt(ty: Ref, value: u64, signed: c_int) -> Ref;
    pub(super) fn LLVMAppendBasicBlockInContext(
        context: Ref,
        function: Ref,
        name: *const c_char,
    ) -> Ref;
    pub(super) fn LLVMCreateBuilderInContext(context: Ref) -> Ref;
    pub(super) fn LLVMPositionBuilderAtEnd(builder: Ref, block: Ref);
    pub(super) fn LLVMBuildGEP2(
        builder: Ref,
        ty: Ref,
        from: Ref,
        indices: *mut Ref,
        count: c_uint,
        name: *const c_char,
    ) -> Ref;
    pub(super) fn LLVMBuildLoad2(builder: Ref, ty: Ref, from: Ref, name: *const c_char) -> Ref;
    pub(super) fn LLVMBuildCall2(
        builder: Ref,
        ty: Ref,
        function: Ref,
        args: *mut Ref,
        count: c_uint,
        name: *const c_char,
    ) -> Ref;
    pub(super) fn LLVMBuildRetVoid(builder: Ref) -> Ref;
    pub(super) fn LLVMBuildRet(builder: Ref, value: Ref) -> Ref;
    pub(super) fn LLVMConstStringInContext2(
        context: Ref,
        text: *const c_char,
        length: usize,
        no_zero: c_int,
    ) -> Ref;
    pub(super) fn LLVMAddGlobal(module: Ref, ty: Ref, name: *const c_char) -> Ref;
    pub(super) fn LLVMSetInitializer(global: Ref, value: Ref);
    pub(super) fn LLVMSetGlobalConstant(global: Ref, constant: c_int);
    pub(super) fn LLVMGetNamedFunction(module: Ref, name: *const c_char) -> Ref;
    pub(super) fn LLVMTypeOf(value: Ref) -> Ref;
    pub(super) fn LLVMInt8TypeInContext(context: Ref) -> Ref;
    pub(super) fn LLVMStructTypeInContext(
        context: Ref,
        parts: *mut Ref,
        count: c_uint,
        packed: c_int,
    ) -> Ref;
    pub(super) fn LLVMBuildStructGEP2(
        builder: Ref,
        ty: Ref,
        from: Ref,
        index: c_uint,
        name: *const c_char,
    ) -> Ref;
    pub(super) fn LLVMBuildAlloca(builder: Ref, ty: Ref, name: *const c_char) -> Ref;
    pub(super) fn LLVMBuildStore(builder: Ref, value: Ref, to: Ref) -> Ref;
    pub(super) fn LLVMBuildAdd(builder: Ref, lhs: Ref, rhs: Ref, name: *const c_char) -> Ref;
    pub(super) fn LLVMBuildSub(builder: Ref, lhs: Ref, rhs: Ref, name: *const c_char) -> Ref;
    pub(super) fn LLVMBuildMul(builder: Ref, lhs: Ref, rhs: Ref, name: *const c_char) -> Ref;
    pub(super) fn LLVMBuildSDiv(builder: Ref, lhs: Ref, rhs: Ref, name: *const c_char) -> Ref;
    pub(super) fn LLVMBuildICmp(
        builder: Ref,
        predicate: c_uint,
        lhs: Ref,
        rhs: Ref,
        name: *const c_char,
    ) -> Ref;
    pub(super) fn LLVMBuildIsNull(builder: Ref, value: Ref, name: *const c_char) -> Ref;
    pub(super) fn LLVMBuildCondBr(builder: Ref, on: Ref, then: Ref, otherwise: Ref) -> Ref;
    pub(super) fn LLVMDisposeBuilder(builder: Ref);
    pub(super) fn LLVMCreateStringAttribute(
        context: Ref,
        key: *const c_char,
        key_length: c_uint,
        value: *const c_char,
        value_length: c_uint,
    ) -> Ref;
    pub(super) fn LLVMAddAttributeAtIndex(function: Ref, index: c_uint, attribute: Ref);
    pub(super) fn LLVMGetStringAttributeAtIndex(
        function: Ref,
        index: c_uint,
        key: *const c_char,
        length: c_uint,
    ) -> Ref;
    pub(super) fn LLVMGetStringAttributeValue(attribute: Ref, length: *mut c_uint)
    -> *const c_char;
}

// Of bases.cpp.
unsafe extern "C" {
    pub(super) fn tir_opaque_bases(module: Ref, least: c_uint);
}

// Of features.cpp.
unsafe extern "C" {
    pub(super) fn tir_x86_features(
        cpu: *const c_char,
        take: unsafe extern "C" fn(*mut c_void, *const c_char, usize),
        to: *mut c_void,
    ) -> bool;
}

/// The index of the attributes of a function itself.
pub(super) const FUNCTION: c_uint = c_uint::MAX;
