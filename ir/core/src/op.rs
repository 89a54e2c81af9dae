//! What the framework knows of an op: its table, and the trait that records implement.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::RwLock;

use smallvec::SmallVec;

use crate::attrs::Attr;
use crate::build::OpState;
use crate::diag::Failure;
use crate::id::{OpId, Value};
use crate::ir::Ir;
use crate::name::Name;
use crate::types::Type;

/// Facts about an op that need no code, as a set of bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Traits(u32);

macro_rules! traits {
    ($($(#[$doc:meta])* $name:ident = $bit:literal;)*) => {
        #[allow(non_upper_case_globals)]
        impl Traits {
            $($(#[$doc])* pub const $name: Traits = Traits(1 << $bit);)*
            const NAMES: &'static [(&'static str, Traits)] = &[$((stringify!($name), Traits::$name)),*];
        }
    };
}
traits! {
    /// No effects: may be erased if unused, merged with an equal one, moved.
    Pure = 0;
    /// Operands may be swapped (binary ops) or reordered (all operands alike).
    Commutative = 1;
    /// All operands and results have one type; the result type is inferred from it.
    SameType = 2;
    /// Computes each element of the result from the same elements of the operands.
    Elementwise = 3;
    /// Ends its block.
    Terminator = 4;
    /// Its regions cannot use values from outside, and it is an [`Ir`] of its own.
    IsolatedFromAbove = 5;
    /// Its region is a table of the symbols defined directly in it; symbols stand in no other op.
    SymbolTable = 6;
    /// Defines a symbol, named by its attribute `sym_name`.
    Symbol = 7;
    /// A constant: no operands, one result, the attribute `value`.
    ConstantLike = 8;
    /// Its regions have one block each.
    SingleBlock = 9;
    /// The block of its region needs no terminator.
    NoTerminator = 10;
    /// It has the effects of the ops in its regions and no others.
    RecursiveEffects = 11;
    /// `f(f(x)) = x`.
    Involution = 12;
    /// `f(f(x)) = f(x)`; of two operands, `f(x, x) = x`.
    Idempotent = 13;
    /// Its region may use values before their definition (no dominance).
    GraphRegion = 14;
    /// A terminator that hands its operands to the op around it.
    ReturnLike = 15;
    /// May stop the program for some operands (a division by zero), so it must not run where it
    /// would not have run.
    MayStop = 17;
    /// Its attributes are those of its fields: another one without a dialect prefix is an error.
    StrictAttributes = 18;
    /// The shapes of its operands broadcast to that of its result (MLIR's
    /// `ResultsBroadcastableShape`).
    Broadcasts = 19;
    /// `f(f(x, y), z) = f(x, f(y, z))`, bit by bit: sums of floats are not.
    Associative = 20;
    /// Of one operand: where `x ≤ y`, `f(x) ≤ f(y)`, as it is computed; NaN of NaN.
    Monotone = 21;
    /// Of all operands together, as real numbers: `f(a · x, a · y) = a · f(x, y)` and
    /// `f(x + u, y + v) = f(x, y) + f(u, v)`.
    Linear = 22;
    /// What is in it describes something that is there, such as a machine, and is not run: passes that run
    /// on any op leave it as it is.
    Description = 23;
    /// [`MayStop`](Traits::MayStop) where an operand is of integers or indices: divisions of tensors, and slices whose offsets
    /// are operands.
    IntegersMayStop = 24;
    /// What it does to its memrefs goes on behind it, until something waits for that: who waits may then read and write them,
    /// though it is not given them.
    Asynchronous = 25;
}

impl Traits {
    /// No traits.
    pub const NONE: Traits = Traits(0);
    /// Both sets.
    #[must_use]
    pub const fn with(self, other: Traits) -> Traits {
        Traits(self.0 | other.0)
    }
    /// Whether all of `other` is in it.
    pub const fn has(self, other: Traits) -> bool {
        self.0 & other.0 == other.0
    }
    /// The names of those in it.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let all = Self::NAMES.iter();
        all.filter(move |(_, bit)| self.has(*bit)).map(|(n, _)| *n)
    }
    /// The names of all traits.
    pub fn all() -> impl Iterator<Item = &'static str> {
        Self::NAMES.iter().map(|(name, _)| *name)
    }
    /// The trait of this name.
    pub fn named(name: &str) -> Option<Traits> {
        let all = Self::NAMES.iter();
        all.clone().find(|(n, _)| *n == name).map(|(_, bit)| *bit)
    }
}
impl fmt::Debug for Traits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

/// What a field of an op is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// One operand.
    Operand,
    /// One operand or none.
    OptionalOperand,
    /// Any number of operands.
    Operands,
    /// One result, whose type is said.
    Result,
    /// Any number of results.
    Results,
    /// An attribute; the text names what is expected.
    Attribute(&'static str),
    /// An attribute that may be absent.
    OptionalAttribute(&'static str),
    /// A region.
    Region,
    /// Any number of regions, in the last field.
    Regions,
    /// A successor block and its operands.
    Successor,
    /// Any number of successors.
    Successors,
}

impl Role {
    /// Whether it is a group of operands (successors bring one each).
    pub fn is_operands(self) -> bool {
        matches!(
            self,
            Self::Operand | Self::OptionalOperand | Self::Operands | Self::Successor
        )
    }
    /// Whether it is a group of operands whose number varies.
    pub fn is_variadic(self) -> bool {
        matches!(
            self,
            Self::OptionalOperand | Self::Operands | Self::Successor
        )
    }
    /// Whether it is an attribute.
    pub fn is_attribute(self) -> bool {
        matches!(self, Self::Attribute(_) | Self::OptionalAttribute(_))
    }
}

/// A condition on the type of an operand or result, or on an attribute's value.
pub struct Constraint {
    /// What is expected: `a float tensor`.
    pub what: &'static str,
    test: Test,
}

enum Test {
    Holds(fn(Type) -> bool),
    Is(fn() -> Type),
}

impl Constraint {
    /// Expects `what`: a type for which `holds` is true.
    pub const fn new(what: &'static str, holds: fn(Type) -> bool) -> Self {
        let test = Test::Holds(holds);
        Self { what, test }
    }
    /// Expects one type. In text it need not be written, even where a value is used before the
    /// operation that defines it.
    pub const fn one(what: &'static str, ty: fn() -> Type) -> Self {
        let test = Test::Is(ty);
        Self { what, test }
    }
    /// Whether a type fulfils it.
    pub fn holds(&self, ty: Type) -> bool {
        match self.test {
            Test::Holds(holds) => holds(ty),
            Test::Is(one) => ty == one(),
        }
    }
    /// The type that alone fulfils it, if there is one.
    pub fn only(&self) -> Option<Type> {
        match self.test {
            Test::Holds(_) => None,
            Test::Is(one) => Some(one()),
        }
    }
}

/// The words of an enumeration attribute.
pub struct Keywords {
    /// All words.
    pub all: &'static [&'static str],
    /// The word of an attribute.
    pub print: fn(Attr) -> Option<&'static str>,
    /// The attribute of a word.
    pub parse: fn(&str) -> Option<Attr>,
}

/// A field of an op as the macro lists it.
pub struct FieldSpec {
    /// Its name.
    pub name: &'static str,
    /// Its documentation.
    pub doc: &'static str,
    /// What it is.
    pub role: Role,
    /// The words that stand for its values in text, where the attribute is an enumeration.
    pub keywords: Option<&'static Keywords>,
    /// A condition on its type.
    pub constraint: Option<&'static Constraint>,
    /// The default of an attribute, elided when printed.
    pub default: Option<fn() -> Attr>,
}

/// The static table of an op that is declared as a record.
pub struct OpSpec {
    /// `dialect.op`.
    pub name: &'static str,
    /// Its reference page.
    pub doc: &'static str,
    /// Its traits.
    pub traits: Traits,
    /// Its fields in order.
    pub fields: &'static [FieldSpec],
    /// Names of its inferred results.
    pub results: &'static [&'static str],
    /// Names of the ops that it may stand in; any if there is none.
    pub parents: &'static [fn() -> Name],
    /// Names of the ops that may end a block of its regions; any if there is none.
    pub terminators: &'static [fn() -> Name],
    /// Its declared syntax.
    pub asm: Option<&'static str>,
    /// Makes its hooks.
    pub hooks: &'static [fn() -> Hook],
    /// Whether every declared attribute reads as the Rust type of its field.
    pub check: CheckFn,
}

/// What a field of a run-time table is.
#[derive(Clone)]
pub struct FieldInfo {
    /// Its name.
    pub name: Name,
    /// Its documentation.
    pub doc: String,
    /// What it is.
    pub role: Role,
    /// The words that stand for its values in text, where the attribute is an enumeration.
    pub keywords: Option<&'static Keywords>,
    /// A condition on its type.
    pub constraint: Option<&'static Constraint>,
    /// The default of an attribute, elided when printed.
    pub default: Option<Attr>,
}

/// The result of folding: one entry for each result of the op.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Folded {
    /// It is this constant.
    Attr(Attr),
    /// It is this value, which exists already.
    Value(Value),
}
impl From<Attr> for Folded {
    fn from(attr: Attr) -> Self {
        Self::Attr(attr)
    }
}
impl From<Value> for Folded {
    fn from(value: Value) -> Self {
        Self::Value(value)
    }
}

/// What an op with several results folds to, one entry for each; made by `into()`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Folds(
    /// One entry for each result.
    pub SmallVec<[Folded; 1]>,
);
impl<T: Into<Folded>> From<T> for Folds {
    fn from(one: T) -> Self {
        Self(smallvec::smallvec![one.into()])
    }
}
impl From<Vec<Folded>> for Folds {
    fn from(all: Vec<Folded>) -> Self {
        Self(all.into())
    }
}

/// What an op does to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Makes the buffer that is its result.
    Allocate,
    /// Ends the buffer.
    Free,
    /// Brings what is there nearer: no value depends on it, but time does, so it is not erased as unused.
    Fetch,
}

/// One effect: an access to the memory behind a value (an operand or result), or to anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effect {
    /// What is done.
    pub access: Access,
    /// The memref (or token, queue …) it is done to; `None`: some memory, unknown which.
    pub on: Option<Value>,
}

/// Effects of an op; memory spaces follow from the types of the values.
pub type Effects = SmallVec<[Effect; 4]>;

type Dyn<F> = &'static F;

/// Checks that declared attributes read as the Rust types of their fields.
pub type CheckFn = fn(&Ir, OpId) -> Result<(), Failure>;

/// Implementations of interfaces, each a `&'static dyn Trait`, by the id of `dyn Trait`.
type Interfaces = HashMap<TypeId, Box<dyn Any + Send + Sync>, rustc_hash::FxBuildHasher>;

/// A hook of an op, as the macro or a dialect read at run time hands it over.
pub enum Hook {
    /// Checks what structure, constraints and traits do not say.
    Verify(Dyn<VerifyFn>),
    /// Checks references to symbols.
    VerifySymbols(Dyn<VerifySymbolsFn>),
    /// Computes results without making ops.
    Fold(Dyn<FoldFn>),
    /// Computes result types.
    Infer(Dyn<InferFn>),
    /// Lists effects.
    Effects(Dyn<EffectsFn>),
    /// An interface: a `&'static dyn Trait` in a box, under the id of `dyn Trait`.
    Interface(TypeId, Box<dyn Any + Send + Sync>),
}

/// See [`Hook::Verify`].
pub type VerifyFn = dyn Fn(&Ir, OpId) -> Result<(), Failure> + Send + Sync;
/// See [`Hook::VerifySymbols`].
pub type VerifySymbolsFn =
    dyn Fn(&Ir, OpId, &crate::symbol::Scopes<'_>) -> Result<(), Failure> + Send + Sync;
/// See [`Hook::Fold`].
pub type FoldFn = dyn Fn(&Ir, OpId) -> Option<Folds> + Send + Sync;
/// See [`Hook::Infer`].
pub type InferFn = dyn Fn(&Ir, OpId) -> Result<Vec<Type>, Failure> + Send + Sync;
/// See [`Hook::Effects`].
pub type EffectsFn = dyn Fn(&Ir, OpId) -> Effects + Send + Sync;

impl Hook {
    /// The hook that carries an implementation of an interface.
    pub fn interface<I: ?Sized + Send + Sync + 'static>(object: &'static I) -> Hook {
        Hook::Interface(TypeId::of::<I>(), Box::new(object))
    }
}

/// What the framework knows of an op. Made from an [`OpSpec`], or at run time.
pub struct OpInfo {
    /// `dialect.op`.
    pub name: Name,
    /// Its reference page.
    pub doc: String,
    /// Its traits.
    pub traits: Traits,
    /// Its fields in order.
    pub fields: Vec<FieldInfo>,
    /// Names of its inferred results.
    pub results: Vec<Name>,
    /// The ops that it may stand in; any if there is none (MLIR's `HasParent`).
    pub parents: Vec<Name>,
    /// The ops that may end a block of its regions, beside branches and what stops the program;
    /// any if there is none.
    pub terminators: Vec<Name>,
    /// Its declared syntax.
    pub asm: Option<String>,
    pub(crate) check: Option<CheckFn>,
    pub(crate) verify: Option<Dyn<VerifyFn>>,
    pub(crate) verify_symbols: Option<Dyn<VerifySymbolsFn>>,
    pub(crate) fold: Option<Dyn<FoldFn>>,
    pub(crate) infer: Option<Dyn<InferFn>>,
    pub(crate) effects: Option<Dyn<EffectsFn>>,
    interfaces: RwLock<Interfaces>,
}

impl OpInfo {
    /// A table with a name and nothing else.
    pub fn new(name: Name) -> Self {
        Self {
            name,
            doc: String::new(),
            traits: Traits::NONE,
            fields: Vec::new(),
            results: Vec::new(),
            parents: Vec::new(),
            terminators: Vec::new(),
            asm: None,
            check: None,
            verify: None,
            verify_symbols: None,
            fold: None,
            infer: None,
            effects: None,
            interfaces: RwLock::default(),
        }
    }

    /// The table of an op that is declared as a record.
    pub fn from_spec(spec: &OpSpec) -> Self {
        let mut info = Self::new(Name::new(spec.name));
        info.doc = spec.doc.to_string();
        info.traits = spec.traits;
        info.fields = spec.fields.iter().map(FieldInfo::from).collect();
        info.results = spec.results.iter().map(|n| Name::new(n)).collect();
        info.parents = spec.parents.iter().map(|name| name()).collect();
        info.terminators = spec.terminators.iter().map(|name| name()).collect();
        info.asm = spec.asm.map(str::to_string);
        info.check = Some(spec.check);
        for hook in spec.hooks {
            info.add(hook());
        }
        info
    }

    /// Adds a hook; a second one of a kind replaces the first.
    pub fn add(&mut self, hook: Hook) {
        match hook {
            Hook::Verify(f) => self.verify = Some(f),
            Hook::VerifySymbols(f) => self.verify_symbols = Some(f),
            Hook::Fold(f) => self.fold = Some(f),
            Hook::Infer(f) => self.infer = Some(f),
            Hook::Effects(f) => self.effects = Some(f),
            Hook::Interface(id, object) => {
                let table = self.interfaces.get_mut();
                table.unwrap_or_else(|p| p.into_inner()).insert(id, object);
            }
        }
    }

    /// The implementation of an interface: `info.interface::<dyn Tiling>()`.
    pub fn interface<I: ?Sized + 'static>(&self) -> Option<&'static I> {
        let table = self.interfaces.read().unwrap_or_else(|p| p.into_inner());
        let object = table.get(&TypeId::of::<I>())?;
        object.downcast_ref::<&'static I>().copied()
    }

    /// Attaches an interface from any crate to a loaded op; the first attachment stays.
    pub fn attach<I: ?Sized + Send + Sync + 'static>(&self, object: &'static I) {
        let mut table = self.interfaces.write().unwrap_or_else(|p| p.into_inner());
        table
            .entry(TypeId::of::<I>())
            .or_insert_with(|| Box::new(object));
    }

    /// Whether it may stop the program, given the types of its operands ([`Traits::MayStop`]).
    pub fn may_stop(&self, operands: impl IntoIterator<Item = Type>) -> bool {
        let whole = |ty: Type| ty.elem().is_int() || ty.elem().is_index();
        self.has(Traits::MayStop)
            || self.has(Traits::IntegersMayStop) && operands.into_iter().any(whole)
    }
    /// Whether it has all of these traits.
    pub fn has(&self, traits: Traits) -> bool {
        self.traits.has(traits)
    }
    /// Whether it is known how to fold it.
    pub fn can_fold(&self) -> bool {
        self.fold.is_some()
    }
    /// Whether it infers its result types: by a hook, or since all types are one.
    pub fn infers(&self) -> bool {
        self.infer.is_some() || self.has(Traits::SameType) && !self.results.is_empty()
    }
    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<&FieldInfo> {
        self.fields.iter().find(|f| f.name == name)
    }
    /// Whether the sizes of its operand groups stand in an attribute, since more than one varies.
    pub fn needs_segments(&self) -> bool {
        self.fields.iter().filter(|f| f.role.is_variadic()).count() > 1
    }
    /// Whether the attribute of this name is declared by the op.
    pub fn declares(&self, name: Name) -> bool {
        name == SEGMENTS && self.needs_segments()
            || self
                .fields
                .iter()
                .any(|f| f.name == name && f.role.is_attribute())
    }
    /// The number of results, if it does not vary.
    pub fn result_count(&self) -> Option<usize> {
        if self.fields.iter().any(|f| f.role == Role::Results) {
            return None;
        }
        let said = self.fields.iter().filter(|f| f.role == Role::Result);
        Some(said.count() + self.results.len())
    }
}

/// The attribute that holds the sizes of operand groups when more than one varies.
pub const SEGMENTS: &str = "operandSegmentSizes";

/// The attribute that holds the properties `<{…}>` of an op that is not loaded, as a dictionary;
/// those of a loaded op are attributes beside the others.
pub const PROPERTIES: &str = "<properties>";

impl From<&FieldSpec> for FieldInfo {
    fn from(spec: &FieldSpec) -> Self {
        Self {
            name: Name::new(spec.name),
            doc: spec.doc.to_string(),
            role: spec.role,
            keywords: spec.keywords,
            constraint: spec.constraint,
            default: spec.default.map(|make| make()),
        }
    }
}

/// A record that stands for an op. Implemented by `#[derive(Op)]`.
pub trait Op: Sized + 'static {
    /// What inserting one gives: the id without results, the value of one, an array of several,
    /// a `Vec` where their number varies.
    type Out;
    /// The static table.
    const SPEC: &'static OpSpec;
    /// Its name, interned.
    fn name() -> Name;
    /// The state to create the op from; result types that are not said are still missing.
    fn state(self) -> OpState;
    /// Reads the record of an op of this name; `None` if its structure is not that of the table.
    fn read(ir: &Ir, op: OpId) -> Option<Self>;
    /// What the inserted op gives.
    fn out(ir: &Ir, op: OpId) -> Self::Out;
}
