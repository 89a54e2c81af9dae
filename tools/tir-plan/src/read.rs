//! Reading files of buffers.

use std::borrow::Cow;
use std::collections::HashMap;

use tir::{Diagnostic, Loc, Name};
use tir_packing::{Buffer, Live};

use crate::fields::{Fields, place};
use crate::spaces::{Space, spaces};

/// Columns that are read; `hint` and `offset` of an earlier plan are kept as they are.
const COLUMNS: [&str; 13] = [
    "id",
    "lower",
    "upper",
    "size",
    "alignment",
    "gaps",
    "hint",
    "space",
    "fixed",
    "bank",
    "apart",
    "within",
    "offset",
];

/// Bytes of the space of this name; with none, of rows without a space, and of the only space of a file.
pub type Limit = (Option<String>, u64);

/// What is to be known of a file beside it.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// How large the banks of spaces are.
    pub banks: Vec<Limit>,
    /// Whether buffers that have an `offset` keep it, as if it were `fixed`.
    pub keep: bool,
}

/// A file of buffers.
#[derive(Debug)]
pub struct Table<'t> {
    /// Its header, without an `offset` column.
    header: String,
    /// Its rows as they stand there, likewise.
    rows: Vec<Cow<'t, str>>,
    /// The spaces, in the order of their first rows; one, if there are no rows.
    pub spaces: Vec<Space>,
    /// Of each row its space, its buffer there, and at which byte of that it lies.
    pub(crate) of: Vec<(usize, usize, u64)>,
}

impl Table<'_> {
    /// The same rows with the offsets of the buffers of each space.
    pub fn with(&self, offsets: &[Vec<u64>]) -> String {
        let mut text = format!("{},offset\n", self.header);
        for (row, (space, buffer, byte)) in self.rows.iter().zip(&self.of) {
            let offset = offsets[*space][*buffer] + byte;
            text += &format!("{row},{offset}\n");
        }
        text
    }
}

/// A row, before names of others are looked up.
pub(crate) struct Row {
    pub(crate) buffer: Buffer,
    pub(crate) live: Live,
    pub(crate) space: String,
    pub(crate) more: Option<Box<More>>,
}

/// What few rows say, each with its place.
#[derive(Default)]
pub(crate) struct More {
    pub(crate) fixed: Option<(u64, Loc)>,
    pub(crate) bank: Option<(u64, Loc)>,
    pub(crate) apart: Option<(String, Loc)>,
    pub(crate) within: Option<(String, Loc)>,
    pub(crate) space: Option<Loc>,
}

/// Reads a file of buffers: a header that names the columns `id`, `lower`, `upper` (a half-open interval of time), `size` (in bytes)
/// and, if there are,
///
/// - `alignment`: a power of two, in bytes;
/// - `gaps`: `LOWER-UPPER` with spaces between, times at which the buffer holds nothing;
/// - `space`: a name; buffers of different spaces have nothing to do with each other;
/// - `fixed`: the offset in bytes that it must have;
/// - `bank`: the number of the bank in which it must lie as a whole;
/// - `apart`: with spaces between, `ID` of buffers in whose banks it must not lie, or `ID:COST` where that only costs; its own
///   `ID` says it of its halves;
/// - `within`: `ID` or `ID+BYTES`, the buffer in which it lies from that byte on; that one lives as long as it does;
/// - `hint`, which is not heeded;
///
/// then a line for each buffer.
///
/// # Errors
/// At the place of a field: what is missing, no number, unknown, there twice or contradicts another one.
pub fn read<'t>(name: Name, text: &'t str, settings: &Settings) -> Result<Table<'t>, Diagnostic> {
    let mut lines = text.lines().enumerate();
    let mut lines = lines.by_ref().map(|(at, line)| (at + 1, line));
    let blank = |line: &str| line.trim_matches(['\u{feff}', ' ', '\t']).is_empty();
    let Some((first, head)) = lines.by_ref().find(|(_, line)| !blank(line)) else {
        let message = "there is no header with 'id', 'lower', 'upper', 'size'";
        return Err(Diagnostic::error(message).at(place(name, 1, 0)));
    };
    let head = head.trim_start_matches('\u{feff}');
    let fields = Fields::of(name, first, head)?;
    let columns = columns(&fields)?;
    let drop = columns.get("offset").copied();
    let header = fields.without(drop).into_owned();
    let (mut shown, mut rows) = (Vec::new(), Vec::<Row>::new());
    let mut ids: HashMap<String, (usize, usize)> = HashMap::new();
    for (at, line) in lines.filter(|(_, line)| !blank(line)) {
        let fields = Fields::of(name, at, line)?;
        if fields.all.len() != columns.len() {
            let (found, wanted) = (fields.all.len(), columns.len());
            return Err(fields.error(0, format!("{found} fields, expected {wanted}")));
        }
        let columned = Columned {
            fields: &fields,
            columns: &columns,
        };
        let row = columned.row(settings)?;
        let id = row.buffer.name.clone();
        if let Some((_, first)) = ids.insert(id, (rows.len(), at)) {
            let message = format!("id '{}' is that of line {first} too", row.buffer.name);
            return Err(fields.error(columns["id"], message));
        }
        shown.push(fields.without(drop));
        rows.push(row);
    }
    let ids = ids.into_iter().map(|(id, (row, _))| (id, row)).collect();
    let (spaces, of) = spaces(rows, &ids, settings, place(name, first, 0))?;
    Ok(Table {
        header,
        rows: shown,
        spaces,
        of,
    })
}

fn columns(fields: &Fields<'_>) -> Result<HashMap<&'static str, usize>, Diagnostic> {
    let mut columns: HashMap<&str, usize> = HashMap::new();
    for (i, (_, field)) in fields.all.iter().enumerate() {
        let Some(known) = COLUMNS.into_iter().find(|column| column == field) else {
            let message = format!("unknown column '{field}', expected {}", COLUMNS.join(", "));
            return Err(fields.error(i, message));
        };
        if columns.insert(known, i).is_some() {
            return Err(fields.error(i, format!("a second column '{field}'")));
        }
    }
    match COLUMNS[..4].iter().find(|c| !columns.contains_key(**c)) {
        Some(missing) => Err(fields.error(0, format!("there is no column '{missing}'"))),
        None => Ok(columns),
    }
}

/// A line with the names of its columns.
struct Columned<'f, 't> {
    fields: &'f Fields<'t>,
    columns: &'f HashMap<&'static str, usize>,
}

impl Columned<'_, '_> {
    /// A field that is there and not empty.
    fn text(&self, column: &str) -> Option<(usize, &str)> {
        let at = *self.columns.get(column)?;
        let text = self.fields.all[at].1.as_str();
        (!text.is_empty()).then_some((at, text))
    }

    fn number(&self, column: &str) -> Result<u64, Diagnostic> {
        let at = self.columns[column];
        let text = &self.fields.all[at].1;
        let number = text.parse::<u64>();
        number.map_err(|_| {
            let message = format!("{column} '{text}' is no number from 0 to 2^64 - 1");
            self.fields.error(at, message)
        })
    }

    /// A number that may be missing, with its place.
    fn if_said(&self, column: &str) -> Result<Option<(u64, Loc)>, Diagnostic> {
        match self.text(column) {
            Some((at, _)) => Ok(Some((self.number(column)?, self.fields.at(at)))),
            None => Ok(None),
        }
    }

    fn row(&self, settings: &Settings) -> Result<Row, Diagnostic> {
        let id = &self.fields.all[self.columns["id"]].1;
        let mut buffer = Buffer::new(id, self.number("size")?);
        if let Some((at, _)) = self.text("alignment") {
            buffer.align = self.number("alignment")?;
            if !buffer.align.is_power_of_two() {
                let message = format!("alignment {}, expected a power of two", buffer.align);
                return Err(self.fields.error(at, message));
            }
        }
        let said = |column| {
            let (at, text) = self.text(column)?;
            Some((text.to_string(), self.fields.at(at)))
        };
        let mut fixed = self.if_said("fixed")?;
        if settings.keep && fixed.is_none() {
            fixed = self.if_said("offset")?;
        }
        let more = More {
            fixed,
            bank: self.if_said("bank")?,
            apart: said("apart"),
            within: said("within"),
            space: said("space").map(|(_, at)| at),
        };
        let few = more.fixed.is_some()
            || more.bank.is_some()
            || more.apart.is_some()
            || more.within.is_some();
        Ok(Row {
            live: self.live()?,
            space: said("space").map_or(String::new(), |(text, _)| text),
            more: few.then(|| Box::new(more)),
            buffer,
        })
    }

    fn live(&self) -> Result<Live, Diagnostic> {
        let (lower, upper) = (self.number("lower")?, self.number("upper")?);
        if lower > upper {
            let message = format!("upper {upper} is below lower {lower}");
            return Err(self.fields.error(self.columns["upper"], message));
        }
        let mut gaps = Vec::new();
        let (at, text) = self.text("gaps").unwrap_or((0, ""));
        for gap in text.split_whitespace() {
            let ends = gap.split_once('-');
            let ends = ends.and_then(|(a, b)| Some((a.parse::<u64>().ok()?, b.parse().ok()?)));
            let Some((from, to)) = ends.filter(|(a, b)| a <= b) else {
                let message = format!("gap '{gap}', expected LOWER-UPPER");
                return Err(self.fields.error(at, message));
            };
            gaps.push((from, to));
        }
        gaps.sort_unstable();
        let (mut live, mut from) = (Live::new(), lower);
        for (begin, end) in gaps {
            live.push(from..begin.min(upper));
            from = from.max(end);
        }
        live.push(from..upper);
        live.retain(|l| l.start < l.end);
        Ok(live)
    }
}
