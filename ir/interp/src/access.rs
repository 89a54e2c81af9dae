//! Loads and stores of compiled code: fast on plain memory, checked on any.

use tir_core::Failure;

use crate::code::{Code, Cursor};
use crate::compile::placed;
use crate::data::Data;
use crate::env::{Env, Store};
use crate::memory::Site;
use crate::scalar::Kind;
use crate::view::{View, out_of_bounds};
use tir_data::{BufferId, StridedBox};

/// Where a cursor stands.
#[derive(Clone, Copy)]
pub(crate) struct CursorState {
    pub buffer: BufferId,
    pub at: i64,
    pub step: i64,
}

pub(crate) const NOWHERE: CursorState = CursorState {
    buffer: BufferId::NONE,
    at: 0,
    step: 0,
};

#[inline(always)]
fn float(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

#[inline(always)]
pub(crate) fn address(
    view: &Data,
    indices: &[u32],
    regs: &[u64],
) -> Result<(BufferId, i64), Failure> {
    let Data::View(view) = view else {
        return Err(no_view(view));
    };
    if indices.len() != view.shape.len() {
        let (found, rank) = (indices.len(), view.shape.len());
        return Err(format!("{found} indices into a memref of rank {rank}").into());
    }
    let mut at = view.offset;
    let dims = view.shape.iter().zip(&view.strides);
    for (dim, (reg, (n, stride))) in indices.iter().zip(dims).enumerate() {
        let index = regs[*reg as usize];
        if index >= *n as u64 {
            return Err(out_of_bounds(dim, index as i64, *n));
        }
        at = at.wrapping_add((index as i64).wrapping_mul(*stride));
    }
    Ok((view.buffer, at))
}

#[cold]
fn no_view(data: &Data) -> Failure {
    format!("expected a memref, found {}", data.what()).into()
}

pub(crate) fn trips(low: i64, high: i64, step: i64) -> u64 {
    if step <= 0 || low >= high {
        return 0;
    }
    match step {
        // A division costs as much as the rest of a short loop.
        1 => high.abs_diff(low),
        step => high.abs_diff(low).div_ceil(step as u64),
    }
}

/// Says which index is the first to leave its dimension.
#[cold]
fn leaves(dim: usize, first: i64, by: i64, n: i64) -> Failure {
    if !(0..n).contains(&first) || by == 0 {
        return out_of_bounds(dim, first, n);
    }
    let room = if by > 0 { n - 1 - first } else { first };
    out_of_bounds(
        dim,
        first.saturating_add((room / by.saturating_abs() + 1).saturating_mul(by)),
        n,
    )
}

/// Puts a cursor on the first element; checks that the first and the last are in bounds.
pub(crate) fn seek(
    cursor: &Cursor,
    view: &Data,
    regs: &[u64],
    (low, high, step): (i64, i64, i64),
) -> Result<CursorState, Failure> {
    let fail = |e: Failure| placed(e, cursor.site);
    let Data::View(view) = view else {
        return Err(fail(no_view(view)));
    };
    if cursor.indices.len() != view.shape.len() {
        let (found, rank) = (cursor.indices.len(), view.shape.len());
        return Err(fail(
            format!("{found} indices into a memref of rank {rank}").into(),
        ));
    }
    let last = trips(low, high, step) as i64 - 1;
    let mut place = CursorState {
        buffer: view.buffer,
        at: view.offset,
        step: 0,
    };
    for (dim, &(reg, grows)) in cursor.indices.iter().enumerate() {
        let (n, stride) = (view.shape[dim], view.strides[dim]);
        let first = regs[reg as usize] as i64;
        let by = grows.wrapping_mul(step);
        let end = if grows == 0 {
            first
        } else {
            first.saturating_add(by.saturating_mul(last))
        };
        if first as u64 >= n as u64 || end as u64 >= n as u64 {
            return Err(fail(leaves(dim, first, by, n)));
        }
        place.at = place.at.wrapping_add(first.wrapping_mul(stride));
        place.step = place.step.wrapping_add(by.wrapping_mul(stride));
    }
    Ok(place)
}

#[inline(always)]
pub(crate) fn load(
    env: &mut Env<'_>,
    code: &Code<'_>,
    pc: usize,
    buffer: BufferId,
    at: i64,
    kind: Kind,
) -> Result<u64, Failure> {
    if let Store::Plain(plain) = &env.store {
        let bytes = plain.fast(buffer).get(at as usize..).unwrap_or(&[]);
        let found = match kind {
            Kind::F32 => bytes
                .first_chunk()
                .map(|b| u64::from(u32::from_le_bytes(*b))),
            kind => kind.read(bytes),
        };
        if let Some(found) = found {
            return Ok(found);
        }
    }
    slow_load(env, code, pc, buffer, at, kind)
}

fn element(buffer: BufferId, at: i64, kind: Kind) -> View {
    View {
        kind,
        strided: StridedBox::contiguous(buffer, at, kind.bytes() as u64),
    }
}
fn site(env: &Env<'_>, code: &Code<'_>, pc: usize) -> Site {
    code.site(pc).unwrap_or(env.site)
}

/// The access to an element in a run without data.
pub(crate) fn touch(
    env: &mut Env<'_>,
    code: &Code<'_>,
    pc: usize,
    (buffer, at, kind): (BufferId, i64, Kind),
    write: bool,
) -> Result<(), Failure> {
    let site = site(env, code, pc);
    env.memory().touch(&element(buffer, at, kind), write, site)
}

/// Scalar operations on data by the op of an instruction.
pub(crate) fn work(env: &mut Env<'_>, code: &Code<'_>, pc: usize, ops: u64) -> Result<(), Failure> {
    let site = site(env, code, pc);
    env.memory().work(ops, site)
}

/// The reads of `trips` steps of an `f32` cursor in a run without data.
pub(crate) fn touch_steps(
    env: &mut Env<'_>,
    code: &Code<'_>,
    pc: usize,
    place: CursorState,
    trips: u64,
) -> Result<(), Failure> {
    let site = site(env, code, pc);
    let trips = i64::try_from(trips).map_err(|_| "too many steps of a loop")?;
    let first = element(place.buffer, place.at, Kind::F32);
    let steps = first.elsewhere(place.at, [trips], [place.step]);
    env.memory().touch(&steps, false, site)
}

#[inline(never)]
fn slow_load(
    env: &mut Env<'_>,
    code: &Code<'_>,
    pc: usize,
    buffer: BufferId,
    at: i64,
    kind: Kind,
) -> Result<u64, Failure> {
    let site = site(env, code, pc);
    let memory = env.memory();
    memory.touch(&element(buffer, at, kind), false, site)?;
    let bytes = memory.bytes(buffer)?;
    let found = usize::try_from(at)
        .ok()
        .and_then(|at| kind.read(bytes.get(at..)?));
    found.ok_or_else(|| beyond(at, kind, bytes.len()))
}

fn beyond(at: i64, kind: Kind, len: usize) -> Failure {
    format!(
        "byte {at} (of {}) is beyond a buffer of {len} bytes",
        kind.bytes()
    )
    .into()
}

#[inline(always)]
pub(crate) fn store(
    env: &mut Env<'_>,
    code: &Code<'_>,
    pc: usize,
    buffer: BufferId,
    at: i64,
    kind: Kind,
    bits: u64,
) -> Result<(), Failure> {
    if let Store::Plain(plain) = &mut env.store {
        let bytes = plain
            .fast_mut(buffer)
            .get_mut(at as usize..)
            .unwrap_or(&mut []);
        if kind == Kind::F32 {
            if let Some(chunk) = bytes.first_chunk_mut() {
                *chunk = (bits as u32).to_le_bytes();
                return Ok(());
            }
        } else if kind.write(bits, bytes).is_some() {
            return Ok(());
        }
    }
    let site = site(env, code, pc);
    let memory = env.memory();
    memory.touch(&element(buffer, at, kind), true, site)?;
    let bytes = memory.bytes_mut(buffer)?;
    let len = bytes.len();
    let done = usize::try_from(at)
        .ok()
        .and_then(|at| kind.write(bits, bytes.get_mut(at..)?));
    done.ok_or_else(|| beyond(at, kind, len))
}

/// `start + x[0]·y[0] + x[1]·y[1] + …`, in this order.
pub(crate) fn mac(
    env: &mut Env<'_>,
    code: &Code<'_>,
    pc: usize,
    start: f32,
    x: CursorState,
    y: CursorState,
    trips: u64,
) -> Result<f32, Failure> {
    let mut sum = start;
    if let Store::Plain(plain) = &env.store {
        let (a, b) = (plain.fast(x.buffer), plain.fast(y.buffer));
        let at = |bytes: &[u8], at: i64| {
            let chunk = bytes.get(at as usize..)?.first_chunk()?;
            Some(f32::from_le_bytes(*chunk))
        };
        let (mut i, mut j) = (x.at, y.at);
        let mut done = 0;
        while done < trips {
            let (Some(p), Some(q)) = (at(a, i), at(b, j)) else {
                break;
            };
            sum += p * q;
            i = i.wrapping_add(x.step);
            j = j.wrapping_add(y.step);
            done += 1;
        }
        if done == trips {
            return Ok(sum);
        }
        // Freed memory: said by the slow way.
        sum = start;
    }
    let (mut i, mut j) = (x.at, y.at);
    for _ in 0..trips {
        let p = float(slow_load(env, code, pc, x.buffer, i, Kind::F32)?);
        let q = float(slow_load(env, code, pc, y.buffer, j, Kind::F32)?);
        sum += p * q;
        i = i.wrapping_add(x.step);
        j = j.wrapping_add(y.step);
    }
    Ok(sum)
}
