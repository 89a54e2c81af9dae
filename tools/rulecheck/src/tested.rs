//! What is known of a rule after its test.

use std::collections::BTreeMap;

use tir::{Class, Loc, Type};

use crate::instance::Fault;
use crate::plan::elems;

/// What instances were like.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Coverage {
    /// Instances on which both sides were compared: the left side matched and the guards held.
    pub instances: usize,
    /// Attempts to make one.
    pub tries: usize,
    /// How many attempts gave a left side that verifies.
    pub built: usize,
    /// How many instances have operands of this rank and none of a higher one.
    pub ranks: BTreeMap<usize, usize>,
    /// How many have a dimension of 1.
    pub unit: usize,
    /// How many have a dimension of 0.
    pub empty: usize,
    /// How many of them have no element to compare.
    pub vacant: usize,
    /// The largest dimension.
    pub largest: i64,
    /// By op that a variable of the rule stands for: how many have it.
    pub ops: BTreeMap<String, usize>,
    /// How many have elements of this type.
    pub elems: BTreeMap<String, usize>,
}

impl Coverage {
    /// Counts an instance whose values have these types, and of which so many elements were compared.
    pub(crate) fn count(&mut self, types: &[Type], compared: usize) {
        let shapes = || types.iter().filter_map(|ty| ty.shape());
        self.instances += 1;
        if let Some(rank) = shapes().map(<[i64]>::len).max() {
            *self.ranks.entry(rank).or_default() += 1;
        }
        for elem in elems(types) {
            *self.elems.entry(elem).or_default() += 1;
        }
        let has = |n: i64| shapes().any(|s| s.contains(&n));
        self.unit += usize::from(has(1));
        self.empty += usize::from(has(0));
        self.vacant += usize::from(compared == 0);
        let largest = shapes().flatten().copied().max().unwrap_or(0);
        self.largest = self.largest.max(largest);
    }
}

/// What a test says of a rule.
#[derive(Clone, PartialEq, Debug)]
pub enum Verdict {
    /// Both sides agree on all instances.
    Right,
    /// They do not.
    Wrong {
        /// What differs.
        fault: Fault,
        /// Types and attributes of the counterexample, on one line.
        instance: String,
        /// Both sides with the values, as text that runs.
        program: String,
    },
    /// There were too few instances, and why.
    Untested(String),
}

/// A rule and what its test says.
#[derive(Clone, PartialEq, Debug)]
pub struct Tested {
    /// The rule.
    pub name: String,
    /// Its text.
    pub rule: String,
    /// The class it is tested as.
    pub class: Class,
    /// Where it is written.
    pub loc: Loc,
    /// What the test says.
    pub verdict: Verdict,
    /// What it was tested on.
    pub coverage: Coverage,
}
