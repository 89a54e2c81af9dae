//! `Target`: which ops a dialect conversion must leave, and which must be gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use tir_core::{Ir, Name, Op, OpId};

use crate::cast::CAST;

type Condition = Arc<dyn Fn(&Ir, OpId) -> bool + Send + Sync>;

#[derive(Clone)]
enum Rule {
    Legal,
    Illegal,
    If(Condition),
}

/// Whether an op may stay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Legality {
    /// It stays.
    Legal,
    /// It must go.
    Illegal,
    /// Nothing is said: it may stay in a partial conversion, and must go in a full one.
    Unknown,
}

/// Which ops may be there after a dialect conversion. What is said of an op counts more than what
/// is said of its dialect.
#[derive(Clone, Default)]
pub struct Target {
    ops: BTreeMap<Name, Rule>,
    dialects: BTreeMap<Name, Rule>,
    recursive: Vec<Name>,
    other: Option<Condition>,
}

impl Target {
    /// Nothing is said of any op.
    pub fn new() -> Self {
        Self::default()
    }
    /// All ops of these dialects stay.
    #[must_use]
    pub fn legal_dialects(mut self, names: &[&str]) -> Self {
        for name in names {
            self.dialects.insert(Name::new(name), Rule::Legal);
        }
        self
    }
    /// All ops of these dialects must go.
    #[must_use]
    pub fn illegal_dialects(mut self, names: &[&str]) -> Self {
        for name in names {
            self.dialects.insert(Name::new(name), Rule::Illegal);
        }
        self
    }
    /// The ops of a record stay.
    #[must_use]
    pub fn legal<T: Op>(self) -> Self {
        self.legal_ops(&[T::SPEC.name])
    }
    /// The ops of a record must go.
    #[must_use]
    pub fn illegal<T: Op>(self) -> Self {
        self.illegal_ops(&[T::SPEC.name])
    }
    /// Ops of these names stay.
    #[must_use]
    pub fn legal_ops(mut self, names: &[&str]) -> Self {
        for name in names {
            self.ops.insert(Name::new(name), Rule::Legal);
        }
        self
    }
    /// Ops of these names must go.
    #[must_use]
    pub fn illegal_ops(mut self, names: &[&str]) -> Self {
        for name in names {
            self.ops.insert(Name::new(name), Rule::Illegal);
        }
        self
    }
    /// Ops of a name stay under a condition. For an isolated op the condition sees the arena of
    /// that op and its root.
    #[must_use]
    pub fn legal_if(
        mut self,
        name: &str,
        holds: impl Fn(&Ir, OpId) -> bool + Send + Sync + 'static,
    ) -> Self {
        let rule = Rule::If(Arc::new(holds));
        self.ops.insert(Name::new(name), rule);
        self
    }
    /// Ops of which nothing else is said stay under a condition.
    #[must_use]
    pub fn other_if(mut self, holds: impl Fn(&Ir, OpId) -> bool + Send + Sync + 'static) -> Self {
        self.other = Some(Arc::new(holds));
        self
    }
    /// Where an op of this name stays, all below it stays.
    #[must_use]
    pub fn recursively(mut self, name: &str) -> Self {
        self.recursive.push(Name::new(name));
        self
    }

    /// Whether an op may stay.
    pub fn legality(&self, ir: &Ir, op: OpId) -> Legality {
        let name = ir.name(op);
        let rule = match self.ops.get(&name) {
            Some(rule) => Some(rule),
            // What is said of builtin, or of all others, does not mean casts.
            None if name == CAST => return Legality::Unknown,
            None if self.dialects.is_empty() => None,
            None => self.dialects.get(&Name::new(name.dialect())),
        };
        let legal = match (rule, &self.other) {
            (Some(Rule::Legal), _) => true,
            (Some(Rule::Illegal), _) => false,
            (Some(Rule::If(holds)), _) | (None, Some(holds)) => holds(ir, op),
            (None, None) => return Legality::Unknown,
        };
        if legal {
            Legality::Legal
        } else {
            Legality::Illegal
        }
    }

    /// Whether the op and all below it stay.
    pub fn is_recursively_legal(&self, ir: &Ir, op: OpId) -> bool {
        self.recursive.contains(&ir.name(op)) && self.legality(ir, op) == Legality::Legal
    }
}
