//! tensat's rule files to rules on graph ops.
//!
//! A line is `left=>right`; two roots are two lines behind each other. Terms, with TASO's numbers:
//!
//! ```text
//! ?input_7                    any tensor
//! (ewadd a b) (ewmul a b)     broadcast
//! (relu a)
//! (matmul ACT a b)            ACT is what is done with the result: 0 nothing, 2 the rectifier
//! (conv2d SH SW PAD ACT x w)  strides; PAD 0 is `same`, 1 none; groups by the channels of x and w
//! (concat AXIS RANK a b)
//! (split_0 (split AXIS a))    what stands before the place where parts were joined; split_1: behind
//! ```
//!
//! What the format leaves to the reader is said in the rule: pads and groups are computed from
//! types, the rank of a concatenation and equal ranks of matrices are guards, and a part is as large as the root of its place.

use std::collections::BTreeMap;
use std::path::Path;

use tir_builtin::rule::rule_op;
use tir_core::{Diagnostic, Ir, LocFile, Name};
use tir_rewrite::{Class, Kind};

/// How rules are read.
#[derive(Clone, Copy, Debug)]
pub struct RuleOptions {
    /// Roots of a rule: so many lines are one.
    pub roots: usize,
    /// Whether operands of elementwise ops have one type: nothing is broadcast.
    pub same_types: bool,
}

/// Reads a file of rules as a module of rules; each is called after the file and its first line.
///
/// # Errors
/// If the file cannot be read, or the first line that is malformed or cannot be expressed.
pub fn import_tensat_rules(path: &Path, options: RuleOptions) -> Result<Ir, Vec<Diagnostic>> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|e| Diagnostic::error(format!("cannot read '{shown}': {e}")))?;
    import_tensat_rule_text(&shown, &text, options)
}

/// The same of the text of the file `name`.
///
/// # Errors
/// As [`import_tensat_rules`].
pub fn import_tensat_rule_text(
    name: &str,
    text: &str,
    options: RuleOptions,
) -> Result<Ir, Vec<Diagnostic>> {
    crate::load_dialects();
    let file = LocFile::new(Name::new(name));
    let stem = Path::new(name).file_stem().and_then(|s| s.to_str());
    let stem = stem.unwrap_or("rule");
    let (mut module, block) = tir_builtin::module();
    let lines: Vec<(usize, &str)> = text.lines().enumerate().collect();
    let lines: Vec<_> = lines
        .into_iter()
        .filter(|(_, l)| !l.trim().is_empty())
        .collect();
    for lines in lines.chunks(options.roots.max(1)) {
        let line = lines[0].0 + 1;
        let place = file.at(line as u32, 1);
        let error = |why: String| vec![Diagnostic::error(why).at(place)];
        if lines.len() < options.roots {
            let (found, wanted) = (lines.len(), options.roots);
            return Err(error(format!(
                "the last rule has {found} lines, expected {wanted}"
            )));
        }
        let roots: Vec<&str> = lines.iter().map(|(_, line)| *line).collect();
        let [left, right, guard] = rule(&roots, options).map_err(error)?;
        let rule_name = Name::new(&format!("{stem}-{line}"));
        let mut state = rule_op(
            Kind::Equal,
            Class::Reassociating,
            rule_name,
            [left, right, guard],
        );
        state.loc = place;
        module.at(block).create(state);
    }
    tir_core::verify(&module)?;
    Ok(module)
}

/// A term of the format.
#[derive(Clone, PartialEq, Debug)]
enum Term {
    Var(String),
    Number(i64),
    Op(String, Vec<Term>),
}

struct Tokens<'a>(std::iter::Peekable<std::vec::IntoIter<&'a str>>);

impl<'a> Tokens<'a> {
    fn of(text: &'a str) -> Self {
        let words = text.split_inclusive(['(', ')', ' ']).flat_map(|part| {
            let at = part.len() - usize::from(part.ends_with(['(', ')', ' ']));
            let (word, end) = part.split_at(at);
            [word, end.trim()].into_iter().filter(|w| !w.is_empty())
        });
        Self(words.collect::<Vec<_>>().into_iter().peekable())
    }
    fn term(&mut self) -> Result<Term, String> {
        match self.0.next() {
            Some("(") => {}
            Some(word) if word.starts_with('?') => return Ok(Term::Var(word[1..].to_string())),
            Some(word) => {
                let number = word.parse().map(Term::Number);
                return number.map_err(|_| format!("expected a term, found '{word}'"));
            }
            None => return Err("expected a term, found the end".to_string()),
        }
        let name = self.0.next().unwrap_or_default().to_string();
        let mut args = Vec::new();
        while self.0.next_if_eq(&")").is_none() {
            args.push(self.term()?);
        }
        Ok(Term::Op(name, args))
    }
}

fn parse(text: &str) -> Result<Term, String> {
    let mut tokens = Tokens::of(text);
    let term = tokens.term()?;
    match tokens.0.next() {
        None => Ok(term),
        Some(word) => Err(format!("expected the end, found '{word}'")),
    }
}

/// The left side, right side and guards of a rule.
fn rule(lines: &[&str], options: RuleOptions) -> Result<[String; 3], String> {
    let mut rule = Writer {
        same_types: options.same_types,
        types: 0,
        guards: Vec::new(),
        pads: BTreeMap::new(),
        right: false,
        roots: Vec::new(),
        root: 0,
    };
    let mut sides = [Vec::new(), Vec::new()];
    for line in lines {
        let (left, right) = line.split_once("=>").ok_or("expected 'left=>right'")?;
        sides[0].push(parse(left)?);
        sides[1].push(parse(right)?);
    }
    let mut texts = [String::new(), String::new()];
    // Parts on the right are as large as roots on the left.
    let parts = lines.iter().any(|line| line.contains("(split "));
    for (root, term) in sides[0].iter().enumerate() {
        let mut written = rule.written(term)?;
        if parts && written.ty.is_none() {
            written.ty = Some(rule.fresh_type());
        }
        rule.roots.push(written.ty.clone().unwrap_or_default());
        texts[0] += &format!("{}{written}", if root == 0 { "" } else { " " });
    }
    rule.right = true;
    for (root, term) in sides[1].iter().enumerate() {
        rule.root = root;
        let written = rule.written(term)?;
        texts[1] += &format!("{}{written}", if root == 0 { "" } else { " " });
    }
    let [left, right] = texts;
    let mut guards: Vec<String> = Vec::new();
    for guard in rule.guards {
        if !guards.contains(&guard) {
            guards.push(guard);
        }
    }
    Ok([left, right, guards.join(" ")])
}

struct Writer {
    same_types: bool,
    types: usize,
    guards: Vec<String>,
    /// Variables that stand for the pads of convolutions by their weights.
    pads: BTreeMap<String, String>,
    right: bool,
    /// The types of the roots on the left.
    roots: Vec<String>,
    /// The root on the right that is written.
    root: usize,
}

/// A term as it is written, and the variable of its type.
struct Written {
    text: String,
    ty: Option<String>,
}

impl std::fmt::Display for Written {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.ty {
            Some(ty) => write!(f, "{}:{ty}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

impl Writer {
    fn written(&mut self, term: &Term) -> Result<Written, String> {
        let text = self.term(term)?;
        let ty = match term {
            Term::Op(name, args) if name == "concat" && !self.right => self.ranked(args),
            _ => None,
        };
        Ok(Written { text, ty })
    }

    /// The rank that a concatenation says is a guard: on its operands, or on its type if they are
    /// no variables.
    fn ranked(&mut self, args: &[Term]) -> Option<String> {
        let [_, Term::Number(rank), a, b] = args else {
            return None;
        };
        if [a, b].iter().any(|t| matches!(t, Term::Var(_))) {
            return None;
        }
        let ty = self.fresh_type();
        self.guards.push(format!("(has-rank {ty} {rank})"));
        Some(ty)
    }

    fn term(&mut self, term: &Term) -> Result<String, String> {
        let (name, args) = match term {
            Term::Var(name) => return Ok(format!("?{name}")),
            Term::Number(n) => return Err(format!("expected a tensor, found {n}")),
            Term::Op(name, args) => (name.as_str(), &args[..]),
        };
        match (name, args) {
            ("ewadd", [a, b]) => self.elementwise("graph.add", a, b),
            ("ewmul", [a, b]) => self.elementwise("graph.mul", a, b),
            ("relu", [x]) => Ok(format!("(graph.relu {})", self.written(x)?)),
            ("matmul", [Term::Number(act), a, b]) => {
                // Both have the same dimensions before the matrix: nothing is broadcast.
                if let (false, Some(x), Some(y)) = (self.right, vars(a).first(), vars(b).first())
                    && x != y
                {
                    self.guards.push(format!("(same-rank ?{x} ?{y})"));
                }
                let text = format!("(graph.matmul {} {})", self.written(a)?, self.written(b)?);
                activation(*act, text)
            }
            (
                "conv2d",
                [
                    Term::Number(sh),
                    Term::Number(sw),
                    Term::Number(pad),
                    Term::Number(act),
                    x,
                    w,
                ],
            ) => {
                let text = self.conv([*sh, *sw], *pad, x, w)?;
                activation(*act, text)
            }
            ("concat", [Term::Number(axis), Term::Number(rank), a, b]) => {
                let [x, y] = [self.written(a)?, self.written(b)?];
                for operand in [a, b] {
                    if let Term::Var(v) = operand {
                        self.guards.push(format!("(has-rank ?{v} {rank})"));
                    }
                }
                Ok(format!("(graph.concat {x} {y} {{axis = {axis}}})"))
            }
            ("split_0" | "split_1", [Term::Op(split, args)]) if split == "split" => match &args[..]
            {
                [Term::Number(axis), x] => {
                    let starts = match name {
                        "split_0" => format!("(zeros {})", self.roots[0]),
                        _ => format!("(behind {} {axis})", self.roots[0]),
                    };
                    let ty = self.roots[self.root].clone();
                    let x = self.written(x)?;
                    Ok(format!(
                        "(graph.slice {x} {{starts = {starts}, sizes = (shape {ty}), steps = (ones {ty})}})"
                    ))
                }
                _ => Err("expected (split AXIS x)".to_string()),
            },
            _ => Err(format!(
                "'{name}' with {} operands has no meaning here",
                args.len()
            )),
        }
    }

    /// A new variable of a type.
    fn fresh_type(&mut self) -> String {
        self.types += 1;
        format!("?T{}", self.types)
    }

    fn elementwise(&mut self, op: &str, a: &Term, b: &Term) -> Result<String, String> {
        let [mut x, mut y] = [self.written(a)?, self.written(b)?];
        if self.same_types && !self.right {
            let known = x.ty.clone().or(y.ty.clone());
            let ty = known.unwrap_or_else(|| self.fresh_type());
            (x.ty, y.ty) = (Some(ty.clone()), Some(ty));
        }
        Ok(format!("({op} {x} {y})"))
    }

    /// Groups are as many as channels of the input for each channel of the weights.
    fn conv(&mut self, [sh, sw]: [i64; 2], pad: i64, x: &Term, w: &Term) -> Result<String, String> {
        if [sh, sw] != [1, 1] && pad == 0 {
            return Err(format!("strides {sh} and {sw} with padding by size"));
        }
        let kernels = vars(w).iter().map(|v| format!(" ?{v}")).collect::<String>();
        let pads = match (pad, self.right) {
            (1, _) => "[0, 0, 0, 0]".to_string(),
            (0, true) => format!("(same-pads{kernels})"),
            (0, false) => {
                let fresh = format!("?p{}", self.pads.len());
                let pads = self.pads.entry(kernels.clone()).or_insert(fresh).clone();
                self.guards.push(format!("(has-same-pads {pads}{kernels})"));
                pads
            }
            (mode, _) => return Err(format!("padding mode {mode}, expected 0 or 1")),
        };
        let groups = match self.right {
            false => String::new(),
            true => format!(", groups = (/ {} {})", channels(x)?, channels(w)?),
        };
        let [x, w] = [self.written(x)?, self.written(w)?];
        Ok(format!(
            "(graph.conv2d {x} {w} {{strides = [{sh}, {sw}], pads = {pads}, dilations = [1, 1]{groups}}})"
        ))
    }
}

fn activation(kind: i64, text: String) -> Result<String, String> {
    match kind {
        0 => Ok(text),
        1 => Ok(format!("(graph.sigmoid {text})")),
        2 => Ok(format!("(graph.relu {text})")),
        3 => Ok(format!("(graph.tanh {text})")),
        other => Err(format!("activation {other}, expected 0 to 3")),
    }
}

/// The variables of a term in order.
fn vars(term: &Term) -> Vec<&str> {
    match term {
        Term::Var(name) => vec![name],
        Term::Number(_) => Vec::new(),
        Term::Op(_, args) => args.iter().flat_map(vars).collect(),
    }
}

/// What computes dimension 1 of a term.
fn channels(term: &Term) -> Result<String, String> {
    match term {
        Term::Var(name) => Ok(format!("(dim ?{name} 1)")),
        Term::Op(name, args) => match (name.as_str(), &args[..]) {
            ("concat", [Term::Number(1), _, a, b]) => {
                Ok(format!("(+ {} {})", channels(a)?, channels(b)?))
            }
            ("concat", [_, _, a, _]) | ("relu", [a]) => channels(a),
            ("ewadd" | "ewmul", [a, b]) => Ok(format!("(max {} {})", channels(a)?, channels(b)?)),
            ("conv2d", [.., w]) => filters(w),
            _ => Err(format!("the channels of '{name}' are not known")),
        },
        Term::Number(n) => Err(format!("expected a tensor, found {n}")),
    }
}

/// What computes the number of filters of weights.
fn filters(term: &Term) -> Result<String, String> {
    match term {
        Term::Var(name) => Ok(format!("(dim ?{name} 0)")),
        Term::Op(name, args) => match (name.as_str(), &args[..]) {
            ("concat", [Term::Number(0), _, a, b]) => {
                Ok(format!("(+ {} {})", filters(a)?, filters(b)?))
            }
            ("concat", [_, _, a, _]) => filters(a),
            _ => Err(format!("the filters of '{name}' are not known")),
        },
        Term::Number(n) => Err(format!("expected a tensor, found {n}")),
    }
}
