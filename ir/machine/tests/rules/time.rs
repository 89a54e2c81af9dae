//! What takes how long: shared spaces, rows, banks and ports.

use tir_machine::*;

use crate::bench::{Bench, all, spec};

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
