//! A file: scan, cut, aliases, pieces on all cores, one module out of them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tir_core::{Attr, BlockId, Diagnostic, Failure, Ir, Loc, LocFile, Name, Traits, Type};

use crate::cursor::Cursor;
use crate::lower::{Frame, Lower, MODULE};
use crate::preamble;
use crate::source::{Kind, Piece, Source, scan};
use crate::texts::{Shared, standalone};

/// How to read.
#[derive(Clone, Debug)]
pub struct ParseOptions {
    /// Keep operations, types and attributes of dialects that are not loaded.
    pub allow_unregistered: bool,
    /// Brackets may nest this deep.
    pub max_depth: usize,
    /// A file may have this many bytes.
    pub max_bytes: usize,
    /// Threads to use; 0 for one per core.
    pub threads: usize,
    /// Lines before the text in its file, where it is one part of a split file.
    pub lines_before: u32,
}

impl Default for ParseOptions {
    fn default() -> Self {
        Self {
            allow_unregistered: false,
            max_depth: crate::DEPTH,
            max_bytes: 1 << 30,
            threads: 0,
            lines_before: 0,
        }
    }
}

/// Stack of a thread that reads: enough for the depth limit in a debug build.
const STACK: usize = 256 << 20;
/// Stack, in bytes, that whoever reads or walks a program needs for one level of brackets where the
/// limit is raised; only what is used takes memory.
pub const STACK_PER_LEVEL: usize = 32 << 10;
/// Brackets nested deeper than this are read on a thread with its own stack.
const SHALLOW: usize = 40;
/// Files smaller than this are read on one thread.
const SMALL: usize = 128 << 10;
/// Pieces are read in groups of about this many bytes.
const GROUP: usize = 32 << 10;

/// Reads a file: always a `builtin.module`. If the only operation of the file is one, it is that
/// one; otherwise one around all operations of the file.
pub fn parse(text: &str, file: Name, opts: &ParseOptions) -> Result<Ir, Vec<Diagnostic>> {
    // A byte order mark says nothing.
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    if text.len() > opts.max_bytes.min(u32::MAX as usize / 2) {
        let max = opts.max_bytes;
        let message = format!(
            "the file has {} bytes, more than the limit of {max}",
            text.len()
        );
        return Err(vec![Diagnostic::error(message).at(Loc::file(file, 1, 1))]);
    }
    let source = Source::new(text, LocFile::new(file), opts.lines_before);
    let cut = scan(&source, opts.max_depth).map_err(|error| vec![error])?;
    let clean = cut.without_comments(text);
    let (text, source) = (&*clean, source.over(&clean));
    // The module around the pieces, where the file says one, as a text of its own.
    let frame = cut.module.as_ref().map(|(start, _, end)| {
        let outer = cut.pieces.iter().find(|piece| piece.kind == Kind::Op);
        let from = outer.map_or(0, |piece| piece.start);
        let to = outer.map_or(text.len(), |piece| piece.end);
        (
            format!("{}{}", &text[from..*start], &text[*end..to]),
            from,
            *start,
            *end,
        )
    });
    let mut file = File {
        shared: Shared::new(source, opts.allow_unregistered),
        opts,
        errors: Vec::new(),
    };
    if let Some((text, from, start, end)) = &frame {
        file.shared
            .source
            .add_frame(text, *from, start - from, *end);
    }
    let of = |kind: Kind| cut.pieces.iter().filter(move |piece| piece.kind == kind);
    for piece in of(Kind::Metadata) {
        let read = preamble::metadata(&mut file.shared, &text[piece.start..piece.end]);
        file.fail(read.err());
    }
    let definitions = of(Kind::Alias).map(|piece| &text[piece.start..piece.end]);
    let errors = preamble::aliases(&mut file.shared, definitions, opts.max_depth);
    file.fail(errors);
    if !file.errors.is_empty() {
        return Err(file.errors);
    }
    let deep = cut.depth > SHALLOW;
    let run = |file: &mut File<'_>| match (&frame, &cut.module) {
        (Some((head, ..)), Some((_, pieces, _))) => file.module(Some(head), pieces),
        _ => {
            let pieces: Vec<Piece> = of(Kind::Op).copied().collect();
            file.module(None, &pieces)
        }
    };
    let ir = if deep {
        match on_stack(cut.depth, || run(&mut file)) {
            Some(ir) => ir,
            None => {
                let message = format!("there is no memory for a stack of {} levels", cut.depth);
                file.errors.push(Diagnostic::error(message));
                None
            }
        }
    } else {
        run(&mut file)
    };
    let mut errors = file.errors;
    errors.sort_by_key(|error| error.loc.place().map(|(_, line, column)| (line, column)));
    match ir {
        Some(ir) if errors.is_empty() => Ok(ir),
        _ if errors.is_empty() => Err(vec![Diagnostic::error("nothing could be read")]),
        _ => Err(errors),
    }
}

/// Runs on a thread with a stack for brackets of this depth.
fn on_stack<T: Send>(depth: usize, run: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| {
        let size = STACK.max(depth.saturating_mul(STACK_PER_LEVEL));
        let builder = std::thread::Builder::new().stack_size(size);
        let handle = builder.spawn_scoped(scope, run).ok()?;
        handle.join().ok()
    })
}

struct File<'t> {
    shared: Shared<'t>,
    opts: &'t ParseOptions,
    errors: Vec<Diagnostic>,
}

/// What a thread made of a group of pieces: each an isolated operation, or nothing if it has to
/// be read in the module.
type Read = Vec<Option<Ir>>;

impl<'t> File<'t> {
    fn fail(&mut self, failures: impl IntoIterator<Item = Failure>) {
        let real = failures
            .into_iter()
            .filter(|error| !error.message.is_empty());
        self.errors.extend(real.map(|error| *error));
    }

    /// The module: as its frame says, filled with pieces.
    fn module(&mut self, frame: Option<&str>, pieces: &[Piece]) -> Option<Ir> {
        let name = Name::new(MODULE);
        let loc = self.shared.source.loc_at(0);
        let mut errors = Vec::new();
        let made = self.pieces(pieces);
        let shared = &self.shared;
        let mut lower = Lower::new(shared, name, Loc::UNKNOWN);
        let mut ir = match frame {
            Some(text) => {
                let region = lower.frame.ir.new_region();
                let block = lower.frame.ir.new_block(region);
                errors.extend(lower.run(text, block));
                let first = lower.frame.ir.first(block);
                let child = first.and_then(|op| lower.frame.ir.take(op));
                child.unwrap_or_else(|| Ir::with_loc(name, loc))
            }
            None => Ir::with_loc(name, if pieces.len() == 1 { Loc::UNKNOWN } else { loc }),
        };
        let root = ir.root();
        let region = ir.regions(root).next();
        let region = match region {
            Some(region) => region,
            None => {
                let region = ir.new_region();
                ir.attach_region(root, region);
                region
            }
        };
        let block = match ir.entry(region) {
            Some(block) => block,
            None => ir.new_block(region),
        };
        let mut outer = Frame::new(name, loc);
        outer.ir = ir;
        lower.frame = outer;
        let count = pieces.len();
        for (piece, made) in pieces.iter().zip(made) {
            match made {
                Some(child) => {
                    lower.frame.ir.adopt(block, child);
                }
                None => {
                    let text = shared.source.text.get(piece.start..piece.end).unwrap_or("");
                    errors.extend(lower.run(text, block));
                }
            }
        }
        let failed = !errors.is_empty();
        let ir = lower.take_frame(Frame::new(name, loc));
        drop(lower);
        let mut ir = match ir {
            Ok(ir) => Some(ir),
            Err(error) => {
                // An error before may be why something is not defined.
                if !failed {
                    errors.push(error);
                }
                None
            }
        };
        // A single module is the file's, not one in the file's.
        if frame.is_none()
            && count == 1
            && let Some(outer) = &mut ir
            && let Some(only) = outer.first(block)
            && outer.next(only).is_none()
            && &*outer.name(only) == MODULE
            && outer.results(only).len() == 0
            && outer.operands(only).len() == 0
            && let Some(inner) = outer.take(only)
        {
            ir = Some(inner);
        }
        if let Some(ir) = &mut ir {
            // A module has a block, even where nothing is written.
            let root = ir.root();
            let region = ir.regions(root).next();
            match region {
                Some(region) if ir.entry(region).is_none() => {
                    ir.new_block(region);
                }
                _ => {}
            }
        }
        self.fail(errors);
        ir
    }

    /// Reads pieces that are isolated operations on all cores.
    fn pieces(&self, pieces: &[Piece]) -> Read {
        let total: usize = pieces.iter().map(|piece| piece.end - piece.start).sum();
        let threads = match self.opts.threads {
            0 => std::thread::available_parallelism().map_or(1, |n| n.get()),
            n => n,
        };
        let mut groups: Vec<(usize, usize)> = Vec::new();
        let mut size = GROUP;
        for (i, piece) in pieces.iter().enumerate() {
            let len = piece.end - piece.start;
            match groups.last_mut() {
                Some((_, end)) if size + len <= GROUP => {
                    *end = i + 1;
                    size += len;
                }
                _ => {
                    groups.push((i, i + 1));
                    size = len;
                }
            }
        }
        if threads < 2 || total < SMALL || groups.len() < 2 {
            return self.read_groups(pieces, &groups, &AtomicUsize::new(0));
        }
        let next = AtomicUsize::new(0);
        let done: Mutex<Vec<(usize, Read)>> = Mutex::new(Vec::with_capacity(groups.len()));
        std::thread::scope(|scope| {
            let work = || {
                let mut reader = Reader::new(&self.shared);
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some((from, to)) = groups.get(at) else {
                        break;
                    };
                    let read = reader.group(&pieces[*from..*to]);
                    done.lock()
                        .unwrap_or_else(|p| p.into_inner())
                        .push((at, read));
                }
            };
            let mut left = threads.min(groups.len()) - 1;
            while left > 0 {
                let builder = std::thread::Builder::new().stack_size(STACK);
                if builder.spawn_scoped(scope, work).is_err() {
                    break;
                }
                left -= 1;
            }
            work();
        });
        let mut done = done.into_inner().unwrap_or_else(|p| p.into_inner());
        done.sort_by_key(|(at, _)| *at);
        done.into_iter().flat_map(|(_, read)| read).collect()
    }

    fn read_groups(
        &self,
        pieces: &[Piece],
        groups: &[(usize, usize)],
        _next: &AtomicUsize,
    ) -> Read {
        let mut reader = Reader::new(&self.shared);
        groups
            .iter()
            .flat_map(|(from, to)| reader.group(&pieces[*from..*to]))
            .collect()
    }
}

/// Reads pieces apart from the module.
struct Reader<'s> {
    lower: Lower<'s>,
    block: BlockId,
}

impl<'s> Reader<'s> {
    fn new(shared: &'s Shared<'s>) -> Self {
        let mut lower = Lower::new(shared, Name::new(MODULE), Loc::UNKNOWN);
        let region = lower.frame.ir.new_region();
        let block = lower.frame.ir.new_block(region);
        Self { lower, block }
    }

    fn group(&mut self, pieces: &[Piece]) -> Read {
        let source = &self.lower.texts.shared.source;
        let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else {
            return Vec::new();
        };
        let text = source.text.get(first.start..last.end).unwrap_or("");
        // Only operations that are known to be isolated are read apart.
        let apart = |piece: &Piece| {
            let text = source.text.get(piece.start..piece.end).unwrap_or("");
            let mut cursor = Cursor::new(text);
            let name = match cursor.string() {
                Some(name) => name.trim_matches('"'),
                None => {
                    let end =
                        text.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.' | '$')));
                    &text[..end.unwrap_or(text.len())]
                }
            };
            let info = Name::new(name).info();
            info.is_some_and(|info| info.has(Traits::IsolatedFromAbove))
        };
        if !pieces.iter().all(apart) {
            return self.each(pieces);
        }
        let errors = self.lower.run(text, self.block);
        let ir = &mut self.lower.frame.ir;
        let slots: Vec<_> = ir.ops_in(self.block).collect();
        let plain = errors.is_empty()
            && slots.len() == pieces.len()
            && slots.iter().all(|slot| {
                ir.child(*slot).is_some()
                    && ir.operands(*slot).len() == 0
                    && ir.results(*slot).len() == 0
            });
        if !plain {
            *self = Self::new(self.lower.texts.shared);
            return self.each(pieces);
        }
        slots.into_iter().map(|slot| ir.take(slot)).collect()
    }

    /// Pieces that are not read together, one by one; nothing for one that is not read apart.
    fn each(&mut self, pieces: &[Piece]) -> Read {
        match pieces {
            [_] => vec![None],
            _ => pieces
                .iter()
                .flat_map(|piece| self.group(&[*piece]))
                .collect(),
        }
    }
}

/// Reads an attribute.
pub fn parse_attr(text: &str) -> Result<Attr, Diagnostic> {
    standalone(text, true, |texts, text| texts.attr(text))
}

/// Reads a type.
pub fn parse_type(text: &str) -> Result<Type, Diagnostic> {
    standalone(text, true, |texts, text| texts.ty(text))
}
