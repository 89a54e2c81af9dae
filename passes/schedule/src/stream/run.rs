//! Runs of the steps.

use tir::{Failure, Ir};

use super::int::int;
use super::step::{Slot, Step, Val};
use super::{Actor, Area, Event, Sink, Stream, TokenId};

/// A run under way.
pub(super) struct Run<'a> {
    pub(super) stream: &'a Stream,
    pub(super) ir: &'a Ir,
    pub(super) vals: Vec<Val>,
    pub(super) counts: Vec<u32>,
    pub(super) left: u64,
    pub(super) limit: u64,
    pub(super) reads: Vec<Area>,
    pub(super) writes: Vec<Area>,
    pub(super) after: Vec<TokenId>,
}

impl Run<'_> {
    fn step(&mut self) -> Result<(), Failure> {
        self.left = self.left.checked_sub(1).ok_or_else(|| {
            Failure::from(format!("the stream has more than {} steps", self.limit))
        })?;
        Ok(())
    }
    fn copy(&mut self, pairs: &[(Slot, Slot)]) {
        // All are read before any is written: carried values may be permuted.
        let vals: Vec<Val> = pairs.iter().map(|(from, _)| self.vals[*from]).collect();
        for ((_, to), val) in pairs.iter().zip(vals) {
            self.vals[*to] = val;
        }
    }
    pub(super) fn steps(&mut self, steps: &[Step], sink: &mut dyn Sink) -> Result<(), Failure> {
        for step in steps {
            match step {
                Step::Int {
                    dst,
                    op,
                    args,
                    predicate,
                } => {
                    let [a, b, c] = args.map(|s| self.vals[s].a);
                    self.vals[*dst].a = int(*op, a, b, c, *predicate);
                }
                Step::Shift {
                    dst,
                    src,
                    terms,
                    plus,
                } => {
                    let mut val = self.vals[*src];
                    val.a += plus + terms.iter().map(|(s, n)| self.vals[*s].a * n).sum::<i64>();
                    self.vals[*dst] = val;
                }
                Step::Loop {
                    bounds,
                    iv,
                    init,
                    body,
                    carry,
                    out,
                    op,
                } => {
                    let [low, high, by] = bounds.map(|b| self.vals[b].a);
                    if by < 1 {
                        let error =
                            tir::Diagnostic::error(format!("has step {by}, expected at least 1"));
                        return Err(error.at(self.ir.loc(*op)).into());
                    }
                    self.copy(init);
                    let mut i = low;
                    while i < high {
                        self.step()?;
                        self.vals[*iv].a = i;
                        self.steps(body, sink)?;
                        self.copy(carry);
                        i += by;
                    }
                    self.copy(out);
                }
                Step::If {
                    condition,
                    branches,
                    yields,
                } => {
                    let which = usize::from(self.vals[*condition].a & 1 == 0);
                    self.steps(&branches[which], sink)?;
                    self.copy(&yields[which]);
                }
                Step::Mark { dst, queue } => {
                    self.vals[*dst] = Val {
                        a: self.counts[*queue].into(),
                        root: *queue,
                    };
                }
                Step::Point { point } => sink.point(*point),
                Step::Work {
                    site,
                    reads,
                    writes,
                    after,
                    token,
                } => {
                    for (feet, which) in [(reads, false), (writes, true)] {
                        let areas = if which {
                            &mut self.writes
                        } else {
                            &mut self.reads
                        };
                        areas.clear();
                        for foot in feet {
                            let val = self.vals[foot.view];
                            areas.push(Area {
                                root: val.root,
                                offset: val.a,
                                dims: foot.dims.clone(),
                                elem: foot.elem,
                            });
                        }
                    }
                    self.event(*site, after, *token, sink)?;
                }
                Step::Move {
                    site,
                    pattern,
                    far,
                    tile,
                    offsets,
                    read,
                    after,
                    token,
                } => {
                    let at: Vec<i64> = offsets.iter().map(|o| self.vals[*o].a).collect();
                    let (far, tile) = (self.vals[*far], self.vals[*tile]);
                    let (mut fars, mut tiles) = (vec![], vec![]);
                    for piece in pattern.pieces(&at) {
                        let side = |stride: fn(&(i64, i64, i64)) -> i64| {
                            piece.dims.iter().map(|d| (d.0, stride(d))).collect()
                        };
                        fars.push(Area {
                            root: far.root,
                            offset: far.a + piece.far,
                            dims: side(|d| d.1),
                            elem: pattern.elem,
                        });
                        tiles.push(Area {
                            root: tile.root,
                            offset: tile.a + piece.tile,
                            dims: side(|d| d.2),
                            elem: pattern.elem,
                        });
                    }
                    if *read {
                        // Padding is written too: the tile as a whole.
                        let dims = pattern
                            .tile_shape
                            .iter()
                            .copied()
                            .zip(pattern.tile_strides.iter().copied());
                        tiles = vec![Area {
                            root: tile.root,
                            offset: tile.a,
                            dims: dims.collect(),
                            elem: pattern.elem,
                        }];
                        (self.reads, self.writes) = (fars, tiles);
                    } else {
                        (self.reads, self.writes) = (tiles, fars);
                    }
                    self.event(*site, after, *token, sink)?;
                }
            }
        }
        Ok(())
    }

    fn event(
        &mut self,
        site: usize,
        after: &[Slot],
        token: Option<Slot>,
        sink: &mut dyn Sink,
    ) -> Result<(), Failure> {
        self.step()?;
        self.after.clear();
        for slot in after {
            let val = self.vals[*slot];
            self.after.push((val.root, val.a as u32));
        }
        for area in self.reads.iter().chain(&self.writes) {
            self.check(site, area)?;
        }
        if let Actor::Queue(queue) = self.stream.sites[site].actor {
            self.counts[queue] += 1;
            if let Some(token) = token {
                self.vals[token] = Val {
                    a: self.counts[queue].into(),
                    root: queue,
                };
            }
        }
        sink.event(&Event {
            site,
            reads: &self.reads,
            writes: &self.writes,
            after: &self.after,
        })
    }

    /// Views stay inside their buffers.
    fn check(&self, site: usize, area: &Area) -> Result<(), Failure> {
        let (mut low, mut high) = (area.offset, area.offset);
        for (count, stride) in area.dims.iter() {
            if *count == 0 {
                return Ok(());
            }
            let reach = (count - 1) * stride;
            low += reach.min(0);
            high += reach.max(0);
        }
        let root = &self.stream.roots[area.root];
        if low < 0 || high + area.elem > root.bytes {
            let (op, bytes) = (self.stream.sites[site].op, root.bytes);
            let text = format!(
                "'{}' touches bytes {low} to {} of {}, which has {bytes}",
                self.ir.name(op),
                high + area.elem,
                root.name
            );
            return Err(tir::Diagnostic::error(text).at(self.ir.loc(op)).into());
        }
        Ok(())
    }
}
