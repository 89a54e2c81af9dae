//! Bufferization: tensors become buffers in memory spaces, written in place where no later read
//! needs the old value.
//!
//! Results of functions become arguments marked `func.out`, constants globals of the module.
//! What lies between is decided by one analysis per function ([`analysis`]), which asks the
//! interfaces of [`tir_memref::bufferize`], and is then rewritten op by op ([`buffers`]). The
//! words are those of MLIR's one-shot bufferization, and so is the form of the question; here the
//! analysis decides in the order of the text, and asks the control-flow graph what may run between
//! a definition, a write and a read (`conflict`).
//!
//! Functions may have several blocks. A tensor argument of a block that others branch to has a
//! buffer of its own, into which a branch copies what it hands over, unless it lies there already.
#![forbid(unsafe_code)]

pub mod alias_info;
pub mod analysis;
mod branches;
pub mod buffers;
mod conflict;
mod interfaces;
mod place;
mod structure;

use std::collections::HashMap;

use tir::{
    At, Attr, Diagnostic, FunctionType, Ir, Op, OpId, Pass, PassCx, PassInfo, PassResult, Scopes,
    SymbolTable, TensorType, Type, Value, pass,
};
use tir_accel::MachineInfo;
use tir_func::{Func, Return};
use tir_memref::bufferize::{BufferRequirement, bufferizable};
use tir_tensor::{CollapseShape, ExpandShape};

use alias_info::Root;
use analysis::{Analysis, is_tensor, touches_tensors};
use buffers::{AllocationSite, Buffers, Decisions};
use structure::{Globals, argument_type};

pub use interfaces::attach;

/// All passes of this crate.
pub fn passes() -> Vec<PassInfo> {
    vec![PassInfo::of::<Bufferize>()]
}

pass! {
    /// Converts tensors to buffers in memory spaces, in place where no later read needs the old
    /// value.
    /// Function results become arguments marked `func.out`, and constants become globals of the
    /// module.
    pub struct Bufferize = "bufferize" on "builtin.module" {
        /// Emit a remark for each copy that says why it is needed.
        pub remarks: bool = false,
    }
}

impl Pass for Bufferize {
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let report = bufferize(ir)?;
        cx.count("copies", report.copies);
        report.told.into_iter().for_each(|remark| cx.remark(remark));
        if self.remarks {
            report
                .remarks
                .into_iter()
                .for_each(|remark| cx.remark(remark));
        }
        Ok(())
    }
}

/// What bufferization did.
#[derive(Default, Debug)]
pub struct Report {
    /// For each copy why it is there.
    pub remarks: Vec<Diagnostic>,
    /// Tiles that the thread copies for calls of units: what costs cycles, whether remarks are asked for or not.
    pub told: Vec<Diagnostic>,
    /// The number of copies in the program, apart from the transfers it had before.
    pub copies: usize,
}

/// Makes all functions of a module work on buffers.
///
/// Errors: an op on tensors that is not known to work on buffers, a buffer whose size is not known.
pub fn bufferize(module: &mut Ir) -> Result<Report, Vec<Diagnostic>> {
    attach();
    let far = MachineInfo::attached(module).and_then(|m| Some(Attr::str(m.far()?.name.as_str())));
    let taken = SymbolTable::new(module)
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    let mut globals = Globals::new(far, taken);
    let (mut report, mut errors) = (Report::default(), Vec::new());
    let mut requirements = requirements(module);
    for (slot, child) in module.children_mut() {
        let decisions = Decisions {
            far,
            requirements: requirements.remove(&slot).unwrap_or_default(),
            ..Decisions::default()
        };
        if child.is::<Func>(child.root())
            && has_tensors(child)
            && let Err(found) = function(child, decisions, &mut globals, &mut report)
        {
            errors.extend(found);
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    if let Some(body) = module.body_block(module.root(), 0) {
        let at = module
            .first(body)
            .map_or(tir::At::End(body), tir::At::Before);
        // Behind the machine, before the functions.
        let first = module.ops_in(body).find(|op| module.is::<Func>(*op));
        let at = first.map_or(at, tir::At::Before);
        for global in globals.made {
            let op = module.create_raw(global.state());
            module.insert(op, at);
        }
    }
    Ok(report)
}

/// What buffers the ops of each function take.
fn requirements(module: &Ir) -> HashMap<OpId, HashMap<(OpId, usize), BufferRequirement>> {
    let mut scopes = Scopes::default();
    scopes.push(SymbolTable::new(module));
    let of_function = |ir: &Ir| {
        let mut found = HashMap::new();
        for op in ir.walk_ids() {
            let Some(known) = bufferizable(ir, op) else {
                continue;
            };
            for operand in 0..ir.operands(op).len() {
                let requirement = known.operand_requirement(ir.op(op), operand, &scopes);
                found.extend(requirement.map(|r| ((op, operand), r)));
            }
        }
        found
    };
    let slots = module.walk_ids().into_iter();
    let functions = slots.filter_map(|slot| Some((slot, module.child(slot)?)));
    functions
        .map(|(slot, ir)| (slot, of_function(ir)))
        .collect()
}

fn has_tensors(ir: &Ir) -> bool {
    let signature = ir.get::<Func>(ir.root()).and_then(|f| f.signature());
    let tensor = |ty: &Type| ty.is::<TensorType>();
    signature.is_some_and(|s| s.inputs.iter().chain(&s.results).any(tensor))
        || ir.walk_ids().into_iter().any(|op| touches_tensors(ir, op))
}

fn function(
    ir: &mut Ir,
    mut decisions: Decisions,
    globals: &mut Globals,
    report: &mut Report,
) -> Result<(), Vec<Diagnostic>> {
    let far = decisions.far;
    let root = ir.root();
    let Some(func) = ir.get::<Func>(root) else {
        return Ok(());
    };
    let Some(signature) = func.signature() else {
        return Ok(());
    };
    dissolve_groups(ir);
    place::place(ir);
    let entry = ir.entry(func.body);
    // The arguments for results stand behind the others.
    let outs: Vec<Type> = signature
        .results
        .iter()
        .copied()
        .filter(|t| t.is::<TensorType>())
        .collect();
    let outs: Vec<Value> = match entry {
        Some(entry) => outs
            .iter()
            .map(|ty| ir.add_arg(entry, argument_type(*ty, far)))
            .collect(),
        None => Vec::new(),
    };
    if entry.is_some() {
        let analysis = Analysis::run(ir, func.body, decisions)?;
        let given = given(&analysis, ir, func.body, &outs);
        let names = names(ir, func.body, &outs);
        decisions = analysis.decisions;
        report.remarks.extend(analysis.remarks);
        for (home, out, views) in given {
            let buffer = seen_from(ir, out, &views);
            decisions.given.extend(buffer.map(|buffer| (home, buffer)));
        }
        for (out, hint) in names {
            ir.set_hint(out, hint);
        }
    }
    sign(ir, root, &func, signature, far);
    let Some(entry) = entry else { return Ok(()) };
    let args: Vec<Value> = ir.args(entry).collect();
    for arg in args {
        let ty = argument_type(ir.ty(arg), far);
        ir.set_type(arg, ty);
    }
    let blocks = analysis::blocks(ir, func.body);
    let mut given = outs.into_iter();
    let results = signature.results.iter();
    let outs: Vec<Option<Value>> = results
        .map(|ty| ty.is::<TensorType>().then(|| given.next()).flatten())
        .collect();
    let mut cx = Buffers::new(ir, &decisions);
    structure::block_arguments(&mut cx, entry, &blocks).map_err(|e| vec![*e])?;
    for block in &blocks {
        structure::block(&mut cx, *block, globals, &outs).map_err(|e| vec![*e])?;
    }
    structure::branches(&mut cx, &blocks).map_err(|e| vec![*e])?;
    report.copies += cx.copies();
    report.told.extend(cx.told());
    cx.finish();
    Ok(())
}

/// What is in groups that no pass took up stands on its own.
fn dissolve_groups(ir: &mut Ir) {
    let mut groups = ir.walk_ids();
    groups.retain(|op| ir.is::<tir_graph::Fused>(*op));
    for op in groups {
        let Some(block) = ir.body_block(op, 0) else {
            continue;
        };
        let Some(end) = ir.last(block) else { continue };
        let results: Vec<Value> = ir.operands(end).collect();
        ir.erase(end);
        ir.inline_block(block, op, &[]);
        ir.replace(op, &results);
    }
}

/// The signature without tensors.
fn sign(ir: &mut Ir, root: OpId, func: &Func, signature: &FunctionType, far: Option<Attr>) {
    let tensor = |ty: &Type| ty.is::<TensorType>();
    let outs = signature.results.iter().copied().filter(tensor);
    let inputs = signature.inputs.iter().copied().chain(outs);
    let inputs: Vec<Type> = inputs.map(|ty| argument_type(ty, far)).collect();
    let results: Vec<Type> = signature
        .results
        .iter()
        .copied()
        .filter(|t| !tensor(t))
        .collect();
    if signature.results.iter().any(tensor) {
        let (args, kept) = structure::argument_attrs(
            func.arg_attrs.clone(),
            signature.inputs.len(),
            func.res_attrs.clone(),
            &signature.results,
        );
        ir.set_attr(root, "arg_attrs", Attr::array(args));
        ir.remove_attr(root, "res_attrs");
        if let Some(kept) = kept {
            ir.set_attr(root, "res_attrs", Attr::array(kept));
        }
    }
    ir.set_attr(
        root,
        "function_type",
        Attr::ty(Type::function(inputs, results)),
    );
}

/// The arguments for results and the names of what is returned.
fn names(ir: &Ir, body: tir::RegionId, outs: &[Value]) -> Vec<(Value, Option<tir::Name>)> {
    let ends = ir.blocks(body).filter_map(|block| ir.last(block));
    let Some(end) = ends.into_iter().find(|op| ir.is::<Return>(*op)) else {
        return Vec::new();
    };
    let results = ir.operands(end).filter(|v| is_tensor(ir, *v));
    results
        .zip(outs)
        .map(|(value, out)| (*out, ir.hint(value)))
        .collect()
}

/// Buffers that need not be made, as they are what the function returns: each with the argument for
/// the result, and the views through which that one is seen, the outermost first.
fn given(
    analysis: &Analysis<'_>,
    ir: &Ir,
    body: tir::RegionId,
    outs: &[Value],
) -> Vec<(AllocationSite, Value, Vec<OpId>)> {
    let mut given: Vec<(AllocationSite, Value, Vec<OpId>)> = Vec::new();
    let blocks: Vec<_> = ir.blocks(body).collect();
    let [block] = blocks[..] else { return given };
    let Some(end) = ir.last(block).filter(|op| ir.is::<Return>(*op)) else {
        return given;
    };
    let results = ir.operands(end).filter(|v| is_tensor(ir, *v));
    for (value, out) in results.zip(outs) {
        let (value, views) = behind_views(ir, value);
        let Some(Root::Allocated(home)) = analysis.root(value) else {
            continue;
        };
        let (AllocationSite::Result(op, _) | AllocationSite::Operand(op, _)) = home else {
            continue;
        };
        let free = given.iter().all(|(known, ..)| *known != home);
        if free && ir.block_of(op) == Some(block) && analysis.space(value).is_none() {
            given.push((home, *out, views));
        }
    }
    given
}

/// What a tensor is another shape of, and the ops that shape it, the last one first.
fn behind_views(ir: &Ir, mut value: Value) -> (Value, Vec<OpId>) {
    let mut views = Vec::new();
    loop {
        let expand = ir.def::<ExpandShape>(value).map(|view| view.src);
        let collapse = ir.def::<CollapseShape>(value).map(|view| view.src);
        let (Some(src), Some(op)) = (expand.or(collapse), ir.owner(value)) else {
            return (value, views);
        };
        views.push(op);
        value = src;
    }
}

/// A buffer in the shape that views make it of, the last one first. `None` if it is at no strides.
fn seen_from(ir: &mut Ir, mut buffer: Value, views: &[OpId]) -> Option<Value> {
    let Some(block) = views.first().and_then(|view| ir.block_of(*view)) else {
        return Some(buffer);
    };
    let at = ir.first(block).map_or(At::End(block), At::Before);
    for view in views {
        buffer = interfaces::reshaped_back(ir, at, buffer, *view)?;
    }
    Some(buffer)
}
