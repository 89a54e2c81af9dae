//! `winograd`: 3x3 convolutions by Winograd's filtering.

use tir::interp::elements;
use tir::pass::one_of;
use tir::{
    At, Attr, Diagnostic, Failure, Ir, OpId, OpState, Pass, PassCx, PassResult, Ret, Type, Value,
    Work, pass,
};
use tir_accel::{AttachedMachine, MachineInfo};
use tir_egraph::cost_model::{CostModel, Fused};
use tir_graph::winograd::{Bound, KERNEL, Winograd as Form};
use tir_graph::{Conv2d, MatMul, WinogradFilter, WinogradInput, WinogradOutput};

pass! {
    /// Computes convolutions of `f32` with 3x3 kernels, stride 1 and one group by Winograd's filtering: transforms of
    /// input, filters and result (`graph.winograd_…`) around a product of matrices for each point of a tile.
    ///
    /// F(2x2, 3x3) takes 2.25 times fewer multiplications, F(4x4, 3x3) four times fewer, where tiles cover the result
    /// without a rest; filters grow by 16/9 and 4. A convolution is taken where the cycles that the cost model of
    /// `egraph` gives for the attached machine, or the one that it assumes if there is none, are so many times fewer as
    /// `gain` says. Results differ by rounding, those of larger tiles by more; with `remarks` a remark names the bound.
    pub struct Winograd = "winograd" on "func.func" {
        /// Sides of tiles: `2`, `4`, `best` for the one of both with fewer cycles, or `none`, which does nothing.
        pub tile: String = "best".to_string() => one_of(&["2", "4", "best", "none"]),
        /// Fewest channels, and fewest filters, of a convolution that is taken.
        pub min_channels: i64 = 16,
        /// How many hundredths of its cycles a convolution must take as it is; 0 takes all that are possible.
        pub gain: u64 = 120,
        /// Say of each convolution why it is not taken, or how far its results can be from those of the convolution as it is.
        pub remarks: bool = false,
    }
}

impl Pass for Winograd {
    fn prepare(&self, parent: &Ir, cx: &mut PassCx<'_>) -> PassResult {
        cx.analysis::<AttachedMachine>(parent);
        Ok(())
    }
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let tiles = match self.tile.as_str() {
            "2" => &[2][..],
            "4" => &[4],
            "best" => &[2, 4],
            "none" => {
                cx.unchanged();
                return Ok(());
            }
            other => {
                let error = format!("has tile={other}, expected 2, 4, best or none");
                return Err(vec![Diagnostic::error(error)]);
            }
        };
        cx.each(ir, &|ir, cx| {
            let attached = cx.outer::<AttachedMachine>();
            let machine: Option<&MachineInfo> = attached
                .as_deref()
                .and_then(|a| a.0.as_ref())
                .map(|(machine, _)| machine);
            let model = machine.map_or_else(CostModel::default, CostModel::of);
            let (mut taken, mut remarks) = (0, Vec::new());
            for op in ir.walk_ids() {
                let Some(conv) = ir.get::<Conv2d>(op) else {
                    continue;
                };
                let loc = ir.loc(op);
                let said = match self.take(ir, op, &conv, tiles, &model) {
                    Ok(said) => {
                        taken += 1;
                        said
                    }
                    Err(why) => format!(
                        "this convolution is not computed by Winograd's filtering: {}",
                        why.message
                    ),
                };
                remarks.push(Diagnostic::remark(said).at(loc));
            }
            cx.count("taken", taken);
            if self.remarks {
                remarks.into_iter().for_each(|remark| cx.remark(remark));
            }
            if taken == 0 {
                cx.unchanged();
            }
            Ok(())
        })
    }
}

impl Winograd {
    /// Replaces a convolution by the quickest form; says which. The failure says why it stays.
    fn take(
        &self,
        ir: &mut Ir,
        op: OpId,
        conv: &Conv2d,
        tiles: &[i64],
        model: &CostModel,
    ) -> Result<String, Failure> {
        self.admits(ir, op, conv)?;
        let direct = cycles(ir, &[op], model);
        let mut best: Option<Parts> = None;
        for tile in tiles {
            let parts = Parts::make(ir, op, conv, *tile, model)?;
            match &mut best {
                Some(known) if known.cycles <= parts.cycles => parts.erase(ir),
                Some(known) => std::mem::replace(known, parts).erase(ir),
                None => best = Some(parts),
            }
        }
        let best = best.ok_or("there are no sides of tiles")?;
        let cycles = best.cycles;
        if u128::from(direct) * 100 < u128::from(cycles) * u128::from(self.gain) {
            best.erase(ir);
            let gain = self.gain;
            return Err(format!(
                "it takes {direct} cycles as it is and {cycles} so, with gain={gain}"
            )
            .into());
        }
        let form = Form::new(best.tile)?;
        let tile = form.tile;
        let mut said = format!(
            "this convolution is computed by F({tile}x{tile}, 3x3): {cycles} cycles are estimated in place of {direct}"
        );
        // Filters are transformed once more for it.
        match self.remarks.then(|| bound(ir, conv, &form)) {
            None => {}
            Some(Some(bound)) => {
                said += &format!(
                    "; where no input is larger than x, results are at most {:.1e} x from those of the convolution as \
                     it is, and {:.1e} r are expected for random inputs of root mean square r",
                    bound.worst, bound.expected
                );
            }
            Some(None) => said += "; its weights are not known, so no bound of the error is",
        }
        let hint = ir.hint(ir.result(op, 0));
        ir.set_hint(best.result, hint);
        ir.replace(op, &[best.result]);
        Ok(said)
    }

    /// Says why a convolution cannot be computed so.
    fn admits(&self, ir: &Ir, op: OpId, conv: &Conv2d) -> Result<(), Failure> {
        let (x, w, y) = (ir.ty(conv.x), ir.ty(conv.w), ir.ty(ir.result(op, 0)));
        let (Some(&[_, c, ..]), Some(&[o, _, kh, kw])) = (x.shape(), w.shape()) else {
            return Err("its operands have not rank 4".into());
        };
        if x.elem() != Type::f32() {
            return Err(format!("it is of {}, expected f32", x.elem()).into());
        }
        let side = KERNEL as i64;
        if [kh, kw] != [side, side] {
            return Err(format!("its kernel is {kh} x {kw}, expected 3 x 3").into());
        }
        let ones = |name: &str, found: &[i64]| match found.iter().all(|n| *n == 1) {
            true => Ok(()),
            false => Err(Failure::from(format!(
                "its {name} are {found:?}, expected 1"
            ))),
        };
        ones("strides", &conv.strides)?;
        ones("dilations", &conv.dilations)?;
        if conv.groups != 1 {
            return Err(format!("it has {} groups, expected 1", conv.groups).into());
        }
        let least = self.min_channels;
        if c.min(o) < least {
            return Err(
                format!("it has {c} channels and {o} filters, and min-channels={least}").into(),
            );
        }
        if y.elements().unwrap_or(0) == 0 {
            return Err("it has no results".into());
        }
        Ok(())
    }
}

/// The ops that compute a convolution.
struct Parts {
    tile: i64,
    result: Value,
    /// In order.
    ops: Vec<OpId>,
    /// Cycles by the cost model.
    cycles: u64,
}

impl Parts {
    fn make(
        ir: &mut Ir,
        op: OpId,
        conv: &Conv2d,
        tile: i64,
        model: &CostModel,
    ) -> Result<Self, Failure> {
        let constant = ir.constant(conv.w).is_some();
        let y = Ret(ir.ty(ir.result(op, 0)));
        let loc = ir.loc(op);
        let mut b = ir.at(At::Before(op));
        b.loc = loc;
        let mut ops = Vec::new();
        let mut add = |state: OpState| -> Result<Value, Failure> {
            let made = b.try_create(state)?;
            ops.push(made);
            Ok(b.ir.result(made, 0))
        };
        let made = (|| {
            let w = conv.w;
            let u = add(tir::Op::state(WinogradFilter { w, tile }))?;
            let v = add(tir::Op::state(WinogradInput {
                x: conv.x,
                tile,
                pads: conv.pads.clone(),
            }))?;
            let m = add(tir::Op::state(MatMul { a: v, b: u }))?;
            add(tir::Op::state(WinogradOutput {
                m,
                bias: conv.bias,
                tile,
                y,
            }))
        })();
        let mut parts = Self {
            tile,
            result: conv.x,
            ops,
            cycles: 0,
        };
        match made {
            Ok(result) => parts.result = result,
            Err(why) => {
                parts.erase(ir);
                return Err(why);
            }
        }
        // Constant filters are transformed once, at compile time.
        let run = &parts.ops[usize::from(constant)..];
        parts.cycles = cycles(ir, run, model);
        Ok(parts)
    }

    fn erase(self, ir: &mut Ir) {
        for op in self.ops.into_iter().rev() {
            ir.erase(op);
        }
    }
}

/// The cycles of ops one behind the other.
fn cycles(ir: &Ir, ops: &[OpId], model: &CostModel) -> u64 {
    let each = ops.iter().map(|op| Work::of(ir.op(*op)));
    each.map(|work| model.cycles(&work, &Fused::default()))
        .sum()
}

/// Bounds of the error, where weights are constant.
fn bound(ir: &Ir, conv: &Conv2d, form: &Form) -> Option<Bound> {
    let value: Attr = ir.constant(conv.w)?;
    let weights = elements(value).ok()?;
    let channels = *weights.shape().get(1)?;
    Some(Bound::of(form, channels, weights.iter_f64()))
}
