//! Programs and machines that are wrong whatever the order.

use tir_machine::*;

use crate::bench::{Bench, check, spec};

#[test]
fn engines_move_between_their_spaces_only() {
    let mut t = Bench::new();
    check(
        t.load("load", t.x, &[]),
        FaultKind::Transfer,
        "`load` uses x in @dram, but @load reaches @spm there",
    );
    let load = t.m.queue("load").unwrap();
    let five = |b| StridedBox::new(b, 0, &[(2, 100), (2, 40), (2, 16), (2, 6)], 1);
    let fault = t.m.transfer_cost(load, &five(t.x), &five(t.a)).unwrap_err();
    assert_eq!(
        fault.message,
        "the transfer has 5 dimensions, @load at most 4"
    );
}

#[test]
fn failing_effects_and_bad_machines_are_faults() {
    let mut t = Bench::new();
    let work = Work::new(t.m.site("call", "a:1:1"), Cost::Cycles(1));
    let fault = t.m.start(t.m.queue("u").unwrap(), &work, |_| {
        Err("division by zero".into())
    });
    check(
        fault,
        FaultKind::Effect,
        "`call` (a:1:1) fails: division by zero",
    );
    let mut s = spec();
    s.engines[0].to = "nowhere".into();
    s.units[0].queue = 0;
    let fault = Machine::new(s, Options::default()).err().unwrap();
    assert_eq!(
        fault.to_string(),
        "unit @u has queue = 0, expected at least 1\n  note: engine @load names the unknown space @nowhere"
    );
}
