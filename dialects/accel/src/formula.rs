//! Cycle formulas: numbers, `n`, `d0` …, `+`, `*`, parentheses, `ceildiv`, `min`, `max`.

use tir::{ScanError, Scanner};

/// A cycle formula.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Formula {
    /// A number.
    Number(i64),
    /// The number of elements of the first operand.
    Elements,
    /// A dimension of the first operand.
    Dim(usize),
    /// A sum.
    Add(Box<Formula>, Box<Formula>),
    /// A product.
    Mul(Box<Formula>, Box<Formula>),
    /// A quotient, rounded up.
    CeilDiv(Box<Formula>, Box<Formula>),
    /// The smaller one.
    Min(Box<Formula>, Box<Formula>),
    /// The larger one.
    Max(Box<Formula>, Box<Formula>),
}

impl Formula {
    /// Reads a formula; the error says what is wrong at which column.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut s = Scanner::new(text);
        let read = sum(&mut s).and_then(|formula| s.end("an operator").map(|()| formula));
        read.map_err(|error| {
            let (_, column) = error.line_column(text);
            format!("{} at column {column}", error.message)
        })
    }

    /// Its value for a first operand of this shape.
    pub fn eval(&self, shape: &[i64]) -> Result<i64, String> {
        let overflow = || "is beyond 64 bits".to_string();
        let two = |a: &Formula, b: &Formula| Ok::<_, String>((a.eval(shape)?, b.eval(shape)?));
        match self {
            Self::Number(n) => Ok(*n),
            Self::Elements => shape
                .iter()
                .try_fold(1i64, |n, d| n.checked_mul(*d))
                .ok_or_else(overflow),
            Self::Dim(d) => shape
                .get(*d)
                .copied()
                .ok_or_else(|| format!("names d{d} of an operand of rank {}", shape.len())),
            Self::Add(a, b) => two(a, b).and_then(|(a, b)| a.checked_add(b).ok_or_else(overflow)),
            Self::Mul(a, b) => two(a, b).and_then(|(a, b)| a.checked_mul(b).ok_or_else(overflow)),
            Self::Min(a, b) => two(a, b).map(|(a, b)| a.min(b)),
            Self::Max(a, b) => two(a, b).map(|(a, b)| a.max(b)),
            Self::CeilDiv(a, b) => match two(a, b)? {
                (_, b) if b <= 0 => Err(format!("divides by {b}")),
                (a, b) => Ok(a.div_euclid(b) + i64::from(a.rem_euclid(b) != 0)),
            },
        }
    }
}

fn sum(s: &mut Scanner<'_>) -> Result<Formula, ScanError> {
    s.enter()?;
    let mut sum = product(s)?;
    while s.eat("+") {
        sum = Formula::Add(sum.into(), product(s)?.into());
    }
    s.leave();
    Ok(sum)
}

fn product(s: &mut Scanner<'_>) -> Result<Formula, ScanError> {
    let mut product = atom(s)?;
    while s.eat("*") {
        product = Formula::Mul(product.into(), atom(s)?.into());
    }
    Ok(product)
}

fn atom(s: &mut Scanner<'_>) -> Result<Formula, ScanError> {
    if s.eat("(") {
        let inner = sum(s)?;
        s.expect(")")?;
        return Ok(inner);
    }
    let at = s.at();
    let word = s.word("a number or a name", |c| c.is_ascii_alphanumeric())?;
    if let Ok(number) = word.parse() {
        return Ok(Formula::Number(number));
    }
    let make = match word {
        "n" => return Ok(Formula::Elements),
        "ceildiv" => Formula::CeilDiv,
        "min" => Formula::Min,
        "max" => Formula::Max,
        _ => {
            let dim = word.strip_prefix('d').and_then(|d| d.parse().ok());
            let wrong = format!("'{word}' is no number, n, d0, ceildiv, min or max");
            return dim.map(Formula::Dim).ok_or_else(|| s.error(at, wrong));
        }
    };
    s.expect("(")?;
    let a = sum(s)?;
    s.expect(",")?;
    let b = sum(s)?;
    s.expect(")")?;
    Ok(make(a.into(), b.into()))
}

#[cfg(test)]
mod tests {
    use super::Formula;

    #[test]
    fn formulas() {
        let eval = |text: &str| Formula::parse(text).and_then(|f| f.eval(&[16, 20]));
        assert_eq!(eval("16"), Ok(16));
        assert_eq!(eval("ceildiv(n, 16)"), Ok(20));
        assert_eq!(eval("2 + d0 * max(d1, 3) + min(1, 2)"), Ok(323));
        assert_eq!(eval("(1 + 2) * 3"), Ok(9));
        for bad in [
            "",
            "1 +",
            "m",
            "ceildiv(1)",
            "ceildiv(1, 0)",
            "d2",
            "1 2",
            "(1",
        ] {
            assert!(eval(bad).is_err(), "{bad}");
        }
        assert!(Formula::parse(&"(".repeat(100_000)).is_err());
    }
}
