//! Buffers of a file with a header and commas.

use std::collections::HashMap;

use crate::Malformed;

/// A buffer as a file has it.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) line: usize,
    pub(crate) id: String,
    /// Half-open, rising, apart, without gaps.
    pub(crate) lives: Vec<(u64, u64)>,
    pub(crate) size: u64,
    pub(crate) align: u64,
    pub(crate) space: String,
    /// The offset that it must have.
    pub(crate) fixed: Option<u64>,
    /// The number of the bank that it must lie in.
    pub(crate) bank: Option<u64>,
    /// Buffers that it is to share no bank with, and what it costs if it does; nothing where it must not.
    pub(crate) apart: Vec<(usize, Option<u64>)>,
    /// The row that it lies in, and how many bytes from its begin.
    pub(crate) within: Option<(usize, u64)>,
    pub(crate) offset: Option<u64>,
}

/// The columns that mean something here; `hint` means nothing.
const KNOWN: [&str; 13] = [
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

/// A line as fields, each with the column where it begins, from 1.
struct Line<'c> {
    number: usize,
    fields: Vec<(usize, String)>,
    columns: &'c HashMap<String, usize>,
}

impl Line<'_> {
    fn field(&self, name: &str) -> &str {
        let at = self.columns.get(name);
        at.map_or("", |at| self.fields[*at].1.as_str())
    }

    fn wrong(&self, name: &str, message: String) -> Malformed {
        let at = self.columns.get(name).and_then(|at| self.fields.get(*at));
        Malformed {
            line: self.number,
            column: at.map_or(1, |field| field.0),
            message,
        }
    }

    fn number(&self, name: &str) -> Result<u64, Malformed> {
        let text = self.field(name);
        let number = text.parse::<u64>();
        number.map_err(|_| self.wrong(name, format!("{name} '{text}' is no number")))
    }

    fn if_said(&self, name: &str) -> Result<Option<u64>, Malformed> {
        match self.field(name) {
            "" => Ok(None),
            _ => self.number(name).map(Some),
        }
    }

    fn lives(&self) -> Result<Vec<(u64, u64)>, Malformed> {
        let (lower, upper) = (self.number("lower")?, self.number("upper")?);
        if lower > upper {
            let message = format!("lower {lower} is above upper {upper}");
            return Err(self.wrong("lower", message));
        }
        let mut gaps = Vec::new();
        for gap in self.field("gaps").split_whitespace() {
            let ends = gap.split_once('-');
            let ends = ends.and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
            let wrong = || {
                self.wrong(
                    "gaps",
                    format!("gap '{gap}' is not of the form LOWER-UPPER"),
                )
            };
            let (from, to): (u64, u64) = ends.ok_or_else(wrong)?;
            if from > to {
                let message = format!("gap '{gap}' ends before it begins");
                return Err(self.wrong("gaps", message));
            }
            gaps.push((from, to));
        }
        gaps.sort_unstable();
        // What lies behind all gaps that were looked at begins here.
        let mut begin = lower;
        let mut lives = Vec::new();
        for (from, to) in gaps.into_iter().chain([(upper, upper)]) {
            let end = from.min(upper);
            if begin < end {
                lives.push((begin, end));
            }
            begin = begin.max(to);
        }
        Ok(lives)
    }
}

/// What `within` and `apart` of a row say, with their columns.
type Names = [(usize, String); 2];

/// The rows of a file; with `offsets`, each must have one.
pub(crate) fn read(text: &str, offsets: bool) -> Result<Vec<Row>, Malformed> {
    let mut header: Option<HashMap<String, usize>> = None;
    let (mut rows, mut ids) = (Vec::<Row>::new(), HashMap::new());
    // What other rows are named by, which may stand behind.
    let mut named: Vec<(usize, usize, Names)> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim_start_matches('\u{feff}');
        if line.trim().is_empty() {
            continue;
        }
        let number = at + 1;
        let wrong = |column: usize, message: String| Malformed {
            line: number,
            column,
            message,
        };
        let fields = split(line).ok_or_else(|| wrong(1, "a quote is not closed".to_string()))?;
        let Some(columns) = &header else {
            if let Some((column, unknown)) =
                fields.iter().find(|(_, f)| !KNOWN.contains(&f.as_str()))
            {
                let message = format!("unknown column '{unknown}', expected {}", KNOWN.join(", "));
                return Err(wrong(*column, message));
            }
            let columns = fields.into_iter().enumerate();
            let columns: HashMap<String, usize> = columns.map(|(i, (_, f))| (f, i)).collect();
            let needed = ["id", "lower", "upper", "size"].into_iter();
            let mut needed = needed.chain(offsets.then_some("offset"));
            if let Some(missing) = needed.find(|name| !columns.contains_key(*name)) {
                return Err(wrong(1, format!("there is no column '{missing}'")));
            }
            header = Some(columns);
            continue;
        };
        if fields.len() != columns.len() {
            let message = format!("{} fields, expected {}", fields.len(), columns.len());
            return Err(wrong(1, message));
        }
        let line = Line {
            number,
            fields,
            columns,
        };
        let align = line.if_said("alignment")?.unwrap_or(1);
        if align == 0 {
            return Err(line.wrong("alignment", "alignment 0".to_string()));
        }
        let row = Row {
            line: number,
            id: line.field("id").to_string(),
            lives: line.lives()?,
            size: line.number("size")?,
            align,
            space: line.field("space").to_string(),
            fixed: line.if_said("fixed")?,
            bank: line.if_said("bank")?,
            apart: Vec::new(),
            within: None,
            offset: match offsets {
                true => Some(line.number("offset")?),
                false => None,
            },
        };
        if let Some(first) = ids.insert(row.id.clone(), rows.len()) {
            let first: &Row = &rows[first];
            let message = format!("id '{}' is that of line {} too", row.id, first.line);
            return Err(line.wrong("id", message));
        }
        let names = ["within", "apart"].map(|name| {
            let column = line.columns.get(name).map_or(1, |at| line.fields[*at].0);
            (column, line.field(name).to_string())
        });
        if names.iter().any(|(_, text)| !text.is_empty()) {
            named.push((rows.len(), number, names));
        }
        rows.push(row);
    }
    if header.is_none() {
        return Err(Malformed {
            line: 1,
            column: 1,
            message: "there is no header".to_string(),
        });
    }
    for (row, line, names) in named {
        resolve(&mut rows, &ids, row, line, &names)?;
    }
    Ok(rows)
}

/// Finds the rows that another one names: the one it lies in, and those it is to be apart from.
fn resolve(
    rows: &mut [Row],
    ids: &HashMap<String, usize>,
    row: usize,
    line: usize,
    names: &Names,
) -> Result<(), Malformed> {
    let [(in_column, within), (apart_column, apart)] = names;
    let wrong = |column: usize, message: String| Malformed {
        line,
        column,
        message,
    };
    if !within.is_empty() {
        let whole = ids.get(within).map(|other| (*other, 0));
        let part = || {
            let (id, bytes) = within.rsplit_once('+')?;
            Some((*ids.get(id.trim())?, bytes.trim().parse().ok()?))
        };
        let found = whole.or_else(part);
        let message = || format!("'{within}' is no buffer, and no ID+BYTES of one");
        rows[row].within = Some(found.ok_or_else(|| wrong(*in_column, message()))?);
    }
    for one in apart.split_whitespace() {
        let must = ids.get(one).map(|other| (*other, None));
        let costs = || {
            let (id, cost) = one.rsplit_once(':')?;
            Some((*ids.get(id)?, Some(cost.parse().ok()?)))
        };
        let message = || format!("'{one}' is no buffer, and no ID:COST of one");
        let found = must.or_else(costs);
        let found = found.ok_or_else(|| wrong(*apart_column, message()))?;
        rows[row].apart.push(found);
    }
    Ok(())
}

/// The fields of a line, which may stand in quotes, with their columns; none if a quote is not closed.
fn split(line: &str) -> Option<Vec<(usize, String)>> {
    let (mut fields, mut field, mut quoted, mut from) = (Vec::new(), String::new(), false, 1);
    let mut chars = line.chars().enumerate().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' if quoted && chars.next_if(|(_, c)| *c == '"').is_some() => field.push('"'),
            '"' => quoted = !quoted,
            ',' if !quoted => {
                fields.push((from, std::mem::take(&mut field)));
                from = at + 2;
            }
            c => field.push(c),
        }
    }
    fields.push((from, field));
    let clean = |(from, field): (usize, String)| {
        let skipped = field.chars().take_while(|c| c.is_whitespace()).count();
        (from + skipped, field.trim().to_string())
    };
    (!quoted).then(|| fields.into_iter().map(clean).collect())
}
