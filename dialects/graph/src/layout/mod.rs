//! Layouts: how the elements of a tensor are stored.
//!
//! A tensor's type says its shape in one logical order, N x C x H x W for activations and
//! O x I x H x W for weights, whatever its encoding says of storage, as XLA has it. So shapes,
//! attributes and reference evaluation do not depend on layouts, and changing one is
//! `graph.relayout`, which computes nothing. No encoding is row-major storage of the shape.

mod physical;
mod rule;

pub use physical::{pack, physical_type, retyped};
pub use rule::{
    Keeps, LayoutClass, LayoutRule, common, infer, layouts, operands_in, result_in, rule_of,
};

pub(crate) use rule::accepts;

use std::fmt::{self, Display};

use tir::{Attr, AttrData, Failure, ParseAttr, TensorType, TextCx, Type};

/// Dimensions by their letters, in the order in which shapes list them: batch, N, output
/// channels, rows, columns or channels, input channels, depth, height, width.
pub const LETTERS: &str = "BNORCIDHW";

/// The letters of a tensor of each rank of which nothing else is known.
const BY_RANK: [&str; 8] = ["", "N", "NC", "NCW", "NCHW", "NCDHW", "NCIDHW", "NRCIDHW"];

/// One dimension of storage.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Axis {
    /// The dimension of the shape.
    pub dim: usize,
    /// Whether it is the position in a block, else the block, or all of an unblocked dimension.
    pub inner: bool,
}

/// `#graph.layout<NCHW16c>`: storage order, outermost first. An upper-case letter is a dimension,
/// a number and a lower-case letter a block of so many of its elements, stored where it stands;
/// the upper-case letter is then the number of the block. A block divides its dimension.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Layout {
    name: Box<str>,
    axes: Vec<Axis>,
    /// Elements in a block of each dimension; 1 where there is none.
    blocks: Vec<i64>,
}

impl AttrData for Layout {
    const NAME: &'static str = "graph.layout";
}
impl Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
impl ParseAttr for Layout {
    const DOC: &'static str = "How a tensor is stored: dimensions and blocks, outermost first.";
    fn parse(body: Option<&str>, _: &dyn TextCx) -> Result<Self, String> {
        Self::new(body.unwrap_or_default().trim())
    }
}

impl Layout {
    /// The layout of this name: `NHWC`, `NCHW16c`, `OIHW16i16o`.
    pub fn new(name: &str) -> Result<Self, String> {
        let mut parts: Vec<(char, Option<i64>)> = Vec::new();
        let mut number = String::new();
        for c in name.chars() {
            let upper = c.to_ascii_uppercase();
            match c {
                '0'..='9' => number.push(c),
                _ if !LETTERS.contains(upper) => {
                    return Err(format!(
                        "layout '{name}' has '{c}', expected letters of {LETTERS}, and blocks as 16c"
                    ));
                }
                _ if c == upper && number.is_empty() => parts.push((c, None)),
                _ => {
                    let block = number.parse().ok().filter(|n| *n > 1 && c != upper);
                    let block = block.ok_or_else(|| {
                        format!(
                            "layout '{name}' has '{number}{c}', expected a number above 1 before \
                             each lower-case letter, and only there"
                        )
                    })?;
                    parts.push((upper, Some(block)));
                    number.clear();
                }
            }
        }
        if !number.is_empty() {
            return Err(format!("layout '{name}' ends in a number"));
        }
        let outer = |letter: char| parts.iter().filter(|p| **p == (letter, None)).count();
        let inner = |letter: char| {
            let blocks = parts.iter().filter(|p| p.0 == letter);
            blocks.filter_map(|p| p.1).collect::<Vec<i64>>()
        };
        let letters: Vec<char> = LETTERS.chars().filter(|c| outer(*c) > 0).collect();
        let mut blocks = Vec::new();
        for letter in LETTERS.chars() {
            match (outer(letter), &inner(letter)[..]) {
                (0, []) => {}
                (1, []) => blocks.push(1),
                (1, [block]) => blocks.push(*block),
                (found, inner) => {
                    let inner = inner.len();
                    return Err(format!(
                        "layout '{name}' has dimension {letter} {found} times and {inner} blocks \
                         of it, expected it once and at most one"
                    ));
                }
            }
        }
        let axis = |(letter, block): &(char, Option<i64>)| Axis {
            dim: letters.iter().position(|l| l == letter).unwrap_or(0),
            inner: block.is_some(),
        };
        Ok(Self {
            name: name.into(),
            axes: parts.iter().map(axis).collect(),
            blocks,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// The dimensions of storage, outermost first.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }
    /// Elements in a block of each dimension of the shape; 1 where there is none.
    pub fn blocks(&self) -> &[i64] {
        &self.blocks
    }
    /// Whether it is row-major storage of the shape.
    pub fn is_plain(&self) -> bool {
        let dims = self.axes.iter().map(|a| a.dim);
        self.blocks.iter().all(|b| *b == 1) && dims.eq(0..self.blocks.len())
    }
    /// How a tensor is stored whose dimension `i` is dimension `order[i]` of one that is stored in
    /// a layout, elements staying where they are. `None` for more than seven dimensions and for
    /// what is no order.
    pub fn renamed(layout: Option<&Layout>, order: &[usize]) -> Option<Layout> {
        let letters: Vec<char> = BY_RANK.get(order.len())?.chars().collect();
        let plain = |dim| Axis { dim, inner: false };
        let axes: Vec<Axis> = match layout {
            Some(layout) => layout.axes.clone(),
            None => (0..order.len()).map(plain).collect(),
        };
        let mut name = String::new();
        for axis in axes {
            let letter = letters[order.iter().position(|d| *d == axis.dim)?];
            match (axis.inner, layout) {
                (true, Some(layout)) => {
                    name.push_str(&layout.blocks[axis.dim].to_string());
                    name.push(letter.to_ascii_lowercase());
                }
                _ => name.push(letter),
            }
        }
        Self::new(&name).ok()
    }
    /// How a tensor is stored whose dimension `dim` is written as two, elements staying where they are: blocks are of the
    /// inner one, which they have to divide.
    ///
    /// # Errors
    /// More than seven dimensions.
    pub fn split(&self, dim: usize) -> Result<Layout, String> {
        let rank = self.blocks.len() + 1;
        let letters = BY_RANK.get(rank).ok_or_else(|| {
            format!("layout {self} has no letters for a tensor of {rank} dimensions")
        })?;
        let letter = |d: usize| letters.get(d..=d).unwrap_or_default();
        let mut name = String::new();
        for axis in &self.axes {
            let at = axis.dim + usize::from(axis.dim >= dim);
            match axis.inner {
                true => {
                    let block = self.blocks[axis.dim];
                    name.push_str(&format!("{block}{}", letter(at).to_ascii_lowercase()));
                }
                false if axis.dim == dim => name.push_str(&(letter(dim).to_string() + letter(at))),
                false => name.push_str(letter(at)),
            }
        }
        Self::new(&name)
    }
    /// Whether a tensor of this shape can be stored so.
    pub fn fits(&self, shape: &[i64]) -> bool {
        self.blocks.len() == shape.len() && self.blocks.iter().zip(shape).all(|(b, n)| n % b == 0)
    }
    /// The same; the failure says why not.
    pub fn check(&self, ty: Type) -> Result<(), Failure> {
        let shape = ty.shape().unwrap_or(&[]);
        let (found, wanted) = (shape.len(), self.blocks.len());
        if found != wanted {
            return Err(
                format!("has layout {self} for {found} dimensions, expected {wanted}").into(),
            );
        }
        let mut uneven = self.blocks.iter().zip(shape).zip(0..);
        match uneven.find(|((b, n), _)| **n < 0 || **n % **b != 0) {
            Some(((b, n), d)) => Err(format!(
                "has layout {self} for dimension {d} of size {n}, which blocks of {b} do not divide"
            )
            .into()),
            None => Ok(()),
        }
    }

    /// The layout that a tensor type names; `None` for plain storage, named or not.
    pub fn of(ty: Type) -> Option<&'static Layout> {
        let layout = ty.get::<TensorType>()?.encoding?.get::<Layout>()?;
        (!layout.is_plain()).then_some(layout)
    }
    /// A tensor type stored so; plain layouts are not named.
    pub fn on(layout: Option<&Layout>, ty: Type) -> Type {
        let Some(tensor) = ty.get::<TensorType>() else {
            return ty;
        };
        let layout = layout.filter(|l| !l.is_plain());
        Type::new(TensorType {
            encoding: layout.map(|l| Attr::new(l.clone())),
            ..tensor.clone()
        })
    }
}

/// Whether windows may slide over a layout: over dimensions behind the first two, not in blocks.
pub(crate) fn windows_in(layout: &Layout) -> Result<(), Failure> {
    match layout.blocks().get(2..).unwrap_or(&[]) {
        blocks if blocks.iter().all(|b| *b == 1) => Ok(()),
        _ => Err(format!("slides windows over blocks of {layout}").into()),
    }
}

/// What a layout is called in messages.
pub(crate) fn text(layout: Option<&Layout>) -> String {
    layout.map_or("plain".to_string(), |layout| format!("stored as {layout}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let packed = Layout::new("OIHW16i8o").unwrap();
        assert_eq!(packed.blocks(), [8, 16, 1, 1]);
        let order: Vec<(usize, bool)> = packed.axes().iter().map(|a| (a.dim, a.inner)).collect();
        let wanted = [(0, false), (1, false), (2, false), (3, false)];
        assert_eq!(order, [&wanted[..], &[(1, true), (0, true)]].concat());
        assert!(Layout::new("NCHW").unwrap().is_plain());
        assert!(!Layout::new("NHWC").unwrap().is_plain());
        assert!(packed.fits(&[16, 32, 3, 3]) && !packed.fits(&[16, 24, 3, 3]));
    }

    #[test]
    fn renamed_dimensions_stay_where_they_are() {
        let named = |name: Option<&str>, order: &[usize]| {
            let layout = name.map(|name| Layout::new(name).unwrap());
            Layout::renamed(layout.as_ref(), order).map(|l| l.name().to_string())
        };
        // N, H, W, C as N, C, H, W, and back.
        assert_eq!(named(None, &[0, 3, 1, 2]).unwrap(), "NHWC");
        assert_eq!(named(Some("NHWC"), &[0, 2, 3, 1]).unwrap(), "NCHW");
        assert_eq!(named(Some("NCHW16c"), &[0, 2, 3, 1]).unwrap(), "NWCH16w");
        assert_eq!(named(Some("HWIO"), &[2, 3, 1, 0]).unwrap(), "NCHW");
        assert_eq!(named(None, &[0, 0]), None);
        assert_eq!(named(None, &[0, 1, 2, 3, 4, 5]).unwrap(), "NCIDHW");
        assert_eq!(named(None, &[0, 1, 2, 3, 4, 5, 6, 7]), None);
        let split = |name, dim| {
            Layout::new(name)
                .unwrap()
                .split(dim)
                .map(|l| l.name().to_string())
        };
        assert_eq!(split("NHWC", 1).unwrap(), "NHWCD");
        assert_eq!(split("NCHW16c", 1).unwrap(), "NCDHW16d");
        assert_eq!(split("NCHW16c", 2).unwrap(), "NCDHW16c");
        assert!(split("NRCIDHW", 0).is_err());
    }

    #[test]
    fn wrong_names() {
        for (name, part) in [
            ("NCHX", "has 'X'"),
            ("NCHWc", "has 'c'"),
            ("NCHW1c", "has '1c'"),
            ("NCHW16C", "has '16C'"),
            ("NCHW16", "ends in a number"),
            ("NCCHW", "dimension C 2 times"),
            ("NHW16c", "dimension C 0 times"),
            ("NCHW4c4c", "2 blocks"),
            ("NCHW99999999999999999999c", "expected a number"),
        ] {
            let error = Layout::new(name).unwrap_err();
            assert!(error.contains(part), "{name}: {error}");
        }
    }
}
