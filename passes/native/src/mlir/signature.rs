//! What functions take: pointers to arguments, results, constants, memory and what shares work.

use tir::interp::OUT_ARGUMENT;
use tir::{At, Attr, DictAttr, Failure, FunctionType, MemRefType, Name, OpId, Type, Value};
use tir_arith::constant_index;
use tir_func::{Func, Return};
use tir_memref::alias::ended;
use tir_memref::{Load, Store, View};

use super::calls::{SHARED, places};
use super::{Argument, Code, Function, Role, THREADS, raw, signless};

impl Code<'_> {
    /// Gives a public function its interface.
    pub(super) fn entry(&mut self, name: Name, function: &Func) -> Result<Function, Failure> {
        let root = self.ir.root();
        let loc = self.ir.loc(root);
        let at = |error: Failure| -> Failure { Box::new((*error).or_at(loc)) };
        let block = self.ir.entry(function.body).ok_or("has no body")?;
        let signature = function.signature().ok_or("has no signature")?;
        let mut arguments = Vec::new();
        for (k, ty) in signature.inputs.iter().enumerate() {
            let arg = self.ir.arg(block, k);
            let role = match is_output(function, k) {
                true => Role::Output(k),
                false => Role::Input(k),
            };
            arguments.push(argument(*ty, role).map_err(at)?);
            let inside = if !ty.is::<MemRefType>() {
                self.ir.set_type(arg, Type::memref([], *ty, None));
                let load = Load {
                    memref: arg,
                    indices: vec![],
                    nontemporal: None,
                };
                Some(self.ir.add(At::Start(block), load))
            } else if ty.elements() == Some(0) && ty.shape() != Some(&[0]) {
                // MLIR finds no strides for other shapes without elements.
                self.ir.set_type(arg, Type::memref([0], ty.elem(), None));
                match self.ir.is_unused(arg) {
                    true => None,
                    false => Some(self.viewed(At::Start(block), &[arg], *ty)?),
                }
            } else {
                None
            };
            if let Some(inside) = inside {
                let holder = self.ir.owner(inside);
                self.ir
                    .replace_uses_if(arg, inside, |_, u| Some(u.op) != holder);
            }
        }
        for (k, ty) in signature.results.iter().enumerate() {
            arguments.push(argument(*ty, Role::Result(k)).map_err(at)?);
            if ty.is::<MemRefType>() {
                return Err(at(
                    format!("returns a {ty}, expected buffers as arguments").into()
                ));
            }
            self.ir.add_arg(block, Type::memref([], *ty, None));
        }
        self.results(block, signature)?;
        self.weights = Some(self.ir.add_arg(block, raw(self.bytes)));
        let arena = self
            .needs
            .get(&name)
            .map_or_else(|| self.own(function), |needs| needs.scratch);
        let further = arena - self.own(function);
        self.memory(block, function, arena);
        self.threads = Some(self.ir.add_arg(block, raw(THREADS)));
        let marks = match self.options.marks {
            true => self.marks(block)?,
            false => Vec::new(),
        };
        self.signature(block, vec![]);
        self.ir.remove_attr(root, "res_attrs");
        let symbol = format!("{}{name}", self.options.prefix);
        self.ir.set_attr(root, "sym_name", Attr::str(&symbol));
        Ok(Function {
            name,
            symbol,
            arguments,
            arena,
            further,
            marks,
        })
    }

    /// Results become stores to the arguments behind those that there were.
    pub(super) fn results(
        &mut self,
        block: tir::BlockId,
        signature: &FunctionType,
    ) -> Result<(), Failure> {
        let first = signature.inputs.len();
        for op in self.ir.walk_ids() {
            let Some(end) = self.ir.get::<Return>(op) else {
                continue;
            };
            for (k, value) in end.operands.iter().enumerate() {
                let memref = self.ir.arg(block, first + k);
                let store = Store {
                    value: *value,
                    memref,
                    indices: vec![],
                    nontemporal: None,
                };
                self.ir.add(At::Before(op), store);
            }
            self.ir.set_operands(op, &[]);
        }
        Ok(())
    }

    /// Gives a private function what it needs from its callers.
    pub(super) fn private(&mut self, function: &Func) -> Result<(), Failure> {
        let Some(block) = self.ir.entry(function.body) else {
            return Ok(());
        };
        let needs = self.needs.get(&function.sym_name).copied();
        let needs = needs.unwrap_or_default();
        if needs.weights {
            self.weights = Some(self.ir.add_arg(block, raw(self.bytes)));
        }
        if needs.scratch > 0 {
            self.memory(block, function, needs.scratch);
        }
        let results = function.signature().ok_or("has no signature")?;
        self.signature(block, results.results.clone());
        Ok(())
    }

    /// The type of a function whose arguments are known, each buffer of which is memory of its own.
    pub(super) fn signature(&mut self, block: tir::BlockId, results: Vec<Type>) {
        let types: Vec<Type> = self.ir.args(block).map(|v| self.ir.ty(v)).collect();
        let alone = types.iter().map(|ty| {
            let alone = (Name::new("llvm.noalias"), Attr::unit());
            let buffer = ty.is::<MemRefType>().then_some(alone);
            Attr::new(DictAttr::new(buffer.into_iter().collect()))
        });
        let alone = Attr::array(alone.collect::<Vec<_>>());
        let root = self.ir.root();
        self.ir.set_attr(root, "arg_attrs", alone);
        let ty = Attr::ty(Type::function(types, results));
        self.ir.set_attr(root, "function_type", ty);
    }

    /// Bytes of what a function allocates outside of loops.
    pub(super) fn own(&self, function: &Func) -> usize {
        let places = places(self.ir, function, self.options.align);
        places.iter().map(|place| place.bytes).sum()
    }

    /// Gives what is allocated outside of loops a place in an argument of so many bytes.
    pub(super) fn memory(&mut self, block: tir::BlockId, function: &Func, bytes: usize) {
        let places = places(self.ir, function, self.options.align);
        let memory = self.ir.add_arg(block, raw(bytes));
        let mut at = 0;
        for place in places {
            let made = self.ir.result(place.op, 0);
            let ends: Vec<OpId> = self.ir.uses(made).map(|u| u.op).collect();
            for end in ends {
                if ended(self.ir, end) == Some(made) {
                    self.ir.erase(end);
                }
            }
            let view = self.part(At::Before(place.op), memory, at, place.ty);
            self.ir.replace(place.op, &[view]);
            at += place.bytes;
        }
        self.scratch = Some((memory, at));
    }

    /// A part of raw memory.
    pub(super) fn part(&mut self, at: At, source: Value, begin: usize, ty: Type) -> Value {
        let mut b = self.ir.at(at);
        let byte_shift = constant_index(&mut b, begin as i64);
        b.add(View {
            source,
            byte_shift,
            sizes: vec![],
            result: tir::Ret(ty),
        })
    }

    /// Gives a private function that is called what it needs.
    pub(super) fn call(&mut self, op: OpId, callee: Name) {
        let needs = self.needs.get(&callee).copied().unwrap_or_default();
        let mut operands: Vec<Value> = self.ir.operands(op).collect();
        operands.extend(self.weights.filter(|_| needs.weights));
        if let Some((memory, begin)) = self.scratch.filter(|_| needs.scratch > 0) {
            let part = self.part(At::Before(op), memory, begin, raw(needs.scratch));
            operands.push(part);
        }
        let buffer = operands
            .last()
            .is_some_and(|v| self.ir.ty(*v).is::<MemRefType>());
        if let Some(threads) = self.threads.filter(|_| needs.range && buffer) {
            let mut b = self.ir.at(At::Before(op));
            let bytes = constant_index(&mut b, needs.scratch as i64);
            operands.splice(0..0, [threads, bytes]);
            let name = format!("{callee}{SHARED}");
            let types = operands.iter().map(|v| signless(self.ir.ty(*v)));
            let types: Vec<Type> = types.collect();
            self.ir
                .set_attr(op, "callee", Attr::symbol(Name::new(&name)));
            if !self.shared.iter().any(|(known, _)| *known == name) {
                self.shared.push((name, Type::function(types, [])));
            }
        }
        self.ir.set_operands(op, &operands);
    }
}

fn is_output(function: &Func, k: usize) -> bool {
    let attrs = function.arg_attrs.as_ref().and_then(|all| all.get(k));
    let dict = attrs.and_then(|attr| attr.get::<DictAttr>());
    dict.is_some_and(|dict| dict.entries().iter().any(|(key, _)| *key == OUT_ARGUMENT))
}

/// An argument of a library's function for one of the program or a result.
fn argument(ty: Type, role: Role) -> Result<Argument, Failure> {
    let shape = match ty.get::<MemRefType>() {
        Some(memref) if memref.is_dense() && ty.elements().is_some() => &memref.shape[..],
        Some(_) => {
            return Err(format!("takes a {ty}, expected a dense buffer of known size").into());
        }
        None => &[],
    };
    let elem = if ty.is::<MemRefType>() { ty.elem() } else { ty };
    match elem.bytes() {
        Some(_) => Ok(Argument { elem, shape, role }),
        None => Err(format!("takes a {ty}, which is nothing in memory").into()),
    }
}
