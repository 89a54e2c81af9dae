//! The ops of demo.

use tir::constraints::{BOOL, FLOAT_LIKE, INDEX, SCALAR};
use tir::{
    Asm, AsmParser, AsmPrinter, Attr, Builder, Failure, Flag, Fold, Folds, Infer, Name, Op, OpRef,
    OpState, RegionId, Ret, Rets, Scopes, Successor, Sym, Type, TypeAttr, Value, Verify,
    VerifySymbols, attr_enum,
};

use crate::demo::band::Band;
use crate::demo::flops::HasFlops;

// ANCHOR: scale
attr_enum! {
    /// How a result is rounded.
    pub enum Rounding {
        /// To the nearest number.
        Nearest = "nearest",
        /// As the machine likes.
        Fast = "fast",
    }
}

/// A float times a number.
#[derive(Op)]
#[op("demo.scale", Pure, results(y), infer, verify, crate::demo::flops)]
#[asm("$x `by` $factor (`rounding` $rounding^)? (`saturate` $saturate^)? attr-dict `:` type($x)")]
pub struct Scale {
    /// The float: any type that the constraint lets through.
    #[is(FLOAT_LIKE)]
    pub x: Value,
    /// A required attribute of the format.
    pub factor: i64,
    /// An optional word.
    pub rounding: Option<Rounding>,
    /// A flag: there or not.
    pub saturate: Option<Flag>,
    /// An attribute with a default, which the format does not name: it is in the dictionary.
    #[default(Band { low: 0, high: 100 })]
    pub band: Band,
}
impl Infer for Scale {
    fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        Ok(vec![op.ir.ty(self.x)])
    }
}
impl Verify for Scale {
    fn verify(&self, _: OpRef<'_>) -> Result<(), Failure> {
        let Band { low, high } = self.band;
        match self.factor {
            n if (low..=high).contains(&n) => Ok(()),
            n => Err(format!("has factor {n}, expected {low} to {high}").into()),
        }
    }
}
impl HasFlops for Scale {
    fn flops(&self, op: OpRef<'_>) -> u64 {
        op.ir.ty(self.x).elements().unwrap_or(1) as u64
    }
}
// ANCHOR_END: scale

// ANCHOR: zip
/// Sums of two lists of numbers, pair by pair.
#[derive(Op)]
#[op("demo.zip", Pure, verify)]
#[asm("$left `|` $right attr-dict `:` type($left) `|` type($right) `->` type($sums)")]
pub struct Zip {
    /// Any number of operands.
    pub left: Vec<Value>,
    /// As many again: a second group.
    pub right: Vec<Value>,
    /// Any number of results.
    pub sums: Rets,
}
impl Verify for Zip {
    fn verify(&self, _: OpRef<'_>) -> Result<(), Failure> {
        let [l, r, s] = [self.left.len(), self.right.len(), self.sums.0.len()];
        if l == r && r == s {
            return Ok(());
        }
        Err(format!("adds {l} and {r} numbers to {s} results").into())
    }
}
// ANCHOR_END: zip

// ANCHOR: limit
/// A number, not above a limit if there is one.
#[derive(Op)]
#[op("demo.limit", Pure)]
#[asm("$x (`to` $limit^ `:` type($limit))? attr-dict `:` type($x) `->` type($y)")]
pub struct Limit {
    /// The number.
    #[is(SCALAR)]
    pub x: Value,
    /// One operand or none.
    #[is(SCALAR)]
    pub limit: Option<Value>,
    /// A result whose type the text says.
    #[is(SCALAR)]
    pub y: Ret,
}
// ANCHOR_END: limit

// ANCHOR: symbols
/// A table of numbers, known by its name.
#[derive(Op)]
#[op("demo.table", Symbol)]
#[asm("symbol($sym_name) `:` $type attr-dict")]
pub struct Table {
    /// Its name: the trait `Symbol` wants the field `sym_name`.
    pub sym_name: Name,
    /// The type of its entries.
    pub r#type: Type,
}

/// An entry of a table.
#[derive(Op)]
#[op("demo.lookup", Pure, verify_symbols)]
#[asm("$table `[` $at `]` attr-dict `:` type($entry)")]
pub struct Lookup {
    /// A reference to a symbol of the nearest table of symbols.
    pub table: Sym,
    /// Where.
    #[is(INDEX)]
    pub at: Value,
    /// The entry.
    pub entry: Ret,
}
impl VerifySymbols for Lookup {
    fn verify_symbols(&self, _: OpRef<'_>, scopes: &Scopes<'_>) -> Result<(), Failure> {
        let Sym(name) = self.table;
        let target = scopes.get(name).filter(|op| op.name() == Table::name());
        let Some(target) = target else {
            return Err(format!("looks into '@{name}', which is no table").into());
        };
        match target.attr("type").and_then(|ty| ty.get::<TypeAttr>()) {
            Some(ty) if ty.0 == self.entry.0 => Ok(()),
            _ => Err(format!("reads {} out of '@{name}'", self.entry.0).into()),
        }
    }
}
// ANCHOR_END: symbols

// ANCHOR: region
/// Does what is in its region a number of times. The region is given the number of the turn.
#[derive(Op)]
#[op("demo.repeat", SingleBlock, RecursiveEffects, terminator(Done), verify)]
#[asm("$times $body attr-dict implicit-terminator(demo.done)")]
pub struct Repeat {
    /// How often.
    pub times: i64,
    /// What is done.
    pub body: RegionId,
}
impl Verify for Repeat {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        // `inner` gives the arena of the regions: an isolated op has one of its own.
        let (ir, _) = op.inner();
        let block = ir.entry(self.body).ok_or("has an empty region")?;
        match ir.args(block).map(|arg| ir.ty(arg)).collect::<Vec<_>>()[..] {
            [] => Ok(()),
            [ty] if ty.is_index() => Ok(()),
            _ => Err("has a region of other arguments than one index".into()),
        }
    }
}

/// Ends a turn, or the work of a kernel or task.
#[derive(Op)]
#[op("demo.done", Terminator, Pure, parent(Repeat, Kernel, Task))]
#[asm("attr-dict")]
pub struct Done {}
// ANCHOR_END: region

// ANCHOR: constant
/// A constant float.
#[derive(Op)]
#[op("demo.number", Pure, ConstantLike, fold)]
#[asm("custom<constant>($value, type($number)) attr-dict")]
pub struct Number {
    /// The trait `ConstantLike` wants the field `value`.
    pub value: Attr,
    /// The float.
    #[is(FLOAT_LIKE)]
    pub number: Ret,
}
impl Fold for Number {
    fn fold(&self, _: OpRef<'_>) -> Option<Folds> {
        Some(self.value.into())
    }
}
/// What a fold of this dialect gives becomes a constant of it.
pub(crate) fn materialize(b: &mut Builder<'_>, value: Attr, ty: Type) -> Option<Value> {
    let fits = ty.is_float() && value.type_of() == Some(ty);
    fits.then(|| {
        b.add(Number {
            value,
            number: Ret(ty),
        })
    })
}
// ANCHOR_END: constant

// ANCHOR: same
/// A sum of any number of values of one type.
#[derive(Op)]
#[op("demo.sum_of", Pure, SameType, results(sum))]
#[asm("`(` $values `)` attr-dict `:` type($sum)")]
pub struct SumOf {
    /// The summands.
    #[is(FLOAT_LIKE)]
    pub values: Vec<Value>,
}
// ANCHOR_END: same

// ANCHOR: kernel
/// Work with a name, on values from outside.
#[derive(Op)]
#[op("demo.kernel", SingleBlock, RecursiveEffects, terminator(Done))]
#[asm(
    "symbol($sym_name) ($values^ `:` type($values))? attr-dict-with-keyword $body implicit-terminator(demo.done)"
)]
pub struct Kernel {
    /// Its name.
    pub sym_name: Name,
    /// Any number of operands.
    pub values: Vec<Value>,
    /// The work.
    pub body: RegionId,
}
// ANCHOR_END: kernel

// ANCHOR: asm
/// The same, but the region has an argument for each value, named where the value is:
/// `demo.task @name(%x = %a, %y = %b) : f32, f32 { … }`.
#[derive(Op)]
#[op(
    "demo.task",
    SingleBlock,
    RecursiveEffects,
    terminator(Done),
    verify,
    asm
)]
pub struct Task {
    /// Its name.
    pub sym_name: Name,
    /// What the arguments of the region are.
    pub values: Vec<Value>,
    /// The work.
    pub body: RegionId,
}
impl Verify for Task {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let (ir, _) = op.inner();
        let block = ir.entry(self.body).ok_or("has an empty region")?;
        let args = ir.args(block).map(|arg| ir.ty(arg));
        if args.eq(self.values.iter().map(|value| op.ir.ty(*value))) {
            return Ok(());
        }
        Err("has a region whose arguments are not of the types of its operands".into())
    }
}
impl Asm for Task {
    fn print(op: OpRef<'_>, p: &mut AsmPrinter<'_>) {
        let Some(task) = op.ir.get::<Task>(op.id) else {
            return;
        };
        p.text(" ");
        p.symbol(&task.sym_name);
        if !task.values.is_empty() {
            // The names of the arguments of region 0 are known inside only.
            p.arguments(0, |p, _, args| {
                let pairs = args.iter().zip(&task.values);
                p.list("(", ")", pairs, |p, (arg, value)| {
                    p.value(*arg);
                    p.text(" = ");
                    p.value(*value);
                });
            });
            p.text(" : ");
            let types = p.types_of(task.values.iter().copied());
            p.types(&types);
        }
        p.attributes_except(&["sym_name"]);
        p.text(" ");
        // `true`: the arguments stand before the region, so its block has no label.
        p.region_without(0, true, Done::name());
    }
    fn parse(p: &mut AsmParser<'_>, state: &mut OpState) -> Result<(), Failure> {
        let name = p.symbol()?;
        state.set_attr("sym_name", Attr::str(&name));
        let mut args = Vec::new();
        if p.sees("(") {
            let pairs = p.list("(", ")", |p| {
                let arg = p.argument()?;
                p.punct("=")?;
                Ok((arg, p.operand()?))
            })?;
            p.punct(":")?;
            let types = p.items(|p| p.ty())?;
            let (names, values): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            // An error if there are not as many types as values.
            state.operands.extend(p.resolve_all(&values, &types)?);
            args.extend(names.into_iter().zip(types));
        }
        if p.eat_keyword("attributes") {
            p.attr_dict(state)?;
        }
        let body = p.region(Some(&args))?;
        p.terminate(body, Done::name());
        state.regions.push(body);
        Ok(())
    }
}
// ANCHOR_END: asm

// ANCHOR: branch
/// Goes on with one block or the other.
#[derive(Op)]
#[op("demo.branch", Terminator, Pure)]
#[asm("$condition `,` $yes `,` $no attr-dict")]
pub struct Branch {
    /// Which.
    #[is(BOOL)]
    pub condition: Value,
    /// A block, with values for its arguments.
    pub yes: Successor,
    /// Another one.
    pub no: Successor,
}
// ANCHOR_END: branch
