//! Handles to interned data of any kind: what types and attributes have in common.

use std::any::Any;
use std::fmt::{self, Debug, Display};
use std::hash::{Hash, Hasher};
use std::sync::OnceLock;

use crate::intern::{Cell, Local, Object, Store, Table, stable_hash};
use crate::name::Name;
use crate::symbol::symbols_in;

/// Interned data that says its kind.
pub(crate) trait Kinded: Object + Debug + Display {
    fn kind(&self) -> &'static str;
    fn storage(&self) -> Option<Handle>;
    fn symbols(&self) -> &[Name];
}

/// Data under the name of its kind.
struct Entry<T> {
    kind: &'static str,
    storage: Option<Handle>,
    symbols: OnceLock<Box<[Name]>>,
    data: T,
}
impl<T: Any + Send + Sync> Object for Entry<T> {
    fn as_any(&self) -> &dyn Any {
        &self.data
    }
}
impl<T: Debug> Debug for Entry<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.data.fmt(f)
    }
}
impl<T: Display> Display for Entry<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.data.fmt(f)
    }
}
impl<T: Any + Debug + Display + Send + Sync> Kinded for Entry<T> {
    fn kind(&self) -> &'static str {
        self.kind
    }
    fn storage(&self) -> Option<Handle> {
        self.storage
    }
    fn symbols(&self) -> &[Name] {
        let read = || symbols_in(&self.data.to_string()).into();
        self.symbols.get_or_init(read)
    }
}

/// Points to data in a table: `Copy`, compared by identity, hashed by structure.
#[derive(Clone, Copy)]
pub(crate) struct Handle(&'static Cell<dyn Kinded>);

impl Handle {
    /// The handle to this data in a table; a kind has one Rust type, and the other way round.
    pub(crate) fn new<T>(
        table: &Table<dyn Kinded>,
        local: &Local<dyn Kinded>,
        kind: &'static str,
        storage: Option<Handle>,
        data: T,
    ) -> Self
    where
        T: Any + Eq + Hash + Debug + Display + Send + Sync,
    {
        let hash = stable_hash(&(kind, &data));
        let entry = |store: &Store, data| -> &'static dyn Kinded {
            store.keep(Entry {
                kind,
                storage,
                symbols: OnceLock::new(),
                data,
            })
        };
        Self(local.intern(table, hash, data, entry))
    }
    /// The data, if it is of this type.
    #[inline]
    pub(crate) fn get<T: Any>(self) -> Option<&'static T> {
        self.0.get()
    }
    /// The name of its kind.
    pub(crate) fn kind(self) -> &'static str {
        self.0.object.kind()
    }
    /// What its values are stored as, where that is something else.
    pub(crate) fn storage(self) -> Option<Handle> {
        self.0.object.storage()
    }
    /// The symbols that its text names, whatever its kind: they are looked for once.
    pub(crate) fn symbols(self) -> &'static [Name] {
        self.0.object.symbols()
    }
    /// Writes a dialect's kind as `!d.kind<…>` with this sign in front, a builtin one as it is.
    pub(crate) fn write(self, f: &mut fmt::Formatter<'_>, sign: char) -> fmt::Result {
        let kind = self.kind();
        if !kind.contains('.') {
            return Display::fmt(self.0.object, f);
        }
        write!(f, "{sign}{kind}")?;
        match self.0.object.to_string() {
            body if body.is_empty() => Ok(()),
            body => write!(f, "<{body}>"),
        }
    }
}

impl PartialEq for Handle {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}
impl Eq for Handle {}
impl Hash for Handle {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash);
    }
}
