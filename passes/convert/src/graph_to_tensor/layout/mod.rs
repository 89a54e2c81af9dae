//! Layouts become shapes: after the patterns, which know logical shapes only, every tensor that is
//! stored in a layout becomes one of the shape of its storage, and what reads and writes it
//! follows: maps are composed with the layout's, iterators over a blocked dimension are split, so
//! that all of them are linear again.
//!
//! This is the one place below graph that knows layouts.

mod relayout;
mod split;

use tir::interp::{attr_named, elements};
use tir::pass::Memo;
use tir::{
    AffineMap, Attr, AttrValue, BlobAttr, DYNAMIC, Diagnostic, Failure, FunctionType, Ir, OpId,
    PassResult, Traits, Type, TypeAttr, Value,
};
use tir_arith::Constant;
use tir_graph::layout::{Axis, Layout, pack, physical_type};
use tir_graph::{Fused, Relayout, Transpose, Yield};
use tir_tensor::{
    CollapseShape, Empty, ExtractSlice, Generic, InsertSlice, TransferRead, reassociation,
};

use split::{Nest, Operand};

/// What an op becomes: attributes that are set, before the types of its values change.
type Change = Vec<(&'static str, Attr)>;

/// Whether a transpose only renames the dimensions of what is stored.
pub(super) fn renames(ir: &Ir, op: OpId) -> bool {
    let mut values = ir.operands(op).chain(ir.results(op));
    values.any(|v| Layout::of(ir.ty(v)).is_some())
}

/// Constants with their elements as they are stored: the programs of one run that are compared have the same ones.
#[derive(Default)]
pub(super) struct Packed(Memo<Attr, Result<Attr, Failure>>);

impl Packed {
    /// A constant, whose type has a layout, as it is stored.
    fn of(&self, value: Attr) -> Result<Attr, Failure> {
        self.0.or_find(value, || packed(value))
    }
}

/// Makes all tensors of an arena plain; its arguments and what it returns too, if they may be stored in layouts.
pub(super) fn lower(ir: &mut Ir, arguments: bool, packed: &Packed) -> PassResult {
    let stored = |ir: &Ir, value: Value| ir.ty(value) != physical_type(ir.ty(value));
    let mut errors = Vec::new();
    if !arguments {
        errors.extend(signature(ir).err());
    }
    let ops = ir.walk_ids();
    let touched = ops.into_iter().filter(|op| {
        let mut values = ir.operands(*op).chain(ir.results(*op));
        values.any(|v| stored(ir, v))
    });
    let touched: Vec<OpId> = touched.collect();
    let mut changes: Vec<(OpId, Change)> = Vec::new();
    let returns = |ir: &Ir, op: OpId| {
        let in_root = ir.parent(op) == Some(ir.root());
        arguments && in_root && ir.has(op, Traits::Terminator)
    };
    for op in &touched {
        if returns(ir, *op) {
            continue;
        }
        match change(ir, *op, packed) {
            Ok(change) => changes.push((*op, change)),
            Err(e) => errors.push(
                (*e).or_at(ir.loc(*op))
                    .context(format_args!("cannot lower '{}': ", ir.name(*op))),
            ),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    for (op, change) in changes {
        for (name, attr) in change {
            ir.set_attr(op, name, attr);
        }
    }
    let mut relayouts = Vec::new();
    for op in &touched {
        if let Some(relayout) = ir.get::<Relayout>(*op) {
            relayouts.push((*op, ir.ty(relayout.x), relayout.y.0));
        }
    }
    if arguments {
        store_arguments(ir);
    }
    for op in &touched {
        for value in ir.results(*op).collect::<Vec<_>>() {
            let ty = physical_type(ir.ty(value));
            ir.set_type(value, ty);
        }
    }
    for op in touched {
        if let Some(Transpose { x, .. }) = ir.get(op) {
            ir.replace_uses(ir.result(op, 0), x);
            ir.erase(op);
        }
    }
    for (op, from, to) in relayouts {
        relayout::expand(ir, op, from, to);
    }
    Ok(())
}

/// Functions and other holders take and give plain tensors.
fn signature(ir: &Ir) -> Result<(), Diagnostic> {
    let regions: Vec<_> = ir.regions(ir.root()).collect();
    let args = regions.iter().flat_map(|r| ir.blocks(*r));
    for (i, arg) in args.flat_map(|b| ir.args(b)).enumerate() {
        if let Some(layout) = Layout::of(ir.ty(arg)) {
            let message = format!(
                "'{}' has argument {i} stored as {layout}, expected plain tensors",
                ir.name(ir.root())
            );
            return Err(Diagnostic::error(message).at(ir.loc(ir.root())));
        }
    }
    Ok(())
}

/// Gives arguments the types of their storage, and says so in the type of the function.
fn store_arguments(ir: &mut Ir) {
    let root = ir.root();
    let regions: Vec<_> = ir.regions(root).collect();
    let blocks = regions.iter().flat_map(|r| ir.blocks(*r));
    let args: Vec<Value> = blocks.flat_map(|b| ir.args(b)).collect();
    for arg in args {
        let ty = physical_type(ir.ty(arg));
        ir.set_type(arg, ty);
    }
    let said = ir
        .attr(root, "function_type")
        .and_then(|attr| attr.get::<TypeAttr>().map(|ty| ty.0));
    if let Some(said) = said.and_then(|ty| ty.get::<FunctionType>()) {
        let stored = |types: &[Type]| types.iter().map(|ty| physical_type(*ty)).collect();
        let (inputs, results): (Vec<Type>, Vec<Type>) =
            (stored(&said.inputs), stored(&said.results));
        ir.set_attr(
            root,
            "function_type",
            Attr::ty(Type::function(inputs, results)),
        );
    }
}

/// What an op is to become, by the types before.
fn change(ir: &Ir, op: OpId, constants: &Packed) -> Result<Change, Failure> {
    let moves = ir.is::<Relayout>(op) || ir.is::<Transpose>(op);
    if moves || ir.is::<Empty>(op) || ir.is::<Fused>(op) || ir.is::<Yield>(op) {
        return Ok(Vec::new());
    }
    if let Some(generic) = ir.get::<Generic>(op) {
        return nest(ir, &generic);
    }
    if let Some(read) = ir.get::<TransferRead>(op) {
        return transfer(ir, &read);
    }
    if let Some(Constant { value }) = ir.get(op) {
        return Ok(vec![("value", constants.of(value)?)]);
    }
    if let Some(s) = ir.get::<InsertSlice>(op) {
        let (part, whole) = (ir.ty(s.source), ir.ty(s.dest));
        let lists = [&s.static_offsets, &s.static_sizes, &s.static_strides];
        return slice(part, whole, lists.map(|list| &list[..]));
    }
    if let Some(s) = ir.get::<ExtractSlice>(op) {
        let (part, whole) = (s.result.0, ir.ty(s.source));
        let lists = [&s.static_offsets, &s.static_sizes, &s.static_strides];
        return slice(part, whole, lists.map(|list| &list[..]));
    }
    if let Some(c) = ir.get::<CollapseShape>(op) {
        return collapse(ir.ty(c.src), c.result.0, &c.reassociation);
    }
    let mut values = ir.operands(op).chain(ir.results(op));
    let layout = values.find_map(|v| Layout::of(ir.ty(v)));
    Err(match layout {
        Some(layout) => format!("has a tensor stored as {layout}, expected plain ones").into(),
        None => Failure::from("names a plain layout"),
    })
}

/// A constant with its elements as they are stored.
fn packed(value: Attr) -> Result<Attr, Failure> {
    let Some((layout, ty)) = value.type_of().and_then(|ty| Some((Layout::of(ty)?, ty))) else {
        return Err("names a plain layout".into());
    };
    layout.check(ty)?;
    let key = value.get::<BlobAttr>().map_or("constant", |blob| &blob.key);
    let array = pack(&elements(value)?, layout)?;
    Ok(attr_named(&array, &format!("{key}.{layout}")))
}

fn nest(ir: &Ir, generic: &Generic) -> Result<Change, Failure> {
    let maps = generic.operands().zip(&generic.indexing_maps);
    let operands = maps.map(|(value, map)| Operand::new(ir.ty(value), &map.exprs));
    let mut nest = Nest::new(
        generic.domain(ir)?,
        generic.reductions(),
        operands.collect(),
    )?;
    let maps = nest.maps()?;
    let orders = maps[generic.inputs.len()..]
        .iter()
        .map(AffineMap::as_projection);
    let orders: Option<Vec<Vec<usize>>> = orders.collect();
    let orders = orders.ok_or("writes a plain tensor from blocks of another")?;
    if let Some(order) = orders.first() {
        nest.follow(order);
    }
    let maps = nest.maps()?;
    let kind = |reduces: &bool| Attr::str(if *reduces { "reduction" } else { "parallel" });
    let kinds: Vec<Attr> = nest.reductions().iter().map(kind).collect();
    let mut change = vec![
        ("indexing_maps", maps.to_attr()),
        ("iterator_types", Attr::array(kinds)),
    ];
    let domain = nest.domain();
    let alone = |d: &usize| {
        let exprs = maps.iter().flat_map(|map| &map.exprs);
        exprs.into_iter().any(|e| *e == tir::AffineExpr::Dim(*d))
    };
    if generic.sizes.is_some() || !(0..domain.len()).all(|d| alone(&d)) {
        change.push(("sizes", domain.to_attr()));
    }
    Ok(change)
}

/// A transfer is a nest over its tile.
fn transfer(ir: &Ir, read: &TransferRead) -> Result<Change, Failure> {
    if read.static_offsets.contains(&DYNAMIC) {
        return Err("has dynamic offsets".into());
    }
    let tile = read.result.0.shape().unwrap_or(&[]).to_vec();
    let rank = tile.len();
    let exprs = read.access.exprs.iter().zip(&read.static_offsets);
    let exprs: Vec<_> = exprs
        .map(|(e, offset)| e.clone() + tir::AffineExpr::Const(*offset))
        .collect();
    let operands = vec![
        Operand::new(ir.ty(read.source), &exprs),
        Operand::new(read.result.0, &AffineMap::identity(rank).exprs),
    ];
    let nest = Nest::new(tile, vec![false; rank], operands)?;
    let [source, result] = &nest.maps()?[..] else {
        return Err("has not two operands".into());
    };
    // Iterators in the order of the stored tile's dimensions.
    let places = result
        .as_projection()
        .filter(|dims| dims.len() == nest.domain().len())
        .ok_or("reads a plain tile from blocks")?;
    let mut order = vec![0; places.len()];
    for (at, d) in places.iter().enumerate() {
        order[*d] = at;
    }
    let renamed = source.compose(&AffineMap::project(order.len(), &order));
    let (mut offsets, mut access) = (Vec::new(), Vec::new());
    for expr in renamed.exprs {
        let form = expr.linear(order.len()).ok_or("is not linear")?;
        offsets.push(form.constant);
        access.push(tir::AffineExpr::from(&form.with_constant(0)));
    }
    Ok(vec![
        ("static_offsets", offsets.to_attr()),
        ("access", AffineMap::new(order.len(), access).to_attr()),
    ])
}

/// Dimensions that lie beside each other, and of which only the last one is in blocks, are one.
fn collapse(from: Type, to: Type, groups: &[Attr]) -> Result<Change, Failure> {
    let apart = || {
        Failure::from(format!(
            "makes a {to} of a {from}, which is stored differently"
        ))
    };
    let groups = tir_tensor::groups(groups, from.shape().map_or(0, <[i64]>::len))?;
    let axes = |ty: Type| match Layout::of(ty) {
        Some(layout) => layout.axes().to_vec(),
        None => {
            let axis = |dim| Axis { dim, inner: false };
            (0..ty.shape().map_or(0, <[i64]>::len)).map(axis).collect()
        }
    };
    let blocks = |ty: Type, dim: usize| Layout::of(ty).map_or(1, |layout| layout.blocks()[dim]);
    let (mut stored, mut of) = (Vec::new(), axes(from).into_iter().zip(0..));
    for axis in axes(to) {
        let mut dims = groups.get(axis.dim).ok_or_else(apart)?.iter().copied();
        let last = dims.next_back().ok_or_else(apart)?;
        if blocks(from, last) != blocks(to, axis.dim) {
            return Err(apart());
        }
        let outer: Vec<usize> = if axis.inner {
            Vec::new()
        } else {
            dims.collect()
        };
        let mut own = Vec::new();
        for (dim, inner) in outer
            .into_iter()
            .map(|d| (d, false))
            .chain([(last, axis.inner)])
        {
            let (found, at) = of.next().ok_or_else(apart)?;
            if found != (Axis { dim, inner }) {
                return Err(apart());
            }
            own.push(at);
        }
        stored.push(own);
    }
    Ok(vec![("reassociation", Attr::array(reassociation(&stored)))])
}

/// A part of a tensor is stored as the tensor is, and begins and ends with a block.
fn slice(
    part: Type,
    whole: Type,
    [offsets, sizes, strides]: [&[i64]; 3],
) -> Result<Change, Failure> {
    let layout = Layout::of(whole);
    let Some(layout) = layout.filter(|layout| Layout::of(part) == Some(*layout)) else {
        return Err(format!("relates a {part} to a {whole}, which is stored differently").into());
    };
    let lists = [offsets, sizes, strides];
    if part.shape() != Some(sizes) || lists.iter().any(|list| list.contains(&DYNAMIC)) {
        return Err("has dynamic or dropped dimensions".into());
    }
    let mut stored: [Vec<i64>; 3] = Default::default();
    for axis in layout.axes() {
        let (d, block) = (axis.dim, layout.blocks()[axis.dim]);
        if block > 1 && (offsets[d] % block != 0 || sizes[d] % block != 0 || strides[d] != 1) {
            return Err(format!(
                "takes elements {} to {} of dimension {d}, which is stored in blocks of {block}",
                offsets[d],
                offsets[d] + sizes[d]
            )
            .into());
        }
        let entry = match axis.inner {
            true => [0, block, 1],
            false => [offsets[d] / block, sizes[d] / block, strides[d]],
        };
        for (list, n) in stored.iter_mut().zip(entry) {
            list.push(n);
        }
    }
    let [offsets, sizes, strides] = stored;
    Ok(vec![
        ("static_offsets", offsets.to_attr()),
        ("static_sizes", sizes.to_attr()),
        ("static_strides", strides.to_attr()),
    ])
}
