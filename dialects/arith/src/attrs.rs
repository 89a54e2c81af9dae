//! Attributes of arith: predicates and flags.

use std::fmt;

use tir::{Attr, AttrData, AttrValue, ParseAttr, TextCx, attr_enum};

attr_enum! {
    /// How `arith.cmpi` compares: signed (s) or unsigned (u).
    pub enum CmpIPredicate: i64 {
        Eq = "eq" = 0, Ne = "ne" = 1, Slt = "slt" = 2, Sle = "sle" = 3, Sgt = "sgt" = 4,
        Sge = "sge" = 5, Ult = "ult" = 6, Ule = "ule" = 7, Ugt = "ugt" = 8, Uge = "uge" = 9,
    }
}
attr_enum! {
    /// How `arith.cmpf` compares: ordered (o) is false on a NaN, unordered (u) true.
    pub enum CmpFPredicate: i64 {
        False = "false" = 0, Oeq = "oeq" = 1, Ogt = "ogt" = 2, Oge = "oge" = 3, Olt = "olt" = 4,
        Ole = "ole" = 5, One = "one" = 6, Ord = "ord" = 7, Ueq = "ueq" = 8, Ugt = "ugt" = 9,
        Uge = "uge" = 10, Ult = "ult" = 11, Ule = "ule" = 12, Une = "une" = 13, Uno = "uno" = 14,
        True = "true" = 15,
    }
}

attr_enum! {
    /// How `arith.truncf` rounds.
    pub enum RoundingMode: i32 {
        ToNearestEven = "to_nearest_even" = 0, Downward = "downward" = 1, Upward = "upward" = 2,
        TowardZero = "toward_zero" = 3, ToNearestAway = "to_nearest_away" = 4,
    }
}

macro_rules! flags {
    ($(#[$doc:meta])* $name:ident $text:literal: $($word:literal)*) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, Debug)]
        pub struct $name {
            /// The words that are set, in the order of their definition.
            pub words: Vec<&'static str>,
        }
        impl AttrData for $name {
            const NAME: &'static str = $text;
        }
        impl AttrValue for $name {
            const WHAT: &'static str = concat!("#", $text);
            fn to_attr(&self) -> Attr {
                Attr::new(self.clone())
            }
            fn from_attr(attr: Attr) -> Option<Self> {
                attr.get::<Self>().cloned()
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                if self.words.is_empty() {
                    f.write_str("none")
                } else {
                    f.write_str(&self.words.join(","))
                }
            }
        }
        impl ParseAttr for $name {
            fn parse(body: Option<&str>, _: &dyn TextCx) -> Result<Self, String> {
                const ALL: &[&str] = &[$($word),*];
                let body = body.unwrap_or("none").trim();
                let mut words: Vec<&'static str> = Vec::new();
                for word in body.split(',').map(str::trim).filter(|w| *w != "none") {
                    let Some(known) = ALL.iter().find(|known| **known == word) else {
                        return Err(format!("'{word}' is none of {}", ALL.join(", ")));
                    };
                    words.push(known);
                }
                words.sort_by_key(|word| ALL.iter().position(|known| known == word));
                words.dedup();
                Ok(Self { words })
            }
        }
    };
}
flags! {
    /// What a float op may assume or change; kept as written, nothing here makes use of it.
    FastMath "arith.fastmath": "reassoc" "nnan" "ninf" "nsz" "arcp" "contract" "afn" "fast"
}
flags! {
    /// Overflow that an integer op is promised not to meet; kept as written.
    Overflow "arith.overflow": "nsw" "nuw"
}
