//! Random programs on tensors.
#![allow(dead_code)]

use std::fmt::Write;

use tir::data::Random;

const HEAD: &str = r#"
!M = tensor<4x4xf32>
!H = tensor<2x4xf32>
!L = tensor<16xf32>
#id = affine_map<(i, j) -> (i, j)>
#tr = affine_map<(i, j) -> (j, i)>
#row = affine_map<(i, j) -> (i)>
#x = affine_map<(i, j, k) -> (i, k)>
#y = affine_map<(i, j, k) -> (k, j)>
#z = affine_map<(i, j, k) -> (i, j)>
"#;

/// A program under construction.
pub(crate) struct Maker {
    random: Random,
    text: String,
    names: usize,
    /// Values in scope: 4x4, 2x4.
    scope: [Vec<String>; 2],
    /// Loop counters in scope, each 0 to 2.
    counters: Vec<String>,
    depth: usize,
    /// Whether branches between blocks, calls and near tiles are made.
    wide: bool,
    /// Whether conditions may be an argument of the function.
    conditional: bool,
}

impl Maker {
    fn below(&mut self, n: usize) -> usize {
        self.random.below(n)
    }
    fn name(&mut self) -> String {
        self.names += 1;
        format!("%v{}", self.names)
    }
    fn pick(&mut self, kind: usize) -> String {
        let n = self.scope[kind].len();
        // Younger values more often.
        let at = self.below(n).max(self.below(n));
        self.scope[kind][at].clone()
    }
    fn offset(&mut self) -> String {
        match self.below(4) {
            0 if !self.counters.is_empty() => {
                let i = self.below(self.counters.len());
                self.counters[i].clone()
            }
            n => (n % 3).to_string(),
        }
    }
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.text, "{}{text}", "  ".repeat(self.depth + 1));
    }
    fn keep(&mut self, kind: usize, name: &str) {
        self.scope[kind].push(name.to_string());
    }

    fn generic(&mut self) {
        let kind = self.below(2);
        let ty = ["!M", "!H"][kind];
        let name = self.name();
        let (a, mut b, mut out) = (self.pick(kind), self.pick(kind), self.pick(kind));
        if self.below(3) == 0 {
            let empty = self.name();
            self.line(&format!("{empty} = tensor.empty() : {ty}"));
            out = empty;
        }
        if self.below(4) == 0 {
            b = out.clone();
        }
        let undefined = !self.scope[kind].contains(&out);
        let how = self.below(if undefined { 2 } else { 4 });
        if undefined && b == out {
            b = a.clone();
        }
        let (maps, kinds, combine) = match how {
            0 => ("#id, #id, #id", "\"parallel\", \"parallel\"", ""),
            1 if kind == 0 => ("#id, #tr, #id", "\"parallel\", \"parallel\"", ""),
            2 if kind == 0 => (
                "#x, #y, #z",
                "\"parallel\", \"parallel\", \"reduction\"",
                "combine add ",
            ),
            3 => (
                "#id, #id, #id",
                "\"parallel\", \"parallel\"",
                "combine max ",
            ),
            _ => ("#id, #id, #id", "\"parallel\", \"parallel\"", ""),
        };
        self.line(&format!("{name} = tensor.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}} ins({a}, {b} : {ty}, {ty}) outs({out} : {ty}) {combine}{{"));
        self.line("^bb0(%s: f32, %t: f32):");
        let op = ["addf", "mulf", "subf"][self.below(3)];
        self.line(&format!("  %u = arith.{op} %s, %t : f32"));
        self.line("  tensor.yield %u : f32");
        self.line(&format!("}} -> {ty}"));
        self.keep(kind, &name);
    }

    fn slice(&mut self) {
        let name = self.name();
        let (whole, offset) = (self.pick(0), self.offset());
        if self.below(2) == 0 {
            self.line(&format!(
                "{name} = tensor.extract_slice {whole}[{offset}, 0] [2, 4] [1, 1] : !M to !H"
            ));
            return self.keep(1, &name);
        }
        let part = self.pick(1);
        self.line(&format!("{name} = tensor.insert_slice {part} into {whole}[{offset}, 0] [2, 4] [1, 1] : !H into !M"));
        self.keep(0, &name);
    }

    /// Take a part out, work on it, put it back.
    fn update(&mut self) {
        let (part, done, name) = (self.name(), self.name(), self.name());
        let (whole, offset) = (self.pick(0), self.offset());
        self.line(&format!(
            "{part} = tensor.extract_slice {whole}[{offset}, 0] [2, 4] [1, 1] : !M to !H"
        ));
        let other = self.pick(1);
        self.line(&format!("{done} = tensor.generic {{indexing_maps = [#id, #id], iterator_types = [\"parallel\", \"parallel\"]}} ins({other} : !H) outs({part} : !H) combine add {{"));
        self.line("^bb0(%s: f32):");
        self.line("  tensor.yield %s : f32");
        self.line("} -> !H");
        self.line(&format!("{name} = tensor.insert_slice {done} into {whole}[{offset}, 0] [2, 4] [1, 1] : !H into !M"));
        self.keep(0, &name);
        if self.below(3) == 0 {
            self.keep(1, &done);
        }
    }

    fn transfer(&mut self) {
        let name = self.name();
        let (large, offset) = (self.pick(0), self.offset());
        let shift = self.below(5) as i64 - 2;
        if self.below(2) == 0 {
            self.line(&format!("{name} = tensor.transfer_read {large}[{offset}, {shift}] access (r, c) -> (c, r) : !M to !M"));
        } else {
            let tile = self.pick(1);
            self.line(&format!("{name} = tensor.transfer_write {tile} into {large}[{shift}, {offset}] access (r, c) -> (c, r) : !H into !M"));
        }
        self.keep(0, &name);
    }

    fn reshape(&mut self) {
        let (flat, name) = (self.name(), self.name());
        let src = self.pick(0);
        self.line(&format!(
            "{flat} = tensor.collapse_shape {src} [[0, 1]] : !M into !L"
        ));
        self.line(&format!(
            "{name} = tensor.expand_shape {flat} [[0, 1]] : !L into !M"
        ));
        self.keep(0, &name);
    }

    fn nested(&mut self, ops: usize) {
        self.depth += 1;
        self.ops(ops);
        self.depth -= 1;
    }

    fn for_(&mut self) {
        let count = 1 + self.below(3);
        let init: Vec<String> = (0..count).map(|_| self.pick(0)).collect();
        let args: Vec<String> = (0..count).map(|_| self.name()).collect();
        let (name, counter) = (self.name(), self.name());
        let pairs: Vec<String> = args
            .iter()
            .zip(&init)
            .map(|(a, i)| format!("{a} = {i}"))
            .collect();
        let types = vec!["!M"; count].join(", ");
        let trips = self.below(4);
        self.line(&format!(
            "{name}:{count} = loop.for {counter} = 0 to {trips} iter_args({}) -> ({types}) {{",
            pairs.join(", ")
        ));
        let scope = self.scope.clone();
        self.scope[0].extend(args.clone());
        if trips <= 3 {
            self.counters.push(counter.clone());
        }
        let ops = 1 + self.below(4);
        self.nested(ops);
        let yields: Vec<String> = (0..count).map(|_| self.pick(0)).collect();
        self.line(&format!("  loop.yield {} : {types}", yields.join(", ")));
        self.line("}");
        self.scope = scope;
        self.counters.retain(|c| *c != counter);
        for i in 0..count {
            self.keep(0, &format!("{name}#{i}"));
        }
    }

    fn if_(&mut self) {
        let cond = self.condition();
        let name = self.name();
        self.line(&format!("{name} = loop.if {cond} -> (!M) {{"));
        for side in 0..2 {
            let scope = self.scope.clone();
            let ops = self.below(3);
            self.nested(ops);
            let value = self.pick(0);
            self.line(&format!("  loop.yield {value} : !M"));
            self.line(if side == 0 { "} else {" } else { "}" });
            self.scope = scope;
        }
        self.keep(0, &name);
    }

    /// A tile in near memory, and what is made of it.
    fn near(&mut self) {
        let (tile, empty, sum, name) = (self.name(), self.name(), self.name(), self.name());
        let (large, offset) = (self.pick(0), self.offset());
        self.line(&format!("{tile} = tensor.transfer_read {large}[{offset}, 0] access (r, c) -> (r, c) {{space = \"spm\"}} : !M to !H"));
        self.line(&format!(
            "{empty} = tensor.empty() {{space = \"spm\"}} : !H"
        ));
        let other = self.pick(1);
        let (near, out) = match self.below(3) {
            0 => (other, tile.clone()),
            1 => (tile.clone(), empty),
            _ => (other, empty),
        };
        self.line(&format!("{sum} = tensor.generic {{indexing_maps = [#id, #id, #id], iterator_types = [\"parallel\", \"parallel\"]}} ins({tile}, {near} : !H, !H) outs({out} : !H) {{"));
        self.line("^bb0(%s: f32, %t: f32):");
        self.line("  %u = arith.addf %s, %t : f32");
        self.line("  tensor.yield %u : f32");
        self.line("} -> !H");
        if self.below(2) == 0 {
            return self.keep(1, &sum);
        }
        let whole = self.pick(0);
        self.line(&format!("{name} = tensor.transfer_write {sum} into {whole}[{offset}, 0] access (r, c) -> (r, c) : !H into !M"));
        self.keep(0, &name);
    }

    /// A condition that yields a tile, far or near.
    fn if_half(&mut self) {
        let name = self.name();
        let cond = self.condition();
        self.line(&format!("{name} = loop.if {cond} -> (!H) {{"));
        for side in 0..2 {
            let scope = self.scope.clone();
            self.depth += 1;
            if self.below(3) > 0 {
                self.near();
            } else {
                self.slice();
            }
            self.depth -= 1;
            let value = self.pick(1);
            self.line(&format!("  loop.yield {value} : !H"));
            self.line(if side == 0 { "} else {" } else { "}" });
            self.scope = scope;
        }
        self.keep(1, &name);
    }

    /// One of two tensors, which may lie in different spaces.
    fn select(&mut self) {
        let kind = self.below(2);
        let ty = ["!M", "!H"][kind];
        let cond = self.condition();
        let name = self.name();
        let (a, b) = (self.pick(kind), self.pick(kind));
        self.line(&format!("{name} = arith.select {cond}, {a}, {b} : {ty}"));
        self.keep(kind, &name);
    }

    /// An element, and a tensor that it is added to.
    fn extract(&mut self) {
        let kind = self.below(2);
        let (ty, rows) = [("!M", "%three"), ("!H", "%one")][kind];
        let (element, name) = (self.name(), self.name());
        let row = match self.counters.last() {
            Some(counter) if kind == 0 => counter.clone(),
            _ => rows.to_string(),
        };
        let (from, into) = (self.pick(kind), self.pick(kind));
        self.line(&format!(
            "{element} = tensor.extract {from}[{row}, %two] : {ty}"
        ));
        self.line(&format!("{name} = tensor.generic {{indexing_maps = [#id], iterator_types = [\"parallel\", \"parallel\"]}} ins() outs({into} : {ty}) combine add {{"));
        self.line(&format!("  tensor.yield {element} : f32"));
        self.line(&format!("}} -> {ty}"));
        self.keep(kind, &name);
    }

    fn condition(&mut self) -> String {
        if self.conditional && self.below(2) == 0 {
            return "%p".to_string();
        }
        let cond = self.name();
        let left = match self.counters.last() {
            Some(counter) => counter.clone(),
            None => "%one".to_string(),
        };
        self.line(&format!("{cond} = arith.cmpi ult, {left}, %one : index"));
        cond
    }

    fn call(&mut self) {
        let name = self.name();
        let (a, b) = (self.pick(0), self.pick(0));
        self.line(&format!(
            "{name} = func.call @callee({a}, {b}) : (!M, !M) -> !M"
        ));
        self.keep(0, &name);
    }

    fn label(&mut self) -> String {
        self.names += 1;
        format!("^b{}", self.names)
    }

    /// Two ways that meet again, each with what it hands on; or one that goes round.
    fn branches(&mut self) {
        let argument = self.name();
        if self.below(2) == 0 {
            let (yes, no, end) = (self.label(), self.label(), self.label());
            let cond = self.condition();
            self.line(&format!("cf.cond_br {cond}, {yes}, {no}"));
            for label in [yes, no] {
                let scope = self.scope.clone();
                self.line(&format!("{label}:"));
                let ops = self.below(4);
                self.ops(ops);
                let value = self.pick(0);
                self.line(&format!("cf.br {end}({value} : !M)"));
                self.scope = scope;
            }
            self.line(&format!("{end}({argument}: !M):"));
            return self.keep(0, &argument);
        }
        let (head, end) = (self.label(), self.label());
        let (count, next, again, result) = (self.name(), self.name(), self.name(), self.name());
        let second = self.name();
        let trips = 1 + self.below(3);
        let (a, b) = (self.pick(0), self.pick(0));
        self.line(&format!("cf.br {head}(%zero, {a}, {b} : index, !M, !M)"));
        self.line(&format!(
            "{head}({count}: index, {argument}: !M, {second}: !M):"
        ));
        self.keep(0, &argument);
        self.keep(0, &second);
        let ops = 1 + self.below(4);
        self.counters.push(count.clone());
        self.ops(ops);
        self.counters.retain(|c| *c != count);
        let (a, b, c) = (self.pick(0), self.pick(0), self.pick(0));
        self.line(&format!("{next} = arith.addi {count}, %one : index"));
        let bound = ["%one", "%two", "%three"][trips - 1];
        self.line(&format!(
            "{again} = arith.cmpi ult, {next}, {bound} : index"
        ));
        self.line(&format!(
            "cf.cond_br {again}, {head}({next}, {a}, {b} : index, !M, !M), {end}({c} : !M)"
        ));
        self.line(&format!("{end}({result}: !M):"));
        self.keep(0, &result);
    }

    fn ops(&mut self, count: usize) {
        for _ in 0..count {
            match self.below(if self.wide { 25 } else { 19 }) {
                19..=20 => self.near(),
                21 => self.if_half(),
                22 => self.call(),
                23..=24 if self.depth == 0 => self.branches(),
                16..=17 => self.select(),
                18 => self.extract(),
                0..=4 => self.generic(),
                5..=6 => self.slice(),
                7..=8 => self.update(),
                9..=10 => self.transfer(),
                11 => self.reshape(),
                12..=13 if self.depth < 3 => self.for_(),
                14..=15 if self.depth < 3 => self.if_(),
                _ => self.generic(),
            }
        }
    }
}

/// A function `@f(%a: !M, %b: !M, %h: !H, %p: i1) -> (!M, !M)`. If it is `wide` it has branches
/// between blocks, calls and tiles in near memory; if it is `conditional` some of its conditions
/// are `%p`.
pub(crate) fn program(seed: u64, wide: bool, conditional: bool) -> String {
    let mut maker = Maker {
        random: Random::new(seed),
        text: HEAD.to_string(),
        names: 0,
        scope: [
            vec!["%a".into(), "%b".into(), "%k".into()],
            vec!["%h".into()],
        ],
        counters: Vec::new(),
        depth: 0,
        wide,
        conditional,
    };
    maker
        .text
        .push_str("func.func @f(%a: !M, %b: !M, %h: !H, %p: i1) -> (!M, !M) {\n");
    maker.line("%zero = arith.constant 0 : index");
    maker.line("%one = arith.constant 1 : index");
    maker.line("%two = arith.constant 2 : index");
    maker.line("%three = arith.constant 3 : index");
    maker.line("%k = arith.constant dense<0.25> : !M");
    let ops = 3 + maker.below(8);
    maker.ops(ops);
    let (x, y) = (maker.pick(0), maker.pick(0));
    maker.line(&format!("func.return {x}, {y} : !M, !M"));
    maker.text.push_str("}\n");
    if wide {
        maker.text.push_str(CALLEE);
    }
    maker.text
}

const CALLEE: &str = r#"func.func private @callee(%a: !M, %b: !M) -> !M {
  %e = tensor.empty() : !M
  %r = tensor.generic {indexing_maps = [#id, #tr, #id], iterator_types = ["parallel", "parallel"]} ins(%a, %b : !M, !M) outs(%e : !M) {
  ^bb0(%s: f32, %t: f32):
    %u = arith.subf %s, %t : f32
    tensor.yield %u : f32
  } -> !M
  func.return %r : !M
}
"#;
