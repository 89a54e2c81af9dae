//! Buffers of a file with a header and commas: the formats of MiniMalloc and of idealloc.

use std::collections::HashMap;

use tir::{Diagnostic, Loc, Name};
use tir_packing::{Buffer, Live, Problem};

/// Columns that are read; `hint` and `offset` of an earlier plan are kept as they are.
const COLUMNS: [&str; 8] = [
    "id",
    "lower",
    "upper",
    "size",
    "alignment",
    "gaps",
    "hint",
    "offset",
];

/// A file of buffers.
#[derive(Debug)]
pub struct Table<'t> {
    /// Its header, without an `offset` column.
    header: String,
    /// Its rows as they stand there, likewise.
    rows: Vec<std::borrow::Cow<'t, str>>,
    /// The buffers, in the order of the rows.
    pub problem: Problem,
    /// When each lives.
    pub lives: Vec<Live>,
}

impl Table<'_> {
    /// The same rows with offsets.
    pub fn with(&self, offsets: &[u64]) -> String {
        let mut text = format!("{},offset\n", self.header);
        for (row, offset) in self.rows.iter().zip(offsets) {
            text += &format!("{row},{offset}\n");
        }
        text
    }
}

/// Reads a file of buffers: a header that names the columns `id`, `lower`, `upper` (a half-open interval of time), `size` (in bytes)
/// and, if there are, `alignment` (a power of two, in bytes), `gaps` (`LOWER-UPPER` with spaces between, times at which the buffer
/// holds nothing) and `hint`, which is not heeded; then a line for each buffer.
///
/// # Errors
/// At the place of a field: what is missing, no number, unknown or there twice.
pub fn read(name: Name, text: &str) -> Result<Table<'_>, Diagnostic> {
    let mut lines = text.lines().enumerate();
    let mut lines = lines.by_ref().map(|(at, line)| (at + 1, line));
    let blank = |line: &str| line.trim_matches(['\u{feff}', ' ', '\t']).is_empty();
    let Some((first, head)) = lines.by_ref().find(|(_, line)| !blank(line)) else {
        let message = "there is no header with 'id', 'lower', 'upper', 'size'";
        return Err(Diagnostic::error(message).at(place(name, 1, 0)));
    };
    let head = head.trim_start_matches('\u{feff}');
    let fields = Fields::of(name, first, head)?;
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
    if let Some(missing) = COLUMNS[..4].iter().find(|c| !columns.contains_key(**c)) {
        return Err(fields.error(0, format!("there is no column '{missing}'")));
    }
    let drop = columns.get("offset").copied();
    let header = fields.without(drop).into_owned();
    let (mut rows, mut buffers, mut lives) = (Vec::new(), Vec::new(), Vec::new());
    let mut ids: HashMap<String, usize> = HashMap::new();
    for (at, line) in lines.filter(|(_, line)| !blank(line)) {
        let fields = Fields::of(name, at, line)?;
        if fields.all.len() != columns.len() {
            let (found, wanted) = (fields.all.len(), columns.len());
            return Err(fields.error(0, format!("{found} fields, expected {wanted}")));
        }
        let (buffer, live) = fields.buffer(&columns)?;
        if let Some(first) = ids.insert(buffer.name.clone(), at) {
            let message = format!("id '{}' is that of line {first} too", buffer.name);
            return Err(fields.error(columns["id"], message));
        }
        rows.push(fields.without(drop));
        buffers.push(buffer);
        lives.push(live);
    }
    let problem = Problem::from_lives(buffers, lives.clone());
    let problem =
        problem.map_err(|e| Diagnostic::error(e.to_string()).at(place(name, first, 0)))?;
    Ok(Table {
        header,
        rows,
        problem,
        lives,
    })
}

fn place(name: Name, line: usize, column: usize) -> Loc {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Loc::file(name, number(line), number(column).saturating_add(1))
}

/// The fields of a line, each with the byte where it begins.
struct Fields<'t> {
    name: Name,
    number: usize,
    line: &'t str,
    all: Vec<(usize, String)>,
}

impl<'t> Fields<'t> {
    fn of(name: Name, number: usize, line: &'t str) -> Result<Self, Diagnostic> {
        let (mut all, mut from) = (Vec::new(), 0);
        loop {
            let rest = &line[from..];
            let skipped = rest.len() - rest.trim_start().len();
            let (field, len) = match rest.trim_start().strip_prefix('"') {
                Some(quoted) => {
                    let Some((field, len)) = unquote(quoted) else {
                        let message = "a quote is not closed";
                        return Err(Diagnostic::error(message).at(place(name, number, from)));
                    };
                    let end = skipped + 1 + len;
                    let comma = rest[end..].find(',').unwrap_or(rest.len() - end);
                    (field, end + comma)
                }
                None => {
                    let len = rest.find(',').unwrap_or(rest.len());
                    (rest[..len].trim().to_string(), len)
                }
            };
            all.push((from + skipped, field));
            from += len + 1;
            if from > line.len() {
                break;
            }
        }
        Ok(Fields {
            name,
            number,
            line,
            all,
        })
    }

    fn error(&self, field: usize, message: String) -> Diagnostic {
        let at = self.all.get(field).map_or(0, |f| f.0);
        let column = self.line[..at].chars().count();
        Diagnostic::error(message).at(place(self.name, self.number, column))
    }

    /// The line as it stands there, without a field.
    fn without(&self, field: Option<usize>) -> std::borrow::Cow<'t, str> {
        let Some(field) = field else {
            return self.line.trim_end().into();
        };
        let quoted = |text: &str| text.contains([',', '"']);
        let others = self.all.iter().enumerate().filter(|(i, _)| *i != field);
        let others = others.map(|(_, (_, text))| match quoted(text) {
            true => format!("\"{}\"", text.replace('"', "\"\"")),
            false => text.clone(),
        });
        others.collect::<Vec<_>>().join(",").into()
    }

    fn buffer(&self, columns: &HashMap<&str, usize>) -> Result<(Buffer, Live), Diagnostic> {
        let number = |column: &str| {
            let at = columns[column];
            let text = &self.all[at].1;
            let number = text.parse::<u64>();
            number.map_err(|_| {
                self.error(
                    at,
                    format!("{column} '{text}' is no number from 0 to 2^64 - 1"),
                )
            })
        };
        let text = |column: &str| {
            columns
                .get(column)
                .map(|at| (*at, self.all[*at].1.as_str()))
        };
        let (lower, upper) = (number("lower")?, number("upper")?);
        if lower > upper {
            let message = format!("upper {upper} is below lower {lower}");
            return Err(self.error(columns["upper"], message));
        }
        let id = &self.all[columns["id"]].1;
        let mut buffer = Buffer::new(id, number("size")?);
        if let Some((at, _)) = text("alignment").filter(|(_, text)| !text.is_empty()) {
            buffer.align = number("alignment")?;
            if !buffer.align.is_power_of_two() {
                let message = format!("alignment {}, expected a power of two", buffer.align);
                return Err(self.error(at, message));
            }
        }
        let mut gaps = Vec::new();
        let (at, text) = text("gaps").unwrap_or((0, ""));
        for gap in text.split_whitespace() {
            let ends = gap.split_once('-');
            let ends = ends.and_then(|(a, b)| Some((a.parse::<u64>().ok()?, b.parse().ok()?)));
            let Some((from, to)) = ends.filter(|(a, b)| a <= b) else {
                let message = format!("gap '{gap}', expected LOWER-UPPER");
                return Err(self.error(at, message));
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
        Ok((buffer, live))
    }
}

/// The text up to the closing quote, and how many bytes it takes with that.
fn unquote(text: &str) -> Option<(String, usize)> {
    let (mut out, mut from) = (String::new(), 0);
    loop {
        let end = from + text[from..].find('"')?;
        out += &text[from..end];
        if !text[end + 1..].starts_with('"') {
            return Some((out.trim().to_string(), end + 1));
        }
        out.push('"');
        from = end + 2;
    }
}
