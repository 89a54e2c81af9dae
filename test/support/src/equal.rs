//! Random programs of operators on tensors (`operators`), with control flow around them, and whether two of them give the
//! same (`compare`).
//!
//! *Terms.* The **kind** of a program says which classes of rules may fire, and so which ops it has, from which values, and
//! how near its results have to be: a program to which only exact rules apply has all ops and the extremes of all types,
//! and every bit counts; one to which all rules apply has floats only where what is computed depends on them smoothly.
//!
//! *Invariants.* A seed gives one program and one list of arguments. Integers are compared bit by bit in every kind.

mod compare;
mod operators;

use std::fmt::Write;

use tir::data::Random;

pub use compare::{arguments, compare, results};

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
            (vec![1, d[1]], float),
            (vec![d[1]], float),
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
                which => self.operator(which, scope, condition),
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
        // Of several shapes: a loop that uses some of them from outside tells them apart by more than their types.
        let spreads = |i: &Item| {
            let behind = x.shape.len().checked_sub(i.shape.len());
            let dims = behind.map(|from| i.shape.iter().zip(&x.shape[from..]));
            i.elem == x.elem && dims.is_some_and(|mut dims| dims.all(|(n, m)| *n == 1 || n == m))
        };
        if self.random.percent(40)
            && let Some(y) = self.pick(scope, spreads)
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

    /// Two products with the same factor, added: rules take the factor out, and meet what all three are computed from in
    /// another order.
    fn factored(&mut self, scope: &[Item], x: &Item) -> Option<Vec<Item>> {
        let (c, y) = (self.beside(scope, x)?, self.beside(scope, x)?);
        let rank = c.shape.len().max(y.shape.len());
        let dim = |i: &Item, d: usize| {
            (d + i.shape.len())
                .checked_sub(rank)
                .map_or(1, |d| i.shape[d])
        };
        let wide: Vec<usize> = (0..rank).map(|d| dim(&c, d).max(dim(&y, d))).collect();
        let x = self
            .op("graph.mul", &[x, &c], "", &x.shape, x.elem)?
            .pop()?;
        let y = self.op("graph.mul", &[&y, &c], "", &wide, y.elem)?.pop()?;
        let mut made = self.op("graph.add", &[&x, &y], "", &x.shape, x.elem)?;
        let tame = self.tame(made.pop()?)?;
        Some(vec![x, y, tame])
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
            if self.random.percent(60) {
                let made = self.factored(scope, &acc).unwrap_or_default();
                inner.extend(made);
            }
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
