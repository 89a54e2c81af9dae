//! One process-wide table of leaked cells, with a cache per thread in front.
//!
//! A handle to a cell is `Copy`, compares by identity and is read without a context. The hash of
//! a cell is the structural hash of its content under a fixed seed, so nothing that is computed
//! from handles depends on addresses. Cells and what they hold lie in arenas of the thread that
//! met them first, which are never freed: about 150 bytes for a type.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::sync::RwLock;

use hashbrown::HashTable;
use rustc_hash::FxHasher;
use typed_arena::Arena;

/// The structural hash of a value: the same in every run and process.
pub(crate) fn stable_hash<T: Hash + ?Sized>(value: &T) -> u64 {
    let mut hasher = FxHasher::default();
    value.hash(&mut hasher);
    hasher.finish()
}

/// What an interned object can do without its Rust type.
pub(crate) trait Object: Any + Send + Sync {
    fn as_any(&self) -> &dyn Any;
}

/// One interned object: a pointer of one word leads to it, whatever its Rust type.
pub(crate) struct Cell<O: ?Sized + 'static> {
    pub(crate) hash: u64,
    /// The Rust type of the object, beside it: to say that it is another one takes no call.
    of: TypeId,
    pub(crate) object: &'static O,
}

impl<O: ?Sized + Object> Cell<O> {
    /// The object, if it is of this type.
    #[inline]
    pub(crate) fn get<T: 'static>(&'static self) -> Option<&'static T> {
        if self.of != TypeId::of::<T>() {
            return None;
        }
        self.object.as_any().downcast_ref()
    }
}

/// An arena that lives as long as the process.
fn endless<T>() -> &'static Arena<T> {
    Box::leak(Box::new(Arena::new()))
}

/// The arenas of a thread, one for each Rust type, which hold the interned data itself.
#[derive(Default)]
pub(crate) struct Store(RefCell<rustc_hash::FxHashMap<TypeId, &'static dyn Any>>);

impl Store {
    /// Puts a value into the arena of its type.
    pub(crate) fn keep<T: 'static>(&self, value: T) -> &'static T {
        let mut arenas = self.0.borrow_mut();
        let arena = arenas
            .entry(TypeId::of::<T>())
            .or_insert_with(|| endless::<T>())
            .downcast_ref::<Arena<T>>();
        match arena {
            Some(arena) => arena.alloc(value),
            // An entry is of the type of its key.
            None => endless().alloc(value),
        }
    }
}

const SHARDS: usize = 16;

/// The shared half of an interner: shards of `(hash, cell)` behind locks.
pub(crate) struct Table<O: ?Sized + 'static> {
    shards: [RwLock<HashTable<&'static Cell<O>>>; SHARDS],
}

impl<O: ?Sized + Object> Table<O> {
    pub(crate) const fn new() -> Self {
        Self {
            shards: [const { RwLock::new(HashTable::new()) }; SHARDS],
        }
    }
}

/// The per-thread half: a cache of the cells this thread has met, and the arena it allocates in.
pub(crate) struct Local<O: ?Sized + 'static> {
    cache: RefCell<HashTable<&'static Cell<O>>>,
    cells: &'static Arena<Cell<O>>,
    objects: Store,
}

impl<O: ?Sized + Object> Local<O> {
    pub(crate) fn new() -> Self {
        Self {
            cache: RefCell::new(HashTable::new()),
            cells: endless(),
            objects: Store::default(),
        }
    }

    /// A cell this thread has met before.
    pub(crate) fn find_by(
        &self,
        hash: u64,
        same: impl Fn(&Cell<O>) -> bool,
    ) -> Option<&'static Cell<O>> {
        let cache = self.cache.borrow();
        cache
            .find(hash, |cell| cell.hash == hash && same(cell))
            .copied()
    }

    /// The cell that holds `value`, put into the store by `keep` if there is none yet.
    pub(crate) fn intern<T: Eq + 'static>(
        &self,
        table: &Table<O>,
        hash: u64,
        value: T,
        keep: impl FnOnce(&Store, T) -> &'static O,
    ) -> &'static Cell<O> {
        let same = |cell: &&'static Cell<O>| {
            cell.hash == hash && cell.object.as_any().downcast_ref::<T>() == Some(&value)
        };
        if let Some(cell) = self.cache.borrow().find(hash, same) {
            return cell;
        }
        let shard = &table.shards[(hash >> 60) as usize % SHARDS];
        let known = shard
            .read()
            .unwrap_or_else(|poison| poison.into_inner())
            .find(hash, same)
            .copied();
        let cell = match known {
            Some(cell) => cell,
            None => {
                let mut shard = shard.write().unwrap_or_else(|poison| poison.into_inner());
                let known = shard.find(hash, same).copied();
                known.unwrap_or_else(|| {
                    let object = keep(&self.objects, value);
                    let cell: &'static Cell<O> = self.cells.alloc(Cell {
                        hash,
                        of: TypeId::of::<T>(),
                        object,
                    });
                    shard.insert_unique(hash, cell, |cell| cell.hash);
                    cell
                })
            }
        };
        self.cache
            .borrow_mut()
            .insert_unique(hash, cell, |cell| cell.hash);
        cell
    }
}
