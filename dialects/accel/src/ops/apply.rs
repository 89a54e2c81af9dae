//! `accel.apply`: a nest that a vector unit computes.

use tir::constraints::SHAPED;
use tir::{
    AffineMap, Asm, AsmParser, AsmPrinter, Attr, Effects, Failure, HasEffects, Ir, MemRefType, Op,
    OpRef, OpState, RegionId, Rets, SEGMENTS, Scopes, Sym, Type, Value, Verify, VerifySymbols,
};
use tir_tensor::asm::{parse_nest, parse_nest_body, print_nest, print_nest_body};
use tir_tensor::{Combine, Generic};

use crate::Yield;
use crate::asm::{parse_after, print_after};
use crate::machine::MachineInfo;
use crate::token::TOKEN;
use crate::vector::{NestShape, RegionCost, VectorInfo};

/// Computes a nest on a vector unit of the attached machine.
///
/// What is computed is what `tensor.generic` computes with the same operands, maps and region. On
/// tensors the results are the new content of the outputs. On buffers those are written in place, and
/// the work is started on the unit's queue, after the work of the tokens.
///
/// Syntax: `accel.apply @vector {indexing_maps = […], iterator_types = […]} ins(%a : m) outs(%c : m)
/// combine add after(%t) { ^bb0(%x: f32): … accel.yield %y : f32 }`, and ` -> t` behind it on tensors.
#[derive(Op)]
#[op(
    "accel.apply",
    StrictAttributes,
    Asynchronous,
    SingleBlock,
    terminator(Yield),
    asm,
    effects,
    keeps_constants,
    verify,
    verify_symbols,
    lower_to_eval
)]
pub struct Apply {
    /// Which `accel.vector`.
    pub vector: Sym,
    /// What is read.
    #[is(SHAPED)]
    pub inputs: Vec<Value>,
    /// What the results start from, and their shape.
    #[is(SHAPED)]
    pub outputs: Vec<Value>,
    /// Work that must be complete before it begins.
    #[is(TOKEN)]
    pub after: Vec<Value>,
    /// A map from iterators to positions for each input and output.
    pub indexing_maps: Vec<AffineMap>,
    /// `"parallel"` or `"reduction"` for each iterator.
    pub iterator_types: Vec<Attr>,
    /// Which of several equal units runs it; the first one if absent.
    pub unit: Option<Sym>,
    /// How a reduction combines.
    pub combine: Option<Combine>,
    /// Ranges of the iterators, where no operand shows them.
    pub sizes: Option<Vec<i64>>,
    /// The scalar computation.
    pub body: RegionId,
    /// The results: types of the outputs, if they are tensors.
    pub results: Rets,
}

impl Apply {
    /// The nest, as a generic with the same operands and region.
    pub fn nest(&self) -> Generic {
        Generic {
            inputs: self.inputs.clone(),
            outputs: self.outputs.clone(),
            indexing_maps: self.indexing_maps.clone(),
            iterator_types: self.iterator_types.clone(),
            combine: self.combine,
            sizes: self.sizes.clone(),
            body: self.body,
            results: Rets(self.results.0.clone()),
        }
    }
}

impl VectorInfo {
    /// What the region of a nest costs; or why the unit does not compute the nest.
    pub fn computes(&self, ir: &Ir, nest: &Generic) -> Result<RegionCost, String> {
        let elems: Vec<Type> = nest.operands().map(|v| ir.ty(v).elem()).collect();
        self.covers(ir, nest.body, nest.combine, &elems)
    }

    /// Cycles of a nest on tensors or buffers; or why the unit does not compute it.
    pub fn nest_cycles(&self, ir: &Ir, nest: &Generic) -> Result<i64, String> {
        let region = self.computes(ir, nest)?;
        let shape = NestShape::of(ir, nest);
        let shape = shape.ok_or("an operand does not lie at a linear position of known strides")?;
        Ok(self.cycles(region, &shape))
    }
}

impl HasEffects for Apply {
    fn effects(&self, op: OpRef<'_>) -> Effects {
        self.nest().effects(op)
    }
}
impl Verify for Apply {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let memrefs = |v: &Value| op.ir.ty(*v).is::<MemRefType>();
        let nest = self.nest();
        let count = nest.operands().filter(|v| memrefs(v)).count();
        if count != 0 && count != nest.operands().count() {
            return Err("mixes tensors and memrefs".into());
        }
        if count == 0 && !self.after.is_empty() {
            return Err("works on tensors after tokens".into());
        }
        if count != 0 && !self.results.0.is_empty() {
            return Err("has results, though it writes buffers".into());
        }
        nest.verify(op)
    }
}
impl VerifySymbols for Apply {
    fn verify_symbols(&self, op: OpRef<'_>, scopes: &Scopes<'_>) -> Result<(), Failure> {
        let name = self.vector.0;
        let machine = MachineInfo::in_scopes(scopes)
            .ok_or_else(|| format!("runs on @{name}, but no machine is attached"))?;
        let vector = machine
            .vector(name)
            .ok_or_else(|| format!("runs on @{name}, which machine @{} has not", machine.name))?;
        let nest = self.nest();
        vector
            .nest_cycles(op.ir, &nest)
            .map_err(|why| format!("runs on @{name}, which does not compute it: {why}"))?;
        let unit = self.unit.map_or(vector.unit, |unit| unit.0);
        let space = machine.space_on(unit, vector.unit, vector.space)?;
        for (i, value) in nest.operands().enumerate() {
            let ty = op.ir.ty(value);
            let memref = ty.get::<MemRefType>();
            if memref.is_some_and(|memref| memref.space_name() != Some(space)) {
                return Err(format!(
                    "passes a {ty} as operand {i} to @{name}, which works in \"{space}\""
                )
                .into());
            }
        }
        Ok(())
    }
}

impl Asm for Apply {
    fn print(op: OpRef<'_>, p: &mut AsmPrinter<'_>) {
        let Some(record) = Apply::read(op.ir, op.id) else {
            return;
        };
        p.text(" ");
        p.symbol(record.vector.0.as_str());
        p.attr_dict_except(&["vector", "combine", SEGMENTS]);
        print_nest(p, &record.nest());
        print_after(p, &record.after);
        print_nest_body(p, &record.results.0);
    }
    fn parse(p: &mut AsmParser<'_>, state: &mut OpState) -> Result<(), Failure> {
        let vector = p.symbol()?;
        state.set_attr("vector", Attr::symbol(vector));
        p.attr_dict(state)?;
        parse_nest(p, state)?;
        let after = parse_after(p)?;
        state.segments.push(after.len() as i64);
        state.operands.extend(after);
        parse_nest_body(p, state)
    }
}
