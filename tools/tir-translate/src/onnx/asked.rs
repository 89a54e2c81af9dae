//! What operands that are given when a program runs are asked for: lists of integers, and whether they are what was assumed.

use tir_core::Value;
use tir_data::Array;

use super::assume::{Case, TRIED};
use super::import::Outcome;
use super::make::Make;

impl Make<'_, '_> {
    /// Operand `k` as a list of integers, and their number.
    pub(super) fn list(&mut self, k: usize) -> Outcome<(Value, i64)> {
        let x = self.operand(k)?;
        if !self.elem(x).is_int() {
            return self.fail(format!(
                "has operand {k} of {}, expected integers",
                self.elem(x)
            ));
        }
        let count = self.shape(x).iter().product();
        let x = self.cast(x, Self::index_type())?;
        Ok((self.reshape(x, &[count])?, count))
    }

    /// Whether all truth values of a tensor hold.
    pub(super) fn all(&mut self, x: Value) -> Outcome<Value> {
        self.folded(x, true)
    }

    /// Whether one of the truth values of a tensor holds.
    pub(super) fn any(&mut self, x: Value) -> Outcome<Value> {
        self.folded(x, false)
    }

    fn folded(&mut self, x: Value, all: bool) -> Outcome<Value> {
        let shape = self.shape(x);
        if shape.contains(&0) {
            return self.truth(all);
        }
        let axes: Vec<usize> = (0..shape.len()).collect();
        let x = self.cast(x, Self::index_type())?;
        let y = match (axes.is_empty(), all) {
            (true, _) => x,
            (_, true) => self.smallest(x, &axes)?,
            (_, false) => self.largest(x, &axes)?,
        };
        let y = self.reshape(y, &[])?;
        self.above(y, 0.0)
    }

    pub(super) fn truth(&mut self, value: bool) -> Outcome<Value> {
        self.numbers(tir_core::Type::int(1), &[], &[f64::from(u8::from(value))])
    }

    /// A list of integers as a constant.
    pub(super) fn known(&mut self, list: &[i64]) -> Outcome<Value> {
        let array = Array::from_vec(&[list.len()], list.to_vec());
        let array = array.map_err(|e| Some(self.node.error(e.to_string())))?;
        Ok(self.array(&array))
    }

    /// Whether operand `k` has these integers.
    pub(super) fn exactly(&mut self, k: usize, wanted: &[i64]) -> Outcome<Value> {
        let (list, count) = self.list(k)?;
        if count != wanted.len() as i64 {
            return self.fail(format!(
                "has {count} numbers in operand {k}, expected {}",
                wanted.len()
            ));
        }
        let wanted = self.known(wanted)?;
        let equal = self.equal(list, wanted)?;
        self.all(equal)
    }

    /// Whether operand `k` has these integers: a case.
    pub(super) fn case(&mut self, k: usize, wanted: Vec<i64>, what: &str) -> Outcome<Case> {
        let holds = self.exactly(k, &wanted)?;
        self.taken(k, wanted, holds, what)
    }

    pub(super) fn taken(
        &mut self,
        k: usize,
        wanted: Vec<i64>,
        holds: Value,
        what: &str,
    ) -> Outcome<Case> {
        let said = format!("{wanted:?}");
        let x = self.operand(k)?;
        let single = self.shape(x).is_empty();
        let shape = if single { vec![] } else { vec![wanted.len()] };
        let array = Array::from_vec(&shape, wanted);
        let array = array.map_err(|e| Some(self.node.error(e.to_string())))?;
        Ok(Case {
            known: vec![(k, array)],
            holds,
            what: what.to_string(),
            said,
        })
    }

    /// The integers of operand `k`, if it is a constant.
    pub(super) fn constant(&self, k: usize) -> Option<Vec<i64>> {
        self.cx.elements(self.node, k)?.to_i64s()
    }

    pub(super) fn is_open(&self, k: usize) -> bool {
        self.cx.is_open(self.node, k)
    }

    /// What must be stated for a node whose operands are not constant.
    pub(super) fn stated(&self, k: usize) -> Option<Vec<i64>> {
        self.cx.stated(self.node, k)
    }

    /// Dimensions of operand `k` of a tensor of this rank, counted from the begin.
    pub(super) fn places(&mut self, k: usize, rank: usize) -> Outcome<(Value, i64)> {
        let (list, count) = self.list(k)?;
        Ok((self.counted_up(list, rank as i64)?, count))
    }

    /// Cases of operand `k`: all sets of so many dimensions of this rank of which `may` holds.
    pub(super) fn sets(
        &mut self,
        k: usize,
        rank: usize,
        may: impl Fn(usize) -> bool,
    ) -> Outcome<Vec<Case>> {
        let (axes, count) = self.places(k, rank)?;
        let dims: Vec<i64> = (0..rank).filter(|d| may(*d)).map(|d| d as i64).collect();
        let mut sets: Vec<Vec<i64>> = vec![Vec::new()];
        for _ in 0..count {
            let longer = |set: &Vec<i64>| {
                let last = set.last().copied();
                let behind = dims
                    .iter()
                    .filter(move |d| last.is_none_or(|last| **d > last));
                let set = set.clone();
                behind.map(move |d| [&set[..], &[*d]].concat())
            };
            sets = sets.iter().flat_map(longer).collect();
            if sets.len() > TRIED {
                return self.fail(format!(
                    "has {count} axes of rank {rank} that are not constant"
                ));
            }
        }
        let mut cases = Vec::new();
        for set in sets {
            // So many different ones that each is among: all of them.
            let mut holds = self.truth(true)?;
            for d in &set {
                let here = self.equals(axes, *d as f64)?;
                let here = self.any(here)?;
                holds = self.and(holds, here)?;
            }
            cases.push(self.taken(k, set, holds, "axes")?);
        }
        Ok(cases)
    }
}
