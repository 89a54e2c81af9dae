//! Judges memory plans in files, and certificates of their bounds.
//!
//! It depends on no other crate, so that it shares nothing with what makes plans: it reads the files by itself and sweeps
//! over time with what lives in the order of offsets. Formats are those of `tir-plan`; see [`plan`] and [`certificate`].
#![forbid(unsafe_code)]

mod table;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use table::Row;

/// A file that cannot be read as what it is said to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

/// A plan that may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Valid {
    /// Buffers.
    pub buffers: usize,
    /// End of the highest buffer in bytes.
    pub height: u64,
    /// Most bytes that live at one time: what no plan is lower than.
    pub live: u64,
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

/// Judges a plan: rows `id,lower,upper,size,offset`, in any order of columns, with a header; `alignment` and `gaps` are heeded,
/// `hint` is not. With `problem`, the rows of that file must be those of the plan, whatever their order. `capacity` is in bytes.
///
/// # Errors
/// A plan that is no such file. `Err` of the result inside: the first fault that is found.
pub fn plan(
    problem: Option<&str>,
    plan: &str,
    capacity: Option<u64>,
) -> Result<Result<Valid, Fault>, Malformed> {
    let rows = table::read(plan, true)?;
    if let Some(problem) = problem
        && let Err(fault) = same(&table::read(problem, false)?, &rows)
    {
        return Ok(Err(fault));
    }
    Ok(judge(&rows, capacity))
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
        if (own.size, own.align, &own.lives) != (row.size, row.align, &row.lives) {
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

fn judge(rows: &[Row], capacity: Option<u64>) -> Result<Valid, Fault> {
    let mut events: Vec<(u64, bool, usize)> = Vec::new();
    let mut height = 0;
    for (i, row) in rows.iter().enumerate() {
        let fault = |message: String| Fault {
            line: row.line,
            message: format!("buffer '{}' {message}", row.id),
        };
        let offset = row.offset.unwrap_or_default();
        let Some(end) = offset.checked_add(row.size) else {
            return Err(fault("ends beyond 2^64".to_string()));
        };
        if offset % row.align != 0 {
            return Err(fault(format!(
                "lies at {offset}, expected a multiple of {}",
                row.align
            )));
        }
        if row.size == 0 {
            continue;
        }
        height = height.max(end);
        if capacity.is_some_and(|capacity| end > capacity) {
            let capacity = capacity.unwrap_or_default();
            return Err(fault(format!("ends at {end}, beyond {capacity}")));
        }
        for &(from, to) in &row.lives {
            events.extend([(from, true, i), (to, false, i)]);
        }
    }
    events.sort_unstable();
    // Offset, end and row of what lives: as long as no two overlap, a new one can only meet its neighbours.
    let mut now: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
    let (mut bytes, mut live) = (0u128, 0u128);
    for (time, starts, i) in events {
        let row = &rows[i];
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
            return Err(Fault {
                line: row.line,
                message: format!(
                    "buffer '{}' and '{}' of line {} both have bytes {first}..{last} at time {time}",
                    row.id, rows[*other].id, rows[*other].line
                ),
            });
        }
        now.insert(at, (at + size, i));
        bytes += u128::from(size);
        live = live.max(bytes);
    }
    Ok(Valid {
        buffers: rows.len(),
        height,
        live: u64::try_from(live).unwrap_or(u64::MAX),
    })
}

/// What a certificate that holds shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// The bound in bytes: buffers of this sum live at one time.
    Bound(u64),
    /// Buffers of `live` bytes live at one time; that no plan is lower than `bound` is what a search says, which is not
    /// repeated here.
    Search {
        /// The bound that is stated, in bytes.
        bound: u64,
        /// The bound that is shown, in bytes.
        live: u64,
    },
}

/// Judges a certificate for the buffers of a problem, or of a plan: lines `bound BYTES`, `by live-set` or `by search NODES`,
/// `time T`, and for each buffer that lives then `buffer BYTES ID`. Lines that begin with `#` are comments.
///
/// # Errors
/// Files that are not of these formats. `Err` of the result inside: why it does not hold.
pub fn certificate(problem: &str, text: &str) -> Result<Result<Shown, Fault>, Malformed> {
    let rows = table::read(problem, false)?;
    let by_id: HashMap<&str, &Row> = rows.iter().map(|row| (row.id.as_str(), row)).collect();
    let (mut bound, mut search, mut time) = (None, None, None);
    let (mut sum, mut seen) = (0u128, HashSet::new());
    let mut lines = 0;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        lines = at + 1;
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let malformed = |message: &str| Malformed {
            line: at + 1,
            message: message.to_string(),
        };
        let number = |text: &str| {
            let number = text.trim().parse::<u64>();
            number.map_err(|_| malformed(&format!("'{text}' is no number")))
        };
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "bound" => bound = Some((at + 1, number(rest)?)),
            "by" => match rest.split_once(' ').unwrap_or((rest, "")) {
                ("live-set", "") => search = Some(false),
                ("search", nodes) => search = number(nodes).map(|_| Some(true))?,
                _ => return Err(malformed("expected 'by live-set' or 'by search NODES'")),
            },
            "time" => time = Some(number(rest)?),
            "buffer" => {
                let time = time.ok_or_else(|| malformed("a buffer before 'time'"))?;
                let (bytes, id) = rest.split_once(' ').unwrap_or((rest, ""));
                let bytes = number(bytes)?;
                let fault = |message: String| {
                    Ok(Err(Fault {
                        line: at + 1,
                        message,
                    }))
                };
                let Some(row) = by_id.get(id) else {
                    return fault(format!("the problem has no buffer '{id}'"));
                };
                if row.size != bytes {
                    return fault(format!("buffer '{id}' has {} bytes, not {bytes}", row.size));
                }
                if !row.lives.iter().any(|l| l.0 <= time && time < l.1) {
                    return fault(format!("buffer '{id}' does not live at time {time}"));
                }
                if !seen.insert(id) {
                    return fault(format!("buffer '{id}' is counted twice"));
                }
                sum += u128::from(bytes);
            }
            _ => return Err(malformed(&format!("unknown word '{word}'"))),
        }
    }
    let missing = |what: &str| Malformed {
        line: lines.max(1),
        message: format!("the certificate has no line '{what}'"),
    };
    let (line, bound) = bound.ok_or_else(|| missing("bound"))?;
    let search = search.ok_or_else(|| missing("by"))?;
    let live = u64::try_from(sum).unwrap_or(u64::MAX);
    Ok(match (search, live >= bound) {
        (true, _) => Ok(Shown::Search { bound, live }),
        (false, true) => Ok(Shown::Bound(bound)),
        (false, false) => Err(Fault {
            line,
            message: format!("the buffers have {live} bytes together, less than {bound}"),
        }),
    })
}
