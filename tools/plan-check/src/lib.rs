//! Judges memory plans in files, and certificates of their bounds.
//!
//! It depends on no other crate, so that it shares nothing with what makes plans: it reads the files by itself and sweeps
//! over time with what lives in the order of offsets. Formats are those of `tir-plan`; see [`plan`] and [`certificate`].
#![forbid(unsafe_code)]

mod certificate;
mod family;
mod table;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

pub use certificate::{Shown, certificate};
use family::{Whole, wholes};
use table::Row;

/// A file that cannot be read as what it is said to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The line, from 1.
    pub line: usize,
    /// The character in it, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
}

/// What is known of spaces beside the file, in bytes. Of a space counts what is said of its name, else what is said of none, which
/// is for rows without a space, and for the only space of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// How large spaces are.
    pub capacity: Vec<(Option<String>, u64)>,
    /// How large their banks are.
    pub banks: Vec<(Option<String>, u64)>,
}

fn limit(all: &[(Option<String>, u64)], space: &str, only: bool) -> Option<u64> {
    let named = all
        .iter()
        .rev()
        .find(|(name, _)| name.as_deref() == Some(space));
    let plain = || {
        let plain = all.iter().rev().find(|(name, _)| name.is_none());
        plain.filter(|_| only || space.is_empty())
    };
    named.or_else(plain).map(|(_, bytes)| *bytes)
}

/// A plan that may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Valid {
    /// Buffers.
    pub buffers: usize,
    /// By space, in the order of the rows.
    pub spaces: Vec<Held>,
}

/// What a valid plan makes of a space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its name; of rows without one, nothing.
    pub space: String,
    /// End of the highest buffer in bytes.
    pub height: u64,
    /// Most bytes that live at one time: what no plan is lower than.
    pub live: u64,
    /// What buffers cost that share banks.
    pub conflicts: u64,
}

/// What is wrong with a plan or a certificate, and on which line of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.message)
    }
}

/// Judges a plan: rows `id,lower,upper,size,offset`, in any order of columns, with a header. Heeded are also `alignment`, `gaps`,
/// `space`, `fixed` (the offset it must have), `bank` (the one it must lie in), `apart` (`ID` of a buffer to share no bank with, or
/// `ID:COST` if that only costs) and `within` (`ID+BYTES`: where in another buffer it lies, which lives as long as it does);
/// `hint` is not. With `problem`, the rows of that file must be those of the plan, whatever their order.
///
/// # Errors
/// Files that are not of this format. `Err` of the result inside: the first fault that is found.
pub fn plan(
    problem: Option<&str>,
    plan: &str,
    limits: &Limits,
) -> Result<Result<Valid, Fault>, Malformed> {
    let rows = table::read(plan, true)?;
    if let Some(problem) = problem
        && let Err(fault) = same(&table::read(problem, false)?, &rows)
    {
        return Ok(Err(fault));
    }
    Ok(judge(&rows, limits))
}

/// Whether a plan is of the buffers of a problem.
fn same(problem: &[Row], plan: &[Row]) -> Result<(), Fault> {
    let by_id: HashMap<&str, &Row> = problem.iter().map(|row| (row.id.as_str(), row)).collect();
    for row in plan {
        let fault = |message: String| Fault {
            line: row.line,
            message,
        };
        let Some(own) = by_id.get(row.id.as_str()) else {
            return Err(fault(format!("the problem has no buffer '{}'", row.id)));
        };
        // Rows name others by their place, which may be another one.
        let said = |row: &Row, all: &[Row]| {
            let within = row.within.map(|(of, at)| (all[of].id.clone(), at));
            let apart = row
                .apart
                .iter()
                .map(|(of, cost)| (all[*of].id.clone(), *cost));
            let mut apart: Vec<_> = apart.collect();
            apart.sort();
            (within, apart)
        };
        let differs = (own.size, own.align, &own.lives) != (row.size, row.align, &row.lives)
            || (&own.space, own.fixed, own.bank) != (&row.space, row.fixed, row.bank)
            || said(own, problem) != said(row, plan);
        if differs {
            let message = format!(
                "buffer '{}' differs from line {} of the problem",
                row.id, own.line
            );
            return Err(fault(message));
        }
    }
    let planned: HashSet<&str> = plan.iter().map(|row| row.id.as_str()).collect();
    match problem
        .iter()
        .find(|row| !planned.contains(row.id.as_str()))
    {
        Some(row) => Err(Fault {
            line: 1,
            message: format!(
                "buffer '{}' on line {} of the problem has no offset",
                row.id, row.line
            ),
        }),
        None => Ok(()),
    }
}

fn judge(rows: &[Row], limits: &Limits) -> Result<Valid, Fault> {
    let wholes = wholes(rows)?;
    let mut names: Vec<&str> = Vec::new();
    for whole in &wholes {
        if !names.contains(&whole.space) {
            names.push(whole.space);
        }
    }
    let only = names.len() == 1;
    let mut spaces = Vec::new();
    for space in names {
        let own: Vec<&Whole<'_>> = wholes.iter().filter(|w| w.space == space).collect();
        let capacity = limit(&limits.capacity, space, only);
        let bank = limit(&limits.banks, space, only);
        let (height, live) = sweep(rows, &own, capacity)?;
        let conflicts = banks(rows, &own, bank)?;
        spaces.push(Held {
            space: space.to_string(),
            height,
            live,
            conflicts,
        });
    }
    Ok(Valid {
        buffers: rows.len(),
        spaces,
    })
}

/// Whether buffers of a space lie where they may, and no two that live at one time in the same bytes; the end of the highest and the
/// most bytes that live.
fn sweep(rows: &[Row], wholes: &[&Whole<'_>], capacity: Option<u64>) -> Result<(u64, u64), Fault> {
    let mut events: Vec<(u64, bool, usize)> = Vec::new();
    let mut height = 0;
    for (i, whole) in wholes.iter().enumerate() {
        let row = &rows[whole.row];
        let fault = |message: String| Fault {
            line: row.line,
            message: format!("buffer '{}' {message}", row.id),
        };
        let offset = row.offset.unwrap_or_default();
        let Some(end) = offset.checked_add(row.size) else {
            return Err(fault("ends beyond 2^64".to_string()));
        };
        if row.size == 0 {
            continue;
        }
        height = height.max(end);
        if capacity.is_some_and(|capacity| end > capacity) {
            let capacity = capacity.unwrap_or_default();
            return Err(fault(format!("ends at {end}, beyond {capacity}")));
        }
        for &(from, to) in &whole.lives {
            events.extend([(from, true, i), (to, false, i)]);
        }
    }
    events.sort_unstable();
    // Offset, end and row of what lives: as long as no two overlap, a new one can only meet its neighbours.
    let mut now: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
    let (mut bytes, mut live) = (0u128, 0u128);
    for (time, starts, i) in events {
        let row = &rows[wholes[i].row];
        let (at, size) = (row.offset.unwrap_or_default(), row.size);
        if !starts {
            now.remove(&at);
            bytes -= u128::from(size);
            continue;
        }
        let below = now
            .range(..=at)
            .next_back()
            .filter(|(_, (end, _))| *end > at);
        let above = now
            .range(at..)
            .next()
            .filter(|(from, _)| **from < at + size);
        if let Some((from, (end, other))) = below.or(above) {
            let (first, last) = (at.max(*from), (at + size).min(*end));
            let other = &rows[wholes[*other].row];
            return Err(Fault {
                line: row.line,
                message: format!(
                    "buffer '{}' and '{}' of line {} both have bytes {first}..{last} at time {time}",
                    row.id, other.id, other.line
                ),
            });
        }
        now.insert(at, (at + size, i));
        bytes += u128::from(size);
        live = live.max(bytes);
    }
    Ok((height, u64::try_from(live).unwrap_or(u64::MAX)))
}

/// The first and the last bank of some bytes; none of no bytes.
fn banks_of(from: u64, size: u64, bank: u64) -> Option<(u64, u64)> {
    (size > 0).then(|| (from / bank, (from + size - 1) / bank))
}

/// Whether buffers of a space lie in the banks that they must, and in others than those they must not; what others cost that share one.
fn banks(rows: &[Row], wholes: &[&Whole<'_>], bank: Option<u64>) -> Result<u64, Fault> {
    let mut cost = 0u64;
    for whole in wholes {
        let row = &rows[whole.row];
        if row.bank.is_none() && row.apart.is_empty() {
            continue;
        }
        let fault = |message: String| Fault {
            line: row.line,
            message: format!("buffer '{}' {message}", row.id),
        };
        let Some(bank) = bank.filter(|bank| *bank > 0) else {
            return Err(fault("names banks, whose size is not given".to_string()));
        };
        let at = row.offset.unwrap_or_default();
        let own = banks_of(at, row.size, bank);
        if let (Some(number), Some((first, last))) = (row.bank, own)
            && (first, last) != (number, number)
        {
            let end = at + row.size;
            let banks = match first == last {
                true => format!("bank {first}"),
                false => format!("banks {first} to {last}"),
            };
            return Err(fault(format!(
                "lies at bytes {at}..{end}, in {banks} of {bank} bytes, expected {number}"
            )));
        }
        for (other, price) in &row.apart {
            let partner = &rows[*other];
            let to = partner.offset.unwrap_or_default();
            // Of a buffer and itself its halves are meant.
            let (here, there) = match *other == whole.row {
                true => {
                    let half = row.size / 2;
                    let rest = banks_of(at + half, row.size - half, bank);
                    (banks_of(at, half, bank), rest)
                }
                false => (own, banks_of(to, partner.size, bank)),
            };
            let shared = here.zip(there).and_then(|(a, b)| {
                let first = a.0.max(b.0);
                (first <= a.1.min(b.1)).then_some(first)
            });
            match (shared, price) {
                (None, _) => {}
                (Some(_), Some(price)) => cost = cost.saturating_add(*price),
                (Some(first), None) => {
                    return Err(fault(format!(
                        "and '{}' of line {} share bank {first} of {bank} bytes",
                        partner.id, partner.line
                    )));
                }
            }
        }
    }
    Ok(cost)
}
