//! MLIR to what LLVM makes of it.

use std::path::Path;

use melior::Context;
use melior::dialect::DialectRegistry;
use melior::ir::Module;
use melior::pass::PassManager;
use melior::utility::{parse_pass_pipeline, register_all_dialects, register_all_llvm_translations};

use crate::clock::Clock;
use crate::llvm::{self, Emit, Symbols};
use crate::options::Options;

/// From loops of scalar operations to LLVM's dialect. Memory as bare pointers; views first, since they make index
/// arithmetic of the dialect affine.
pub const PIPELINE: &str = "builtin.module(\
    expand-strided-metadata,\
    lower-affine,\
    convert-scf-to-cf,\
    arith-expand{include-bf16=true},\
    convert-math-to-llvm,\
    convert-math-to-libm,\
    convert-vector-to-llvm,\
    finalize-memref-to-llvm,\
    convert-func-to-llvm{use-bare-ptr-memref-call-conv=true},\
    convert-arith-to-llvm,\
    convert-index-to-llvm,\
    convert-cf-to-llvm,\
    convert-ub-to-llvm,\
    reconcile-unrealized-casts)";

/// MLIR's things; `quiet` does not show errors.
pub fn context(quiet: bool) -> Context {
    let registry = DialectRegistry::new();
    register_all_dialects(&registry);
    let context = Context::new_with_registry(&registry, false);
    register_all_llvm_translations(&context);
    context.attach_diagnostic_handler(move |diagnostic| {
        if !quiet {
            eprintln!("{}: {diagnostic}", diagnostic.location());
        }
        true
    });
    context
}

/// To LLVM's dialect.
pub fn pipeline(context: &Context, module: &mut Module<'_>, input: &str) -> Result<(), String> {
    let manager = PassManager::new(context);
    // What was parsed is verified; passes of MLIR leave no other.
    manager.enable_verifier(false);
    parse_pass_pipeline(manager.as_operation_pass_manager(), PIPELINE)
        .map_err(|e| format!("internal error: the pipeline does not parse: {e}"))?;
    manager
        .run(module)
        .map_err(|_| format!("'{input}' does not lower to LLVM"))
}

/// MLIR to what LLVM makes of it.
pub fn compile(
    options: &Options,
    context: &Context,
    module: &mut Module<'_>,
    symbols: &Symbols<'_>,
    emit: Emit,
    file: &Path,
    clock: &mut Clock,
) -> Result<(), String> {
    let input = &options.input;
    pipeline(context, module, input)?;
    clock.lap("lower");
    llvm::compile(
        module,
        &options.asked,
        options.level,
        symbols,
        emit,
        file,
        clock,
    )
    .map_err(|why| format!("'{input}': {why}"))
}
