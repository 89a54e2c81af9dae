//! Making ops: the state an op is created from, insertion points, the builder, and the traits by
//! which the field types of a record say what they are.

use smallvec::SmallVec;

use crate::affine::AffineMap;
use crate::attrs::{ArrayAttr, Attr, DenseArray, SymbolRef, TypeAttr, UnitAttr};
use crate::diag::Failure;
use crate::id::{BlockId, OpId, RegionId, Value};
use crate::ir::Ir;
use crate::loc::Loc;
use crate::name::Name;
use crate::op::{Keywords, Op, OpInfo, Role, SEGMENTS};
use crate::types::Type;

/// All an op is created from.
#[derive(Clone)]
pub struct OpState {
    /// `dialect.op`.
    pub name: Name,
    /// Where it comes from.
    pub loc: Loc,
    /// Its operands.
    pub operands: SmallVec<[Value; 4]>,
    /// Its result types; for an op that infers them they may be left out.
    pub results: SmallVec<[Type; 2]>,
    /// Its attributes, in any order.
    pub attrs: SmallVec<[(Name, Attr); 2]>,
    /// Its regions, detached.
    pub regions: SmallVec<[RegionId; 1]>,
    /// Its successors.
    pub successors: SmallVec<[BlockId; 1]>,
    /// Sizes of the operand groups whose number varies, where a record says them.
    pub segments: SmallVec<[i64; 4]>,
}

impl OpState {
    /// A state with a name and nothing else.
    pub fn new(name: impl Into<Name>) -> Self {
        Self {
            name: name.into(),
            loc: Loc::UNKNOWN,
            operands: SmallVec::new(),
            results: SmallVec::new(),
            attrs: SmallVec::new(),
            regions: SmallVec::new(),
            successors: SmallVec::new(),
            segments: SmallVec::new(),
        }
    }
    /// An attribute by name.
    pub fn attr(&self, name: &str) -> Option<Attr> {
        let found = self.attrs.iter().rev().find(|(key, _)| *key == name)?;
        Some(found.1)
    }
    /// Adds an attribute.
    pub fn set_attr(&mut self, name: impl Into<Name>, value: Attr) {
        self.attrs.push((name.into(), value));
    }
}

/// A place to insert an op.
#[derive(Clone, Copy, Debug)]
pub enum At {
    /// At the end of a block.
    End(BlockId),
    /// At the start of a block.
    Start(BlockId),
    /// Before an op.
    Before(OpId),
    /// After an op.
    After(OpId),
}
impl From<BlockId> for At {
    fn from(block: BlockId) -> Self {
        At::End(block)
    }
}

/// Inserts ops at a place, with a location.
pub struct Builder<'a> {
    /// The arena.
    pub ir: &'a mut Ir,
    /// Where the next op goes. After an op was inserted at `Start` or `After`, it moves behind it.
    pub at: At,
    /// The location of the ops to come.
    pub loc: Loc,
}

impl<'a> Builder<'a> {
    /// A builder at a place; an op's location is taken over from `At::Before` and `At::After`.
    pub fn new(ir: &'a mut Ir, at: impl Into<At>) -> Self {
        let at = at.into();
        let loc = match at {
            At::Before(op) | At::After(op) => ir.loc(op),
            _ => Loc::UNKNOWN,
        };
        Self { ir, at, loc }
    }

    /// Inserts the op of a record. Panics if its result types cannot be inferred: records that
    /// come from user input are checked before.
    #[track_caller]
    pub fn add<T: Op>(&mut self, op: T) -> T::Out {
        // A record brings its table with it, whether or not its dialect was loaded.
        if T::name().info().is_none() {
            T::name().set_info(|| Box::leak(Box::new(OpInfo::from_spec(T::SPEC))));
        }
        let id = self.create(op.state());
        T::out(self.ir, id)
    }

    /// Inserts an op whose results may have to be inferred, or says why they cannot be.
    pub fn try_create(&mut self, mut state: OpState) -> Result<OpId, Failure> {
        if state.loc.is_unknown() {
            state.loc = self.loc;
        }
        let loc = state.loc;
        let name = state.name;
        let id = self
            .ir
            .create(state)
            .map_err(|e| Box::new((*e).or_at(loc).context(format_args!("'{name}': "))))?;
        self.ir.insert(id, self.at);
        if let At::Start(_) | At::After(_) = self.at {
            self.at = At::After(id);
        }
        Ok(id)
    }

    /// Inserts an op. Panics where [`try_create`](Self::try_create) fails.
    #[track_caller]
    pub fn create(&mut self, state: OpState) -> OpId {
        match self.try_create(state) {
            Ok(id) => id,
            Err(error) => panic!("internal error: {error}"),
        }
    }

    /// A detached region of one block, filled by `fill` with a builder at its end and its
    /// arguments.
    pub fn body(
        &mut self,
        args: &[Type],
        fill: impl FnOnce(&mut Builder<'_>, &[Value]),
    ) -> RegionId {
        let region = self.ir.new_region();
        let block = self.ir.new_block(region);
        let args: Vec<Value> = args.iter().map(|ty| self.ir.add_arg(block, *ty)).collect();
        let mut inner = Builder {
            ir: self.ir,
            at: At::End(block),
            loc: self.loc,
        };
        fill(&mut inner, &args);
        region
    }

    /// The type of a value.
    pub fn ty(&self, value: Value) -> Type {
        self.ir.ty(value)
    }
}

impl Ir {
    /// A builder at a place.
    pub fn at(&mut self, at: impl Into<At>) -> Builder<'_> {
        Builder::new(self, at)
    }
    /// Appends the op of a record to a block, or inserts it at another place.
    #[track_caller]
    pub fn add<T: Op>(&mut self, at: impl Into<At>, op: T) -> T::Out {
        Builder::new(self, at).add(op)
    }
}

/// The type of a field of a record: says what the field is, and how it is put and got.
pub trait Field: Sized {
    /// What it is.
    const ROLE: Role;
    /// Adds it to the state under its name.
    fn put(self, name: &'static str, state: &mut OpState);
    /// Takes it from an op.
    fn get(cx: &mut Reader<'_>) -> Option<Self>;
    /// The words that stand for its values in text.
    const KEYWORDS: Option<&'static Keywords> = None;
    /// Whether the attribute of this name, if it is one, reads as this type.
    fn check(ir: &Ir, op: OpId, name: &str) -> Result<(), Failure> {
        let _ = (ir, op, name);
        Ok(())
    }
}

/// Walks over an op's parts in the order of its fields.
pub struct Reader<'a> {
    /// The arena attributes and regions are read in.
    pub ir: &'a Ir,
    /// The op in it.
    pub op: OpId,
    name: &'static str,
    operands: SmallVec<[Value; 8]>,
    /// Sizes of all groups, fixed operands too; read for the first group that asks.
    sizes: Option<&'static DenseArray>,
    operand: usize,
    result: usize,
    region: usize,
    successor: usize,
    /// Operands and groups of them that were read.
    segment: usize,
    fixed: usize,
    groups: usize,
    fixed_results: usize,
}

impl<'a> Reader<'a> {
    /// A reader at the first field of an op declared by `T`.
    pub fn new<T: Op>(ir: &'a Ir, op: OpId) -> Self {
        let fields = T::SPEC.fields;
        let count = |f: fn(Role) -> bool| fields.iter().filter(|field| f(field.role)).count();
        Self {
            ir,
            op,
            name: "",
            operands: ir.operands(op).collect(),
            sizes: None,
            operand: 0,
            result: 0,
            region: 0,
            successor: 0,
            segment: 0,
            fixed: count(|r| r == Role::Operand),
            groups: count(Role::is_variadic),
            fixed_results: count(|r| r == Role::Result),
        }
    }
    /// The next field.
    pub fn field<F: Field>(&mut self, name: &'static str) -> Option<F> {
        self.name = name;
        F::get(self)
    }
    fn attr(&self) -> Option<Attr> {
        self.ir.attr(self.op, self.name)
    }
    fn one(&mut self) -> Option<Value> {
        let value = self.operands.get(self.operand).copied();
        self.operand += 1;
        self.segment += 1;
        value
    }
    fn many(&mut self) -> Option<&[Value]> {
        let size = if self.groups == 1 {
            self.operands.len().checked_sub(self.fixed)?
        } else {
            if self.sizes.is_none() {
                self.sizes = self.ir.attr(self.op, SEGMENTS)?.get();
            }
            usize::try_from(*self.sizes?.bits.get(self.segment)?).ok()?
        };
        let group = self.operands.get(self.operand..self.operand + size)?;
        self.operand += size;
        self.segment += 1;
        Some(group)
    }
}

impl Field for Value {
    const ROLE: Role = Role::Operand;
    fn put(self, _: &'static str, state: &mut OpState) {
        state.operands.push(self);
        state.segments.push(1);
    }
    fn get(cx: &mut Reader<'_>) -> Option<Self> {
        cx.one()
    }
}
impl Field for Option<Value> {
    const ROLE: Role = Role::OptionalOperand;
    fn put(self, _: &'static str, state: &mut OpState) {
        state.segments.push(self.is_some().into());
        state.operands.extend(self);
    }
    fn get(cx: &mut Reader<'_>) -> Option<Self> {
        match cx.many()? {
            [] => Some(None),
            [one] => Some(Some(*one)),
            _ => None,
        }
    }
}
impl Field for Vec<Value> {
    const ROLE: Role = Role::Operands;
    fn put(self, _: &'static str, state: &mut OpState) {
        state.segments.push(self.len() as i64);
        state.operands.extend(self);
    }
    fn get(cx: &mut Reader<'_>) -> Option<Self> {
        Some(cx.many()?.to_vec())
    }
}

/// A result whose type is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ret(
    /// Its type.
    pub Type,
);
impl Field for Ret {
    const ROLE: Role = Role::Result;
    fn put(self, _: &'static str, state: &mut OpState) {
        state.results.push(self.0);
    }
    fn get(cx: &mut Reader<'_>) -> Option<Self> {
        let value = cx.ir.results(cx.op).nth(cx.result)?;
        cx.result += 1;
        Some(Ret(cx.ir.ty(value)))
    }
}

/// Any number of results whose types are said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rets(
    /// Their types.
    pub Vec<Type>,
);
impl Field for Rets {
    const ROLE: Role = Role::Results;
    fn put(self, _: &'static str, state: &mut OpState) {
        state.results.extend(self.0);
    }
    fn get(cx: &mut Reader<'_>) -> Option<Self> {
        let all: Vec<Type> = cx.ir.result_types(cx.op);
        let count = all.len().checked_sub(cx.fixed_results)?;
        let types = all.get(cx.result..cx.result + count)?.to_vec();
        cx.result += count;
        Some(Rets(types))
    }
}

impl Field for RegionId {
    const ROLE: Role = Role::Region;
    fn put(self, _: &'static str, state: &mut OpState) {
        state.regions.push(self);
    }
    fn get(cx: &mut Reader<'_>) -> Option<Self> {
        let (ir, op) = cx.ir.op(cx.op).inner();
        let region = ir.regions(op).nth(cx.region)?;
        cx.region += 1;
        Some(region)
    }
}
impl Field for Vec<RegionId> {
    const ROLE: Role = Role::Regions;
    fn put(self, _: &'static str, state: &mut OpState) {
        state.regions.extend(self);
    }
    fn get(cx: &mut Reader<'_>) -> Option<Self> {
        let (ir, op) = cx.ir.op(cx.op).inner();
        let regions = ir.regions(op).skip(cx.region).collect();
        cx.region = usize::MAX;
        Some(regions)
    }
}

/// A block to go on with, and the values for its arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Successor {
    /// The block.
    pub block: BlockId,
    /// What its arguments become.
    pub args: Vec<Value>,
}
impl Field for Successor {
    const ROLE: Role = Role::Successor;
    fn put(self, _: &'static str, state: &mut OpState) {
        state.successors.push(self.block);
        state.segments.push(self.args.len() as i64);
        state.operands.extend(self.args);
    }
    fn get(cx: &mut Reader<'_>) -> Option<Self> {
        let block = cx.ir.successors(cx.op).nth(cx.successor)?;
        cx.successor += 1;
        let args = cx.many()?.to_vec();
        Some(Self { block, args })
    }
}

/// A Rust type that stands for an attribute.
pub trait AttrValue: Sized {
    /// What is expected, for messages: `an integer`.
    const WHAT: &'static str;
    /// As an attribute.
    fn to_attr(&self) -> Attr;
    /// From an attribute, if it is one of these.
    fn from_attr(attr: Attr) -> Option<Self>;
    /// The words of an enumeration.
    const KEYWORDS: Option<&'static Keywords> = None;
}
fn check_attribute<T: AttrValue>(ir: &Ir, op: OpId, name: &str) -> Result<(), Failure> {
    match ir.attr(op, name) {
        Some(attr) if T::from_attr(attr).is_none() => {
            let what = T::WHAT;
            Err(format!("expects {what} as attribute '{name}', found {attr}").into())
        }
        _ => Ok(()),
    }
}
impl<T: AttrValue> Field for T {
    const ROLE: Role = Role::Attribute(T::WHAT);
    const KEYWORDS: Option<&'static Keywords> = T::KEYWORDS;
    fn check(ir: &Ir, op: OpId, name: &str) -> Result<(), Failure> {
        check_attribute::<T>(ir, op, name)
    }
    fn put(self, name: &'static str, state: &mut OpState) {
        state.set_attr(name, self.to_attr());
    }
    fn get(cx: &mut Reader<'_>) -> Option<Self> {
        match cx.attr() {
            Some(attr) => T::from_attr(attr),
            None => {
                let info = cx.ir.info(cx.op)?;
                T::from_attr(info.field(cx.name)?.default?)
            }
        }
    }
}
impl<T: AttrValue> Field for Option<T> {
    const ROLE: Role = Role::OptionalAttribute(T::WHAT);
    const KEYWORDS: Option<&'static Keywords> = T::KEYWORDS;
    fn check(ir: &Ir, op: OpId, name: &str) -> Result<(), Failure> {
        check_attribute::<T>(ir, op, name)
    }
    fn put(self, name: &'static str, state: &mut OpState) {
        if let Some(value) = self {
            state.set_attr(name, value.to_attr());
        }
    }
    fn get(cx: &mut Reader<'_>) -> Option<Self> {
        match cx.attr() {
            Some(attr) => Some(Some(T::from_attr(attr)?)),
            None => Some(None),
        }
    }
}

macro_rules! attr_value {
    ($ty:ty, $what:literal, |$value:ident| $to:expr, |$attr:ident| $from:expr) => {
        impl AttrValue for $ty {
            const WHAT: &'static str = $what;
            fn to_attr(&self) -> Attr {
                let $value = self;
                $to
            }
            fn from_attr($attr: Attr) -> Option<Self> {
                $from
            }
        }
    };
}
attr_value!(i64, "an integer", |v| Attr::i64(*v), |a| a.as_int());
attr_value!(bool, "true or false", |v| Attr::bool(*v), |a| {
    let bit = a.type_of() == Some(Type::int(1));
    bit.then(|| a.as_int()).flatten().map(|v| v != 0)
});
attr_value!(Type, "a type", |v| Attr::ty(*v), |a| Some(
    a.get::<TypeAttr>()?.0
));
attr_value!(Attr, "an attribute", |v| *v, |a| Some(a));
attr_value!(Name, "a string", |v| Attr::str(v), |a| a
    .as_str()
    .map(Name::new));
attr_value!(String, "a string", |v| Attr::str(v), |a| a
    .as_str()
    .map(str::to_string));
attr_value!(AffineMap, "an affine map", |v| Attr::map(v.clone()), |a| {
    Some(a.get::<crate::attrs::AffineMapAttr>()?.0.clone())
});
attr_value!(Vec<i64>, "an array of integers", |v| Attr::ints(v), |a| {
    let array = a.get::<DenseArray>()?;
    (!array.elem.is_float()).then(|| array.bits.clone())
});
attr_value!(Vec<Attr>, "an array", |v| Attr::array(v.clone()), |a| Some(
    a.get::<ArrayAttr>()?.0.clone()
));
attr_value!(
    Vec<AffineMap>,
    "an array of affine maps",
    |v| Attr::array(v.iter().map(AttrValue::to_attr).collect::<Vec<_>>()),
    |a| a
        .get::<ArrayAttr>()?
        .0
        .iter()
        .map(|i| AffineMap::from_attr(*i))
        .collect()
);

/// A flag: present or absent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flag;
attr_value!(Flag, "a flag", |_v| Attr::unit(), |a| a
    .is::<UnitAttr>()
    .then_some(Flag));

/// A reference to a symbol of the nearest table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Sym(
    /// Its name.
    pub Name,
);
attr_value!(Sym, "a symbol reference", |v| Attr::symbol(v.0), |a| {
    match &a.get::<SymbolRef>()?.path[..] {
        [one] => Some(Sym(*one)),
        _ => None,
    }
});

/// What [`Op::out`] gives for one result.
pub fn one_result(ir: &Ir, op: OpId) -> Value {
    ir.result(op, 0)
}
/// What [`Op::out`] gives for a fixed number of results.
pub fn fixed_results<const N: usize>(ir: &Ir, op: OpId) -> [Value; N] {
    std::array::from_fn(|i| ir.result(op, i))
}
