//! What an op says of layouts, as an interface: which operands and results share one, what it
//! wants its weights in, and whether it is worth a conversion.
//!
//! An op that says nothing takes plain tensors only; elementwise ops of one type need not say
//! anything.

use tir::rewrite::interfaces::Typed;
use tir::{Failure, Hook, Infer, Ir, Op, OpId, OpRef, Traits, Type, Value};

use super::{Layout, text};

/// Which operands share the layout of the results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keeps {
    /// All.
    All,
    /// All; one that is broadcast may be plain instead.
    Broadcast,
    /// The first; the others are plain.
    First,
    /// The first; the second is weights, in any layout of their own; the others are plain.
    Weighted,
}

/// An op that takes tensors in layouts.
pub trait LayoutRule: Op {
    /// Which operands share the layout of the results.
    const KEEPS: Keeps;
    /// Whether it gains by a layout that a machine asks for, so that conversions may pay.
    const PREFERS: bool = false;

    /// Says why the op cannot compute in a layout that fits its operands and results.
    fn admits(&self, _op: OpRef<'_>, _layout: &Layout) -> Result<(), Failure> {
        Ok(())
    }
    /// The layout that its weights should have when it computes in a layout.
    fn weights(&self, _op: OpRef<'_>, _layout: &Layout) -> Option<Layout> {
        None
    }
}

/// [`LayoutRule`] as an interface.
pub trait LayoutClass: Send + Sync {
    /// Which operands share the layout of the results.
    fn keeps(&self) -> Keeps;
    /// Whether it gains by a layout that a machine asks for.
    fn prefers(&self) -> bool;
    /// Says why the op cannot compute in a layout.
    fn admits(&self, ir: &Ir, op: OpId, layout: &Layout) -> Result<(), Failure>;
    /// The layout that its weights should have.
    fn weights(&self, ir: &Ir, op: OpId, layout: &Layout) -> Option<Layout>;
}

impl<T: LayoutRule> LayoutClass for Typed<T> {
    fn keeps(&self) -> Keeps {
        T::KEEPS
    }
    fn prefers(&self) -> bool {
        T::PREFERS
    }
    fn admits(&self, ir: &Ir, op: OpId, layout: &Layout) -> Result<(), Failure> {
        T::read(ir, op).map_or(Ok(()), |record| record.admits(ir.op(op), layout))
    }
    fn weights(&self, ir: &Ir, op: OpId, layout: &Layout) -> Option<Layout> {
        T::read(ir, op)?.weights(ir.op(op), layout)
    }
}

/// Hands over the rule of an op.
pub fn layouts<T: LayoutRule>() -> Hook {
    Hook::interface::<dyn LayoutClass>(Typed::<T>::NEW)
}

/// Infers types without layouts by [`Infer`], then says how the results are stored.
pub fn infer<T: Infer + LayoutRule>() -> Hook {
    Hook::Infer(&|ir, id| {
        let op = ir.op(id);
        let broken = || Failure::from(format!("has not the structure of '{}'", op.name()));
        let record = T::read(ir, id).ok_or_else(broken)?;
        let types = record.infer(op)?;
        let operands: Vec<Value> = ir.operands(id).collect();
        let Some(layout) = common(ir, &operands, T::KEEPS, &types)? else {
            return Ok(types);
        };
        record.admits(op, layout)?;
        let stored = types.into_iter().map(|ty| {
            layout.check(ty)?;
            Ok(Layout::on(Some(layout), ty))
        });
        stored.collect()
    })
}

/// The layout that the operands of an op share, whose results have these types; `None` if they
/// are plain. A failure names the layouts that should be one.
pub fn common(
    ir: &Ir,
    operands: &[Value],
    keeps: Keeps,
    results: &[Type],
) -> Result<Option<&'static Layout>, Failure> {
    let layout = |value: &Value| Layout::of(ir.ty(*value));
    let whole = |value: &Value| {
        results
            .first()
            .is_none_or(|r| r.shape() == ir.ty(*value).shape())
    };
    let shared = match keeps {
        Keeps::All => operands.first(),
        Keeps::Broadcast => operands.iter().find(|v| whole(v)).or(operands.first()),
        Keeps::First | Keeps::Weighted => operands.first(),
    };
    let wanted = shared.and_then(layout);
    for (i, value) in operands.iter().enumerate() {
        let found = layout(value);
        let fits = match keeps {
            _ if found == wanted && (i == 0 || matches!(keeps, Keeps::All | Keeps::Broadcast)) => {
                true
            }
            Keeps::All => false,
            Keeps::Broadcast => found.is_none() && !whole(value),
            Keeps::First => found.is_none(),
            Keeps::Weighted => i == 1 || found.is_none(),
        };
        if !fits && matches!(keeps, Keeps::All | Keeps::Broadcast) {
            let first = operands.iter().position(|v| Some(v) == shared).unwrap_or(0);
            return Err(format!(
                "mixes layouts: operand {first} is {}, operand {i} is {}",
                text(wanted),
                text(found)
            )
            .into());
        }
        if !fits {
            let found = text(found);
            return Err(format!("has operand {i} {found}, expected it plain").into());
        }
    }
    Ok(wanted)
}

/// Whether an op takes an operand of this type: in a layout that fits, and only if the op says
/// something of layouts.
pub(crate) fn accepts(op: OpRef<'_>, ty: Type, name: &str) -> Result<(), Failure> {
    let Some(layout) = Layout::of(ty) else {
        return Ok(());
    };
    layout.check(ty)?;
    let knows = op.ir.info(op.id).is_some_and(|info| {
        info.interface::<dyn LayoutClass>().is_some()
            || info.has(Traits::SameType) && info.has(Traits::Elementwise)
    });
    if knows {
        return Ok(());
    }
    Err(format!("takes plain tensors, found operand '{name}' stored as {layout}").into())
}
