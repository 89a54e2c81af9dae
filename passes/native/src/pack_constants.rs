//! `pack-constants`: tiles of constants lie in memory as they are used, one behind the other.
//!
//! *Terms.* A **packed** tile is one that a transfer fills from a constant, and that nothing else writes. Its **sources** are
//! the ops that say where the transfer reads: views of the constant and arithmetic on counters of loops. It has a
//! **number**: how often it was filled before, if every loop whose counter a source uses runs through all of its values.
//!
//! *Invariants.* The bytes of all numbers are what the interpreter finds when it runs the same transfers, so there is one
//! meaning of a transfer. A constant is packed as a whole or not at all.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use tir::data::{Array, DType};
use tir::interp::{Kind, attr_named, elements};
use tir::{
    At, Attr, Builder, Definition, Diagnostic, Failure, Interpreter, Ir, Mapping, MemRefType, Name,
    Op, OpId, Pass, PassCx, PassResult, Type, Value, pass,
};
use tir_arith::OpFoldResult;
use tir_func::{Func, Return};
use tir_loop::{Bounds, For, Yield};
use tir_memref::alias::{ended, is_filled_once};
use tir_memref::{Alloc, GetGlobal, Global, TransferRead, View};

pass! {
    /// Stores constants as transfers of tiles would leave them, and reads the tiles there.
    ///
    /// A constant is packed if all that its tiles take together, each number of a tile once, is at most `growth` times
    /// the constant's size; a constant that nothing else reads goes. A remark names what stays, and constants whose file is
    /// not loaded, whose elements are not known.
    pub struct PackConstants = "pack-constants" on "builtin.module" {
        /// Maximum growth: bytes of packed tiles, as a multiple of the constant's.
        pub growth: usize = 2,
        /// Constants up to this many bytes are packed whatever their growth.
        pub small: usize = 65536,
    }
}

impl Pass for PackConstants {
    fn run(&self, module: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let mut found: BTreeMap<Name, Vec<(OpId, Packed)>> = BTreeMap::new();
        for (slot, child) in module.children_mut() {
            let child = &*child;
            for op in child.walk_ids() {
                if let Some(packed) = Packed::of(child, op) {
                    found
                        .entry(packed.constant)
                        .or_default()
                        .push((slot, packed));
                }
            }
        }
        let constants: HashMap<Name, Global> = module
            .walk_ids()
            .into_iter()
            .filter_map(|op| module.get::<Global>(op))
            .map(|global| (global.sym_name, global))
            .collect();
        let (mut tiles, mut copied) = (0, Vec::new());
        for (name, all) in found {
            let global = constants.get(&name).filter(|g| g.constant.is_some());
            let Some((global, value)) = global.and_then(|g| Some((g, g.initial_value?))) else {
                continue;
            };
            let content = match elements(value) {
                Ok(content) => content,
                Err(why) => {
                    let transfers = all.iter().map(|(slot, packed)| (*slot, packed.transfer));
                    let note = format!("'@{name}' cannot be packed: {}", why.message);
                    copied.extend(transfers.map(|(slot, transfer)| (slot, transfer, note.clone())));
                    continue;
                }
            };
            // Tiles that are read in the same way, wherever they are used.
            let mut ways: BTreeMap<String, Vec<(OpId, Packed)>> = BTreeMap::new();
            for (slot, packed) in all {
                if let Some(function) = module.child(slot) {
                    let way = packed.way(function);
                    ways.entry(way).or_default().push((slot, packed));
                }
            }
            let bytes = content.bytes().len();
            let firsts = ways.values().filter_map(|all| all.first());
            let packed: usize = firsts.map(|(_, p)| p.bytes * p.count()).sum();
            if packed > self.small.max(bytes.saturating_mul(self.growth)) {
                let note = format!(
                    "packed they would take {packed} bytes, for a constant of {bytes}; 'pack-constants' has the option growth={}",
                    self.growth
                );
                let all = ways.values().flatten();
                copied.extend(all.map(|(slot, p)| (*slot, p.transfer, note.clone())));
                continue;
            }
            for (k, all) in ways.into_values().enumerate() {
                let symbol = free(module, name, k);
                let Some((slot, first)) = all.first() else {
                    continue;
                };
                let Some(function) = module.child(*slot) else {
                    continue;
                };
                let loc = function.loc(first.transfer);
                let made = first.evaluate(function, &content, global.r#type);
                let made = made.map_err(|error| {
                    let error = (*error).or_at(loc);
                    vec![error.context(format_args!("'@{name}' cannot be packed: "))]
                })?;
                let key = format!("{name}.packed{k}");
                let global = Global {
                    sym_name: symbol,
                    sym_visibility: None,
                    r#type: first.ty(),
                    initial_value: Some(attr_named(&made, &key)),
                    constant: Some(tir::Flag),
                    alignment: Some(ALIGN as i64),
                };
                let block = module.body_block(module.root(), 0);
                let block = block.ok_or_else(|| vec![Diagnostic::error("has no body")])?;
                module.add(At::Start(block), global);
                for (slot, packed) in all {
                    if let Some(function) = module.child_mut(slot) {
                        packed.replace(function, symbol);
                        tiles += 1;
                    }
                }
            }
        }
        for (slot, transfer, note) in copied {
            let Some(function) = module.child(slot) else {
                continue;
            };
            let title = "tiles of a constant are copied each time they are used";
            cx.remark(
                Diagnostic::remark(title)
                    .at(function.loc(transfer))
                    .note(note),
            );
        }
        sweep(module);
        cx.count("tiles packed", tiles);
        if tiles == 0 {
            cx.unchanged();
        }
        Ok(())
    }
}

/// A name that no symbol of a module has.
fn free(module: &Ir, name: Name, k: usize) -> Name {
    let table = tir::SymbolTable::new(module);
    let mut all = (k..).map(|k| Name::new(&format!("{name}_packed{k}")));
    let found = all.find(|name| table.iter().all(|(taken, _)| taken != *name));
    found.unwrap_or(name)
}

/// Erases constants that no function reads any more.
fn sweep(module: &mut Ir) {
    let mut read = std::collections::HashSet::new();
    module.walk(&mut |op| {
        read.extend(op.ir.get::<GetGlobal>(op.id).map(|get| get.name.0));
    });
    for op in module.walk_ids() {
        let dead = module
            .get::<Global>(op)
            .is_some_and(|g| g.constant.is_some() && !read.contains(&g.sym_name));
        if dead {
            module.erase(op);
        }
    }
}

/// A loop that a source counts with.
struct Counter {
    value: Value,
    /// Lower and upper bound, step.
    range: [i64; 3],
    count: usize,
}

/// A tile that is packed.
struct Packed {
    constant: Name,
    /// What fills it.
    transfer: OpId,
    tile: Value,
    /// Bytes of the tile, up to where the next one begins.
    bytes: usize,
    /// Of outer loops first.
    counters: Vec<Counter>,
    /// Sources, each behind those that it uses.
    sources: Vec<OpId>,
}

/// The attribute of a view of a packed tile: how many bytes behind it the next one begins.
pub(crate) const TILE: &str = "native.tile";

/// Places of packed tiles are multiples of so many bytes.
const ALIGN: usize = 64;

impl Packed {
    /// The tile that a transfer fills, if it is packed.
    fn of(ir: &Ir, op: OpId) -> Option<Self> {
        let read = ir.get::<TransferRead>(op)?;
        let tile = read.tile;
        ir.owner(tile).filter(|a| ir.is::<Alloc>(*a))?;
        let memref = ir.ty(tile).get::<MemRefType>()?;
        let bytes = ir.ty(tile).elements()? * ir.ty(tile).elem().bytes()?;
        let plain = memref.layout == tir::Layout::Identity && memref.space.is_none() && bytes > 0;
        if !plain || ir.value_block(tile) != ir.block_of(op) || !is_filled_once(ir, op, tile) {
            return None;
        }
        let mut sources = Sources {
            ir,
            ops: Vec::new(),
            counters: Vec::new(),
            constants: Vec::new(),
        };
        for value in ir.operands(op).filter(|v| *v != tile) {
            sources.add(value)?;
        }
        let Sources {
            ops,
            mut counters,
            constants,
            ..
        } = sources;
        let &[constant] = &constants[..] else {
            return None;
        };
        // Of two loops around one op the outer one holds the other.
        let depth = |value: Value| ir.value_block(value).map_or(0, |b| depth(ir, b));
        counters.sort_by_key(|(value, _)| depth(*value));
        let counters = counters.into_iter().map(|(value, range)| {
            let [low, high, step] = range;
            let count = usize::try_from((high - low).max(0))
                .ok()?
                .div_ceil(usize::try_from(step).ok()?);
            Some(Counter {
                value,
                range,
                count,
            })
        });
        let counters: Vec<Counter> = counters.collect::<Option<_>>()?;
        counters.iter().all(|c| c.count > 0).then_some(Self {
            constant,
            transfer: op,
            tile,
            bytes: bytes.next_multiple_of(ALIGN.min(bytes.next_power_of_two())),
            counters,
            sources: ops,
        })
    }

    /// How many tiles there are.
    fn count(&self) -> usize {
        self.counters.iter().map(|c| c.count).product()
    }

    /// The type of the buffer that holds all.
    fn ty(&self) -> Type {
        Type::memref([(self.bytes * self.count()) as i64], Type::int(8), None)
    }

    /// What the transfer reads for each number, as text: two tiles of one way have the same bytes.
    fn way(&self, ir: &Ir) -> String {
        let counters = self.counters.iter().enumerate();
        let counters = counters.map(|(k, c)| (c.value, format!("#{k}")));
        let mut names: HashMap<Value, String> = counters.collect();
        names.insert(self.tile, "tile".to_string());
        let mut text = format!("{}", ir.ty(self.tile));
        for counter in &self.counters {
            let _ = write!(text, " {:?}", counter.range);
        }
        for (k, op) in self.sources.iter().chain([&self.transfer]).enumerate() {
            let _ = write!(text, "\n{} {:?}", ir.name(*op), ir.attrs(*op));
            for operand in ir.operands(*op) {
                let name = names.get(&operand).map_or("?", String::as_str);
                let _ = write!(text, " {name}");
            }
            for (r, result) in ir.results(*op).enumerate() {
                names.insert(result, format!("%{k}.{r}"));
            }
        }
        text
    }

    /// The tile of the number that counters are at, as a view of the buffer that holds all.
    fn view(&self, b: &mut Builder<'_>, all: Value, counters: &[Value], ty: Type) -> Value {
        let mut stride = self.bytes as i64;
        let mut at = OpFoldResult::Number(0);
        for (counter, value) in self.counters.iter().zip(counters).rev() {
            let [low, _, step] = counter.range;
            let index = OpFoldResult::Value(*value).minus(b, low);
            let part = index.floor_div(b, step).times(b, stride);
            at = part.plus(b, at);
            stride *= counter.count as i64;
        }
        let byte_shift = at.value(b);
        let view = b.add(View {
            source: all,
            byte_shift,
            sizes: vec![],
            result: tir::Ret(ty),
        });
        if let Some(op) = b.ir.owner(view).filter(|_| !self.counters.is_empty()) {
            b.ir.set_attr(op, TILE, Attr::i64(self.bytes as i64));
        }
        view
    }

    /// The bytes of all tiles: what a function of the same transfers writes.
    fn evaluate(&self, from: &Ir, content: &Array, ty: Type) -> Result<Array, Failure> {
        let mut function = Ir::new(<Func as Op>::name());
        let root = function.root();
        let ty = Type::memref(ty.shape().unwrap_or(&[]), ty.elem(), None);
        let inputs = [ty, self.ty()];
        function.set_attr(root, "function_type", Attr::ty(Type::function(inputs, [])));
        function.set_attr(root, "sym_name", Attr::str("pack"));
        let body = function.new_region();
        function.attach_region(root, body);
        let block = function.new_block(body);
        for ty in inputs {
            function.add_arg(block, ty);
        }
        let args: Vec<Value> = function.args(block).collect();
        let mut b = function.at(At::End(block));
        let mut at = Vec::new();
        self.loops(from, &mut b, &args, &mut at);
        b.add(Return { operands: vec![] });
        let mut interpreter = Interpreter::new(&function);
        let env = &mut interpreter.env;
        let constant = env.array_to_view(content, None)?;
        // Plain memory is zeros at first, and so is what tiles leave between them.
        let size = (self.bytes * self.count()) as i64;
        let packed = env.alloc(Kind::of_dtype(DType::I8), &[size], 64, None)?;
        env.call_root(vec![constant.clone().into(), packed.clone().into()])?;
        env.dealloc(constant.buffer)?;
        env.view_to_array(&packed, Type::int(8))
    }

    /// Loops over what is left of the counters, in them the transfer.
    fn loops(&self, from: &Ir, b: &mut Builder<'_>, args: &[Value], at: &mut Vec<Value>) {
        if let Some(counter) = self.counters.get(at.len()) {
            let body = b.body(&[Type::index()], |b, own| {
                at.push(own[0]);
                self.loops(from, b, args, at);
                at.pop();
                b.add(Yield { values: vec![] });
            });
            b.add(For::new(
                counter.range.map(Bounds::Static),
                vec![],
                body,
                vec![],
            ));
            return;
        }
        let mut map = Mapping::default();
        for (counter, value) in self.counters.iter().zip(at.iter()) {
            map.map(counter.value, *value);
        }
        let tile = self.view(b, args[1], at, from.ty(self.tile));
        map.map(self.tile, tile);
        for op in &self.sources {
            if from.is::<GetGlobal>(*op) {
                map.map(from.result(*op, 0), args[0]);
                continue;
            }
            copy(from, *op, b, &mut map);
        }
        copy(from, self.transfer, b, &mut map);
    }

    /// Reads the tile where it is packed.
    fn replace(&self, ir: &mut Ir, symbol: Name) {
        let Some(alloc) = ir.owner(self.tile) else {
            return;
        };
        let ty = ir.ty(self.tile);
        let counters: Vec<Value> = self.counters.iter().map(|c| c.value).collect();
        let mut b = ir.at(At::Before(alloc));
        let all = b.add(GetGlobal {
            name: tir::Sym(symbol),
            result: tir::Ret(self.ty()),
        });
        let view = self.view(&mut b, all, &counters, ty);
        ir.erase(self.transfer);
        let ends: Vec<OpId> = ir.uses(self.tile).map(|used| used.op).collect();
        for end in ends {
            if ended(ir, end) == Some(self.tile) {
                ir.erase(end);
            }
        }
        ir.replace(alloc, &[view]);
        for source in self.sources.iter().rev() {
            if ir.results(*source).all(|v| ir.is_unused(v)) {
                ir.erase(*source);
            }
        }
    }
}

fn copy(from: &Ir, op: OpId, b: &mut Builder<'_>, map: &mut Mapping) {
    let at = b.at;
    let copied = b.ir.copy_op(from, op, at, map);
    if !matches!(at, At::End(_)) {
        b.at = At::After(copied);
    }
}

/// Ops around a block.
fn depth(ir: &Ir, block: tir::BlockId) -> usize {
    let parent = ir.block_parent(block).and_then(|op| ir.block_of(op));
    parent.map_or(0, |parent| 1 + depth(ir, parent))
}

/// Sources on their way.
struct Sources<'a> {
    ir: &'a Ir,
    ops: Vec<OpId>,
    counters: Vec<(Value, [i64; 3])>,
    constants: Vec<Name>,
}

impl Sources<'_> {
    /// Adds what a value is made of; `None` if it is not known before the program runs.
    fn add(&mut self, value: Value) -> Option<()> {
        let ir = self.ir;
        match ir.definition(value) {
            Definition::Argument(block, 0) => {
                let looped = ir.block_parent(block)?;
                let range = ir.get::<For>(looped)?.static_range()?;
                if !self.counters.iter().any(|(known, _)| *known == value) {
                    self.counters.push((value, range));
                }
                Some(())
            }
            Definition::Argument(..) => None,
            Definition::Result(op, _) => {
                if self.ops.contains(&op) {
                    return Some(());
                }
                if !ir.is_pure(op) || ir.regions(op).next().is_some() {
                    return None;
                }
                for operand in ir.operands(op) {
                    self.add(operand)?;
                }
                if let Some(get) = ir.get::<GetGlobal>(op) {
                    self.constants.push(get.name.0);
                }
                self.ops.push(op);
                Some(())
            }
        }
    }
}
