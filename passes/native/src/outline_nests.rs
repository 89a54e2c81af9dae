//! `outline-nests`: each distinct nest is a function of its own.
//!
//! A network repeats its layers, and a nest of loops is all that a layer is: as a function on the buffers that it works
//! on, it is optimized and compiled once for all layers of one form, and apart from all others. What compilers do to a
//! function costs more than its size.

use std::collections::{HashMap, HashSet};

use tir::{
    Access, At, Attr, Ir, Layout, Mapping, MemRefType, Name, OpId, Pass, PassCx, PassResult, Rets,
    SymbolTable, Traits, Type, Value, pass,
};
use tir_func::{Call, Func, Return};
use tir_memref::alias::{accesses, may_alias, origins};
use tir_memref::{GetGlobal, Load, Store};

pass! {
    /// Makes each outermost nest of a public function a private function on the buffers that it uses, and calls it; equal
    /// nests share one.
    ///
    /// A nest is an op of a function's own blocks that works on buffers and gives no result: a loop, or what becomes
    /// loops later. Nests are equal by structure, types and attributes; buffers and scalars are arguments, constants and
    /// views are made again inside. The arguments of such a function are different buffers. A call keeps the location of
    /// its nest; a shared function has those of the first.
    pub struct OutlineNests = "outline-nests" on "builtin.module" {
        /// What begins the names of functions.
        pub prefix: String = "nest".to_string(),
    }
}

impl Pass for OutlineNests {
    fn run(&self, module: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let symbols = SymbolTable::new(module);
        let mut made = Made {
            prefix: &self.prefix,
            taken: symbols.iter().map(|(name, _)| name).collect(),
            known: HashMap::new(),
            functions: Vec::new(),
        };
        let (mut nests, mut left) = (0, 0);
        for (_, child) in module.children_mut() {
            let function = child.get::<Func>(child.root());
            if function.is_none_or(|f| f.sym_visibility.is_some()) {
                continue;
            }
            for op in outermost(child) {
                globals(child, op);
                match Nest::of(child, op) {
                    Some(nest) => {
                        let name = made.function(child, &nest);
                        nest.call(child, name);
                        nests += 1;
                    }
                    None => left += 1,
                }
            }
        }
        let distinct = made.functions.len();
        for function in made.functions {
            let end = module.body_block(module.root(), 0);
            let end = end.expect("a module whose functions have nests has a block");
            module.adopt(At::End(end), function);
        }
        cx.count("nests outlined", nests);
        cx.count("distinct nests", distinct);
        cx.count("nests left in place", left);
        if nests == 0 {
            cx.unchanged();
        }
        Ok(())
    }
}

/// The nests of a function, in the order of the text.
fn outermost(ir: &Ir) -> Vec<OpId> {
    let blocks = ir.regions(ir.root()).flat_map(|region| ir.blocks(region));
    let ops = blocks.flat_map(|block| ir.ops_in(block));
    ops.filter(|op| is_nest(ir, *op)).collect()
}

/// Takes buffers of the module out of a nest: nests that differ in them are equal.
fn globals(ir: &mut Ir, nest: OpId) {
    for op in ir.walk_below(nest) {
        if ir.is::<GetGlobal>(op) {
            ir.move_op(op, At::Before(nest));
        }
    }
}

/// Whether an op works on buffers, more than to make, to view, to hand on or to end one, or to access one element.
fn is_nest(ir: &Ir, op: OpId) -> bool {
    if ir.has(op, Traits::Terminator) || ir.effects(op).is_none() || ir.is_pure(op) {
        return false;
    }
    let works = |op: OpId| {
        let all = accesses(ir, op);
        all.iter()
            .any(|(access, _)| matches!(access, Access::Read | Access::Write))
    };
    match ir.regions(op).len() {
        0 => works(op) && !ir.is::<Load>(op) && !ir.is::<Store>(op),
        _ => works(op) || ir.walk_below(op).into_iter().any(works),
    }
}

/// A nest, and what it takes from around it.
struct Nest {
    op: OpId,
    /// Constants and views that are made again inside, in the order of the text.
    copied: Vec<OpId>,
    /// What is given to it, in the order of its first use.
    arguments: Vec<Value>,
}

impl Nest {
    /// A nest that may be a function: nothing comes out of it but by buffers, which are of known size and do not overlap.
    fn of(ir: &Ir, op: OpId) -> Option<Self> {
        if ir.results(op).len() > 0 {
            return None;
        }
        let mut below = vec![op];
        below.extend(ir.walk_below(op));
        let inside: HashSet<OpId> = below.iter().copied().collect();
        let ends = |op: &OpId| {
            // Leaving the function, and what no copy can be made of.
            let leaves = ir.is::<Return>(*op) || ir.child(*op).is_some();
            let frees = accesses(ir, *op)
                .into_iter()
                .filter(|(access, _)| *access == Access::Free);
            let mut freed = frees.map(|(_, value)| value);
            leaves
                || ir.successors(*op).len() > 0
                || freed.any(|v| !ir.owner(v).is_some_and(|op| inside.contains(&op)))
        };
        if below.iter().any(ends) {
            return None;
        }
        let mut nest = Self {
            op,
            copied: Vec::new(),
            arguments: Vec::new(),
        };
        let mut seen = HashSet::new();
        for op in &below {
            for value in ir.operands(*op) {
                let outside = match ir.owner(value) {
                    Some(owner) => !inside.contains(&owner),
                    None => {
                        let block = ir.value_block(value);
                        let holder = block.and_then(|block| ir.block_parent(block));
                        !holder.is_some_and(|holder| inside.contains(&holder))
                    }
                };
                if outside {
                    nest.take(ir, value, &mut seen);
                }
            }
        }
        nest.apart(ir).then_some(nest)
    }

    fn take(&mut self, ir: &Ir, value: Value, seen: &mut HashSet<Value>) {
        if !seen.insert(value) {
            return;
        }
        let constant = ir.constant(value).is_some();
        let viewed = |op: OpId| {
            let buffers = ir.operands(op).any(|v| ir.ty(v).is::<MemRefType>());
            ir.ty(value).is::<MemRefType>() && buffers && ir.is_pure(op)
        };
        match ir.owner(value).filter(|op| constant || viewed(*op)) {
            Some(op) => {
                for operand in ir.operands(op) {
                    self.take(ir, operand, seen);
                }
                if !self.copied.contains(&op) {
                    self.copied.push(op);
                }
            }
            None => self.arguments.push(value),
        }
    }

    /// Whether arguments are dense buffers of known size, each for itself, or scalars.
    fn apart(&self, ir: &Ir) -> bool {
        let (buffers, scalars): (Vec<Value>, Vec<Value>) = self
            .arguments
            .iter()
            .partition(|v| ir.ty(**v).is::<MemRefType>());
        let dense = |v: &Value| {
            let ty = ir.ty(*v);
            let memref = ty.get::<MemRefType>();
            memref.is_some_and(|m| m.layout == Layout::Identity) && ty.elements().is_some()
        };
        let scalar = |v: &Value| ir.ty(*v).shape().is_none();
        let all: Vec<_> = buffers.iter().map(|v| origins(ir, *v)).collect();
        let mut pairs = (0..buffers.len()).flat_map(|k| (0..k).map(move |l| (k, l)));
        buffers.iter().all(dense)
            && scalars.iter().all(scalar)
            && pairs.all(|(k, l)| !may_alias(ir, buffers[k], &all[l]))
    }

    /// The function that it becomes.
    fn function(&self, ir: &Ir, name: &str) -> Ir {
        let types: Vec<Type> = self.arguments.iter().map(|v| ir.ty(*v)).collect();
        let (mut function, block) = tir_func::function(name, Type::function(types, []));
        let root = function.root();
        function.set_loc(root, ir.loc(self.op));
        function.set_attr(root, "sym_visibility", Attr::str("private"));
        let mut map = Mapping::default();
        for (k, value) in self.arguments.iter().enumerate() {
            let arg = function.arg(block, k);
            function.set_hint(arg, ir.hint(*value));
            map.map(*value, arg);
        }
        for op in self.copied.iter().chain([&self.op]) {
            function.copy_op(ir, *op, At::End(block), &mut map);
        }
        function.add(At::End(block), Return { operands: vec![] });
        function
    }

    /// Calls a function in place of the nest.
    fn call(&self, ir: &mut Ir, name: Name) {
        let call = Call {
            callee: tir::Sym(name),
            operands: self.arguments.clone(),
            results: Rets(vec![]),
        };
        ir.add(At::Before(self.op), call);
        if let Some(call) = ir.prev(self.op) {
            ir.set_loc(call, ir.loc(self.op));
        }
        ir.erase(self.op);
    }
}

/// The functions made so far.
struct Made<'a> {
    prefix: &'a str,
    taken: HashSet<Name>,
    /// Names by text, without names of values.
    known: HashMap<String, Name>,
    functions: Vec<Ir>,
}

impl Made<'_> {
    /// The function for a nest: one that there is, or a new one.
    fn function(&mut self, ir: &Ir, nest: &Nest) -> Name {
        let mut function = nest.function(ir, self.prefix);
        let key = text(&function);
        if let Some(name) = self.known.get(&key) {
            return *name;
        }
        let numbers = self.functions.len()..;
        let mut names = numbers.map(|k| Name::new(&format!("{}_{k}", self.prefix)));
        let name = names.find(|name| !self.taken.contains(name));
        let name = name.expect("fewer names are taken than there are numbers");
        let root = function.root();
        function.set_attr(root, "sym_name", Attr::str(name.as_str()));
        self.taken.insert(name);
        self.known.insert(key, name);
        self.functions.push(function);
        name
    }
}

/// A text that equal functions have, whatever their values are called and wherever they come from.
fn text(function: &Ir) -> String {
    let mut plain = function.clone();
    let root = plain.root();
    for op in std::iter::once(root)
        .chain(plain.walk_ids())
        .collect::<Vec<_>>()
    {
        let mut values: Vec<Value> = plain.results(op).collect();
        for region in plain.regions(op) {
            for block in plain.blocks(region) {
                values.extend(plain.args(block));
            }
        }
        for value in values {
            plain.set_hint(value, None);
        }
    }
    let options = tir::text::PrintOptions {
        generic: true,
        ..Default::default()
    };
    tir::text::print(&plain, &options)
}
