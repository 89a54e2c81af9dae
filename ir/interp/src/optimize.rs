//! What is done to a loop's body: invariant arithmetic goes before it; in a straight innermost
//! body loads and stores step through memory, and a sum of products becomes one instruction.

use std::collections::{HashMap, HashSet};

use crate::code::{Cursor, Instr, Label};
use crate::compile::Compiler;
use crate::memory::Site;
use crate::ops::{CastOp, FloatOp, IntOp, ScalarOp};
use crate::scalar::Kind;

/// The registers that count a loop.
#[derive(Clone, Copy)]
pub(crate) struct Counter {
    pub iv: u32,
    pub upper: u32,
    pub step: u32,
}

type Line = (Instr, u32);

/// The scalar registers an instruction reads.
fn reads(instr: &Instr, lists: &[u32], mut f: impl FnMut(u32)) {
    match *instr {
        Instr::Op { op, a, b, c, .. } => [a, b, c].iter().take(op.inputs().1).for_each(|r| f(*r)),
        Instr::Move { src, .. } => f(src),
        Instr::Load { list, rank, .. } => listed(lists, list, rank).iter().for_each(|r| f(*r)),
        Instr::Store {
            src, list, rank, ..
        } => {
            f(src);
            listed(lists, list, rank).iter().for_each(|r| f(*r));
        }
        Instr::StoreNext { src, .. } => f(src),
        _ => {}
    }
}

fn listed(lists: &[u32], at: u32, rank: u8) -> &[u32] {
    lists
        .get(at as usize..at as usize + rank as usize)
        .unwrap_or(&[])
}

/// The scalar register a straight instruction writes.
fn written(instr: &Instr) -> Option<u32> {
    match *instr {
        Instr::Op { dst, .. } | Instr::Move { dst, .. } => Some(dst),
        Instr::Load { dst, .. } | Instr::LoadNext { dst, .. } => Some(dst),
        _ => None,
    }
}

/// Whether it is scalar arithmetic, moves, loads and stores: what a straight body is made of.
fn is_straight(instr: &Instr) -> bool {
    matches!(
        instr,
        Instr::Op { .. } | Instr::Move { .. } | Instr::Load { .. } | Instr::Store { .. }
    )
}

/// Rewrites the instructions from `start` on, the body of a loop, and puts the label of its head
/// in place. `pinned` registers live across iterations. False if no loop is left to close.
pub(crate) fn shape(
    cx: &mut Compiler<'_>,
    start: usize,
    counter: Counter,
    pinned: &[u32],
    head: Label,
) -> bool {
    let instrs = cx.code.instrs.split_off(start);
    let sites = cx.code.sites.split_off(start);
    let mut body: Vec<Line> = instrs.into_iter().zip(sites).collect();
    let mut work = take_work(&mut body);
    let (mut before, mut body) = hoist(cx, body, pinned);
    let mut open = true;
    if body.iter().all(|(i, _)| is_straight(i)) {
        propagate(cx, &mut body, pinned);
        sweep(cx, &mut body, pinned);
        coalesce(cx, &mut body, pinned);
        cursors(cx, &mut before, &mut body, counter);
        sweep(cx, &mut body, pinned);
        if let Some(whole) = mac(&body, counter) {
            let Counter { iv, upper, step } = counter;
            let each = work.take().map(|(ops, site)| {
                let steps = Instr::WorkLoop {
                    ops,
                    iv,
                    upper,
                    step,
                };
                (steps, site)
            });
            body = each.into_iter().chain([whole]).collect();
            open = false;
        }
    }
    body.extend(work.map(|(ops, site)| (Instr::Work(ops), site)));
    let site = cx.code.ops.len() as u32 - 1;
    let label = open.then_some((Instr::Label(head.0), site));
    for (instr, site) in before.into_iter().chain(label).chain(body) {
        cx.code.instrs.push(instr);
        cx.code.sites.push(site);
    }
    open
}

/// Takes the work of a straight body out: how much it is in all, and the first op's site.
fn take_work(body: &mut Vec<Line>) -> Option<(u32, u32)> {
    let ops = |instr: &Instr| match instr {
        Instr::Work(ops) => Some(*ops),
        _ => None,
    };
    if !body.iter().all(|(i, _)| is_straight(i) || ops(i).is_some()) {
        return None;
    }
    let first = body.iter().find(|(i, _)| ops(i).is_some())?.1;
    let all = body.iter().filter_map(|(i, _)| ops(i)).sum();
    body.retain(|(i, _)| ops(i).is_none());
    Some((all, first))
}

/// All scalar registers that the body may write, with how often.
fn all_written(cx: &Compiler<'_>, body: &[Line]) -> HashMap<u32, u32> {
    use crate::code::Slot;
    let mut out: HashMap<u32, u32> = HashMap::new();
    let mut add = |reg: u32| *out.entry(reg).or_default() += 1;
    for (instr, _) in body {
        let ports: &[Slot] = match instr {
            Instr::Native(n) => cx.code.natives.get(*n as usize).map_or(&[], |n| &n.outputs),
            Instr::Call(n) => cx.code.calls.get(*n as usize).map_or(&[], |n| &n.outputs),
            Instr::LoopNext { iv, .. } => {
                add(*iv);
                &[]
            }
            Instr::MacLoop { acc, iv, .. } => {
                add(*acc);
                add(*iv);
                &[]
            }
            other => {
                if let Some(reg) = written(other) {
                    add(reg);
                }
                &[]
            }
        };
        for port in ports {
            if let Slot::Scalar(reg) = port {
                add(reg.index);
            }
        }
    }
    out
}

/// Takes arithmetic out whose operands the loop does not change.
fn hoist(cx: &Compiler<'_>, body: Vec<Line>, pinned: &[u32]) -> (Vec<Line>, Vec<Line>) {
    let mut changed = all_written(cx, &body);
    let (mut before, mut rest) = (Vec::new(), Vec::new());
    for line in body {
        let free = match &line.0 {
            Instr::Op { op, dst, .. } if !op.may_trap() && !pinned.contains(dst) => {
                let mut fixed = changed.get(dst) == Some(&1);
                reads(&line.0, &cx.code.lists, |r| {
                    fixed &= !changed.contains_key(&r) && !pinned.contains(&r)
                });
                fixed.then_some(*dst)
            }
            _ => None,
        };
        match free {
            Some(dst) => {
                changed.remove(&dst);
                before.push(line);
            }
            None => rest.push(line),
        }
    }
    (before, rest)
}

/// Readers of a copy read what it is a copy of, as long as that has not changed.
fn propagate(cx: &mut Compiler<'_>, body: &mut [Line], pinned: &[u32]) {
    let mut writes: HashMap<u32, u32> = HashMap::new();
    for reg in body.iter().filter_map(|(i, _)| written(i)) {
        *writes.entry(reg).or_default() += 1;
    }
    let mut source: HashMap<u32, u32> = HashMap::new();
    for (instr, _) in body.iter_mut() {
        let find = |r: &mut u32| {
            if let Some(from) = source.get(r) {
                *r = *from;
            }
        };
        match instr {
            Instr::Op { a, b, c, .. } => [a, b, c].into_iter().for_each(find),
            Instr::Move { src, .. } => find(src),
            Instr::Load { list, rank, .. } | Instr::Store { list, rank, .. } => {
                let at = *list as usize..*list as usize + *rank as usize;
                if let Some(regs) = cx.code.lists.get_mut(at) {
                    regs.iter_mut().for_each(find);
                }
            }
            _ => {}
        }
        if let Instr::Store { src, .. } = instr
            && let Some(from) = source.get(src)
        {
            *src = *from;
        }
        if let Some(dst) = written(instr) {
            source.retain(|to, from| *to != dst && *from != dst);
            if let Instr::Move { src, .. } = *instr
                && src != dst
                && !pinned.contains(&dst)
                && writes.get(&dst) == Some(&1)
            {
                source.insert(dst, src);
            }
        }
    }
}

/// A value that is only carried on is computed in the register of what is carried.
fn coalesce(cx: &Compiler<'_>, body: &mut Vec<Line>, pinned: &[u32]) {
    let mut at = body.len();
    while at > 0 {
        at -= 1;
        let Instr::Move { dst, src } = body[at].0 else {
            continue;
        };
        let writers: Vec<usize> = (0..body.len())
            .filter(|&i| written(&body[i].0) == Some(src))
            .collect();
        let [writer] = writers[..] else {
            continue;
        };
        let others = (0..body.len()).any(|i| i != at && written(&body[i].0) == Some(dst));
        let mut clash = others || writer >= at || !pinned.contains(&dst) || pinned.contains(&src);
        let can_rename = matches!(body[writer].0, Instr::Op { .. } | Instr::Load { .. });
        for (i, line) in body.iter().enumerate().skip(writer + 1) {
            reads(&line.0, &cx.code.lists, |r| clash |= r == dst);
            // Lists of indices are shared with nobody, but renaming in them is not worth it.
            let in_list = matches!(line.0, Instr::Load { .. } | Instr::Store { .. });
            let mut uses = false;
            reads(&line.0, &cx.code.lists, |r| uses |= r == src);
            clash |= uses && (in_list || i == at && !matches!(line.0, Instr::Move { .. }));
        }
        if clash || !can_rename {
            continue;
        }
        for line in body.iter_mut().skip(writer) {
            rename(&mut line.0, src, dst);
        }
        body.remove(at);
    }
}

fn rename(instr: &mut Instr, from: u32, to: u32) {
    let swap = |r: &mut u32| {
        if *r == from {
            *r = to;
        }
    };
    match instr {
        Instr::Op { dst, a, b, c, .. } => [dst, a, b, c].into_iter().for_each(swap),
        Instr::Move { dst, src } => [dst, src].into_iter().for_each(swap),
        Instr::Load { dst, .. } => swap(dst),
        _ => {}
    }
}

/// How much registers grow per unit of the counter, for those where it is a constant.
fn growth(cx: &Compiler<'_>, body: &[Line], iv: u32) -> HashMap<u32, i64> {
    let mut changed: HashMap<u32, u32> = HashMap::new();
    for reg in body.iter().filter_map(|(i, _)| written(i)) {
        *changed.entry(reg).or_default() += 1;
    }
    let mut known: HashMap<u32, i64> = HashMap::from([(iv, 1)]);
    for (instr, _) in body {
        let Instr::Op { op, dst, a, b, .. } = *instr else {
            continue;
        };
        let of = |r: u32| match known.get(&r) {
            Some(c) => Some(*c),
            None if !changed.contains_key(&r) => Some(0),
            None => None,
        };
        let grows = match op {
            ScalarOp::Int(IntOp::Add, k) if k.width() == 64 => {
                of(a).zip(of(b)).and_then(|(x, y)| x.checked_add(y))
            }
            ScalarOp::Int(IntOp::Sub, k) if k.width() == 64 => {
                of(a).zip(of(b)).and_then(|(x, y)| x.checked_sub(y))
            }
            ScalarOp::Int(IntOp::Mul, k) if k.width() == 64 => {
                match (cx.is_number(a), cx.is_number(b)) {
                    (_, Some(n)) => of(a).and_then(|x| x.checked_mul(n as i64)),
                    (Some(n), _) => of(b).and_then(|x| x.checked_mul(n as i64)),
                    _ => None,
                }
            }
            ScalarOp::Cast(CastOp::IntS | CastOp::IntU, x, y)
                if x.width() == 64 && y.width() == 64 =>
            {
                of(a)
            }
            _ => None,
        };
        if let Some(grows) = grows
            && changed.get(&dst) == Some(&1)
        {
            known.insert(dst, grows);
        }
    }
    known
}

/// Loads and stores whose indices grow by constants step through memory.
fn cursors(cx: &mut Compiler<'_>, before: &mut Vec<Line>, body: &mut [Line], counter: Counter) {
    let known = growth(cx, body, counter.iv);
    let changed: HashSet<u32> = body.iter().filter_map(|(i, _)| written(i)).collect();
    let mut needed: HashSet<u32> = HashSet::new();
    let mut seeks = Vec::new();
    for (instr, site) in body.iter_mut() {
        let (view, list, rank, kind) = match *instr {
            Instr::Load {
                view,
                list,
                rank,
                kind,
                ..
            } => (view, list, rank, kind),
            Instr::Store {
                view,
                list,
                rank,
                kind,
                ..
            } => (view, list, rank, kind),
            _ => continue,
        };
        let regs = listed(&cx.code.lists, list, rank).to_vec();
        let indices = regs.iter().map(|r| match known.get(r) {
            Some(c) => Some((*r, *c)),
            None if !changed.contains(r) => Some((*r, 0)),
            None => None,
        });
        let Some(indices) = indices.collect::<Option<Vec<_>>>() else {
            continue;
        };
        needed.extend(regs.iter().filter(|r| changed.contains(r)));
        let cursor = cx.code.cursors.len() as u32;
        let op = cx.code.ops.get(*site as usize).copied();
        let op = op.unwrap_or(Site::of(cx.ir.op(cx.ir.root())));
        cx.code.cursors.push(Cursor {
            view,
            indices,
            site: op,
        });
        let Counter { iv, upper, step } = counter;
        seeks.push((
            Instr::Seek {
                cursor,
                iv,
                upper,
                step,
            },
            *site,
        ));
        *instr = match *instr {
            Instr::Store { src, .. } => Instr::StoreNext { src, cursor, kind },
            Instr::Load { dst, .. } => Instr::LoadNext { dst, cursor, kind },
            other => other,
        };
    }
    // The first indices are computed before the loop too.
    let mut first: Vec<Line> = Vec::new();
    for line in body.iter().rev() {
        if let Instr::Op { dst, .. } = line.0
            && needed.contains(&dst)
            && known.contains_key(&dst)
        {
            reads(&line.0, &cx.code.lists, |r| {
                if changed.contains(&r) {
                    needed.insert(r);
                }
            });
            first.push(*line);
        }
    }
    first.reverse();
    before.extend(first);
    before.extend(seeks);
}

/// Removes arithmetic that nobody reads any more.
fn sweep(cx: &Compiler<'_>, body: &mut Vec<Line>, pinned: &[u32]) {
    loop {
        let mut read: HashSet<u32> = pinned.iter().copied().collect();
        for (instr, _) in body.iter() {
            reads(instr, &cx.code.lists, |r| {
                read.insert(r);
            });
        }
        let len = body.len();
        body.retain(|(instr, _)| match instr {
            Instr::Op { op, dst, .. } => op.may_trap() || read.contains(dst),
            Instr::Move { dst, .. } => read.contains(dst),
            _ => true,
        });
        if body.len() == len {
            return;
        }
    }
}

/// The loop `acc = acc + x[..] * y[..]` as one instruction.
fn mac(body: &[Line], counter: Counter) -> Option<Line> {
    let [(first, _), (second, _), (product, _), (sum, site)] = body else {
        return None;
    };
    let (
        Instr::LoadNext {
            dst: p,
            cursor: x,
            kind: Kind::F32,
        },
        Instr::LoadNext {
            dst: q,
            cursor: y,
            kind: Kind::F32,
        },
    ) = (*first, *second)
    else {
        return None;
    };
    let Instr::Op {
        op: ScalarOp::Float(FloatOp::Mul, Kind::F32),
        dst: r,
        a,
        b,
        ..
    } = *product
    else {
        return None;
    };
    let Instr::Op {
        op: ScalarOp::Float(FloatOp::Add, Kind::F32),
        dst: acc,
        a: c,
        b: d,
        ..
    } = *sum
    else {
        return None;
    };
    let product = (a, b) == (p, q) || (a, b) == (q, p);
    let sum = (c, d) == (acc, r) || (c, d) == (r, acc);
    let Counter { iv, upper, step } = counter;
    (product && sum && p != q && acc != r).then_some((
        Instr::MacLoop {
            acc,
            x,
            y,
            iv,
            upper,
            step,
        },
        *site,
    ))
}
