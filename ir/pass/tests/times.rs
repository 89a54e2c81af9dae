//! Times of passes: what threads do for a pass is its time.
#![allow(missing_docs)]

use std::time::{Duration, Instant};

use tir::pass::Settings;
use tir::*;

/// A function.
#[derive(Op)]
#[op("s.func", IsolatedFromAbove, NoTerminator)]
pub struct Func {
    pub body: RegionId,
}

dialect! {
    /// For tests.
    s { ops: [Func] }
}

/// Milliseconds of each piece of work.
const EACH: u64 = 40;

/// Keeps a processor busy, for as long as it takes on an idle one.
fn work() {
    let (start, mut n) = (Instant::now(), 0u64);
    while start.elapsed() < Duration::from_millis(EACH) {
        n = std::hint::black_box(n + 1);
    }
}

pass! {
    /// Works on several threads.
    pub struct Share = "share" on "s.func" {}
}
impl Pass for Share {
    fn run(&self, _: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        // Each thread comes to both: none is left with nothing to do.
        cx.map((0..8).collect::<Vec<u64>>(), |_| work());
        cx.unchanged();
        Ok(())
    }
}

#[test]
fn work_on_all_threads_counts() {
    DIALECT.load();
    let mut ir = Ir::new("s.func");
    let region = ir.new_region();
    ir.attach_region(ir.root(), region);
    ir.new_block(region);
    let mut registry = PassRegistry::new();
    registry.add([PassInfo::of::<Share>()]);
    let pipeline = registry.parse("share").expect("a pipeline");
    let settings = Settings {
        timing: true,
        threads: 2,
        ..Settings::default()
    };
    let report = PassManager::with(pipeline, settings).run(&mut ir);
    assert!(report.errors.is_empty(), "{:?}", report.errors);
    let mut members = report.timing.members.iter();
    let (_, share) = members
        .find(|(_, timing)| timing.name == "share")
        .expect("its time");
    // The thread of the pass waits for the others: it does next to nothing.
    assert!(share.cpu > Duration::from_millis(EACH), "{:?}", share.cpu);
}
