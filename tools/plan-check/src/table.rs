//! Buffers of a file with a header and commas.

use std::collections::HashMap;

use crate::Malformed;

/// A buffer as a file has it.
pub(crate) struct Row {
    pub(crate) line: usize,
    pub(crate) id: String,
    /// Half-open, rising, apart, without gaps.
    pub(crate) lives: Vec<(u64, u64)>,
    pub(crate) size: u64,
    pub(crate) align: u64,
    pub(crate) offset: Option<u64>,
}

/// The rows of a file; with `offsets`, each must have one.
pub(crate) fn read(text: &str, offsets: bool) -> Result<Vec<Row>, Malformed> {
    let mut header: Option<HashMap<String, usize>> = None;
    let (mut rows, mut ids) = (Vec::new(), HashMap::new());
    for (at, line) in text.lines().enumerate() {
        let line = line.trim_start_matches('\u{feff}');
        if line.trim().is_empty() {
            continue;
        }
        let wrong = |message: String| Malformed {
            line: at + 1,
            message,
        };
        let fields = split(line).ok_or_else(|| wrong("a quote is not closed".to_string()))?;
        let Some(columns) = &header else {
            let columns: HashMap<String, usize> = fields
                .into_iter()
                .enumerate()
                .map(|(i, f)| (f, i))
                .collect();
            let needed = ["id", "lower", "upper", "size"].into_iter();
            let mut needed = needed.chain(offsets.then_some("offset"));
            if let Some(missing) = needed.find(|name| !columns.contains_key(*name)) {
                return Err(wrong(format!("there is no column '{missing}'")));
            }
            header = Some(columns);
            continue;
        };
        if fields.len() != columns.len() {
            let message = format!("{} fields, expected {}", fields.len(), columns.len());
            return Err(wrong(message));
        }
        let field = |name: &str| columns.get(name).map(|i| fields[*i].as_str());
        let number = |name: &str| {
            let text = field(name).unwrap_or_default();
            let number = text.parse::<u64>();
            number.map_err(|_| wrong(format!("{name} '{text}' is no number")))
        };
        let (lower, upper) = (number("lower")?, number("upper")?);
        if lower > upper {
            return Err(wrong(format!("lower {lower} is above upper {upper}")));
        }
        let align = match field("alignment").unwrap_or_default() {
            "" => 1,
            _ => number("alignment")?,
        };
        if align == 0 {
            return Err(wrong("alignment 0".to_string()));
        }
        let mut lives = vec![(lower, upper)];
        for gap in field("gaps").unwrap_or_default().split_whitespace() {
            let ends = gap.split_once('-');
            let ends = ends.and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
            let (from, to): (u64, u64) =
                ends.ok_or_else(|| wrong(format!("gap '{gap}' is not of the form LOWER-UPPER")))?;
            if from > to {
                return Err(wrong(format!("gap '{gap}' ends before it begins")));
            }
            lives = lives
                .into_iter()
                .flat_map(|(a, b)| [(a, b.min(from)), (a.max(to), b)])
                .collect();
        }
        lives.retain(|(a, b)| a < b);
        lives.sort_unstable();
        let row = Row {
            line: at + 1,
            id: field("id").unwrap_or_default().to_string(),
            lives,
            size: number("size")?,
            align,
            offset: if offsets {
                Some(number("offset")?)
            } else {
                None
            },
        };
        if let Some(first) = ids.insert(row.id.clone(), at + 1) {
            return Err(wrong(format!(
                "id '{}' is that of line {first} too",
                row.id
            )));
        }
        rows.push(row);
    }
    if header.is_none() {
        return Err(Malformed {
            line: 1,
            message: "there is no header".to_string(),
        });
    }
    Ok(rows)
}

/// The fields of a line, which may stand in quotes; none if a quote is not closed.
fn split(line: &str) -> Option<Vec<String>> {
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.next_if_eq(&'"').is_some() => field.push('"'),
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(std::mem::take(&mut field)),
            c => field.push(c),
        }
    }
    fields.push(field);
    let clean = |field: String| field.trim().to_string();
    (!quoted).then(|| fields.into_iter().map(clean).collect())
}
