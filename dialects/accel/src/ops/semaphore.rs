//! Semaphores: dependences between queues that are not tokens, as machines have them.

use tir::{Access, Effect, Effects, Failure, HasEffects, Infer, Op, OpRef, Scopes, Sym, Type};
use tir::{Value, Verify, VerifySymbols};

use crate::machine::MachineInfo;
use crate::token::{SEMAPHORE, semaphore};

/// A semaphore: the k-th unit that is acquired is one of the initial ones, or the k-th released
/// after them. One queue (or the thread) releases, one acquires.
#[derive(Op)]
#[op(
    "accel.semaphore",
    StrictAttributes,
    results(semaphore),
    infer,
    effects,
    verify,
    lower_to_eval
)]
#[asm("$initial attr-dict")]
pub struct Semaphore {
    /// Units to begin with.
    pub initial: i64,
}
impl Infer for Semaphore {
    fn infer(&self, _: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        Ok(vec![semaphore()])
    }
}
impl Verify for Semaphore {
    fn verify(&self, _: OpRef<'_>) -> Result<(), Failure> {
        match self.initial {
            0..=0xFFFF_FFFF => Ok(()),
            n => Err(format!("has {n} units to begin with, expected 0 to 4294967295").into()),
        }
    }
}

/// Has effects on unknown memory: never moved, merged or erased.
fn ordering() -> Effects {
    [Access::Read, Access::Write]
        .map(|access| Effect { access, on: None })
        .into_iter()
        .collect()
}
impl HasEffects for Semaphore {
    fn effects(&self, _: OpRef<'_>) -> Effects {
        ordering()
    }
}

macro_rules! ends {
    ($($(#[$doc:meta])* $name:ident $text:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Op)]
        #[op($text, StrictAttributes, effects, verify_symbols, lower_to_eval)]
        #[asm("$semaphore (`on` $queue^)? attr-dict")]
        pub struct $name {
            /// Which one.
            #[is(SEMAPHORE)]
            pub semaphore: Value,
            /// The queue that does it, after the work started there before; the thread if absent.
            pub queue: Option<Sym>,
        }
        impl HasEffects for $name {
            fn effects(&self, _: OpRef<'_>) -> Effects {
                ordering()
            }
        }
        impl VerifySymbols for $name {
            fn verify_symbols(&self, _: OpRef<'_>, scopes: &Scopes<'_>) -> Result<(), Failure> {
                let Some(Sym(queue)) = self.queue else {
                    return Ok(());
                };
                let machine = MachineInfo::in_scopes(scopes).ok_or_else(|| {
                    Failure::from(format!("names @{queue}, but no machine is attached"))
                })?;
                if machine.engine(queue).is_none() && machine.unit(queue).is_none() {
                    let name = machine.name;
                    return Err(format!("names @{queue}, which is no queue of machine @{name}").into());
                }
                Ok(())
            }
        }
    )*};
}
ends! {
    /// Adds a unit.
    Release "accel.release";
    /// Takes a unit, and waits until there is one.
    Acquire "accel.acquire";
}
