//! Random programs of graph ops, and what they compute.

use std::fmt::Write;

use tir::data::Random;
use tir::{Data, Interpreter, Ir, Name};

struct Maker {
    random: Random,
    text: String,
    /// Values: their names and shapes.
    scope: Vec<(String, Vec<u64>)>,
}

impl Maker {
    fn below(&mut self, n: usize) -> usize {
        self.random.below(n)
    }
    /// A value, younger ones more often.
    fn pick(&mut self) -> (String, Vec<u64>) {
        let n = self.scope.len();
        let at = self.below(n).max(self.below(n));
        self.scope[at].clone()
    }
    fn like(&mut self, shape: &[u64]) -> String {
        let same: Vec<String> = self
            .scope
            .iter()
            .filter(|(_, s)| s == shape)
            .map(|(name, _)| name.clone())
            .collect();
        let at = self.below(same.len());
        same[at].clone()
    }
    fn add(&mut self, shape: Vec<u64>, op: &str) {
        let name = format!("%v{}", self.scope.len());
        let _ = writeln!(self.text, "  {name} = {op}");
        self.scope.push((name, shape));
    }

    fn op(&mut self) {
        let (x, shape) = self.pick();
        let ty = ty(&shape);
        match self.below(8) {
            0 => self.add(shape, &format!("graph.relu {x} : {ty}")),
            1 => self.add(shape, &format!("graph.neg {x} : {ty}")),
            2 | 3 => {
                let y = self.like(&shape);
                let name = ["add", "sub", "max", "mul"][self.below(4)];
                // Products of sums grow fast; what is added stays whole.
                let name = if self.scope.len() > 8 && name == "mul" {
                    "min"
                } else {
                    name
                };
                let op = format!("graph.{name} {x}, {y} : ({ty}, {ty}) -> {ty}");
                self.add(shape, &op);
            }
            4 => {
                let turned: Vec<u64> = shape.iter().rev().copied().collect();
                let to = self::ty(&turned);
                self.add(
                    turned,
                    &format!("graph.transpose {x} [1, 0] : ({ty}) -> {to}"),
                );
            }
            5 => {
                let flat = vec![shape[0] * shape[1], 1];
                let to = self::ty(&flat);
                if flat != shape {
                    self.add(flat, &format!("graph.reshape {x} : {ty} to {to}"));
                }
            }
            6 => {
                let y = self.like(&shape);
                let axis = self.below(2);
                let mut joined = shape.clone();
                joined[axis] *= 2;
                let to = self::ty(&joined);
                let op = format!("graph.concat {x}, {y} {{axis = {axis}}} : ({ty}, {ty}) -> {to}");
                if joined[axis] <= 24 {
                    self.add(joined, &op);
                }
            }
            _ => {
                let (y, other) = self.pick();
                if shape[1] == other[0] && self.scope.len() < 12 {
                    let made = vec![shape[0], other[1]];
                    let (from, to) = (self::ty(&other), self::ty(&made));
                    let op = format!("graph.matmul {x}, {y} : ({ty}, {from}) -> {to}");
                    self.add(made, &op);
                }
            }
        }
    }
}

fn ty(shape: &[u64]) -> String {
    format!("tensor<{}x{}xf32>", shape[0], shape[1])
}

/// A function `@main` on matrices of whole numbers.
pub(crate) fn program(seed: u64) -> String {
    let mut maker = Maker {
        random: Random::new(seed),
        text: String::new(),
        scope: Vec::new(),
    };
    let (m, n) = (2 + maker.below(3) as u64, 2 + maker.below(4) as u64);
    for shape in [[m, n], [m, n], [n, m], [n, n]] {
        let name = format!("%a{}", maker.scope.len());
        maker.scope.push((name, shape.to_vec()));
    }
    let args = maker.scope.clone();
    for _ in 0..14 {
        maker.op();
    }
    let named = |all: &[(String, Vec<u64>)]| -> (Vec<String>, Vec<String>) {
        all.iter()
            .map(|(name, shape)| (name.clone(), ty(shape)))
            .unzip()
    };
    let last = maker.scope.len().saturating_sub(3).max(args.len());
    let (mut results, mut types) = named(&maker.scope[last..]);
    if results.is_empty() {
        (results, types) = named(&maker.scope[..1]);
    }
    let (names, arg_types) = named(&args);
    let args = names
        .iter()
        .zip(&arg_types)
        .map(|(name, ty)| format!("{name}: {ty}"));
    let args: Vec<String> = args.collect();
    format!(
        "func.func @main({}) -> ({}) {{\n{}  func.return {} : {}\n}}\n",
        args.join(", "),
        types.join(", "),
        maker.text,
        results.join(", "),
        types.join(", ")
    )
}

/// A function `@main` with a loop whose body uses arguments and constants from outside, and constants of its own that are
/// equal to some of those.
pub(crate) fn looped(seed: u64) -> String {
    let mut maker = Maker {
        random: Random::new(seed),
        text: String::new(),
        scope: Vec::new(),
    };
    let n = 2 + maker.below(4) as u64;
    let ty = ty(&[n, n]);
    for name in ["%carried", "%x", "%two", "%three", "%own"] {
        maker.scope.push((name.to_string(), vec![n, n]));
    }
    for _ in 0..5 {
        maker.op();
    }
    // Equal ops, and a loop in the loop that uses both.
    let (x, y) = (maker.like(&[n, n]), maker.like(&[n, n]));
    maker.add(vec![n, n], &format!("graph.relu {x} : {ty}"));
    maker.add(vec![n, n], &format!("graph.relu {x} : {ty}"));
    let [a, b] = [2, 1].map(|back| maker.scope[maker.scope.len() - back].0.clone());
    let inner = format!(
        "loop.for %k = 0 to 1 iter_args(%w = {b}) -> ({ty}) {{
    %u = graph.max %w, {y} : ({ty}, {ty}) -> {ty}
    %t = graph.sub %u, {a} : ({ty}, {ty}) -> {ty}
    loop.yield %t : {ty}
  }}"
    );
    maker.add(vec![n, n], &inner);
    for _ in 0..5 {
        maker.op();
    }
    let last = maker.like(&[n, n]);
    let same = maker.scope.iter().rev().find(|(_, shape)| *shape == [n, n]);
    let last = same.map_or(last, |(name, _)| name.clone());
    let own = 2 + maker.below(3);
    format!(
        "func.func @main(%x: {ty}, %y: {ty}) -> {ty} {{
  %two = graph.constant dense<2.0> : {ty}
  %three = graph.constant dense<3.0> : {ty}
  %r = loop.for %i = 0 to 1 iter_args(%carried = %y) -> ({ty}) {{
  %own = graph.constant dense<{own}.0> : {ty}
{}  loop.yield {last} : {ty}
  }}
  func.return %r : {ty}
}}\n",
        maker.text
    )
}

/// What `@main` gives for whole numbers from -2 to 2; exact, since they stay small.
pub(crate) fn results(ir: &Ir, seed: u64) -> Vec<Vec<f64>> {
    let mut interpreter = Interpreter::new(ir);
    let (types, _) = interpreter
        .signature(Name::new("main"))
        .expect("a function");
    let mut random = Random::new(seed + 1);
    let args = types.iter().map(|ty| {
        let n = ty.elements().expect("a static shape");
        let values: Vec<f32> = (0..n).map(|_| random.below(5) as f32 - 2.0).collect();
        let shape = ty.shape().expect("a shape");
        let shape: Vec<usize> = shape.iter().map(|d| *d as usize).collect();
        Data::from(tir::data::Array::from_vec(&shape, values).expect("an array"))
    });
    let args: Vec<Data> = args.collect();
    let results = interpreter.run(Name::new("main"), args).expect("it runs");
    let results = results.iter().map(|data| {
        let array = data.as_tensor().expect("a tensor");
        // -0 and 0 are one number.
        array.iter_f64().map(|x| x + 0.0).collect()
    });
    results.collect()
}
