//! A stream as long as a network's: the model must not be what the time goes to.

use std::time::Instant;

use tir_machine::*;

/// Calls on strided tiles, as of a network of 300 million multiply-adds on a 16x16x16 unit.
#[test]
fn seventy_thousand_tile_calls() -> Result<()> {
    let spec = MachineSpec {
        spaces: vec![
            SpaceSpec::new("dram", 1 << 30, 64, 16),
            SpaceSpec::new("spm", 1 << 18, 64, 256),
        ],
        engines: vec![EngineSpec::new("load", "dram", "spm", 8, 64)],
        units: vec![UnitSpec::new("gemm", 16)],
        ..MachineSpec::default()
    };
    let mut m = Machine::new(spec, Options::default())?;
    let site = m.site("accel.call @gemm16", "");
    let (dram, spm) = (m.space("dram").unwrap(), m.space("spm").unwrap());
    let (load, gemm) = (m.queue("load").unwrap(), m.queue("gemm").unwrap());
    let weights = m.alloc(dram, Alloc::new("weights", 16 << 20, site))?;
    m.init(weights, site, &vec![0; 16 << 20])?;
    let [a, b, c] = ["a", "b", "c"].map(|name| m.alloc(spm, Alloc::new(name, 1 << 16, site)));
    let (a, b, c) = (a?, b?, c?);
    let tile = |buffer, n: i64| StridedBox::new(buffer, n % 16 * 64, &[(16, 1024), (16, 4)], 4);
    for buffer in [a, c] {
        m.thread_write(site, &StridedBox::contiguous(buffer, 0, 1 << 16))?;
    }
    let begin = Instant::now();
    let mut free = m.ready();
    for block in 0..1100 {
        let (from, to) = (
            StridedBox::contiguous(weights, (block % 256) << 16, 1 << 16),
            StridedBox::contiguous(b, 0, 1 << 16),
        );
        let (reads, writes) = ([from.clone()], [to.clone()]);
        let cost = m.transfer_cost(load, &from, &to)?;
        let work = Work {
            reads: &reads,
            writes: &writes,
            after: &[free],
            ..Work::new(site, cost)
        };
        let loaded = m.start(load, &work, |_| Ok(()))?;
        for n in 0..64 {
            let (reads, writes) = (
                [tile(c, n / 8), tile(a, n % 8), tile(b, n)],
                [tile(c, n / 8)],
            );
            let work = Work {
                reads: &reads,
                writes: &writes,
                after: &[loaded],
                macs: 4096,
                ..Work::new(site, Cost::Cycles(16))
            };
            m.start(gemm, &work, |_| Ok(()))?;
        }
        free = m.mark(gemm);
    }
    m.wait(site, &[free])?;
    m.finish(site)?;
    println!(
        "{} calls, {:?}",
        m.report().queues[1].calls,
        begin.elapsed()
    );
    assert_eq!(m.report().queues[1].macs, 1100 * 64 * 4096);
    // About 0.1 s in a release build; the bound only catches a return to a state per byte.
    assert!(begin.elapsed().as_secs() < 30, "{:?}", begin.elapsed());
    Ok(())
}

/// Scalar loops on the thread: what no unit takes.
#[test]
fn a_million_scalar_accesses() -> Result<()> {
    let spec = MachineSpec {
        spaces: vec![SpaceSpec::new("spm", 1 << 18, 64, 256)],
        ..MachineSpec::default()
    };
    let mut m = Machine::new(spec, Options::default())?;
    let (site, spm) = (m.site("memref.store", ""), m.space("spm").unwrap());
    let a = m.alloc(spm, Alloc::new("a", 1 << 16, site))?;
    let begin = Instant::now();
    for i in 0..1_000_000 {
        let at = StridedBox::contiguous(a, i % 16384 * 4, 4);
        m.thread_write(site, &at)?;
        m.thread_read(site, &at)?;
    }
    println!("{:?}", begin.elapsed());
    m.finish(site)
}
