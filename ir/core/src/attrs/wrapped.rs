//! Builtin attributes around something else of the IR: a type, a map, a layout, a location.

use std::fmt::{self, Display};

use super::{AttrData, builtin};
use crate::affine::AffineMap;
use crate::loc::Loc;
use crate::types::{Layout, Type};

builtin! {
    /// A type as an attribute.
    TypeAttr(Type); "type"
}
impl Display for TypeAttr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

builtin! {
    /// `affine_map<(d0) -> (d0)>`.
    AffineMapAttr(AffineMap); "affine_map"
}
impl Display for AffineMapAttr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "affine_map<{}>", self.0)
    }
}

builtin! {
    /// `strided<[4, 1], offset: ?>` as an attribute of its own.
    LayoutAttr(Layout); "strided"
}
impl Display for LayoutAttr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

builtin! {
    /// `loc("file":1:2)` as an attribute.
    LocAttr(Loc); "loc"
}
impl Display for LocAttr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
