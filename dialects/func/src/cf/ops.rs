//! The ops of cf.

use tir::constraints::BOOL;
use tir::{Access, Effect, Effects, HasEffects, Op, OpRef, Successor, Value, smallvec};

/// Goes on at a block.
#[derive(Op)]
#[op("cf.br", Terminator, Pure, lower_to_eval)]
#[asm("$dest attr-dict")]
pub struct Br {
    /// Where to.
    pub dest: Successor,
}

/// Goes on at one of two blocks.
#[derive(Op)]
#[op("cf.cond_br", Terminator, Pure, lower_to_eval)]
#[asm("$condition `,` $true_dest `,` $false_dest attr-dict")]
pub struct CondBr {
    /// Which one.
    #[is(BOOL)]
    pub condition: Value,
    /// Where to if it is true.
    pub true_dest: Successor,
    /// Where to if it is false.
    pub false_dest: Successor,
    /// How often each is taken, as MLIR keeps it.
    pub branch_weights: Option<Vec<i64>>,
}

/// Stops the program with a message if the condition is false.
#[derive(Op)]
#[op("cf.assert", effects, lower_to_eval)]
#[asm("$arg `,` $msg attr-dict")]
pub struct Assert {
    /// What must be true.
    #[is(BOOL)]
    pub arg: Value,
    /// The message if it is not.
    pub msg: String,
}
impl HasEffects for Assert {
    fn effects(&self, _: OpRef<'_>) -> Effects {
        smallvec![Effect {
            access: Access::Write,
            on: None
        }]
    }
}
