//! `!toy.mod<7>`: residues modulo a number.

use std::fmt;

use tir::{Constraint, ParseType, TensorType, TextCx, Type, TypeData};

// ANCHOR: type
/// Residues modulo a number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Mod {
    /// The modulus, 2 to 1024.
    pub modulus: i64,
}

impl TypeData for Mod {
    const NAME: &'static str = "toy.mod";

    /// Elements of tensors are stored like this: they have a size, constants, and run.
    fn storage(&self) -> Option<Type> {
        Some(Type::int(32))
    }
}
impl fmt::Display for Mod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.modulus)
    }
}
impl ParseType for Mod {
    const DOC: &'static str = "Residues modulo a number: 0 up to it. Stored as `i32`.";

    fn parse(body: Option<&str>, _: &dyn TextCx) -> Result<Self, String> {
        let body = body.unwrap_or_default();
        match body.trim().parse() {
            Ok(modulus @ 2..=1024) => Ok(Mod { modulus }),
            _ => Err(format!("has modulus '{body}', expected 2 to 1024")),
        }
    }
}
// ANCHOR_END: type

impl Mod {
    /// The residues that a tensor holds.
    pub fn of(ty: Type) -> Option<Mod> {
        ty.elem().get().copied()
    }
}

// ANCHOR: constraint
/// Expects a tensor of residues.
pub(crate) static RESIDUES: Constraint = Constraint::new("a ranked tensor of residues", |ty| {
    ty.is::<TensorType>() && Mod::of(ty).is_some()
});
// ANCHOR_END: constraint
