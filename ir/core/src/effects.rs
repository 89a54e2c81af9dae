//! Questions about effects that generic passes ask.

use crate::id::OpId;
use crate::ir::Ir;
use crate::op::{Access, Effect, Effects, Traits};

impl Ir {
    /// The effects of an op, those of the ops in its regions included where it is known that
    /// there are no others; `None` if nothing is known of it.
    pub fn effects(&self, op: OpId) -> Option<Effects> {
        let info = self.info(op)?;
        if info.has(Traits::Pure) {
            return Some(Effects::new());
        }
        let mut effects = match info.effects {
            Some(effects) => effects(self, op),
            None if info.has(Traits::RecursiveEffects) => Effects::new(),
            None => return None,
        };
        if info.has(Traits::RecursiveEffects) {
            for region in self.regions(op) {
                for block in self.blocks(region) {
                    for op in self.ops_in(block) {
                        if !self.has(op, Traits::Terminator) {
                            effects.extend(self.effects(op)?);
                        }
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
