//! Analyses: what passes compute of an isolated op and keep until it changes.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tir_core::Ir;

/// Something computed from an isolated op, kept until a pass changes the op.
pub trait Analysis: Send + Sync + Sized + 'static {
    /// Computes it.
    fn new(ir: &Ir) -> Self;
}

type Object = Arc<dyn Any + Send + Sync>;

/// The analyses of one isolated op.
#[derive(Default, Clone)]
pub(crate) struct Analyses {
    known: BTreeMap<TypeId, Object>,
}

/// What a pass leaves as it was.
#[derive(Default)]
pub(crate) struct Preserved {
    pub(crate) all: bool,
    pub(crate) some: BTreeSet<TypeId>,
}

impl Analyses {
    pub(crate) fn get<A: Analysis>(&mut self, ir: &Ir) -> Arc<A> {
        if let Some(known) = self.known::<A>() {
            return known;
        }
        let new = Arc::new(A::new(ir));
        self.known.insert(TypeId::of::<A>(), new.clone());
        new
    }
    pub(crate) fn known<A: Analysis>(&self) -> Option<Arc<A>> {
        let object = self.known.get(&TypeId::of::<A>())?.clone();
        object.downcast().ok()
    }
    pub(crate) fn invalidate(&mut self, preserved: &Preserved) {
        if !preserved.all {
            self.known.retain(|id, _| preserved.some.contains(id));
        }
    }
    pub(crate) fn clear(&mut self) {
        self.known.clear();
    }
}

/// The analyses of the ops around, the nearest first.
pub(crate) struct Outer {
    pub(crate) analyses: Analyses,
    pub(crate) outer: Option<Arc<Outer>>,
}

impl Outer {
    pub(crate) fn get<A: Analysis>(&self) -> Option<Arc<A>> {
        let found = self.analyses.known::<A>();
        found.or_else(|| self.outer.as_ref()?.get::<A>())
    }
}
