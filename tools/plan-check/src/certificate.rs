//! Certificates of bounds.

use std::collections::{HashMap, HashSet};

use crate::family::{Whole, root, wholes};
use crate::table::{self, Row};
use crate::{Fault, Limits, Malformed, limit};

/// What a certificate that holds shows of a space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// The bound in bytes: buffers of this sum, as they are aligned, live at one time, or one must end there.
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

impl Shown {
    /// The bound that is stated, in bytes.
    pub fn bound(&self) -> u64 {
        match self {
            Self::Bound(bound) | Self::Search { bound, .. } => *bound,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    LiveSet,
    Search,
    Place,
}

/// The lines of one space.
#[derive(Default)]
struct Section<'t> {
    space: &'t str,
    bound: Option<(usize, u64)>,
    by: Option<By>,
    time: Option<u64>,
    /// Line, bytes, id.
    buffers: Vec<(usize, u64, &'t str)>,
    /// Of the last line.
    line: usize,
}

/// Judges a certificate for the buffers of a problem, or of a plan. For each space there are lines `space NAME` (left out for the one
/// without a name), `bound BYTES`, `by live-set`, `by search NODES` or `by place`, then `time T` and for each buffer that lives at that
/// time `buffer BYTES ID`, of those that lie in no other; with `by place` the one buffer whose `fixed` or `bank` lets it end no lower.
/// Lines that begin with `#` are comments.
///
/// # Errors
/// Files that are not of these formats. `Err` of the result inside: why it does not hold. The result has a bound for each space.
pub fn certificate(
    problem: &str,
    text: &str,
    limits: &Limits,
) -> Result<Result<Vec<(String, Shown)>, Fault>, Malformed> {
    let rows = table::read(problem, false)?;
    let sections = sections(text)?;
    Ok(judge(&rows, &sections, limits))
}

fn sections(text: &str) -> Result<Vec<Section<'_>>, Malformed> {
    let mut all = vec![Section::default()];
    let mut begun = false;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let number = at + 1;
        let malformed = |message: String| Malformed {
            line: number,
            column: 1,
            message,
        };
        let bytes = |text: &str| {
            let number = text.trim().parse::<u64>();
            number.map_err(|_| malformed(format!("'{text}' is no number")))
        };
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if word == "space" && begun {
            all.push(Section::default());
        }
        begun = true;
        let Some(section) = all.last_mut() else {
            continue;
        };
        let again = match word {
            "space" => !section.space.is_empty(),
            "bound" => section.bound.is_some(),
            "by" => section.by.is_some(),
            "time" => section.time.is_some(),
            _ => false,
        };
        if again {
            return Err(malformed(format!("a second line '{word}'")));
        }
        section.line = number;
        match word {
            "space" => section.space = rest.trim(),
            "bound" => section.bound = Some((number, bytes(rest)?)),
            "by" => {
                section.by = Some(match rest.split_once(' ').unwrap_or((rest, "")) {
                    ("live-set", "") => By::LiveSet,
                    ("place", "") => By::Place,
                    ("search", nodes) => bytes(nodes).map(|_| By::Search)?,
                    _ => {
                        let message = "expected 'by live-set', 'by place' or 'by search NODES'";
                        return Err(malformed(message.to_string()));
                    }
                });
            }
            "time" => section.time = Some(bytes(rest)?),
            "buffer" => {
                let (size, id) = rest.split_once(' ').unwrap_or((rest, ""));
                section.buffers.push((number, bytes(size)?, id));
                if section.time.is_none() && section.by != Some(By::Place) {
                    return Err(malformed("a buffer before 'time'".to_string()));
                }
            }
            _ => return Err(malformed(format!("unknown word '{word}'"))),
        }
    }
    for section in &all {
        let missing = |what: &str| Malformed {
            line: section.line.max(1),
            column: 1,
            message: format!("the certificate has no line '{what}'"),
        };
        section.bound.ok_or_else(|| missing("bound"))?;
        section.by.ok_or_else(|| missing("by"))?;
    }
    Ok(all)
}

fn judge(
    rows: &[Row],
    sections: &[Section<'_>],
    limits: &Limits,
) -> Result<Vec<(String, Shown)>, Fault> {
    let wholes = wholes(rows)?;
    let by_id: HashMap<&str, &Whole<'_>> = wholes
        .iter()
        .map(|w| (rows[w.row].id.as_str(), w))
        .collect();
    let names: HashSet<&str> = wholes.iter().map(|w| w.space).collect();
    let mut shown: Vec<(String, Shown)> = Vec::new();
    for section in sections {
        let fault = |line: usize, message: String| Fault { line, message };
        if shown.iter().any(|(name, _)| name == section.space) {
            let message = format!("a second bound of space '{}'", section.space);
            return Err(fault(section.line, message));
        }
        let (line, bound) = section.bound.unwrap_or_default();
        let (mut sum, mut seen) = (0u128, HashSet::new());
        let mut listed: Vec<(u64, u64)> = Vec::new();
        if section.by == Some(By::Place) {
            let bank = limit(&limits.banks, section.space, names.len() == 1);
            let live = lowest_of(rows, section, bank)?;
            if live < bound {
                let message = format!("the buffer may end at {live}, less than {bound}");
                return Err(fault(line, message));
            }
            shown.push((section.space.to_string(), Shown::Bound(bound)));
            continue;
        }
        for &(line, bytes, id) in &section.buffers {
            let Some(whole) = by_id.get(id) else {
                let message = match rows.iter().any(|row| row.id == id) {
                    true => format!("buffer '{id}' lies in another one"),
                    false => format!("the problem has no buffer '{id}'"),
                };
                return Err(fault(line, message));
            };
            let row = &rows[whole.row];
            if row.size != bytes {
                let message = format!("buffer '{id}' has {} bytes, not {bytes}", row.size);
                return Err(fault(line, message));
            }
            if whole.space != section.space {
                let message = format!("buffer '{id}' is in space '{}'", whole.space);
                return Err(fault(line, message));
            }
            if let Some(time) = section.time
                && !whole.lives.iter().any(|l| l.0 <= time && time < l.1)
            {
                let message = format!("buffer '{id}' does not live at time {time}");
                return Err(fault(line, message));
            }
            if !seen.insert(id) {
                return Err(fault(line, format!("buffer '{id}' is counted twice")));
            }
            sum += u128::from(bytes);
            listed.push((bytes, whole.align));
        }
        let sum = u64::try_from(sum).unwrap_or(u64::MAX);
        let live = sum.max(stacked(&listed));
        let one = match (section.by, live >= bound) {
            (Some(By::Search), _) => Shown::Search { bound, live },
            (_, true) => Shown::Bound(bound),
            (_, false) => {
                let aligned = if live > sum {
                    ", as they are aligned"
                } else {
                    ""
                };
                let message =
                    format!("the buffers have {live} bytes together{aligned}, less than {bound}");
                return Err(fault(line, message));
            }
        };
        shown.push((section.space.to_string(), one));
    }
    match wholes
        .iter()
        .find(|w| shown.iter().all(|(name, _)| name != w.space))
    {
        Some(whole) => Err(Fault {
            line: 1,
            message: format!("there is no bound of space '{}'", whole.space),
        }),
        None => Ok(shown),
    }
}

/// Where the highest of buffers of these sizes and alignments ends at the lowest if no two share a byte: each begins at a multiple of
/// the smallest alignment, so the next one above it begins at a multiple behind its end. Whichever is the highest, its end is not
/// rounded; that which would be rounded most is the best for it.
fn stacked(buffers: &[(u64, u64)]) -> u64 {
    let step = buffers
        .iter()
        .map(|(_, align)| *align)
        .min()
        .unwrap_or(1)
        .max(1);
    let (mut all, mut most) = (0u64, 0u64);
    for (size, _) in buffers.iter().filter(|(size, _)| *size > 0) {
        let rest = (step - size % step) % step;
        all = all.saturating_add(size.saturating_add(rest));
        most = most.max(rest);
    }
    all - most
}

/// The lowest that the highest buffer of a section may end, by where each must lie.
fn lowest_of(rows: &[Row], section: &Section<'_>, bank: Option<u64>) -> Result<u64, Fault> {
    let mut most = 0;
    for &(line, bytes, id) in &section.buffers {
        let fault = |message: String| Fault { line, message };
        let Some(at) = rows.iter().position(|row| row.id == id) else {
            return Err(fault(format!("the problem has no buffer '{id}'")));
        };
        let row = &rows[at];
        if row.size != bytes {
            let message = format!("buffer '{id}' has {} bytes, not {bytes}", row.size);
            return Err(fault(message));
        }
        if row.size == 0 {
            return Err(fault(format!(
                "buffer '{id}' has no bytes, it lies anywhere"
            )));
        }
        let space = root(rows, at).map_or("", |root| &rows[root].space);
        if space != section.space {
            return Err(fault(format!("buffer '{id}' is in space '{space}'")));
        }
        most = most.max(lowest_end(row, bank));
    }
    Ok(most)
}

/// The lowest that a buffer may end.
fn lowest_end(row: &Row, bank: Option<u64>) -> u64 {
    let banked = row.bank.zip(bank);
    let from = banked.map_or(0, |(number, bytes)| number.saturating_mul(bytes));
    let from = row.fixed.unwrap_or(from).max(from);
    let aligned = from.div_ceil(row.align).saturating_mul(row.align);
    aligned.saturating_add(row.size)
}
