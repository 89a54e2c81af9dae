//! Dialects: explicit lists of what each holds, and what is loaded.

use std::any::{Any, TypeId};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, OnceLock, RwLock};

use crate::attrs::{Attr, AttrData};
use crate::build::Builder;
use crate::id::Value;
use crate::name::Name;
use crate::op::{Op, OpInfo, OpSpec};
use crate::types::{Type, TypeData};

/// What a parser of a type or attribute of a dialect may ask for, besides its own text.
pub trait TextCx {
    /// The type that a text says.
    fn parse_type(&self, text: &str) -> Result<Type, String>;
    /// The attribute that a text says.
    fn parse_attr(&self, text: &str) -> Result<Attr, String>;
}

/// Reads what stands between the angle brackets (nothing, if there are none).
pub type TypeParser = fn(Option<&str>, &dyn TextCx) -> Result<Type, String>;
/// Reads what stands between the angle brackets (nothing, if there are none).
pub type AttrParser = fn(Option<&str>, &dyn TextCx) -> Result<Attr, String>;
/// Makes a constant of a type out of an attribute; `None` if the dialect has none for it.
pub type Materialize = fn(&mut Builder<'_>, Attr, Type) -> Option<Value>;

/// A type or attribute that a dialect holds.
#[derive(Clone, Copy)]
pub struct TextInfo<P> {
    /// `dialect.name`.
    pub name: &'static str,
    /// Its reference page.
    pub doc: &'static str,
    /// Reads it.
    pub parse: P,
}

/// A type with a parser: what a dialect lists.
pub trait ParseType: TypeData + Sized {
    /// Its reference page.
    const DOC: &'static str = "";
    /// Reads what stands between the angle brackets.
    fn parse(body: Option<&str>, cx: &dyn TextCx) -> Result<Self, String>;
}
/// An attribute with a parser: what a dialect lists.
pub trait ParseAttr: AttrData + Sized {
    /// Its reference page.
    const DOC: &'static str = "";
    /// Reads what stands between the angle brackets.
    fn parse(body: Option<&str>, cx: &dyn TextCx) -> Result<Self, String>;
}

/// The entry of a type in a dialect's list.
pub const fn type_info<T: ParseType>() -> TextInfo<TypeParser> {
    TextInfo {
        name: T::NAME,
        doc: T::DOC,
        parse: |body, cx| T::parse(body, cx).map(Type::new),
    }
}
/// The entry of an attribute in a dialect's list.
pub const fn attr_info<T: ParseAttr>() -> TextInfo<AttrParser> {
    TextInfo {
        name: T::NAME,
        doc: T::DOC,
        parse: |body, cx| T::parse(body, cx).map(Attr::new),
    }
}
/// The entry of an op in a dialect's list.
pub const fn op_spec<T: Op>() -> &'static OpSpec {
    T::SPEC
}

/// What other crates attach to a dialect: patterns, rules, whatever an interface asks for.
#[derive(Default)]
pub struct Attached(RwLock<Vec<(TypeId, Box<dyn Any + Send + Sync>)>>);

impl Attached {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self(RwLock::new(Vec::new()))
    }
}

/// A dialect: a name and lists of what it holds.
pub struct Dialect {
    /// Its name.
    pub name: &'static str,
    /// One sentence.
    pub doc: &'static str,
    /// Its ops.
    pub ops: &'static [&'static OpSpec],
    /// Its types.
    pub types: &'static [TextInfo<TypeParser>],
    /// Its attributes.
    pub attrs: &'static [TextInfo<AttrParser>],
    /// Makes its constants.
    pub constant: Option<Materialize>,
    /// Attaches interfaces, patterns and rules; called once, after its ops are known.
    pub load: Option<fn()>,
    /// What is attached to it as a whole.
    pub attached: Attached,
}

#[derive(Default)]
struct Loaded {
    dialects: BTreeMap<&'static str, &'static Dialect>,
    run_time: BTreeMap<Name, &'static OpInfo>,
}

fn loaded() -> &'static RwLock<Loaded> {
    static LOADED: OnceLock<RwLock<Loaded>> = OnceLock::new();
    LOADED.get_or_init(RwLock::default)
}

impl Dialect {
    /// Makes the dialect known to this process. Loading it again does nothing.
    pub fn load(&'static self) {
        let _loading = Loading::begin();
        {
            let mut loaded = loaded().write().unwrap_or_else(|p| p.into_inner());
            if loaded.dialects.contains_key(self.name) {
                return;
            }
            for spec in self.ops {
                let name = Name::new(spec.name);
                name.set_info(|| Box::leak(Box::new(OpInfo::from_spec(spec))));
            }
            loaded.dialects.insert(self.name, self);
        }
        if let Some(load) = self.load {
            load();
        }
    }

    /// Attaches an implementation of an interface to the dialect, beside those it has.
    pub fn attach<I: ?Sized + Send + Sync + 'static>(&self, object: &'static I) {
        let mut all = self.attached.0.write().unwrap_or_else(|p| p.into_inner());
        all.push((TypeId::of::<I>(), Box::new(object)));
    }

    /// All implementations of an interface that are attached, in the order of attachment.
    pub fn attached<I: ?Sized + 'static>(&self) -> Vec<&'static I> {
        let all = self.attached.0.read().unwrap_or_else(|p| p.into_inner());
        let wanted = all.iter().filter(|(id, _)| *id == TypeId::of::<I>());
        wanted
            .filter_map(|(_, object)| object.downcast_ref::<&'static I>().copied())
            .collect()
    }

    /// The loaded dialect of this name.
    pub fn named(name: &str) -> Option<&'static Dialect> {
        let loaded = loaded().read().unwrap_or_else(|p| p.into_inner());
        loaded.dialects.get(name).copied()
    }

    /// All loaded dialects, by name.
    pub fn all() -> Vec<&'static Dialect> {
        let loaded = loaded().read().unwrap_or_else(|p| p.into_inner());
        loaded.dialects.values().copied().collect()
    }

    /// A sentence that lists the loaded dialects, for notes under errors.
    pub fn loaded_names() -> String {
        let names: Vec<&str> = Self::all().iter().map(|dialect| dialect.name).collect();
        match names.is_empty() {
            true => "no dialect is loaded".to_string(),
            false => format!("the loaded dialects are {}", names.join(", ")),
        }
    }

    /// The parser of a type by its full name.
    pub fn type_parser(name: &str) -> Option<TypeParser> {
        let dialect = Self::named(name.split_once('.')?.0)?;
        let info = dialect.types.iter().find(|info| info.name == name)?;
        Some(info.parse)
    }
    /// The parser of an attribute by its full name.
    pub fn attr_parser(name: &str) -> Option<AttrParser> {
        let dialect = Self::named(name.split_once('.')?.0)?;
        let info = dialect.attrs.iter().find(|info| info.name == name)?;
        Some(info.parse)
    }
}

/// Held while a dialect is loaded, so that no other thread takes it as loaded before its `load`
/// function has ended. A `load` function may load other dialects: one thread holds it many times.
struct Loading {
    _lock: Option<MutexGuard<'static, ()>>,
}

thread_local! {
    static LOADING_DEPTH: Cell<usize> = const { Cell::new(0) };
}

impl Loading {
    fn begin() -> Self {
        static LOCK: Mutex<()> = Mutex::new(());
        let outermost = LOADING_DEPTH.get() == 0;
        let _lock = outermost.then(|| LOCK.lock().unwrap_or_else(|p| p.into_inner()));
        LOADING_DEPTH.set(LOADING_DEPTH.get() + 1);
        Self { _lock }
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        LOADING_DEPTH.set(LOADING_DEPTH.get() - 1);
    }
}

/// The tables of ops by the index of their name: piece `k` holds the indices of `k` bits. A
/// look-up takes no lock.
static OPS: [OnceLock<Box<[OnceLock<&'static OpInfo>]>>; 33] = [const { OnceLock::new() }; 33];

/// The piece of an index and its place in there.
fn place(index: u32) -> (usize, usize) {
    let bits = (u32::BITS - index.leading_zeros()) as usize;
    match bits {
        0 => (0, 0),
        _ => (bits, index as usize - (1 << (bits - 1))),
    }
}

impl Name {
    /// The op registered under this name.
    #[inline]
    pub fn info(self) -> Option<&'static OpInfo> {
        let (piece, at) = place(self.index());
        OPS[piece].get()?.get(at)?.get().copied()
    }

    /// Registers what is known of the op of this name; the first registration stays.
    pub(crate) fn set_info(self, info: impl FnOnce() -> &'static OpInfo) -> &'static OpInfo {
        let (piece, at) = place(self.index());
        let len = 1usize << piece.saturating_sub(1);
        let slots = OPS[piece].get_or_init(|| (0..len).map(|_| OnceLock::new()).collect());
        slots[at].get_or_init(info)
    }
}

/// Makes an op known whose table was made at run time; gives the table that is known from now
/// on: an earlier one of the same name stays.
pub fn register(info: OpInfo) -> &'static OpInfo {
    let name = info.name;
    let info = name.set_info(|| Box::leak(Box::new(info)));
    let mut loaded = loaded().write().unwrap_or_else(|p| p.into_inner());
    loaded.run_time.insert(name, info);
    info
}
