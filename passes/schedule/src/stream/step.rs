//! The steps that a function is made into, on numbered slots.

use std::rc::Rc;

use tir::{Name, OpId};
use tir_accel::transfer::Pattern;

/// An index, or a view: a root and a byte in it; or a token: a queue and how much of its work.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Val {
    pub(super) a: i64,
    pub(super) root: usize,
}

/// A numbered place for a value.
pub(super) type Slot = usize;

/// The bytes of a view.
#[derive(Debug)]
pub(super) struct Foot {
    pub(super) view: Slot,
    pub(super) dims: Rc<[(i64, i64)]>,
    pub(super) elem: i64,
}

/// A step of a run.
#[derive(Debug)]
pub(super) enum Step {
    Int {
        dst: Slot,
        op: Name,
        args: [Slot; 3],
        predicate: i64,
    },
    Shift {
        dst: Slot,
        src: Slot,
        terms: Vec<(Slot, i64)>,
        plus: i64,
    },
    Loop {
        bounds: [Slot; 3],
        iv: Slot,
        init: Vec<(Slot, Slot)>,
        body: Vec<Step>,
        carry: Vec<(Slot, Slot)>,
        out: Vec<(Slot, Slot)>,
        op: OpId,
    },
    If {
        condition: Slot,
        branches: [Vec<Step>; 2],
        yields: [Vec<(Slot, Slot)>; 2],
    },
    Work {
        site: usize,
        reads: Vec<Foot>,
        writes: Vec<Foot>,
        after: Vec<Slot>,
        token: Option<Slot>,
    },
    Move {
        site: usize,
        pattern: Box<Pattern>,
        far: Slot,
        tile: Slot,
        offsets: Vec<Slot>,
        read: bool,
        after: Vec<Slot>,
        token: Option<Slot>,
    },
    Mark {
        dst: Slot,
        queue: usize,
    },
    Point {
        point: usize,
    },
}
