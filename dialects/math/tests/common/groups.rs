//! Ops with types, and operands for them: extreme and random ones.

use std::fmt::Write;

use tir::data::Random;
use tir::{Attr, FloatAttr, FloatType, IntAttr, Type, float_bits, float_value, text};

/// Operands for each op and types.
const CASES: usize = 20;
const INTS: [&str; 7] = ["i1", "i8", "i13", "i32", "i64", "i128", "index"];
const FLOATS: [&str; 4] = ["f16", "bf16", "f32", "f64"];

/// An op with types, and cases for it.
pub(crate) struct Group {
    /// The op's name.
    pub name: &'static str,
    /// Attributes in generic form, `<{…}>`, or nothing.
    pub attributes: String,
    /// Types of the operands.
    pub operands: Vec<String>,
    /// Types of the results.
    pub results: Vec<String>,
    /// Operands.
    pub cases: Vec<Vec<Attr>>,
    /// Units in the last place by which functions of other libraries may differ.
    pub units: f64,
}

fn list(items: impl IntoIterator<Item = String>) -> String {
    items.into_iter().collect::<Vec<_>>().join(", ")
}

impl Group {
    /// What it is, for messages.
    pub(crate) fn title(&self) -> String {
        let (operands, results) = (self.operands.join(", "), self.results.join(", "));
        format!(
            "{} {} ({operands}) -> ({results})",
            self.name, self.attributes
        )
    }

    /// The op in generic form on values `%PREFIX0`, `%PREFIX1`, …, each of its types in a shape.
    fn op(&self, result: &str, prefix: &str, shape: &dyn Fn(&String) -> String) -> String {
        let count = match self.results.len() {
            1 => String::new(),
            n => format!(":{n}"),
        };
        let operands = list((0..self.operands.len()).map(|k| format!("%{prefix}{k}")));
        format!(
            "  %{result}{count} = \"{}\"({operands}) {} : ({}) -> ({})\n",
            self.name,
            self.attributes,
            list(self.operands.iter().map(shape)),
            list(self.results.iter().map(shape)),
        )
    }
    /// The op's results by this name.
    fn named(&self, result: &str) -> String {
        match self.results.len() {
            1 => format!("%{result}"),
            n => list((0..n).map(|r| format!("%{result}#{r}"))),
        }
    }

    /// A function that returns the results of all cases.
    pub(crate) fn folds(&self) -> String {
        let (mut body, mut values) = (String::new(), Vec::new());
        for (i, case) in self.cases.iter().enumerate() {
            for (k, attr) in case.iter().enumerate() {
                let value = literal(*attr);
                let ty = &self.operands[k];
                let typed = if ty == "i1" {
                    value
                } else {
                    format!("{value} : {ty}")
                };
                let _ = writeln!(body, "  %c{i}_{k} = arith.constant {typed}");
            }
            body += &self.op(&format!("r{i}"), &format!("c{i}_"), &String::clone);
            values.push(self.named(&format!("r{i}")));
        }
        let types = list(self.cases.iter().flat_map(|_| self.results.iter().cloned()));
        let symbol: String = self
            .title()
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .collect();
        let values = values.join(", ");
        format!(
            "func.func @{symbol}() -> ({types}) {{\n{body}  func.return {values} : {types}\n}}\n"
        )
    }

    /// `@f` on scalars.
    pub(crate) fn scalar_function(&self) -> String {
        self.function("f", &String::clone)
    }
    fn function(&self, name: &str, shape: &dyn Fn(&String) -> String) -> String {
        let operands = self.operands.iter().map(shape).enumerate();
        let args = list(operands.map(|(k, ty)| format!("%a{k}: {ty}")));
        let types = list(self.results.iter().map(shape));
        let (op, values) = (self.op("r", "a", shape), self.named("r"));
        format!(
            "func.func @{name}({args}) -> ({types}) {{\n{op}  func.return {values} : {types}\n}}\n"
        )
    }

    /// `@whole` on tensors of so many elements, and `@region` with the op in a `tensor.generic`.
    pub(crate) fn tensor_functions(&self, count: usize) -> String {
        let shape = |ty: &String| format!("tensor<{count}x{ty}>");
        let whole = self.function("whole", &shape);
        let [result] = &self.results[..] else {
            return whole;
        };
        let operands: Vec<String> = self.operands.iter().map(shape).collect();
        let numbered = |name: &str| list((0..operands.len()).map(|k| format!("%{name}{k}")));
        let args = list(
            operands
                .iter()
                .enumerate()
                .map(|(k, ty)| format!("%a{k}: {ty}")),
        );
        let inner = list(
            self.operands
                .iter()
                .enumerate()
                .map(|(k, ty)| format!("%x{k}: {ty}")),
        );
        let maps = vec!["affine_map<(d0) -> (d0)>"; operands.len() + 1].join(", ");
        let (op, out) = (self.op("r", "x", &String::clone), shape(result));
        format!(
            "{whole}func.func @region({args}) -> {out} {{\n  %e = tensor.empty() : {out}\n  \
             %y = tensor.generic {{indexing_maps = [{maps}], iterator_types = [\"parallel\"]}} \
             ins({} : {}) outs(%e : {out}) {{\n  ^bb0({inner}):\n{op}    \
             tensor.yield %r : {result}\n  }} -> {out}\n  func.return %y : {out}\n}}\n",
            numbered("a"),
            operands.join(", "),
        )
    }

    /// A function of the op on constant tensors.
    pub(crate) fn constant_tensors(&self, columns: &[Attr]) -> String {
        let count = columns[0]
            .type_of()
            .and_then(|ty| ty.elements())
            .unwrap_or(0);
        let shape = |ty: &String| format!("tensor<{count}x{ty}>");
        let constants = columns.iter().enumerate();
        let constants: String = constants
            .map(|(k, column)| format!("  %a{k} = arith.constant {column}\n"))
            .collect();
        let types = list(self.results.iter().map(shape));
        let (op, values) = (self.op("r", "a", &shape), self.named("r"));
        format!(
            "func.func @t() -> ({types}) {{\n{constants}{op}  func.return {values} : {types}\n}}\n"
        )
    }
}

/// A number as every reader takes it.
fn literal(attr: Attr) -> String {
    if let Some(int) = attr.get::<IntAttr>() {
        return match int.ty.bits() {
            Some(1) => (int.value & 1 != 0).to_string(),
            _ => int.value.to_string(),
        };
    }
    let float = attr.get::<FloatAttr>().expect("a number");
    let format = *float.ty.get::<FloatType>().expect("a float");
    let bits = float_bits(f64::from_bits(float.bits), format);
    format!("0x{bits:0width$X}", width = format.bits() as usize / 4)
}

fn int(random: &mut Random, ty: Type) -> Attr {
    let width = ty.bits().expect("a width");
    let wide = u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
    let value = match random.below(12) {
        0 => 0,
        1 => 1,
        2 => -1,
        3 => i128::MIN >> (128 - width),
        4 => !(i128::MIN >> (128 - width)),
        5 => (i128::MIN >> (128 - width)) + 1,
        6 => i128::from(width),
        7 => i128::from(width) - 1,
        8 | 9 => (wide % 40) as i128 - 20,
        _ => wide as i128,
    };
    let shift = 128 - width;
    let value = value << shift >> shift;
    let value = if width == 1 { value & 1 } else { value };
    Attr::new(IntAttr { value, ty })
}

fn float(random: &mut Random, ty: Type) -> Attr {
    const EXTREMES: [f64; 24] = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        0.1,
        127.5,
        -128.5,
        255.5,
        65504.0,
        2147483647.0,
        -2147483649.0,
        9223372036854775808.0,
        1e30,
        -3.4e38,
        1e-38,
        1e-45,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    let format = *ty.get::<FloatType>().expect("a float");
    let value = match random.below(8) {
        0..=2 => EXTREMES[random.below(EXTREMES.len())],
        // Any bits, which are any magnitude.
        3 => float_value(
            random.next_u64() & (u64::MAX >> (64 - format.bits())),
            format,
        ),
        4 => (random.next_u64() as i64) as f64,
        _ => (random.next_u64() as i64) as f64 / 2f64.powi(60),
    };
    // Quiet, as arithmetic makes it.
    let value = if value.is_nan() {
        f64::NAN.copysign(1.0)
    } else {
        value
    };
    let bits = float_value(float_bits(value, format), format).to_bits();
    Attr::new(FloatAttr { bits, ty })
}

struct Maker {
    groups: Vec<Group>,
    random: Random,
}

impl Maker {
    fn add(
        &mut self,
        name: &'static str,
        attributes: &str,
        operands: &[&str],
        results: &[&str],
        units: f64,
    ) {
        let random = &mut self.random;
        let mut number = |ty: &&str| {
            let ty = text::parse_type(ty).expect("a type");
            if ty.is_float() {
                float(random, ty)
            } else {
                int(random, ty)
            }
        };
        let cases = (0..CASES).map(|_| operands.iter().map(&mut number).collect());
        let cases = cases.collect();
        self.groups.push(Group {
            name,
            attributes: attributes.to_string(),
            operands: operands.iter().map(|ty| ty.to_string()).collect(),
            results: results.iter().map(|ty| ty.to_string()).collect(),
            cases,
            units,
        });
    }
}

fn width(ty: &str) -> u32 {
    ty.trim_start_matches(|c: char| !c.is_ascii_digit())
        .parse()
        .unwrap_or(64)
}

/// All ops of arith and math that compute numbers, with all types and predicates.
pub(crate) fn groups() -> Vec<Group> {
    let mut all = Maker {
        groups: Vec::new(),
        random: Random::new(7),
    };
    for ty in INTS {
        for name in [
            "arith.addi",
            "arith.subi",
            "arith.muli",
            "arith.divsi",
            "arith.divui",
            "arith.ceildivsi",
            "arith.ceildivui",
            "arith.floordivsi",
            "arith.remsi",
            "arith.remui",
            "arith.andi",
            "arith.ori",
            "arith.xori",
            "arith.shli",
            "arith.shrsi",
            "arith.shrui",
            "arith.maxsi",
            "arith.maxui",
            "arith.minsi",
            "arith.minui",
        ] {
            all.add(name, "", &[ty, ty], &[ty], 0.0);
        }
        all.add("arith.addui_extended", "", &[ty, ty], &[ty, "i1"], 0.0);
        all.add("arith.select", "", &["i1", ty, ty], &[ty], 0.0);
        all.add("math.absi", "", &[ty], &[ty], 0.0);
        for predicate in 0..10 {
            let attributes = format!("<{{predicate = {predicate} : i64}}>");
            all.add("arith.cmpi", &attributes, &[ty, ty], &["i1"], 0.0);
        }
    }
    for ty in FLOATS {
        for name in [
            "arith.addf",
            "arith.subf",
            "arith.mulf",
            "arith.divf",
            "arith.remf",
            "arith.maximumf",
            "arith.minimumf",
            "arith.maxnumf",
            "arith.minnumf",
        ] {
            all.add(name, "", &[ty, ty], &[ty], 0.0);
        }
        all.add("arith.negf", "", &[ty], &[ty], 0.0);
        all.add("arith.select", "", &["i1", ty, ty], &[ty], 0.0);
        for predicate in 0..16 {
            let attributes = format!("<{{predicate = {predicate} : i64}}>");
            all.add("arith.cmpf", &attributes, &[ty, ty], &["i1"], 0.0);
        }
        for name in [
            "math.absf",
            "math.floor",
            "math.ceil",
            "math.roundeven",
            "math.sqrt",
        ] {
            all.add(name, "", &[ty], &[ty], 0.0);
        }
        for name in [
            "math.exp",
            "math.exp2",
            "math.log",
            "math.log1p",
            "math.rsqrt",
            "math.tanh",
            "math.erf",
            "math.sin",
            "math.cos",
        ] {
            all.add(name, "", &[ty], &[ty], 4.0);
        }
        all.add("math.powf", "", &[ty, ty], &[ty], 4.0);
        all.add("math.fma", "", &[ty, ty, ty], &[ty], 0.0);
    }
    casts(&mut all);
    all.groups
}

fn casts(all: &mut Maker) {
    let ints = || INTS.iter().filter(|ty| **ty != "index");
    for from in ints() {
        for to in ints() {
            if width(from) < width(to) {
                all.add("arith.extsi", "", &[from], &[to], 0.0);
                all.add("arith.extui", "", &[from], &[to], 0.0);
                all.add("arith.trunci", "", &[to], &[from], 0.0);
            }
        }
        for (a, b) in [(*from, "index"), ("index", *from)] {
            all.add("arith.index_cast", "", &[a], &[b], 0.0);
            all.add("arith.index_castui", "", &[a], &[b], 0.0);
        }
        for float in FLOATS {
            all.add("arith.sitofp", "", &[from], &[float], 0.0);
            all.add("arith.uitofp", "", &[from], &[float], 0.0);
            all.add("arith.fptosi", "", &[float], &[from], 0.0);
            all.add("arith.fptoui", "", &[float], &[from], 0.0);
        }
    }
    for (narrow, wide) in [
        ("f16", "f32"),
        ("bf16", "f32"),
        ("f16", "f64"),
        ("bf16", "f64"),
        ("f32", "f64"),
    ] {
        all.add("arith.extf", "", &[narrow], &[wide], 0.0);
        all.add("arith.truncf", "", &[wide], &[narrow], 0.0);
    }
    for (int, float) in [("i32", "f32"), ("i64", "f64")] {
        all.add("arith.bitcast", "", &[int], &[float], 0.0);
        all.add("arith.bitcast", "", &[float], &[int], 0.0);
    }
}
