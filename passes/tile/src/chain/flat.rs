//! Chains whose stages all take neighbouring iterators as one ([`Group::flat`]): blocks of a unit then run on over the
//! ends of rows. Each tensor between two stages must be the same for both, one dimension less or as it was.

use tir::Value;

use super::stage::{Maker, Makers};
use crate::group::Group;

/// The groups of a chain with neighbouring iterators as one.
pub(super) struct FlatChain {
    pub(super) root: Group,
    /// By the tensor that each computes.
    makers: Vec<(Value, Group)>,
}

impl FlatChain {
    /// The same chain, if all its stages can be so, and agree on every tensor between them.
    pub(super) fn new(root: &Group, makers: &Makers<'_>) -> Option<Self> {
        let mut flat = Vec::new();
        for (value, makers) in makers {
            let [maker] = makers[..] else { return None };
            if !maker.at.is_empty() || maker.between.is_some() {
                return None;
            }
            flat.push((*value, maker.group.flat()?));
        }
        let chain = Self {
            root: root.flat()?,
            makers: flat,
        };
        chain.agrees().then_some(chain)
    }

    /// Whether each tensor between two stages is the same for both.
    fn agrees(&self) -> bool {
        let groups = self.makers.iter().map(|(_, group)| group);
        let mut read = groups.chain([&self.root]).flat_map(|g| &g.operands);
        read.all(|operand| {
            let made = self.makers.iter().find(|(v, _)| *v == operand.source);
            let out = made.and_then(|(_, group)| group.outs.first());
            out.is_none_or(|out| out.flat == operand.flat)
        })
    }

    /// Who computes what.
    pub(super) fn makers(&self) -> Makers<'_> {
        let makers = self.makers.iter().map(|(value, group)| {
            let at = &[];
            let between = None;
            (*value, vec![Maker { group, at, between }])
        });
        makers.collect()
    }
}
