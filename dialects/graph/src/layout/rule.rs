//! What an op says of layouts, as an interface: which operands and results share one, what it
//! wants its weights in, and whether it is worth a conversion.
//!
//! An op that says nothing takes plain tensors only; elementwise ops of one type need not say
//! anything.

use tir::rewrite::interfaces::Typed;
use tir::{Failure, Hook, Infer, Ir, Op, OpId, OpInfo, OpRef, Traits, Type, Value};

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
    /// The only one, which is stored as the result is, dimensions renamed by
    /// [`LayoutRule::order`]: unless both are plain, no element moves.
    Order,
    /// The first is in a layout, which the results, of other dimensions, know nothing of: they and the other operands are
    /// plain.
    Operand,
    /// None: the results are in any layout that the op [admits](LayoutRule::admits), operands, of other dimensions, are
    /// plain. As nothing says which, the op itself holds the type of its result.
    Result,
}

/// An op that takes tensors in layouts.
pub trait LayoutRule: Op {
    /// Which operands share the layout of the results.
    const KEEPS: Keeps;
    /// Whether an e-graph has the op in each layout that a machine asks for. What takes parts of tensors, or puts something around them, is
    /// mostly found by rules beside programs without it; in every layout it makes the e-graph a third larger, and programs
    /// that were found without are not found in the same time.
    const OFFERED: bool = true;

    /// The dimensions of which a matrix unit wants neighbours to lie next to each other: in data and
    /// result, and in weights, for each way to compute it as products. Only ops that say some are worth a conversion.
    fn prefers(&self, _op: OpRef<'_>) -> Vec<[usize; 2]> {
        Vec::new()
    }
    /// Says why the op cannot compute in a layout that fits its operands and results.
    fn admits(&self, _op: OpRef<'_>, _layout: &Layout) -> Result<(), Failure> {
        Ok(())
    }
    /// The layout that its weights should have when it computes in a layout, or in none where memory is read in bursts;
    /// `None` for plain ones.
    fn weights(&self, _op: OpRef<'_>, _layout: Option<&Layout>) -> Option<Layout> {
        None
    }
    /// For [`Keeps::Order`]: the dimension of the operand that each dimension of the result is.
    fn order(&self) -> Vec<usize> {
        Vec::new()
    }
}

/// [`LayoutRule`] as an interface.
pub trait LayoutClass: Send + Sync {
    /// Which operands share the layout of the results.
    fn keeps(&self) -> Keeps;
    /// Whether an e-graph has it in each layout.
    fn offered(&self) -> bool;
    /// The dimensions that should be contiguous: in data and result, and in weights, for each way to compute it.
    fn prefers(&self, ir: &Ir, op: OpId) -> Vec<[usize; 2]>;
    /// Says why the op cannot compute in a layout.
    fn admits(&self, ir: &Ir, op: OpId, layout: &Layout) -> Result<(), Failure>;
    /// The layout that its weights should have when it computes in a layout, or in none.
    fn weights(&self, ir: &Ir, op: OpId, layout: Option<&Layout>) -> Option<Layout>;
    /// The dimension of the operand that each dimension of the result is, for [`Keeps::Order`].
    fn order(&self, ir: &Ir, op: OpId) -> Vec<usize>;
}

impl<T: LayoutRule> LayoutClass for Typed<T> {
    fn keeps(&self) -> Keeps {
        T::KEEPS
    }
    fn offered(&self) -> bool {
        T::OFFERED
    }
    fn prefers(&self, ir: &Ir, op: OpId) -> Vec<[usize; 2]> {
        T::read(ir, op).map_or(Vec::new(), |record| record.prefers(ir.op(op)))
    }
    fn admits(&self, ir: &Ir, op: OpId, layout: &Layout) -> Result<(), Failure> {
        T::read(ir, op).map_or(Ok(()), |record| record.admits(ir.op(op), layout))
    }
    fn weights(&self, ir: &Ir, op: OpId, layout: Option<&Layout>) -> Option<Layout> {
        T::read(ir, op)?.weights(ir.op(op), layout)
    }
    fn order(&self, ir: &Ir, op: OpId) -> Vec<usize> {
        T::read(ir, op).map_or(Vec::new(), |record| record.order())
    }
}

/// The rule of elementwise ops of one type, which need not say it.
struct OneType;
impl LayoutClass for OneType {
    fn keeps(&self) -> Keeps {
        Keeps::All
    }
    fn offered(&self) -> bool {
        true
    }
    fn prefers(&self, _: &Ir, _: OpId) -> Vec<[usize; 2]> {
        Vec::new()
    }
    fn admits(&self, _: &Ir, _: OpId, _: &Layout) -> Result<(), Failure> {
        Ok(())
    }
    fn weights(&self, _: &Ir, _: OpId, _: Option<&Layout>) -> Option<Layout> {
        None
    }
    fn order(&self, _: &Ir, _: OpId) -> Vec<usize> {
        Vec::new()
    }
}

/// What an op says of layouts; `None` if it takes plain tensors only.
pub fn rule_of(info: &OpInfo) -> Option<&dyn LayoutClass> {
    let said = info.interface::<dyn LayoutClass>();
    let one_type = info.has(Traits::SameType) && info.has(Traits::Elementwise);
    said.or(one_type.then_some(&OneType))
}

/// The layouts in which an op that computes in one layout wants its operands; `None` if it cannot
/// compute in it.
pub fn operands_in(
    rule: &dyn LayoutClass,
    op: OpRef<'_>,
    layout: Option<&Layout>,
) -> Option<Vec<Option<Layout>>> {
    let (ir, id) = (op.ir, op.id);
    let results = ir.result_types(id);
    let shape = |ty: Type| ty.shape().unwrap_or(&[]);
    let fits = |ty: Type| layout.is_none_or(|layout| layout.fits(shape(ty)));
    if let Some(layout) = layout {
        rule.admits(ir, id, layout).ok()?;
    }
    if rule.keeps() != Keeps::Operand && !results.iter().all(|ty| fits(*ty)) {
        return None;
    }
    if rule.keeps() == Keeps::Order {
        let order = rule.order(ir, id);
        let back = |d| order.iter().position(|o| *o == d);
        let back: Option<Vec<usize>> = (0..order.len()).map(back).collect();
        let from = Layout::renamed(layout, &back?)?;
        return Some(vec![(!from.is_plain()).then_some(from)]);
    }
    let wanted = |(i, value): (usize, Value)| {
        let ty = ir.ty(value);
        let shares = match rule.keeps() {
            Keeps::All => true,
            Keeps::Broadcast => results.first().is_none_or(|r| r.shape() == ty.shape()),
            Keeps::First | Keeps::Weighted | Keeps::Order | Keeps::Operand => i == 0,
            Keeps::Result => false,
        };
        if shares {
            return fits(ty).then(|| layout.cloned());
        }
        let weighted = i == 1 && rule.keeps() == Keeps::Weighted;
        let weights = weighted.then(|| rule.weights(ir, id, layout)).flatten();
        Some(weights.filter(|weights| weights.fits(shape(ty))))
    };
    ir.operands(id).enumerate().map(wanted).collect()
}

/// The type of the result of an op that computes in a layout; `ty` is that of any layout.
pub fn result_in(rule: &dyn LayoutClass, layout: Option<&Layout>, ty: Type) -> Type {
    match rule.keeps() {
        Keeps::Operand => ty,
        _ => Layout::on(layout, ty),
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
        if T::KEEPS == Keeps::Order {
            let said = ir.result_types(id);
            let from = operands.first().and_then(|x| Layout::of(ir.ty(*x)));
            if from.is_none() && said.iter().all(|ty| Layout::of(*ty).is_none()) {
                return Ok(types);
            }
            let rank = record.order().len();
            let kept = Layout::renamed(from, &record.order());
            let kept = kept.ok_or_else(|| format!("names no layout of {rank} dimensions"))?;
            let stored = types.into_iter().map(|ty| Layout::on(Some(&kept), ty));
            return Ok(stored.collect());
        }
        let Some(layout) = common(ir, &operands, T::KEEPS, &types)? else {
            return Ok(types);
        };
        record.admits(op, layout)?;
        if T::KEEPS == Keeps::Operand {
            return Ok(types);
        }
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
        Keeps::First | Keeps::Weighted | Keeps::Order | Keeps::Operand => operands.first(),
        Keeps::Result => None,
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
            Keeps::Operand if i == 0 => true,
            Keeps::First | Keeps::Order | Keeps::Operand | Keeps::Result => found.is_none(),
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
    if op.ir.info(op.id).and_then(rule_of).is_some() {
        return Ok(());
    }
    Err(format!("takes plain tensors, found operand '{name}' stored as {layout}").into())
}
