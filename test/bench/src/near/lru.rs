//! Scratchpads that hold what was used last: what a program without residency would move with one.
//!
//! [`Tiles`] holds what transfers move, each as one: a tile is there if all its words are in tiles that are held, and is
//! fetched as a whole if not. [`Lru`] is as good as one by this rule can be: it holds single words, wherever they lie. Of both,
//! all is there for what was used last, and tiles in work take nothing more; words that are written need not be fetched, and
//! what nobody reads any more is not written back.

use std::collections::{BTreeMap, HashMap};

/// What a transfer moves: a buffer, and runs of words of it, as starts and lengths.
pub(crate) type Tile = (usize, Vec<(usize, usize)>);

/// A scratchpad of tiles.
pub(crate) struct Tiles {
    /// Words that it holds at most, and that it holds.
    room: usize,
    held: usize,
    /// When each tile that is held was used last, and the tiles by that.
    used: HashMap<Tile, u64>,
    order: BTreeMap<u64, Tile>,
    now: u64,
    /// Of each word of each buffer, in how many tiles it is held, and whether it differs from far memory.
    words: Vec<Vec<(u16, bool)>>,
    /// Words fetched and written back.
    pub(crate) fetched: u64,
    pub(crate) written: u64,
}

impl Tiles {
    /// An empty one for so many words, over buffers of so many.
    pub(crate) fn new(room: usize, sizes: impl Iterator<Item = usize>) -> Self {
        Self {
            room,
            held: 0,
            used: HashMap::new(),
            order: BTreeMap::new(),
            now: 0,
            words: sizes.map(|words| vec![(0, false); words]).collect(),
            fetched: 0,
            written: 0,
        }
    }

    fn drop(&mut self, tile: &Tile) {
        let Some(time) = self.used.remove(tile) else {
            return;
        };
        self.order.remove(&time);
        for (start, run) in &tile.1 {
            for (count, dirty) in &mut self.words[tile.0][*start..start + run] {
                *count -= 1;
                self.written += u64::from(*count == 0 && std::mem::take(dirty));
            }
            self.held -= run;
        }
    }

    /// Reads or writes a tile.
    pub(crate) fn touch(&mut self, tile: Tile, write: bool) {
        let size: usize = tile.1.iter().map(|(_, run)| run).sum();
        let words = &self.words[tile.0];
        let mut runs = tile.1.iter();
        let there = runs.all(|(start, run)| words[*start..start + run].iter().all(|w| w.0 > 0));
        if !there && !write {
            self.fetched += size as u64;
        }
        self.now += 1;
        let old = self.used.get(&tile).copied();
        if let Some(old) = old {
            self.order.remove(&old);
            self.used.insert(tile.clone(), self.now);
            self.order.insert(self.now, tile.clone());
        } else if size > self.room {
            self.written += if write { size as u64 } else { 0 };
            return;
        } else if !there || write {
            while self.held + size > self.room {
                let Some((_, last)) = self.order.first_key_value() else {
                    break;
                };
                let last = last.clone();
                self.drop(&last);
            }
            for (start, run) in &tile.1 {
                for (count, _) in &mut self.words[tile.0][*start..start + run] {
                    *count += 1;
                }
            }
            self.held += size;
            self.used.insert(tile.clone(), self.now);
            self.order.insert(self.now, tile.clone());
        }
        if write {
            for (start, run) in &tile.1 {
                for (_, dirty) in &mut self.words[tile.0][*start..start + run] {
                    *dirty = true;
                }
            }
        }
    }

    /// Nobody reads a buffer again.
    pub(crate) fn forget(&mut self, buffer: usize) {
        self.words[buffer]
            .iter_mut()
            .for_each(|word| word.1 = false);
        let own = self.used.keys().filter(|tile| tile.0 == buffer);
        for tile in own.cloned().collect::<Vec<Tile>>() {
            self.drop(&tile);
        }
    }

    /// Writes back all that is left.
    pub(crate) fn finish(&mut self) {
        let words = self.words.iter_mut().flatten();
        let left = words.map(|word| u64::from(std::mem::take(&mut word.1)));
        self.written += left.sum::<u64>();
    }
}

/// No word.
const NONE: u32 = u32::MAX;

/// Words of far memory, the last used in front.
pub(crate) struct Lru {
    /// Words that it holds at most, and that it holds.
    room: usize,
    held: usize,
    first: u32,
    last: u32,
    /// The word used after each one and before it; of a word that is not held, itself.
    after: Vec<u32>,
    before: Vec<u32>,
    /// Whether a word is held and differs from far memory.
    dirty: Vec<bool>,
    /// Words fetched and written back.
    pub(crate) fetched: u64,
    pub(crate) written: u64,
}

impl Lru {
    /// An empty one for so many words, over so many words of far memory.
    ///
    /// # Panics
    /// With 2^32 - 1 words of far memory or more.
    pub(crate) fn new(room: usize, words: usize) -> Self {
        let count = u32::try_from(words).ok().filter(|count| *count < NONE);
        let own: Vec<u32> = (0..count.expect("fewer than 2^32 - 1 words")).collect();
        Self {
            room,
            held: 0,
            first: NONE,
            last: NONE,
            after: own.clone(),
            before: own,
            dirty: vec![false; words],
            fetched: 0,
            written: 0,
        }
    }

    fn holds(&self, word: u32) -> bool {
        self.after[word as usize] != word
    }

    fn unlink(&mut self, word: u32) {
        let at = word as usize;
        let (after, before) = (self.after[at], self.before[at]);
        match after {
            NONE => self.first = before,
            after => self.before[after as usize] = before,
        }
        match before {
            NONE => self.last = after,
            before => self.after[before as usize] = after,
        }
        (self.after[at], self.before[at]) = (word, word);
        self.held -= 1;
    }

    fn front(&mut self, word: u32) {
        let at = word as usize;
        (self.after[at], self.before[at]) = (NONE, self.first);
        match self.first {
            NONE => self.last = word,
            first => self.after[first as usize] = word,
        }
        self.first = word;
        self.held += 1;
    }

    fn clean(&mut self, word: u32) {
        self.written += u64::from(std::mem::take(&mut self.dirty[word as usize]));
    }

    /// Reads or writes a word.
    pub(crate) fn touch(&mut self, word: usize, write: bool) {
        // The number of words fits.
        let number = word as u32;
        if self.holds(number) {
            self.unlink(number);
        } else {
            self.fetched += u64::from(!write);
        }
        if self.room == 0 {
            self.written += u64::from(write);
            return;
        }
        if self.held == self.room {
            let last = self.last;
            self.unlink(last);
            self.clean(last);
        }
        self.front(number);
        self.dirty[word] |= write;
    }

    /// Nobody reads these words again.
    pub(crate) fn forget(&mut self, words: std::ops::Range<usize>) {
        for word in words {
            self.dirty[word] = false;
            if self.holds(word as u32) {
                self.unlink(word as u32);
            }
        }
    }

    /// Writes back all that is left.
    pub(crate) fn finish(&mut self) {
        for word in 0..self.dirty.len() {
            self.clean(word as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Lru, Tiles};

    /// What a list of held words, the last used in front, gives for the same.
    fn by_list(room: usize, touches: &[(usize, bool)]) -> (u64, u64) {
        let mut list: Vec<(usize, bool)> = Vec::new();
        let (mut fetched, mut written) = (0, 0);
        for (word, write) in touches {
            let held = list.iter().position(|(own, _)| own == word);
            let dirty = match held {
                Some(at) => list.remove(at).1,
                None => {
                    fetched += u64::from(!write);
                    false
                }
            };
            if list.len() == room {
                written += u64::from(list.pop().is_some_and(|(_, dirty)| dirty));
            }
            list.insert(0, (*word, dirty || *write));
        }
        written += list.iter().filter(|(_, dirty)| *dirty).count() as u64;
        (fetched, written)
    }

    #[test]
    fn is_a_list() {
        let mut random = tir_data::Random::new(7);
        for room in [1, 2, 3, 5, 8, 13] {
            let touches: Vec<(usize, bool)> = (0..500)
                .map(|_| {
                    let drawn = random.next_u64();
                    ((drawn >> 33) as usize % 10, drawn & 1 == 0)
                })
                .collect();
            let mut lru = Lru::new(room, 10);
            touches
                .iter()
                .for_each(|(word, write)| lru.touch(*word, *write));
            lru.finish();
            assert_eq!((lru.fetched, lru.written), by_list(room, &touches));
        }
    }

    #[test]
    fn tiles_of_a_word_are_words() {
        let mut random = tir_data::Random::new(8);
        for room in [1, 3, 6] {
            let (mut lru, mut tiles) = (Lru::new(room, 10), Tiles::new(room, [10].into_iter()));
            for _ in 0..500 {
                let drawn = random.next_u64();
                let (word, write) = ((drawn >> 33) as usize % 10, drawn & 1 == 0);
                lru.touch(word, write);
                tiles.touch((0, vec![(word, 1)]), write);
            }
            lru.finish();
            tiles.finish();
            assert_eq!((lru.fetched, lru.written), (tiles.fetched, tiles.written));
        }
    }

    #[test]
    fn tiles_are_fetched_as_wholes() {
        let mut tiles = Tiles::new(8, [12, 4].into_iter());
        tiles.touch((0, vec![(0, 4)]), false);
        tiles.touch((0, vec![(4, 4)]), false);
        // Two tiles hold it.
        tiles.touch((0, vec![(2, 4)]), false);
        assert_eq!(tiles.fetched, 8);
        // The first goes, then one that is held in part comes as a whole.
        tiles.touch((1, vec![(0, 4)]), true);
        tiles.touch((0, vec![(2, 4)]), false);
        assert_eq!((tiles.fetched, tiles.written), (12, 0));
        tiles.touch((0, vec![(8, 4)]), false);
        tiles.touch((0, vec![(0, 4)]), false);
        tiles.finish();
        assert_eq!((tiles.fetched, tiles.written), (20, 4));
    }

    #[test]
    fn what_nobody_reads_is_not_written() {
        let mut lru = Lru::new(4, 8);
        (0..4).for_each(|word| lru.touch(word, true));
        lru.forget(0..4);
        (4..8).for_each(|word| lru.touch(word, false));
        lru.finish();
        assert_eq!((lru.fetched, lru.written), (4, 0));
    }
}
