//! What is to be packed.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::OnceLock;

use crate::bound::LiveSet;
use crate::graph::Interference;

/// The half-open intervals in which a buffer lives. Times are any counter of program points.
pub type Live = Vec<Range<u64>>;

/// Up to so many buffers planners use the interference graph, above it live intervals alone.
pub const DENSE: usize = 4000;

/// A buffer to be placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Name, for reports.
    pub name: String,
    /// Size in bytes. A buffer of no bytes overlaps nothing.
    pub size: u64,
    /// Alignment in bytes, a power of two.
    pub align: u64,
    /// Buffers of one group (that rotate in a loop, say) all live as long as any of them does.
    pub group: Option<u32>,
    /// The bytes in which it must lie: a bank, or, exactly as large as the buffer, a fixed place.
    pub within: Option<Range<u64>>,
}

impl Buffer {
    /// A buffer of alignment 1 in no group.
    pub fn new(name: &str, size: u64) -> Buffer {
        Buffer {
            name: name.to_string(),
            size,
            align: 1,
            group: None,
            within: None,
        }
    }
}

/// Buffers and which of them live at the same time.
#[derive(Clone, Debug)]
pub struct Problem {
    pub(crate) buffers: Vec<Buffer>,
    /// As given; absent when only the graph is known.
    pub(crate) lives: Option<Vec<Live>>,
    /// With groups joined: sorted, disjoint, not empty.
    pub(crate) joined: Option<Vec<Live>>,
    pub(crate) graph: OnceLock<Interference>,
    pub(crate) bound: OnceLock<LiveSet>,
    pub(crate) tallest: OnceLock<Option<LiveSet>>,
}

/// Why buffers are no problem that can be packed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProblemError {
    /// There are `buffers` buffers, but live intervals or a graph for `other`.
    Count {
        /// Number of buffers.
        buffers: usize,
        /// Number of entries beside them.
        other: usize,
    },
    /// A buffer's alignment is no power of two.
    Alignment {
        /// Its name.
        name: String,
        /// Its alignment.
        align: u64,
    },
    /// A buffer has no aligned place in the bytes in which it must lie.
    Within {
        /// Its name.
        name: String,
    },
    /// All sizes with their alignments exceed 2^62 bytes.
    TooLarge,
}

impl fmt::Display for ProblemError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            ProblemError::Count { buffers, other } => {
                write!(f, "{buffers} buffers, but live ranges for {other}")
            }
            ProblemError::Alignment { name, align } => {
                write!(
                    f,
                    "buffer {name} has alignment {align}, expected a power of two"
                )
            }
            ProblemError::Within { name } => {
                write!(
                    f,
                    "buffer {name} has no aligned place in the bytes in which it must lie"
                )
            }
            ProblemError::TooLarge => write!(f, "the buffers have more than 2^62 bytes together"),
        }
    }
}

impl std::error::Error for ProblemError {}

impl Problem {
    /// Buffers that interfere when they live at the same time, groups joined.
    pub fn from_lives(buffers: Vec<Buffer>, lives: Vec<Live>) -> Result<Problem, ProblemError> {
        validate(&buffers, lives.len())?;
        let joined = join_groups(&buffers, &lives);
        Ok(Problem {
            buffers,
            lives: Some(lives),
            joined: Some(joined),
            graph: OnceLock::new(),
            bound: OnceLock::new(),
            tallest: OnceLock::new(),
        })
    }

    /// Buffers that interfere as a graph says. Groups add the edges that joint lives would: what
    /// interferes with one member interferes with all, and the members with each other.
    pub fn from_graph(
        buffers: Vec<Buffer>,
        mut graph: Interference,
    ) -> Result<Problem, ProblemError> {
        validate(&buffers, graph.len())?;
        let mut groups: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (i, b) in buffers.iter().enumerate() {
            if let Some(g) = b.group {
                groups.entry(g).or_default().push(i);
            }
        }
        for members in groups.values() {
            let around: Vec<usize> = members.iter().flat_map(|&m| graph.neighbours(m)).collect();
            for &m in members {
                for &n in around.iter().chain(members) {
                    graph.add(m, n);
                }
            }
        }
        Ok(Problem {
            buffers,
            lives: None,
            joined: None,
            graph: OnceLock::from(graph),
            bound: OnceLock::new(),
            tallest: OnceLock::new(),
        })
    }

    /// The buffers in the order of their numbers.
    pub fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }

    /// The interference graph: a bit for each pair of buffers. Of live intervals it is made when it is asked for;
    /// planners ask for it up to [`DENSE`] buffers.
    pub fn graph(&self) -> &Interference {
        let made = || {
            self.joined
                .as_deref()
                .map_or_else(|| Interference::new(0), overlaps)
        };
        self.graph.get_or_init(made)
    }

    /// Whether planners may use the graph.
    pub(crate) fn is_dense(&self) -> bool {
        self.joined.is_none() || self.buffers.len() <= DENSE
    }

    /// Cycles of life of a buffer; its number of neighbours when only a graph is known.
    pub(crate) fn lifetime(&self, i: usize) -> u64 {
        match &self.joined {
            Some(lives) => lives[i]
                .iter()
                .fold(0, |n, l| n.saturating_add(l.end - l.start)),
            None => self.graph().degree(i) as u64,
        }
    }

    /// The start of a buffer's life, 0 when only a graph is known.
    pub(crate) fn start(&self, i: usize) -> u64 {
        let first = |lives: &Vec<Live>| lives[i].first().map_or(0, |l| l.start);
        self.joined.as_ref().map_or(0, first)
    }
}

fn validate(buffers: &[Buffer], other: usize) -> Result<(), ProblemError> {
    if buffers.len() != other {
        return Err(ProblemError::Count {
            buffers: buffers.len(),
            other,
        });
    }
    let mut total = 0u64;
    for b in buffers {
        if !b.align.is_power_of_two() {
            return Err(ProblemError::Alignment {
                name: b.name.clone(),
                align: b.align,
            });
        }
        if let Some(within) = &b.within {
            let start = within.start.div_ceil(b.align).saturating_mul(b.align);
            if start.saturating_add(b.size) > within.end {
                return Err(ProblemError::Within {
                    name: b.name.clone(),
                });
            }
            // Where it may lie counts: heights are sums of these.
            total = total.saturating_add(start);
        }
        total = total.saturating_add(b.size).saturating_add(b.align);
    }
    if total > 1 << 62 {
        Err(ProblemError::TooLarge)
    } else {
        Ok(())
    }
}

fn join_groups(buffers: &[Buffer], lives: &[Live]) -> Vec<Live> {
    let mut joint: BTreeMap<u32, Live> = BTreeMap::new();
    for (b, live) in buffers.iter().zip(lives) {
        if let Some(g) = b.group {
            joint.entry(g).or_default().extend(live.iter().cloned());
        }
    }
    joint.values_mut().for_each(|l| *l = normal(l));
    let own = |(b, live): (&Buffer, &Live)| match b.group {
        Some(g) => joint.get(&g).cloned().unwrap_or_default(),
        None => normal(live),
    };
    buffers.iter().zip(lives).map(own).collect()
}

/// The same times, sorted, joined where they touch, without empty intervals.
fn normal(live: &Live) -> Live {
    let mut sorted: Live = live.iter().filter(|l| l.start < l.end).cloned().collect();
    sorted.sort_by_key(|l| (l.start, l.end));
    let mut out: Live = Vec::with_capacity(sorted.len());
    for l in sorted {
        match out.last_mut() {
            Some(last) if l.start <= last.end => last.end = last.end.max(l.end),
            _ => out.push(l),
        }
    }
    out
}

/// A sweep over all starts, with what is live at each.
fn overlaps(lives: &[Live]) -> Interference {
    let mut graph = Interference::new(lives.len());
    let mut starts: Vec<(u64, u64, usize)> = Vec::new();
    for (i, live) in lives.iter().enumerate() {
        starts.extend(live.iter().map(|l| (l.start, l.end, i)));
    }
    starts.sort_unstable();
    let mut active: Vec<(u64, usize)> = Vec::new();
    for (start, end, i) in starts {
        active.retain(|a| a.0 > start);
        active.iter().for_each(|a| graph.add(a.1, i));
        active.push((end, i));
    }
    graph
}
