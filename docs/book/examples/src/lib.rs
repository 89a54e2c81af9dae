//! The programs of the book: what its chapters include is compiled here.
#![forbid(unsafe_code)]
