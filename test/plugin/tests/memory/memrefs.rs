//! Random programs on buffers: everything that a buffer can go through.

use std::fmt::Write;

use tir::data::Random;

const HEAD: &str = r#"
!D = memref<16xf32, "dram">
!T = memref<16xf32, "spm">
!S = memref<4x4xf32, "spm">
!L = memref<8xf32, strided<[1]>, "spm">
!H = memref<8xf32, strided<[1], offset: 8>, "spm">
!P = memref<8xf32, strided<[1], offset: ?>, "spm">
!U = memref<?xf32, strided<[?], offset: ?>, "spm">
!B = memref<64xi8, "spm">
#id = affine_map<(i) -> (i)>
"#;

const CALLEES: &str = r#"
func.func private @pick(%c: i1, %a: !T, %b: !T) -> !T {
  %r = arith.select %c, %a, %b : !T
  func.return %r : !T
}
func.func private @bump(%a: !T) {
  loop.for %i = 0 to 16 {
    %v = memref.load %a[%i] : !T
    %w = arith.addf %v, %v : f32
    memref.store %w, %a[%i] : !T
  }
  func.return
}
"#;

struct Maker {
    random: Random,
    text: String,
    names: usize,
    /// Buffers in scope that hold something, all of type `!T`.
    tiles: Vec<String>,
    /// Indices in scope.
    indices: Vec<String>,
    depth: usize,
    /// Whether conditions may depend on data.
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
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.text, "{}{text}", "  ".repeat(self.depth + 1));
    }
    fn tile(&mut self) -> String {
        let n = self.tiles.len();
        // Younger ones more often.
        let at = self.below(n).max(self.below(n));
        self.tiles[at].clone()
    }
    fn index(&mut self) -> String {
        let at = self.below(self.indices.len());
        self.indices[at].clone()
    }
    fn input(&mut self) -> &'static str {
        ["%x", "%z"][self.below(2)]
    }
    fn condition(&mut self) -> String {
        if self.conditional && self.below(2) == 0 {
            return "%c".to_string();
        }
        let name = self.name();
        let index = self.index();
        self.line(&format!("{name} = arith.cmpi ult, {index}, %one : index"));
        name
    }
    /// A half of a tile, and its type.
    fn half(&mut self, of: &str) -> (String, &'static str) {
        let name = self.name();
        let index = self.index();
        match self.below(4) {
            0 => {
                self.line(&format!(
                    "{name} = memref.subview {of}[0] [8] [1] : !T to !L"
                ));
                (name, "!L")
            }
            1 => {
                self.line(&format!(
                    "{name} = memref.subview {of}[8] [8] [1] : !T to !H"
                ));
                (name, "!H")
            }
            2 => {
                self.line(&format!("{name} = fixed.half {of}[{index}] : !T"));
                (name, "!P")
            }
            _ => {
                let (wrapped, offset) = (self.name(), self.name());
                self.line(&format!("{wrapped} = fixed.wrap {index} mod 2"));
                self.line(&format!("{offset} = arith.muli {wrapped}, %eight : index"));
                self.line(&format!(
                    "{name} = memref.subview {of}[{offset}] [8] [1] : !T to !P"
                ));
                (name, "!P")
            }
        }
    }

    /// A new buffer, and how it gets its content: at once, or behind some other ops.
    fn alloc(&mut self) {
        let name = self.name();
        if self.below(4) == 0 {
            let bytes = self.name();
            self.line(&format!("{bytes} = memref.alloc() : !B"));
            self.line(&format!("{name} = memref.view {bytes}[%zero][] : !B to !T"));
        } else {
            self.line(&format!("{name} = memref.alloc() : !T"));
        }
        if self.below(3) == 0 {
            let ops = self.below(3);
            self.ops(ops);
        }
        if self.below(3) == 0 && !self.tiles.is_empty() {
            let from = self.tile();
            self.line(&format!("memref.copy {from}, {name} : !T to !T"));
        } else {
            let from = self.input();
            self.line(&format!("memref.copy {from}, {name} : !D to !T"));
        }
        self.tiles.push(name);
    }

    fn work(&mut self) {
        let (a, b) = (self.tile(), self.tile());
        match self.below(7) {
            0 => self.line(&format!("memref.copy {a}, {b} : !T to !T")),
            1 => {
                let input = self.input();
                self.line(&format!("memref.copy {input}, {a} : !D to !T"));
            }
            2 => {
                let out = ["%y", "%w"][self.below(2)];
                self.line(&format!("memref.copy {a}, {out} : !T to !D"));
            }
            3 => {
                let ((a, from), (b, to)) = (self.half(&a), self.half(&b));
                self.line(&format!("memref.copy {a}, {b} : {from} to {to}"));
            }
            4 => {
                let (value, sum, i) = (self.name(), self.name(), self.index());
                let j = self.index();
                self.line(&format!("{value} = memref.load {a}[{i}] : !T"));
                self.line(&format!("{sum} = arith.addf {value}, %half : f32"));
                self.line(&format!("memref.store {sum}, {b}[{j}] : !T"));
            }
            5 => {
                let (half, ty) = self.half(&a);
                let (input, offset) = (self.input(), 8 * self.below(2));
                self.line(&format!("memref.transfer_read {input}[{offset}] into {half} access (r) -> (r) : !D to {ty}"));
            }
            _ => {
                self.line(&format!("tensor.generic {{indexing_maps = [#id, #id], iterator_types = [\"parallel\"]}} ins({a} : !T) outs({b} : !T) {{"));
                self.line("^bb0(%s: f32):");
                self.line("  %u = arith.mulf %s, %half : f32");
                self.line("  tensor.yield %u : f32");
                self.line("}");
            }
        }
    }

    /// The same buffer under another name, or one of two.
    fn alias(&mut self) {
        let name = self.name();
        let (a, b) = (self.tile(), self.tile());
        match self.below(6) {
            0 => {
                let condition = self.condition();
                self.line(&format!("{name} = arith.select {condition}, {a}, {b} : !T"));
            }
            5 => {
                let less = self.name();
                self.line(&format!("{less} = memref.cast {a} : !T to !U"));
                self.line(&format!("{name} = memref.cast {less} : !U to !T"));
            }
            1 => {
                let index = self.index();
                self.line(&format!("{name} = fixed.either {a}, {b} by {index} : !T"));
            }
            2 => {
                let condition = self.condition();
                self.line(&format!(
                    "{name} = func.call @pick({condition}, {a}, {b}) : (i1, !T, !T) -> !T"
                ));
            }
            3 => {
                let square = self.name();
                self.line(&format!(
                    "{square} = memref.expand_shape {a} [[0, 1]] : !T into !S"
                ));
                self.line(&format!(
                    "{name} = memref.collapse_shape {square} [[0, 1]] : !S into !T"
                ));
            }
            _ => {
                self.line(&format!("func.call @bump({a}) : (!T) -> ()"));
                return;
            }
        }
        self.tiles.push(name);
    }

    fn nested(&mut self) -> String {
        self.depth += 1;
        let ops = self.below(4);
        self.ops(ops);
        self.depth -= 1;
        self.tile()
    }

    fn if_(&mut self) {
        let condition = self.condition();
        let name = self.name();
        self.line(&format!("{name} = loop.if {condition} -> (!T) {{"));
        for end in ["} else {", "}"] {
            let scope = (self.tiles.clone(), self.indices.clone());
            let value = self.nested();
            self.line(&format!("  loop.yield {value} : !T"));
            self.line(end);
            (self.tiles, self.indices) = scope;
        }
        self.tiles.push(name);
    }

    /// A loop that carries two buffers of outside, which may change places.
    fn for_(&mut self) {
        let (name, counter) = (self.name(), self.name());
        let (p, q) = (self.name(), self.name());
        let (a, b) = (self.tile(), self.tile());
        let trips = self.below(4);
        self.line(&format!("{name}:2 = loop.for {counter} = 0 to {trips} iter_args({p} = {a}, {q} = {b}) -> (!T, !T) {{"));
        let scope = (self.tiles.clone(), self.indices.clone());
        self.tiles.extend([p, q]);
        // What is allocated in the loop is not carried: it would be there twice.
        let carried = self.tiles.clone();
        self.indices.push(counter);
        self.nested();
        let (c, d) = (self.below(carried.len()), self.below(carried.len()));
        let (c, d) = (&carried[c], &carried[d]);
        self.line(&format!("  loop.yield {c}, {d} : !T, !T"));
        self.line("}");
        (self.tiles, self.indices) = scope;
        self.tiles
            .extend([format!("{name}#0"), format!("{name}#1")]);
    }

    fn label(&mut self) -> String {
        self.names += 1;
        format!("^b{}", self.names)
    }

    /// Two ways that meet again, or one that goes round.
    fn branches(&mut self) {
        let argument = self.name();
        if self.below(2) == 0 {
            let (yes, no, end) = (self.label(), self.label(), self.label());
            let condition = self.condition();
            self.line(&format!("cf.cond_br {condition}, {yes}, {no}"));
            for label in [yes, no] {
                let scope = (self.tiles.clone(), self.indices.clone());
                self.line(&format!("{label}:"));
                let ops = self.below(5);
                self.ops(ops);
                let value = self.tile();
                self.line(&format!("cf.br {end}({value} : !T)"));
                (self.tiles, self.indices) = scope;
            }
            self.line(&format!("{end}({argument}: !T):"));
            return self.tiles.push(argument);
        }
        let (head, end) = (self.label(), self.label());
        let (count, next, again, result) = (self.name(), self.name(), self.name(), self.name());
        let first = self.tile();
        self.line(&format!("cf.br {head}(%zero, {first} : index, !T)"));
        self.line(&format!("{head}({count}: index, {argument}: !T):"));
        self.tiles.push(argument);
        self.indices.push(count.clone());
        let carried = self.tiles.clone();
        let ops = 1 + self.below(4);
        self.ops(ops);
        let at = self.below(carried.len());
        let (back, out) = (carried[at].clone(), self.tile());
        let bound = ["%one", "%two", "%three"][self.below(3)];
        self.line(&format!("{next} = arith.addi {count}, %one : index"));
        self.line(&format!(
            "{again} = arith.cmpi ult, {next}, {bound} : index"
        ));
        self.line(&format!(
            "cf.cond_br {again}, {head}({next}, {back} : index, !T), {end}({out} : !T)"
        ));
        self.line(&format!("{end}({result}: !T):"));
        self.tiles.push(result);
    }

    fn ops(&mut self, count: usize) {
        for _ in 0..count {
            match self.below(14) {
                0..=1 => self.alloc(),
                2..=5 => self.work(),
                6..=8 => self.alias(),
                9 if self.depth < 3 => self.if_(),
                10 if self.depth < 3 => self.for_(),
                11..=12 if self.depth == 0 => self.branches(),
                _ => self.work(),
            }
        }
    }
}

/// A function `@f(%x: !D, %z: !D, %c: i1, %y: !D out, %w: !D out)`; if it is `conditional`, some
/// of its conditions are `%c`.
pub(crate) fn program(seed: u64, conditional: bool) -> String {
    let names = ["%zero", "%one", "%two", "%three"];
    let mut maker = Maker {
        random: Random::new(seed),
        text: HEAD.to_string(),
        names: 0,
        tiles: Vec::new(),
        indices: names.map(String::from).to_vec(),
        depth: 0,
        conditional,
    };
    maker
        .text
        .push_str("func.func @f(%x: !D, %z: !D, %c: i1, %y: !D {func.out}, %w: !D {func.out}) {\n");
    for (number, name) in names.iter().enumerate() {
        maker.line(&format!("{name} = arith.constant {number} : index"));
    }
    maker.line("%eight = arith.constant 8 : index");
    maker.line("%half = arith.constant 0.5 : f32");
    maker.line("%t = memref.alloc() : !T");
    maker.line("memref.copy %x, %t : !D to !T");
    maker.tiles.push("%t".to_string());
    let ops = 4 + maker.below(9);
    maker.ops(ops);
    for out in ["%y", "%w"] {
        let tile = maker.tile();
        maker.line(&format!("memref.copy {tile}, {out} : !T to !D"));
    }
    maker.line("func.return");
    maker.text.push_str("}\n");
    maker.text.push_str(CALLEES);
    maker.text
}
