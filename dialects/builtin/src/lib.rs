//! The dialects builtin (modules and casts between type systems) and rule (rewrite rules as text).
#![forbid(unsafe_code)]

mod ops;
pub mod rule;

pub use ops::{Module, UnrealizedConversionCast};

tir::dialect! {
    /// Modules, and casts that stand between two type systems during a conversion.
    builtin { ops: [Module, UnrealizedConversionCast] }
}

/// What the text of every program may hold: elements in files.
pub static TIR: tir::Dialect = tir::Dialect {
    name: "tir",
    doc: "What the text of every program may hold: elements in files.",
    ops: &[],
    types: &[],
    attrs: &[tir::attr_info::<tir::BlobAttr>()],
    constant: None,
    load: None,
    attached: tir::Attached::new(),
};

/// An empty module.
pub fn module() -> (tir::Ir, tir::BlockId) {
    let mut ir = tir::Ir::new(<Module as tir::Op>::name());
    let region = ir.new_region();
    let root = ir.root();
    ir.attach_region(root, region);
    let block = ir.new_block(region);
    (ir, block)
}
