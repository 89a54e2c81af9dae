//! Conditions over features: `a && (b || !c)`; `*` and `true` always hold.

/// Deeper nesting is refused.
const MAX_DEPTH: usize = 100;

/// Evaluates `source`; `has` tells whether a name holds.
pub(crate) fn holds(source: &str, has: &dyn Fn(&str) -> bool) -> Result<bool, String> {
    let mut parser = Parser {
        rest: source.trim_start(),
        has,
        depth: 0,
    };
    let value = parser.or()?;
    match parser.rest {
        "" => Ok(value),
        rest => Err(format!("unexpected '{rest}' in condition '{source}'")),
    }
}

struct Parser<'a> {
    rest: &'a str,
    has: &'a dyn Fn(&str) -> bool,
    depth: usize,
}

impl Parser<'_> {
    fn eat(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn or(&mut self) -> Result<bool, String> {
        let mut value = self.and()?;
        while self.eat("||") {
            value |= self.and()?;
        }
        Ok(value)
    }

    fn and(&mut self) -> Result<bool, String> {
        let mut value = self.not()?;
        while self.eat("&&") {
            value &= self.not()?;
        }
        Ok(value)
    }

    fn not(&mut self) -> Result<bool, String> {
        let mut negative = false;
        while self.eat("!") {
            negative = !negative;
        }
        Ok(self.atom()? != negative)
    }

    fn atom(&mut self) -> Result<bool, String> {
        if self.eat("*") {
            return Ok(true);
        }
        if self.eat("(") {
            self.depth += 1;
            if self.depth > MAX_DEPTH {
                return Err("condition nests too deeply".into());
            }
            let value = self.or()?;
            self.depth -= 1;
            return if self.eat(")") {
                Ok(value)
            } else {
                Err("missing ')' in condition".into())
            };
        }
        let name_char = |c: char| c.is_ascii_alphanumeric() || "-_.+=:".contains(c);
        let end = self.rest.find(|c| !name_char(c)).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        match name {
            "" => Err("expected a feature's name in condition".into()),
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
