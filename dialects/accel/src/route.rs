//! Ways between spaces that no engine joins: through others.

use tir::Name;

use crate::machine::{EngineInfo, MachineInfo};

/// A way from one space to another through others.
#[derive(Clone, Debug)]
pub struct RouteInfo {
    /// The spaces between, in order; a tile on its way has a buffer in each.
    pub through: Vec<Name>,
    /// An engine that takes as long as all of the way for one tile after the other: of the engines on it
    /// the lowest rate and the least dimensions, and all latencies.
    pub engine: EngineInfo,
}

impl MachineInfo {
    /// The spaces between two that no engine joins, on the way with the fewest transfers; of several the
    /// one of the engines that come first in the file. None where an engine joins them, or nothing does.
    pub fn between(&self, from: Name, to: Name) -> Option<Vec<Name>> {
        if from == to || self.engine_between(from, to).is_some() {
            return None;
        }
        let mut ways: Vec<Vec<Name>> = vec![vec![from]];
        let mut seen = vec![from];
        while !ways.is_empty() {
            let mut next = Vec::new();
            for way in &ways {
                let last = *way.last()?;
                for engine in self.engines.iter().filter(|e| e.from == last) {
                    if engine.to == to {
                        return Some(way[1..].to_vec());
                    }
                    if !seen.contains(&engine.to) {
                        seen.push(engine.to);
                        next.push([&way[..], &[engine.to]].concat());
                    }
                }
            }
            ways = next;
        }
        None
    }

    /// The way between two spaces that no engine joins.
    pub fn route(&self, from: Name, to: Name) -> Option<&RouteInfo> {
        let joins = |route: &&RouteInfo| route.engine.from == from && route.engine.to == to;
        self.routes.iter().find(joins)
    }

    /// All ways between spaces of the machine file that no engine joins.
    pub(crate) fn find_routes(&self) -> Vec<RouteInfo> {
        let declared = self.spaces.iter().filter(|space| space.name == space.of);
        let declared: Vec<Name> = declared.map(|space| space.name).collect();
        let pairs = (declared.iter()).flat_map(|a| declared.iter().map(move |b| (*a, *b)));
        let route = |(from, to): (Name, Name)| {
            let through = self.between(from, to)?;
            let stops = [&[from], &through[..], &[to]].concat();
            let engines = stops.windows(2);
            let engines = engines.map(|pair| self.engine_between(pair[0], pair[1]));
            let engines: Vec<&EngineInfo> = engines.collect::<Option<_>>()?;
            let least = |of: fn(&EngineInfo) -> i64| engines.iter().map(|e| of(e)).min();
            let first = *engines.first()?;
            Some(RouteInfo {
                engine: EngineInfo {
                    from,
                    to,
                    bytes_per_cycle: least(|e| e.bytes_per_cycle)?,
                    latency: engines.iter().map(|e| e.latency).sum(),
                    dims: least(|e| e.dims)?,
                    queue: least(|e| e.queue)?,
                    issue: engines.iter().map(|e| e.issue).sum(),
                    granule: engines.iter().map(|e| e.granule).max()?,
                    square: least(|e| e.square)?,
                    packs: engines.iter().all(|e| e.packs),
                    ..first.clone()
                },
                through,
            })
        };
        pairs.filter_map(route).collect()
    }
}
