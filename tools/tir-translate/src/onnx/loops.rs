//! Regions of a program in the making: bodies of loops and branches.
//!
//! Ops go to the innermost block that is open; constants go in front of all of it, where each body may use them. A body that
//! turns out not to be one (its values change their types, say) is taken back.

use std::collections::{BTreeSet, HashMap};

use tir_core::{At, BlockId, DYNAMIC, Diagnostic, OpId, RegionId, Ret, Traits, Type, Value};
use tir_loop::{Bounds, For, If, Yield};
use tir_onnx::Node;

use super::import::{Cx, Outcome};
use super::report::Report;

/// A region that ops are being put into.
pub(super) struct Open {
    region: RegionId,
    block: BlockId,
    around: BlockId,
    /// What names of constants stood for around it.
    made: HashMap<String, Value>,
}

/// What the import has said so far.
pub(super) struct Said {
    report: Report,
    remarks: Vec<Diagnostic>,
    asked: BTreeSet<String>,
}

impl Cx<'_> {
    /// Begins a region that takes values of these types.
    pub(super) fn enter(&mut self, args: &[Type]) -> (Open, Vec<Value>) {
        let region = self.ir.new_region();
        let block = self.ir.new_block(region);
        let args = args.iter().map(|ty| self.ir.add_arg(block, *ty)).collect();
        let open = Open {
            region,
            block,
            around: std::mem::replace(&mut self.block, block),
            made: self.scope.made.clone(),
        };
        (open, args)
    }

    /// One more value that a region takes.
    pub(super) fn argument(&mut self, open: &Open, ty: Type) -> Value {
        self.ir.add_arg(open.block, ty)
    }

    /// Ends a region: it hands these values on.
    pub(super) fn close(&mut self, open: Open, values: Vec<Value>) -> RegionId {
        self.ir.add(open.block, Yield { values });
        self.block = open.around;
        self.scope.made = open.made;
        open.region
    }

    /// Takes a region back.
    pub(super) fn abandon(&mut self, open: Open) {
        let ops: Vec<OpId> = self.ir.ops_in(open.block).collect();
        self.ir.erase_all(&ops);
        self.block = open.around;
        self.scope.made = open.made;
    }

    /// Takes back a region that was ended and belongs to no op.
    pub(super) fn forget(&mut self, region: RegionId) {
        if let Some(block) = self.ir.entry(region) {
            let ops: Vec<OpId> = self.ir.ops_in(block).collect();
            self.ir.erase_all(&ops);
        }
    }

    /// A tensor without content in front of the innermost region.
    pub(super) fn outside(&mut self, node: &Node, shape: &[i64], elem: Type) -> Outcome<Value> {
        let inner = std::mem::replace(&mut self.block, self.around);
        let made = self.nothing(node, shape, elem);
        self.block = inner;
        made
    }

    /// A loop over `0 .. count` with this body, which takes the index and carried values.
    pub(super) fn repeat(
        &mut self,
        node: &Node,
        count: Bounds,
        init: Vec<Value>,
        body: RegionId,
    ) -> Outcome<Vec<Value>> {
        let types = init.iter().map(|v| self.ir.ty(*v)).collect();
        let bounds = [Bounds::Static(0), count, Bounds::Static(1)];
        self.add_all(node, For::new(bounds, init, body, types))
    }

    /// Takes apart the op of branches whose results these are, so that both branches are computed, unless something in them has effects
    /// or may stop the program: then the condition guards it. Gives what each branch ends with.
    pub(super) fn both(&mut self, results: &[Value]) -> Option<[Vec<Value>; 2]> {
        let ir = &mut self.ir;
        let op = ir.owner(*results.first()?)?;
        let free = |inner: OpId| {
            let ends = ir.has(inner, Traits::Terminator);
            ends || ir.is_pure(inner) && !ir.may_stop(inner)
        };
        if !ir.walk_below(op).into_iter().all(free) {
            return None;
        }
        let mut given = Vec::new();
        for region in ir.regions(op).collect::<Vec<_>>() {
            let block = ir.entry(region)?;
            let end = ir.last(block)?;
            given.push(ir.operands(end).collect::<Vec<Value>>());
            let inner = ir.ops_in(block).filter(|inner| *inner != end);
            for inner in inner.collect::<Vec<_>>() {
                ir.move_op(inner, At::Before(op));
            }
        }
        let condition = ir.operand(op, 0);
        ir.erase(op);
        if let Some(read) = ir.owner(condition).filter(|_| ir.is_unused(condition)) {
            ir.erase(read);
        }
        given.try_into().ok()
    }

    /// One of two regions by a single truth value.
    pub(super) fn either(
        &mut self,
        node: &Node,
        condition: Value,
        [then_region, else_region]: [RegionId; 2],
        types: Vec<Type>,
    ) -> Outcome<Vec<Value>> {
        let results = tir_core::Rets(types);
        self.add_all(
            node,
            If {
                condition,
                then_region,
                else_region,
                results,
            },
        )
    }

    /// The element of a tensor that has one.
    pub(super) fn element(&mut self, node: &Node, x: Value) -> Outcome<Value> {
        let tensor = super::make::Make::new(self, node).reshape(x, &[])?;
        let indices = Vec::new();
        self.add(node, tir_tensor::Extract { tensor, indices })
    }

    /// A tensor without content.
    pub(super) fn nothing(&mut self, node: &Node, shape: &[i64], elem: Type) -> Outcome<Value> {
        let result = Ret(Type::tensor(shape, elem));
        self.add(
            node,
            tir_tensor::Empty {
                dynamic_sizes: Vec::new(),
                space: None,
                result,
            },
        )
    }

    /// What lies at an index of a dimension, which goes.
    pub(super) fn picked(
        &mut self,
        node: &Node,
        x: Value,
        dim: usize,
        at: Value,
    ) -> Outcome<Value> {
        let (shape, elem) = self.shape(x);
        let place = Place::new(shape, dim);
        self.add(
            node,
            tir_tensor::ExtractSlice {
                source: x,
                offsets: vec![at],
                sizes: vec![],
                strides: vec![],
                static_offsets: place.offsets,
                static_sizes: place.sizes,
                static_strides: place.strides,
                result: Ret(Type::tensor(place.kept, elem)),
            },
        )
    }

    /// A tensor with something at an index of a dimension.
    pub(super) fn placed(
        &mut self,
        node: &Node,
        source: Value,
        dest: Value,
        dim: usize,
        at: Value,
    ) -> Outcome<Value> {
        let (shape, elem) = self.shape(dest);
        let place = Place::new(shape, dim);
        self.add(
            node,
            tir_tensor::InsertSlice {
                source,
                dest,
                offsets: vec![at],
                sizes: vec![],
                strides: vec![],
                static_offsets: place.offsets,
                static_sizes: place.sizes,
                static_strides: place.strides,
                result: Ret(Type::tensor(shape, elem)),
            },
        )
    }

    /// An index counted from the end of so many.
    pub(super) fn counted_down(&mut self, at: Value, count: i64) -> Value {
        let mut b = self.ir.at(self.block);
        b.loc = self.loc;
        let last = tir_arith::constant_index(&mut b, count - 1);
        b.add(tir_arith::SubI {
            lhs: last,
            rhs: at,
            overflow: None,
        })
    }

    /// What was said so far, to go back to.
    pub(super) fn said(&self) -> Said {
        Said {
            report: self.report.clone(),
            remarks: self.remarks.clone(),
            asked: self.asked.borrow().clone(),
        }
    }

    /// Forgets what was said since.
    pub(super) fn unsay(&mut self, said: Said) {
        self.report = said.report;
        self.remarks = said.remarks;
        self.asked.replace(said.asked);
    }
}

/// One index of a dimension, and all of the others.
struct Place {
    offsets: Vec<i64>,
    sizes: Vec<i64>,
    strides: Vec<i64>,
    /// The sizes without the dimension.
    kept: Vec<i64>,
}

impl Place {
    fn new(shape: &[i64], dim: usize) -> Self {
        let (mut offsets, mut sizes, mut kept) =
            (vec![0; shape.len()], shape.to_vec(), shape.to_vec());
        (offsets[dim], sizes[dim]) = (DYNAMIC, 1);
        kept.remove(dim);
        Self {
            offsets,
            sizes,
            strides: vec![1; shape.len()],
            kept,
        }
    }
}
