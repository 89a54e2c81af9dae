//! `!accel.token`: stands for started work.

use std::fmt;

use tir::{ParseType, TextCx, Type, TypeData};

/// Stands for work that was started; complete once the work is. May be waited for any number of
/// times and carried by loops.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Token;

impl TypeData for Token {
    const NAME: &'static str = "accel.token";
}
impl fmt::Display for Token {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}
impl ParseType for Token {
    const DOC: &'static str = "Stands for work that was started.";
    fn parse(body: Option<&str>, _: &dyn TextCx) -> Result<Self, String> {
        match body {
            None => Ok(Token),
            Some(body) => Err(format!("takes no parameters, found <{body}>")),
        }
    }
}

/// `!accel.token`.
pub fn token() -> Type {
    Type::new(Token)
}

/// Expects a token.
pub static TOKEN: tir::Constraint = tir::Constraint {
    what: "a token",
    holds: Type::is::<Token>,
};
