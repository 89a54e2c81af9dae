//! Passes that ask interfaces and name no dialect.
#![forbid(unsafe_code)]
// Names compare and hash by what never changes.
#![allow(clippy::mutable_key_type)]

mod canonicalize;
mod constant_fold;
mod cse;
mod dce;
mod licm;
mod symbol_dce;

pub use canonicalize::Canonicalize;
pub use constant_fold::ConstantFold;
pub use cse::Cse;
pub use dce::Dce;
pub use licm::Licm;
pub use symbol_dce::SymbolDce;

use tir::PassInfo;

/// All passes of this crate.
pub fn passes() -> Vec<PassInfo> {
    vec![
        PassInfo::of::<Canonicalize>(),
        PassInfo::of::<ConstantFold>(),
        PassInfo::of::<Cse>(),
        PassInfo::of::<Dce>(),
        PassInfo::of::<Licm>(),
        PassInfo::of::<SymbolDce>(),
    ]
}
