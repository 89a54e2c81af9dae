//! Ops that run on a machine.

use tir::constraints::{INDEX, MEMREF, SCALAR};
use tir::interfaces::OverwritesLike;
use tir::{
    Access, AffineMap, Attr, Effect, Effects, Failure, HasEffects, Infer, MemRefType, Op, OpRef,
    Rets, Scopes, Sym, Type, Value, Verify, VerifySymbols, attr_enum,
};
use tir_tensor::check_access;

use crate::machine::MachineInfo;
use crate::token::{TOKEN, token};
use crate::transfer::Pattern;

fn effect(access: Access, value: Value) -> Effect {
    Effect {
        access,
        on: Some(value),
    }
}

/// Calls an intrinsic of the attached machine.
///
/// On tensors the results are the new content of the first operands. On buffers those are
/// written in place, and the call is started on the unit's queue, after the work of the tokens.
///
/// Syntax: `accel.call @name(%c, %a) after(%t) : m, n` on buffers, `%r = accel.call @name(%c, %a) :
/// (t, u) -> t` on tensors; with immediates `accel.call @clip(%y) {immediates = [0 : i32, 6 : i32]}`.
#[derive(Op)]
#[op(
    "accel.call",
    StrictAttributes,
    Asynchronous,
    effects,
    asm,
    verify,
    verify_symbols,
    lower_to_eval
)]
pub struct Call {
    /// Which intrinsic.
    pub callee: Sym,
    /// Its operands: all tensors, or all memrefs.
    pub operands: Vec<Value>,
    /// Work that must be complete before it begins.
    #[is(TOKEN)]
    pub after: Vec<Value>,
    /// The number of first operands that it writes.
    #[default(1)]
    pub writes: i64,
    /// Which of several equal units runs it; the first one if absent.
    pub unit: Option<Sym>,
    /// The values of the intrinsic's scalar operands, if it has any.
    pub immediates: Option<Vec<Attr>>,
    /// The new content of the first operands, if they are tensors.
    pub results: Rets,
}
impl HasEffects for Call {
    fn effects(&self, op: OpRef<'_>) -> Effects {
        let mut effects = Effects::new();
        for (i, value) in self.operands.iter().enumerate() {
            if op.ir.ty(*value).is::<MemRefType>() {
                effects.push(effect(Access::Read, *value));
                if (i as i64) < self.writes {
                    effects.push(effect(Access::Write, *value));
                }
            }
        }
        effects
    }
}
impl Verify for Call {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let memrefs = |v: &&Value| op.ir.ty(**v).is::<MemRefType>();
        let count = self.operands.iter().filter(memrefs).count();
        if count != 0 && count != self.operands.len() {
            return Err("mixes tensors and memrefs".into());
        }
        let results = if count == 0 { self.writes } else { 0 };
        if self.results.0.len() as i64 != results {
            let found = self.results.0.len();
            return Err(format!("has {found} results, expected {results}").into());
        }
        if count == 0 && !self.after.is_empty() {
            return Err("works on tensors after tokens".into());
        }
        Ok(())
    }
}
impl VerifySymbols for Call {
    fn verify_symbols(&self, op: OpRef<'_>, scopes: &Scopes<'_>) -> Result<(), Failure> {
        let name = self.callee.0;
        let machine = MachineInfo::in_scopes(scopes)
            .ok_or_else(|| Failure::from(format!("calls @{name}, but no machine is attached")))?;
        let intrinsic = machine.intrinsic(name).ok_or_else(|| {
            Failure::from(format!(
                "calls @{name}, which machine @{} has not",
                machine.name
            ))
        })?;
        if intrinsic.operands.len() != self.operands.len() {
            let (found, wanted) = (self.operands.len(), intrinsic.operands.len());
            return Err(format!("passes {found} operands to @{name}, which takes {wanted}").into());
        }
        if intrinsic.writes as i64 != self.writes {
            let wanted = intrinsic.writes;
            return Err(format!(
                "says that @{name} writes {} operands, it writes {wanted}",
                self.writes
            )
            .into());
        }
        let given = self.immediates.as_deref().unwrap_or_default();
        let found: Vec<Option<Type>> = given.iter().map(|attr| attr.type_of()).collect();
        if !found
            .iter()
            .copied()
            .eq(intrinsic.immediates.iter().map(|ty| Some(*ty)))
        {
            let list = |items: &mut dyn Iterator<Item = String>| {
                let items: Vec<String> = items.collect();
                if items.is_empty() {
                    "none".to_string()
                } else {
                    items.join(", ")
                }
            };
            let found = list(&mut given.iter().map(ToString::to_string));
            let wanted = list(&mut intrinsic.immediates.iter().map(ToString::to_string));
            return Err(format!("has immediates {found}, but @{name} takes {wanted}").into());
        }
        let unit = self.unit.map_or(intrinsic.unit, |unit| unit.0);
        for (i, (value, wanted)) in self.operands.iter().zip(&intrinsic.operands).enumerate() {
            let found = op.ir.ty(*value);
            if found.shape() != wanted.shape() || found.elem() != wanted.elem() {
                return Err(format!(
                    "passes a {found} as operand {i} of @{name}, which takes {wanted}"
                )
                .into());
            }
            let Some(memref) = found.get::<MemRefType>() else {
                continue;
            };
            let space = machine.space_on(unit, intrinsic.unit, intrinsic.spaces[i])?;
            if memref.space_name() != Some(space) {
                return Err(format!(
                    "passes a {found} as operand {i} of @{name}, which works in \"{space}\""
                )
                .into());
            }
            let strided = intrinsic.strided.contains(&i) && memref.has_dense_rows();
            if !memref.is_dense() && !strided {
                return Err(format!(
                    "passes a {found} as operand {i} of @{name}, which must be dense"
                )
                .into());
            }
        }
        Ok(())
    }
}

attr_enum! {
    /// Which way a transfer goes.
    pub enum Direction {
        /// From the large buffer to the tile.
        Read = "read",
        /// From the tile to the large buffer.
        Write = "write",
    }
}

/// Starts a transfer of a tile on a DMA engine, after the work of the tokens.
///
/// Element `t` of the tile and element `offsets + access(t)` of the large buffer belong together.
/// Where that lies outside the large buffer, a read gives `padding` (zero bits if absent) and a
/// write is dropped.
///
/// Syntax: `%t = accel.dma_start @engine read %x[0, %i] into %tile pad %z access (d0) -> (0, d0)
/// after(%u) : m to n`, or `write %tile into %x[0, %i] …`.
#[derive(Op)]
#[op(
    "accel.dma_start",
    StrictAttributes,
    Asynchronous,
    results(token),
    infer,
    effects,
    asm,
    verify,
    verify_symbols,
    lower_to_eval,
    tir::interfaces::overwrites
)]
pub struct DmaStart {
    /// The engine.
    pub engine: Sym,
    /// Which way.
    pub direction: Direction,
    /// The large buffer.
    #[is(MEMREF)]
    pub far: Value,
    /// The tile.
    #[is(MEMREF)]
    pub tile: Value,
    /// Dynamic offsets.
    #[is(INDEX)]
    pub offsets: Vec<Value>,
    /// What is read outside.
    #[is(SCALAR)]
    pub padding: Option<Value>,
    /// Work that must be complete before it begins.
    #[is(TOKEN)]
    pub after: Vec<Value>,
    /// Offsets, `DYNAMIC` where they are operands.
    pub static_offsets: Vec<i64>,
    /// Distance in the large buffer of each position of the tile.
    pub access: AffineMap,
}
impl Infer for DmaStart {
    fn infer(&self, _: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        Ok(vec![token()])
    }
}
impl DmaStart {
    /// What is read and what is written.
    pub fn sides(&self) -> (Value, Value) {
        match self.direction {
            Direction::Read => (self.far, self.tile),
            Direction::Write => (self.tile, self.far),
        }
    }
}
impl HasEffects for DmaStart {
    fn effects(&self, _: OpRef<'_>) -> Effects {
        let (source, target) = self.sides();
        [effect(Access::Read, source), effect(Access::Write, target)]
            .into_iter()
            .collect()
    }
}
impl OverwritesLike for DmaStart {
    fn overwrites(&self, _: OpRef<'_>) -> Vec<Value> {
        match self.direction {
            Direction::Read => vec![self.tile],
            Direction::Write => Vec::new(),
        }
    }
}
impl Verify for DmaStart {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let (far, tile) = (op.ir.ty(self.far), op.ir.ty(self.tile));
        if self.padding.is_some() && self.direction == Direction::Write {
            return Err("writes with padding".into());
        }
        check_access(far, tile, &self.offsets, &self.static_offsets, &self.access)
    }
}
impl VerifySymbols for DmaStart {
    fn verify_symbols(&self, op: OpRef<'_>, scopes: &Scopes<'_>) -> Result<(), Failure> {
        let name = self.engine.0;
        let machine = MachineInfo::in_scopes(scopes)
            .ok_or_else(|| Failure::from(format!("starts @{name}, but no machine is attached")))?;
        let engine = machine.engine(name).ok_or_else(|| {
            Failure::from(format!(
                "starts @{name}, which machine @{} has not",
                machine.name
            ))
        })?;
        let (source, target) = self.sides();
        for (value, space, what) in [
            (source, engine.from, "reads"),
            (target, engine.to, "writes"),
        ] {
            let ty = op.ir.ty(value);
            // What says no space lies where arguments do.
            let named = ty.get::<MemRefType>().and_then(MemRefType::space_name);
            if named.or(machine.far().map(|far| far.name)) != Some(space) {
                return Err(format!("{what} a {ty} with @{name}, which {what} \"{space}\"").into());
            }
        }
        let (far, tile) = (op.ir.ty(self.far), op.ir.ty(self.tile));
        let rank = Pattern::new(far, tile, &self.access)?.rank() as i64;
        if rank > engine.dims {
            let most = engine.dims;
            return Err(format!("has {rank} dimensions, and @{name} at most {most}").into());
        }
        Ok(())
    }
}

/// The program thread waits until the work of all tokens is complete.
#[derive(Op)]
#[op("accel.dma_wait", StrictAttributes, effects, lower_to_eval)]
#[asm("$tokens attr-dict")]
pub struct DmaWait {
    /// What is waited for.
    #[is(TOKEN)]
    pub tokens: Vec<Value>,
}
impl HasEffects for DmaWait {
    fn effects(&self, _: OpRef<'_>) -> Effects {
        [Access::Read, Access::Write]
            .map(|access| Effect { access, on: None })
            .into_iter()
            .collect()
    }
}

/// A token for all work that was started on a queue so far.
#[derive(Op)]
#[op(
    "accel.mark",
    StrictAttributes,
    results(token),
    infer,
    effects,
    verify_symbols,
    lower_to_eval
)]
#[asm("$queue attr-dict")]
pub struct Mark {
    /// The engine or unit.
    pub queue: Sym,
}
impl Infer for Mark {
    fn infer(&self, _: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        Ok(vec![token()])
    }
}
impl HasEffects for Mark {
    fn effects(&self, _: OpRef<'_>) -> Effects {
        // It depends on what was started before.
        std::iter::once(Effect {
            access: Access::Read,
            on: None,
        })
        .collect()
    }
}
impl VerifySymbols for Mark {
    fn verify_symbols(&self, _: OpRef<'_>, scopes: &Scopes<'_>) -> Result<(), Failure> {
        let name = self.queue.0;
        let machine = MachineInfo::in_scopes(scopes)
            .ok_or_else(|| Failure::from(format!("marks @{name}, but no machine is attached")))?;
        if machine.engine(name).is_none() && machine.unit(name).is_none() {
            return Err(format!(
                "marks @{name}, which is no queue of machine @{}",
                machine.name
            )
            .into());
        }
        Ok(())
    }
}

/// A token that is complete.
#[derive(Op)]
#[op(
    "accel.ready",
    StrictAttributes,
    Pure,
    results(token),
    infer,
    lower_to_eval
)]
#[asm("attr-dict")]
pub struct Ready {}
impl Infer for Ready {
    fn infer(&self, _: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        Ok(vec![token()])
    }
}
