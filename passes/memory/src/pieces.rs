//! The control-flow graph of a function, with nested regions laid flat.
//!
//! A *piece* is a run of ops without a branch or a region between them; an op with regions is a piece alone, through which control comes again
//! before a region runs another time. It is one op among others if nothing in its regions has to do with buffers or tokens. *Times* count the ops in the order of the text. Ways that a number of iterations rules out are none:
//! past a loop that certainly runs, into one that does not, and round one that runs once. Control that goes past a loop does not come by its op,
//! so that nothing of an iteration seems to.

use std::collections::HashMap;

use tir::interfaces::{RegionEdge, RegionPoint, successor_edges, taken_edges};
use tir::{BlockId, Ir, MemRefType, OpId, RegionId, Type, Value};

/// Ops without a branch or a region between them.
#[derive(Default)]
pub(crate) struct Piece {
    /// With their times.
    pub(crate) ops: Vec<(u64, OpId)>,
    /// Where control may go from its end.
    pub(crate) next: Vec<usize>,
    /// The tokens that become values at its begin.
    pub(crate) handed: Vec<Handed>,
}

/// A token that is an argument of a block, or the result of an op with regions.
pub(crate) struct Handed {
    pub(crate) token: Value,
    /// What is handed on, by the piece at whose end.
    pub(crate) from: Vec<(usize, Value)>,
}

/// The pieces of a function, the first of them where it begins.
pub(crate) fn pieces(ir: &Ir) -> Vec<Piece> {
    let mut all = Pieces {
        ir,
        pieces: Vec::new(),
        now: 0,
    };
    if let Some(body) = ir.regions(ir.root()).next() {
        all.region(body);
    }
    all.pieces
}

/// Whether control may come to each of the pieces of a function.
pub(crate) fn reached(pieces: &[Piece]) -> Vec<bool> {
    let mut reached = vec![false; pieces.len()];
    let mut work: Vec<usize> = (0..pieces.len().min(1)).collect();
    while let Some(at) = work.pop() {
        if !std::mem::replace(&mut reached[at], true) {
            work.extend(&pieces[at].next);
        }
    }
    reached
}

fn is_token(ty: Type) -> bool {
    ty == tir_accel::token()
}

struct Pieces<'a> {
    ir: &'a Ir,
    pieces: Vec<Piece>,
    now: u64,
}

impl Pieces<'_> {
    fn piece(&mut self) -> usize {
        self.pieces.push(Piece::default());
        self.pieces.len() - 1
    }

    /// The pieces of a region: where control enters it, and where it leaves it.
    fn region(&mut self, region: RegionId) -> Option<(usize, Vec<usize>)> {
        let ir = self.ir;
        let blocks: Vec<BlockId> = ir.blocks(region).collect();
        let starts: HashMap<BlockId, usize> = blocks.iter().map(|b| (*b, self.piece())).collect();
        let mut exits = Vec::new();
        for block in &blocks {
            let mut current = starts[block];
            for op in ir.ops_in(*block) {
                if ir.regions(op).len() > 0 && !self.is_plain(op) {
                    current = self.holder(op, current);
                } else {
                    self.pieces[current].ops.push((self.now, op));
                    self.now += 1 + ir.walk_below(op).len() as u64;
                }
            }
            let last = ir.last(*block).into_iter();
            let edges = last.flat_map(|op| successor_edges(ir, op, &is_token));
            let before = exits.len();
            exits.push(current);
            for (block, values) in edges {
                let Some(next) = starts.get(&block).copied() else {
                    continue;
                };
                exits.truncate(before);
                self.pieces[current].next.push(next);
                self.hand(next, &[current], &values);
            }
        }
        Some((*starts.get(blocks.first()?)?, exits))
    }

    /// Whether nothing in an op's regions has to do with buffers or tokens, as in the body of what a unit computes.
    fn is_plain(&self, op: OpId) -> bool {
        let ir = self.ir;
        let matters = |value: Value| {
            let ty = ir.ty(value);
            ty.is::<MemRefType>() || is_token(ty)
        };
        let mut inner = ir.walk_below(op).into_iter();
        inner.all(|op| !ir.operands(op).chain(ir.results(op)).any(matters))
    }

    /// The pieces of an op with regions behind a piece; gives the one behind the op.
    fn holder(&mut self, op: OpId, from: usize) -> usize {
        let head = self.piece();
        let (before, edges) = (from, taken_edges(self.ir, op, &is_token));
        let enters =
            |edge: &RegionEdge| edge.from == RegionPoint::Parent && edge.to != RegionPoint::Parent;
        if edges.iter().any(enters) {
            self.pieces[from].next.push(head);
        }
        self.pieces[head].ops.push((self.now, op));
        self.now += 1;
        let regions: Vec<RegionId> = self.ir.regions(op).collect();
        let regions: Vec<_> = regions.into_iter().map(|r| self.region(r)).collect();
        let behind = self.piece();
        for edge in edges {
            let region = |point| match point {
                RegionPoint::Region(index) => regions.get(index).and_then(Option::as_ref),
                RegionPoint::Parent => None,
            };
            let to = match (edge.from, edge.to) {
                (_, RegionPoint::Parent) => behind,
                // Round again: by way of the op.
                (RegionPoint::Region(_), _) => head,
                (RegionPoint::Parent, to) => match region(to) {
                    Some((entry, _)) => *entry,
                    None => continue,
                },
            };
            let around = [edge.from, edge.to] == [RegionPoint::Parent; 2];
            let from = match edge.from {
                // Control that comes from an iteration goes behind the op by the region's own edge.
                RegionPoint::Parent if around => vec![before],
                RegionPoint::Parent => vec![head],
                from => region(from).map_or_else(Vec::new, |(_, exits)| exits.clone()),
            };
            // What an iteration is given is there at the op, where all ways to it come by.
            match (edge.from, edge.to) {
                (RegionPoint::Parent, RegionPoint::Region(_)) => {
                    self.hand(head, &[before], &edge.values);
                }
                _ => self.hand(to, &from, &edge.values),
            }
            for piece in from {
                self.pieces[piece].next.push(to);
            }
        }
        behind
    }

    /// Notes that tokens are handed from the ends of pieces to the begin of one.
    fn hand(&mut self, to: usize, from: &[usize], values: &[(Value, Value)]) {
        let handed = &mut self.pieces[to].handed;
        for (given, taken) in values {
            let known = handed.iter().position(|known| known.token == *taken);
            let index = known.unwrap_or(handed.len());
            if known.is_none() {
                let (token, from) = (*taken, Vec::new());
                handed.push(Handed { token, from });
            }
            let pairs = from.iter().map(|piece| (*piece, *given));
            handed[index].from.extend(pairs);
        }
    }
}
