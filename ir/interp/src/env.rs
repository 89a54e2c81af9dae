//! What running code can reach: memory, functions, symbols, options, objects of dialects.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::rc::Rc;

use tir_core::{
    Attr, DenseElements, Failure, Ir, Loc, Name, OpId, OpRef, Scopes, SymbolTable, Type,
};
use tir_data::{Array, Bytes};

use crate::code::Code;
use crate::compile::compile_function;
use crate::data::{Data, failure, fitted, tensor_form, update};
use crate::exec::run_code;
use crate::memory::{Alloc, Memory, PlainMemory, Site};
use crate::scalar::{Kind, Scalar};
use crate::view::View;
use crate::wide::{Wide, attr_of_bits, splat_int};
use tir_data::BufferId;

/// Limits of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Steps before a run is given up: iterations of loops, jumps, calls, and 64 points of a loop
    /// nest of a kernel count one each. Default 20,000,000,000.
    pub steps: u64,
    /// Calls inside calls. Default 400.
    pub depth: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            steps: 20_000_000_000,
            depth: 400,
        }
    }
}

pub(crate) enum Store {
    Plain(PlainMemory),
    Other(Box<dyn Memory>),
}

/// What running code can reach.
pub struct Env<'m> {
    module: &'m Ir,
    scopes: Scopes<'m>,
    /// Limits.
    pub options: Options,
    pub(crate) store: Store,
    objects: HashMap<TypeId, Box<dyn Any>>,
    functions: HashMap<Name, Rc<Code<'m>>>,
    pub(crate) left: u64,
    pub(crate) depth: u32,
    pub(crate) site: Site,
    pub(crate) exit: Option<Site>,
    /// Whether the memory holds no data.
    pub(crate) dataless: bool,
    /// Whether the memory wants to know of scalar operations; see [`Memory::counts_work`]. Counts
    /// for functions that are called for the first time from then on.
    pub(crate) counts_work: bool,
    /// Whether the run failed where it would have had to look at data that is not there.
    pub(crate) lacked_data: bool,
    watched: Option<Rc<HashMap<OpId, u32>>>,
    watched_loops: Option<Rc<HashMap<OpId, u32>>>,
}

impl<'m> Env<'m> {
    /// An environment with plain memory.
    pub fn new(module: &'m Ir) -> Self {
        let mut scopes = Scopes::default();
        scopes.push(SymbolTable::new(module));
        let options = Options::default();
        Self {
            module,
            scopes,
            options,
            store: Store::Plain(PlainMemory::default()),
            objects: HashMap::new(),
            functions: HashMap::new(),
            left: options.steps,
            depth: 0,
            site: Site {
                loc: Loc::UNKNOWN,
                host: true,
                ..Site::of(module.op(module.root()))
            },
            exit: None,
            dataless: false,
            counts_work: false,
            lacked_data: false,
            watched: None,
            watched_loops: None,
        }
    }

    /// Makes the symbols of a module known to a function that runs without it, so that it may call.
    pub fn set_around(&mut self, module: &'m Ir) {
        self.scopes.push(SymbolTable::new(module));
    }

    /// The module.
    pub fn module(&self) -> &'m Ir {
        self.module
    }
    /// The op that runs now, for messages.
    pub fn site(&self) -> Site {
        self.site
    }
    /// Does something that the host does on behalf of the op that runs now.
    pub fn as_host<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        let outer = self.site;
        self.site.host = true;
        let result = work(self);
        self.site = outer;
        result
    }
    /// The op that defines a symbol of the module.
    pub fn symbol(&self, name: Name) -> Option<OpRef<'m>> {
        self.scopes.get(name)
    }

    /// The object of this type that was put here.
    pub fn ext<T: Any>(&self) -> Option<&T> {
        self.objects.get(&TypeId::of::<T>())?.downcast_ref()
    }
    /// Puts an object here; gives back the earlier one of its type.
    pub fn put_ext<T: Any>(&mut self, object: T) -> Option<T> {
        let old = self.objects.insert(TypeId::of::<T>(), Box::new(object))?;
        old.downcast().ok().map(|b| *b)
    }
    /// Takes the object of this type out.
    pub fn take_ext<T: Any>(&mut self) -> Option<T> {
        let old = self.objects.remove(&TypeId::of::<T>())?;
        old.downcast().ok().map(|b| *b)
    }

    /// Runs on other memory from now on.
    pub fn set_memory(&mut self, memory: impl Memory) {
        self.dataless = memory.is_dataless();
        self.counts_work = memory.counts_work();
        self.store = Store::Other(Box::new(memory));
    }
    /// Takes memory of this type out; the program has none then but plain memory.
    pub fn take_memory<T: Memory>(&mut self) -> Option<T> {
        self.memory_as::<T>()?;
        self.dataless = false;
        self.counts_work = false;
        match std::mem::replace(&mut self.store, Store::Plain(PlainMemory::default())) {
            Store::Other(memory) => (memory as Box<dyn Any>).downcast().ok().map(|m| *m),
            Store::Plain(_) => None,
        }
    }
    /// Whether the memory holds no data; see [`Memory::is_dataless`].
    pub fn is_dataless(&self) -> bool {
        self.dataless
    }
    /// Whether a run without data failed because it needed some: by a branch, a bound or an
    /// address that depends on data.
    pub fn lacked_data(&self) -> bool {
        self.lacked_data
    }
    /// Tells the memory by [`Memory::passed`] when one of these ops has run to its end. Counts for
    /// functions that are called for the first time from here on.
    pub fn watch(&mut self, ops: impl IntoIterator<Item = OpId>) {
        self.watched = Some(Rc::new(ops.into_iter().zip(0..).collect()));
    }
    pub(crate) fn watched(&self) -> Option<Rc<HashMap<OpId, u32>>> {
        self.watched.clone()
    }
    /// Asks the memory by [`Memory::round`] at the start of each iteration of these counted loops. Counts for functions
    /// that are called for the first time from here on.
    pub fn watch_loops(&mut self, loops: impl IntoIterator<Item = OpId>) {
        self.watched_loops = Some(Rc::new(loops.into_iter().zip(0..).collect()));
    }
    pub(crate) fn watched_loops(&self) -> Option<Rc<HashMap<OpId, u32>>> {
        self.watched_loops.clone()
    }
    /// The return by which the last call from outside ended.
    pub fn exit(&self) -> Option<Site> {
        self.exit
    }
    /// The memory.
    pub fn memory(&mut self) -> &mut dyn Memory {
        match &mut self.store {
            Store::Plain(plain) => plain,
            Store::Other(other) => &mut **other,
        }
    }
    /// The memory, if it is of this type.
    pub fn memory_as<T: Memory>(&mut self) -> Option<&mut T> {
        (self.memory() as &mut dyn Any).downcast_mut()
    }

    /// Counts a call inside calls.
    pub(crate) fn enter(&mut self) -> Result<(), Failure> {
        let limit = self.options.depth;
        if self.depth >= limit {
            return Err(format!("calls nest deeper than {limit}, the limit of this run").into());
        }
        self.depth += 1;
        Ok(())
    }

    /// Whether the last run ended because it took all its steps.
    pub fn is_out_of_steps(&self) -> bool {
        self.left == 0
    }
    /// Counts steps; fails when the limit is reached.
    pub fn step(&mut self, steps: u64) -> Result<(), Failure> {
        match self.left.checked_sub(steps) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = 0;
                Err(out_of_steps(self.options.steps))
            }
        }
    }

    /// The compiled function of a name.
    pub(crate) fn function(&mut self, name: Name) -> Result<Rc<Code<'m>>, Failure> {
        if let Some(code) = self.functions.get(&name) {
            return Ok(code.clone());
        }
        let op = self
            .symbol(name)
            .ok_or_else(|| format!("there is no symbol @{name}"))?;
        let code = Rc::new(compile_function(self, name, op)?);
        self.functions.insert(name, code.clone());
        Ok(code)
    }

    /// Calls a function of the module.
    pub fn call(&mut self, function: Name, args: Vec<Data>) -> Result<Vec<Data>, Failure> {
        let code = self.function(function)?;
        if code.params.len() != args.len() {
            let (want, found) = (code.params.len(), args.len());
            return Err(format!("@{function} has {want} arguments, {found} given").into());
        }
        for (i, (arg, (_, ty))) in args.iter().zip(&code.params).enumerate() {
            arg.check(*ty)
                .map_err(|e| e.context(format_args!("argument {i} of @{function}: ")))?;
        }
        run_code(self, code, args)
    }

    /// Runs the function at the root of the arena: for functions without their module.
    pub fn call_root(&mut self, args: Vec<Data>) -> Result<Vec<Data>, Failure> {
        let root = self.module.op(self.module.root());
        let code = Rc::new(compile_function(self, root.name(), root)?);
        if code.params.len() != args.len() {
            let (want, found) = (code.params.len(), args.len());
            return Err(format!("has {want} arguments, {found} given").into());
        }
        self.left = self.options.steps;
        run_code(self, code, args)
    }

    /// A new dense buffer.
    pub fn alloc(
        &mut self,
        kind: Kind,
        shape: &[i64],
        align: u64,
        space: Option<Name>,
    ) -> Result<View, Failure> {
        self.alloc_named(kind, shape, align, space, None)
    }
    /// A new dense buffer with a name for messages.
    pub fn alloc_named(
        &mut self,
        kind: Kind,
        shape: &[i64],
        align: u64,
        space: Option<Name>,
        name: Option<Name>,
    ) -> Result<View, Failure> {
        let mut bytes = kind.bytes() as u64;
        for &dim in shape {
            let dim =
                u64::try_from(dim).map_err(|_| format!("a buffer with a dimension of {dim}"))?;
            bytes = bytes
                .checked_mul(dim)
                .ok_or("the size of a buffer overflows")?;
        }
        let want = Alloc {
            bytes,
            align,
            space,
            name,
            site: self.site,
        };
        let buffer = self.memory().alloc(&want)?;
        Ok(View::dense(buffer, kind, shape))
    }
    /// Ends a buffer.
    pub fn dealloc(&mut self, buffer: BufferId) -> Result<(), Failure> {
        let site = self.site;
        self.memory().dealloc(buffer, site)
    }
    /// The program thread reads the elements of a view.
    pub fn read_view(&mut self, view: &View) -> Result<Vec<u8>, Failure> {
        let site = self.site;
        if self.dataless {
            self.lacked_data = true;
            return Err("needs the data of a memref, and the program runs without data".into());
        }
        let memory = self.memory();
        memory.touch(view, false, site)?;
        Ok(view.gather(memory.bytes(view.buffer)?)?)
    }
    /// The program thread writes the elements of a view from dense row-major bytes.
    pub fn write_view(&mut self, view: &View, data: &[u8]) -> Result<(), Failure> {
        let site = self.site;
        let dataless = self.dataless;
        let memory = self.memory();
        memory.touch(view, true, site)?;
        if dataless {
            return Ok(());
        }
        Ok(view.scatter(memory.bytes_mut(view.buffer)?, data)?)
    }
    /// The program thread copies between views of equal shape and kind.
    pub fn copy_view(&mut self, from: &View, to: &View) -> Result<(), Failure> {
        if from.shape != to.shape || from.kind != to.kind {
            let (a, b) = ((&from.shape, from.kind), (&to.shape, to.kind));
            return Err(format!("copy of {a:?} to {b:?}").into());
        }
        if self.dataless {
            self.touch(from, false)?;
            return self.touch(to, true);
        }
        let bytes = self.read_view(from)?;
        self.write_view(to, &bytes)
    }
    /// The program thread reads or writes the elements of a view, without asking for the bytes:
    /// what an op on memory does in a run without data.
    pub fn touch(&mut self, view: &View, write: bool) -> Result<(), Failure> {
        let site = self.site;
        self.memory().touch(view, write, site)
    }
    /// A view's elements as a tensor of this type.
    pub fn view_to_array(&mut self, view: &View, elem: Type) -> Result<Array, Failure> {
        let bytes = self.read_view(view)?;
        crate::data::array_of(elem, &view.shape, bytes)
    }
    /// A new buffer that holds a tensor.
    pub fn array_to_view(&mut self, array: &Array, space: Option<Name>) -> Result<View, Failure> {
        let shape: Vec<i64> = array.shape().iter().map(|&d| d as i64).collect();
        let kind = Kind::of_dtype(array.dtype());
        let view = self.alloc(kind, &shape, crate::GIVEN_ALIGN, space)?;
        self.write_view(&view, array.bytes())?;
        Ok(view)
    }
}

pub(crate) fn out_of_steps(limit: u64) -> Failure {
    format!("the program ran for {limit} steps, the limit of this run").into()
}

/// The value of an attribute: numbers, dense elements, blobs that are loaded.
pub fn constant(attr: Attr, ty: Type) -> Result<Data, Failure> {
    if let Some(Kind::Int(width @ 65..)) = Kind::wide(ty)
        && let Some((value, _)) = splat_int(attr)
    {
        let bits = value as u128 & (u128::MAX >> (128 - width));
        return Ok(Data::Wide(Wide { bits, width }));
    }
    if let Some(scalar) = Scalar::from_attr(attr) {
        return Ok(Data::Scalar(scalar));
    }
    if let Some(dense) = attr.get::<DenseElements>() {
        return dense_array(dense).map(Data::Tensor);
    }
    if attr.is::<tir_core::BlobAttr>() {
        return crate::elements::elements(attr).map(Data::Tensor);
    }
    let text = attr.to_string();
    let text: String = text.chars().take(60).collect();
    Err(format!("constant {text} of type {ty} has no value that is known").into())
}

/// The array of dense elements.
pub fn dense_array(dense: &DenseElements) -> Result<Array, Failure> {
    let (dtype, shape) = tensor_form(dense.ty)?;
    let len = dtype
        .byte_len(&shape)
        .ok_or("the size of a constant overflows")?;
    let kind = Kind::of(dense.ty.elem()).ok_or("elements of an unknown kind")?;
    let size = dtype.size();
    if kind.bytes() != size {
        return Err("elements of an unknown size".into());
    }
    if !dense.is_splat() || len == size {
        let array = Array::new(dtype, &shape, Bytes::copy_from_slice(&dense.data));
        return fitted(array.map_err(failure)?, dense.ty);
    }
    let fill = crate::data::zeros(dtype, &shape)?;
    let (array, ()) = update(fill, |bytes| {
        bytes
            .chunks_exact_mut(size)
            .for_each(|c| c.copy_from_slice(&dense.data));
    })?;
    fitted(array, dense.ty)
}

/// The attribute of a run-time value of this type: numbers, and elements of tensors.
pub fn to_attr(data: &Data, ty: Type) -> Option<Attr> {
    match data {
        Data::Scalar(scalar) => Some(scalar.to_attr(ty)),
        Data::Wide(wide) => attr_of_bits(wide.bits, ty),
        Data::Tensor(array) => {
            data.check(ty).ok()?;
            Some(Attr::new(DenseElements {
                ty,
                data: array.bytes().into(),
            }))
        }
        _ => None,
    }
}
