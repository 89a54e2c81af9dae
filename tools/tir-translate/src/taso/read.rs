//! The text: four lines for each operator.
//!
//! ```text
//! 158                              a number for the operator
//! 3                                its type, by TASO's table
//! 157:0,103:0                      operands: operator and which of its results
//! 1,64,55,55,16,64,1,1,1,1,0,0,0,0 parameters, by type
//! ```

use tir_core::{Diagnostic, Loc, LocFile, Name};

/// One operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Where it stands.
    pub loc: Loc,
    /// Its number.
    pub id: u64,
    /// Its type.
    pub op: u64,
    /// Its operands: operators and which of their results.
    pub inputs: Vec<(u64, u64)>,
    /// Its parameters.
    pub parameters: Vec<i64>,
}

impl Record {
    /// An error at the operator.
    pub(super) fn error(&self, why: impl std::fmt::Display) -> Diagnostic {
        Diagnostic::error(format!("operator {}: {why}", self.id)).at(self.loc)
    }
}

/// Reads all operators.
///
/// # Errors
/// The first line that is no list of numbers, or a last operator without all its lines.
pub(super) fn records(name: &str, text: &str) -> Result<Vec<Record>, Diagnostic> {
    let file = LocFile::new(Name::new(name));
    let lines: Vec<&str> = text.lines().collect();
    let mut records = Vec::new();
    for (i, four) in lines.chunks(4).enumerate() {
        let at = |k: usize| file.at((4 * i + k + 1) as u32, 1);
        let &[id, op, inputs, parameters] = four else {
            if four.iter().all(|line| line.trim().is_empty()) {
                break;
            }
            let message = format!(
                "the file ends after {} of the 4 lines of an operator",
                four.len()
            );
            return Err(Diagnostic::error(message).at(at(0)));
        };
        let whole = |k: usize, line: &str, what: &str| {
            let number = line.trim().parse();
            number.map_err(|_| Diagnostic::error(format!("'{line}' is no {what}")).at(at(k)))
        };
        let operand = |text: &str| {
            let (from, result) = text.trim().split_once(':')?;
            Some((from.parse().ok()?, result.parse().ok()?))
        };
        records.push(Record {
            loc: at(0),
            id: whole(0, id, "number of an operator")?,
            op: whole(1, op, "type of an operator")?,
            inputs: list(inputs, operand).map_err(|e| {
                Diagnostic::error(format!("'{e}' is no operand, as 157:0")).at(at(2))
            })?,
            parameters: list(parameters, |t| t.trim().parse().ok())
                .map_err(|e| Diagnostic::error(format!("'{e}' is no whole number")).at(at(3)))?,
        });
    }
    Ok(records)
}

/// The items of a list with commas, or the first that is none.
fn list<T>(line: &str, item: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, &str> {
    if line.trim().is_empty() {
        return Ok(Vec::new());
    }
    line.split(',').map(|text| item(text).ok_or(text)).collect()
}
