//! Finding and replacing the blobs of a program.

use tir_core::{ArrayAttr, Attr, AttrData, BlobAttr, DictAttr, Ir, Name, OpRef};

/// Visits every blob in the attributes of a program, in program order.
pub(crate) fn each<'a>(ir: &'a Ir, visit: &mut dyn FnMut(OpRef<'a>, &'static BlobAttr)) {
    // A slot shows the attributes of the isolated op in it, so the walk misses none.
    ir.walk(&mut |op| {
        for (_, attr) in op.ir.attrs(op.id) {
            inside(*attr, &mut |blob| visit(op, blob));
        }
    });
}

fn inside(attr: Attr, visit: &mut dyn FnMut(&'static BlobAttr)) {
    // Nearly all attributes are of another kind, which its name says at once.
    match attr.kind() {
        BlobAttr::NAME => attr.get().into_iter().for_each(visit),
        ArrayAttr::NAME => {
            let items = attr.get::<ArrayAttr>().into_iter().flat_map(|a| &a.0);
            items.for_each(|item| inside(*item, visit));
        }
        DictAttr::NAME => {
            let entries = attr.get::<DictAttr>().into_iter();
            let entries = entries.flat_map(|dictionary| dictionary.entries());
            entries.for_each(|(_, item)| inside(*item, visit));
        }
        _ => {}
    }
}

/// Replaces every blob in the attributes of a program.
pub(crate) fn replace(ir: &mut Ir, with: &dyn Fn(&BlobAttr) -> BlobAttr) {
    ir.walk_irs_mut(&mut |ir| {
        let mut ops = ir.walk_ids();
        ops.push(ir.root());
        for op in ops {
            if ir.child(op).is_some() {
                continue;
            }
            let attrs: Vec<(Name, Attr)> = ir.attrs(op).to_vec();
            for (name, attr) in attrs {
                let new = replaced(attr, with);
                if new != attr {
                    ir.set_attr(op, name, new);
                }
            }
        }
    });
}

fn replaced(attr: Attr, with: &dyn Fn(&BlobAttr) -> BlobAttr) -> Attr {
    if let Some(blob) = attr.get::<BlobAttr>() {
        Attr::new(with(blob))
    } else if let Some(array) = attr.get::<ArrayAttr>() {
        Attr::array(
            array
                .0
                .iter()
                .map(|item| replaced(*item, with))
                .collect::<Vec<_>>(),
        )
    } else if let Some(dictionary) = attr.get::<DictAttr>() {
        let entries = dictionary.entries().iter();
        let entries = entries.map(|(key, item)| (*key, replaced(*item, with)));
        Attr::new(DictAttr::new(entries.collect()))
    } else {
        attr
    }
}
