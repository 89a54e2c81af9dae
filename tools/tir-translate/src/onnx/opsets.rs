//! Which versions of which operators are read, and by what.
//!
//! A model states one version of ONNX's operator set, and an operator means what the newest of its
//! definitions says that is not newer. [`TABLE`] has, for each operator, the versions from which on
//! its meaning or its form is another one, each with the reader for it; a version without a reader
//! is refused. What only takes more element types is no other meaning. Sources: the change log of
//! ONNX's operators (`docs/Changelog.md` of onnx/onnx) up to [`NEWEST`].

use tir_onnx::Node;

use super::import::{Cx, Outcome};
use super::table::TABLE;

/// Makes the ops of a node.
pub(super) type Importer = fn(&mut Cx, &Node) -> Outcome<()>;

/// The newest version of the operator set that the table was compared with.
pub(super) const NEWEST: i64 = 28;

/// Readers by the version from which on they apply, ascending; `None` where the operator is not
/// read, because it was taken out or means what cannot be imported.
pub(super) type Readers = &'static [(i64, Option<Importer>)];

/// The importer of a node in a model of a version of the operator set; or what is said of the
/// operator if other versions are read, or it is known why none can be.
pub(super) fn importer(node: &Node, opset: i64) -> Result<Importer, Option<String>> {
    let row = TABLE
        .binary_search_by_key(&node.op_type.as_str(), |(op, _)| op)
        .ok()
        .and_then(|at| TABLE.get(at))
        .filter(|_| node.domain.is_empty());
    let Some((_, readers)) = row else {
        let reason = REFUSED.iter().find(|(op, _)| *op == node.op_type);
        return Err(reason.map(|(_, why)| (*why).to_string()));
    };
    let applies = readers.iter().rev().find(|(since, _)| *since <= opset);
    match applies {
        Some((_, Some(importer))) => Ok(*importer),
        _ => Err(Some(format!(
            "is not supported in opset {opset}, only in {}",
            supported(readers)
        ))),
    }
}

/// The versions that are read: `1 to 28`, `7 to 9`.
fn supported(readers: Readers) -> String {
    let mut ranges: Vec<(i64, i64)> = Vec::new();
    for (i, (since, reader)) in readers.iter().enumerate() {
        let last = readers.get(i + 1).map_or(NEWEST, |(next, _)| next - 1);
        match (reader, ranges.last_mut()) {
            (None, _) => {}
            (Some(_), Some(range)) if range.1 + 1 == *since => range.1 = last,
            (Some(_), _) => ranges.push((*since, last)),
        }
    }
    let text = |(first, last): &(i64, i64)| format!("{first} to {last}");
    ranges.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// Operators that are not read, and why.
const REFUSED: &[(&str, &str)] = &[
    (
        "NonMaxSuppression",
        "has as many results as data say: sizes are known before a program runs here",
    ),
    (
        "Unique",
        "has as many results as data say: sizes are known before a program runs here",
    ),
    (
        "StringNormalizer",
        "is about strings, which are no tensors here",
    ),
    (
        "TfIdfVectorizer",
        "counts words of a dictionary, which no machine has an instruction for",
    ),
    (
        "RandomNormal",
        "makes random numbers: a program has the same result each time here",
    ),
    (
        "RandomNormalLike",
        "makes random numbers: a program has the same result each time here",
    ),
    (
        "RandomUniform",
        "makes random numbers: a program has the same result each time here",
    ),
    (
        "RandomUniformLike",
        "makes random numbers: a program has the same result each time here",
    ),
    (
        "Bernoulli",
        "makes random numbers: a program has the same result each time here",
    ),
    (
        "Multinomial",
        "makes random numbers: a program has the same result each time here",
    ),
];

/// Why no operator of a domain is read, if that is known.
pub(super) fn domain(name: &str) -> Option<String> {
    let why = match name {
        "ai.onnx.ml" => {
            "is of the domain of decision trees, scalers and text features: no operator of it is read, only those on tensors \
             that are before or behind them"
        }
        "ai.onnx.training" | "ai.onnx.preview.training" => {
            "is of the domain of training, of which no operator is read: export the model for inference"
        }
        _ => return None,
    };
    Some(why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        assert!(TABLE.is_sorted_by(|a, b| a.0 < b.0));
        for (op, readers) in TABLE {
            assert!(readers.is_sorted_by(|a, b| a.0 < b.0), "{op}");
            assert!(readers.iter().all(|(since, _)| *since <= NEWEST), "{op}");
        }
    }

    #[test]
    fn versions_are_told() {
        let readers = |name: &str| TABLE.iter().find(|(op, _)| *op == name).unwrap().1;
        assert_eq!(supported(readers("Softmax")), format!("1 to {NEWEST}"));
        assert_eq!(supported(readers("Upsample")), "7 to 9");
        assert_eq!(supported(readers("Split")), format!("2 to {NEWEST}"));
    }
}
