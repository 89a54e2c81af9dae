//! What is said of a program as MLIR: how it is written, and what its functions take.

use std::path::Path;

use tir::data::{Bytes, DataError, Staged};
use tir::interp::elements;
use tir::{Attr, Failure, Loc, Name, Type};

/// How to write MLIR.
#[derive(Clone, Debug)]
pub struct Options {
    /// Keep every bit: no multiplication and addition become one operation, and functions are those of the interpreter.
    pub strict: bool,
    /// What begins the names of functions.
    pub prefix: String,
    /// What places in the weights and in the arena are multiples of, in bytes.
    pub align: usize,
    /// Innermost loops that carry vectors are written out if they have so many steps at most: no branch ends the steps of
    /// a block of sums. Of other loops LLVM writes out a few.
    pub unroll: i64,
    /// Store what the processor counts as time behind each part of a public function, in one more argument.
    pub marks: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            strict: true,
            prefix: "tir_".to_string(),
            align: 64,
            unroll: 16,
            marks: false,
        }
    }
}

/// A program as MLIR.
#[derive(Clone, Debug)]
pub struct Module {
    /// The text.
    pub text: String,
    /// Its public functions, in the order of the program.
    pub functions: Vec<Function>,
    /// The constants, in the order of their places.
    pub constants: Vec<Constant>,
    /// Bytes of all constants.
    pub bytes: usize,
}

/// A constant of a program.
#[derive(Clone, Copy, Debug)]
pub struct Constant {
    /// Its name.
    pub name: Name,
    /// Its place in bytes.
    pub at: usize,
    /// How many bytes it has.
    pub bytes: usize,
    /// Its elements.
    pub value: Attr,
}

impl Module {
    /// The bytes of all constants, each at its place, and the zeros between them: parts that follow one another, each in
    /// memory once it is asked for.
    ///
    /// # Errors
    /// For a constant that cannot be read.
    pub fn weights(&self) -> impl Iterator<Item = Result<Bytes, Failure>> {
        let ends = self.constants.iter().map(|c| c.at + c.bytes);
        let ends = std::iter::once(0).chain(ends);
        let places = self.constants.iter().map(|c| (c.at, Some(c.value)));
        let places = places.chain([(self.bytes, None)]);
        ends.zip(places).flat_map(|(end, (at, value))| {
            let between = Ok(Bytes::from(vec![0; at.saturating_sub(end)]));
            let own = value.map(|value| Ok(elements(value)?.data().clone()));
            std::iter::once(between).chain(own)
        })
    }

    /// Writes the bytes of all constants to a file, whose name holds all of them or what it held before.
    ///
    /// # Errors
    /// If the file cannot be written, or a constant cannot be read.
    pub fn write_weights(&self, path: &Path) -> Result<(), Failure> {
        let mut unread = None;
        let staged = Staged::write_with(path, |file| {
            for part in self.weights() {
                let part = part.map_err(|error| {
                    let message = error.message.clone();
                    unread = Some(error);
                    DataError::new(message)
                })?;
                file.put(&part)?;
            }
            Ok(())
        });
        let failure = |error: DataError| Failure::from(error.to_string());
        let staged = staged.map_err(|error| unread.unwrap_or_else(|| failure(error)))?;
        staged.commit().map_err(failure)
    }
}

/// A public function of a program.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name in the program.
    pub name: Name,
    /// Its name in the library.
    pub symbol: String,
    /// Its arguments but for the last ones, which are weights, arena, threads, and marks where they are asked for.
    pub arguments: Vec<Argument>,
    /// Bytes of the arena, for one thread.
    pub arena: usize,
    /// Bytes more for each further thread.
    pub further: usize,
    /// Locations of the ops behind which time is stored, as a 64-bit count each, after that of the beginning.
    pub marks: Vec<Loc>,
}

/// An argument of a function of a library: a pointer to dense elements in row-major order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Argument {
    /// Type of an element.
    pub elem: Type,
    /// The shape; empty for one element.
    pub shape: &'static [i64],
    /// What it is for the program.
    pub role: Role,
}

/// What an argument of a function of a library is for the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// The argument of this number, which is read.
    Input(usize),
    /// The argument of this number, which is marked as an output.
    Output(usize),
    /// The result of this number.
    Result(usize),
}

impl Argument {
    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        let elements: i64 = self.shape.iter().product();
        elements as usize * self.elem.bytes().unwrap_or(0)
    }
}
