//! A small machine and what the tests do with it.

use tir_machine::*;

/// A machine with two units and an engine each way, and what the tests do with it.
pub(crate) struct Bench {
    pub(crate) m: Machine<'static>,
    pub(crate) x: BufferId,
    pub(crate) a: BufferId,
    pub(crate) b: BufferId,
}

pub(crate) fn spec() -> MachineSpec {
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
    pub(crate) fn new() -> Bench {
        Bench::of(spec())
    }

    pub(crate) fn of(spec: MachineSpec) -> Bench {
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
    pub(crate) fn load(&mut self, op: &str, to: BufferId, after: &[Token]) -> Result<Token> {
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
    pub(crate) fn call(
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
    pub(crate) fn tick(
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

    pub(crate) fn wait(&mut self, tokens: &[Token]) -> Result<()> {
        let site = self.m.site("wait", "");
        self.m.wait(site, tokens)
    }

    pub(crate) fn finish(&mut self) -> Result<()> {
        let site = self.m.site("return", "");
        self.m.finish(site)
    }
}

pub(crate) fn all(b: BufferId) -> [StridedBox; 1] {
    [StridedBox::contiguous(b, 0, 256)]
}

#[track_caller]
pub(crate) fn check(fault: Result<impl std::fmt::Debug>, kind: FaultKind, text: &str) {
    let fault = fault.unwrap_err();
    assert_eq!((fault.kind, fault.to_string().as_str()), (kind, text));
}
