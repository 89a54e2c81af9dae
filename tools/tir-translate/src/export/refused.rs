//! What cannot be exported, by cause.

use tir_core::{Diagnostic, Ir, OpId};

/// All that went wrong in one export, in the order in which it came up.
#[derive(Default)]
pub(super) struct Refused {
    causes: Vec<Cause>,
}

struct Cause {
    message: String,
    first: Diagnostic,
    more: usize,
}

impl Refused {
    /// An op that has no form.
    pub(super) fn op(&mut self, ir: &Ir, op: OpId, why: &str) {
        let message = format!("'{}' cannot be exported to ONNX: {why}", ir.name(op));
        match self.causes.iter_mut().find(|c| c.message == message) {
            Some(cause) => cause.more += 1,
            None => self.causes.push(Cause {
                first: Diagnostic::error(message.clone()).at(ir.loc(op)),
                message,
                more: 0,
            }),
        }
    }

    /// An error for each cause.
    pub(super) fn finish(self) -> Result<(), Vec<Diagnostic>> {
        let error = |cause: Cause| match cause.more {
            0 => cause.first,
            1 => cause.first.note("the same of 1 more op"),
            more => cause.first.note(format!("the same of {more} more ops")),
        };
        match self.causes.is_empty() {
            true => Ok(()),
            false => Err(self.causes.into_iter().map(error).collect()),
        }
    }
}
