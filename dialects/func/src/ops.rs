//! The ops of func.

use tir::{
    Attr, BlockId, Failure, FunctionType, Ir, Name, Op, OpRef, RegionId, Rets, Scopes, Sym, Type,
    Value, Verify, VerifySymbols,
};

/// A function. Without a body it is a declaration, and private.
///
/// Syntax: `func.func private @name(%x: i32 {key = 1}) -> (f32) attributes {…} { … }`.
#[derive(Op)]
#[op(
    "func.func",
    IsolatedFromAbove,
    Symbol,
    terminator(Return),
    asm,
    verify
)]
pub struct Func {
    /// Its name.
    pub sym_name: Name,
    /// Its signature.
    pub function_type: Type,
    /// `private`, `nested`; public if absent.
    pub sym_visibility: Option<Name>,
    /// A dictionary of attributes for each argument.
    pub arg_attrs: Option<Vec<Attr>>,
    /// A dictionary of attributes for each result.
    pub res_attrs: Option<Vec<Attr>>,
    /// Whether it may not be inlined.
    pub no_inline: Option<tir::Flag>,
    /// What it does; no block for a declaration.
    pub body: RegionId,
}
impl Func {
    /// Its signature.
    pub fn signature(&self) -> Option<&'static FunctionType> {
        self.function_type.get()
    }
}
impl Verify for Func {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let (ir, id) = op.inner();
        let Some(signature) = self.signature() else {
            return Err(
                format!("has type {}, expected a function type", self.function_type).into(),
            );
        };
        for (attrs, count, what) in [
            (&self.arg_attrs, signature.inputs.len(), "arguments"),
            (&self.res_attrs, signature.results.len(), "results"),
        ] {
            if let Some(attrs) = attrs
                && attrs.len() != count
            {
                let found = attrs.len();
                return Err(format!("has attributes for {found} {what}, expected {count}").into());
            }
        }
        let Some(entry) = ir.entry(self.body) else {
            if self.sym_visibility.is_none_or(|v| v != "private") {
                return Err("has no body and is not private".into());
            }
            return Ok(());
        };
        let arguments: Vec<Type> = ir.args(entry).map(|v| ir.ty(v)).collect();
        if arguments != signature.inputs {
            let found = Type::function(arguments, []);
            let wanted = Type::function(signature.inputs.clone(), []);
            return Err(format!("has block arguments {found}, but its type is {wanted}").into());
        }
        // Returns hand out what the signature says.
        for block in ir.blocks(ir.regions(id).next().unwrap_or(self.body)) {
            let last = ir.last(block);
            if let Some(last) = last.filter(|last| ir.is::<Return>(*last)) {
                let given: Vec<Type> = ir.operands(last).map(|v| ir.ty(v)).collect();
                if let Some(what) = mismatch(&given, &signature.results, self.sym_name) {
                    return Err(Box::new(tir::Diagnostic::error(what).at(ir.loc(last))));
                }
            }
        }
        Ok(())
    }
}

/// What is wrong with the types that a function returns, if anything.
fn mismatch(given: &[Type], expected: &[Type], function: Name) -> Option<String> {
    if given.len() != expected.len() {
        let (given, expected) = (given.len(), expected.len());
        return Some(format!(
            "returns {given} values in @{function}, expected {expected}"
        ));
    }
    let mut pairs = given.iter().zip(expected).enumerate();
    let (i, (given, expected)) = pairs.find(|(_, (given, expected))| given != expected)?;
    Some(format!(
        "returns {given} as result {i} of @{function}, expected {expected}"
    ))
}

/// Leaves the function.
#[derive(Op)]
#[op(
    "func.return",
    Terminator,
    Pure,
    ReturnLike,
    parent(Func),
    lower_to_eval
)]
#[asm("attr-dict ($operands^ `:` type($operands))?")]
pub struct Return {
    /// Its results.
    pub operands: Vec<Value>,
}

/// Calls a function of the module.
#[derive(Op)]
#[op("func.call", verify_symbols, lower_to_eval)]
#[asm("$callee `(` $operands `)` attr-dict `:` functional-type($operands, $results)")]
pub struct Call {
    /// Which one.
    pub callee: Sym,
    /// Its arguments.
    pub operands: Vec<Value>,
    /// Its results.
    pub results: Rets,
}
impl VerifySymbols for Call {
    fn verify_symbols(&self, op: OpRef<'_>, scopes: &Scopes<'_>) -> Result<(), Failure> {
        let name = self.callee.0;
        let Some(target) = scopes.get(name) else {
            return Err(format!("calls '@{name}', which is not defined").into());
        };
        let Some(ty) = target
            .attr("function_type")
            .and_then(|a| a.get::<tir::TypeAttr>())
        else {
            let what = target.name();
            return Err(format!("calls '@{name}', which is a {what}, no function").into());
        };
        let operands: Vec<Type> = self.operands.iter().map(|v| op.ir.ty(*v)).collect();
        let found = Type::function(operands, self.results.0.clone());
        if found != ty.0 {
            let error =
                tir::Diagnostic::error(format!("calls '@{name}' as {found}, its type is {}", ty.0));
            return Err(Box::new(error.note_at(target.loc(), "defined here")));
        }
        Ok(())
    }
}

/// A function with an entry block whose arguments are those of its signature.
pub fn function(name: &str, ty: Type) -> (Ir, BlockId) {
    let mut ir = Ir::new(Func::name());
    let root = ir.root();
    ir.set_attr(root, "sym_name", Attr::str(name));
    ir.set_attr(root, "function_type", Attr::ty(ty));
    let region = ir.new_region();
    ir.attach_region(root, region);
    let block = ir.new_block(region);
    for input in ty.get::<FunctionType>().map_or(&[][..], |f| &f.inputs) {
        ir.add_arg(block, *input);
    }
    (ir, block)
}
