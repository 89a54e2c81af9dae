//! The pass `replay`: what `egraph{explain=FILE}` wrote, done again.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use tir::rule_file::rules;
use tir::{Diagnostic, Ir, Loc, Name, Pass, PassCx, PassResult, is_table, pass};

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
        let used: Mutex<HashSet<usize>> = Mutex::default();
        cx.each(ir, &|ir, cx| {
            let symbol = symbol(ir);
            let of = |number: usize| {
                let mut all = proofs.iter().enumerate();
                let is = |(_, proof): &(usize, &Written)| {
                    proof.symbol == symbol && proof.block == number
                };
                let (at, proof) = all.find(is)?;
                used.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .insert(at);
                Some(proof)
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
        })?;
        // A module has all functions; others may have proofs for what is not below them.
        let used = used.into_inner().unwrap_or_else(PoisonError::into_inner);
        let left = proofs.iter().enumerate().find(|(at, _)| !used.contains(at));
        match left.filter(|_| is_table(ir, ir.root())) {
            Some((_, proof)) => {
                let (symbol, block) = (&proof.symbol, proof.block);
                let what =
                    format!("the proof is of @{symbol}, block {block}, which the program has not");
                let at = proof.steps.first().map_or(Loc::UNKNOWN, |step| step.loc);
                Err(Diagnostic::error(what).at(at).into())
            }
            None => Ok(()),
        }
    }
}
