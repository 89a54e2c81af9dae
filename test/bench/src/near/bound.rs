//! Bytes that cannot be avoided with so much near memory, whatever the tiles and whatever is replaced.
//!
//! *One layer.* Counted is the ordinary algorithm, not one with fewer multiply-adds.
//!  Of a convolution or a product, `y += x · w` is done so many times, with all three in near memory; it holds
//! `S` words. Let the work be cut into segments in which `M` words come to near memory: from far memory, or as a new sum. In
//! a segment at most `S + M` words are there, `a` of `x`, `b` of `w`, and `c` sums, so at most `sqrt(R·a·b·c)` multiply-adds
//! are done: by Loomis and Whitney that of a product, of whose factors each `x` may be one in `R` ways, for it lies in so many
//! windows. With `a`, `b` and `c` no larger than the tensors, [`most`] is the largest product; so
//! `M · (ceil(macs / sqrt(R·most)) - 1)` words come ([`Layer::words`], for the `M` with which these are the most). Where the
//! tensors are large and `M = 2S` that is `2·macs/sqrt(R·S) - 2S`: the constant of T. M. Smith, B. Lowery, J. Langou,
//! R. A. van de Geijn, "A Tight I/O Lower Bound for Matrix Multiplication" (arXiv:1702.02017, 2019), and of
//! G. Kwasniewski, M. Kabić, M. Besta, J. VandeVondele, R. Solcà, T. Hoefler, "Red-Blue Pebbling Revisited" (SC 2019); with `R`, of
//! X. Chen, Y. Han, Y. Wang, "Communication Lower Bound in Convolution Accelerators" (HPCA 2020), whose mean number of
//! windows is here the largest one. A sum may be taken in parts, in any order: who makes a second part where the first is in
//! far memory loads it later, and could have loaded it then. Zeros around a tensor are no multiply-adds here.
//!
//! *Networks.* Two sums of layers, of different programs:
//! - [`Bounds::in_order`]: of those that do one layer behind another, in the network's order: no multiply-add of a layer before
//!   the last one of the layer before. Anything else, epilogues and pools too, may be done at any time and again, and any
//!   part of any tensor may stay. At the start of a layer at most `S` words of what it reads are near: the others are
//!   loaded while it runs, and were stored behind the start of the layer that made them. Sums are new once each; so a layer
//!   loads the larger of its words less its sums, and of its weights with what is not near. What is added to its sums
//!   later and was made by an earlier layer ([`Beside`]) is needed at its start as well: of both no more than `S` words are
//!   near, and the others are loaded at some time behind it. Whether it is added to a sum first or last, it is a word for each.
//!   What is stored is counted once for each layer that made it: of sets of layers that have none in common.
//! - [`Bounds::any_order`]: of all that compute no value twice, nests of several layers too. What a layer reads may be made
//!   near and each of its sums may end there, so neither counts: what is beyond both and beyond the layer's constants and
//!   arguments is loaded again. Of layers that read the same tensor the one with the most counts.
//!
//! A layer counts with no more than its constants and arguments where it has groups, or where something else than elementwise
//! ops, pools and views stands between it and the layers before: then a word could be worth more than one of `x`.

use std::collections::{HashMap, HashSet};

use tir::{Definition, Ir, OpId, Traits, Value};
use tir_func::Func;
use tir_graph::shape::Window;
use tir_graph::{AvgPool, Conv2d, Gemm, MatMul, MaxPool, Reshape, Transpose};

/// Bytes that no program of a kind moves less than.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Of those that do layer by layer.
    pub(super) in_order: u64,
    /// Of those that compute no value twice.
    pub(super) any_order: u64,
}

/// A convolution or a product.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    /// Multiply-adds of elements that are no padding.
    macs: u64,
    /// Words of both operands that are used, and sums.
    sizes: [u64; 3],
    /// In how many multiply-adds with the same words of the others an element of the first one may be.
    reuse: u64,
}

/// The largest product of three numbers of this sum, none larger than its limit.
fn most(sum: f64, mut limits: [f64; 3]) -> f64 {
    limits.sort_by(f64::total_cmp);
    let (mut left, mut product) = (sum, 1.0);
    for (i, limit) in limits.into_iter().enumerate() {
        let own = limit.min(left / (3 - i) as f64);
        (left, product) = (left - own, product * own);
    }
    product
}

impl Layer {
    /// Words that come to a near memory of so many at least, loaded or as new sums.
    pub(crate) fn words(&self, near: u64) -> u64 {
        let near = near as f64;
        let limits = self.sizes.map(|size| size as f64);
        // Each number of words in a segment gives a bound; of these there are some between 1 and all.
        let segments = (0..400).map(|i| 1.05_f64.powi(i).floor());
        let bounds = segments.map(|words| {
            let done = (self.reuse as f64 * most(near + words, limits)).sqrt();
            // The last segment is not a whole one; a rounding must not make one more.
            words * ((self.macs as f64 / done - 1e-6).ceil() - 1.0).max(0.0)
        });
        bounds.fold(0.0, f64::max) as u64
    }
}

/// Pairs of a window and an element of it that lie inside.
fn inside(window: &Window) -> Option<(u64, u64)> {
    let (mut pairs, mut used) = (0, HashSet::new());
    for at in 0..window.output().ok()? {
        let of = (0..window.kernel).map(|k| at * window.stride + k * window.dilation - window.low);
        for element in of.filter(|e| (0..window.input).contains(e)) {
            pairs += 1;
            used.insert(element);
        }
    }
    Some((pairs, used.len() as u64))
}

/// Windows that an element may lie in.
fn windows(window: &Window) -> u64 {
    let common = tir_machine::gcd(window.stride.unsigned_abs(), window.dilation.unsigned_abs());
    let step = window.stride.unsigned_abs() / common.max(1);
    window.kernel.unsigned_abs().div_ceil(step.max(1))
}

/// What an op of a network multiplies, and the layer that it is; without groups.
fn layer(ir: &Ir, op: OpId) -> Option<([Value; 2], Layer)> {
    let count = |value: Value| ir.ty(value).elements().map(|n| n as u64);
    let sums = count(ir.results(op).next()?)?;
    if let Some(conv) = ir.get::<Conv2d>(op) {
        let shape: Vec<u64> = ir.ty(conv.x).shape()?.iter().map(|n| *n as u64).collect();
        let both = conv.windows(ir.op(op)).ok()?;
        let [(high, used_high), (wide, used_wide)] = [inside(&both[0])?, inside(&both[1])?];
        let weights = count(conv.w)?;
        let taps = both[0].kernel.checked_mul(both[1].kernel)?.unsigned_abs();
        let layer = Layer {
            // Pairs of channels, of groups too.
            macs: shape.first()? * (weights / taps.max(1)) * high * wide,
            sizes: [
                shape.first()? * shape.get(1)? * used_high * used_wide,
                weights,
                sums,
            ],
            reuse: windows(&both[0]) * windows(&both[1]),
        };
        return (conv.groups == 1).then_some(([conv.x, conv.w], layer));
    }
    let (a, b) = match (ir.get::<MatMul>(op), ir.get::<Gemm>(op)) {
        (Some(product), _) => (product.a, product.b),
        (_, Some(product)) => (product.a, product.b),
        _ => return None,
    };
    let (all, other) = (count(a)?, count(b)?);
    // Of two matrices; of stacks of them each is a layer of its own.
    let stacked = |value: Value| ir.ty(value).shape().is_none_or(|shape| shape.len() != 2);
    let sum = ((all * other) as f64 / sums.max(1) as f64).sqrt().round() as u64;
    let layer = Layer {
        macs: sums * sum,
        sizes: [all, other, sums],
        reuse: 1,
    };
    (!stacked(a) && !stacked(b)).then_some(([a, b], layer))
}

/// Where an operand comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    /// Arguments and constants alone.
    Outside,
    /// A layer, the last one that each element needs a word of; one elementwise word for each of its own.
    Layer(usize),
    /// Something else.
    Unknown,
}

/// A walk back from operands.
struct Walk<'a> {
    ir: &'a Ir,
    /// Layers by their op.
    numbers: HashMap<OpId, usize>,
    known: HashMap<Value, Source>,
}

impl Walk<'_> {
    fn from(&mut self, value: Value) -> Source {
        if let Some(known) = self.known.get(&value) {
            return *known;
        }
        let found = self.find(value);
        self.known.insert(value, found);
        found
    }

    fn find(&mut self, value: Value) -> Source {
        let Definition::Result(op, _) = self.ir.definition(value) else {
            return Source::Outside;
        };
        if self.ir.has(op, Traits::ConstantLike) {
            return Source::Outside;
        }
        if let Some(number) = self.numbers.get(&op) {
            return Source::Layer(*number);
        }
        let elements = self.ir.ty(value).elements();
        let view = self.ir.is::<Reshape>(op) || self.ir.is::<Transpose>(op);
        let narrow = view || self.ir.has(op, Traits::Elementwise) || self.pools(op);
        let operands: Vec<Value> = self.ir.operands(op).collect();
        let mut found = Source::Outside;
        for operand in operands {
            let from = self.from(operand);
            let as_many = self.pools(op) || self.ir.ty(operand).elements() == elements;
            found = match (found, from) {
                (_, Source::Unknown) | (Source::Unknown, _) => Source::Unknown,
                (found, Source::Outside) => found,
                (_, Source::Layer(_)) if !narrow || !as_many => Source::Unknown,
                (Source::Layer(a), Source::Layer(b)) => Source::Layer(a.max(b)),
                (Source::Outside, from) => from,
            };
        }
        found
    }

    /// Whether an op is a pool whose windows have an element each that is of no other one.
    fn pools(&self, op: OpId) -> bool {
        let max = self.ir.get::<MaxPool>(op);
        let max = max.map(|pool| pool.windows(self.ir.op(op)));
        let mean = self.ir.get::<AvgPool>(op);
        let mean = mean.map(|pool| pool.windows(self.ir.op(op)));
        let Some(Ok(windows)) = max.or(mean) else {
            return false;
        };
        // The element at the start of the window without padding.
        windows.iter().all(|window| {
            let own =
                window.low % window.dilation == 0 && window.low / window.dilation < window.kernel;
            let last = window.output().map(|n| (n - 1) * window.stride);
            own && last.is_ok_and(|last| last < window.input)
        })
    }
}

/// What meets the sums of a layer and was made by an earlier one: the input of a block beside what the block computes.
struct Beside {
    /// The layer that made it, and its words.
    maker: usize,
    words: u64,
}

/// By layers, what meets their sums. Each layer's words count once, and only where no layer behind the meeting reads them:
/// then a load for that layer could be the one for this.
fn beside(ir: &Ir, walk: &mut Walk<'_>, reads: &[(usize, Vec<Source>)]) -> HashMap<usize, Beside> {
    let block = ir.body_block(ir.root(), 0);
    let ops = block.into_iter().flat_map(|block| ir.ops_in(block));
    let (mut found, mut counted) = (HashMap::new(), HashSet::new());
    for op in ops.filter(|op| ir.has(*op, Traits::Elementwise)) {
        let operands: Vec<Value> = ir.operands(op).collect();
        let made = operands.iter().map(|value| (*value, walk.from(*value)));
        let mut made: Vec<(usize, Value)> = made
            .filter_map(|(value, from)| match from {
                Source::Layer(number) => Some((number, value)),
                Source::Outside | Source::Unknown => None,
            })
            .collect();
        made.sort_by_key(|(number, _)| *number);
        let ([(maker, value)], Some((last, sums))) = (&made[..made.len().min(1)], made.last())
        else {
            continue;
        };
        let words = |value: Value| ir.ty(value).elements().map_or(0, |n| n as u64);
        let again = |(number, from): &(usize, Vec<Source>)| {
            number >= last && from.contains(&Source::Layer(*maker))
        };
        let alone = words(*value) == words(*sums) && !reads.iter().any(again);
        if maker < last && alone && !found.contains_key(last) && counted.insert(*maker) {
            let (maker, words) = (*maker, words(*value));
            found.insert(*last, Beside { maker, words });
        }
    }
    found
}

/// The most that is stored at least, of sets of layers and how much of what each makes is: of sets that have none in common.
fn stored(mut sets: Vec<(Vec<usize>, u64)>) -> u64 {
    sets.sort_by_key(|(_, words)| std::cmp::Reverse(*words));
    let (mut seen, mut all) = (HashSet::new(), 0);
    for (makers, words) in sets {
        if makers.iter().all(|maker| !seen.contains(maker)) {
            all += words;
            seen.extend(makers);
        }
    }
    all
}

/// The tensor that a value shows in another shape or order.
fn shown(ir: &Ir, mut value: Value) -> Value {
    while let Definition::Result(op, _) = ir.definition(value) {
        value = match (ir.get::<Reshape>(op), ir.get::<Transpose>(op)) {
            (Some(view), _) => view.x,
            (_, Some(view)) => view.x,
            _ => return value,
        };
    }
    value
}

/// Bytes that cannot be avoided with so many of near memory, given those that must move in any case.
pub(super) fn bounds(network: &Ir, near: u64, must: u64) -> Result<Bounds, String> {
    let slots = network.slots().into_iter();
    let function = slots.filter(|slot| network.is::<Func>(*slot));
    let function = function.filter_map(|slot| network.child(slot)).next();
    let ir = function.ok_or("no function")?;
    let block = ir.body_block(ir.root(), 0).ok_or("no body")?;
    let all = ir.ops_in(block).filter_map(|op| Some((op, layer(ir, op)?)));
    let all: Vec<(OpId, ([Value; 2], Layer))> = all.collect();
    let ops = ir.ops_in(block);
    // Those with groups are layers too, whatever moves for them.
    let product = |op: &OpId| ir.is::<Conv2d>(*op) || ir.is::<MatMul>(*op) || ir.is::<Gemm>(*op);
    let numbers = ops.filter(product).enumerate().map(|(i, op)| (op, i));
    let mut walk = Walk {
        ir,
        numbers: numbers.collect(),
        known: HashMap::new(),
    };
    let bytes = |value: Value| ir.ty(value).elem().bytes().map_or(4, |n| n as u64);
    let word = all.iter().flat_map(|(_, (read, _))| read);
    let word = word.map(|value| bytes(*value)).min().unwrap_or(4);
    let room = near / word;
    // All that products read, those with groups too.
    let reads = |(op, number): (&OpId, &usize)| {
        let operands: Vec<Value> = ir.operands(*op).collect();
        (*number, operands)
    };
    let reads: Vec<(usize, Vec<Value>)> = walk.numbers.iter().map(reads).collect();
    let reads = reads.into_iter().map(|(number, operands)| {
        let from = operands.into_iter().map(|value| walk.from(value));
        (number, from.collect())
    });
    let reads: Vec<(usize, Vec<Source>)> = reads.collect();
    let beside = beside(ir, &mut walk, &reads);
    // Beyond what must move: loads of each layer; what is stored of what layers make.
    let (mut loads, mut sets) = (0, Vec::new());
    let mut again: Vec<([Value; 2], u64)> = Vec::new();
    for (op, (read, layer)) in &all {
        let from = read.map(|value| walk.from(value));
        if from.contains(&Source::Unknown) {
            continue;
        }
        let words = layer.words(room);
        let sums = layer.sizes[2];
        let (mut outside, mut made, mut makers) = (0, 0, Vec::new());
        for (from, size) in from.iter().zip(layer.sizes) {
            let Source::Layer(number) = from else {
                outside += size;
                continue;
            };
            made += size;
            makers.push(*number);
            sets.push((vec![*number], size.saturating_sub(room)));
        }
        let meets = walk.numbers.get(op).and_then(|number| beside.get(number));
        let more = meets.map_or(0, |beside| beside.words);
        let far = (made + more).saturating_sub(room);
        if let Some(beside) = meets {
            makers.push(beside.maker);
            sets.push((vec![beside.maker], more.saturating_sub(room)));
        }
        makers.sort_unstable();
        makers.dedup();
        sets.push((makers, far));
        // What comes from outside must move in any case, if only once for all layers that read it.
        let multiplied = words.saturating_sub(sums) + more.saturating_sub(room);
        loads += multiplied.max(far + outside) - outside;
        let read = read.map(|value| shown(ir, value));
        again.push((read, words.saturating_sub(made + sums + outside)));
    }
    again.sort_by_key(|(_, words)| std::cmp::Reverse(*words));
    let (mut seen, mut repeated) = (HashSet::new(), 0);
    for (read, words) in again {
        if read.iter().all(|value| !seen.contains(value)) {
            repeated += words;
        }
        seen.extend(read);
    }
    Ok(Bounds {
        in_order: must + (loads + stored(sets)) * word,
        any_order: must + repeated * word,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashSet, VecDeque};

    use super::{Layer, bounds, most};
    use crate::covers::{program, read};
    use crate::near::{compulsory, moved, report, resized, without};

    #[test]
    fn no_division_of_a_sum_is_larger() {
        for sum in 3..20u32 {
            for limits in [[4, 4, 4], [1, 9, 9], [2, 3, 20], [20, 20, 20]] {
                let within = |i: usize, n: u32| n <= limits[i];
                let all = (0..=sum).flat_map(|a| (0..=sum - a).map(move |b| (a, b, sum - a - b)));
                let all = all.map(|(a, b, c)| (a, b, c.min(limits[2])));
                let all = all.filter(|(a, b, _)| within(0, *a) && within(1, *b));
                let best = all.map(|(a, b, c)| a * b * c).max().unwrap_or(0);
                let found = most(f64::from(sum), limits.map(f64::from));
                assert!(
                    found + 1e-9 >= f64::from(best),
                    "{sum} {limits:?}: {found} {best}"
                );
            }
        }
    }

    /// The fewest words that come to near memory, of all ways to do some multiply-adds: found by looking at all.
    fn fewest(adds: &[[u32; 3]], near: u32) -> u64 {
        let words = adds.iter().flatten().max().map_or(0, |word| word + 1);
        // What can be done is done: that takes nothing.
        let done = |held: u32, done: u32| {
            let ready = adds.iter().enumerate();
            let ready = ready.filter(|(_, add)| add.iter().all(|word| held >> word & 1 == 1));
            ready.fold(done, |all, (i, _)| all | 1 << i)
        };
        let all = (1u32 << adds.len()) - 1;
        let (mut next, mut seen) = (VecDeque::from([(0u32, 0u32, 0u64)]), HashSet::new());
        while let Some((held, made, cost)) = next.pop_front() {
            if made == all {
                return cost;
            }
            for word in (0..words).filter(|word| held >> word & 1 == 0) {
                let gone: Vec<u32> = match held.count_ones() < near {
                    true => vec![held],
                    false => {
                        let own = (0..words).filter(|word| held >> word & 1 == 1);
                        own.map(|old| held & !(1 << old)).collect()
                    }
                };
                for held in gone.into_iter().map(|held| held | 1 << word) {
                    let made = done(held, made);
                    if seen.insert((held, made)) {
                        next.push_back((held, made, cost + 1));
                    }
                }
            }
        }
        unreachable!("all words fit one by one")
    }

    /// A layer of some multiply-adds of numbered words.
    fn layer(adds: &[[u32; 3]], reuse: u64) -> Layer {
        let distinct = |i: usize| {
            let all: BTreeSet<u32> = adds.iter().map(|add| add[i]).collect();
            all.len() as u64
        };
        Layer {
            macs: adds.len() as u64,
            sizes: [distinct(0), distinct(1), distinct(2)],
            reuse,
        }
    }

    #[test]
    fn no_order_takes_fewer_words() {
        // A product of 2x2 matrices, and a convolution of 3 numbers with two kernels of 2.
        let pairs = || (0..2).flat_map(|i| (0..2).map(move |j| (i, j)));
        let product = pairs()
            .flat_map(|(i, j)| (0..2).map(move |k| [i * 2 + k, 4 + k * 2 + j, 8 + i * 2 + j]));
        let conv = pairs()
            .flat_map(|(at, to)| (0..2).map(move |k| [at + k, 3 + to * 2 + k, 7 + at * 2 + to]));
        let (product, conv): (Vec<[u32; 3]>, Vec<[u32; 3]>) = (product.collect(), conv.collect());
        for (adds, reuse) in [(product, 1), (conv, 2)] {
            let layer = layer(&adds, reuse);
            for near in 3..5 {
                let (bound, least) = (layer.words(near.into()), fewest(&adds, near));
                assert!(0 < bound && bound <= least, "{near}: {bound} of {least}");
            }
        }
    }

    #[test]
    fn large_products_have_the_constant_of_the_literature() {
        let (n, near) = (4096u64, 1 << 14);
        let layer = Layer {
            macs: n.pow(3),
            sizes: [n * n; 3],
            reuse: 1,
        };
        let known = 2.0 * n.pow(3) as f64 / f64::from(near).sqrt() - 2.0 * f64::from(near);
        let own = layer.words(near as u64) as f64;
        assert!((0.999..1.001).contains(&(own / known)), "{own} {known}");
        // Each word in nine windows: a third of that.
        let nine = Layer { reuse: 9, ..layer };
        let own = nine.words(near as u64) as f64;
        assert!((0.99..1.01).contains(&(own / known * 3.0)), "{own} {known}");
    }

    #[test]
    fn programs_of_one_layer_after_another_move_no_less() {
        tir_opt::stock().load();
        let (_, network) = read(&program("bottleneck")).unwrap();
        let must = compulsory(&network).unwrap();
        let npu = crate::networks::root().join("test/e2e/machines/npu.tir");
        let mut beyond = 0;
        for kib in [16, 64] {
            let machine = resized(&npu, kib).unwrap();
            let level = tir_levels::ToAccel {
                resident: true,
                near_policy: "bytes".to_string(),
                ..without()
            };
            let report = report(&network, &machine, level);
            let _ = std::fs::remove_file(&machine);
            let own = bounds(&network, kib << 10, must).unwrap();
            let moved = moved(&report.unwrap());
            assert!(
                must <= own.any_order && own.any_order <= own.in_order,
                "{own:?}"
            );
            assert!(own.in_order <= moved, "{own:?} {moved}");
            beyond += own.in_order - must;
        }
        assert!(beyond > 0);
        let plenty = bounds(&network, 1 << 30, must).unwrap();
        assert_eq!((plenty.in_order, plenty.any_order), (must, must));
    }
}
