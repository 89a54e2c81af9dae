//! Compiled functions: instructions on registers, and the tables beside them.

use std::cell::OnceCell;
use std::rc::{Rc, Weak};

use tir_core::{Failure, Name, Type};

use crate::data::Data;
use crate::env::Env;
use crate::memory::Site;
use crate::ops::ScalarOp;
use crate::scalar::Kind;

/// A scalar register and what it holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reg {
    pub(crate) index: u32,
    /// The kind of what it holds.
    pub kind: Kind,
}

/// Where a value lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Slot {
    Scalar(Reg),
    Object(u32),
}

/// A place to jump to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Label(pub(crate) u32);

/// One instruction. Numbers are registers unless their name says else.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Instr {
    Op {
        op: ScalarOp,
        dst: u32,
        a: u32,
        b: u32,
        c: u32,
    },
    // The most frequent operations, without a second dispatch.
    AddI {
        dst: u32,
        a: u32,
        b: u32,
    },
    MulI {
        dst: u32,
        a: u32,
        b: u32,
    },
    AddF {
        dst: u32,
        a: u32,
        b: u32,
    },
    SubF {
        dst: u32,
        a: u32,
        b: u32,
    },
    MulF {
        dst: u32,
        a: u32,
        b: u32,
    },
    Move {
        dst: u32,
        src: u32,
    },
    MoveObject {
        dst: u32,
        src: u32,
    },
    CopyObject {
        dst: u32,
        src: u32,
    },
    SelectObject {
        dst: u32,
        cond: u32,
        a: u32,
        b: u32,
    },
    /// Indices are `rank` registers in the list at `list`.
    Load {
        dst: u32,
        view: u32,
        list: u32,
        rank: u8,
        kind: Kind,
    },
    Store {
        src: u32,
        view: u32,
        list: u32,
        rank: u8,
        kind: Kind,
    },
    /// Puts the cursor on the elements that a loop visits; see [`Cursor`].
    Seek {
        cursor: u32,
        iv: u32,
        upper: u32,
        step: u32,
    },
    LoadNext {
        dst: u32,
        cursor: u32,
        kind: Kind,
    },
    StoreNext {
        src: u32,
        cursor: u32,
        kind: Kind,
    },
    /// The loop `acc = acc + x[..] * y[..]` in `f32`, in order; `swap` adds `x·y + acc`.
    MacLoop {
        acc: u32,
        x: u32,
        y: u32,
        iv: u32,
        upper: u32,
        step: u32,
    },
    /// Tells the memory of scalar operations on data.
    Work(u32),
    /// As many for each step of a loop.
    WorkLoop {
        ops: u32,
        iv: u32,
        upper: u32,
        step: u32,
    },
    Label(u32),
    Jump(u32),
    JumpIf {
        cond: u32,
        to: u32,
    },
    JumpUnless {
        cond: u32,
        to: u32,
    },
    /// Fails unless the step is positive; leaves the loop if there is nothing to do.
    LoopEnter {
        iv: u32,
        upper: u32,
        step: u32,
        exit: u32,
    },
    LoopNext {
        iv: u32,
        upper: u32,
        step: u32,
        body: u32,
    },
    Native(u32),
    /// Makes the part of a view of this number.
    Subview(u32),
    /// Tells the memory that the watched op of this number has run to its end.
    Passed(u32),
    /// Asks the memory at the start of an iteration of the watched loop of this number how many iterations to leave out.
    Round {
        number: u32,
        iv: u32,
        upper: u32,
        step: u32,
    },
    Call(u32),
    Return(u32),
    /// Fails with the message of this number.
    Fail(u32),
    /// Fails with the message of this number unless a truth value holds; without data it is taken to.
    Check {
        cond: u32,
        message: u32,
    },
}

/// What a native instruction runs.
pub(crate) type NativeFn<'m> = dyn Fn(&mut Env<'m>, &mut [Data]) -> Result<Vec<Data>, Failure> + 'm;

/// An operand or result of a native instruction or call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Port {
    pub slot: Slot,
    /// Whether this is the last use, so that the value is moved.
    pub last: bool,
}

pub(crate) struct Native<'m> {
    pub run: Rc<NativeFn<'m>>,
    pub inputs: Vec<Port>,
    pub outputs: Vec<Slot>,
}

/// An offset of a part of a view: a number, or a scalar register.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Offset {
    Number(i64),
    Reg(u32),
}

/// A part of the view in object register `src`; see [`View::part`](crate::View::part).
pub(crate) struct Subview {
    pub dst: u32,
    pub src: u32,
    pub offsets: Vec<Offset>,
    pub sizes: Vec<i64>,
    pub steps: Vec<i64>,
    /// The dimensions that are left.
    pub keep: Vec<bool>,
}

pub(crate) struct CallSite<'m> {
    pub callee: Name,
    pub inputs: Vec<Port>,
    pub outputs: Vec<Slot>,
    pub code: OnceCell<Weak<Code<'m>>>,
}

/// A memory operation of an innermost loop whose address steps by a constant.
pub(crate) struct Cursor {
    pub view: u32,
    /// For each dimension the register of its first index, and how much it grows per unit of the
    /// loop's counter.
    pub indices: Vec<(u32, i64)>,
    /// Who accesses.
    pub site: Site,
}

/// A compiled function (or region).
pub(crate) struct Code<'m> {
    pub name: Name,
    pub params: Vec<(Slot, Type)>,
    pub instrs: Vec<Instr>,
    /// For each instruction the index of its op in `ops`.
    pub sites: Vec<u32>,
    pub ops: Vec<Site>,
    /// What scalar registers hold at the start: constants.
    pub scalars: Vec<u64>,
    /// The number of object registers.
    pub objects: u32,
    /// What object registers hold at the start.
    pub constants: Vec<(u32, Data)>,
    pub lists: Vec<u32>,
    pub natives: Vec<Native<'m>>,
    pub calls: Vec<CallSite<'m>>,
    pub returns: Vec<Vec<Port>>,
    pub cursors: Vec<Cursor>,
    pub messages: Vec<String>,
    pub parts: Vec<Subview>,
}

impl Code<'_> {
    /// The op behind an instruction.
    pub(crate) fn site(&self, pc: usize) -> Option<Site> {
        self.ops.get(*self.sites.get(pc)? as usize).copied()
    }
}
