//! How ops on whole tensors of other dialects go down: passes that join the pipelines there where
//! graph ops become index expressions.

use tir::{Dialect, Pipeline};

/// What turns the ops of a dialect into index expressions: an interface of dialects.
pub trait Lowering: Send + Sync {
    /// Adds passes that run on a function. Groups (`graph.fused`) are made by then and are to stay.
    fn passes(&self, pipeline: &mut Pipeline);
}

struct List(fn(&mut Pipeline));
impl Lowering for List {
    fn passes(&self, pipeline: &mut Pipeline) {
        (self.0)(pipeline);
    }
}

/// Lets passes of a dialect join every pipeline that lowers graph ops. Call it from the dialect's
/// `load` function.
pub fn register(dialect: &'static Dialect, passes: fn(&mut Pipeline)) {
    dialect.attach::<dyn Lowering>(Box::leak(Box::new(List(passes))));
}

/// Adds what the loaded dialects registered, dialects by name.
pub fn join(pipeline: &mut Pipeline) {
    for dialect in Dialect::all() {
        for lowering in dialect.attached::<dyn Lowering>() {
            lowering.passes(pipeline);
        }
    }
}
