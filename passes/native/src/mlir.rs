//! Programs as MLIR: the loops of scalar operations that `to-native` leaves, op by op.
//!
//! Names, types and attributes change; nothing is lowered but what MLIR has no word for:
//! - a conversion of a float to an integer saturates, which in MLIR is an op of the dialect llvm;
//! - a view of another shape is a `memref.reinterpret_cast`, since MLIR infers other strides for dimensions of one;
//! - with [`Options::strict`] functions such as `exp` are those that the interpreter calls, on doubles, by name.
//!
//! # Interface of functions
//!
//! A public function becomes one on pointers alone: a scalar argument is a buffer of one element, and so is a result,
//! which stands behind the arguments. Two more follow: the bytes of all constants of the module ([`Module::weights`]),
//! and an arena for what the function and those that it calls allocate outside of loops ([`Function::arena`]). No two of
//! them overlap in memory, and so it is with the buffers that a private function takes. Then there is a pointer to what
//! shares work among threads, or null. With [`Options::marks`] one more argument takes times.
//!
//! # Threads
//!
//! A private function of a range of independent iterations (`loop.range`) is called by a public one through a function that is
//! declared alone, with `.shared` behind its name. Its arguments are the threads, the bytes of memory that each of
//! them needs, and those of the function, of which the last is that memory, if it needs any. `tir-native` makes it.

mod calls;
mod functions;
mod integers;
mod interface;
mod marks;
mod signature;
mod views;

use std::collections::HashMap;

use tir::{
    At, Attr, Diagnostic, Failure, IntType, Ir, Name, Op, OpId, OpState, RegionId, Sign,
    SymbolTable, Type, Value, VectorType,
};
use tir_accel::Processor;
use tir_arith::{AddF, FPToSI, FPToUI, MulF, RoundingMode, SubF, TruncF, constant_index};
use tir_func::{Call, Func};
use tir_loop::{Bounds, For, If, Yield};
use tir_math::{Log1p, Rsqrt};
use tir_memref::{
    Alloc, Cast, CollapseShape, Copy, Dealloc, Dim, ExpandShape, GetGlobal, Global, Load, Prefetch,
    ReinterpretCast, Store, SubView, View,
};

use tir_vector::Dot;

use crate::retype::retype;
use calls::{Needs, needs};
pub(crate) use functions::is_library_function;

use functions::{computes_bf16, extreme, from_double_to_bf16, function};
pub use interface::{Argument, Constant, Function, Module, Options, Role};

/// Writes a program as MLIR. The program is one of loops of scalar operations on buffers in one memory, as `to-native`
/// leaves it; its large constants must have been loaded.
///
/// # Errors
/// An op that has no form in MLIR, a buffer of unknown size where the interface needs it, a constant that cannot be read.
pub fn export(module: &Ir, options: &Options) -> Result<Module, Failure> {
    let mut module = module.clone();
    let mut out = Module {
        text: String::new(),
        functions: Vec::new(),
        constants: Vec::new(),
        bytes: 0,
    };
    constants(&mut module, options, &mut out)?;
    let places: HashMap<Name, usize> = out.constants.iter().map(|c| (c.name, c.at)).collect();
    let processor = Processor::of_module(&module);
    let needs = needs(&module, options.align);
    let (mut called, mut shared) = (Vec::<Callee>::new(), Vec::new());
    let names: Vec<(Name, OpId)> = SymbolTable::new(&module)
        .iter()
        .map(|(n, op)| (n, op.id))
        .collect();
    for (slot, child) in module.children_mut() {
        let Some(function) = child.get::<Func>(child.root()) else {
            return Err(named(child, child.root(), *no_form(child, child.root())));
        };
        let name = names
            .iter()
            .find(|(_, op)| *op == slot)
            .map(|(name, _)| *name);
        let entry = function.sym_visibility.is_none() && child.entry(function.body).is_some();
        let mut code = Code {
            ir: child,
            options,
            places: &places,
            processor: processor.as_ref(),
            needs: &needs,
            bytes: out.bytes,
            weights: None,
            scratch: None,
            threads: None,
            called: &mut called,
            shared: &mut shared,
        };
        match name.filter(|_| entry) {
            Some(name) => out.functions.push(code.entry(name, &function)?),
            None => code.private(&function)?,
        }
        code.body()?;
        retype(child, &signless);
        strip(child);
        if let Some(processor) = &processor {
            made_for(child, processor);
        }
    }
    for op in module.walk_ids() {
        if module.child(op).is_none() {
            return Err(named(&module, op, *no_form(&module, op)));
        }
    }
    strip(&mut module);
    for callee in called {
        callee.declare(&mut module)?;
    }
    for (name, ty) in shared {
        declare(&mut module, &name, ty)?;
    }
    out.text = header(&out);
    let print = tir::text::PrintOptions {
        generic: true,
        ..Default::default()
    };
    out.text += &tir::text::print(&module, &print);
    Ok(out)
}

/// Says of a function what processor it is for, in LLVM's words.
fn made_for(function: &mut Ir, processor: &Processor) {
    let Some(target) = &processor.target else {
        return;
    };
    let bits = (processor.vector_bytes * 8).to_string();
    let all = [
        ("target-cpu", target.as_str()),
        ("target-features", &processor.features),
        ("prefer-vector-width", &bits),
        ("min-legal-vector-width", &bits),
    ];
    let all = all.into_iter().filter(|(_, value)| !value.is_empty());
    let all = all.map(|(key, value)| Attr::array(vec![Attr::str(key), Attr::str(value)]));
    let all = Attr::array(all.collect::<Vec<_>>());
    function.set_attr(function.root(), "passthrough", all);
}

/// What the functions of a library take, as comments.
fn header(module: &Module) -> String {
    let mut text = String::new();
    for function in &module.functions {
        text += &format!("// @{} of @{}:", function.symbol, function.name);
        for (k, argument) in function.arguments.iter().enumerate() {
            let role = match argument.role {
                Role::Input(k) => format!("argument {k}"),
                Role::Output(k) => format!("argument {k}, written"),
                Role::Result(k) => format!("result {k}, written"),
            };
            let bytes = argument.bytes();
            text += &format!("\n//   {k}: {role}, {bytes} bytes");
        }
        let (count, bytes, arena) = (function.arguments.len(), module.bytes, function.arena);
        let further = function.further;
        text += &format!(
            "\n//   {count}: constants, {bytes} bytes\n//   {}: arena, {arena} bytes, {further} for each further thread\n//   {}: threads, or null\n",
            count + 1,
            count + 2,
        );
    }
    text
}

/// Takes the constants out of a module, and gives each a place.
fn constants(module: &mut Ir, options: &Options, out: &mut Module) -> Result<(), Failure> {
    for op in module.walk_ids() {
        let Some(global) = module.get::<Global>(op) else {
            continue;
        };
        let content = global.initial_value.filter(|_| global.constant.is_some());
        let at = |error: Failure| -> Failure { Box::new((*error).or_at(module.loc(op))) };
        let content = content.ok_or_else(|| {
            at(format!(
                "'@{}' is no constant: a library has no memory of its own",
                global.sym_name
            )
            .into())
        })?;
        let bytes = tir::interp::elements(content).map_err(at)?.bytes().len();
        out.constants.push(Constant {
            name: global.sym_name,
            at: out.bytes,
            bytes,
            value: content,
        });
        out.bytes += bytes.next_multiple_of(options.align.max(1));
        module.erase(op);
    }
    Ok(())
}

/// The error for an op that MLIR has not.
fn no_form(ir: &Ir, op: OpId) -> Failure {
    let error = Diagnostic::error("has no form in MLIR").at(ir.loc(op));
    Box::new(error.note("the pipeline to-native leaves loops of scalar operations on buffers"))
}

/// An error with the name and the place of an op.
fn named(ir: &Ir, op: OpId, error: Diagnostic) -> Failure {
    let (name, error) = (ir.name(op), error.or_at(ir.loc(op)));
    Box::new(error.context(format_args!("'{name}': ")))
}

/// Integers without sign: operations say how they read them.
fn signless(ty: Type) -> Type {
    match ty.elem().get::<IntType>() {
        Some(int) if int.sign != Sign::Signless => ty.with_elem(Type::int(int.width)),
        _ => ty,
    }
}

/// Bytes of what says how work is shared: a number of threads, a function, its first argument.
const THREADS: usize = 24;

/// The type of so many bytes.
fn raw(bytes: usize) -> Type {
    Type::memref([bytes as i64], Type::int(8), None)
}

/// The type of doubles in the place of a type's elements.
fn doubles(ty: Type) -> Type {
    ty.with_elem(Type::new(tir::FloatType::F64))
}

/// LLVM's name of a type in the names of intrinsics: `f32`, `v16f32`.
fn mangled(ty: Type) -> String {
    let shape = ty.shape().unwrap_or(&[]);
    let length = shape.first().map_or(String::new(), |n| format!("v{n}"));
    length + &ty.elem().to_string()
}

/// Removes attributes that are of no dialect of MLIR.
fn strip(ir: &mut Ir) {
    for op in std::iter::once(ir.root())
        .chain(ir.walk_ids())
        .collect::<Vec<_>>()
    {
        let foreign = |name: &Name| {
            let name = name.as_str();
            name.contains('.') && !name.starts_with("llvm.")
        };
        let names: Vec<Name> = ir.attrs(op).iter().map(|(name, _)| *name).collect();
        for name in names.iter().filter(|name| foreign(name)) {
            ir.remove_attr(op, name.as_str());
        }
    }
}

/// A function of the interpreter that strict code calls.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Callee {
    name: &'static str,
    arguments: usize,
}

impl Callee {
    /// Declares it at the end of a module.
    fn declare(&self, module: &mut Ir) -> Result<(), Failure> {
        let double = Type::new(tir::FloatType::F64);
        let ty = Type::function(vec![double; self.arguments], [double]);
        declare(module, self.name, ty)
    }
}

/// Declares a function at the end of a module.
fn declare(module: &mut Ir, name: &str, ty: Type) -> Result<(), Failure> {
    let mut function = Ir::new(<Func as Op>::name());
    let root = function.root();
    function.set_attr(root, "function_type", Attr::ty(ty));
    function.set_attr(root, "sym_name", Attr::str(name));
    function.set_attr(root, "sym_visibility", Attr::str("private"));
    let body = function.new_region();
    function.attach_region(root, body);
    let block = module.body_block(module.root(), 0);
    module.adopt(At::End(block.ok_or("has no body")?), function);
    Ok(())
}

/// A call of what LLVM has by itself, which is an op of MLIR alone.
const INTRINSIC: &str = "llvm.call_intrinsic";

/// Whether an op is in MLIR what it is here: those of some dialects, and these of memref.
fn is_same(name: Name) -> bool {
    let buffers = [
        Alloc::name(),
        Dealloc::name(),
        Load::name(),
        Store::name(),
        Copy::name(),
        SubView::name(),
        View::name(),
        Cast::name(),
        Dim::name(),
        ReinterpretCast::name(),
    ];
    let (dialect, _) = name.as_str().split_once('.').unwrap_or_default();
    ["arith", "math", "vector", "cf", "func"].contains(&dialect)
        || buffers.contains(&name)
        || name == INTRINSIC
}

/// A function on its way.
struct Code<'a> {
    ir: &'a mut Ir,
    options: &'a Options,
    places: &'a HashMap<Name, usize>,
    /// What it is for, if that is known.
    processor: Option<&'a Processor>,
    needs: &'a HashMap<Name, Needs>,
    /// Bytes of all constants.
    bytes: usize,
    /// The argument that holds the constants.
    weights: Option<Value>,
    /// The argument that is memory, and where in it that of functions that are called begins.
    scratch: Option<(Value, usize)>,
    /// The argument that says how work is shared.
    threads: Option<Value>,
    called: &'a mut Vec<Callee>,
    /// Functions that share the range of another one, and their types.
    shared: &'a mut Vec<(String, Type)>,
}

impl Code<'_> {
    /// Makes all ops those of MLIR.
    fn body(&mut self) -> Result<(), Failure> {
        for op in self.ir.walk_ids() {
            self.op(op).map_err(|error| named(self.ir, op, *error))?;
        }
        Ok(())
    }

    fn op(&mut self, op: OpId) -> Result<(), Failure> {
        if let Some(looped) = self.ir.get::<For>(op) {
            return self.looped(op, &looped);
        }
        if let Some(branch) = self.ir.get::<If>(op) {
            let regions = [branch.then_region, branch.else_region];
            self.become_op(op, "scf.if", &[branch.condition], &regions);
            return Ok(());
        }
        if self.ir.is::<Yield>(op) {
            self.ir.rename(op, "scf.yield");
            return Ok(());
        }
        if let Some(get) = self.ir.get::<GetGlobal>(op) {
            return self.constant(op, &get);
        }
        if let Some(view) = self.ir.get::<CollapseShape>(op) {
            return self.reshaped(op, view.src, view.result.0);
        }
        if let Some(view) = self.ir.get::<ExpandShape>(op) {
            return self.reshaped(op, view.src, view.result.0);
        }
        if let Some(ahead) = self.ir.get::<Prefetch>(op) {
            let operands: Vec<Value> = std::iter::once(ahead.memref).chain(ahead.indices).collect();
            let new = self.become_op(op, <Prefetch as Op>::name().as_str(), &operands, &[]);
            self.ir.set_attr(new, "isWrite", Attr::bool(false));
            self.ir.set_attr(new, "isDataCache", Attr::bool(true));
            // To the second level: the first one holds what is computed with.
            let second = tir::IntAttr {
                value: 2,
                ty: Type::int(32),
            };
            self.ir.set_attr(new, "localityHint", Attr::new(second));
            return Ok(());
        }
        if let Some(cast) = self.ir.get::<FPToSI>(op) {
            return self.saturated(op, cast.input, "fptosi");
        }
        if let Some(cast) = self.ir.get::<FPToUI>(op) {
            return self.saturated(op, cast.input, "fptoui");
        }
        if let Some(dot) = self.ir.get::<Dot>(op) {
            return self.dot(op, &dot);
        }
        if let Some(call) = self.ir.get::<Call>(op) {
            self.call(op, call.callee.0);
            return Ok(());
        }
        let name = self.ir.name(op);
        if self.options.strict && self.ir.is::<Rsqrt>(op) {
            return self.rsqrt(op);
        }
        if let Some(callee) = function(name).filter(|_| self.options.strict) {
            return self.function(op, callee);
        }
        if !is_same(name) {
            return Err(no_form(self.ir, op));
        }
        // Flags of the program are promises that the interpreter does not rely on.
        if self.options.strict {
            self.ir.remove_attr(op, "fastmath");
        }
        if let Some(cast) = self.ir.get::<TruncF>(op)
            && let Some(mode) = cast
                .roundingmode
                .filter(|m| *m != RoundingMode::ToNearestEven)
        {
            return Err(format!("rounds '{}': only to_nearest_even runs", mode.keyword()).into());
        }
        if computes_bf16(self.ir, op) {
            return self.in_floats(op);
        }
        // What MLIR makes of it is 0 for what is small.
        if name == Log1p::name() {
            return self.function(op, "log1p");
        }
        if let Some(cast) = self.ir.get::<TruncF>(op)
            && from_double_to_bf16(self.ir.ty(cast.input), self.ir.ty(self.ir.result(op, 0)))
        {
            return self.rounded_to_bf16(op, cast.input);
        }
        if let Some((form, of_numbers)) = extreme(name) {
            return self.extreme(op, form, of_numbers);
        }
        let floats = self.ir.results(op).all(|v| self.ir.ty(v).elem().is_float());
        let contracts = [AddF::name(), SubF::name(), MulF::name()].contains(&name);
        if !self.options.strict && floats && contracts && self.ir.attr(op, "fastmath").is_none() {
            let fast = tir::text::parse_attr("#arith.fastmath<contract>");
            let fast = fast.map_err(|e| -> Failure { format!("{e:?}").into() })?;
            self.ir.set_attr(op, "fastmath", fast);
        }
        Ok(())
    }

    /// Replaces an op by one of MLIR with these operands and regions, and the same results.
    fn become_op(
        &mut self,
        op: OpId,
        name: &str,
        operands: &[Value],
        regions: &[RegionId],
    ) -> OpId {
        for region in regions {
            self.ir.detach_region(*region);
        }
        let state = OpState {
            loc: self.ir.loc(op),
            operands: operands.iter().copied().collect(),
            results: self.ir.result_types(op).into(),
            regions: regions.iter().copied().collect(),
            ..OpState::new(name)
        };
        let new = self.ir.create_raw(state);
        self.ir.insert(new, At::Before(op));
        let results: Vec<Value> = self.ir.results(new).collect();
        self.ir.replace(op, &results);
        new
    }

    fn looped(&mut self, op: OpId, looped: &For) -> Result<(), Failure> {
        let bounds = looped.all_bounds().ok_or("has no three bounds")?;
        let mut b = self.ir.at(At::Before(op));
        let mut operands: Vec<Value> = bounds
            .iter()
            .map(|bound| match bound {
                Bounds::Static(n) => constant_index(&mut b, *n),
                Bounds::Dynamic(value) => *value,
            })
            .collect();
        operands.extend(&looped.init);
        let inside = self.ir.walk_below(op);
        let innermost = !inside.iter().any(|below| self.ir.regions(*below).len() > 0);
        let sums = looped.results.0.iter().any(|ty| ty.is::<VectorType>());
        let short = looped
            .trip_count()
            .is_some_and(|n| n <= self.options.unroll);
        let new = self.become_op(op, "scf.for", &operands, &[looped.body]);
        if innermost && sums && short {
            let full = tir::text::parse_attr("#llvm.loop_annotation<unroll = <full = true>>");
            let full = full.map_err(|e| -> Failure { format!("{e:?}").into() })?;
            self.ir.set_attr(new, "llvm.loop_annotation", full);
        }
        Ok(())
    }

    /// A constant of the module is a part of the argument that holds all.
    fn constant(&mut self, op: OpId, get: &GetGlobal) -> Result<(), Failure> {
        let name = get.name.0;
        let at = self.places.get(&name);
        let at =
            *at.ok_or_else(|| format!("gets '@{name}', which is no constant of the module"))?;
        let source = self.weights;
        let source =
            source.ok_or("is in a function that calls itself: it is given no constants")?;
        let view = self.part(At::Before(op), source, at, get.result.0);
        self.ir.replace(op, &[view]);
        Ok(())
    }
}

/// `array<i32: 1, 2>`, as MLIR has sizes of groups of operands.
fn int32s(items: &[i64]) -> Attr {
    Attr::new(tir::DenseArray {
        elem: Type::int(32),
        bits: items.to_vec(),
    })
}
