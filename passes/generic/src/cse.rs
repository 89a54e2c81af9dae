//! `cse`: of equal pure ops one is enough.

use rustc_hash::{FxBuildHasher, FxHashMap};
use tir::rewrite::{hash_op, ops_are_equal};
use tir::{Dominance, Ir, OpId, Pass, PassCx, PassResult, RegionId, SmallVec, Traits, Value, pass};

pass! {
    /// Eliminates common subexpressions: replaces a side-effect-free op by an equal one that
    /// dominates it.
    ///
    /// Equal are ops of one name with equal attributes, operands, result types and regions;
    /// operands of commutative ops may be swapped. What is put in a memory space by name, such as a tile
    /// that is loaded, is not merged.
    pub struct Cse = "cse" {
        /// Names of ops that are never merged, such as allocations that are written later.
        pub keep: Vec<String> = Vec::new(),
    }
}

impl Pass for Cse {
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        cx.each(ir, &|ir, cx| {
            let mut run = Elimination {
                keep: &self.keep,
                dominance: Dominance::default(),
                known: FxHashMap::with_capacity_and_hasher(ir.op_count(), FxBuildHasher),
                dead: Vec::new(),
            };
            let regions: Vec<RegionId> = ir.regions(ir.root()).collect();
            for region in regions {
                run.region(ir, region);
            }
            let merged = run.dead.len();
            for op in run.dead.into_iter().rev() {
                ir.erase(op);
            }
            cx.count("merged", merged);
            if merged == 0 {
                cx.unchanged();
            }
            Ok(())
        })
    }
}

struct Elimination<'a> {
    keep: &'a [String],
    dominance: Dominance,
    /// The ops met so far by hash; those that no longer dominate anything do no harm.
    known: FxHashMap<u64, SmallVec<[OpId; 1]>>,
    dead: Vec<OpId>,
}

impl Elimination<'_> {
    fn region(&mut self, ir: &mut Ir, region: RegionId) {
        for block in self.dominance.order(ir, region) {
            let mut next = ir.first(block);
            while let Some(op) = next {
                next = ir.next(op);
                // Operands first: what is below may become equal by it.
                if self.merge(ir, op) {
                    continue;
                }
                let regions: SmallVec<[RegionId; 2]> = ir.regions(op).collect();
                for region in regions {
                    self.region(ir, region);
                }
            }
        }
    }

    fn merge(&mut self, ir: &mut Ir, op: OpId) -> bool {
        let candidate = ir.results(op).len() > 0
            && ir.is_pure(op)
            && !ir.has(op, Traits::Terminator)
            && ir.child(op).is_none()
            // What is put in a memory space by name is a buffer of its own: shared, it would be held until its last use.
            && ir.placed(op).is_none()
            && !self.keep.iter().any(|name| ir.name(op) == name.as_str());
        if !candidate {
            return false;
        }
        let same = self.known.entry(hash_op(ir, op)).or_default();
        let found = same.iter().copied().find(|other| {
            let dominates = self.dominance.value_dominates(ir, ir.result(*other, 0), op);
            dominates && ops_are_equal(ir, *other, op)
        });
        let Some(other) = found else {
            same.push(op);
            return false;
        };
        let pairs: SmallVec<[(Value, Value); 2]> = ir.results(op).zip(ir.results(other)).collect();
        for (old, new) in pairs {
            ir.replace_uses(old, new);
        }
        self.dead.push(op);
        true
    }
}
