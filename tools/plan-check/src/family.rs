//! Buffers that lie in others.

use crate::Fault;
use crate::table::Row;

/// A buffer that lies in no other, with when it or one in it lives.
pub(crate) struct Whole<'r> {
    pub(crate) row: usize,
    pub(crate) space: &'r str,
    /// What its offset is a multiple of, for itself and for what lies in it.
    pub(crate) align: u64,
    /// Half-open, rising, apart.
    pub(crate) lives: Vec<(u64, u64)>,
}

/// The buffers that lie in no other. Of the others it is checked that they lie where they are said to, if there are offsets; and of all
/// that they lie where their own alignment and `fixed` want it.
pub(crate) fn wholes(rows: &[Row]) -> Result<Vec<Whole<'_>>, Fault> {
    let mut lives: Vec<Vec<(u64, u64)>> = rows.iter().map(|row| row.lives.clone()).collect();
    let mut aligns: Vec<u64> = rows.iter().map(|row| row.align).collect();
    for (at, row) in rows.iter().enumerate() {
        let fault = |message: String| Fault {
            line: row.line,
            message: format!("buffer '{}' {message}", row.id),
        };
        if let Some(offset) = row.offset {
            if offset % row.align != 0 {
                let align = row.align;
                return Err(fault(format!(
                    "lies at {offset}, expected a multiple of {align}"
                )));
            }
            if let Some(fixed) = row.fixed.filter(|fixed| *fixed != offset) {
                return Err(fault(format!("lies at {offset}, expected {fixed}")));
            }
        }
        let Some((of, bytes)) = row.within else {
            continue;
        };
        let other = &rows[of];
        if row.bank.is_some() || !row.apart.is_empty() {
            let message = format!("lies in '{}', whose banks count", other.id);
            return Err(fault(message));
        }
        let end = bytes.checked_add(row.size);
        if end.is_none_or(|end| end > other.size) {
            let size = other.size;
            return Err(fault(format!(
                "lies {bytes} bytes into '{}', which has {size}, and ends behind it",
                other.id
            )));
        }
        if !row.space.is_empty() && row.space != whole_space(rows, of) {
            let message = format!("is in another space than '{}', in which it lies", other.id);
            return Err(fault(message));
        }
        if let (Some(offset), Some(base)) = (row.offset, other.offset)
            && base.checked_add(bytes) != Some(offset)
        {
            return Err(fault(format!(
                "lies at {offset}, expected {bytes} bytes into '{}', which lies at {base}",
                other.id
            )));
        }
        let root = root(rows, at).ok_or_else(|| fault("lies in itself".to_string()))?;
        lives[root].extend(&row.lives);
        if bytes_into(rows, at).is_some_and(|bytes| bytes % row.align == 0) {
            aligns[root] = aligns[root].max(row.align);
        }
    }
    let wholes = rows.iter().zip(lives).enumerate();
    let wholes = wholes.filter(|(_, (row, _))| row.within.is_none());
    Ok(wholes
        .map(|(at, (row, lives))| Whole {
            row: at,
            space: &row.space,
            align: aligns[at],
            lives: joined(lives),
        })
        .collect())
}

/// The buffer that holds one and lies in none; nothing if they lie in each other.
pub(crate) fn root(rows: &[Row], from: usize) -> Option<usize> {
    let mut at = from;
    for _ in 0..=rows.len() {
        match rows[at].within {
            Some((of, _)) => at = of,
            None => return Some(at),
        }
    }
    None
}

/// How many bytes into the buffer that holds it and lies in none; of a row that lies in no circle.
fn bytes_into(rows: &[Row], mut at: usize) -> Option<u64> {
    let mut sum = 0u64;
    while let Some((of, bytes)) = rows[at].within {
        sum = sum.checked_add(bytes)?;
        at = of;
    }
    Some(sum)
}

fn whole_space(rows: &[Row], at: usize) -> &str {
    root(rows, at).map_or("", |root| &rows[root].space)
}

fn joined(mut lives: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    lives.sort_unstable();
    let mut out: Vec<(u64, u64)> = Vec::with_capacity(lives.len());
    for (from, to) in lives {
        match out.last_mut() {
            Some(last) if last.1 >= from => last.1 = last.1.max(to),
            _ => out.push((from, to)),
        }
    }
    out
}
