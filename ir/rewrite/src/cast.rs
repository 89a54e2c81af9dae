//! Conversion of types, and the casts that hold converted and unconverted ops together meanwhile.

use tir_core::{At, Builder, FunctionType, Ir, Name, OpId, Type, TypeAttr, Value};

/// The op that stands between a value of one type and its use as another during a conversion.
pub const CAST: &str = "builtin.unrealized_conversion_cast";

type Rule = Box<dyn Fn(Type, &TypeConverter) -> Option<Type> + Send + Sync>;
type Materialization = Box<dyn Fn(&mut Builder<'_>, Value, Type) -> Option<Value> + Send + Sync>;

/// Says what types become: rules, of which the last that knows the type counts.
#[derive(Default)]
pub struct TypeConverter {
    rules: Vec<Rule>,
    materializations: Vec<Materialization>,
    strict: bool,
}

impl TypeConverter {
    /// A converter under which types that no rule knows stay as they are.
    pub fn new() -> Self {
        Self::default()
    }
    /// A converter under which types that no rule knows cannot be converted.
    pub fn strict() -> Self {
        Self {
            strict: true,
            ..Self::default()
        }
    }

    /// Adds a rule; it gives `None` for types that are not its business.
    #[must_use]
    pub fn rule(
        mut self,
        rule: impl Fn(Type, &TypeConverter) -> Option<Type> + Send + Sync + 'static,
    ) -> Self {
        self.rules.push(Box::new(rule));
        self
    }

    /// Adds a way to make a value of another type out of one: what becomes of casts that are
    /// still needed at the end. The last that gives a value counts.
    #[must_use]
    pub fn materialize(
        mut self,
        make: impl Fn(&mut Builder<'_>, Value, Type) -> Option<Value> + Send + Sync + 'static,
    ) -> Self {
        self.materializations.push(Box::new(make));
        self
    }

    /// What a type becomes; `None` if nothing converts it. Function types are converted member by
    /// member unless a rule knows better.
    pub fn convert(&self, ty: Type) -> Option<Type> {
        let known = self.rules.iter().rev().find_map(|rule| rule(ty, self));
        if known.is_some() {
            return known;
        }
        if let Some(f) = ty.get::<FunctionType>() {
            return Some(Type::function(
                self.convert_all(&f.inputs)?,
                self.convert_all(&f.results)?,
            ));
        }
        (!self.strict).then_some(ty)
    }

    /// What types become.
    pub fn convert_all(&self, types: &[Type]) -> Option<Vec<Type>> {
        types.iter().map(|ty| self.convert(*ty)).collect()
    }

    /// Whether a type stays as it is.
    pub fn is_legal(&self, ty: Type) -> bool {
        self.convert(ty) == Some(ty)
    }

    /// Whether all operands, results and block arguments of an op have types that stay, and the
    /// attributes that are types stay too: the usual condition of dynamic legality.
    pub fn is_legal_op(&self, ir: &Ir, op: OpId) -> bool {
        let (inner, root) = ir.op(op).inner();
        let blocks = inner
            .regions(root)
            .flat_map(|r| inner.blocks(r).collect::<Vec<_>>());
        ir.operands(op).all(|v| self.is_legal(ir.ty(v)))
            && ir.results(op).all(|v| self.is_legal(ir.ty(v)))
            && type_attrs(inner, root)
                .iter()
                .all(|(_, ty)| self.is_legal(*ty))
            && blocks
                .flat_map(|b| inner.args(b).collect::<Vec<_>>())
                .all(|v| self.is_legal(inner.ty(v)))
    }
}

/// The attributes of an op that are types.
pub(crate) fn type_attrs(ir: &Ir, op: OpId) -> Vec<(Name, Type)> {
    let types = ir.attrs(op).iter();
    let types = types.filter_map(|(name, attr)| Some((*name, attr.get::<TypeAttr>()?.0)));
    types.collect()
}

/// The operand of a cast of one value.
pub(crate) fn cast_source(ir: &Ir, op: OpId) -> Option<Value> {
    let one = ir.name(op) == CAST && ir.operands(op).len() == 1 && ir.results(op).len() == 1;
    one.then(|| ir.operand(op, 0))
}

/// Removes the casts of an arena that cancel or are unused, then materializes the others where
/// the converter can.
pub(crate) fn reconcile(ir: &mut Ir, types: Option<&TypeConverter>) {
    cancel(ir);
    let Some(types) = types.filter(|types| !types.materializations.is_empty()) else {
        return;
    };
    for op in casts(ir) {
        let Some(source) = cast_source(ir, op) else {
            continue;
        };
        let ty = ir.ty(ir.result(op, 0));
        let mut b = Builder::new(ir, At::Before(op));
        let made = types.materializations.iter().rev();
        let made = made.clone().find_map(|make| make(&mut b, source, ty));
        if let Some(value) = made.filter(|v| ir.ty(*v) == ty) {
            ir.replace(op, &[value]);
        }
    }
    cancel(ir);
}

fn casts(ir: &Ir) -> Vec<OpId> {
    let cast = Name::new(CAST);
    let mut ops = ir.walk_ids();
    ops.retain(|op| ir.name(*op) == cast);
    ops
}

fn cancel(ir: &mut Ir) {
    loop {
        let mut changed = false;
        for op in casts(ir).into_iter().rev() {
            if ir.results(op).all(|v| ir.is_unused(v)) {
                ir.erase(op);
                changed = true;
                continue;
            }
            let Some(source) = cast_source(ir, op) else {
                continue;
            };
            let ty = ir.ty(ir.result(op, 0));
            let inner = ir.owner(source).and_then(|op| cast_source(ir, op));
            let same = [Some(source), inner].into_iter().flatten();
            if let Some(value) = { same }.find(|v| ir.ty(*v) == ty) {
                ir.replace(op, &[value]);
                changed = true;
            }
        }
        if !changed {
            return;
        }
    }
}
