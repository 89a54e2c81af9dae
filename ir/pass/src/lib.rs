//! Passes, textual pipelines and the pass manager.
//!
//! A pass is a plain struct of options, declared with [`pass!`], that implements [`Pass`]. What a
//! tool offers is a [`PassRegistry`] built from explicit lists; a text becomes a [`Pipeline`],
//! which a [`PassManager`] runs.
#![forbid(unsafe_code)]
// Names compare and hash by what never changes.
#![allow(clippy::mutable_key_type)]

mod analysis;
mod clock;
mod context;
mod manager;
mod memo;
mod options;
mod pass;
mod pipeline;
mod print;
mod registry;
mod report;
mod run;
mod settings;
mod shared;
mod symbols;
mod text;

pub use analysis::Analysis;
pub use context::{PassCx, PassResult, at_least};
pub use manager::PassManager;
pub use memo::Memo;
pub use options::{
    OptionInfo, OptionValue, PassOptions, no_less, one_of, option_text, read_option,
};
pub use pass::{Alias, AnyPass, Pass};
pub use pipeline::{Element, Pipeline};
pub use print::{IrPrint, When};
pub use registry::{PassInfo, PassRegistry};
pub use report::{FailedPass, Report, Timing};
pub use run::place;
pub use settings::{PrintIr, Printer, Settings};
pub use symbols::SymbolInfo;
pub use text::PIPELINE;
