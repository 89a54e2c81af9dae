//! Whether two modules say the same.

use rustc_hash::FxHashMap;
use tir_core::{BlockId, Diagnostic, Ir, OpId, OpRef, Value};

/// Compares two isolated operations up to the names of values and blocks; locations only if asked
/// for. The error names the first operation that differs.
pub fn equal(a: &Ir, b: &Ir, locations: bool) -> Result<(), Diagnostic> {
    let mut cx = Compare {
        locations,
        values: FxHashMap::default(),
        blocks: FxHashMap::default(),
    };
    cx.op(a.root_ref(), b.root_ref())?;
    Ok(())
}

struct Compare {
    locations: bool,
    values: FxHashMap<Value, Value>,
    blocks: FxHashMap<BlockId, BlockId>,
}

fn differ(
    a: OpRef<'_>,
    b: OpRef<'_>,
    what: &str,
    x: impl ToString,
    y: impl ToString,
) -> Diagnostic {
    let name = a.name();
    let (x, y) = (x.to_string(), y.to_string());
    Diagnostic::error(format!("'{name}' differs in its {what}: {x} and {y}"))
        .at(a.loc())
        .note_at(b.loc(), "the other one")
}

fn types(ir: &Ir, values: impl Iterator<Item = Value>) -> String {
    let all: Vec<String> = values.map(|v| ir.ty(v).to_string()).collect();
    format!("({})", all.join(", "))
}

impl Compare {
    /// All that needs no map of values; then the regions; operands come in a second walk.
    fn op(&mut self, a: OpRef<'_>, b: OpRef<'_>) -> Result<(), Diagnostic> {
        self.shape(a, b)?;
        self.uses(a, b)
    }

    fn shape(&mut self, a: OpRef<'_>, b: OpRef<'_>) -> Result<(), Diagnostic> {
        let (ai, bi) = (a.ir, b.ir);
        if a.name() != b.name() {
            return Err(differ(a, b, "name", a.name(), b.name()));
        }
        if self.locations && a.loc() != b.loc() {
            return Err(differ(a, b, "location", a.loc(), b.loc()));
        }
        let (ar, br) = (types(ai, ai.results(a.id)), types(bi, bi.results(b.id)));
        if ar != br {
            return Err(differ(a, b, "result types", ar, br));
        }
        let (aa, ba) = (ai.attrs(a.id), bi.attrs(b.id));
        if aa != ba {
            let text = |attrs: &[_]| {
                let mut out = String::new();
                let _ = tir_core::dictionary_text(&mut out, attrs);
                out
            };
            return Err(differ(a, b, "attributes", text(aa), text(ba)));
        }
        self.values.extend(ai.results(a.id).zip(bi.results(b.id)));
        let (ac, bc) = (a.regions().len(), b.regions().len());
        if ac != bc {
            return Err(differ(a, b, "number of regions", ac, bc));
        }
        for ((ai, ar), (bi, br)) in a.regions().zip(b.regions()) {
            let (ac, bc) = (ai.blocks(ar).len(), bi.blocks(br).len());
            if ac != bc {
                return Err(differ(a, b, "number of blocks", ac, bc));
            }
            for (x, y) in ai.blocks(ar).zip(bi.blocks(br)) {
                let (at, bt) = (types(ai, ai.args(x)), types(bi, bi.args(y)));
                if at != bt {
                    return Err(differ(a, b, "block arguments", at, bt));
                }
                self.blocks.insert(x, y);
                self.values.extend(ai.args(x).zip(bi.args(y)));
                let (ops, other): (Vec<OpId>, Vec<OpId>) =
                    (ai.ops_in(x).collect(), bi.ops_in(y).collect());
                for (x, y) in ops.iter().zip(&other) {
                    self.shape(ai.op(*x), bi.op(*y))?;
                }
                if ops.len() != other.len() {
                    let (x, y) = (ops.len(), other.len());
                    return Err(differ(a, b, "number of operations in a block", x, y));
                }
            }
        }
        Ok(())
    }

    fn uses(&mut self, a: OpRef<'_>, b: OpRef<'_>) -> Result<(), Diagnostic> {
        let (ai, bi) = (a.ir, b.ir);
        let (ac, bc) = (ai.operands(a.id).len(), bi.operands(b.id).len());
        if ac != bc {
            return Err(differ(a, b, "number of operands", ac, bc));
        }
        for (i, (x, y)) in ai.operands(a.id).zip(bi.operands(b.id)).enumerate() {
            if self.values.get(&x) != Some(&y) {
                return Err(differ(a, b, &format!("operand {i}"), x, y));
            }
        }
        let (ac, bc) = (ai.successors(a.id).len(), bi.successors(b.id).len());
        let same = ai.successors(a.id).zip(bi.successors(b.id));
        if ac != bc
            || same
                .into_iter()
                .any(|(x, y)| self.blocks.get(&x) != Some(&y))
        {
            return Err(differ(a, b, "successors", ac, bc));
        }
        for ((ai, ar), (bi, br)) in a.regions().zip(b.regions()) {
            for (x, y) in ai.blocks(ar).zip(bi.blocks(br)) {
                for (x, y) in ai.ops_in(x).zip(bi.ops_in(y)) {
                    self.uses(ai.op(x), bi.op(y))?;
                }
            }
        }
        Ok(())
    }
}
