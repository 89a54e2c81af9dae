//! Random nests of loops give the same with what is done to straight loops and without; memory
//! of another kind sees every access.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;
use common::*;
use tir::data::{Array, DType, Random};
use tir::interp::{BufferId, Kind, Memory, PlainMemory, Site, View};
use tir::*;

struct Maker {
    random: Random,
    straight: bool,
    memory: Vec<Value>,
}

impl Maker {
    fn pick(&mut self, values: &[Value]) -> Value {
        values[self.random.below(values.len())]
    }
    /// A body with these indices and floats at hand; gives floats to carry on.
    fn body(
        &mut self,
        b: &mut Builder<'_>,
        depth: u32,
        ints: &[Value],
        floats: &[Value],
        carried: usize,
    ) -> Vec<Value> {
        let (mut ints, mut floats) = (ints.to_vec(), floats.to_vec());
        if !self.straight {
            b.add(Nothing {});
        }
        for _ in 0..2 + self.random.below(6) {
            match self.random.below(8) {
                0 => ints.push(b.add(Add {
                    x: self.pick(&ints),
                    y: self.pick(&ints),
                })),
                1 => {
                    let two = index(b, self.random.below(3) as i64);
                    ints.push(b.add(Mul {
                        x: self.pick(&ints),
                        y: two,
                    }));
                }
                2 | 3 => {
                    let (from, at) = (
                        self.pick(&self.memory.clone()),
                        vec![self.pick(&ints), self.pick(&ints)],
                    );
                    floats.push(b.add(Load {
                        from,
                        at,
                        ty: Ret(Type::f32()),
                    }));
                }
                4 => {
                    let (to, at) = (
                        self.pick(&self.memory.clone()),
                        vec![self.pick(&ints), self.pick(&ints)],
                    );
                    b.add(Store {
                        value: self.pick(&floats),
                        to,
                        at,
                    });
                }
                5 => floats.push(b.add(Mul {
                    x: self.pick(&floats),
                    y: self.pick(&floats),
                })),
                6 => floats.push(b.add(Add {
                    x: self.pick(&floats),
                    y: self.pick(&floats),
                })),
                _ if depth > 0 => {
                    let count = self.random.below(3);
                    let init: Vec<Value> = (0..count).map(|_| self.pick(&floats)).collect();
                    let n = [0, 1, 1, 2, 3][self.random.below(5)];
                    let out = repeat(b, n, &init, |b, i, s| {
                        let ints = [&ints[..], &[i]].concat();
                        // What is carried is picked often.
                        let floats = [&floats[..], s, s, s].concat();
                        self.body(b, depth - 1, &ints, &floats, count)
                    });
                    floats.extend(out);
                }
                _ => floats.push(b.add(Sub {
                    x: self.pick(&floats),
                    y: self.pick(&floats),
                })),
            }
        }
        (0..carried).map(|_| self.pick(&floats)).collect()
    }
}

const SIDE: i64 = 40;

fn program(seed: u64, straight: bool) -> Ir {
    let mem = Type::memref([SIDE, SIDE], Type::f32(), None);
    func("f", &[mem, mem], &[Type::f32(); 2], |b, args| {
        let mut maker = Maker {
            random: Random::new(seed),
            straight,
            memory: args.to_vec(),
        };
        let (i, x) = (index(b, 1), f32(b, 0.5));
        let values = maker.body(b, 4, &[i], &[x], 2);
        b.add(Return { values });
    })
}

fn run(f: Ir, seed: u64) -> Result<Vec<u64>, String> {
    let module = module(vec![f]);
    let mut interpreter = Interpreter::new(&module);
    interpreter.env.options.steps = 1_000_000;
    let mut views = Vec::new();
    for k in 0..2 {
        let array = Array::random(DType::F32, &[SIDE as usize; 2], seed + k).unwrap();
        views.push(interpreter.env.array_to_view(&array, None).unwrap());
    }
    let args = views.iter().map(|v| v.clone().into()).collect();
    let out = interpreter
        .run(Name::new("f"), args)
        .map_err(|e| e[0].message.clone())?;
    let mut bits: Vec<u64> = out.iter().map(|d| d.as_scalar().unwrap().bits).collect();
    for view in &views {
        bits.extend(
            interpreter
                .env
                .read_view(view)
                .unwrap()
                .iter()
                .map(|b| u64::from(*b)),
        );
    }
    Ok(bits)
}

#[test]
fn straight_loops_do_what_others_do() {
    let mut ran = 0;
    for seed in 0..3000 {
        let (a, b) = (
            run(program(seed, true), seed),
            run(program(seed, false), seed),
        );
        match (&a, &b) {
            (Ok(_), _) | (_, Ok(_)) => assert_eq!(a, b, "seed {seed}"),
            // Which access is the first to leave its bounds may differ.
            _ => continue,
        }
        ran += 1;
    }
    assert!(ran > 2000, "{ran} programs ran");
}

/// Plain memory that counts.
#[derive(Default)]
struct Counting {
    plain: PlainMemory,
    reads: usize,
    writes: usize,
}
impl Memory for Counting {
    fn alloc(&mut self, want: &interp::Alloc) -> Result<BufferId, Failure> {
        self.plain.alloc(want)
    }
    fn dealloc(&mut self, buffer: BufferId, site: Site) -> Result<(), Failure> {
        self.plain.dealloc(buffer, site)
    }
    fn bytes(&self, buffer: BufferId) -> Result<&[u8], Failure> {
        self.plain.bytes(buffer)
    }
    fn bytes_mut(&mut self, buffer: BufferId) -> Result<&mut [u8], Failure> {
        self.plain.bytes_mut(buffer)
    }
    fn touch(&mut self, view: &View, write: bool, site: Site) -> Result<(), Failure> {
        assert!(site.op.as_str().starts_with("t."));
        let count = if write {
            &mut self.writes
        } else {
            &mut self.reads
        };
        *count += view.elements();
        Ok(())
    }
}

#[test]
fn other_memory_sees_every_access() {
    let module = module(vec![conv([2, 4, 4], [3, 2, 2, 3])]);
    let mut interpreter = Interpreter::new(&module);
    interpreter.env.set_memory(Counting::default());
    let env = &mut interpreter.env;
    let [x, w, y] = [&[2, 4, 4][..], &[3, 2, 2, 3], &[3, 3, 2]]
        .map(|s| env.alloc(Kind::F32, s, 64, None).unwrap());
    let args = vec![x.into(), w.into(), y.into()];
    interpreter.run(Name::new("conv"), args).unwrap();
    let memory = interpreter.env.memory_as::<Counting>().unwrap();
    assert_eq!((memory.reads, memory.writes), (2 * 18 * 12, 18));
}
