//! The judge of plans. It shares no code with the planners: it reads the live intervals and groups
//! as they were given (or the edges, when there are no intervals) and compares all pairs.

use std::fmt;

use crate::problem::{Live, Problem};

/// Something wrong with a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The plan has another number of offsets than there are buffers.
    Count {
        /// Number of offsets.
        offsets: usize,
        /// Number of buffers.
        buffers: usize,
    },
    /// Two buffers that live at the same time share bytes.
    Overlap {
        /// The first buffer.
        a: String,
        /// The second buffer.
        b: String,
        /// First common byte.
        from: u64,
        /// The byte after the last common one.
        to: u64,
    },
    /// An offset is not a multiple of the buffer's alignment.
    Misaligned {
        /// The buffer.
        name: String,
        /// Its offset.
        offset: u64,
        /// Its alignment.
        align: u64,
    },
    /// A buffer lies outside of the bytes in which it must.
    Outside {
        /// The buffer.
        name: String,
        /// Its offset.
        offset: u64,
    },
    /// A buffer ends beyond the capacity.
    Beyond {
        /// The buffer.
        name: String,
        /// Its end.
        end: u64,
        /// The capacity.
        capacity: u64,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Violation::Count { offsets, buffers } => {
                write!(f, "{offsets} offsets for {buffers} buffers")
            }
            Violation::Overlap { a, b, from, to } => {
                write!(
                    f,
                    "{a} and {b} live at the same time and share bytes {from}..{to}"
                )
            }
            Violation::Misaligned {
                name,
                offset,
                align,
            } => {
                write!(
                    f,
                    "{name} lies at offset {offset}, expected a multiple of {align}"
                )
            }
            Violation::Outside { name, offset } => {
                write!(
                    f,
                    "{name} lies at offset {offset}, outside of where it must lie"
                )
            }
            Violation::Beyond {
                name,
                end,
                capacity,
            } => {
                write!(
                    f,
                    "{name} ends at {end}, beyond the {capacity} bytes there are"
                )
            }
        }
    }
}

/// All that is wrong with offsets for a problem in a space of `capacity` bytes.
pub fn check(problem: &Problem, offsets: &[u64], capacity: u64) -> Vec<Violation> {
    let buffers = problem.buffers();
    if offsets.len() != buffers.len() {
        return vec![Violation::Count {
            offsets: offsets.len(),
            buffers: buffers.len(),
        }];
    }
    let mut out = Vec::new();
    for (b, &offset) in buffers.iter().zip(offsets) {
        if offset % b.align != 0 {
            out.push(Violation::Misaligned {
                name: b.name.clone(),
                offset,
                align: b.align,
            });
        }
        let end = offset.saturating_add(b.size);
        let inside = |w: &std::ops::Range<u64>| w.start <= offset && end <= w.end;
        if !b.within.as_ref().is_none_or(inside) {
            out.push(Violation::Outside {
                name: b.name.clone(),
                offset,
            });
        }
        if end > capacity {
            out.push(Violation::Beyond {
                name: b.name.clone(),
                end,
                capacity,
            });
        }
    }
    for i in 0..buffers.len() {
        for j in i + 1..buffers.len() {
            let from = offsets[i].max(offsets[j]);
            let end = |k: usize| offsets[k].saturating_add(buffers[k].size);
            let to = end(i).min(end(j));
            if from < to && together(problem, i, j) {
                let (a, b) = (buffers[i].name.clone(), buffers[j].name.clone());
                out.push(Violation::Overlap { a, b, from, to });
            }
        }
    }
    out
}

/// Whether any buffer of `i`'s group lives when any of `j`'s does.
fn together(problem: &Problem, i: usize, j: usize) -> bool {
    let peers = |k: usize| -> Vec<usize> {
        let group = problem.buffers()[k].group;
        (0..problem.buffers().len())
            .filter(|&p| p == k || (group.is_some() && problem.buffers()[p].group == group))
            .collect()
    };
    let Some(lives) = &problem.lives else {
        return problem.graph().has(i, j);
    };
    let meet = |a: &Live, b: &Live| {
        a.iter()
            .any(|x| b.iter().any(|y| x.start.max(y.start) < x.end.min(y.end)))
    };
    let (a, b) = (peers(i), peers(j));
    a.iter()
        .any(|&p| b.iter().any(|&q| meet(&lives[p], &lives[q])))
}
