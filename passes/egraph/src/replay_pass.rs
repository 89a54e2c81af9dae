//! The pass `replay`: what `egraph{explain=FILE}` wrote, done again.

use tir::rule_file::rules;
use tir::{Diagnostic, Ir, Name, Pass, PassCx, PassResult, pass};

use crate::blocks::{blocks, symbol};
use crate::proof::replay::replay;
use crate::proof::text::{Written, read};

pass! {
    /// Replays an explanation written by `egraph{explain=FILE}`: applies its rewrite steps to the
    /// program it was written for, with the rules themselves.
    ///
    /// What comes out is the program that `egraph` chose, up to the order of ops and equal ones. A
    /// step that does not apply, or a result that does not follow from the steps, is an error at its
    /// line.
    pub struct Replay = "replay" {
        /// File with the explanations.
        pub file: String = String::new(),
        /// Rule files to load in addition to the rules of the dialects and `--rules`.
        pub rules: Vec<String> = Vec::new(),
    }
}

impl Pass for Replay {
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        if self.file.is_empty() {
            let what = "'replay' needs option 'file', the explanation to replay";
            return Err(Diagnostic::error(what).into());
        }
        let text = std::fs::read_to_string(&self.file)
            .map_err(|e| Diagnostic::error(format!("cannot read '{}': {e}", self.file)))?;
        let proofs = read(Name::new(&self.file), &text)?;
        let patterns = rules(cx, &self.rules)?.finish(&cx.settings().disabled_rules)?;
        cx.each(ir, &|ir, cx| {
            let symbol = symbol(ir);
            let of = |number: usize| {
                let mut proofs = proofs.iter();
                proofs.find(|proof: &&Written| proof.symbol == symbol && proof.block == number)
            };
            let mut changed = false;
            for (number, block) in blocks(ir).into_iter().enumerate() {
                if let Some(proof) = of(number) {
                    let steps = replay(ir, block, proof, &patterns).map_err(|error| vec![error])?;
                    cx.count("steps", steps);
                    changed = true;
                }
            }
            if !changed {
                cx.unchanged();
            }
            Ok(())
        })
    }
}
