//! What orders operations: queues, tokens, waits of the thread; races where nothing does.

use tir_machine::*;

use crate::bench::{Bench, all, check};

#[test]
fn races_name_both_operations_and_the_bytes() {
    let mut t = Bench::new();
    let loaded = t.load("load x", t.a, &[]).unwrap();
    check(
        t.call(
            "sum",
            "u",
            &[StridedBox::new(t.a, 4, &[(3, 32)], 4)],
            &[],
            &[],
        ),
        FaultKind::Race,
        "`sum` reads bytes 4..8 of a, which `load x` on @load may still be writing: no path from its end to this start\
         \n  note: `load x` started here\
         \n  note: start it after a token of `load x` or of later work on @load",
    );

    let mut t = Bench::new();
    let again = t.load("load x", t.a, &[]).unwrap();
    assert_eq!(loaded, again);
    t.call("sum", "u", &all(t.a), &[], &[again]).unwrap();
    check(
        t.load("load y", t.a, &[again]),
        FaultKind::Race,
        "`load y` writes bytes 0..256 of a, which `sum` on @u may still be reading: no path from its end to this start\
         \n  note: `sum` started here\
         \n  note: start it after a token of `sum` or of later work on @u",
    );

    let mut t = Bench::new();
    t.call("one", "u", &[], &all(t.a), &[]).unwrap();
    let fault = t.call("two", "v", &[], &all(t.a), &[]).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Race);

    // The thread's own accesses are checked alike.
    let mut t = Bench::new();
    let site = t.m.site("memref.load", "f.tir:3:1");
    let done = t.load("load x", t.a, &[]).unwrap();
    check(
        t.m.thread_read(site, &StridedBox::contiguous(t.a, 8, 4)),
        FaultKind::Race,
        "`memref.load` (f.tir:3:1) reads bytes 8..12 of a, which `load x` on @load may still be writing: \
         no path from its end to this start\
         \n  note: `load x` started here\
         \n  note: wait for a token of `load x` or of later work on @load",
    );
    t.wait(&[done]).unwrap();
    t.m.thread_read(site, &StridedBox::contiguous(t.a, 8, 4))
        .unwrap();
    assert_eq!(t.m.memory().bytes(t.a).unwrap(), [1; 256]);
}

#[test]
fn order_comes_through_queues_and_chains_of_tokens() {
    let mut t = Bench::new();
    t.load("load a", t.a, &[]).unwrap();
    // The later transfer's token covers the earlier one, and the chain goes on through u.
    let second = t.load("load b", t.b, &[]).unwrap();
    let empty = t.call("nothing", "u", &[], &[], &[second]).unwrap();
    t.call(
        "sum",
        "v",
        &[all(t.a)[0].clone(), all(t.b)[0].clone()],
        &[],
        &[empty],
    )
    .unwrap();
    let last = t.m.mark(t.m.queue("v").unwrap());
    t.wait(&[last]).unwrap();
    t.finish().unwrap();
    assert_eq!(t.m.report().cycles, 10 + 32 + 10 + 32 + 100 + 100);
}

#[test]
fn a_wait_of_the_thread_orders_what_it_starts_later() {
    let mut t = Bench::new();
    let done = t.load("load a", t.a, &[]).unwrap();
    t.wait(&[done]).unwrap();
    t.call("sum", "u", &all(t.a), &all(t.b), &[]).unwrap();
    let fault = t.finish().unwrap_err();
    assert_eq!(fault.kind, FaultKind::NotWaited);
}

#[test]
fn a_full_queue_holds_the_thread_but_orders_nothing() {
    let mut t = Bench::new();
    for op in ["one", "two"] {
        t.call(op, "u", &[], &all(t.a), &[]).unwrap();
    }
    assert_eq!(t.m.now(), 0);
    t.call("three", "u", &[], &[], &[]).unwrap();
    assert_eq!(t.m.now(), 100);
    t.call("four", "u", &[], &[], &[]).unwrap();
    assert_eq!((t.m.now(), t.m.report().thread.queue_full), (200, 200));
    // By now `two` has ended in this timing; a slower machine would still run it.
    let site = t.m.site("memref.load", "");
    assert_eq!(
        t.m.thread_read(site, &all(t.a)[0]).unwrap_err().kind,
        FaultKind::Race
    );
}

#[test]
fn the_head_of_a_queue_holds_back_what_is_behind_it() {
    let mut t = Bench::new();
    let long = t.call("long", "u", &[], &[], &[]).unwrap();
    t.call("head", "v", &[], &[], &[long]).unwrap();
    let behind = t.call("behind", "v", &[], &[], &[]).unwrap();
    t.wait(&[behind]).unwrap();
    let v = t.m.report().queues[3].clone();
    assert_eq!((t.m.now(), v.busy, v.stall, v.idle), (300, 200, 100, 0));
}

#[test]
fn started_work_must_be_waited_for() {
    let mut t = Bench::new();
    let frame = t.m.enter();
    t.load("load a", t.a, &[]).unwrap();
    let last = t.load("load b", t.b, &[]).unwrap();
    check(
        t.finish(),
        FaultKind::NotWaited,
        "`return` is reached while `load a` on @load and 1 more there may still run: not waited for\
         \n  note: `load a` started here",
    );
    // A function that started nothing may return while its caller's work runs.
    let inner = t.m.enter();
    let site = t.m.site("return", "");
    t.m.leave(&inner, site).unwrap();
    assert!(t.m.leave(&frame, site).is_err());
    t.wait(&[last]).unwrap();
    t.m.leave(&frame, site).unwrap();
    t.finish().unwrap();
}
