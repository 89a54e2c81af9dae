//! Random programs with ops of a dialect from outside: fixed-point numbers beside floats that stand for them.
//!
//! A float that is off by its last bit may be rounded to another fixed-point number. So floats are computed of few bits
//! only: of numbers of at most 8 bits, in sums of which f32 holds every bit. Then all orders of a sum give the same bits.

use tir_data::Random;

use crate::program::{Program, below, pick};

/// Kinds of numbers: the type, and the bits behind the point.
const POINTS: [(&str, usize); 4] = [
    ("!fixed.point<8, 4>", 4),
    ("!fixed.point<4, 2>", 2),
    ("!fixed.point<6, 5>", 5),
    ("!fixed.point<8, 6>", 6),
];

/// Sums of products of them, by the bits behind the point.
const SUMS: [&str; 13] = [
    "!fixed.point<32, 0>",
    "!fixed.point<32, 1>",
    "!fixed.point<32, 2>",
    "!fixed.point<32, 3>",
    "!fixed.point<32, 4>",
    "!fixed.point<32, 5>",
    "!fixed.point<32, 6>",
    "!fixed.point<32, 7>",
    "!fixed.point<32, 8>",
    "!fixed.point<32, 9>",
    "!fixed.point<32, 10>",
    "!fixed.point<32, 11>",
    "!fixed.point<32, 12>",
];

/// A program that grows: of each value, what is computed last is a float of few bits.
struct Fixed {
    program: Program,
    random: Random,
}

/// The program of a seed, of so many steps.
pub(crate) fn program(seed: u64, steps: usize) -> Program {
    let mut fixed = Fixed {
        program: Program::empty(false),
        random: Random::new(seed ^ 0x6669_7865),
    };
    let shape = match seed % 3 {
        0 => [&[1, 2, 5][..], &[3, 5, 16], &[5, 8], &[5, 9]]
            .map(|all| fixed.pick(all))
            .to_vec(),
        _ => [&[1, 3, 16, 17][..], &[2, 5, 16, 33]]
            .map(|all| fixed.pick(all))
            .to_vec(),
    };
    let mut x = fixed.program.argument(shape);
    for _ in 0..steps {
        x = fixed.step(x);
    }
    if below(&mut fixed.random, 3) == 0 {
        let last = fixed.program.shape(x).len() - 1;
        let shape = fixed.program.shape(x).to_vec();
        let text = format!("graph.softmax $0 {{axis = {last}}} : (#0) -> #r");
        fixed.op("f32", &text, &[x], shape);
    }
    let Fixed {
        mut program,
        mut random,
    } = fixed;
    program.close(&mut random);
    program
}

impl Fixed {
    fn pick(&mut self, all: &[i64]) -> i64 {
        *pick(&mut self.random, all)
    }
    fn op(&mut self, elem: &'static str, text: &str, operands: &[usize], shape: Vec<i64>) -> usize {
        self.program.op_of(elem, text, operands, shape)
    }
    /// A value rounded to numbers of some kind, and the bits behind their point.
    fn rounded(&mut self, x: usize) -> (usize, usize) {
        let (elem, fraction) = *pick(&mut self.random, &POINTS);
        let shape = self.program.shape(x).to_vec();
        (
            self.op(elem, "fixed.quantize $0 : #0 to #r", &[x], shape),
            fraction,
        )
    }
    fn float(&mut self, q: usize) -> usize {
        let shape = self.program.shape(q).to_vec();
        self.op("f32", "fixed.dequantize $0 : #0", &[q], shape)
    }
    /// A value as a float of few bits.
    fn few(&mut self, x: usize) -> usize {
        let (q, _) = self.rounded(x);
        self.float(q)
    }
    /// A new argument as a float of few bits.
    fn fresh(&mut self, shape: Vec<i64>) -> usize {
        let x = self.program.argument(shape);
        self.few(x)
    }

    fn step(&mut self, x: usize) -> usize {
        let shape = self.program.shape(x).to_vec();
        match (below(&mut self.random, 6), &shape[..]) {
            (0, _) => {
                let x = self.few(x);
                let y = self.fresh(shape.clone());
                let name = *pick(&mut self.random, &["add", "sub", "mul", "max", "min"]);
                self.op(
                    "f32",
                    &format!("graph.{name} $0, $1 : (#0, #1) -> #r"),
                    &[x, y],
                    shape,
                )
            }
            (1, _) => {
                let name = *pick(&mut self.random, &["relu", "abs", "neg"]);
                self.op("f32", &format!("graph.{name} $0 : #r"), &[x], shape)
            }
            // Read in another order by what comes next.
            (2, [m, k]) => {
                let shape = vec![*k, *m];
                self.op("f32", "graph.transpose $0 [1, 0] : (#0) -> #r", &[x], shape)
            }
            (3, &[m, k]) => {
                let x = self.few(x);
                let n = self.pick(&[1, 5, 16]);
                let w = self.fresh(vec![k, n]);
                self.op(
                    "f32",
                    "graph.matmul $0, $1 : (#0, #1) -> #r",
                    &[x, w],
                    vec![m, n],
                )
            }
            (_, &[m, k]) => self.product(x, m, k),
            (2 | 3, &[n, c, h, w]) => {
                let (x, out) = (self.few(x), self.pick(&[2, 8, 16]));
                let weights = self.fresh(vec![out, c, 3, 3]);
                let text = "graph.conv2d $0, $1 {pads = array<i64: 1, 1, 1, 1>} : (#0, #1) -> #r";
                self.op("f32", text, &[x, weights], vec![n, out, h, w])
            }
            (4, &[n, c, h, w]) => {
                let shape = vec![n, c * h * w];
                self.op("f32", "graph.reshape $0 : #0 to #r", &[x], shape)
            }
            _ => self.few(x),
        }
    }

    /// A product of fixed-point numbers; sometimes of what another reader takes as well.
    fn product(&mut self, x: usize, m: i64, k: i64) -> usize {
        let (a, left) = self.rounded(x);
        let n = self.pick(&[1, 3, 16, 18]);
        let w = self.program.argument(vec![k, n]);
        let (b, right) = self.rounded(w);
        let sum = SUMS[left + right];
        let text = "fixed.matmul $0, $1 : #0, #1";
        let sum = self.op(sum, text, &[a, b], vec![m, n]);
        self.float(sum)
    }
}
