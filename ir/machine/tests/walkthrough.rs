//! A convolution as a double-buffered command stream: its account, its result, and its edges.
//!
//! `relu(conv2d(x, w) + b)` for x 1x16x18x18, w 32x16x3x3, y 1x32x16x16 in f32, on a machine with
//! a 16x16x16 unit, a vector unit and two engines. Rows of x arrive in a ring of four; sums and
//! output rows are doubled; only `after` tokens order the queues.

use tir_machine::*;

const NO_EDGE: usize = 6;

fn machine() -> MachineSpec {
    let engine = |name: &str, from: &str, to: &str| EngineSpec {
        granule: 4,
        square: 0,
        ..EngineSpec::new(name, from, to, 8, 64)
    };
    MachineSpec {
        name: "npu".into(),
        clock_mhz: 1000,
        in_order: false,
        spaces: vec![
            SpaceSpec::new("dram", 1 << 30, 64, 16),
            SpaceSpec::new("spm", 32768, 64, 256),
        ],
        engines: vec![
            engine("load", "dram", "spm"),
            engine("store", "spm", "dram"),
        ],
        units: vec![UnitSpec::new("gemm", 16), UnitSpec::new("vector", 16)],
    }
}

fn noise(n: usize, seed: u64) -> Vec<f32> {
    let array = tir_data::Array::random(tir_data::DType::F32, &[n], seed);
    array.unwrap().as_slice::<f32>().unwrap().to_vec()
}

fn bytes(x: &[f32]) -> Vec<u8> {
    x.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// Where the nine near buffers lie.
#[derive(Clone, Copy, PartialEq)]
enum Plan {
    /// Nine allocations.
    Free,
    /// Nine placements in the space.
    Placed,
    /// Nine views of one allocation.
    Views,
    /// As `Placed`, with r1 over the end of r0.
    Overlapping,
}

/// How the stream is run.
#[derive(Clone, Copy)]
struct Mode {
    /// The thread waits for each start.
    wait_each: bool,
    /// The `after` edge left out.
    dropped: usize,
    plan: Plan,
    options: Options,
}

const DOUBLE: Mode = Mode {
    wait_each: false,
    dropped: NO_EDGE,
    plan: Plan::Placed,
    options: Options {
        track: true,
        trace: false,
        data: true,
        host_limit: 1 << 30,
    },
};

struct Stream<'p> {
    m: Machine<'p>,
    mode: Mode,
}

impl Stream<'_> {
    fn after(&self, edge: usize, t: Token) -> Token {
        if edge == self.mode.dropped {
            self.m.ready()
        } else {
            t
        }
    }

    fn go(
        &mut self,
        queue: &str,
        work: Work,
        run: impl FnOnce(&mut Memory) -> std::result::Result<(), String> + 'static,
    ) -> Result<Token> {
        let q = self.m.queue(queue).unwrap();
        let t = self.m.start(q, &work, run)?;
        if self.mode.wait_each {
            self.m.wait(work.site, &[t])?;
        }
        Ok(t)
    }

    fn dma(
        &mut self,
        queue: &str,
        site: Site,
        from: StridedBox,
        to: StridedBox,
        after: &[Token],
    ) -> Result<Token> {
        let cost = self
            .m
            .transfer_cost(self.m.queue(queue).unwrap(), &from, &to)?;
        let cause = Some(self.m.label("compulsory"));
        let (reads, writes) = ([from.clone()], [to.clone()]);
        let work = Work {
            reads: &reads,
            writes: &writes,
            after,
            cause,
            ..Work::new(site, cost)
        };
        self.go(queue, work, move |memory| memory.copy(&from, &to))
    }
}

fn run(mode: Mode) -> Result<(Report, Vec<f32>, Vec<Event>)> {
    let mut s = Stream {
        m: Machine::new(machine(), mode.options)?,
        mode,
    };
    let (x, w, b) = (noise(16 * 324, 1), noise(32 * 144, 2), noise(32, 3));
    // Weights in the layout O I kh kw 16i 16o.
    let mut packed = vec![0.0; w.len()];
    for (i, v) in w.iter().enumerate() {
        let (o, c, k) = (i / 144, i / 9 % 16, i % 9);
        packed[(((o / 16) * 9 + k) * 16 + c) * 16 + o % 16] = *v;
    }

    let host = s.m.site("func.func @f", "");
    let dram = s.m.space("dram").unwrap();
    let spm = s.m.space("spm").unwrap();
    let mut outside = |name: &str, bytes: u64| s.m.alloc(dram, Alloc::new(name, bytes, host));
    let (xd, wd, bd, yd) = (
        outside("x", 20736)?,
        outside("w", 18432)?,
        outside("b", 128)?,
        outside("y", 32768)?,
    );
    s.m.init(xd, host, &bytes(&x))?;
    s.m.init(wd, host, &bytes(&packed))?;
    s.m.init(bd, host, &bytes(&b))?;

    let near = s.m.site("memref.alloc", "");
    let sizes = [
        ("ws", 18432, 0),
        ("r0", 1152, 18432),
        ("r1", 1152, 19584),
        ("r2", 1152, 20736),
        ("r3", 1152, 21888),
        ("acc", 2048, 23040),
        ("o0", 2048, 25088),
        ("o1", 2048, 27136),
        ("bs", 128, 29184),
    ];
    let arena = match mode.plan {
        Plan::Views => Some(s.m.alloc(spm, Alloc::new("arena", 29312, near))?),
        _ => None,
    };
    let mut ids = Vec::new();
    for (name, bytes, offset) in sizes {
        let placement = match (mode.plan, arena) {
            (Plan::Views, Some(arena)) => Placement::Within(arena, offset),
            (Plan::Placed, _) => Placement::At(offset),
            (Plan::Overlapping, _) => {
                Placement::At(if name == "r1" { offset - 64 } else { offset })
            }
            _ => Placement::Anywhere,
        };
        ids.push(s.m.alloc(
            spm,
            Alloc {
                placement,
                align: 64,
                ..Alloc::new(name, bytes, near)
            },
        )?);
    }
    let [ws, r0, r1, r2, r3, acc, o0, o1, bs] = ids[..] else {
        unreachable!()
    };

    let load_w = s.m.site("accel.dma_start @load", "w");
    let load_b = s.m.site("accel.dma_start @load", "b");
    let load_x = s.m.site("accel.dma_start @load", "row");
    let store = s.m.site("accel.dma_start @store", "row");
    let clear = s.m.site("accel.call @clear16", "");
    let gemm = s.m.site("accel.call @gemm16", "");
    let relu = s.m.site("accel.call @bias_relu16", "");
    let wait = s.m.site("accel.dma_wait", "");
    let (lc, lg, lv) = (
        s.m.label("clear16"),
        s.m.label("gemm16"),
        s.m.label("bias_relu16"),
    );
    let (gemms, vectors) = (s.m.queue("gemm").unwrap(), s.m.queue("vector").unwrap());

    // Row h of x as (w, c), and a slot of the ring.
    let row = |h: i64| StridedBox::new(xd, h * 72, &[(18, 4), (16, 1296)], 4);
    let slot = |r: BufferId| StridedBox::new(r, 0, &[(18, 64), (16, 4)], 4);

    let n = s.m.ready();
    let tw = s.dma(
        "load",
        load_w,
        StridedBox::contiguous(wd, 0, 18432),
        StridedBox::contiguous(ws, 0, 18432),
        &[],
    )?;
    let tb = s.dma(
        "load",
        load_b,
        StridedBox::contiguous(bd, 0, 128),
        StridedBox::contiguous(bs, 0, 128),
        &[],
    )?;
    s.dma("load", load_x, row(0), slot(r0), &[])?;
    s.dma("load", load_x, row(1), slot(r1), &[])?;
    let t2 = s.dma("load", load_x, row(2), slot(r2), &[])?;
    s.m.wait(wait, &[tw, tb])?;

    let mut ring = [r0, r1, r2, r3];
    let (mut out, mut tr, mut tg) = ([o0, o1], t2, n);
    let (mut v, mut stores) = ([n, n], [n, n]);
    for h in 0..16 {
        let mut next = n;
        if h < 15 {
            let after = [s.after(0, tg)];
            next = s.dma("load", load_x, row(h + 3), slot(ring[3]), &after)?;
        }
        for p in 0..2i64 {
            let c = StridedBox::contiguous(acc, p * 1024, 1024);
            let (after, writes) = ([s.after(1, v[0])], [c.clone()]);
            let work = Work {
                writes: &writes,
                after: &after,
                label: Some(lc),
                overhead: true,
                ..Work::new(clear, Cost::Cycles(16))
            };
            let cc = c.clone();
            s.go("gemm", work, move |m| m.fill(&cc, &[0; 4]))?;
            for (k, r) in [
                (0, 0),
                (0, 1),
                (0, 2),
                (1, 0),
                (1, 1),
                (1, 2),
                (2, 0),
                (2, 1),
                (2, 2),
            ] {
                let (kh, kw) = (k, r);
                let a = StridedBox::contiguous(ring[kh as usize], kw * 64, 1024);
                let g = StridedBox::contiguous(ws, ((p * 3 + kh) * 3 + kw) * 1024, 1024);
                let (reads, writes) = ([c.clone(), a.clone(), g.clone()], [c.clone()]);
                let after = [s.after(2, tr)];
                let work = Work {
                    reads: &reads,
                    writes: &writes,
                    after: &after,
                    label: Some(lg),
                    macs: 4096,
                    ..Work::new(gemm, Cost::Cycles(16))
                };
                let operands = reads.clone();
                s.go("gemm", work, move |m| gemm16(m, &operands))?;
            }
            let sums = s.m.mark(gemms);
            let (bp, d) = (
                StridedBox::contiguous(bs, p * 64, 64),
                StridedBox::contiguous(out[0], p * 1024, 1024),
            );
            let (reads, writes) = ([c, bp], [d.clone()]);
            let after = [s.after(3, sums), s.after(4, stores[0])];
            let cost = Cost::Cycles(16);
            let work = Work {
                reads: &reads,
                writes: &writes,
                after: &after,
                label: Some(lv),
                ..Work::new(relu, cost)
            };
            let operands = reads.clone();
            s.go("vector", work, move |m| bias_relu16(m, &operands, &d))?;
            v = [v[1], s.m.mark(vectors)];
        }
        tg = s.m.mark(gemms);
        // 2x16x16 (p, w, q) to y[p * 16 + q, h, w].
        let from = StridedBox::new(out[0], 0, &[(2, 1024), (16, 64), (16, 4)], 4);
        let to = StridedBox::new(yd, h * 64, &[(2, 16384), (16, 4), (16, 1024)], 4);
        let after = [s.after(5, v[1])];
        let st = s.dma("store", store, from, to, &after)?;
        ring.rotate_left(1);
        out.rotate_left(1);
        (tr, stores) = (next, [stores[1], st]);
    }
    s.m.wait(wait, &stores)?;
    for id in ids {
        s.m.dealloc(id, near)?;
    }
    s.m.finish(host)?;
    s.m.thread_read(host, &StridedBox::contiguous(yd, 0, 32768))?;
    let mut y = vec![0.0; 8192];
    load_f32(s.m.memory(), &StridedBox::contiguous(yd, 0, 32768), &mut y).unwrap();
    if mode.options.trace {
        let text = chrome_trace(&s.m);
        assert!(text.starts_with('{') && text.ends_with("}\n"));
        assert_eq!(text.matches("\"ph\":\"X\"").count(), s.m.events().len());
    }
    Ok((s.m.report(), y, s.m.events().to_vec()))
}

fn load_f32(m: &Memory, from: &StridedBox, out: &mut [f32]) -> std::result::Result<(), String> {
    let bytes = m.load(from)?;
    assert_eq!(bytes.len(), out.len() * 4);
    for (x, b) in out.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *x = f32::from_le_bytes(*b);
    }
    Ok(())
}

fn store_f32(m: &mut Memory, to: &StridedBox, data: &[f32]) -> std::result::Result<(), String> {
    let bytes: Vec<u8> = data.iter().flat_map(|x| x.to_le_bytes()).collect();
    m.store(to, &bytes)
}

fn gemm16(m: &mut Memory, operands: &[StridedBox; 3]) -> std::result::Result<(), String> {
    let mut t = [[0f32; 256]; 3];
    for (t, a) in t.iter_mut().zip(operands) {
        load_f32(m, a, t)?;
    }
    let [mut c, a, b] = t;
    for i in 0..16 {
        for k in 0..16 {
            for j in 0..16 {
                c[i * 16 + j] += a[i * 16 + k] * b[k * 16 + j];
            }
        }
    }
    store_f32(m, &operands[0], &c)
}

fn bias_relu16(
    m: &mut Memory,
    operands: &[StridedBox; 2],
    out: &StridedBox,
) -> std::result::Result<(), String> {
    let (mut c, mut b) = ([0f32; 256], [0f32; 16]);
    load_f32(m, &operands[0], &mut c)?;
    load_f32(m, &operands[1], &mut b)?;
    c.iter_mut()
        .enumerate()
        .for_each(|(i, v)| *v = (*v + b[i % 16]).max(0.0));
    store_f32(m, out, &c)
}

/// The same sums in the same order.
fn naive() -> Vec<f32> {
    let (x, w, b) = (noise(16 * 324, 1), noise(32 * 144, 2), noise(32, 3));
    let mut y = vec![0.0; 8192];
    for (at, y) in y.iter_mut().enumerate() {
        let (o, h, q) = (at / 256, at / 16 % 16, at % 16);
        let mut sum = 0f32;
        for (kh, kw) in (0..9).map(|k| (k / 3, k % 3)) {
            for c in 0..16 {
                sum += x[c * 324 + (h + kh) * 18 + q + kw] * w[o * 144 + c * 9 + kh * 3 + kw];
            }
        }
        *y = (sum + b[o]).max(0.0);
    }
    y
}

fn queue<'r>(r: &'r Report, name: &str) -> &'r QueueReport {
    r.queues.iter().find(|q| q.name == name).unwrap()
}

#[test]
fn the_account_comes_out() {
    let (r, y, _) = run(DOUBLE).unwrap();
    assert_eq!(y, naive());
    assert_eq!(r.cycles, 8512, "{r}");
    let busy = ["gemm", "vector", "load", "store"].map(|q| queue(&r, q).busy);
    assert_eq!(busy, [5120, 512, 6192, 5120]);
    let calls: Vec<_> = r
        .labels
        .iter()
        .map(|l| (l.name.as_str(), l.calls, l.macs))
        .collect();
    assert_eq!(
        calls,
        [
            ("clear16", 32, 0),
            ("gemm16", 288, 1_179_648),
            ("bias_relu16", 32, 0)
        ]
    );
    assert_eq!(
        (queue(&r, "load").bytes, queue(&r, "load").calls),
        (39296, 20)
    );
    assert_eq!(
        (queue(&r, "store").bytes, queue(&r, "store").calls),
        (32768, 16)
    );
    assert_eq!((r.causes[0].bytes, r.causes[1].bytes), (39296, 32768));
    let bounds: Vec<_> = r
        .bounds
        .iter()
        .map(|b| (b.name.as_str(), b.cycles))
        .collect();
    assert_eq!(
        bounds[..5],
        [
            ("load", 4912),
            ("store", 4096),
            ("gemm", 4608),
            ("vector", 512),
            ("dram", 4504)
        ]
    );
    assert_eq!(r.roofline(), 4912);
    assert!(
        r.queues
            .iter()
            .all(|q| q.shared == 0 && q.busy + q.stall + q.idle == 8512)
    );
    assert_eq!(
        (r.spaces[1].peak_live, r.spaces[1].peak_extent),
        (29312, 29312)
    );
}

#[test]
fn waiting_for_each_start_costs_the_sum() {
    let (r, y, _) = run(Mode {
        wait_each: true,
        ..DOUBLE
    })
    .unwrap();
    assert_eq!((r.cycles, y), (16944, naive()));
    assert_eq!(r.thread.waiting, 16944);
}

#[test]
fn each_edge_is_needed() {
    for dropped in 0..6 {
        let fault = run(Mode { dropped, ..DOUBLE }).unwrap_err();
        assert_eq!(fault.kind, FaultKind::Race, "edge {dropped}: {fault}");
        let names: Vec<_> = ["load", "store", "clear16", "gemm16", "bias_relu16"]
            .into_iter()
            .filter(|n| fault.message.contains(&format!("@{n}`")))
            .collect();
        let want = [
            ["load", "gemm16"],
            ["clear16", "bias_relu16"],
            ["load", "gemm16"],
            ["gemm16", "bias_relu16"],
            ["store", "bias_relu16"],
            ["store", "bias_relu16"],
        ];
        assert_eq!(names, want[dropped], "edge {dropped}: {fault}");
    }
}

#[test]
fn every_way_of_placing_gives_the_same() {
    let want = run(DOUBLE).unwrap();
    for plan in [Plan::Free, Plan::Views] {
        let got = run(Mode { plan, ..DOUBLE }).unwrap();
        assert_eq!((got.0.cycles, &got.1), (want.0.cycles, &want.1));
        assert_eq!(got.0.spaces[1].peak_extent, 29312);
    }
}

#[test]
fn an_overlapping_plan_is_found() {
    let fault = run(Mode {
        plan: Plan::Overlapping,
        ..DOUBLE
    })
    .unwrap_err();
    // The tail of r0 and the head of r1 share 64 bytes: row 1 arrives over row 0.
    assert_eq!(fault.kind, FaultKind::Overlap);
    assert!(
        fault.message.contains("of r0, which hold data of r1"),
        "{fault}"
    );
    assert!(
        fault.message.contains("@gemm16") && fault.message.contains("@load"),
        "{fault}"
    );
}

#[test]
fn without_tracking_time_and_numbers_are_the_same() {
    let options = Options {
        track: false,
        trace: true,
        ..DOUBLE.options
    };
    let (r, y, events) = run(Mode { options, ..DOUBLE }).unwrap();
    assert_eq!((r.cycles, y), (8512, naive()));
    let waits = events.iter().filter(|e| e.queue.is_none()).count();
    assert_eq!(events.len() - waits, 288 + 32 + 32 + 20 + 16);
}
