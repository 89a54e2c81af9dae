//! Random small graph programs: as values, as text, and cut down to what still fails.

use tir_data::Random;

/// A value of a program.
#[derive(Clone, Debug)]
struct Node {
    shape: Vec<i64>,
    /// The type of its elements, with a layout if it has one.
    elem: &'static str,
    /// What computes it; an argument without.
    op: Option<Op>,
}

/// An op: its text, in which `$0` is the first operand, `#0` the type of it, `#r` that of the result
/// and `@` a name of its own, and its operands.
#[derive(Clone, Debug)]
struct Op {
    text: String,
    operands: Vec<usize>,
}

/// A program.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    nodes: Vec<Node>,
    results: Vec<usize>,
    /// Whether it has loops, branches, axes of no element, and convolutions of all kinds.
    rich: bool,
}

pub(crate) fn pick<'a, T>(random: &mut Random, all: &'a [T]) -> &'a T {
    &all[below(random, all.len())]
}
pub(crate) fn below(random: &mut Random, n: usize) -> usize {
    random.below(n)
}
pub(crate) fn ints(values: &[i64]) -> String {
    let all: Vec<String> = values.iter().map(i64::to_string).collect();
    all.join(", ")
}
impl Node {
    /// Whether its elements lie as the shape says: what lies otherwise is handed to nobody.
    fn is_plain(&self) -> bool {
        !self.elem.contains('#')
    }
    fn ty(&self) -> String {
        let dims: String = self.shape.iter().map(|d| format!("{d}x")).collect();
        format!("tensor<{dims}{}>", self.elem)
    }
}

impl Program {
    /// The program of a seed: so many ops at most. `rich` ones have more kinds of ops: loops and
    /// branches around others, grouped and dilated convolutions, other shapes of the same elements,
    /// and axes of no element.
    pub(crate) fn new(seed: u64, ops: usize, rich: bool) -> Self {
        let mut random = Random::new(seed);
        let mut program = Self::empty(rich);
        let mut dims = vec![1, 2, 3, 5, 8, 17];
        if rich && below(&mut random, 6) == 0 {
            dims.extend([0, 0]);
        }
        let mut d = |low: usize| *pick(&mut random, &dims[low..]);
        let shape = match seed % 3 {
            0 => vec![1, d(0), d(2), d(2)],
            1 => vec![d(1), d(1)],
            _ => vec![d(0), d(1), d(1)],
        };
        program.argument(shape);
        for _ in 0..ops {
            program.grow(&mut random);
        }
        program.close(&mut random);
        program
    }

    /// A program of nothing.
    pub(crate) fn empty(rich: bool) -> Self {
        Self {
            nodes: Vec::new(),
            results: Vec::new(),
            rich,
        }
    }
    /// Gives what nobody reads, and some values that others read.
    pub(crate) fn close(&mut self, random: &mut Random) {
        let used: Vec<usize> = (self.nodes.iter())
            .filter_map(|node| node.op.as_ref())
            .flat_map(|op| op.operands.iter().copied())
            .collect();
        for (at, node) in self.nodes.iter().enumerate() {
            let extra = below(random, 6) == 0;
            if node.op.is_some() && node.is_plain() && (extra || !used.contains(&at)) {
                self.results.push(at);
            }
        }
    }

    /// A new argument of `f32`.
    pub(crate) fn argument(&mut self, shape: Vec<i64>) -> usize {
        let (elem, op) = ("f32", None);
        self.nodes.push(Node { shape, elem, op });
        self.nodes.len() - 1
    }
    fn op(&mut self, text: impl Into<String>, operands: &[usize], shape: Vec<i64>) {
        self.op_of("f32", text, operands, shape);
    }
    /// What an op gives, of these elements.
    pub(crate) fn op_of(
        &mut self,
        elem: &'static str,
        text: impl Into<String>,
        operands: &[usize],
        shape: Vec<i64>,
    ) -> usize {
        let text = text.into();
        let operands = operands.to_vec();
        let op = Some(Op { text, operands });
        self.nodes.push(Node { shape, elem, op });
        self.nodes.len() - 1
    }
    /// The shape of a value.
    pub(crate) fn shape(&self, at: usize) -> &[i64] {
        &self.nodes[at].shape
    }

    /// Adds one op, mostly on what was computed last.
    fn grow(&mut self, random: &mut Random) {
        let count = self.nodes.len();
        let near = count - 1 - below(random, count.min(4));
        let any = below(random, count);
        let x = *pick(random, &[near, near, any]);
        let shape = self.nodes[x].shape.clone();
        let rank = shape.len();
        if self.rich && below(random, 3) == 0 {
            return self.more(random, x, shape);
        }
        match below(random, 20) {
            0..=4 => {
                let names = ["relu", "tanh", "sigmoid", "abs", "neg"];
                let name = pick(random, &names);
                self.op(format!("graph.{name} $0 : #r"), &[x], shape);
            }
            5..=9 => self.pair(random, x, shape),
            10 | 11 if rank > 0 => self.reduction(random, x, shape),
            12 if rank > 1 => self.transpose(random, x, &shape),
            13 if rank > 0 => {
                let axis = below(random, rank);
                let text = format!("graph.softmax $0 {{axis = {axis}}} : (#0) -> #r");
                self.op(text, &[x], shape);
            }
            14 if rank > 0 => self.part(random, x, &shape),
            15 if rank > 0 => {
                let axis = below(random, rank);
                let mut sum = shape;
                sum[axis] *= 2;
                let y = self.like(random, x);
                let text = format!("graph.concat $0, $1 {{axis = {axis}}} : (#0, #1) -> #r");
                self.op(text, &[x, y], sum);
            }
            16 if rank > 0 => {
                let whole = vec![shape.iter().product()];
                self.op("graph.reshape $0 : #0 to #r", &[x], whole);
            }
            _ => match shape[..] {
                [n, c, h, w] if (1..=600).contains(&(h * w)) => {
                    self.windows(random, x, [n, c, h, w])
                }
                [m, k] => {
                    let n = *pick(random, &[1, 3, 16, 18]);
                    let w = self.argument(vec![k, n]);
                    let text = "graph.matmul $0, $1 : (#0, #1) -> #r";
                    self.op(text, &[x, w], vec![m, n]);
                }
                _ => self.op("graph.tanh $0 : #r", &[x], shape),
            },
        }
    }

    /// Adds an op of those that only rich programs have.
    fn more(&mut self, random: &mut Random, x: usize, shape: Vec<i64>) {
        match (below(random, 6), &shape[..]) {
            (0 | 1, _) => self.repeated(random, x, shape),
            (2, [_, ..]) => self.split(random, x, shape),
            (3, [_, _, ..]) => self.transpose(random, x, &shape),
            (4, [.., last]) if *last > 1 => {
                let (scale, bias) = (self.argument(vec![*last]), self.argument(vec![*last]));
                let axis = shape.len() - 1;
                let text =
                    format!("graph.layer_norm $0, $1, $2 {{axis = {axis}}} : (#0, #1, #2) -> #r");
                self.op(text, &[x, scale, bias], shape.clone());
            }
            (_, &[n, c, h, w]) if (1..=600).contains(&(h * w)) && c > 0 => {
                self.grouped(random, x, [n, c, h, w]);
            }
            (_, &[m, k]) => {
                // What is read transposed, and as a batch.
                let w = self.argument(vec![3, k, 8]);
                let text = "graph.matmul $0, $1 : (#0, #1) -> #r";
                self.op(text, &[x, w], vec![3, m, 8]);
            }
            _ => self.op("graph.gelu $0 : #r", &[x], shape),
        }
    }

    /// An axis as two, or two as one.
    fn split(&mut self, random: &mut Random, x: usize, mut shape: Vec<i64>) {
        let at = below(random, shape.len());
        let n = shape[at];
        if at + 1 < shape.len() && below(random, 2) == 0 {
            shape[at] = n * shape.remove(at + 1);
        } else {
            let by = [2, 3, n.max(1)].into_iter().find(|by| n % by == 0);
            let by = by.unwrap_or(1);
            shape[at] = n / by;
            shape.insert(at + 1, by);
        }
        self.op("graph.reshape $0 : #0 to #r", &[x], shape);
    }

    /// Ops in a loop, some of them in a branch, that keep the shape.
    fn repeated(&mut self, random: &mut Random, x: usize, shape: Vec<i64>) {
        let (step, weights) = match shape[..] {
            [_, k] => ("graph.matmul %h, $1 : (#0, #1) -> #r", Some(vec![k, k])),
            [_, c, h, w] if c > 0 && (1..=400).contains(&(h * w)) => (
                "graph.conv2d %h, $1 {pads = array<i64: 1, 1, 1, 1>} : (#0, #1) -> #r",
                Some(vec![c, c, 3, 3]),
            ),
            _ => ("graph.mul %h, $0 : (#0, #0) -> #r", None),
        };
        let operands: Vec<usize> = [x]
            .into_iter()
            .chain(weights.map(|shape| self.argument(shape)))
            .collect();
        let trips = 1 + below(random, 3);
        let tail = *pick(random, &["tanh", "relu", "neg"]);
        let step = step.replace("%h", "%h@");
        let work = match below(random, 4) {
            0 => format!("    %b@ = {step}\n    %y@ = graph.{tail} %b@ : #r\n"),
            1 => format!(
                "    %n@ = arith.constant 1 : index\n    \
                 %c@ = arith.cmpi slt, %i@, %n@ : index\n    \
                 %y@ = loop.if %c@ -> (#r) {{\n      \
                 %b@ = {step}\n      loop.yield %b@ : #r\n    }} else {{\n      \
                 %d@ = graph.{tail} %h@ : #r\n      loop.yield %d@ : #r\n    }}\n"
            ),
            2 if shape.iter().all(|d| *d > 0) => {
                // One of two, by the turn and by an element that is a number.
                let zeros = vec!["%k@"; shape.len()].join(", ");
                format!(
                    "    %k@ = arith.constant 0 : index\n    \
                     %n@ = arith.constant 1 : index\n    \
                     %m@ = arith.constant 1.0e30 : f32\n    \
                     %u@ = arith.cmpi slt, %i@, %n@ : index\n    \
                     %e@ = tensor.extract %h@[{zeros}] : #r\n    \
                     %l@ = arith.cmpf olt, %e@, %m@ : f32\n    \
                     %c@ = arith.andi %u@, %l@ : i1\n    \
                     %b@ = {step}\n    %d@ = graph.{tail} %h@ : #r\n    \
                     %y@ = arith.select %c@, %b@, %d@ : #r\n"
                )
            }
            _ => format!(
                "    %e@ = loop.for %j@ = 0 to 2 iter_args(%g@ = %h@) -> (#r) {{\n      \
                 %d@ = graph.{tail} %g@ : #r\n      loop.yield %d@ : #r\n    }}\n    \
                 %b@ = {step}\n    \
                 %y@ = graph.add %b@, %e@ : (#r, #r) -> #r\n"
            ),
        };
        let text = format!(
            "loop.for %i@ = 0 to {trips} iter_args(%h@ = $0) -> (#r) {{\n{work}    \
             loop.yield %y@ : #r\n  }}"
        );
        self.op(text, &operands, shape);
    }

    /// A grouped, depthwise or dilated convolution, mostly with an elementwise op behind it.
    fn grouped(&mut self, random: &mut Random, x: usize, [n, c, h, w]: [i64; 4]) {
        let groups = *pick(random, &[1, c, if c % 2 == 0 { 2 } else { c }]);
        let each = *pick(random, &[1, 2, 8]);
        let kernel = *pick(random, &[1, 3.min(h.min(w)).max(1)]);
        let dilation = if h.min(w) > 2 * (kernel - 1) {
            1 + below(random, 2) as i64
        } else {
            1
        };
        let (stride, reach) = (*pick(random, &[1, 1, 2]), dilation * (kernel - 1));
        let pads = [0; 4].map(|_| *pick(random, &[0, 0, reach / 2, reach]));
        let out = |size: i64, at: usize| (size + pads[at] + pads[at + 2] - reach - 1) / stride + 1;
        let (rows, columns) = (out(h, 0), out(w, 1));
        if h <= reach || w <= reach {
            return self.op("graph.abs $0 : #r", &[x], vec![n, c, h, w]);
        }
        if rows < 1 || columns < 1 {
            return self.op("graph.abs $0 : #r", &[x], vec![n, c, h, w]);
        }
        let weights = self.argument(vec![groups * each, c / groups, kernel, kernel]);
        let dilations = ints(&[dilation, dilation]);
        let (strides, pads) = (ints(&[stride, stride]), ints(&pads));
        let text = format!(
            "graph.conv2d $0, $1 {{groups = {groups} : i64, \
             dilations = array<i64: {dilations}>, strides = array<i64: {strides}>, \
             pads = array<i64: {pads}>}} : (#0, #1) -> #r"
        );
        let shape = vec![n, groups * each, rows, columns];
        self.op(text, &[x, weights], shape.clone());
        let conv = self.nodes.len() - 1;
        if below(random, 4) != 0 {
            let name = *pick(random, &["relu", "tanh", "neg"]);
            self.op(format!("graph.{name} $0 : #r"), &[conv], shape);
        }
    }

    /// A value of the same shape: one that is there, or a new argument.
    fn like(&mut self, random: &mut Random, x: usize) -> usize {
        let shape = self.shape(x).to_vec();
        let same: Vec<usize> = (0..self.nodes.len())
            .filter(|at| self.nodes[*at].shape == shape)
            .collect();
        match below(random, 3) {
            0 => self.argument(shape),
            _ => *pick(random, &same),
        }
    }

    /// An elementwise op on two values; one may be broadcast.
    fn pair(&mut self, random: &mut Random, x: usize, shape: Vec<i64>) {
        let fits = |other: &[i64]| {
            let missing = shape.len().checked_sub(other.len());
            missing.is_some_and(|m| {
                let pairs = other.iter().zip(&shape[m..]);
                pairs.into_iter().all(|(o, s)| o == s || *o == 1)
            })
        };
        let all: Vec<usize> = (0..self.nodes.len())
            .filter(|at| fits(&self.nodes[*at].shape))
            .collect();
        let y = match below(random, 4) {
            0 => {
                let from = below(random, shape.len() + 1);
                let mut part = shape[from..].to_vec();
                for d in &mut part {
                    if below(random, 3) == 0 {
                        *d = 1;
                    }
                }
                self.argument(part)
            }
            _ => *pick(random, &all),
        };
        let name = pick(random, &["add", "sub", "mul", "max", "min"]);
        let (a, b) = if below(random, 2) == 0 {
            (x, y)
        } else {
            (y, x)
        };
        self.op(
            format!("graph.{name} $0, $1 : (#0, #1) -> #r"),
            &[a, b],
            shape,
        );
    }

    fn reduction(&mut self, random: &mut Random, x: usize, shape: Vec<i64>) {
        let mut gone: Vec<bool> = shape.iter().map(|_| below(random, 2) == 0).collect();
        let last = gone.len() - 1;
        gone[last] |= !gone.contains(&true);
        let axes: Vec<i64> = (0..gone.len())
            .filter(|d| gone[*d])
            .map(|d| d as i64)
            .collect();
        let keep = below(random, 2) == 0;
        let sizes = shape.iter().zip(&gone);
        let kept = sizes.filter(|(_, gone)| keep || !**gone);
        let kept = kept.map(|(n, gone)| if *gone { 1 } else { *n }).collect();
        // The greatest of no number is an infinity, which times the zeros that fill up a unit is none.
        let empty = axes.iter().any(|d| shape[*d as usize] == 0);
        let name = match *pick(random, &["sum", "max", "min", "mean"]) {
            "max" | "min" if empty => "sum",
            name => name,
        };
        let axes = ints(&axes);
        let text = format!("graph.reduce_{name} $0 [{axes}] {{keepdims = {keep}}} : (#0) -> #r");
        self.op(text, &[x], kept);
    }

    fn transpose(&mut self, random: &mut Random, x: usize, shape: &[i64]) {
        let mut perm: Vec<i64> = (0..shape.len() as i64).collect();
        for i in (1..perm.len()).rev() {
            perm.swap(i, below(random, i + 1));
        }
        let turned = perm.iter().map(|d| shape[*d as usize]).collect();
        let text = format!("graph.transpose $0 [{}] : (#0) -> #r", ints(&perm));
        self.op(text, &[x], turned);
    }

    /// A slice, or what is padded.
    fn part(&mut self, random: &mut Random, x: usize, shape: &[i64]) {
        let at = below(random, shape.len());
        if below(random, 2) == 0 {
            let mut low = vec![0; shape.len()];
            let mut high = low.clone();
            low[at] = below(random, 3) as i64;
            high[at] = below(random, 3) as i64;
            let sizes = shape.iter().zip(low.iter().zip(&high));
            let padded = sizes.map(|(n, (l, h))| n + l + h).collect();
            let text = format!(
                "graph.pad $0 [{}] [{}] with 1.5 : f32 : (#0) -> #r",
                ints(&low),
                ints(&high)
            );
            self.op(text, &[x], padded);
            return;
        }
        let mut starts = vec![0; shape.len()];
        let (mut steps, mut sizes) = (vec![1; shape.len()], shape.to_vec());
        starts[at] = below(random, shape[at].max(1) as usize) as i64;
        steps[at] = 1 + below(random, 2) as i64;
        sizes[at] = (shape[at] - starts[at] + steps[at] - 1).max(0) / steps[at];
        let lists = format!("[{}] [{}] [{}]", ints(&starts), ints(&sizes), ints(&steps));
        self.op(format!("graph.slice $0 {lists} : (#0) -> #r"), &[x], sizes);
    }

    /// A convolution or a pooling.
    fn windows(&mut self, random: &mut Random, x: usize, [n, c, h, w]: [i64; 4]) {
        let kernel = *pick(random, &[1, 3.min(h.min(w))]);
        let pad = (kernel / 2) * below(random, 2) as i64;
        let stride = 1 + below(random, 2) as i64;
        let out = |size: i64| (size + 2 * pad - kernel) / stride + 1;
        let pads = ints(&[pad, pad, pad, pad]);
        let strides = ints(&[stride, stride]);
        let common = format!("pads = array<i64: {pads}>, strides = array<i64: {strides}>");
        if below(random, 3) == 0 {
            let name = pick(random, &["max", "avg"]);
            let kernels = ints(&[kernel, kernel]);
            let text = format!(
                "graph.{name}_pool $0 {{kernel = array<i64: {kernels}>, {common}}} : (#0) -> #r"
            );
            self.op(text, &[x], vec![n, c, out(h), out(w)]);
            return;
        }
        let o = *pick(random, &[1, 3, 16, 17, c]);
        let weights = self.argument(vec![o, c, kernel, kernel]);
        let text = format!("graph.conv2d $0, $1 {{{common}}} : (#0, #1) -> #r");
        self.op(text, &[x, weights], vec![n, o, out(h), out(w)]);
    }

    /// The values that are needed, operands before their users.
    fn needed(&self) -> Vec<usize> {
        let mut needed = vec![false; self.nodes.len()];
        for at in &self.results {
            needed[*at] = true;
        }
        for at in (0..self.nodes.len()).rev() {
            if let (true, Some(op)) = (needed[at], &self.nodes[at].op) {
                op.operands.iter().for_each(|o| needed[*o] = true);
            }
        }
        (0..self.nodes.len()).filter(|at| needed[*at]).collect()
    }

    /// The types of the arguments, as shapes.
    pub(crate) fn arguments(&self) -> Vec<Vec<i64>> {
        let needed = self.needed().into_iter().map(|at| &self.nodes[at]);
        let arguments = needed.filter(|node| node.op.is_none());
        arguments.map(|node| node.shape.clone()).collect()
    }

    /// The program as text.
    pub(crate) fn text(&self) -> String {
        let (mut arguments, mut body) = (Vec::new(), String::new());
        for at in self.needed() {
            let node = &self.nodes[at];
            let Some(op) = &node.op else {
                arguments.push(format!("%v{at}: {}", node.ty()));
                continue;
            };
            let mut text = op.text.replace("#r", &node.ty());
            text = text.replace('@', &at.to_string());
            for (i, operand) in op.operands.iter().enumerate() {
                text = text.replace(&format!("${i}"), &format!("%v{operand}"));
                text = text.replace(&format!("#{i}"), &self.nodes[*operand].ty());
            }
            body += &format!("  %v{at} = {text}\n");
        }
        let results: Vec<String> = self.results.iter().map(|r| format!("%v{r}")).collect();
        let types: Vec<String> = self.results.iter().map(|r| self.nodes[*r].ty()).collect();
        let (arguments, results, types) =
            (arguments.join(", "), results.join(", "), types.join(", "));
        format!(
            "func.func @main({arguments}) -> ({types}) {{\n{body}  func.return {results} : {types}\n}}\n"
        )
    }

    /// A smaller program that still fails: results are left out, and what is computed becomes an
    /// argument.
    pub(crate) fn shrunk(mut self, fails: impl Fn(&Self) -> bool) -> Self {
        loop {
            let less = (0..self.results.len())
                .filter(|_| self.results.len() > 1)
                .map(|i| {
                    let mut less = self.clone();
                    less.results.remove(i);
                    less
                });
            let given = self
                .needed()
                .into_iter()
                .filter(|at| self.nodes[*at].op.is_some());
            let free = |at: &usize| !self.results.contains(at) && self.nodes[*at].elem == "f32";
            let given = given.filter(free).map(|at| {
                let mut less = self.clone();
                less.nodes[at].op = None;
                less
            });
            let ends = (self.results.iter().enumerate()).flat_map(|(i, at)| {
                let operands = self.nodes[*at].op.iter().flat_map(|op| op.operands.iter());
                let computed = operands
                    .map(|o| (o, &self.nodes[*o]))
                    .filter(|(_, node)| node.op.is_some() && node.is_plain())
                    .map(|(o, _)| o);
                let shorter = computed.map(|o| {
                    let mut less = self.clone();
                    less.results[i] = *o;
                    less
                });
                shorter.collect::<Vec<_>>()
            });
            match less.chain(ends).chain(given).find(|less| fails(less)) {
                Some(less) => self = less,
                None => return self,
            }
        }
    }
}
