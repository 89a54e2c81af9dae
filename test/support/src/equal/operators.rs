//! Random operators in a program: what each kind of program may hold, on values that are there.
//!
//! *Terms.* Ops are **siblings** if they take one input, as products that a rule may make one product.
//!
//! *Invariants.* Each function writes lines that verify and gives what they define, or gives nothing where no value that is
//! there fits; what it then has written is of no use to it, and does no harm.

use super::{Item, Kind, Maker, array, ty};

impl Maker {
    /// Operators of a family: a number of 1 to 11, some of which are of one family.
    pub(super) fn operator(
        &mut self,
        which: usize,
        scope: &[Item],
        condition: &str,
    ) -> Option<Vec<Item>> {
        match which {
            1 => self.view(scope, condition),
            2 | 3 => self.window(scope),
            4 | 5 => self.movement(scope),
            6 if self.fixed => self.fixed(scope),
            6 => self.reduction(scope),
            7 => self.siblings(scope),
            8 => self.mixed(scope),
            _ => self.pointwise(scope),
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
        match self.below(9) {
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
            6 => {
                let mut to = shape.clone();
                let (at, times) = (self.below(rank), 2 + self.below(2));
                to[at] = (to[at] * times).div_ceil(1 + self.below(2));
                let linear = x.is_float() && self.random.percent(40);
                let mode = if linear { "linear" } else { "nearest" };
                let coordinates = self.one(&[
                    "half_pixel",
                    "align_corners",
                    "asymmetric",
                    "pytorch_half_pixel",
                ])?;
                let rounding = self.one(&["floor", "ceil", "round_prefer_floor"])?;
                let attrs = format!(
                    "mode = \"{mode}\", coordinates = \"{coordinates}\", rounding = \"{rounding}\""
                );
                let x = if linear { self.tame(x)? } else { x };
                self.op("graph.resize", &[&x], &attrs, &to, elem)
            }
            // Elements repeated along some dimensions.
            7 => {
                let times: Vec<usize> = (0..rank).map(|_| 1 + self.below(2)).collect();
                let apart: Vec<usize> = shape.iter().flat_map(|n| [*n, 1]).collect();
                let pairs = shape.iter().zip(&times);
                let repeated: Vec<usize> = pairs.clone().flat_map(|(n, k)| [*n, *k]).collect();
                let to: Vec<usize> = pairs.map(|(n, k)| n * k).collect();
                (rank <= 4).then_some(())?;
                // Dimensions that are not repeated have no dimension of 1 behind them.
                let is_kept = |i: &usize| i.is_multiple_of(2) || times[i / 2] > 1;
                let kept = |all: &[usize]| -> Vec<usize> {
                    (0..all.len()).filter(is_kept).map(|i| all[i]).collect()
                };
                let apart = self
                    .op("graph.reshape", &[&x], "", &kept(&apart), elem)?
                    .pop()?;
                let wide = self
                    .op("graph.expand", &[&apart], "", &kept(&repeated), elem)?
                    .pop()?;
                self.op("graph.reshape", &[&wide], "", &to, elem)
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
        if x.is_float() && self.kind == Kind::Smooth && self.random.percent(15) {
            let last = [x.shape[rank - 1]];
            let (s, b) = (self.constant(&last, x.elem)?, self.constant(&last, x.elem)?);
            let attrs = format!("axis = {} : i64, epsilon = 0.5 : f64", rank - 1);
            let (x, to) = (self.tame(x.clone())?, x.shape);
            return self.op("graph.layer_norm", &[&x, &s, &b], &attrs, &to, x.elem);
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
        if self.random.percent(20) {
            let x = self.pick(scope, |i| !i.shape.is_empty() && i.is_float())?;
            let (axis, rows) = (self.below(x.shape.len()), 1 + self.below(4));
            let m = self.constant(&[rows, x.shape[axis]], x.elem)?;
            let x = self.tame(x)?;
            let mut to = x.shape.clone();
            to[axis] = rows;
            let attrs = format!("axis = {axis} : i64");
            return self.op("graph.mode_product", &[&x, &m], &attrs, &to, x.elem);
        }
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
}
