//! `!accel.token`, which stands for started work, and `!accel.semaphore`.

use std::fmt;

use tir::{ParseType, TextCx, Type, TypeData};

/// The completion of work that was started. May be waited for any number of times and carried by
/// loops.
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
    const DOC: &'static str = "The completion of work that was started.";
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
pub(crate) static TOKEN: tir::Constraint = tir::Constraint::one("a token", token);

/// A semaphore between queues.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SemaphoreType;

impl TypeData for SemaphoreType {
    const NAME: &'static str = "accel.semaphore";
}
impl fmt::Display for SemaphoreType {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}
impl ParseType for SemaphoreType {
    const DOC: &'static str = "Counts units that one queue releases and another acquires.";
    fn parse(body: Option<&str>, _: &dyn TextCx) -> Result<Self, String> {
        match body {
            None => Ok(SemaphoreType),
            Some(body) => Err(format!("takes no parameters, found <{body}>")),
        }
    }
}

/// `!accel.semaphore`.
pub(crate) fn semaphore() -> Type {
    Type::new(SemaphoreType)
}

/// Expects a semaphore.
pub(crate) static SEMAPHORE: tir::Constraint = tir::Constraint::one("a semaphore", semaphore);
