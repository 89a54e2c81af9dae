//! `store-halos`: buffers that are read beyond their ends have room for what is read there.
//!
//! *Terms.* A buffer's **halo** is what transfers read beyond its ends, in each dimension before its first and behind its last
//! position. It is stored with the buffer: a larger one, whose border is set once.
//!
//! *Invariants.* Only transfers use the buffer. Those that read beyond its ends all fill with one constant what lies there, and
//! the border is of that; those that write lie inside, so the border stays.

use tir::pass::{at_least, no_less};
use tir::{
    At, Attr, Builder, DYNAMIC, Failure, Ir, Layout, MemRefType, OpId, Pass, PassCx, PassResult,
    Type, Value, pass,
};
use tir_accel::Direction;
use tir_accel::transfer::Pattern;
use tir_arith::{CmpIPredicate, Constant, OpFoldResult, dispatch_values};
use tir_memref::alias::ended;
use tir_memref::{Alloc, TransferRead, TransferWrite};
use tir_tensor::generic::fill;

use crate::expand_generic::branch;
use crate::insert_dma::each;
use crate::range::{Facts, inside};
use crate::transfer::Transfer;
use crate::views::sub_view;

pass! {
    /// Stores buffers that are read beyond their ends with a border of what is read there, so that reading needs no tests and
    /// no copy.
    pub struct StoreHalos = "store-halos" on "func.func" {
        /// Maximum growth of a buffer, in hundredths of its bytes.
        pub growth: i64 = 100 => no_less(0),
    }
}

impl Pass for StoreHalos {
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        at_least("growth", self.growth, 0)?;
        let mut done = 0;
        let all = ir.walk_ids().into_iter();
        let buffers: Vec<OpId> = all.filter(|op| ir.is::<Alloc>(*op)).collect();
        for op in buffers {
            if let Some(halo) = Halo::of(ir, op, self.growth) {
                halo.store(ir, op).map_err(|error| vec![*error])?;
                done += 1;
            }
        }
        cx.count("halos stored", done);
        if done == 0 {
            cx.unchanged();
        }
        Ok(())
    }
}

/// What is read beyond the ends of a buffer.
struct Halo {
    /// Positions before the first and behind the last of each dimension.
    beyond: Vec<[i64; 2]>,
    transfers: Vec<OpId>,
    /// What lies there; none: zero.
    border: Option<Attr>,
    ty: Type,
}

impl Halo {
    fn of(ir: &Ir, op: OpId, growth: i64) -> Option<Self> {
        ir.get::<Alloc>(op)?;
        let buffer = ir.result(op, 0);
        let memref: &MemRefType = ir.ty(buffer).get()?;
        let plain = memref.layout == Layout::Identity && !memref.shape.contains(&DYNAMIC);
        if !plain || memref.shape.is_empty() {
            return None;
        }
        let mut beyond = vec![[0i64; 2]; memref.shape.len()];
        let mut transfers = Vec::new();
        let mut border: Option<Option<Attr>> = None;
        for used in ir.uses(buffer) {
            if ended(ir, used.op) == Some(buffer) {
                continue;
            }
            let t = Transfer::of(ir, used.op).filter(|t| t.far == buffer && t.tile != buffer)?;
            transfers.push(used.op);
            let pattern = Pattern::new(ir.ty(t.far), ir.ty(t.tile), &t.access).ok()?;
            let facts = Facts::at(ir, used.op);
            let padding = match t.padding.filter(|value| !is_zero(ir, *value)) {
                None => Some(None),
                Some(value) => ir.constant(value).map(Some),
            };
            for (s, form) in pattern.access.iter().enumerate() {
                let size = pattern.far_shape[s];
                if inside(ir, &facts, t.offsets[s], form, &pattern.tile_shape, size) {
                    continue;
                }
                if t.direction == Direction::Write || *border.get_or_insert(padding?) != padding? {
                    return None;
                }
                let reach = facts.of(ir, t.offsets[s])?;
                let reach = reach.plus(form.range(&pattern.tile_shape)?)?;
                beyond[s][0] = beyond[s][0].max(-reach.low);
                beyond[s][1] = beyond[s][1].max(reach.high - (size - 1));
            }
        }
        let shape = memref.shape.iter().zip(&beyond);
        let shape: Vec<i64> = shape
            .map(|(n, [before, behind])| n + before + behind)
            .collect();
        let elements = |shape: &[i64]| shape.iter().try_fold(1i64, |all, n| all.checked_mul(*n));
        let (old, new) = (elements(&memref.shape)?, elements(&shape)?);
        let small = new > old && new - old <= old.checked_mul(growth)? / 100;
        let ty = Type::new(MemRefType {
            shape,
            ..memref.clone()
        });
        small.then_some(Self {
            beyond,
            transfers,
            border: border.flatten(),
            ty,
        })
    }

    fn store(&self, ir: &mut Ir, op: OpId) -> Result<(), tir::Failure> {
        let old = ir.result(op, 0);
        for op in &self.transfers {
            let Some(t) = Transfer::of(ir, *op) else {
                continue;
            };
            let mut b = ir.at(At::Before(*op));
            let mut offsets = Vec::new();
            for (offset, [before, _]) in t.offsets.iter().zip(&self.beyond) {
                offsets.push(offset.plus(&mut b, *before));
            }
            let (offsets, static_offsets) = dispatch_values(&offsets);
            // A copy of the whole buffer reads a part of it now.
            let Transfer {
                far,
                tile,
                padding,
                access,
                ..
            } = t;
            match t.direction {
                Direction::Read => {
                    b.add(TransferRead {
                        source: far,
                        tile,
                        offsets,
                        padding,
                        static_offsets,
                        access,
                    });
                }
                Direction::Write => {
                    b.add(TransferWrite {
                        tile,
                        dest: far,
                        offsets,
                        static_offsets,
                        access,
                    });
                }
            }
            ir.erase(*op);
        }
        ir.set_type(old, self.ty);
        let mut b = ir.at(At::After(op));
        let border = self.border.map(|value| b.add(Constant { value }));
        self.fill(&mut b, old, border)
    }

    /// Fills the border. One of several dimensions is filled row by row in one nest, which threads divide as they divide
    /// what computes the rows.
    fn fill(
        &self,
        b: &mut Builder<'_>,
        buffer: Value,
        border: Option<Value>,
    ) -> Result<(), Failure> {
        let shape = self.ty.shape().unwrap_or(&[]);
        let zero = vec![OpFoldResult::Number(0); shape.len()];
        let part = |b: &mut Builder<'_>, offsets: &[OpFoldResult], sizes: &[i64]| {
            let part = sub_view(b, buffer, offsets, sizes, sizes)?;
            fill(b, part, border);
            Ok(())
        };
        let bordered = |(s, size): (usize, [i64; 2])| (size != [0, 0]).then_some(s);
        let sides: Vec<usize> = self
            .beyond
            .iter()
            .copied()
            .enumerate()
            .filter_map(bordered)
            .collect();
        // What lies on both sides along a dimension, of some of the others.
        let along = |b: &mut Builder<'_>, s: usize, offsets: &[OpFoldResult], sizes: &[i64]| {
            let [before, behind] = self.beyond[s];
            for (from, size) in [(0, before), (shape[s] - behind, behind)] {
                if size > 0 {
                    let (mut offsets, mut sizes) = (offsets.to_vec(), sizes.to_vec());
                    (offsets[s], sizes[s]) = (OpFoldResult::Number(from), size);
                    part(b, &offsets, &sizes)?;
                }
            }
            Ok(())
        };
        let [rows, others @ ..] = &sides[..] else {
            return Ok(());
        };
        if others.is_empty() {
            return along(b, *rows, &zero, shape);
        }
        let [before, behind] = self.beyond[*rows];
        each(b, shape[*rows], |b, row| {
            let (mut offsets, mut sizes) = (zero.clone(), shape.to_vec());
            (offsets[*rows], sizes[*rows]) = (OpFoldResult::Value(row), 1);
            let row = OpFoldResult::Value(row).minus(b, before);
            let size = shape[*rows] - before - behind;
            let inside = row.compare(b, CmpIPredicate::Ult, size);
            branch(
                b,
                inside,
                |b| {
                    others
                        .iter()
                        .try_for_each(|s| along(b, *s, &offsets, &sizes))
                },
                Some(&mut |b| part(b, &offsets, &sizes)),
            )
        })
    }
}

fn is_zero(ir: &Ir, value: Value) -> bool {
    let constant = ir.constant(value);
    constant.is_some_and(|attr| tir::interp::Scalar::from_attr(attr).is_some_and(|s| s.bits == 0))
}
