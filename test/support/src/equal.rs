//! Random programs of operators on tensors, with control flow around them, and whether two of them give the same.
//!
//! *Terms.* The **kind** of a program says which classes of rules may fire, and so which ops it has, from which values, and
//! how near its results have to be: a program to which only exact rules apply has all ops and the extremes of all types,
//! and every bit counts; one to which all rules apply has floats only where what is computed depends on them smoothly.
//!
//! *Invariants.* A seed gives one program and one list of arguments. Integers are compared bit by bit in every kind.

use std::fmt::Write;

use tir::data::{Array, Random};
use tir::{Data, Interpreter, Ir, Name, Type};

/// Which rules may fire, and what follows for programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Only exact ones: all ops, all values, every bit.
    Exact,
    /// Exact but for NaN and the signs of zeros: finite values, equal as numbers.
    Finite,
    /// All: smooth functions of floats, within a tolerance.
    Smooth,
}

impl Kind {
    /// Of a seed: each as often.
    pub fn of(seed: u64) -> Self {
        [Kind::Exact, Kind::Finite, Kind::Smooth][(seed % 3) as usize]
    }
    /// Classes of rules, as `--rule-classes` takes them; none for all.
    pub fn classes(self) -> &'static [&'static str] {
        match self {
            Kind::Exact => &["exact"],
            Kind::Finite => &["exact", "nnan_nsz"],
            Kind::Smooth => &[],
        }
    }
}

/// Most elements of a value.
const ELEMENTS: usize = 600;
/// The largest number that a smooth program may compute: beyond, roundings say nothing.
const LARGEST: f64 = 1e4;

#[derive(Clone, Debug)]
struct Item {
    name: String,
    shape: Vec<usize>,
    elem: &'static str,
}

impl Item {
    fn ty(&self) -> String {
        ty(&self.shape, self.elem)
    }
    fn is_float(&self) -> bool {
        self.elem.starts_with('f')
    }
    fn len(&self) -> usize {
        self.shape.iter().product()
    }
}

fn ty(shape: &[usize], elem: &str) -> String {
    let dims: String = shape.iter().map(|d| format!("{d}x")).collect();
    format!("tensor<{dims}{elem}>")
}

fn array(numbers: &[i64]) -> String {
    let text: Vec<String> = numbers.iter().map(i64::to_string).collect();
    match text.is_empty() {
        true => "array<i64>".to_string(),
        false => format!("array<i64: {}>", text.join(", ")),
    }
}

struct Maker {
    random: Random,
    kind: Kind,
    float: &'static str,
    /// Whether there are fixed-point numbers, ops of a plugin.
    fixed: bool,
    text: String,
    count: usize,
    depth: usize,
    /// What every function takes, beside a condition: shapes and elements.
    arguments: Vec<(Vec<usize>, &'static str)>,
    /// Functions that may be called: names, argument types and result types.
    callees: Vec<(String, Vec<String>, Vec<Item>)>,
}

/// A program with a function `@main`; with `fixed`, ops of fixed-point numbers are in it.
pub fn program(seed: u64, kind: Kind, fixed: bool) -> String {
    let mut random = Random::new(seed);
    let float = match (kind, random.percent(25)) {
        (Kind::Smooth, false) => "f64",
        _ => "f32",
    };
    // Ops of fixed-point numbers make f32.
    let float = if fixed { "f32" } else { float };
    let mut maker = Maker {
        random,
        kind,
        float,
        fixed,
        text: String::new(),
        count: 0,
        depth: 0,
        arguments: Vec::new(),
        callees: Vec::new(),
    };
    maker.arguments();
    let mut text = String::new();
    if maker.random.percent(25) {
        text += &maker.function("callee", 5);
    }
    text += &maker.function("main", 12);
    text
}

impl Maker {
    fn below(&mut self, n: usize) -> usize {
        self.random.below(n)
    }
    fn one<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        self.random.pick(all)
    }
    fn int(&mut self) -> &'static str {
        self.random
            .pick(&["i32", "i32", "i8", "i64"])
            .unwrap_or("i32")
    }
    fn fresh(&mut self, shape: &[usize], elem: &'static str) -> Item {
        self.count += 1;
        Item {
            name: format!("%v{}", self.count),
            shape: shape.to_vec(),
            elem,
        }
    }
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.text, "  {text}");
    }

    fn arguments(&mut self) {
        let d: Vec<usize> = (0..3).map(|_| 1 + self.below(4)).collect();
        let (float, int) = (self.float, self.int());
        let image = vec![
            1 + self.below(2),
            d[0],
            3 + self.below(4),
            3 + self.below(4),
        ];
        self.arguments = vec![
            (vec![d[0], d[1]], float),
            (vec![d[0], d[1]], float),
            (vec![d[1], d[2]], float),
            (image, float),
            (vec![d[0]], float),
            (vec![d[0], d[1]], int),
            (vec![d[0], d[1]], int),
            (vec![], "i1"),
        ];
    }

    fn function(&mut self, name: &str, ops: usize) -> String {
        let mut scope = Vec::new();
        let all = self.arguments.clone();
        for (shape, elem) in all {
            let item = self.fresh(&shape, elem);
            scope.push(item);
        }
        let condition = self.fresh(&[], "i1").name;
        let args: Vec<Item> = scope.clone();
        self.text.clear();
        // Half of the functions with branches have the graph of blocks, the others structured ones.
        let blocks = self.random.percent(20);
        self.ops(&mut scope, &condition, ops / if blocks { 2 } else { 1 });
        let mut passed = self.last(&scope, args.len());
        if blocks {
            let types: Vec<String> = passed.iter().map(Item::ty).collect();
            let names = |items: &[Item]| {
                let names: Vec<&str> = items.iter().map(|i| i.name.as_str()).collect();
                format!("{} : {}", names.join(", "), types.join(", "))
            };
            self.line(&format!("cf.cond_br {condition}, ^left, ^right"));
            for side in ["left", "right"] {
                let _ = writeln!(self.text, "^{side}:");
                let mut inner = scope.clone();
                self.ops(&mut inner, &condition, 4);
                let given: Vec<Item> = passed.iter().map(|p| self.like(&inner, p)).collect();
                self.line(&format!("cf.br ^end({})", names(&given)));
            }
            let params: Vec<Item> = passed
                .iter()
                .map(|p| self.fresh(&p.shape, p.elem))
                .collect();
            let list: Vec<String> = params
                .iter()
                .map(|p| format!("{}: {}", p.name, p.ty()))
                .collect();
            let _ = writeln!(self.text, "^end({}):", list.join(", "));
            scope.extend(params.clone());
            let before = scope.len();
            self.ops(&mut scope, &condition, 4);
            passed = [params, scope[before..].to_vec()].concat();
        }
        let results = passed;
        let types: Vec<String> = results.iter().map(Item::ty).collect();
        let names: Vec<&str> = results.iter().map(|r| r.name.as_str()).collect();
        let mut list: Vec<String> = args
            .iter()
            .map(|a| format!("{}: {}", a.name, a.ty()))
            .collect();
        list.push(format!("{condition}: i1"));
        let text = format!(
            "func.func @{name}({}) -> ({}) {{\n{}  func.return {} : {}\n}}\n",
            list.join(", "),
            types.join(", "),
            self.text,
            names.join(", "),
            types.join(", ")
        );
        let args: Vec<String> = args.iter().map(Item::ty).collect();
        self.callees.push((name.to_string(), args, results));
        text
    }

    /// The last values behind the arguments, some of them.
    fn last(&mut self, scope: &[Item], args: usize) -> Vec<Item> {
        let from = scope.len().saturating_sub(4).max(args.min(scope.len() - 1));
        scope[from..].to_vec()
    }
    /// A value of the type of another: the youngest but for one, or this one.
    fn like(&mut self, scope: &[Item], item: &Item) -> Item {
        let same: Vec<Item> = scope
            .iter()
            .filter(|i| i.ty() == item.ty())
            .cloned()
            .collect();
        let from = same.len().saturating_sub(2);
        self.one(&same[from..]).unwrap_or_else(|| item.clone())
    }
    fn pick(&mut self, scope: &[Item], holds: impl Fn(&Item) -> bool) -> Option<Item> {
        let fit: Vec<Item> = scope.iter().filter(|i| holds(i)).cloned().collect();
        (!fit.is_empty()).then(|| {
            let at = self.below(fit.len()).max(self.below(fit.len()));
            fit[at].clone()
        })
    }

    fn ops(&mut self, scope: &mut Vec<Item>, condition: &str, count: usize) {
        for _ in 0..count {
            let made = match self.below(12) {
                0 if self.depth < 2 => self.control(scope, condition),
                1 => self.view(scope, condition),
                2 | 3 => self.window(scope),
                4 | 5 => self.movement(scope),
                6 if self.fixed => self.fixed(scope),
                6 => self.reduction(scope),
                7 => self.siblings(scope),
                8 => self.mixed(scope),
                _ => self.pointwise(scope),
            };
            scope.extend(made.unwrap_or_default());
        }
    }

    /// An op in generic form.
    fn op(
        &mut self,
        name: &str,
        operands: &[&Item],
        attrs: &str,
        shape: &[usize],
        elem: &'static str,
    ) -> Option<Vec<Item>> {
        let made = self.fresh(shape, elem);
        if made.len() > ELEMENTS {
            return None;
        }
        let names: Vec<&str> = operands.iter().map(|o| o.name.as_str()).collect();
        let types: Vec<String> = operands.iter().map(|o| o.ty()).collect();
        let attrs = match attrs {
            "" => String::new(),
            attrs => format!(" {{{attrs}}}"),
        };
        self.line(&format!(
            "{} = \"{name}\"({}){attrs} : ({}) -> {}",
            made.name,
            names.join(", "),
            types.join(", "),
            made.ty()
        ));
        Some(vec![made])
    }

    /// A constant: one number everywhere, or several.
    fn constant(&mut self, shape: &[usize], elem: &'static str) -> Option<Item> {
        let n: usize = shape.iter().product();
        let mut number = || {
            let n = self.random.below(9) as i64 - 4;
            match elem {
                "i1" => (n > 0).to_string(),
                _ if elem.starts_with('f') => format!("{:?}", n as f64 / 2.0),
                _ => n.to_string(),
            }
        };
        let splat = number();
        let text = match n {
            2..=24 => {
                let mut numbers = (0..n).map(|_| number());
                fn nest(shape: &[usize], next: &mut dyn FnMut() -> String) -> String {
                    match shape {
                        [] => next(),
                        [first, rest @ ..] => {
                            let all: Vec<String> = (0..*first).map(|_| nest(rest, next)).collect();
                            format!("[{}]", all.join(", "))
                        }
                    }
                }
                nest(shape, &mut || numbers.next().unwrap_or_default())
            }
            _ => splat,
        };
        let item = self.fresh(shape, elem);
        self.line(&format!(
            "{} = graph.constant dense<{text}> : {}",
            item.name,
            item.ty()
        ));
        Some(item)
    }

    /// A factor or addend for a value: another value, or a constant, of its shape or broadcast.
    fn beside(&mut self, scope: &[Item], x: &Item) -> Option<Item> {
        if self.random.percent(55)
            && let Some(y) = self.pick(scope, |i| i.elem == x.elem && i.shape == x.shape)
        {
            return Some(y);
        }
        let mut shape = x.shape.clone();
        for dim in &mut shape {
            if self.random.percent(40) {
                *dim = 1;
            }
        }
        let cut = self.below(shape.len() + 1);
        if self.random.percent(30) {
            shape.drain(..cut);
        }
        self.constant(&shape, x.elem)
    }

    /// A bounded function of a float, so that products stay small in smooth programs.
    fn tame(&mut self, x: Item) -> Option<Item> {
        if self.kind == Kind::Exact || !x.is_float() {
            return Some(x);
        }
        match self.kind {
            Kind::Smooth => self.op("graph.tanh", &[&x], "", &x.shape, x.elem)?.pop(),
            _ => self
                .op(
                    "graph.clip",
                    &[&x],
                    "min = -4.0 : f64, max = 4.0 : f64",
                    &x.shape,
                    x.elem,
                )?
                .pop(),
        }
    }

    fn pointwise(&mut self, scope: &[Item]) -> Option<Vec<Item>> {
        let x = self.pick(scope, |i| i.elem != "i1")?;
        let (shape, elem) = (x.shape.clone(), x.elem);
        let exact = self.kind == Kind::Exact;
        match self.below(4) {
            0 => {
                let names: &[&str] = match (x.is_float(), self.kind) {
                    (false, _) => &["relu", "neg", "abs"],
                    (true, Kind::Smooth) => {
                        &["relu", "neg", "abs", "sigmoid", "tanh", "erf", "sin", "cos"]
                    }
                    (true, Kind::Finite) => &[
                        "relu", "neg", "abs", "sigmoid", "tanh", "floor", "ceil", "round",
                    ],
                    (true, Kind::Exact) => &[
                        "relu",
                        "neg",
                        "abs",
                        "sigmoid",
                        "tanh",
                        "floor",
                        "ceil",
                        "round",
                        "exp",
                        "log",
                        "sqrt",
                        "reciprocal",
                    ],
                };
                let name = self.one(names)?;
                self.op(&format!("graph.{name}"), &[&x], "", &shape, elem)
            }
            1 => {
                let bounds = match x.is_float() {
                    true => [
                        "min = -1.5 : f64, max = 2.0 : f64",
                        "min = 0.0 : f64",
                        "max = 1.0 : f64",
                    ],
                    false => [
                        "min = -3 : i64, max = 5 : i64",
                        "min = 0 : i64",
                        "max = 2 : i64",
                    ],
                };
                let bounds = self.one(&bounds)?;
                self.op("graph.clip", &[&x], bounds, &shape, elem)
            }
            _ => {
                let mut x = x;
                let mut y = self.beside(scope, &x)?;
                let name = self.one(&["add", "add", "sub", "mul", "mul", "max", "min", "div"])?;
                if name == "mul" {
                    x = self.tame(x)?;
                    y = self.tame(y)?;
                }
                // Quotients are exact where nothing is to be bounded; integers may be divided by 0.
                if name == "div" && !(exact && x.is_float()) {
                    return None;
                }
                self.op(&format!("graph.{name}"), &[&x, &y], "", &shape, elem)
            }
        }
    }

    fn movement(&mut self, scope: &[Item]) -> Option<Vec<Item>> {
        let x = self.pick(scope, |i| !i.shape.is_empty())?;
        let (shape, rank, elem) = (x.shape.clone(), x.shape.len(), x.elem);
        match self.below(7) {
            0 => {
                let mut perm: Vec<i64> = (0..rank as i64).collect();
                self.random.shuffle(&mut perm);
                let to: Vec<usize> = perm.iter().map(|p| shape[*p as usize]).collect();
                self.op(
                    "graph.transpose",
                    &[&x],
                    &format!("perm = {}", array(&perm)),
                    &to,
                    elem,
                )
            }
            1 => {
                let mut to = shape.clone();
                let at = self.below(rank);
                match self.below(3) {
                    0 if at + 1 < rank => {
                        let next = to.remove(at + 1);
                        to[at] *= next;
                    }
                    1 if rank < 4 => to.insert(at, 1),
                    _ => to = vec![shape.iter().product()],
                }
                self.op("graph.reshape", &[&x], "", &to, elem)
            }
            2 => {
                let axis = self.below(rank);
                let y = self.pick(scope, |i| {
                    i.elem == elem
                        && i.shape.len() == rank
                        && (0..rank).all(|d| d == axis || i.shape[d] == shape[d])
                })?;
                let mut to = shape;
                to[axis] += y.shape[axis];
                self.op(
                    "graph.concat",
                    &[&x, &y],
                    &format!("axis = {axis} : i64"),
                    &to,
                    elem,
                )
            }
            3 => {
                let [mut starts, mut sizes, mut steps] = [const { Vec::new() }; 3];
                for dim in &shape {
                    let size = 1 + self.below((*dim).max(1));
                    let most = (dim - 1) / (size - 1).max(1);
                    let step = 1 + self.below(most.max(1));
                    let free = dim.saturating_sub((size - 1) * step).max(1);
                    let start = self.below(free) as i64;
                    match self.random.percent(25) {
                        true => {
                            starts.push(start + (size as i64 - 1) * step as i64);
                            steps.push(-(step as i64));
                        }
                        false => {
                            starts.push(start);
                            steps.push(step as i64);
                        }
                    }
                    sizes.push(size as i64);
                }
                let to: Vec<usize> = sizes.iter().map(|n| *n as usize).collect();
                let attrs = format!(
                    "starts = {}, sizes = {}, steps = {}",
                    array(&starts),
                    array(&sizes),
                    array(&steps)
                );
                self.op("graph.slice", &[&x], &attrs, &to, elem)
            }
            4 => {
                let [low, high]: [Vec<i64>; 2] =
                    std::array::from_fn(|_| (0..rank).map(|_| self.below(2) as i64).collect());
                let to: Vec<usize> = (0..rank)
                    .map(|d| shape[d] + (low[d] + high[d]) as usize)
                    .collect();
                let value = match elem {
                    "i1" => "false".to_string(),
                    _ if x.is_float() => format!("{:?} : {elem}", self.below(3) as f64 - 1.0),
                    _ => format!("{} : {elem}", self.below(3) as i64 - 1),
                };
                let attrs = format!(
                    "low = {}, high = {}, value = {value}",
                    array(&low),
                    array(&high)
                );
                self.op("graph.pad", &[&x], &attrs, &to, elem)
            }
            5 => {
                let axis = self.below(rank);
                let first = 1 + self.below(shape[axis].saturating_sub(1).max(1));
                (first < shape[axis]).then_some(())?;
                let [mut a, mut b] = [shape.clone(), shape.clone()];
                (a[axis], b[axis]) = (first, shape[axis] - first);
                let sizes = [a[axis], b[axis]].map(|n| n as i64);
                let [a, b] = [a, b].map(|shape| self.fresh(&shape, elem));
                self.line(&format!(
                    "{}, {} = \"graph.split\"({}) {{axis = {axis} : i64, sizes = {}}} : ({}) -> ({}, {})",
                    a.name,
                    b.name,
                    x.name,
                    array(&sizes),
                    x.ty(),
                    a.ty(),
                    b.ty()
                ));
                Some(vec![a, b])
            }
            _ => {
                let mut to = shape.clone();
                let units: Vec<usize> = (0..rank).filter(|d| shape[*d] == 1).collect();
                match self.one(&units) {
                    Some(at) => to[at] = 1 + self.below(3),
                    None => to.insert(0, 1 + self.below(2)),
                }
                self.op("graph.expand", &[&x], "", &to, elem)
            }
        }
    }

    fn reduction(&mut self, scope: &[Item]) -> Option<Vec<Item>> {
        let x = self.pick(scope, |i| !i.shape.is_empty() && i.elem != "i1")?;
        let rank = x.shape.len();
        if x.is_float() && self.random.percent(20) {
            let axis = self.below(rank);
            return self.op(
                "graph.softmax",
                &[&x],
                &format!("axis = {axis} : i64"),
                &x.shape.clone(),
                x.elem,
            );
        }
        let axes: Vec<i64> = (0..rank as i64)
            .filter(|_| self.random.percent(50))
            .collect();
        let keep = self.random.percent(60);
        let mean = if x.is_float() {
            "reduce_mean"
        } else {
            "reduce_sum"
        };
        let name = self.one(&["reduce_sum", "reduce_max", "reduce_min", mean])?;
        let kept = (0..rank).filter_map(|d| match (axes.contains(&(d as i64)), keep) {
            (false, _) => Some(x.shape[d]),
            (true, true) => Some(1),
            (true, false) => None,
        });
        let to: Vec<usize> = kept.collect();
        let attrs = format!("axes = {}, keepdims = {keep}", array(&axes));
        self.op(&format!("graph.{name}"), &[&x], &attrs, &to, x.elem)
    }

    /// A convolution, a pool, a product, a normalisation.
    fn window(&mut self, scope: &[Item]) -> Option<Vec<Item>> {
        if self.random.percent(45) {
            return self.product(scope);
        }
        let x = self.pick(scope, |i| i.shape.len() == 4 && i.is_float())?;
        let [n, c, h, w] = x.shape[..] else {
            return None;
        };
        let elem = x.elem;
        let (kh, kw) = (1 + self.below(3.min(h)), 1 + self.below(3.min(w)));
        let strides = [1 + self.below(2) as i64, 1 + self.below(2) as i64];
        let pads: Vec<i64> = (0..4).map(|i| self.below([kh, kw][i % 2]) as i64).collect();
        let size = |dim: usize, k: usize, p: i64, s: i64| (dim as i64 + p - k as i64) / s + 1;
        let to = [
            size(h, kh, pads[0] + pads[2], strides[0]) as usize,
            size(w, kw, pads[1] + pads[3], strides[1]) as usize,
        ];
        let windows = format!("strides = {}, pads = {}", array(&strides), array(&pads));
        match self.below(7) {
            0..4 => {
                let groups = if c % 2 == 0 && self.random.percent(30) {
                    2
                } else {
                    1
                };
                let o = groups * (1 + self.below(3));
                let weights = self.constant(&[o, c / groups, kh, kw], elem)?;
                let bias = match self.random.percent(40) {
                    true => Some(self.constant(&[o], elem)?),
                    false => None,
                };
                let x = self.tame(x)?;
                let mut operands = vec![&x, &weights];
                operands.extend(&bias);
                let attrs = format!("{windows}, groups = {groups} : i64");
                self.op(
                    "graph.conv2d",
                    &operands,
                    &attrs,
                    &[n, o, to[0], to[1]],
                    elem,
                )
            }
            4 => {
                let attrs = format!("kernel = {}, {windows}", array(&[kh as i64, kw as i64]));
                let name = self.one(&["graph.max_pool", "graph.avg_pool"])?;
                self.op(name, &[&x], &attrs, &[n, c, to[0], to[1]], elem)
            }
            5 => self.op("graph.global_avg_pool", &[&x], "", &[n, c, 1, 1], elem),
            _ => {
                let mut given = Vec::new();
                for _ in 0..3 {
                    given.push(self.constant(&[c], elem)?);
                }
                let variance = self.fresh(&[c], elem);
                self.line(&format!(
                    "{} = graph.constant dense<0.75> : {}",
                    variance.name,
                    variance.ty()
                ));
                let x = self.tame(x)?;
                let operands = [&x, &given[0], &given[1], &given[2], &variance];
                self.op("graph.batch_norm", &operands, "", &[n, c, h, w], elem)
            }
        }
    }

    fn product(&mut self, scope: &[Item]) -> Option<Vec<Item>> {
        let a = self.pick(scope, |i| i.shape.len() == 2 && i.is_float())?;
        let [m, k] = a.shape[..] else { return None };
        let b = match self.random.percent(60) {
            true => self.pick(scope, |i| {
                i.elem == a.elem && i.shape.len() == 2 && i.shape[0] == k
            }),
            false => None,
        };
        let b = match b {
            Some(b) => b,
            None => {
                let n = 1 + self.below(4);
                self.constant(&[k, n], a.elem)?
            }
        };
        let n = b.shape[1];
        let (a, b) = (self.tame(a)?, self.tame(b)?);
        match self.random.percent(30) {
            true => {
                let c = self.constant(&[n], a.elem)?;
                self.op(
                    "graph.gemm",
                    &[&a, &b, &c],
                    "trans_a = false, trans_b = false",
                    &[m, n],
                    a.elem,
                )
            }
            false => self.op("graph.matmul", &[&a, &b], "", &[m, n], a.elem),
        }
    }

    /// Two products or convolutions of one input.
    fn siblings(&mut self, scope: &[Item]) -> Option<Vec<Item>> {
        let x = self.pick(scope, |i| i.is_float() && [2, 4].contains(&i.shape.len()))?;
        let x = self.tame(x)?;
        let mut made = Vec::new();
        for _ in 0..2 + self.below(2) {
            let o = 1 + self.below(3);
            made.extend(match x.shape[..] {
                [m, k] => {
                    let w = self.constant(&[k, o], x.elem)?;
                    self.op("graph.matmul", &[&x, &w], "", &[m, o], x.elem)?
                }
                [n, c, h, width] => {
                    let w = self.constant(&[o, c, 1, 1], x.elem)?;
                    self.op("graph.conv2d", &[&x, &w], "", &[n, o, h, width], x.elem)?
                }
                _ => return None,
            });
        }
        Some(made)
    }

    /// Comparisons, choices, casts, bits, numbers of slices, quantized numbers.
    fn mixed(&mut self, scope: &[Item]) -> Option<Vec<Item>> {
        let smooth = self.kind == Kind::Smooth;
        // In smooth programs nothing jumps where a float moves a little.
        let steady = |i: &Item| i.elem != "i1" && !(smooth && i.is_float());
        match self.below(6) {
            0 => {
                let x = self.pick(scope, steady)?;
                let y = self.beside(scope, &x)?;
                let name =
                    self.one(&["less", "less_equal", "equal", "greater", "greater_equal"])?;
                self.op(
                    &format!("graph.{name}"),
                    &[&x, &y],
                    "",
                    &x.shape.clone(),
                    "i1",
                )
            }
            1 => {
                let x = self.pick(scope, |i| i.elem != "i1")?;
                let y = self.pick(scope, |i| i.ty() == x.ty())?;
                let c = match self.pick(scope, |i| i.elem == "i1" && i.shape == x.shape) {
                    Some(c) => c,
                    None => self.constant(&x.shape.clone(), "i1")?,
                };
                self.op("graph.where", &[&c, &x, &y], "", &x.shape.clone(), x.elem)
            }
            2 => {
                let x = self.pick(scope, |i| steady(i) || i.elem == "i1")?;
                let mut to = vec!["i8", "i32", "i64", self.float];
                if self.kind == Kind::Smooth && x.elem != "i8" && x.elem != "i1" {
                    to.pop();
                }
                let to = self.one(&to)?;
                self.op("graph.cast", &[&x], "", &x.shape.clone(), to)
            }
            3 => {
                let x = self.pick(scope, |i| i.elem.starts_with('i'))?;
                let y = self.pick(scope, |i| i.ty() == x.ty())?;
                let name = self.one(&["and", "or", "xor"])?;
                self.op(
                    &format!("graph.{name}"),
                    &[&x, &y],
                    "",
                    &x.shape.clone(),
                    x.elem,
                )
            }
            4 => {
                let x = self.pick(scope, |i| !i.shape.is_empty() && i.elem != "i1")?;
                let axis = self.below(x.shape.len());
                let dim = x.shape[axis] as i64;
                let count = 1 + self.below(3);
                let numbers: Vec<String> = (0..count)
                    .map(|_| (self.below(2 * dim as usize) as i64 - dim).to_string())
                    .collect();
                let numbers_item = self.fresh(&[count], "i64");
                self.line(&format!(
                    "{} = graph.constant dense<[{}]> : {}",
                    numbers_item.name,
                    numbers.join(", "),
                    numbers_item.ty()
                ));
                let mut to = x.shape.clone();
                to[axis] = count;
                self.op(
                    "graph.gather",
                    &[&x, &numbers_item],
                    &format!("axis = {axis} : i64"),
                    &to,
                    x.elem,
                )
            }
            _ => {
                let a = self.pick(scope, |i| i.elem == "i8" && i.shape.len() == 2)?;
                let n = 1 + self.below(3);
                let b = self.constant(&[a.shape[1], n], "i8")?;
                self.op(
                    "graph.matmul_integer",
                    &[&a, &b],
                    "",
                    &[a.shape[0], n],
                    "i32",
                )
            }
        }
    }

    /// Fixed-point numbers of a plugin: quantized, multiplied, and floats again.
    fn fixed(&mut self, scope: &[Item]) -> Option<Vec<Item>> {
        if self.kind == Kind::Smooth {
            return None;
        }
        let x = self.pick(scope, |i| i.elem == "f32" && i.shape.len() == 2)?;
        let [m, k] = x.shape[..] else { return None };
        let n = 1 + self.below(3);
        let w = self.constant(&[k, n], "f32")?;
        let of = |shape: &[usize], text: &str| ty(shape, &format!("!fixed.point<{text}>"));
        let names = [
            self.fresh(&[], "i1").name,
            self.fresh(&[], "i1").name,
            self.fresh(&[], "i1").name,
        ];
        let (a, b, s) = (
            of(&[m, k], "8, 4"),
            of(&[k, n], "8, 6"),
            of(&[m, n], "32, 10"),
        );
        let [qa, qb, qs] = names;
        self.line(&format!(
            "{qa} = fixed.quantize {} : {} to {a}",
            x.name,
            x.ty()
        ));
        self.line(&format!(
            "{qb} = fixed.quantize {} : {} to {b}",
            w.name,
            w.ty()
        ));
        self.line(&format!("{qs} = fixed.matmul {qa}, {qb} : {a}, {b}"));
        let y = self.fresh(&[m, n], "f32");
        self.line(&format!("{} = fixed.dequantize {qs} : {s}", y.name));
        Some(vec![y])
    }

    /// Parts and shapes as the level below says them, and choices of whole tensors.
    fn view(&mut self, scope: &[Item], condition: &str) -> Option<Vec<Item>> {
        let x = self.pick(scope, |i| i.shape.len() == 2)?;
        let [m, n] = x.shape[..] else { return None };
        match self.below(3) {
            0 => {
                let (h, w) = (1 + self.below(m), 1 + self.below(n));
                let (top, left) = (self.below(m - h + 1), self.below(n - w + 1));
                let made = self.fresh(&[h, w], x.elem);
                self.line(&format!(
                    "{} = tensor.extract_slice {}[{top}, {left}] [{h}, {w}] [1, 1] : {} to {}",
                    made.name,
                    x.name,
                    x.ty(),
                    made.ty()
                ));
                Some(vec![made])
            }
            _ => {
                let y = self.pick(scope, |i| i.ty() == x.ty())?;
                let made = self.fresh(&x.shape, x.elem);
                self.line(&format!(
                    "{} = \"arith.select\"({condition}, {}, {}) : (i1, {}, {}) -> {}",
                    made.name,
                    x.name,
                    y.name,
                    x.ty(),
                    y.ty(),
                    x.ty()
                ));
                Some(vec![made])
            }
        }
    }

    /// A loop, a branch, or a call.
    fn control(&mut self, scope: &[Item], condition: &str) -> Option<Vec<Item>> {
        let x = self.pick(scope, |i| !i.shape.is_empty())?;
        let made = self.fresh(&x.shape, x.elem);
        let what = if self.random.percent(50) {
            2
        } else {
            self.below(2)
        };
        if what == 2
            && let Some((name, args, results)) = self.callees.first().cloned()
        {
            let mut given = Vec::new();
            for ty in &args {
                given.push(self.pick(scope, |i| i.ty() == *ty)?);
            }
            let names: Vec<&str> = given.iter().map(|g| g.name.as_str()).collect();
            let types: Vec<String> = results.iter().map(Item::ty).collect();
            let made: Vec<Item> = results
                .iter()
                .map(|r| self.fresh(&r.shape, r.elem))
                .collect();
            let made_names: Vec<&str> = made.iter().map(|m| m.name.as_str()).collect();
            self.line(&format!(
                "{} = func.call @{name}({}, {condition}) : ({}, i1) -> ({})",
                made_names.join(", "),
                names.join(", "),
                args.join(", "),
                types.join(", ")
            ));
            return Some(made);
        }
        self.depth += 1;
        if what == 0 {
            let acc = self.fresh(&x.shape, x.elem);
            self.line(&format!(
                "{} = loop.for %i{} = 0 to 3 iter_args({} = {}) -> ({}) {{",
                made.name,
                self.count,
                acc.name,
                x.name,
                x.ty()
            ));
            let mut inner = scope.to_vec();
            inner.push(acc.clone());
            self.ops(&mut inner, condition, 3);
            let last = self.like(&inner, &acc);
            let last = self.tame(last).unwrap_or(acc);
            self.line(&format!("loop.yield {} : {}", last.name, last.ty()));
        } else {
            self.line(&format!(
                "{} = loop.if {condition} -> ({}) {{",
                made.name,
                x.ty()
            ));
            for side in 0..2 {
                let mut inner = scope.to_vec();
                self.ops(&mut inner, condition, 3);
                let last = self.like(&inner, &x);
                self.line(&format!("loop.yield {} : {}", last.name, last.ty()));
                if side == 0 {
                    self.line("} else {");
                }
            }
        }
        self.line("}");
        self.depth -= 1;
        Some(vec![made])
    }
}

/// Values for the arguments of `@main`.
pub fn arguments(ir: &Ir, seed: u64, kind: Kind) -> Vec<Data> {
    let interpreter = Interpreter::new(ir);
    let (types, _) = interpreter.signature(Name::new("main")).unwrap();
    let mut random = Random::new(seed);
    types
        .iter()
        .map(|ty| argument(*ty, kind, &mut random))
        .collect()
}

fn argument(ty: Type, kind: Kind, random: &mut Random) -> Data {
    let Some(shape) = ty.shape() else {
        let n = random.below(2) as i64;
        return tir::interp::constant(tir::Attr::int(n, ty), ty).unwrap();
    };
    let shape: Vec<usize> = shape.iter().map(|d| *d as usize).collect();
    let n: usize = shape.iter().product();
    let bits = ty.elem().bits().unwrap_or(32);
    let mut int = || {
        let (least, most) = (i64::MIN >> (64 - bits), !(i64::MIN >> (64 - bits)));
        match random.below(3) {
            0 => random
                .pick(&[least, most, least + 1, most - 1, 0, -1])
                .unwrap_or(0),
            1 => random.below(9) as i64 - 4,
            _ => (random.next_u64() as i64) >> (64 - bits),
        }
    };
    let text = ty.elem().to_string();
    let array = match text.as_str() {
        "i1" => {
            let all: Vec<bool> = (0..n).map(|_| int() & 1 != 0).collect();
            Array::from_bools(&shape, &all)
        }
        "i8" => Array::from_vec(&shape, (0..n).map(|_| int() as i8).collect()),
        "i32" => Array::from_vec(&shape, (0..n).map(|_| int() as i32).collect()),
        "i64" => Array::from_vec(&shape, (0..n).map(|_| int()).collect()),
        _ => {
            let double = text == "f64";
            let all: Vec<f64> = (0..n).map(|_| float(kind, double, random)).collect();
            match double {
                true => Array::from_vec(&shape, all),
                false => Array::from_vec(&shape, all.iter().map(|x| *x as f32).collect()),
            }
        }
    };
    Data::from(array.unwrap())
}

fn float(kind: Kind, double: bool, random: &mut Random) -> f64 {
    let most = if double {
        f64::MAX
    } else {
        f64::from(f32::MAX)
    };
    let plain = (random.below(97) as f64 - 48.0) / random.pick(&[8.0, 24.0, 27.0]).unwrap_or(8.0);
    match kind {
        Kind::Exact if random.percent(25) => {
            let all = [
                f64::NAN,
                f64::INFINITY,
                -f64::INFINITY,
                most,
                -most,
                -0.0,
                0.0,
                0.5,
                -1.5,
                1e-40,
                1e30,
            ];
            random.pick(&all).unwrap_or(0.0)
        }
        _ => plain,
    }
}

/// What `@main` gives.
pub fn results(ir: &Ir, args: &[Data]) -> Result<Vec<Data>, String> {
    let said = |errors: Vec<tir::Diagnostic>| {
        let messages = errors.iter().map(|e| e.message.as_str());
        messages.collect::<Vec<_>>().join("; ")
    };
    Interpreter::new(ir)
        .run(Name::new("main"), args.to_vec())
        .map_err(said)
}

/// What of two lists of results differs, as the kind of the program asks; how many elements agree.
pub fn compare(kind: Kind, left: &[Data], right: &[Data]) -> Result<usize, String> {
    let arrays =
        |all: &[Data]| -> Vec<Array> { all.iter().map(|d| d.to_array().unwrap()).collect() };
    let (left, right) = (arrays(left), arrays(right));
    let floats = left.iter().filter(|a| a.dtype().is_float());
    let largest = floats.flat_map(|a| a.iter_f64()).filter(|x| x.is_finite());
    let largest = largest.fold(1.0, |m: f64, x| m.max(x.abs()));
    let mut agree = 0;
    for (k, (a, b)) in left.iter().zip(&right).enumerate() {
        if (a.dtype(), a.shape()) != (b.dtype(), b.shape()) {
            return Err(format!("result {k} is {a:?}, then {b:?}"));
        }
        for i in 0..a.len() {
            let same = match (a.get_f64(i), b.get_f64(i)) {
                (Some(x), Some(y)) if a.dtype().is_float() => match kind {
                    Kind::Exact => x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan(),
                    // Of what is not a number these classes say nothing, nor of what comes of it.
                    _ if !x.is_finite() || largest > LARGEST => continue,
                    Kind::Finite => x == y,
                    Kind::Smooth if a.dtype() == tir::data::DType::F64 => {
                        (x - y).abs() <= 1e-9 * largest
                    }
                    Kind::Smooth => (x - y).abs() <= 2e-3 * largest,
                },
                _ => a.get_int(i) == b.get_int(i),
            };
            if !same {
                let (x, y) = (a.get_f64(i), b.get_f64(i));
                return Err(format!(
                    "result {k} at {:?}: {x:?}, then {y:?}",
                    a.unravel(i)
                ));
            }
            agree += 1;
        }
    }
    Ok(agree)
}
