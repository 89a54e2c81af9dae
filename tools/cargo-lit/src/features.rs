//! Conditions over features: `a && (b || !c)`; `*` and `true` always hold.

use tir_core::{ScanError, Scanner};

/// Evaluates `source`; `has` tells whether a name holds.
pub(crate) fn holds(source: &str, has: &dyn Fn(&str) -> bool) -> Result<bool, String> {
    let mut parser = Parser {
        s: Scanner::new(source),
        has,
    };
    let value = parser.or().and_then(|value| {
        parser.s.end("'&&', '||'")?;
        Ok(value)
    });
    value.map_err(|error| {
        let (_, column) = error.line_column(source);
        let message = error.message;
        format!("{message} at column {column} of condition '{source}'")
    })
}

struct Parser<'a> {
    s: Scanner<'a>,
    has: &'a dyn Fn(&str) -> bool,
}

impl Parser<'_> {
    fn or(&mut self) -> Result<bool, ScanError> {
        let mut value = self.and()?;
        while self.s.eat("||") {
            value |= self.and()?;
        }
        Ok(value)
    }

    fn and(&mut self) -> Result<bool, ScanError> {
        let mut value = self.not()?;
        while self.s.eat("&&") {
            value &= self.not()?;
        }
        Ok(value)
    }

    fn not(&mut self) -> Result<bool, ScanError> {
        let mut negative = false;
        while self.s.eat("!") {
            negative = !negative;
        }
        Ok(self.atom()? != negative)
    }

    fn atom(&mut self) -> Result<bool, ScanError> {
        if self.s.eat("*") {
            return Ok(true);
        }
        if self.s.eat("(") {
            self.s.enter()?;
            let value = self.or()?;
            self.s.leave();
            self.s.expect(")")?;
            return Ok(value);
        }
        let name_char = |c: char| c.is_ascii_alphanumeric() || "-_.+=:".contains(c);
        match self.s.word("the name of a feature", name_char)? {
            "true" => Ok(true),
            "false" => Ok(false),
            name => Ok((self.has)(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::holds;

    #[test]
    fn evaluates() {
        let has = |name: &str| name == "a" || name == "mlir-opt-22";
        for (source, value) in [
            ("a", Ok(true)),
            ("b", Ok(false)),
            ("!b && mlir-opt-22", Ok(true)),
            ("b || (a && !b)", Ok(true)),
            ("a && b || a", Ok(true)),
            ("*", Ok(true)),
            ("!true", Ok(false)),
        ] {
            assert_eq!(holds(source, &has), value, "{source}");
        }
        for bad in ["", "a b", "(a", "a &&", "&& a", &"(".repeat(100_000)] {
            assert!(holds(bad, &has).is_err());
        }
    }
}
