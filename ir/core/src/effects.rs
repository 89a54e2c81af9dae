//! Questions about effects that generic passes ask.

use crate::attrs::Attr;
use crate::id::OpId;
use crate::ir::Ir;
use crate::name::Name;
use crate::op::{Access, Effect, Effects, Traits};
use crate::symbol::attr_symbols;

impl Ir {
    /// The effects of an op itself, apart from those of the ops in its regions; `None` if nothing is known of it.
    pub fn own_effects(&self, op: OpId) -> Option<Effects> {
        let info = self.info(op)?;
        match info.effects {
            _ if info.has(Traits::Pure) => Some(Effects::new()),
            Some(effects) => Some(effects(self, op)),
            None => info.has(Traits::RecursiveEffects).then(Effects::new),
        }
    }

    /// Whether an op may stop the program for some operands, so that it must not run where it would not have run; those in its
    /// regions are asked by themselves.
    pub fn may_stop(&self, op: OpId) -> bool {
        let types = self.operands(op).map(|v| self.ty(v));
        self.info(op).is_some_and(|info| info.may_stop(types))
    }

    /// The functions that an op may call: what it names, if nothing is known of its effects (`func.call`, and calls of other
    /// dialects). An op whose effects are known does no more than they say, whatever it names.
    pub fn may_call(&self, op: OpId) -> Vec<Name> {
        let mut named = Vec::new();
        if self.own_effects(op).is_none() {
            for (_, attr) in self.attrs(op) {
                attr_symbols(*attr, &mut |symbol| {
                    named.extend(symbol.path.last().copied())
                });
            }
        }
        named
    }

    /// The effects of an op, those of the ops in its regions included where it is known that
    /// there are no others; `None` if nothing is known of it.
    pub fn effects(&self, op: OpId) -> Option<Effects> {
        let info = self.info(op)?;
        let mut effects = self.own_effects(op)?;
        if info.has(Traits::Pure) {
            return Some(effects);
        }
        if info.has(Traits::RecursiveEffects) {
            let (inner, root) = self.op(op).inner();
            for region in inner.regions(root) {
                for block in inner.blocks(region) {
                    for one in inner.ops_in(block) {
                        // An end of which nothing is known only hands on.
                        let ends = inner.has(one, Traits::Terminator);
                        let below = inner.effects(one);
                        let below = below.or_else(|| ends.then(Effects::new));
                        let mut below = below?;
                        if !std::ptr::eq(inner, self) {
                            // Values of an isolated op mean nothing out here.
                            below.iter_mut().for_each(|effect| effect.on = None);
                        }
                        effects.extend(below);
                    }
                }
            }
        }
        Some(effects)
    }

    /// Whether the op neither reads nor writes memory.
    pub fn is_pure(&self, op: OpId) -> bool {
        self.effects(op).is_some_and(|effects| effects.is_empty())
    }

    /// The memory space that the op says by name to put its result in, if it does (attribute `space`): what it makes is a
    /// buffer of its own there. Two of them are not one, however equal, and none is a constant.
    pub fn placed(&self, op: OpId) -> Option<Attr> {
        self.attr(op, "space")
    }

    /// Whether the op may be erased once its results are unused: it does nothing but read, and
    /// make buffers that nobody else sees.
    pub fn is_removable(&self, op: OpId) -> bool {
        let harmless = |e: &Effect| matches!(e.access, Access::Read | Access::Allocate);
        !self.has(op, Traits::Terminator)
            && !self.has(op, Traits::Symbol)
            && self
                .effects(op)
                .is_some_and(|effects| effects.iter().all(harmless))
    }
}
