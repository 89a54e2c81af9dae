//! `cf.switch`: one of several blocks by an integer.
//!
//! As in MLIR, what all cases pass on is one group of operands, and an attribute says how many of
//! them belong to each case.

use tir::constraints::INT_LIKE;
use tir::{
    Asm, AsmParser, AsmPrinter, Attr, BlockId, Compiler, DenseArray, DenseElements, Failure, Field,
    LowerToEval, Op, OpRef, OpState, Reader, Role, Successor, Type, Value, Verify,
};

/// The blocks of the cases, which stand behind the default's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cases(pub Vec<BlockId>);

impl Field for Cases {
    const ROLE: Role = Role::Successors;
    fn put(self, _: &'static str, state: &mut OpState) {
        state.successors.extend(self.0);
    }
    fn get(cx: &mut Reader<'_>) -> Option<Self> {
        Some(Self(cx.ir.successors(cx.op).skip(1).collect()))
    }
}

/// Goes on at the block of the case that equals the flag, else at the default.
#[derive(Op)]
#[op("cf.switch", Terminator, Pure, asm, verify, lower_to_eval)]
pub struct Switch {
    /// What decides: an integer of at most 64 bits.
    #[is(INT_LIKE)]
    pub flag: Value,
    /// Where to if no case equals it.
    pub default_dest: Successor,
    /// What all cases pass on, one case after the other.
    pub case_operands: Vec<Value>,
    /// Where to in each case.
    pub case_dests: Cases,
    /// The numbers of the cases: elements of the flag's type; absent if there are none.
    pub case_values: Option<Attr>,
    /// How many operands each case passes on.
    pub case_operand_segments: Option<Attr>,
}

impl Switch {
    /// The cases: number, block, and what is passed on. `None` if counts do not fit.
    fn cases(&self) -> Option<Vec<(i64, BlockId, &[Value])>> {
        let count = self.case_dests.0.len();
        let values = match self.case_values {
            Some(values) => Some(values.get::<DenseElements>()?),
            None => None,
        };
        let numbers = values.map_or(0, |v| v.ty.elements().unwrap_or(0));
        let sizes = match self.case_operand_segments {
            Some(sizes) => sizes.get::<DenseArray>()?.bits.clone(),
            None => vec![0; count],
        };
        if numbers != count || sizes.len() != count {
            return None;
        }
        let mut rest = &self.case_operands[..];
        let mut cases = Vec::new();
        for (i, (block, size)) in self.case_dests.0.iter().zip(sizes).enumerate() {
            let (args, behind) = rest.split_at_checked(usize::try_from(size).ok()?)?;
            rest = behind;
            cases.push((i64::try_from(values?.int(i)).ok()?, *block, args));
        }
        rest.is_empty().then_some(cases)
    }
}

impl Verify for Switch {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let ty = op.ir.ty(self.flag);
        if !ty.is_int() || ty.bits().is_none_or(|bits| bits > 64) {
            return Err(format!("has a flag of type {ty}, expected an integer").into());
        }
        let cases = self.cases().ok_or_else(|| {
            let (count, passed) = (self.case_dests.0.len(), self.case_operands.len());
            format!(
                "has {count} cases with {passed} operands, which its attributes do not divide up"
            )
        })?;
        if let Some(values) = self.case_values.and_then(Attr::type_of)
            && values.elem() != ty
        {
            return Err(format!("has cases of type {} for a flag of {ty}", values.elem()).into());
        }
        for (i, (number, block, args)) in cases.iter().enumerate() {
            let given: Vec<Type> = args.iter().map(|v| op.ir.ty(*v)).collect();
            let wanted: Vec<Type> = op.ir.args(*block).map(|v| op.ir.ty(v)).collect();
            if given != wanted {
                return Err(format!(
                    "passes {given:?} to the block of case {number}, which takes {wanted:?}"
                )
                .into());
            }
            if cases[..i].iter().any(|(other, ..)| other == number) {
                return Err(format!("has case {number} twice").into());
            }
        }
        Ok(())
    }
}

impl LowerToEval for Switch {
    fn lower<'m>(&self, _: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let cases = self
            .cases()
            .ok_or("has cases that do not fit its operands")?;
        let default = (self.default_dest.block, &self.default_dest.args[..]);
        cx.branch_switch(self.flag, default, &cases)
    }
}

const SAID: [&str; 3] = ["case_values", "case_operand_segments", tir::SEGMENTS];

impl Asm for Switch {
    fn print(op: OpRef<'_>, p: &mut AsmPrinter<'_>) {
        let Some(this) = Self::read(op.ir, op.id) else {
            return;
        };
        p.text(" ");
        p.value(this.flag);
        p.text(" : ");
        p.ty(op.ir.ty(this.flag));
        p.text(", [");
        p.newline(2);
        p.text("default: ");
        p.successor_with_args(this.default_dest.block, &this.default_dest.args);
        for (number, block, args) in this.cases().unwrap_or_default() {
            p.text(",");
            p.newline(2);
            p.text(&format!("{number}: "));
            p.successor_with_args(block, args);
        }
        p.newline(0);
        p.text("]");
        p.attr_dict_except(&SAID);
    }
    fn parse(p: &mut AsmParser<'_>, state: &mut OpState) -> Result<(), Failure> {
        let flag = p.operand()?;
        p.punct(":")?;
        let ty = p.ty()?;
        let flag = p.resolve(flag, ty)?;
        p.punct(",")?;
        p.punct("[")?;
        p.keyword("default")?;
        p.punct(":")?;
        let (block, args) = p.successor_with_args()?;
        let default_dest = Successor { block, args };
        let (mut numbers, mut sizes) = (Vec::new(), Vec::new());
        let (mut case_operands, mut blocks) = (Vec::new(), Vec::new());
        while p.eat(",") {
            let Some(number) = p.try_int()? else {
                return Err(p.expected("the number of a case"));
            };
            p.punct(":")?;
            let (block, args) = p.successor_with_args()?;
            numbers.push(number);
            sizes.push(args.len() as i64);
            case_operands.extend(args);
            blocks.push(block);
        }
        p.punct("]")?;
        let (mut case_values, mut case_operand_segments) = (None, None);
        if !blocks.is_empty() {
            let ty = Type::new(tir::VectorType {
                shape: vec![numbers.len() as i64],
                scalable: vec![false],
                elem: ty,
            });
            let size = ty.bytes().unwrap_or(8).min(8);
            let width = ty.elem().bits().unwrap_or(64).clamp(1, 64);
            let bytes = numbers.iter().flat_map(|n| {
                let bits = *n as u64 & (u64::MAX >> (64 - width));
                bits.to_le_bytes().into_iter().take(size)
            });
            let data = bytes.collect();
            case_values = Some(Attr::new(DenseElements { ty, data }));
            let elem = Type::int(32);
            case_operand_segments = Some(Attr::new(DenseArray { elem, bits: sizes }));
        }
        let this = Switch {
            flag,
            default_dest,
            case_operands,
            case_dests: Cases(blocks),
            case_values,
            case_operand_segments,
        };
        let made = this.state();
        state.operands = made.operands;
        state.successors = made.successors;
        state.segments = made.segments;
        for (name, value) in made.attrs {
            state.set_attr(name, value);
        }
        p.attr_dict(state)
    }
}
