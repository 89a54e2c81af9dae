//! `#demo.band<0, 10>`: a range of numbers.

use std::fmt;

use tir::{Attr, AttrData, AttrValue, ParseAttr, TextCx};

// ANCHOR: attr
/// Numbers from `low` up to `high`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Band {
    /// The least one.
    pub low: i64,
    /// The greatest one.
    pub high: i64,
}

/// Makes it an attribute. `Display` is what stands between the angle brackets.
impl AttrData for Band {
    const NAME: &'static str = "demo.band";
}
impl fmt::Display for Band {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.low, self.high)
    }
}
/// Reads it.
impl ParseAttr for Band {
    const DOC: &'static str = "Numbers from one up to another.";

    fn parse(body: Option<&str>, _: &dyn TextCx) -> Result<Self, String> {
        let body = body.unwrap_or_default();
        let numbers = body.split(',').map(|number| number.trim().parse().ok());
        match numbers.collect::<Option<Vec<i64>>>().as_deref() {
            Some([low, high]) if low <= high => Ok(Band {
                low: *low,
                high: *high,
            }),
            _ => Err(format!("expects <low, high>, found <{body}>")),
        }
    }
}
/// Makes it a type of fields of records.
impl AttrValue for Band {
    const WHAT: &'static str = "a #demo.band";

    fn to_attr(&self) -> Attr {
        Attr::new(*self)
    }
    fn from_attr(attr: Attr) -> Option<Self> {
        attr.get().copied()
    }
}
// ANCHOR_END: attr
