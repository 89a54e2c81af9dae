//! Semaphores: what they order and hold back, and programs that never end.

use tir_machine::*;

use crate::bench::{Bench, all, check};

#[test]
fn semaphores_order_queues_and_hold_work_back() {
    let mut t = Bench::new();
    let (full, empty) = (t.m.semaphore("full", 0), t.m.semaphore("empty", 1));
    let site = t.m.site("consume", "");
    let (x, a) = (t.x, t.a);
    let mut seen = Vec::new();
    // The consumer is started first each time; its effect runs after the producer's.
    for i in 0..3u8 {
        let reads = all(a);
        let work = Work {
            reads: &reads,
            acquire: &[full],
            release: &[empty],
            ..Work::new(site, Cost::Cycles(100))
        };
        let u = t.m.queue("u").unwrap();
        let consumed = t.m.start(u, &work, move |m| match m.bytes(a)? {
            b if b.iter().all(|&v| v == 10 + i) => Ok(()),
            b => Err(format!("found {}", b[0])),
        });
        let (reads, writes) = (all(x), all(a));
        let produce = t.m.site("produce", "");
        let work = Work {
            reads: &reads,
            writes: &writes,
            acquire: &[empty],
            release: &[full],
            ..Work::new(
                produce,
                Cost::Transfer {
                    bytes: 256,
                    rows: 1,
                },
            )
        };
        let load = t.m.queue("load").unwrap();
        t.m.start(load, &work, move |m| m.fill(&all(a)[0], &[10 + i]))
            .unwrap();
        seen.push(consumed.unwrap());
    }
    t.wait(&seen).unwrap();
    t.wait(&[t.m.mark(t.m.queue("load").unwrap())]).unwrap();
    t.finish().unwrap();
    // Producer and consumer take turns: 3 x (42 + 100).
    assert_eq!(t.m.report().cycles, 426);
}

#[test]
fn what_nobody_releases_is_a_deadlock() {
    let mut t = Bench::new();
    let s = t.m.semaphore("s", 0);
    let head = t.tick("head", "v", &[s], &[]).unwrap();
    let behind = t.tick("behind", "v", &[], &[]).unwrap();
    check(
        t.wait(&[behind]),
        FaultKind::Deadlock,
        "deadlock: `wait` waits for `behind` on @v\
         \n  note: `behind` stands behind `head` on @v\
         \n  note: `head` on @v waits for release 1 of semaphore s\
         \n  note: nothing that has been started releases it, and the thread cannot go on",
    );
    assert_eq!(t.finish().unwrap_err().kind, FaultKind::Deadlock);
    // The thread may release it as well.
    let site = t.m.site("release", "");
    t.m.release(site, s).unwrap();
    t.wait(&[head, behind]).unwrap();
    t.finish().unwrap();
}

#[test]
fn queues_that_wait_for_each_other_are_a_circle() {
    let mut t = Bench::new();
    let (p, q) = (t.m.semaphore("p", 0), t.m.semaphore("q", 0));
    t.tick("left", "u", &[p], &[q]).unwrap();
    t.tick("right", "v", &[q], &[p]).unwrap();
    t.tick("more", "u", &[], &[]).unwrap();
    check(
        t.tick("most", "u", &[], &[]),
        FaultKind::Deadlock,
        "deadlock: `most` waits for a slot of the full queue @u, held by `left` on @u\
         \n  note: `left` on @u waits for release 1 of semaphore p, due from `right` on @v\
         \n  note: `right` on @v waits for release 1 of semaphore q, due from `left` on @u\
         \n  note: `left` waits for itself: the circle is closed",
    );
}

#[test]
fn held_work_is_checked_when_it_is_freed() {
    for ordered in [true, false] {
        let mut t = Bench::new();
        let s = t.m.semaphore("s", 0);
        let (site, held) = (t.m.site("memref.store", ""), t.m.site("held", ""));
        let writes = all(t.a);
        let work = Work {
            writes: &writes,
            acquire: &[s],
            ..Work::new(held, Cost::Cycles(1))
        };
        let end =
            t.m.start(t.m.queue("u").unwrap(), &work, |_| Ok(()))
                .unwrap();
        // The thread's store comes before the signal that frees the held work: no race.
        t.m.thread_write(site, &StridedBox::contiguous(t.a, 16, 4))
            .unwrap();
        // A transfer started meanwhile is ordered only if the signal comes after it.
        let loaded = t.load("load", t.a, &[]).unwrap();
        let after = if ordered { loaded } else { t.m.ready() };
        let signal = t.m.site("signal", "");
        let work = Work {
            after: &[after],
            release: &[s],
            ..Work::new(signal, Cost::Cycles(1))
        };
        let freed = t.m.start(t.m.queue("v").unwrap(), &work, |_| Ok(()));
        if ordered {
            t.wait(&[end, freed.unwrap()]).unwrap();
            t.finish().unwrap();
        } else {
            let fault = freed.unwrap_err();
            assert!(
                fault
                    .message
                    .starts_with("`held` writes bytes 0..256 of a, which `load` on @load"),
                "{fault}"
            );
        }
    }
}

#[test]
fn a_semaphore_has_one_queue_at_each_end() {
    let mut t = Bench::new();
    let s = t.m.semaphore("s", 0);
    t.tick("one", "u", &[], &[s]).unwrap();
    check(
        t.tick("two", "v", &[], &[s]),
        FaultKind::Semaphore,
        "`two` releases semaphore s on @v, and `one` on @u: which comes first is not determined\
         \n  note: the other is here",
    );
}
