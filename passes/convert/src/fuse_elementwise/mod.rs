//! `fuse-elementwise`: elementwise loop nests that follow each other become one.

mod collapsed;
mod parts;

use tir::{
    AffineMap, At, Ir, Loc, Mapping, OpId, Pass, PassCx, PassResult, Rets, Type, Value, pass,
};
use tir_tensor::{Generic, Yield};

pass! {
    /// Fuses an elementwise `tensor.generic` into its only user if that is elementwise over the
    /// same iteration domain. One that reads a sum whose dimensions are collapsed is computed on the
    /// dimensions of the sum, and collapsed afterwards; one that reads a tensor put together from parts that
    /// elementwise nests compute, in those nests.
    pub struct FuseElementwise = "fuse-elementwise" {}
}

impl Pass for FuseElementwise {
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        cx.each(ir, &|ir, cx| {
            let moved = collapsed::below(ir);
            let merged = fuse(ir);
            let moved = moved + parts::into(ir);
            cx.count("merged", merged);
            if merged + moved == 0 {
                cx.unchanged();
            }
            Ok(())
        })
    }
}

/// Merges all there are in an arena; says how many.
fn fuse(ir: &mut Ir) -> usize {
    let mut merged = 0;
    for op in ir.walk_ids() {
        // What was a producer is gone; what was a consumer is another op now and may go on.
        let mut consumer = Some(op).filter(|op| ir.contains(*op) && ir.is::<Generic>(*op));
        while let Some(op) = consumer {
            let operands: Vec<Value> = ir.operands(op).collect();
            consumer = operands.iter().find_map(|value| {
                let producer = ir.owner(*value)?;
                merge(ir, producer, op)
            });
            merged += usize::from(consumer.is_some());
        }
    }
    merged
}

/// Whether every element of its outputs is computed once.
fn is_elementwise(generic: &Generic) -> bool {
    generic.combine.is_none() && !generic.reductions().contains(&true)
}

/// An input of the merged nest, and the type of its elements.
type Input = (Value, AffineMap);

/// Merges two nests, if they are elementwise on one domain and no other op uses what is between.
fn merge(ir: &mut Ir, producer: OpId, consumer: OpId) -> Option<OpId> {
    if !ir.is::<Generic>(producer) || ir.block_of(producer) != ir.block_of(consumer) {
        return None;
    }
    let (first, second): (Generic, Generic) = (ir.get(producer)?, ir.get(consumer)?);
    if !is_elementwise(&first) || !is_elementwise(&second) || first.outputs.len() != 1 {
        return None;
    }
    let between = ir.result(producer, 0);
    if ir
        .uses(between)
        .any(|u| u.op != consumer || u.operand >= second.inputs.len())
    {
        return None;
    }
    let shared = iterators(&first, &second, between)?;
    let domain = first.domain(ir).ok()?;
    let whole = second.domain(ir).ok()?;
    let moved = shared.eval(&(0..whole.len() as i64).collect::<Vec<_>>())?;
    let same = |(size, at): (&i64, &i64)| {
        usize::try_from(*at).ok().and_then(|at| whole.get(at)) == Some(size)
    };
    if domain.len() != whole.len() || !domain.iter().zip(&moved).all(same) {
        return None;
    }
    Some(rebuild(
        ir,
        (producer, &first),
        (consumer, &second),
        between,
        &shared,
    ))
}

/// The iterators of the producer for those of the consumer.
fn iterators(first: &Generic, second: &Generic, between: Value) -> Option<AffineMap> {
    let written = first.indexing_maps.last()?.as_projection()?;
    let reads = second.inputs.iter().zip(&second.indexing_maps);
    let mut reads = reads
        .filter(|(value, _)| **value == between)
        .map(|(_, map)| map);
    let read = reads.next()?;
    // Read in two ways, one of them would need a copy.
    if !read.is_permutation() || reads.any(|other| other != read) || written.len() != read.dims {
        return None;
    }
    let mut exprs = vec![None; written.len()];
    for (expr, d) in read.exprs.iter().zip(&written) {
        *exprs.get_mut(*d)? = Some(expr.clone());
    }
    Some(AffineMap::new(
        read.dims,
        exprs.into_iter().collect::<Option<_>>()?,
    ))
}

/// The position of an input in the merged nest's list, added if it is new.
fn place(inputs: &mut Vec<Input>, value: Value, map: AffineMap) -> usize {
    let input = (value, map);
    match inputs.iter().position(|known| *known == input) {
        Some(at) => at,
        None => {
            inputs.push(input);
            inputs.len() - 1
        }
    }
}

fn rebuild(
    ir: &mut Ir,
    (producer, first): (OpId, &Generic),
    (consumer, second): (OpId, &Generic),
    between: Value,
    shared: &AffineMap,
) -> OpId {
    // Inputs of the consumer, those of the producer in place of what was between.
    let mut inputs: Vec<Input> = Vec::new();
    let (mut from_first, mut from_second) = (Vec::new(), Vec::new());
    for (value, map) in second.inputs.iter().zip(&second.indexing_maps) {
        if *value != between {
            from_second.push(Some(place(&mut inputs, *value, map.clone())));
            continue;
        }
        from_second.push(None);
        if from_first.is_empty() {
            for (value, map) in first.inputs.iter().zip(&first.indexing_maps) {
                from_first.push(place(&mut inputs, *value, map.compose(shared)));
            }
        }
    }
    let region = ir.new_region();
    let block = ir.new_block(region);
    let types: Vec<Type> = inputs
        .iter()
        .map(|(value, _)| ir.ty(*value).elem())
        .collect();
    let args: Vec<Value> = types.into_iter().map(|ty| ir.add_arg(block, ty)).collect();
    let mut map = Mapping::default();
    let given: Vec<Option<Value>> = from_first.iter().map(|at| args.get(*at).copied()).collect();
    let values = append(ir, first, At::End(block), &mut map, &given);
    let given: Vec<Option<Value>> = from_second
        .iter()
        .map(|at| at.map_or(values.first().copied(), |at| args.get(at).copied()))
        .collect();
    let values = append(ir, second, At::End(block), &mut map, &given);
    ir.add(block, Yield { values });

    let loc = Loc::fused([ir.loc(producer), ir.loc(consumer)]);
    let outs = second
        .indexing_maps
        .iter()
        .skip(second.inputs.len())
        .cloned();
    let mut b = ir.at(At::Before(consumer));
    b.loc = loc;
    let maps = inputs.iter().map(|(_, map)| map.clone());
    let state = tir::Op::state(Generic {
        indexing_maps: maps.chain(outs).collect(),
        inputs: inputs.iter().map(|(value, _)| *value).collect(),
        outputs: second.outputs.clone(),
        iterator_types: second.iterator_types.clone(),
        combine: None,
        sizes: second.sizes.clone(),
        body: region,
        results: Rets(second.results.0.clone()),
    });
    let merged = b.create(state);
    let results: Vec<Value> = ir.results(merged).collect();
    let old: Vec<Value> = ir.results(consumer).collect();
    for (old, new) in old.iter().zip(&results) {
        let hint = ir.hint(*old);
        ir.set_hint(*new, hint);
    }
    ir.replace(consumer, &results);
    ir.erase(producer);
    // What only said the shape of the value between.
    for value in &first.outputs {
        if let Some(op) = ir.owner(*value)
            && ir.is_unused(*value)
            && ir.is_removable(op)
        {
            ir.erase(op);
        }
    }
    merged
}

/// Copies the region of a nest, its arguments replaced; gives what it yields.
fn append(
    ir: &mut Ir,
    generic: &Generic,
    at: At,
    map: &mut Mapping,
    given: &[Option<Value>],
) -> Vec<Value> {
    let Some(block) = ir.entry(generic.body) else {
        return Vec::new();
    };
    let args: Vec<Value> = ir.args(block).collect();
    for (arg, value) in args.into_iter().zip(given) {
        if let Some(value) = value {
            map.map(arg, *value);
        }
    }
    let ops: Vec<OpId> = ir.ops_in(block).collect();
    let Some((end, ops)) = ops.split_last() else {
        return Vec::new();
    };
    for op in ops {
        ir.duplicate(*op, at, map);
    }
    ir.operands(*end).map(|value| map.get(value)).collect()
}
