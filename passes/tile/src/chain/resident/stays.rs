//! One more tensor that stays: the nests concerned planned again, its home and place, and whether that is any gain.

use std::collections::HashSet;
use std::rc::Rc;

use tir::Value;

use super::nest::Parts;
use super::{
    Accept, Candidate, Home, LOSS, NO_PLACE, PLENTY, Planner, SLACK, SLOWER, State, TOO_LARGE,
    concerned,
};
use crate::chain::forms::INSIDE;
use crate::chain::home::Why;
use crate::chain::stage::Homes;
use crate::placed::Placed;

/// How often nests are planned again at most beside a tensor that takes more near memory than they were planned beside.
const AGAIN: usize = 2;

/// Why a tensor does not stay of which the nests that read it near do not read all that others read.
const SEEN: Why = "nests read more of it in far memory, as another shape or as a part";

/// Why a tensor does not stay that its writers would have to compute in an order in which they do not read.
const AS_READ: Why = "no unit computes it as it is read";

/// Why a tensor does not stay, and how many bytes of near memory it would take where a nest that reads it has no room beside
/// them.
struct Unfit {
    why: Why,
    bytes: Option<i64>,
}

impl From<Why> for Unfit {
    fn from(why: Why) -> Self {
        Self { why, bytes: None }
    }
}

impl Planner<'_> {
    /// The state with one more tensor that stays.
    pub(super) fn with(
        &self,
        state: &State,
        candidate: &Candidate,
        accept: Accept,
    ) -> Result<State, Why> {
        let found = self.with_order(state, candidate, accept, None);
        let Err(why) = found else { return found };
        if ![AS_READ, INSIDE].contains(&why) {
            return Err(why);
        }
        // What reads interleaved sequences computes them: where its readers take that, the tensor lies so, too.
        let mut steps = self.sequences(state, candidate).into_iter();
        let with = |step| self.with_order(state, candidate, accept, Some(step));
        steps.find_map(|step| with(step).ok()).ok_or(why)
    }

    /// How many interleaved sequences what the writers of a tensor read lies in, or how often what is repeated lies there.
    fn sequences(&self, state: &State, candidate: &Candidate) -> Vec<i64> {
        let read = candidate
            .writers
            .iter()
            .flat_map(|nest| &state.nests[*nest].near);
        let read: HashSet<Value> = read.copied().collect();
        let lies = state.homes.iter().flat_map(|home| home.all_lies());
        let lies = lies.filter(|(value, _)| read.contains(value));
        let mut steps: Vec<i64> = lies
            .flat_map(|(_, lies)| {
                lies.placed
                    .sequences()
                    .map(|(_, count)| count)
                    .collect::<Vec<_>>()
            })
            .collect();
        let through = candidate.through.iter();
        let copies = through.filter_map(|part| self.copies(part.load.value));
        steps.extend(copies.flat_map(|copies| copies.repeats()));
        steps.sort_unstable();
        steps.dedup();
        steps
    }

    /// The state with one more tensor that stays, as so many interleaved sequences along the rows of its readers if that is said.
    fn with_order(
        &self,
        state: &State,
        candidate: &Candidate,
        accept: Accept,
        sequences: Option<i64>,
    ) -> Result<State, Why> {
        // Its readers are planned beside as many bytes as the tensor has; where it takes more and they have no room then, they
        // are planned once more beside these.
        let mut bytes = self.bytes(candidate.value);
        let mut left = AGAIN;
        loop {
            match self.with_bytes(state, candidate, accept, (bytes, sequences)) {
                Ok(next) => return Ok(next),
                Err(Unfit {
                    why,
                    bytes: Some(size),
                }) if left > 0 && size > bytes => {
                    (bytes, left) = (size, left - 1);
                    if bytes > self.near_bytes() {
                        return Err(why);
                    }
                }
                Err(unfit) => return Err(unfit.why),
            }
        }
    }

    /// The state with one more tensor that stays, whose readers are planned beside so many bytes; or why it does not, and how many it
    /// takes if a nest has no room beside them.
    fn with_bytes(
        &self,
        state: &State,
        candidate: &Candidate,
        accept: Accept,
        (bytes, sequences): (i64, Option<i64>),
    ) -> Result<State, Unfit> {
        let (near, value) = (self.target.near, candidate.value);
        let mut next = state.clone();
        let mut makers = candidate.writers.iter().copied().chain(candidate.copiers());
        if makers.any(|nest| state.nests[nest].writes.is_some()) {
            return Err("a nest computes it with another one that stays".into());
        }
        let elem = self.ir.ty(value).elem().bytes().unwrap_or(1) as i64;
        if bytes > self.near_bytes() {
            return Err("it is larger than near memory".into());
        }
        // Those that the nests which are planned again may read.
        let (last, first) = candidate.span();
        let mut homes: Homes = state
            .homes
            .iter()
            .filter(|home| home.life.0 <= first && last <= home.life.1)
            .flat_map(|home| home.all_lies())
            .collect();
        // The readers, as if it were as large as the tensor is.
        let Some(place) = self.target_stage(value) else {
            return Err("nothing reads it".into());
        };
        let rank = self.ir.ty(value).shape().map_or(0, <[i64]>::len);
        next.homes.push(Rc::new(Home {
            value,
            stage: place,
            // Until it is known what readers want there.
            zeros: (0..rank).collect(),
            makers: Vec::new(),
            writers: candidate.writers.clone(),
            places: candidate.places.clone(),
            loads: candidate.loads.clone(),
            brought: Vec::new(),
            shared: candidate.shared.clone(),
            through: candidate.through.clone(),
            reader: candidate.readers.iter().copied().max().unwrap_or(0),
            life: candidate.life,
            at: self
                .place(&state.homes, candidate.life, bytes)
                .ok_or(NO_PLACE)?,
            bytes,
            load: 0,
        }));
        for reader in &candidate.readers {
            Rc::make_mut(&mut next.nests[*reader]).near.insert(value);
        }
        for part in &candidate.shared {
            for reader in &part.readers {
                Rc::make_mut(&mut next.nests[*reader])
                    .near
                    .insert(part.value);
            }
        }
        let readers = candidate.all_readers();
        let (mut planned, (home, zeros)) = self.readers(&next, candidate, &mut homes, sequences)?;
        if let Some(own) = next.homes.last_mut().map(Rc::make_mut) {
            (own.stage, own.zeros) = (home, zeros);
        }
        for reader in &readers {
            let written = next.nests[*reader].writes;
            let mut homes = next.homes.iter();
            if let Some(home) = homes.find(|home| Some(home.value) == written) {
                self.producers(&next, home)?;
            }
        }
        let own = next.homes.len() - 1;
        if candidate.is_put_together() {
            let Parts {
                made,
                groups,
                inside,
            } = self.producers(&next, &next.homes[own])?;
            let (brought, load) = match candidate.loads.is_empty() {
                true => Default::default(),
                false => self.brought(&next.homes[own], &inside)?,
            };
            let home = Rc::make_mut(&mut next.homes[own]);
            home.makers = groups.iter().map(|(maker, _)| *maker).collect();
            (home.brought, home.load) = (brought, load);
            // What units write behind its parts is overwritten when all are computed.
            if !made.behind.is_empty() && !home.shared.is_empty() {
                return Err("a part is read before what lies behind it is filled".into());
            }
            if let Some(segment) = home.stage.segments.first_mut() {
                segment.made = vec![made];
            }
        } else {
            let load = self.load(&next.homes[own])?;
            Rc::make_mut(&mut next.homes[own]).load = load;
        }
        homes.extend(next.homes[own].all_lies());
        // What engines bring no nest copies.
        for nest in candidate.copiers() {
            Rc::make_mut(&mut next.nests[nest]).writes = Some(value);
            planned.push((nest, Vec::new()));
        }
        for writer in &candidate.writers {
            Rc::make_mut(&mut next.nests[*writer]).writes = Some(value);
            let stages = self.plan(&next, *writer, &homes);
            let stages = stages.ok_or(AS_READ)?;
            planned.push((*writer, stages));
        }
        for (number, stages) in planned {
            self.take(&mut next, number, stages);
        }
        // Its size is known now, with what its readers read beside it and what units write beyond it.
        let sized = |home: &Home| {
            let align = near.align.max(1);
            let bytes = Placed::of(home.tile()).elements().saturating_mul(elem);
            (bytes + align - 1) / align * align
        };
        let bytes = sized(&next.homes[own]);
        let shape = self.ir.ty(value).shape().unwrap_or(&[]);
        let whole = || Placed::of(next.homes[own].tile()).covers(shape);
        if candidate.is_put_together() && !whole() && self.is_seen_otherwise(value) {
            return Err(SEEN.into());
        }
        let at = self.place(&state.homes, candidate.life, bytes);
        let at = at.ok_or(NO_PLACE)?;
        let home = Rc::make_mut(&mut next.homes[own]);
        (home.at, home.bytes) = (at, bytes);
        let mut touched = concerned(candidate);
        let (last, first) = candidate.life;
        let unfit = |number: usize| Unfit {
            why: TOO_LARGE,
            bytes: readers.contains(&number).then_some(bytes),
        };
        for number in last..=first {
            let free = self.room(&next.homes, number);
            if next.nests[number].bytes <= free {
                continue;
            }
            // It was planned beside less, or without it: it takes smaller tiles.
            let stages = self.plan(&next, number, &homes);
            let stages = stages.ok_or_else(|| unfit(number))?;
            touched.push(number);
            self.take(&mut next, number, stages);
            if next.nests[number].bytes > free || sized(&next.homes[own]) > bytes {
                return Err(unfit(number));
            }
        }
        touched.sort_unstable();
        touched.dedup();
        let (mut all, mut gained, mut lost, mut saved) = (0i64, 0i64, 0i64, 0i64);
        for number in touched {
            let [before, then] = [state, &next].map(|state| state.nests[number].cycles);
            all = all.saturating_add(before);
            gained = gained.saturating_add((before - then).max(0));
            lost = lost.saturating_add((then - before).max(0));
            let [before, then] = [state, &next].map(|state| state.nests[number].moved);
            saved = saved.saturating_add(before - then);
        }
        // Where near memory is plenty, a cycle of an engine that is saved is worth one of the nests.
        let plenty = next.homes[own].bytes <= near.bytes / PLENTY;
        let worth = match accept {
            Accept::Nests if plenty => saved.max(0),
            _ => 0,
        };
        match accept {
            Accept::Nests | Accept::Quicker => {}
            Accept::All if gained >= lost && saved > 0 => return Ok(next),
            Accept::All => return Err(SLOWER.into()),
            Accept::Any => return Ok(next),
            Accept::Fewer if saved > 0 => return Ok(next),
            Accept::Fewer => return Err("the nests concerned move no fewer bytes".into()),
        }
        let most = gained.saturating_add(all / SLACK).saturating_add(worth);
        if lost.saturating_mul(LOSS) > most {
            return Err(SLOWER.into());
        }
        Ok(next)
    }
}
