//! The programs of the book: what its chapters include is compiled here.
//!
//! [`toy`] is the dialect of the tutorial, [`demo`] the ops of the chapter on the language.
#![forbid(unsafe_code)]

pub mod demo;
pub mod toy;
