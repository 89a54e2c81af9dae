//! Each rule of the machine, on programs of a few operations.

use tir_machine::*;

/// A machine with two units and an engine each way, and what the tests do with it.
struct Bench {
    m: Machine<'static>,
    x: BufferId,
    a: BufferId,
    b: BufferId,
}

fn spec() -> MachineSpec {
    MachineSpec {
        spaces: vec![
            SpaceSpec::new("dram", 1 << 16, 64, 16),
            SpaceSpec::new("spm", 1024, 64, 64),
        ],
        engines: vec![
            EngineSpec::new("load", "dram", "spm", 8, 10),
            EngineSpec::new("store", "spm", "dram", 8, 10),
        ],
        units: vec![UnitSpec::new("u", 2), UnitSpec::new("v", 8)],
        ..MachineSpec::default()
    }
}

impl Bench {
    fn new() -> Bench {
        Bench::of(spec())
    }

    fn of(spec: MachineSpec) -> Bench {
        let mut m = Machine::new(
            spec,
            Options {
                trace: true,
                ..Options::default()
            },
        )
        .unwrap();
        let site = m.site("host", "");
        let mut buffer = |space: &str, name| {
            let space = m.space(space).unwrap();
            m.alloc(space, Alloc::new(name, 256, site)).unwrap()
        };
        let (x, a, b) = (buffer("dram", "x"), buffer("spm", "a"), buffer("spm", "b"));
        m.init(x, site, &[1; 256]).unwrap();
        Bench { m, x, a, b }
    }

    /// A transfer of 256 bytes from x.
    fn load(&mut self, op: &str, to: BufferId, after: &[Token]) -> Result<Token> {
        let site = self.m.site(op, "");
        let (from, to) = (
            StridedBox::contiguous(self.x, 0, 256),
            StridedBox::contiguous(to, 0, 256),
        );
        let load = self.m.queue("load").unwrap();
        let cost = self.m.transfer_cost(load, &from, &to)?;
        let (reads, writes) = ([from.clone()], [to.clone()]);
        let work = Work {
            reads: &reads,
            writes: &writes,
            after,
            ..Work::new(site, cost)
        };
        self.m.start(load, &work, move |m| m.copy(&from, &to))
    }

    /// A call of 100 cycles.
    fn call(
        &mut self,
        op: &str,
        unit: &str,
        reads: &[StridedBox],
        writes: &[StridedBox],
        after: &[Token],
    ) -> Result<Token> {
        let site = self.m.site(op, "");
        let work = Work {
            reads,
            writes,
            after,
            ..Work::new(site, Cost::Cycles(100))
        };
        self.m.start(self.m.queue(unit).unwrap(), &work, |_| Ok(()))
    }

    /// A call of 100 cycles that touches nothing.
    fn tick(
        &mut self,
        op: &str,
        unit: &str,
        acquire: &[Semaphore],
        release: &[Semaphore],
    ) -> Result<Token> {
        let site = self.m.site(op, "");
        let work = Work {
            acquire,
            release,
            ..Work::new(site, Cost::Cycles(100))
        };
        self.m.start(self.m.queue(unit).unwrap(), &work, |_| Ok(()))
    }

    fn wait(&mut self, tokens: &[Token]) -> Result<()> {
        let site = self.m.site("wait", "");
        self.m.wait(site, tokens)
    }

    fn finish(&mut self) -> Result<()> {
        let site = self.m.site("return", "");
        self.m.finish(site)
    }
}

fn all(b: BufferId) -> [StridedBox; 1] {
    [StridedBox::contiguous(b, 0, 256)]
}

#[track_caller]
fn check(fault: Result<impl std::fmt::Debug>, kind: FaultKind, text: &str) {
    let fault = fault.unwrap_err();
    assert_eq!((fault.kind, fault.to_string().as_str()), (kind, text));
}

#[test]
fn reading_what_nothing_wrote() {
    let mut t = Bench::new();
    t.call(
        "first",
        "u",
        &[],
        &[StridedBox::contiguous(t.a, 0, 100)],
        &[],
    )
    .unwrap();
    check(
        t.call("sum", "u", &all(t.a), &[], &[]),
        FaultKind::Uninitialised,
        "`sum` reads bytes 100..256 of a, which nothing has written",
    );
}

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

#[test]
fn buffers_after_and_before_their_release() {
    let mut t = Bench::new();
    let site = t.m.site("memref.dealloc", "");
    let done = t.load("load a", t.a, &[]).unwrap();
    check(
        t.m.dealloc(t.a, site),
        FaultKind::FreedInUse,
        "`memref.dealloc` releases a, which `load a` on @load may still use: nothing waited for it\
         \n  note: `load a` started here",
    );
    t.wait(&[done]).unwrap();
    t.m.dealloc(t.a, site).unwrap();
    check(
        t.call("sum", "u", &all(t.a), &[], &[]),
        FaultKind::UseAfterFree,
        "`sum` uses a after its release\n  note: released by `memref.dealloc`",
    );
    assert_eq!(
        t.m.dealloc(t.a, site).unwrap_err().kind,
        FaultKind::UseAfterFree
    );
    assert!(t.m.memory().bytes(t.a).is_err());
    // The next buffer takes the place, without the old data.
    let spm = t.m.space("spm").unwrap();
    let c = t.m.alloc(spm, Alloc::new("c", 256, site)).unwrap();
    assert_eq!(
        t.m.thread_read(site, &all(c)[0]).unwrap_err().kind,
        FaultKind::Uninitialised
    );
}

#[test]
fn a_full_space_says_who_holds_it() {
    let mut t = Bench::new();
    let (site, spm) = (
        t.m.site("memref.alloc", "f.tir:9:2"),
        t.m.space("spm").unwrap(),
    );
    check(
        t.m.alloc(spm, Alloc::new("c", 600, site)),
        FaultKind::OutOfSpace,
        "`memref.alloc` (f.tir:9:2) asks for 600 bytes in @spm for c: 512 of 1024 are held and no gap is large enough\
         \n  note: a holds 256 bytes at 0\n  note: b holds 256 bytes at 256",
    );
    t.m.dealloc(t.a, site).unwrap();
    t.m.alloc(spm, Alloc::new("c", 300, site)).unwrap();
    let d = t.m.alloc(spm, Alloc::new("d", 10, site)).unwrap();
    assert_eq!(t.m.report().spaces[1].peak_extent, 256 + 256 + 300);
    t.m.thread_write(site, &StridedBox::contiguous(d, 0, 10))
        .unwrap();
    let beyond = t.m.thread_write(site, &StridedBox::contiguous(d, 0, 11));
    check(
        beyond,
        FaultKind::OutOfBounds,
        "`memref.alloc` (f.tir:9:2) uses bytes 0..11 of d, which has 10",
    );
}

#[test]
fn placements_are_checked() {
    let mut t = Bench::new();
    let (site, spm) = (t.m.site("alloc", ""), t.m.space("spm").unwrap());
    let mut at = |placement, bytes| {
        let want = Alloc {
            placement,
            align: 64,
            ..Alloc::new("c", bytes, site)
        };
        t.m.alloc(spm, want).map_err(|f| f.to_string())
    };
    assert_eq!(
        at(Placement::At(960), 128).unwrap_err(),
        "`alloc` places c in spm: offset 960 and 128 bytes end beyond its 1024"
    );
    assert_eq!(
        at(Placement::At(32), 128).unwrap_err(),
        "`alloc` places c in spm: offset 32 is not a multiple of 64"
    );
    let outer = at(Placement::At(512), 512).unwrap();
    at(Placement::Within(outer, 384), 128).unwrap();
    assert!(at(Placement::Within(outer, 448), 128).is_err());
    assert!(at(Placement::Within(outer, 16), 128).is_err());
    assert!(at(Placement::At(u64::MAX - 63), 128).is_err());
}

/// Two buffers over each other, by offset or as views of one allocation.
fn overlapping(views: bool) -> (Bench, BufferId, BufferId) {
    let mut t = Bench::new();
    let (site, spm) = (t.m.site("alloc", ""), t.m.space("spm").unwrap());
    let outer = t.m.alloc(spm, Alloc::new("arena", 512, site)).unwrap();
    let mut place = |name, offset| {
        let placement = if views {
            Placement::Within(outer, offset)
        } else {
            Placement::At(512 + offset)
        };
        t.m.alloc(
            spm,
            Alloc {
                placement,
                ..Alloc::new(name, 256, site)
            },
        )
        .unwrap()
    };
    let (p, q) = (place("p", 0), place("q", 192));
    (t, p, q)
}

#[test]
fn clobbered_bytes_are_found_where_they_are_used() {
    for views in [false, true] {
        let (mut t, p, q) = overlapping(views);
        let first = t.load("load p", p, &[]).unwrap();
        let second = t.load("load q", q, &[first]).unwrap();
        t.call(
            "head",
            "u",
            &[StridedBox::contiguous(p, 0, 192)],
            &[],
            &[second],
        )
        .unwrap();
        let fault = t.call("sum", "u", &all(p), &[], &[second]).unwrap_err();
        assert_eq!(fault.kind, FaultKind::Overlap);
        assert_eq!(
            fault.message,
            "`sum` reads bytes 192..256 of p, which hold data of q: `load q` wrote them"
        );
        assert_eq!(fault.notes[0].text, "`load q` wrote q over p");
        assert!(
            fault.notes[1]
                .text
                .ends_with("p and q lie at addresses 704..768 of @spm"),
            "{fault}"
        );
    }
}

#[test]
fn sharing_addresses_in_turn_is_allowed() {
    for views in [false, true] {
        let (mut t, p, q) = overlapping(views);
        let mut last = t.m.ready();
        for _ in 0..3 {
            for buffer in [p, q] {
                let loaded = t.load("load", buffer, &[last]).unwrap();
                last = t.call("sum", "u", &all(buffer), &[], &[loaded]).unwrap();
            }
        }
        // Without the token the second load is a race even though the buffers differ.
        t.load("load", p, &[last]).unwrap();
        t.call(
            "sum",
            "u",
            &[StridedBox::contiguous(p, 200, 4)],
            &[],
            &[t.m.mark(t.m.queue("load").unwrap())],
        )
        .unwrap();
        let fault = t.load("load", q, &[]).unwrap_err();
        assert_eq!(fault.kind, FaultKind::Race);
        assert!(fault.message.contains("writes bytes 8..12 of q"), "{fault}");
    }
}

#[test]
fn engines_share_a_space() {
    let mut slow = spec();
    slow.spaces[0].bytes_per_cycle = 12;
    for (spec, cycles, shared) in [(spec(), 42, 0), (slow, 58, 16)] {
        let mut t = Bench::of(spec);
        let (site, dram) = (t.m.site("store", ""), t.m.space("dram").unwrap());
        let y = t.m.alloc(dram, Alloc::new("y", 256, site)).unwrap();
        t.m.thread_write(site, &all(t.b)[0]).unwrap();
        let loaded = t.load("load", t.a, &[]).unwrap();
        let (reads, writes) = (all(t.b), all(y));
        let work = Work {
            reads: &reads,
            writes: &writes,
            ..Work::new(
                site,
                Cost::Transfer {
                    bytes: 256,
                    rows: 1,
                },
            )
        };
        let stored =
            t.m.start(t.m.queue("store").unwrap(), &work, |_| Ok(()))
                .unwrap();
        t.wait(&[loaded, stored]).unwrap();
        t.finish().unwrap();
        let r = t.m.report();
        // At 12 a cycle the load takes 8 for 32 cycles and leaves 4: 128 bytes; then 16 cycles more.
        assert_eq!((r.cycles, r.queues[1].shared), (cycles, shared), "{r}");
    }
}

#[test]
fn short_rows_cost_a_granule() {
    for (granule, cycles) in [(1, 32), (4, 32), (64, 512)] {
        let mut s = spec();
        s.engines[0].granule = granule;
        let mut t = Bench::of(s);
        let load = t.m.queue("load").unwrap();
        let from = StridedBox::new(t.x, 0, &[(8, 4), (8, 32)], 4);
        let to = StridedBox::new(t.a, 0, &[(8, 32), (8, 4)], 4);
        let cost = t.m.transfer_cost(load, &from, &to).unwrap();
        assert_eq!(
            cost,
            Cost::Transfer {
                bytes: 256,
                rows: 64
            }
        );
        let work = Work::new(t.m.site("load", ""), cost);
        let done = t.m.start(load, &work, |_| Ok(())).unwrap();
        t.wait(&[done]).unwrap();
        assert_eq!(t.m.now(), 10 + cycles);
    }
}

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

#[test]
fn durations_may_be_absurd() {
    let mut t = Bench::new();
    let site = t.m.site("call", "");
    for cost in [
        Cost::Cycles(u64::MAX),
        Cost::Cycles(u64::MAX),
        Cost::Transfer {
            bytes: u64::MAX,
            rows: 3,
        },
    ] {
        let queue = if matches!(cost, Cost::Cycles(_)) {
            "v"
        } else {
            "load"
        };
        t.m.start(
            t.m.queue(queue).unwrap(),
            &Work {
                macs: u64::MAX,
                ..Work::new(site, cost)
            },
            |_| Ok(()),
        )
        .unwrap();
    }
    assert_eq!(t.m.report().cycles, u64::MAX);
    assert!(
        t.m.thread_read(
            site,
            &StridedBox::new(t.a, i64::MAX, &[(i64::MAX, i64::MAX); 9], 4)
        )
        .is_err()
    );
    assert!(
        t.m.thread_read(site, &StridedBox::new(t.a, 0, &[(2, -4)], 4))
            .is_err()
    );
    t.m.thread_read(site, &StridedBox::new(t.a, 999, &[(0, 4)], 4))
        .unwrap();
}

/// Two units on a space of two banks with one port each, and two buffers in each bank.
fn banked(ports: u64) -> (Machine<'static>, [BufferId; 4]) {
    let spec = MachineSpec {
        spaces: vec![
            SpaceSpec::new("dram", 1 << 16, 64, 16),
            SpaceSpec {
                banks: 2,
                ports,
                ..SpaceSpec::new("spm", 1024, 64, 64)
            },
        ],
        engines: vec![EngineSpec::new("load", "dram", "spm", 8, 20)],
        units: vec![UnitSpec::new("u", 4), UnitSpec::new("v", 4)],
        ..MachineSpec::default()
    };
    let mut m = Machine::new(spec, Options::default()).unwrap();
    let (site, spm) = (m.site("alloc", ""), m.space("spm").unwrap());
    let buffers = [0, 64, 512, 576].map(|address| {
        let want = Alloc {
            placement: Placement::At(address),
            ..Alloc::new("b", 64, site)
        };
        m.alloc(spm, want).unwrap()
    });
    for buffer in buffers {
        m.init(buffer, site, &[1; 64]).unwrap();
    }
    (m, buffers)
}

/// Starts a call of 100 cycles that reads these; gives its queue's account.
fn reading(m: &mut Machine<'static>, unit: &str, read: &[BufferId]) -> QueueReport {
    let site = m.site(unit, "");
    let reads: Vec<StridedBox> = read
        .iter()
        .map(|b| StridedBox::contiguous(*b, 0, 64))
        .collect();
    let work = Work {
        reads: &reads,
        ..Work::new(site, Cost::Cycles(100))
    };
    m.start(m.queue(unit).unwrap(), &work, |_| Ok(())).unwrap();
    let report = m.report();
    let found = report.queues.iter().find(|q| q.name == unit);
    found.unwrap().clone()
}

#[test]
fn operands_in_one_bank_take_turns() {
    let (mut m, [a, b, c, d]) = banked(1);
    // Both operands in one bank: twice as long.
    let u = reading(&mut m, "u", &[a, b]);
    assert_eq!((u.busy, u.stall, u.conflict), (200, 0, 100));
    // The other bank is free at once, the first one when that call has ended.
    let v = reading(&mut m, "v", &[c]);
    assert_eq!((v.busy, v.conflict, m.report().cycles), (100, 0, 200));
    let v = reading(&mut m, "v", &[b, d]);
    assert_eq!((v.busy, v.stall, v.conflict), (200, 0, 100));
    assert_eq!((m.report().cycles, v.idle), (300, 0));
}

#[test]
fn a_bank_with_two_ports_serves_two() {
    let (mut m, [a, b, c, _]) = banked(2);
    let u = reading(&mut m, "u", &[a, b]);
    assert_eq!((u.busy, u.conflict), (100, 0));
    let v = reading(&mut m, "v", &[a, c]);
    assert_eq!((v.busy, v.conflict, m.report().cycles), (100, 100, 200));
}

#[test]
fn a_transfer_takes_a_port_for_all_of_its_rows() {
    let (mut m, [a, b, c, _]) = banked(1);
    let (site, dram) = (m.site("load", ""), m.space("dram").unwrap());
    let x = m.alloc(dram, Alloc::new("x", 256, site)).unwrap();
    m.init(x, site, &[3; 256]).unwrap();
    let u = reading(&mut m, "u", &[b]);
    assert_eq!(u.conflict, 0);
    let load = m.queue("load").unwrap();
    for (to, conflict) in [(c, 0), (a, 72)] {
        let from = StridedBox::new(x, 0, &[(4, 32), (2, 8)], 8);
        let to = StridedBox::new(to, 0, &[(4, 16), (2, 8)], 8);
        let cost = m.transfer_cost(load, &from, &to).unwrap();
        let (reads, writes) = ([from], [to]);
        let work = Work {
            reads: &reads,
            writes: &writes,
            ..Work::new(site, cost)
        };
        m.start(load, &work, |_| Ok(())).unwrap();
        assert_eq!(m.report().queues[0].conflict, conflict);
    }
    assert_eq!(m.report().cycles, 128);
}
