//! `constant-fold`: what folds to constants or can be evaluated on them, and nothing else.

use tir::interp::{EvaluateOp, attr_named, elements};
use tir::rewrite::Rewriter;
use tir::{
    Attr, BlobAttr, Data, DenseElements, Dialect, Greedy, Ir, OpId, Pass, PassCx, PassResult,
    Patterns, Type, pass,
};

use crate::canonicalize::greedily;

pass! {
    /// Folds ops with constant results, by their folders and by evaluating side-effect-free ops on
    /// constant tensors; applies no rewrite patterns.
    pub struct ConstantFold = "constant-fold" {
        /// Evaluate ops on constant tensors, in addition to folding.
        pub evaluate: bool = true,
        /// Maximum growth: a result with more elements than this factor times those of the operands
        /// is not evaluated unless `small` allows it.
        pub growth: usize = 16,
        /// Maximum number of elements of a result that is evaluated whatever its growth.
        pub small: usize = 4096,
    }
}

impl Pass for ConstantFold {
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let patterns = Patterns::none();
        let greedy = Greedy::new(&patterns);
        cx.each(ir, &|ir, cx| {
            let evaluated = if self.evaluate { self.all(ir) } else { 0 };
            cx.count("evaluated", evaluated);
            if !greedily(ir, cx, &greedy) && evaluated == 0 {
                cx.unchanged();
            }
            Ok(())
        })
    }
}

impl ConstantFold {
    /// Evaluates what can be, operands first; says how many ops.
    fn all(&self, ir: &mut Ir) -> usize {
        let mut evaluated = 0;
        for op in ir.walk_ids() {
            let Some(values) = self.values(ir, op) else {
                continue;
            };
            let dialect = ir.name(op).dialect();
            let types = ir.result_types(op);
            let mut rw = Rewriter::new(ir, op);
            let made = rw.build(|b| {
                let make = Dialect::named(dialect)?.constant?;
                let all = values.iter().zip(&types);
                all.map(|(value, ty)| make(b, *value, *ty))
                    .collect::<Option<Vec<_>>>()
            });
            let Some(made) = made else {
                continue;
            };
            if made.iter().zip(&types).all(|(v, ty)| rw.ty(*v) == *ty) {
                rw.replace(op, &made);
                evaluated += 1;
            }
        }
        evaluated
    }

    /// What the op gives, if its operands are constant tensors and it can be evaluated.
    fn values(&self, ir: &Ir, op: OpId) -> Option<Vec<Attr>> {
        let evaluate = ir.info(op)?.interface::<dyn EvaluateOp>()?;
        if !ir.is_pure(op) || ir.regions(op).len() > 0 || ir.operands(op).len() == 0 {
            return None;
        }
        // What puts its result into a memory of its own choice moves it there; a constant does not.
        if ir.placed(op).is_some() {
            return None;
        }
        let types = ir.result_types(op);
        let count = |ty: Type| ty.shape().and_then(|_| ty.elements());
        let given = ir.operands(op).map(|v| count(ir.ty(v)));
        let given = given.sum::<Option<usize>>()?;
        let most = given.saturating_mul(self.growth).max(self.small);
        let fits = |ty: &Type| count(*ty).is_some_and(|n| n <= most);
        if types.is_empty() || !types.iter().all(fits) {
            return None;
        }
        let constants = ir.operands(op).map(|v| ir.constant(v));
        let constants: Vec<Attr> = constants.collect::<Option<_>>()?;
        let inputs = constants
            .iter()
            .map(|attr| elements(*attr).ok().map(Data::from));
        let inputs: Vec<Data> = inputs.collect::<Option<_>>()?;
        let outputs = evaluate.evaluate(ir.op(op), &inputs).ok()?;
        let key = constants.iter().find_map(|attr| attr.get::<BlobAttr>());
        let key = key.map_or("constant", |blob| &blob.key);
        let values = outputs.iter().zip(types).map(|(data, ty)| {
            let attr = attr_named(data.as_tensor().ok()?, key);
            typed(attr, ty)
        });
        let values: Vec<Attr> = values.collect::<Option<_>>()?;
        (values.len() == outputs.len()).then_some(values)
    }
}

/// Elements as a tensor of a type of the same shape: encodings say nothing of values.
fn typed(attr: Attr, ty: Type) -> Option<Attr> {
    let found = attr.type_of()?;
    (found.shape() == ty.shape() && found.elem() == ty.elem()).then_some(())?;
    if found == ty {
        return Some(attr);
    }
    if let Some(dense) = attr.get::<DenseElements>() {
        let data = dense.data.clone();
        return Some(Attr::new(DenseElements { ty, data }));
    }
    let blob = attr.get::<BlobAttr>()?.clone();
    Some(Attr::new(BlobAttr { ty, ..blob }))
}
