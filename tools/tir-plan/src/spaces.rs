//! Rows of a file as a problem for each space: names of other rows looked up, what lies in others taken away.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use tir::{Diagnostic, Loc};
use tir_packing::{Conflicts, Live, Problem, cost};

use crate::read::{Limit, Row, Settings};

/// The buffers of one space.
#[derive(Clone, Debug)]
pub struct Space {
    /// Its name; of rows without one, nothing.
    pub name: String,
    /// The buffers that lie in no other, in the order of the rows; a buffer lives as long as what lies in it.
    pub problem: Problem,
    /// When each lives.
    pub lives: Vec<Live>,
    /// How large its banks are, if that is said.
    pub bank: Option<u64>,
    /// What it costs if two share a bank.
    pub conflicts: Conflicts,
    /// Those that must not.
    pub must: Vec<(usize, usize)>,
    /// The lowest that a buffer may end by its own `fixed` or `bank`: bytes, its size and id.
    pub lowest: Option<(u64, u64, String)>,
}

/// What it costs that two buffers share a bank that must not.
const MUST: u64 = 1 << 48;

impl Space {
    /// Costs of all pairs, those that must be apart more than all others together.
    pub(crate) fn costs(&self) -> Conflicts {
        let mut all = self.conflicts.clone();
        for pair in &self.must {
            let cost = all.entry(*pair).or_default();
            *cost = cost.saturating_add(MUST);
        }
        all
    }

    /// What the buffers cost that share banks, and the first two of those that must not.
    pub(crate) fn shared(&self, offsets: &[u64]) -> (u64, Option<(usize, usize)>) {
        let Some(bank) = self.bank else {
            return (0, None);
        };
        let one = |pair: &(usize, usize)| {
            let alone = Conflicts::from([(*pair, 1)]);
            cost(&self.problem, offsets, bank, &alone) > 0
        };
        let must = self.must.iter().find(|pair| one(pair)).copied();
        (cost(&self.problem, offsets, bank, &self.conflicts), must)
    }
}

/// What is said of a space, else of none if it has no name or is the only one.
pub(crate) fn limit(all: &[Limit], space: &str, only: bool) -> Option<u64> {
    let mut last = all.iter().rev();
    let named = last.find(|(name, _)| name.as_deref() == Some(space));
    let plain = || {
        let plain = all.iter().rev().find(|(name, _)| name.is_none());
        plain.filter(|_| only || space.is_empty())
    };
    named.or_else(plain).map(|(_, bytes)| *bytes)
}

/// The spaces of a file, and of each row its space, its buffer there, and at which byte of that it lies.
pub(crate) type Resolved = (Vec<Space>, Vec<(usize, usize, u64)>);

/// Resolves the rows of a file whose header is at a place.
pub(crate) fn spaces(
    rows: Vec<Row>,
    ids: &HashMap<String, usize>,
    settings: &Settings,
    head: Loc,
) -> Result<Resolved, Diagnostic> {
    let within = parents(&rows, ids)?;
    let roots = roots(&rows, &within)?;
    let mut names: Vec<&str> = Vec::new();
    let mut space_of = vec![0; rows.len()];
    for (at, row) in rows
        .iter()
        .enumerate()
        .filter(|(at, _)| roots[*at].0 == *at)
    {
        let known = names.iter().position(|name| *name == row.space);
        space_of[at] = known.unwrap_or(names.len());
        if known.is_none() {
            names.push(&row.space);
        }
    }
    let only = names.len() <= 1;
    let banks: Vec<Option<u64>> = names
        .iter()
        .map(|name| limit(&settings.banks, name, only))
        .collect();
    let mut resolver = Resolver {
        rows: &rows,
        roots: &roots,
        places: vec![None; rows.len()],
        banks: &banks,
        space_of: &space_of,
        lowest: vec![None; names.len().max(1)],
    };
    for at in 0..rows.len() {
        resolver.place(at, &within)?;
    }
    let (places, mut lowest) = (resolver.places, resolver.lowest);
    let mut all: Vec<(Vec<tir_packing::Buffer>, Vec<Live>)> =
        vec![Default::default(); names.len().max(1)];
    let mut of = vec![(0, 0, 0); rows.len()];
    for (at, row) in rows.iter().enumerate() {
        let (root, byte) = roots[at];
        if root != at {
            continue;
        }
        let mut buffer = row.buffer.clone();
        buffer.within = places[at].clone().map(|place| place.0);
        let (buffers, lives) = &mut all[space_of[at]];
        of[at] = (space_of[at], buffers.len(), byte);
        buffers.push(buffer);
        lives.push(row.live.clone());
    }
    for (at, row) in rows.iter().enumerate() {
        let (root, byte) = roots[at];
        if root == at {
            continue;
        }
        let (space, buffer, _) = of[root];
        of[at] = (space, buffer, byte);
        let (buffers, lives) = &mut all[space];
        let align = &mut buffers[buffer].align;
        *align = (*align).max(row.buffer.align);
        lives[buffer].extend(row.live.iter().cloned());
    }
    for (space, (buffers, lives)) in all.iter().enumerate() {
        // Who never lives is nobody's neighbour, but has to end somewhere.
        let alone = buffers
            .iter()
            .zip(lives)
            .filter(|(_, live)| live.is_empty());
        let largest = alone.map(|(b, _)| b).max_by_key(|b| b.size);
        if let Some(buffer) = largest.filter(|b| b.size > lowest[space].as_ref().map_or(0, |l| l.0))
        {
            lowest[space] = Some((buffer.size, buffer.size, buffer.name.clone()));
        }
    }
    for (at, (_, lives)) in all.iter().enumerate() {
        let own = (0..rows.len()).filter(|row| roots[*row].0 == *row && of[*row].0 == at);
        fixed_apart(&rows, &own.collect::<Vec<_>>(), &places, lives)?;
    }
    let mut conflicts = vec![(Conflicts::new(), Vec::new()); all.len()];
    for (at, row) in rows.iter().enumerate() {
        let Some((text, place)) = row.more.as_ref().and_then(|more| more.apart.as_ref()) else {
            continue;
        };
        for one in text.split_whitespace() {
            let error = |message: String| Diagnostic::error(message).at(*place);
            let (other, price) = partner(one, ids).ok_or_else(|| {
                error(format!("'{one}', expected the ID of a buffer, or ID:COST"))
            })?;
            let (a, b) = (of[at], of[other]);
            let id = &rows[other].buffer.name;
            if a.0 != b.0 {
                let space = &rows[roots[other].0].space;
                return Err(error(format!("'{id}' is in another space, '{space}'")));
            }
            if roots[other].0 != other {
                let whole = &rows[roots[other].0].buffer.name;
                return Err(error(format!("'{id}' lies in '{whole}', name that one")));
            }
            let pair = (a.1.min(b.1), a.1.max(b.1));
            let (costs, must) = &mut conflicts[a.0];
            match price {
                Some(price) => {
                    let cost = costs.entry(pair).or_default();
                    *cost = cost.saturating_add(price);
                }
                None => must.push(pair),
            }
        }
    }
    let names = names.into_iter().map(str::to_string);
    let mut names: Vec<String> = names.collect();
    names.resize(all.len(), String::new());
    let mut spaces = Vec::new();
    let parts = all.into_iter().zip(conflicts).zip(lowest);
    for (((buffers, lives), (conflicts, must)), lowest) in parts {
        let problem = Problem::from_lives(buffers, lives.clone());
        let problem = problem.map_err(|e| Diagnostic::error(e.to_string()).at(head))?;
        let at = spaces.len();
        spaces.push(Space {
            name: std::mem::take(&mut names[at]),
            problem,
            lives,
            bank: banks.get(at).copied().flatten(),
            conflicts,
            must,
            lowest,
        });
    }
    Ok((spaces, of))
}

/// An error if buffers of one space whose places are fixed live at one time and share bytes: no plan exists. `own` are their rows,
/// in the order of `lives`.
fn fixed_apart(
    rows: &[Row],
    own: &[usize],
    places: &[Option<(Range<u64>, bool)>],
    lives: &[Live],
) -> Result<(), Diagnostic> {
    // Ends before starts at equal times: intervals are half-open.
    let mut events: Vec<(u64, bool, usize, &Range<u64>)> = Vec::new();
    for (row, live) in own.iter().zip(lives) {
        if let Some((place, true)) = &places[*row]
            && !place.is_empty()
        {
            let mut live = live.clone();
            live.sort_unstable_by_key(|l| (l.start, l.end));
            let mut joined: Live = Vec::new();
            for l in live {
                match joined.last_mut() {
                    Some(last) if l.start <= last.end => last.end = last.end.max(l.end),
                    _ => joined.push(l),
                }
            }
            for l in joined {
                events.extend([(l.start, true, *row, place), (l.end, false, *row, place)]);
            }
        }
    }
    events.sort_unstable_by_key(|(time, starts, row, _)| (*time, *starts, *row));
    // By their first byte, those that live now: no two share a byte.
    let mut now: BTreeMap<u64, (&Range<u64>, usize)> = BTreeMap::new();
    for (time, starts, row, place) in events {
        if !starts {
            now.remove(&place.start);
            continue;
        }
        let below = now.range(..place.end).next_back();
        if let Some((_, (other, of))) = below.filter(|(_, (other, _))| other.end > place.start) {
            let (id, size) = (&rows[row].buffer.name, place);
            let message = format!(
                "no plan exists: '{id}' is fixed at bytes {} to {}, and '{}', which lives at time {time}, too, at {} to {}",
                size.start, size.end, rows[*of].buffer.name, other.start, other.end
            );
            let said = |row: usize| rows[row].more.as_ref()?.fixed.map(|fixed| fixed.1);
            return Err(
                Diagnostic::error(message).at(said(row).or(said(*of)).unwrap_or(Loc::UNKNOWN))
            );
        }
        now.insert(place.start, (place, row));
    }
    Ok(())
}

/// `ID` or `ID:COST`.
fn partner(text: &str, ids: &HashMap<String, usize>) -> Option<(usize, Option<u64>)> {
    if let Some(row) = ids.get(text) {
        return Some((*row, None));
    }
    let (id, cost) = text.rsplit_once(':')?;
    Some((*ids.get(id)?, Some(cost.parse().ok()?)))
}

/// The row that each lies in, and at which byte.
fn parents(
    rows: &[Row],
    ids: &HashMap<String, usize>,
) -> Result<Vec<Option<(usize, u64)>>, Diagnostic> {
    let parent = |row: &Row| {
        let Some((text, place)) = row.more.as_ref().and_then(|more| more.within.as_ref()) else {
            return Ok(None);
        };
        let part = || {
            let (id, bytes) = text.rsplit_once('+')?;
            Some((*ids.get(id.trim())?, bytes.trim().parse::<u64>().ok()?))
        };
        let found = ids.get(text).map(|row| (*row, 0)).or_else(part);
        let message = || format!("within '{text}', expected the ID of a buffer, or ID+BYTES");
        let found = found.ok_or_else(|| Diagnostic::error(message()).at(*place))?;
        let (own, other) = (row.buffer.size, &rows[found.0].buffer);
        let end = found.1.saturating_add(own);
        if end > other.size {
            let (id, size) = (&other.name, other.size);
            let message = format!("ends at byte {end} of '{id}', which has {size}");
            return Err(Diagnostic::error(message).at(*place));
        }
        Ok(Some(found))
    };
    rows.iter().map(parent).collect()
}

/// The row that holds each and lies in none, and at which byte of it.
fn roots(rows: &[Row], within: &[Option<(usize, u64)>]) -> Result<Vec<(usize, u64)>, Diagnostic> {
    let mut roots: Vec<Option<(usize, u64)>> = vec![None; rows.len()];
    for at in 0..rows.len() {
        // From the row up to one that is known.
        let (mut path, mut top) = (Vec::new(), at);
        let mut known = loop {
            if let Some(root) = roots[top] {
                break root;
            }
            let Some((of, _)) = within[top] else {
                break (top, 0);
            };
            if path.contains(&top) {
                let place = rows[at]
                    .more
                    .as_ref()
                    .and_then(|m| Some(m.within.as_ref()?.1));
                let message = format!(
                    "'{}' lies in itself by way of others",
                    rows[top].buffer.name
                );
                return Err(Diagnostic::error(message).at(place.unwrap_or(Loc::UNKNOWN)));
            }
            path.push(top);
            top = of;
        };
        roots[top] = Some(known);
        while let Some(row) = path.pop() {
            known.1 += within[row].map_or(0, |(_, byte)| byte);
            roots[row] = Some(known);
        }
    }
    Ok(roots.into_iter().flatten().collect())
}

struct Resolver<'r> {
    rows: &'r [Row],
    roots: &'r [(usize, u64)],
    /// The bytes in which rows that lie in no other must lie, and whether that is one place.
    places: Vec<Option<(Range<u64>, bool)>>,
    banks: &'r [Option<u64>],
    space_of: &'r [usize],
    lowest: Vec<Option<(u64, u64, String)>>,
}

impl Resolver<'_> {
    /// Looks at where a row must lie, and at what it says of the one that it lies in.
    fn place(&mut self, at: usize, within: &[Option<(usize, u64)>]) -> Result<(), Diagnostic> {
        let row = &self.rows[at];
        let (root, byte) = self.roots[at];
        let (whole, buffer) = (&self.rows[root], &row.buffer);
        let Some(more) = &row.more else { return Ok(()) };
        let error = |place: Loc, message: String| Diagnostic::error(message).at(place);
        let space = self.space_of[root];
        if let (Some(_), Some((_, place))) = (within[at], &more.within) {
            if !row.space.is_empty() && row.space != whole.space {
                let place = more.space.unwrap_or(*place);
                let (id, other) = (&whole.buffer.name, &whole.space);
                return Err(error(place, format!("'{id}' is in space '{other}'")));
            }
            if byte % buffer.align != 0 {
                let (id, align) = (&whole.buffer.name, buffer.align);
                let message =
                    format!("begins at byte {byte} of '{id}', expected a multiple of {align}");
                return Err(error(*place, message));
            }
            let banked = more.bank.map(|bank| bank.1);
            if let Some(place) = banked.or(more.apart.as_ref().map(|apart| apart.1)) {
                let id = &whole.buffer.name;
                return Err(error(place, format!("lies in '{id}', say it of that one")));
            }
        }
        let bank = self.banks.get(space).copied().flatten();
        let wants = more.bank.map(|b| b.1).or(more.apart.as_ref().map(|a| a.1));
        if let Some(place) = wants.filter(|_| bank.is_none()) {
            let message =
                "the size of banks is not known, --bank BYTES or --bank SPACE=BYTES says it";
            return Err(error(place, message.to_string()));
        }
        let mut ends = None;
        if let (Some((number, place)), Some(bank)) = (more.bank, bank) {
            if buffer.size > bank {
                let message = format!("{} bytes are more than a bank has, {bank}", buffer.size);
                return Err(error(place, message));
            }
            let begin = number.checked_mul(bank).filter(|n| *n < 1 << 62);
            let begin = begin.ok_or_else(|| error(place, format!("bank {number} is too far")))?;
            self.places[root] = Some((begin..begin + bank, false));
            ends = Some(begin.next_multiple_of(buffer.align) + buffer.size);
        }
        if let Some((offset, place)) = more.fixed {
            if offset % buffer.align != 0 {
                let align = buffer.align;
                let message = format!("fixed at {offset}, expected a multiple of {align}");
                return Err(error(place, message));
            }
            if offset >= 1 << 62 {
                return Err(error(
                    place,
                    format!("fixed at {offset}, expected less than 2^62"),
                ));
            }
            let begin = offset.checked_sub(byte);
            let begin = begin.ok_or_else(|| {
                let id = &whole.buffer.name;
                error(
                    place,
                    format!("fixed at {offset}, but lies {byte} bytes into '{id}'"),
                )
            })?;
            let place_of_whole = begin..begin.saturating_add(whole.buffer.size);
            match &self.places[root] {
                Some((known, true)) if *known != place_of_whole => {
                    let (id, known) = (&whole.buffer.name, known.start);
                    let message = format!("'{id}' would lie at {begin}, but lies at {known}");
                    return Err(error(place, message));
                }
                Some((bank, false))
                    if place_of_whole.start < bank.start || place_of_whole.end > bank.end =>
                {
                    let (from, to) = (bank.start, bank.end);
                    let message = format!("fixed at {offset}, outside of its bank, {from} to {to}");
                    return Err(error(place, message));
                }
                _ => self.places[root] = Some((place_of_whole, true)),
            }
            ends = Some(offset.saturating_add(buffer.size));
        }
        if let Some(end) = ends.filter(|_| buffer.size > 0) {
            let lowest = &mut self.lowest[space];
            if lowest.as_ref().is_none_or(|(known, _, _)| *known < end) {
                *lowest = Some((end, buffer.size, buffer.name.clone()));
            }
        }
        Ok(())
    }
}
