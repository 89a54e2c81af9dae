//! Source locations: 12 bytes, `Copy`; what does not fit lies in a process-wide table.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::RwLock;

use crate::attrs::Attr;
use crate::fmt::{comma, quote};
use crate::name::Name;

/// Where something comes from. Two locations are equal if they say the same.
#[derive(Clone, Copy)]
pub struct Loc {
    /// 0: unknown. `NESTED`: `line` is an index into the table. Else one more than a file's index.
    file: u32,
    line: u32,
    column: u32,
}

const NESTED: u32 = u32::MAX;

/// A location that is more than a place in a file.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum LocData {
    /// `loc(unknown)`.
    Unknown,
    /// `loc("file":1:2)`: line and column from 1, column in characters.
    File(Name, u32, u32),
    /// `loc("file":1:2 to 3:4)`, last line and column.
    Range(Name, [u32; 4]),
    /// `loc("name"(child))`.
    Named(Name, Loc),
    /// `loc(callsite(callee at caller))`.
    CallSite(Loc, Loc),
    /// `loc(fused<metadata>[a, b])`.
    Fused(Option<Attr>, Vec<Loc>),
}

struct Tables {
    files: Vec<Name>,
    nested: Vec<LocData>,
}
static TABLES: RwLock<Tables> = RwLock::new(Tables {
    files: Vec::new(),
    nested: Vec::new(),
});

fn file_index(file: Name) -> u32 {
    let position = |t: &Tables| t.files.iter().position(|f| *f == file);
    if let Some(i) = position(&TABLES.read().unwrap_or_else(|p| p.into_inner())) {
        return i as u32 + 1;
    }
    let mut tables = TABLES.write().unwrap_or_else(|p| p.into_inner());
    if let Some(i) = position(&tables) {
        return i as u32 + 1;
    }
    tables.files.push(file);
    tables.files.len() as u32
}

/// A file, for making many locations in it without looking it up each time.
#[derive(Clone, Copy)]
pub struct LocFile(u32);

impl LocFile {
    /// The file of this name.
    pub fn new(name: Name) -> Self {
        Self(file_index(name))
    }
    /// A place in it; line and column from 1.
    pub fn at(self, line: u32, column: u32) -> Loc {
        Loc {
            file: self.0,
            line,
            column,
        }
    }
}

impl Loc {
    /// Nothing is known.
    pub const UNKNOWN: Loc = Loc {
        file: 0,
        line: 0,
        column: 0,
    };

    /// A place in a file; line and column from 1.
    pub fn file(name: Name, line: u32, column: u32) -> Self {
        LocFile::new(name).at(line, column)
    }

    /// The location that says this.
    pub fn new(data: LocData) -> Self {
        match data {
            LocData::Unknown => Self::UNKNOWN,
            LocData::File(name, line, column) => Self::file(name, line, column),
            data => {
                let mut tables = TABLES.write().unwrap_or_else(|p| p.into_inner());
                tables.nested.push(data);
                Loc {
                    file: NESTED,
                    line: tables.nested.len() as u32 - 1,
                    column: 0,
                }
            }
        }
    }

    /// The location of what was made of things from these places, as MLIR's `FusedLoc::get` has it: each place once, parts of
    /// fused locations without metadata among them; a place by itself if it is the only one, unknown if there is none.
    pub fn fused(parts: impl IntoIterator<Item = Self>) -> Self {
        fn add(part: Loc, all: &mut Vec<Loc>) {
            match part.data() {
                LocData::Unknown => {}
                LocData::Fused(None, parts) => parts.into_iter().for_each(|part| add(part, all)),
                _ if all.contains(&part) => {}
                _ => all.push(part),
            }
        }
        let mut all = Vec::new();
        parts.into_iter().for_each(|part| add(part, &mut all));
        match all[..] {
            [] => Self::UNKNOWN,
            [only] => only,
            _ => Self::new(LocData::Fused(None, all)),
        }
    }

    /// What it says.
    pub fn data(self) -> LocData {
        match self.file {
            0 => LocData::Unknown,
            NESTED => {
                let tables = TABLES.read().unwrap_or_else(|p| p.into_inner());
                tables.nested[self.line as usize].clone()
            }
            i => {
                let tables = TABLES.read().unwrap_or_else(|p| p.into_inner());
                LocData::File(tables.files[i as usize - 1], self.line, self.column)
            }
        }
    }

    /// The place in a file that a person should look at: file, line, column.
    pub fn place(self) -> Option<(Name, u32, u32)> {
        match self.data() {
            LocData::Unknown => None,
            LocData::File(name, line, column) => Some((name, line, column)),
            LocData::Range(name, [line, column, ..]) => Some((name, line, column)),
            LocData::Named(_, child) => child.place(),
            LocData::CallSite(callee, _) => callee.place(),
            LocData::Fused(_, parts) => parts.into_iter().find_map(Loc::place),
        }
    }

    /// What it is called, if it is a name or has one: a layer of a network that was no text.
    pub fn name(self) -> Option<Name> {
        match self.data() {
            LocData::Named(name, _) => Some(name),
            LocData::CallSite(callee, _) => callee.name(),
            LocData::Fused(_, parts) => parts.into_iter().find_map(Loc::name),
            LocData::Unknown | LocData::File(..) | LocData::Range(..) => None,
        }
    }

    /// Whether nothing is known.
    pub fn is_unknown(self) -> bool {
        self == Self::UNKNOWN
    }
}
impl Default for Loc {
    fn default() -> Self {
        Self::UNKNOWN
    }
}
impl PartialEq for Loc {
    fn eq(&self, other: &Self) -> bool {
        (self.file, self.line, self.column) == (other.file, other.line, other.column)
            || self.file == NESTED && other.file == NESTED && self.data() == other.data()
    }
}
impl Eq for Loc {}
impl Hash for Loc {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self.file {
            NESTED => self.data().hash(state),
            // What is equal has equal numbers, and needs no table.
            _ => (self.file, self.line, self.column).hash(state),
        }
    }
}

/// The text between the parentheses of `loc(…)`.
pub struct LocBody(
    /// The location.
    pub Loc,
);
impl fmt::Display for LocBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.data() {
            LocData::Unknown => f.write_str("unknown"),
            LocData::File(name, line, column) => {
                quote(f, &name)?;
                write!(f, ":{line}:{column}")
            }
            LocData::Range(name, [a, b, c, d]) => {
                quote(f, &name)?;
                write!(f, ":{a}:{b} to {c}:{d}")
            }
            LocData::Named(name, child) => {
                quote(f, &name)?;
                if child.is_unknown() {
                    Ok(())
                } else {
                    write!(f, "({})", LocBody(child))
                }
            }
            LocData::CallSite(callee, caller) => {
                write!(f, "callsite({} at {})", LocBody(callee), LocBody(caller))
            }
            LocData::Fused(metadata, parts) => {
                f.write_str("fused")?;
                if let Some(metadata) = metadata {
                    write!(f, "<{metadata}>")?;
                }
                f.write_str("[")?;
                comma(f, parts.into_iter().map(LocBody))?;
                f.write_str("]")
            }
        }
    }
}
impl fmt::Display for Loc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "loc({})", LocBody(*self))
    }
}
impl fmt::Debug for Loc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::{Loc, LocData};
    use crate::name::Name;

    #[test]
    fn fused_locations_are_flat_and_say_each_place_once() {
        let named = |name: &str| Loc::new(LocData::Named(Name::new(name), Loc::UNKNOWN));
        let (a, b, c) = (named("a"), named("b"), named("c"));
        let ab = Loc::fused([a, b]);
        assert_eq!(ab.to_string(), r#"loc(fused["a", "b"])"#);
        let all = Loc::fused([ab, Loc::UNKNOWN, Loc::fused([c, b]), named("a")]);
        assert_eq!(all.to_string(), r#"loc(fused["a", "b", "c"])"#);
        assert_eq!(Loc::fused([a, named("a"), Loc::UNKNOWN]), a);
        assert_eq!(Loc::fused([Loc::UNKNOWN]), Loc::UNKNOWN);
        // What has metadata says something of its own.
        let own = Loc::new(LocData::Fused(Some(crate::attrs::Attr::unit()), vec![a]));
        assert_eq!(
            Loc::fused([own, a]).to_string(),
            r#"loc(fused[fused<unit>["a"], "a"])"#
        );
    }
}
