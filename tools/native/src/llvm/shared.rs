//! Functions that share a range of iterations among threads.
//!
//! For a function `f` of the ends of a range and more, `f.shared` is declared, which takes before all that the threads and
//! a number of bytes. It calls `f` on the whole range where there are no further threads. Otherwise it has the threads run
//! as many tasks as there are threads: a task finds the arguments in memory, takes its part of the range, and of the last
//! argument, a pointer, the part that lies its number times the bytes behind.
//!
//! The threads are `{ int64_t count; void (*parallel_for)(void *context, void (*function)(void *argument, int64_t index),
//! int64_t count, void *argument); void *context; }`.

use std::ffi::{CStr, c_char, c_uint};

use super::raw::*;
use super::symbols::named;
use super::text;

/// What ends the name of such a function.
const SHARED: &str = ".shared";

/// Gives all that are declared a body.
///
/// # Errors
/// If the arguments of one are not those that are expected.
///
/// # Safety
/// `module` is a module of LLVM in `context`.
pub(super) unsafe fn define(context: Ref, module: Ref) -> Result<(), String> {
    unsafe {
        let mut all = Vec::new();
        let mut function = LLVMGetFirstFunction(module);
        while !function.is_null() {
            if LLVMIsDeclaration(function) != 0 && named(function).ends_with(SHARED) {
                all.push(function);
            }
            function = LLVMGetNextFunction(function);
        }
        for function in all {
            Shared::new(context, module, function)?.define()?;
        }
    }
    Ok(())
}

struct Shared {
    context: Ref,
    module: Ref,
    function: Ref,
    name: String,
    /// The types of its arguments.
    types: Vec<Ref>,
    /// The function that is called on ranges, and its type.
    callee: (Ref, Ref),
    pointer: Ref,
    long: Ref,
}

/// No name.
const PLAIN: *const c_char = c"".as_ptr();

impl Shared {
    unsafe fn new(context: Ref, module: Ref, function: Ref) -> Result<Self, String> {
        unsafe {
            let name = named(function);
            let count = LLVMCountParams(function);
            let types: Vec<Ref> = (0..count)
                .map(|k| LLVMTypeOf(LLVMGetParam(function, k)))
                .collect();
            let pointer = LLVMPointerTypeInContext(context, 0);
            let long = LLVMInt64TypeInContext(context);
            let wanted = [pointer, long, long, long];
            if !types.starts_with(&wanted) || types.last() != Some(&pointer) {
                return Err(format!(
                    "'{name}' takes other arguments than threads, bytes, a range and buffers"
                ));
            }
            let own = text(name.strip_suffix(SHARED).unwrap_or(&name))?;
            let ty = LLVMFunctionType(
                LLVMVoidTypeInContext(context),
                types[2..].to_vec().as_mut_ptr(),
                count - 2,
                0,
            );
            let mut callee = LLVMGetNamedFunction(module, own.as_ptr());
            if callee.is_null() {
                callee = LLVMAddFunction(module, own.as_ptr(), ty);
                // Hidden: 1.
                LLVMSetVisibility(callee, 1);
            }
            Ok(Self {
                context,
                module,
                function,
                name,
                types,
                callee: (callee, ty),
                pointer,
                long,
            })
        }
    }

    unsafe fn number(&self, n: u64) -> Ref {
        unsafe { LLVMConstInt(self.long, n, 0) }
    }

    /// Adds a function of this module alone, with an empty block and a builder there.
    unsafe fn begin(&self, function: Ref, block: &CStr) -> Ref {
        unsafe {
            // Internal: 8.
            LLVMSetLinkage(function, 8);
            let block = LLVMAppendBasicBlockInContext(self.context, function, block.as_ptr());
            let builder = LLVMCreateBuilderInContext(self.context);
            LLVMPositionBuilderAtEnd(builder, block);
            builder
        }
    }

    unsafe fn call(&self, b: Ref, arguments: &mut [Ref]) {
        unsafe {
            let (function, ty) = self.callee;
            let count = arguments.len() as c_uint;
            LLVMBuildCall2(b, ty, function, arguments.as_mut_ptr(), count, PLAIN);
            LLVMBuildRetVoid(b);
        }
    }

    unsafe fn define(&self) -> Result<(), String> {
        unsafe {
            let frame = LLVMStructTypeInContext(
                self.context,
                self.types.clone().as_mut_ptr(),
                self.types.len() as c_uint,
                0,
            );
            let task = self.task(frame)?;
            let b = self.begin(self.function, c"entry");
            let block = |name: &CStr| {
                LLVMAppendBasicBlockInContext(self.context, self.function, name.as_ptr())
            };
            let (look, alone, share) = (block(c"look"), block(c"alone"), block(c"share"));
            let arguments: Vec<Ref> = (0..self.types.len())
                .map(|k| LLVMGetParam(self.function, k as c_uint))
                .collect();
            let threads = arguments[0];
            // Memory of a function is taken where it begins.
            let held = LLVMBuildAlloca(b, frame, PLAIN);
            let none = LLVMBuildIsNull(b, threads, PLAIN);
            LLVMBuildCondBr(b, none, alone, look);
            LLVMPositionBuilderAtEnd(b, look);
            let count = LLVMBuildLoad2(b, self.long, threads, PLAIN);
            // Signed and greater: 38.
            let several = LLVMBuildICmp(b, 38, count, self.number(1), PLAIN);
            LLVMBuildCondBr(b, several, share, alone);
            LLVMPositionBuilderAtEnd(b, alone);
            self.call(b, &mut arguments[2..].to_vec());
            LLVMPositionBuilderAtEnd(b, share);
            for (k, argument) in arguments.iter().enumerate() {
                let at = LLVMBuildStructGEP2(b, frame, held, k as c_uint, PLAIN);
                LLVMBuildStore(b, *argument, at);
            }
            let member = |k: u64| {
                let bytes = LLVMInt8TypeInContext(self.context);
                let mut at = self.number(8 * k);
                let at = LLVMBuildGEP2(b, bytes, threads, &mut at, 1, PLAIN);
                LLVMBuildLoad2(b, self.pointer, at, PLAIN)
            };
            let (run, given) = (member(1), member(2));
            let void = LLVMVoidTypeInContext(self.context);
            let mut types = [self.pointer, self.pointer, self.long, self.pointer];
            let ty = LLVMFunctionType(void, types.as_mut_ptr(), 4, 0);
            let mut all = [given, task, count, held];
            LLVMBuildCall2(b, ty, run, all.as_mut_ptr(), 4, PLAIN);
            LLVMBuildRetVoid(b);
            LLVMDisposeBuilder(b);
        }
        Ok(())
    }

    /// The function of a task: of the arguments in memory, and of its number.
    unsafe fn task(&self, frame: Ref) -> Result<Ref, String> {
        unsafe {
            let void = LLVMVoidTypeInContext(self.context);
            let ty = LLVMFunctionType(void, [self.pointer, self.long].as_mut_ptr(), 2, 0);
            let name = text(&format!("{}.task", self.name))?;
            let task = LLVMAddFunction(self.module, name.as_ptr(), ty);
            let b = self.begin(task, c"entry");
            let (held, number) = (LLVMGetParam(task, 0), LLVMGetParam(task, 1));
            let mut given: Vec<Ref> = (0..self.types.len())
                .map(|k| {
                    let at = LLVMBuildStructGEP2(b, frame, held, k as c_uint, PLAIN);
                    LLVMBuildLoad2(b, self.types[k], at, PLAIN)
                })
                .collect();
            let count = LLVMBuildLoad2(b, self.long, given[0], PLAIN);
            let [bytes, low, high] = [given[1], given[2], given[3]];
            let size = LLVMBuildSub(b, high, low, PLAIN);
            let end = |number: Ref| {
                let share = LLVMBuildMul(b, size, number, PLAIN);
                let share = LLVMBuildSDiv(b, share, count, PLAIN);
                LLVMBuildAdd(b, low, share, PLAIN)
            };
            let next = LLVMBuildAdd(b, number, self.number(1), PLAIN);
            (given[2], given[3]) = (end(number), end(next));
            if let Some(memory) = given.last_mut() {
                let mut at = LLVMBuildMul(b, bytes, number, PLAIN);
                let byte = LLVMInt8TypeInContext(self.context);
                *memory = LLVMBuildGEP2(b, byte, *memory, &mut at, 1, PLAIN);
            }
            self.call(b, &mut given[2..]);
            LLVMDisposeBuilder(b);
            Ok(task)
        }
    }
}
