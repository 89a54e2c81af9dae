//! A report of what fills a space as text, and as notes of an error.

use std::fmt::Write;

use tir::{Diagnostic, Ir, Loc, OpId, grouped, workload};

use super::{Change, Content, Holder, Report, What, Why};

/// Buffers of far memory that are listed, the largest ones.
const SHOWN: usize = 8;

/// An op by its name and its place.
fn place(ir: &Ir, op: OpId) -> String {
    let mut all = Vec::new();
    workload::places(ir.loc(op), &mut all);
    match all.first() {
        Some(first) => format!("'{}' at {first}", ir.name(op)),
        None => format!("'{}'", ir.name(op)),
    }
}

impl Holder {
    fn about(&self, ir: &Ir) -> String {
        let mut text = String::new();
        if self.slots > 1 {
            let _ = write!(text, "{} slots, ", self.slots);
        }
        match &self.of {
            Content::Copy(names) if names.is_empty() => {}
            Content::Copy(names) => {
                let _ = write!(text, "of {}, ", names.join(" and "));
            }
            Content::Computed(op) => {
                let _ = write!(text, "computed by {}, ", place(ir, *op));
            }
        }
        match self.why {
            Why::Used => text += "used here",
            Why::For(op) => text += &format!("next used by {}", place(ir, op)),
            Why::Again(op) => {
                text += &format!("used by {} when the loop around runs again", place(ir, op));
            }
        }
        text
    }
}

impl Change {
    /// What it is, and what it brings.
    pub fn text(&self, ir: &Ir, before: u64) -> String {
        let name = &self.name;
        let lower = grouped(before.saturating_sub(self.height));
        let what = match &self.what {
            What::Slots(1) => format!("one slot for {name}"),
            What::Slots(n) => format!("{n} slots for {name}"),
            What::Gap {
                from,
                to,
                clean,
                moved,
            } => {
                let how = if *clean { "loaded again" } else { "spilled" };
                let moved = moved.map_or("bytes moved as often as the loop runs".into(), |n| {
                    format!("{} bytes moved for it", grouped(n))
                });
                let (from, to) = (place(ir, *from), place(ir, *to));
                format!("{name} {how} between {from} and {to} ({moved})")
            }
        };
        format!(
            "{what}: {lower} bytes less, {} in all",
            grouped(self.height)
        )
    }
}

impl Report {
    /// As text: what is full, when, who holds it and why, and what would help.
    pub fn text(&self, ir: &Ir) -> String {
        let (height, capacity) = (grouped(self.height), grouped(self.capacity));
        let mut out = format!("@{}: {height} of {capacity} bytes", self.space);
        if let Some(given) = self.given {
            let given = grouped(given);
            let _ = write!(out, ", beside {given} of arguments and constants");
        }
        let all = self.given.map(|given| self.height.saturating_add(given));
        if let Some(missing) = all.and_then(|all| all.checked_sub(self.capacity))
            && missing > 0
        {
            let _ = write!(out, ", {} more than there are", grouped(missing));
        }
        if self.height <= self.bound {
            out += ", no plan takes less\n";
        } else {
            let _ = writeln!(out, ", no plan takes less than {}", grouped(self.bound));
        }
        let (live, many) = (grouped(self.live), self.holders.len());
        let moment = place(ir, self.op);
        let _ = writeln!(
            out,
            "  most is live at {moment}: {live} bytes in {many} buffers{}",
            self.as_aligned()
        );
        let wide = self.holders.iter().map(|h| grouped(h.bytes).len()).max();
        let names = self.holders.iter().map(|h| h.name.len()).max();
        let (wide, names) = (wide.unwrap_or(0), names.unwrap_or(0));
        let shown = self.given.map_or(many, |_| SHOWN);
        for holder in self.holders.iter().take(shown) {
            let held = grouped(holder.bytes);
            let name = &holder.name;
            let about = holder.about(ir);
            let _ = writeln!(out, "    {held:>wide$}  {name:<names$}  {about}");
        }
        if many > shown {
            let _ = writeln!(out, "    and {} smaller ones", many - shown);
        }
        if self.given.is_some() {
            return out;
        }
        if self.changes.is_empty() {
            out += "  no slot less and no buffer in far memory meanwhile makes it less\n";
        } else {
            out += "  what would make it less, each with those before it:\n";
        }
        let mut before = self.height;
        for change in &self.changes {
            let _ = writeln!(out, "    {}", change.text(ir, before));
            before = change.height;
        }
        out
    }

    /// What the buffers of the moment take more as they are aligned.
    fn as_aligned(&self) -> String {
        match self.aligned > self.live {
            true => format!(", {} as they are aligned", grouped(self.aligned)),
            false => String::new(),
        }
    }

    /// Adds to an error why the space does not hold its buffers, with places, and what would help.
    pub fn explain(&self, ir: &Ir, mut error: Diagnostic) -> Diagnostic {
        let at = |op: OpId| -> Loc { ir.loc(op) };
        let live = format!(
            "{} bytes live at the same time, {}",
            self.live,
            place(ir, self.op)
        );
        error = error.note_at(at(self.op), live);
        for holder in &self.holders {
            let (name, bytes) = (&holder.name, holder.bytes);
            let held = format!("{name} holds {bytes}: {}", holder.about(ir));
            error = error.note_at(at(holder.op), held);
        }
        if self.live <= self.capacity && self.bound > self.capacity {
            error = error.note(format!(
                "these would fit, but for their alignment: no plan takes less than {} bytes",
                grouped(self.bound)
            ));
        } else if self.live <= self.capacity {
            error = error.note("these would fit, but no plan was found that has no gaps");
        }
        let mut before = self.height;
        for change in &self.changes {
            let fits = if change.height <= self.capacity {
                ", which fits"
            } else {
                ""
            };
            let text = format!("help: {}{fits}", change.text(ir, before));
            error = error.note_at(at(change.op), text);
            before = change.height;
        }
        if self.changes.is_empty() {
            error = error.note(format!(
                "{} bytes more would do; no slot less and no buffer in far memory meanwhile makes it less",
                self.height.saturating_sub(self.capacity)
            ));
        }
        error
    }
}
