//! Matching piece by piece with backtracking, each piece as long as possible.
//!
//! This is what POSIX says about captures, and the only way to match a variable that is used in
//! the pattern that defines it. Work is bounded; a pattern that needs more is an error.

use crate::matcher::{Found, NoMatch, Resolved, nfa_config, syntax_config};
use regex_automata::hybrid::dfa::{Cache, DFA, OverlappingState};
use regex_automata::{Anchored, Input, MatchKind};
use std::collections::HashSet;

/// Steps (ends tried and bytes scanned) in the search for one match.
const MAX_STEPS: usize = 20_000_000;

enum Step {
    Text(Vec<u8>),
    Regex(Box<DFA>, Box<Cache>, Option<usize>),
    Repeat(usize),
}

/// A search over the pieces of one pattern.
pub(crate) struct Walk<'t> {
    steps: Vec<Step>,
    slots: usize,
    text: &'t [u8],
    ignore_case: bool,
    left: usize,
    repeats: bool,
}

/// The candidates of one piece: ends not yet tried, the longest last.
struct Frame {
    at: usize,
    ends: Vec<usize>,
}

impl<'t> Walk<'t> {
    pub(crate) fn new(
        parts: &[Resolved],
        slots: usize,
        text: &'t [u8],
        ignore_case: bool,
    ) -> Result<Self, NoMatch> {
        let mut steps = Vec::with_capacity(parts.len());
        for part in parts {
            steps.push(match part {
                Resolved::Text(text) => Step::Text(text.clone()),
                Resolved::Repeat(slot) => Step::Repeat(*slot),
                Resolved::Regex(regex) => dfa(regex, None, ignore_case)?,
                Resolved::Capture(slot, regex) => dfa(regex, Some(*slot), ignore_case)?,
            });
        }
        let repeats = parts.iter().any(|p| matches!(p, Resolved::Repeat(_)));
        Ok(Walk {
            steps,
            slots,
            text,
            ignore_case,
            left: MAX_STEPS,
            repeats,
        })
    }

    /// The match that starts at `start`: the one that ends at `end` if that is given, otherwise
    /// the longest; of several the one whose first pieces are longest.
    pub(crate) fn run(
        &mut self,
        start: usize,
        end: Option<usize>,
    ) -> Result<Option<Found>, NoMatch> {
        let mut best: Option<Found> = None;
        // Without repeats, what can follow depends only on the piece and the place.
        let mut dead: HashSet<(usize, usize)> = HashSet::new();
        let mut slots = vec![None; self.slots];
        let mut frames = vec![self.frame(0, start, &slots)?];
        while let Some(depth) = frames.len().checked_sub(1) {
            let frame = &mut frames[depth];
            let at = frame.at;
            let Some(to) = frame.ends.pop() else {
                if !self.repeats {
                    dead.insert((depth, at));
                }
                frames.pop();
                continue;
            };
            if let Some(Step::Regex(_, _, Some(slot))) = self.steps.get(depth) {
                slots[*slot] = Some((at, to));
            }
            if depth + 1 < self.steps.len() {
                if !dead.contains(&(depth + 1, to)) {
                    frames.push(self.frame(depth + 1, to, &slots)?);
                }
                continue;
            }
            match end {
                Some(end) if end != to => {}
                Some(_) => {
                    return Ok(Some(Found {
                        start,
                        end: to,
                        slots,
                    }));
                }
                None if best.as_ref().is_none_or(|b| b.end < to) => {
                    best = Some(Found {
                        start,
                        end: to,
                        slots: slots.clone(),
                    });
                }
                None => {}
            }
        }
        Ok(best)
    }

    /// Counts work done.
    pub(crate) fn charge(&mut self, cost: usize) -> Result<(), NoMatch> {
        self.left = self.left.saturating_sub(cost);
        match self.left {
            0 => Err(NoMatch::Error(
                "the pattern is too ambiguous to match in bounded time".into(),
            )),
            _ => Ok(()),
        }
    }

    fn frame(
        &mut self,
        index: usize,
        at: usize,
        slots: &[Option<(usize, usize)>],
    ) -> Result<Frame, NoMatch> {
        let text = self.text;
        let mut ends = Vec::new();
        let mut cost = 1;
        match self.steps.get_mut(index) {
            // A pattern without pieces matches nothing at its place.
            None => ends.push(at),
            Some(Step::Text(fixed)) => {
                let same = text
                    .get(at..at + fixed.len())
                    .is_some_and(|t| equal(t, fixed, self.ignore_case));
                if same {
                    ends.push(at + fixed.len());
                }
            }
            Some(Step::Repeat(slot)) => {
                let value = slots
                    .get(*slot)
                    .copied()
                    .flatten()
                    .map_or(&[][..], |(a, b)| &text[a..b]);
                if text
                    .get(at..at + value.len())
                    .is_some_and(|t| equal(t, value, self.ignore_case))
                {
                    ends.push(at + value.len());
                }
            }
            Some(Step::Regex(dfa, cache, _)) => {
                let input = Input::new(text)
                    .span(at..text.len())
                    .anchored(Anchored::Yes);
                let mut state = OverlappingState::start();
                loop {
                    dfa.try_search_overlapping_fwd(cache, &input, &mut state)
                        .map_err(|e| {
                            NoMatch::Error(format!("the pattern is too hard to match: {e}"))
                        })?;
                    let Some(hit) = state.get_match() else { break };
                    if ends.last() != Some(&hit.offset()) {
                        ends.push(hit.offset());
                    }
                    if ends.len() > self.left {
                        break;
                    }
                }
                // A piece rarely reads past its line.
                let line = text[at..]
                    .iter()
                    .position(|&b| b == b'\n')
                    .unwrap_or(text.len() - at);
                cost += ends.len() + line / 8;
            }
        }
        self.charge(cost)?;
        Ok(Frame { at, ends })
    }
}

fn equal(a: &[u8], b: &[u8], ignore_case: bool) -> bool {
    if ignore_case {
        a.eq_ignore_ascii_case(b)
    } else {
        a == b
    }
}

fn dfa(regex: &str, slot: Option<usize>, ignore_case: bool) -> Result<Step, NoMatch> {
    let config = DFA::config()
        .match_kind(MatchKind::All)
        .skip_cache_capacity_check(true)
        .minimum_cache_clear_count(None);
    let dfa = DFA::builder()
        .configure(config)
        .syntax(syntax_config(ignore_case))
        .thompson(nfa_config())
        .build(regex)
        .map_err(|e| NoMatch::Error(format!("the pattern is too large to match: {e}")))?;
    let cache = dfa.create_cache();
    Ok(Step::Regex(Box::new(dfa), Box::new(cache), slot))
}
