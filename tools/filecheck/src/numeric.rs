//! Numeric substitution blocks: `[[#X:]]`, `[[#%x,ADDR:]]`, `[[#X+1]]`, `[[@LINE-1]]`.

use std::collections::HashMap;

/// Terms of one expression; more are refused before they can exhaust a stack.
const MAX_TERMS: usize = 200;
/// Digits a format may ask for.
const MAX_PRECISION: usize = 255;

/// How digits are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Radix {
    Unsigned,
    Signed,
    HexUpper,
    HexLower,
}

/// A format specifier: `%#.8x`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    radix: Radix,
    precision: usize,
    alternate: bool,
}

impl Format {
    /// What a number without format is.
    pub(crate) const UNSIGNED: Format = Format {
        radix: Radix::Unsigned,
        precision: 0,
        alternate: false,
    };

    /// A regex for any number of this format.
    pub(crate) fn wildcard(self) -> String {
        let (sign, first, digits) = match self.radix {
            Radix::Unsigned => ("", "[1-9]", "[0-9]"),
            Radix::Signed => ("-?", "[1-9]", "[0-9]"),
            Radix::HexUpper => ("", "[1-9A-F]", "[0-9A-F]"),
            Radix::HexLower => ("", "[1-9a-f]", "[0-9a-f]"),
        };
        let mark = if self.alternate { "0x" } else { "" };
        match self.precision {
            0 => format!("{sign}{mark}{digits}+"),
            n => format!("{sign}{mark}(?:{first}{digits}*)?{digits}{{{n}}}"),
        }
    }

    /// How `value` is written.
    pub(crate) fn write(self, value: i128) -> Result<String, String> {
        if value < 0 && self.radix != Radix::Signed {
            return Err(format!("{value} has no form as '{self}'"));
        }
        let size = value.unsigned_abs();
        let digits = match self.radix {
            Radix::Unsigned | Radix::Signed => format!("{size:0w$}", w = self.precision),
            Radix::HexUpper => format!("{size:0w$X}", w = self.precision),
            Radix::HexLower => format!("{size:0w$x}", w = self.precision),
        };
        let sign = if value < 0 { "-" } else { "" };
        Ok(format!(
            "{sign}{}{digits}",
            if self.alternate { "0x" } else { "" }
        ))
    }

    /// The value of matched text.
    pub(crate) fn read(self, text: &[u8]) -> Result<i128, String> {
        let shown = String::from_utf8_lossy(text).into_owned();
        let (negative, digits) = match shown.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, shown.as_str()),
        };
        let digits = digits.strip_prefix("0x").unwrap_or(digits);
        let radix = if matches!(self.radix, Radix::HexUpper | Radix::HexLower) {
            16
        } else {
            10
        };
        match i128::from_str_radix(digits, radix) {
            Ok(value) => Ok(if negative { -value } else { value }),
            Err(_) => Err(format!("unable to represent numeric value '{shown}'")),
        }
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let letter = match self.radix {
            Radix::Unsigned => 'u',
            Radix::Signed => 'd',
            Radix::HexUpper => 'X',
            Radix::HexLower => 'x',
        };
        f.write_str("%")?;
        if self.alternate {
            f.write_str("#")?;
        }
        if self.precision > 0 {
            write!(f, ".{}", self.precision)?;
        }
        write!(f, "{letter}")
    }
}

/// An expression over numeric variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expr {
    Number(i128),
    Line,
    Variable(String),
    Binary(Operator, Box<Expr>, Box<Expr>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Sub,
    Mul,
    Div,
    Max,
    Min,
}

impl Expr {
    /// The value, or what is undefined or does not fit.
    pub(crate) fn value(
        &self,
        line: usize,
        numbers: &HashMap<String, i128>,
    ) -> Result<i128, String> {
        match self {
            Expr::Number(n) => Ok(*n),
            Expr::Line => Ok(line as i128),
            Expr::Variable(name) => numbers
                .get(name)
                .copied()
                .ok_or_else(|| format!("undefined variable: {name}")),
            Expr::Binary(op, a, b) => {
                let (a, b) = (a.value(line, numbers)?, b.value(line, numbers)?);
                match op {
                    Operator::Add => a.checked_add(b),
                    Operator::Sub => a.checked_sub(b),
                    Operator::Mul => a.checked_mul(b),
                    Operator::Div => a.checked_div(b),
                    Operator::Max => Some(a.max(b)),
                    Operator::Min => Some(a.min(b)),
                }
                .ok_or_else(|| "numeric expression overflows".to_string())
            }
        }
    }

    /// The variables used, in order.
    pub(crate) fn variables<'a>(&'a self, out: &mut Vec<&'a str>) {
        match self {
            Expr::Variable(name) => out.push(name),
            Expr::Binary(_, a, b) => {
                a.variables(out);
                b.variables(out);
            }
            Expr::Number(_) | Expr::Line => {}
        }
    }
}

/// One numeric block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) format: Format,
    pub(crate) define: Option<String>,
    pub(crate) expr: Option<Expr>,
}

/// Parses the text between `[[#` and `]]`; `formats` are those of the numeric variables defined
/// so far. `legacy` is the `[[@LINE+1]]` form. An error is (offset in `text`, message).
pub(crate) fn parse(
    text: &str,
    formats: &HashMap<String, Format>,
    legacy: bool,
) -> Result<Block, (usize, String)> {
    let mut p = Parser {
        text,
        at: 0,
        formats,
        terms: 0,
        legacy,
    };
    let result = p.block();
    result.map_err(|message| (p.at.min(text.len()), message))
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    formats: &'a HashMap<String, Format>,
    terms: usize,
    legacy: bool,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn spaces(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t']).len();
    }

    fn eat(&mut self, token: &str) -> bool {
        let hit = self.rest().starts_with(token);
        if hit {
            self.at += token.len();
        }
        hit
    }

    fn digits(&mut self, hex: bool) -> &'a str {
        let rest = self.rest();
        let ok = |c: char| {
            if hex {
                c.is_ascii_hexdigit()
            } else {
                c.is_ascii_digit()
            }
        };
        let end = rest.find(|c| !ok(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn block(&mut self) -> Result<Block, String> {
        self.spaces();
        let explicit = if self.rest().starts_with('%') {
            Some(self.format()?)
        } else {
            None
        };
        self.spaces();
        let mut define = None;
        if self.rest().contains(':') {
            let name = self.name()?;
            self.spaces();
            if !self.eat(":") {
                return Err("unexpected characters after numeric variable name".into());
            }
            define = Some(name);
        }
        self.spaces();
        let constrained = self.eat("==");
        self.spaces();
        let expr = if self.rest().is_empty() {
            if constrained {
                return Err("empty numeric expression should not have a constraint".into());
            }
            None
        } else {
            Some(self.sum()?)
        };
        self.spaces();
        if !self.rest().is_empty() {
            return Err(format!(
                "unexpected characters at end of expression '{}'",
                self.rest()
            ));
        }
        let implicit = match &expr {
            Some(expr) if explicit.is_none() => self.implicit(expr)?,
            _ => None,
        };
        Ok(Block {
            format: explicit.or(implicit).unwrap_or(Format::UNSIGNED),
            define,
            expr,
        })
    }

    fn format(&mut self) -> Result<Format, String> {
        self.at += 1;
        let alternate = self.eat("#");
        let mut precision = 0;
        if self.eat(".") {
            precision = self.digits(false).parse().unwrap_or(usize::MAX);
            if precision > MAX_PRECISION {
                return Err("invalid precision in format specifier".into());
            }
        }
        let radix = match self.rest().bytes().next() {
            Some(b'u') => Radix::Unsigned,
            Some(b'd') => Radix::Signed,
            Some(b'x') => Radix::HexLower,
            Some(b'X') => Radix::HexUpper,
            _ => return Err("invalid format specifier in expression".into()),
        };
        self.at += 1;
        if alternate && matches!(radix, Radix::Unsigned | Radix::Signed) {
            return Err("alternate form only supported for hex values".into());
        }
        self.spaces();
        if !self.eat(",") {
            return Err("invalid matching format specification in expression".into());
        }
        Ok(Format {
            radix,
            precision,
            alternate,
        })
    }

    /// The format that the variables of `expr` agree on.
    fn implicit(&self, expr: &Expr) -> Result<Option<Format>, String> {
        let mut names = Vec::new();
        expr.variables(&mut names);
        let mut agreed: Option<(&str, Format)> = None;
        for name in names {
            let format = self.formats.get(name).copied().unwrap_or(Format::UNSIGNED);
            match agreed {
                Some((other, first)) if first != format => {
                    return Err(format!(
                        "implicit format conflict between '{other}' ({first}) and '{name}' ({format}), need an explicit format specifier"
                    ));
                }
                _ => agreed = Some((name, format)),
            }
        }
        Ok(agreed.map(|(_, format)| format))
    }

    fn sum(&mut self) -> Result<Expr, String> {
        let mut left = self.operand()?;
        loop {
            self.spaces();
            let op = match self.rest().bytes().next() {
                Some(b'+') => Operator::Add,
                Some(b'-') => Operator::Sub,
                None | Some(b')' | b',') => return Ok(left),
                Some(_) => return Err(self.unsupported()),
            };
            self.at += 1;
            self.spaces();
            if self.rest().is_empty() {
                return Err("missing operand in expression".into());
            }
            let right = self.operand()?;
            if self.legacy && !self.rest().is_empty() {
                return Err(format!(
                    "unexpected characters at end of expression '{}'",
                    self.rest()
                ));
            }
            left = Expr::Binary(op, Box::new(left), Box::new(right));
        }
    }

    fn unsupported(&self) -> String {
        match self.rest().chars().next() {
            Some(c) => format!("unsupported operation '{c}'"),
            None => "missing operand in expression".into(),
        }
    }

    fn operand(&mut self) -> Result<Expr, String> {
        self.terms += 1;
        if self.terms > MAX_TERMS {
            return Err("numeric expression is too long".into());
        }
        self.spaces();
        if self.eat("(") {
            self.spaces();
            let inner = self.sum()?;
            self.spaces();
            if !self.eat(")") {
                return Err("missing ')' at end of nested expression".into());
            }
            return Ok(inner);
        }
        if self.eat("@LINE") {
            return Ok(Expr::Line);
        }
        if self.rest().starts_with('@') {
            return Err("invalid pseudo numeric variable".into());
        }
        let negative = !self.legacy && self.eat("-");
        if self.rest().starts_with(|c: char| c.is_ascii_digit()) {
            let hex = !self.legacy && self.eat("0x");
            let value = i128::from_str_radix(self.digits(hex), if hex { 16 } else { 10 })
                .map_err(|_| "invalid number in expression".to_string())?;
            return Ok(Expr::Number(if negative { -value } else { value }));
        }
        if negative {
            return Err("invalid operand format".into());
        }
        let name = self
            .name()
            .map_err(|_| "invalid operand format".to_string())?;
        self.spaces();
        if !self.eat("(") {
            return Ok(Expr::Variable(name));
        }
        let op = match name.as_str() {
            "add" => Operator::Add,
            "sub" => Operator::Sub,
            "mul" => Operator::Mul,
            "div" => Operator::Div,
            "max" => Operator::Max,
            "min" => Operator::Min,
            _ => return Err(format!("call to undefined function '{name}'")),
        };
        let left = self.sum()?;
        if !self.eat(",") {
            return Err(format!("function '{name}' takes 2 arguments"));
        }
        let right = self.sum()?;
        if !self.eat(")") {
            return Err("missing ')' at end of call expression".into());
        }
        Ok(Expr::Binary(op, Box::new(left), Box::new(right)))
    }

    fn name(&mut self) -> Result<String, String> {
        let (name, _) = split_name(self.rest()).ok_or("invalid variable name")?;
        self.at += name.len();
        Ok(name.to_string())
    }
}

/// Splits a variable's name (`$` first when global) from what follows it.
pub(crate) fn split_name(text: &str) -> Option<(&str, &str)> {
    let body = text.strip_prefix('$').unwrap_or(text);
    if !body.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        return None;
    }
    let length = body
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .unwrap_or(body.len());
    Some(text.split_at(text.len() - body.len() + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<i128, String> {
        let numbers = HashMap::from([("X".to_string(), 10)]);
        let block = parse(text, &HashMap::new(), false).map_err(|e| e.1)?;
        block.expr.ok_or("no expression")?.value(7, &numbers)
    }

    #[test]
    fn evaluates() {
        assert_eq!(value("X+1"), Ok(11));
        assert_eq!(value(" X - 2 - 3 "), Ok(5));
        assert_eq!(value("@LINE+0x10"), Ok(23));
        assert_eq!(value("mul(X,(2+1))"), Ok(30));
        assert!(value("Y").is_err());
        assert!(value("div(X,0)").is_err());
        assert!(value(&"(".repeat(10_000)).is_err());
        assert!(value(&"1+".repeat(10_000)).is_err());
    }

    #[test]
    fn formats() {
        let block = parse("%#.4x, A:", &HashMap::new(), false).unwrap();
        assert_eq!(block.define.as_deref(), Some("A"));
        assert_eq!(block.format.write(255), Ok("0x00ff".into()));
        assert_eq!(block.format.read(b"0x00ff"), Ok(255));
        assert!(Format::UNSIGNED.write(-1).is_err());
    }
}
