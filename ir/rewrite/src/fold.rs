//! Folding: the constants it makes, one of a kind in each scope, and the traits that fold.

use rustc_hash::FxHashMap;
use tir_core::{
    At, Attr, BlockId, Dialect, Folded, Folds, Ir, Name, OpId, SmallVec, Traits, Type, Value,
    smallvec,
};

use crate::interfaces::KeepsConstants;
use crate::rewriter::Rewriter;

/// Makes a constant at the insertion point: by the dialect of this name, else by `arith`.
pub(crate) fn materialize(
    rw: &mut Rewriter<'_>,
    dialect: &str,
    attr: Attr,
    ty: Type,
) -> Option<Value> {
    [dialect, "arith"].into_iter().find_map(|dialect| {
        let make = Dialect::named(dialect)?.constant?;
        rw.build(|b| make(b, attr, ty)).filter(|v| rw.ty(*v) == ty)
    })
}

type Key = (BlockId, Attr, Type);

/// The constants at the head of the entry block of each scope: one of a kind.
///
/// A scope is the region of the arena's root, of an op that defines a symbol, of an op that is
/// not known, or of one that [keeps its constants](KeepsConstants).
#[derive(Default)]
pub struct Constants {
    /// The one for a value and a type; one for each dialect that makes constants.
    known: FxHashMap<Key, SmallVec<[OpId; 1]>>,
    last: FxHashMap<BlockId, OpId>,
}

impl Constants {
    /// The entry block of the scope around an op.
    fn scope(ir: &Ir, op: OpId) -> Option<BlockId> {
        let mut region = ir.region_of(ir.block_of(op)?)?;
        loop {
            let owner = ir.region_owner(region)?;
            let stays = owner == ir.root()
                || ir.info(owner).is_none_or(|info| {
                    info.has(Traits::Symbol) || info.interface::<dyn KeepsConstants>().is_some()
                });
            if stays {
                return ir.entry(region);
            }
            region = ir.region_of(ir.block_of(owner)?)?;
        }
    }

    fn place(&self, ir: &Ir, block: BlockId) -> At {
        match self.last.get(&block) {
            Some(&last) if ir.contains(last) && ir.block_of(last) == Some(block) => At::After(last),
            _ => At::Start(block),
        }
    }

    /// The constant that is known and still stands where it was put, of ops that `fits` takes.
    fn lookup(&self, ir: &Ir, key: &Key, fits: impl Fn(Name) -> bool) -> Option<OpId> {
        let stands = |op: &OpId| {
            ir.contains(*op)
                && ir.block_of(*op) == Some(key.0)
                && ir.attr(*op, "value") == Some(key.1)
                && fits(ir.name(*op))
        };
        self.known.get(key)?.iter().copied().find(stands)
    }

    /// Puts a constant in the place of what was known of its kind.
    fn know(&mut self, ir: &Ir, key: Key, op: OpId) {
        let known = self.known.entry(key).or_default();
        known.retain(|old| ir.contains(*old) && ir.name(*old) != ir.name(op));
        known.push(op);
        self.last.insert(key.0, op);
    }

    /// Brings a constant to the head of its scope, or replaces it by an equal one there. Says
    /// whether anything changed.
    pub fn adopt(&mut self, rw: &mut Rewriter<'_>, op: OpId) -> bool {
        let plain =
            rw.attrs(op).len() == 1 && rw.operands(op).len() == 0 && rw.results(op).len() == 1;
        let (Some(attr), true) = (rw.attr(op, "value"), plain) else {
            return false;
        };
        let Some(block) = Self::scope(rw.ir(), op) else {
            return false;
        };
        let key = (block, attr, rw.ty(rw.result(op, 0)));
        let name = rw.name(op);
        if let Some(first) = self.lookup(rw.ir(), &key, |other| other == name) {
            if first == op {
                return false;
            }
            let value = rw.result(first, 0);
            rw.replace(op, &[value]);
            return true;
        }
        let at = self.place(rw.ir(), block);
        let there = match at {
            At::After(last) => rw.prev(op) == Some(last) || last == op,
            _ => rw.first(block) == Some(op),
        };
        if !there {
            rw.move_op(op, at);
        }
        self.know(rw.ir(), key, op);
        !there
    }

    /// The constant for a result of `op`, made if there is none yet; `None` if no dialect makes
    /// it.
    pub fn get(&mut self, rw: &mut Rewriter<'_>, op: OpId, attr: Attr, ty: Type) -> Option<Value> {
        let block = Self::scope(rw.ir(), op)?;
        let (own, key) = (rw.name(op).dialect(), (block, attr, ty));
        for dialect in [own, "arith"] {
            let makes = Dialect::named(dialect).is_some_and(|d| d.constant.is_some());
            if makes
                && let Some(known) = self.lookup(rw.ir(), &key, |name| name.dialect() == dialect)
            {
                return Some(rw.result(known, 0));
            }
        }
        let before = rw.at();
        rw.set_at(self.place(rw.ir(), block));
        let value = materialize(rw, own, attr, ty);
        rw.set_at(before);
        let value = value?;
        if let Some(made) = rw.owner(value)
            && rw.attr(made, "value") == Some(attr)
        {
            self.know(rw.ir(), key, made);
        }
        Some(value)
    }

    /// Forgets a constant that is about to be erased.
    pub fn forget(&mut self, ir: &Ir, op: OpId) {
        let Some(block) = ir.block_of(op) else { return };
        if self.last.get(&block) == Some(&op) {
            match ir.prev(op) {
                Some(prev) => self.last.insert(block, prev),
                None => self.last.remove(&block),
            };
        }
    }
}

/// Folds an op that is no constant if it can be: its results become constants or existing values, and it is erased.
pub(crate) fn fold_op(rw: &mut Rewriter<'_>, constants: &mut Constants, op: OpId) -> bool {
    let results = rw.results(op).len();
    let Some(folds) = rw.try_fold(op).or_else(|| by_trait(rw.ir(), op)) else {
        return false;
    };
    if results == 0 || folds.0.len() != results {
        return false;
    }
    let mut values: SmallVec<[Value; 2]> = SmallVec::new();
    for (index, folded) in folds.0.into_iter().enumerate() {
        let ty = rw.ty(rw.result(op, index));
        let value = match folded {
            Folded::Value(value) => Some(value),
            Folded::Attr(attr) => constants.get(rw, op, attr, ty),
        };
        match value {
            Some(value) if rw.ty(value) == ty && rw.owner(value) != Some(op) => values.push(value),
            _ => return false,
        }
    }
    rw.replace(op, &values);
    true
}

/// `f(f(x))` by what traits say of `f`.
fn by_trait(ir: &Ir, op: OpId) -> Option<Folds> {
    let info = ir.info(op)?;
    let (involution, idempotent) = (info.has(Traits::Involution), info.has(Traits::Idempotent));
    if !involution && !idempotent || ir.operands(op).len() != 1 || ir.results(op).len() != 1 {
        return None;
    }
    let value = ir.operand(op, 0);
    let inner = ir.owner(value)?;
    if ir.name(inner) != ir.name(op) || ir.attrs(inner) != ir.attrs(op) || !ir.is_pure(inner) {
        return None;
    }
    // Regions are not compared.
    if ir.regions(op).len() + ir.regions(inner).len() > 0 {
        return None;
    }
    let value = if involution {
        ir.operand(inner, 0)
    } else {
        value
    };
    (ir.ty(value) == ir.ty(ir.result(op, 0))).then(|| Folds(smallvec![Folded::Value(value)]))
}
