//! Whether some run comes to an op, as far as branches go.
//!
//! A branch that data decide (what the function is given, what is loaded) is taken both ways by some runs. One that numbers alone decide
//! (constants, counters of loops, arithmetic on them) is taken the same way by all runs: which one, only running the program says, and
//! the other way may never be taken.

use std::collections::HashMap;

use tir::interfaces::{RegionPoint, region_edges, trip_count};
use tir::{Definition, Ir, OpId, Type, Value};

pub(super) struct Reachable<'a> {
    ir: &'a Ir,
    /// By value whether data decide it.
    of_data: HashMap<Value, bool>,
}

impl<'a> Reachable<'a> {
    pub(super) fn new(ir: &'a Ir) -> Self {
        Self {
            ir,
            of_data: HashMap::new(),
        }
    }

    /// Whether data decide all branches around an op, and all loops around it have a trip.
    pub(super) fn by_data(&mut self, op: OpId) -> bool {
        let ir = self.ir;
        let mut at = op;
        loop {
            let region = ir.block_of(at).and_then(|block| ir.region_of(block));
            let Some(region) = region else { return true };
            let ends = ir.blocks(region).filter_map(|block| ir.last(block));
            let branches: Vec<OpId> = ends.filter(|end| ir.successors(*end).len() > 1).collect();
            // Of blocks it is not asked which of the branches lead here.
            let in_entry = ir.entry(region) == ir.block_of(at);
            if !in_entry
                && !branches
                    .into_iter()
                    .all(|branch| self.decided_by_data(branch))
            {
                return false;
            }
            let Some(holder) = ir.parent(at).filter(|holder| *holder != ir.root()) else {
                return true;
            };
            match trip_count(ir, holder) {
                Some(0) => return false,
                Some(_) => {}
                None => {
                    let ways = region_edges(ir, holder, &|_| false);
                    let mut ways = ways
                        .into_iter()
                        .filter(|way| way.from == RegionPoint::Parent);
                    let first = ways.next().map(|way| way.to);
                    let several = ways.any(|way| Some(way.to) != first);
                    if several && !self.decided_by_data(holder) {
                        return false;
                    }
                }
            }
            at = holder;
        }
    }

    /// Whether data decide where an op branches: some operand that is a number or a truth value.
    fn decided_by_data(&mut self, op: OpId) -> bool {
        let operands: Vec<Value> = self.ir.operands(op).collect();
        let number = |ty: Type| ty.is_int() || ty.is_index();
        let mut numbers = operands.into_iter().filter(|v| number(self.ir.ty(*v)));
        numbers.any(|value| self.is_data(value))
    }

    fn is_data(&mut self, value: Value) -> bool {
        if let Some(known) = self.of_data.get(&value) {
            return *known;
        }
        // What a loop hands on to itself is decided by what it begins with.
        self.of_data.insert(value, false);
        let ir = self.ir;
        let found = match ir.definition(value) {
            Definition::Argument(block, _) => {
                let region = ir.region_of(block);
                let holder = region.and_then(|region| ir.region_owner(region));
                holder.is_none_or(|holder| holder == ir.root())
            }
            Definition::Result(op, _) => {
                let operands: Vec<Value> = ir.operands(op).collect();
                ir.regions(op).len() == 0
                    && (!ir.is_pure(op) || operands.into_iter().any(|v| self.is_data(v)))
            }
        };
        self.of_data.insert(value, found);
        found
    }
}
