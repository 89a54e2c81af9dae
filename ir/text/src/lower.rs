//! From the tree of a text to operations.

use std::rc::Rc;

use rustc_hash::FxHashMap;
use tir_core::{
    Attr, BlockId, DictAttr, Failure, Ir, Loc, Name, OpInfo, OpState, PROPERTIES, SmallVec, Traits,
    Type, unquote,
};

use crate::cursor::{Cursor, bare_op};
use crate::error::{explain_ops, not_an_op, op_like, op_named};
use crate::format::Format;
use crate::matcher::function_parts;
use crate::parser::{AsmObject, AsmParser, Cx};
use crate::scope::{Key, Scope};
use crate::source::Locator;
use crate::texts::{Shared, Texts};
use crate::tree::{Rule, Tree, View};

/// An isolated operation that is being read.
pub(crate) struct Frame {
    pub(crate) ir: Ir,
    pub(crate) scope: Scope,
}

impl Frame {
    pub(crate) fn new(name: Name, loc: Loc) -> Self {
        Self {
            ir: Ir::with_loc(name, loc),
            scope: Scope::default(),
        }
    }
}

/// How an op is written.
pub(crate) enum Syntax {
    /// In generic form only.
    Generic,
    /// By its format.
    Format(Format),
    /// By Rust code.
    Custom(&'static dyn AsmObject),
    /// Its format is wrong.
    Wrong(String),
}

impl Syntax {
    pub(crate) fn of(name: Name, info: Option<&'static OpInfo>) -> Self {
        let Some(info) = info else {
            return Self::Generic;
        };
        if let Some(object) = info.interface::<dyn AsmObject>() {
            return Self::Custom(object);
        }
        let _ = name;
        match &info.asm {
            Some(text) => match crate::format::parse(info, text) {
                Ok(format) => Self::Format(format),
                Err(error) => Self::Wrong(error),
            },
            None => Self::Generic,
        }
    }
}

/// What is kept about an op name.
struct Known {
    name: Name,
    info: Option<&'static OpInfo>,
    isolated: bool,
    syntax: Syntax,
    /// Attributes with a default, which are added where missing.
    defaults: Vec<(Name, Attr)>,
}

/// The name of the outermost operation.
pub(crate) const MODULE: &str = "builtin.module";

/// Reads operations into an arena.
pub(crate) struct Lower<'s> {
    pub(crate) texts: Texts<'s>,
    pub(crate) frame: Frame,
    locator: Locator,
    known: FxHashMap<Box<str>, Rc<Known>>,
    /// Blocks by label, of each region that is being read.
    pub(crate) blocks: Vec<FxHashMap<Box<str>, BlockId>>,
    /// The names of results of the op being read, for messages.
    fallback: Loc,
}

impl<'s> Lower<'s> {
    pub(crate) fn new(shared: &'s Shared<'s>, name: Name, loc: Loc) -> Self {
        Self {
            texts: Texts::new(shared),
            frame: Frame::new(name, loc),
            locator: Locator::default(),
            known: FxHashMap::default(),
            blocks: Vec::new(),
            fallback: Loc::UNKNOWN,
        }
    }

    /// Takes the operation that was read out, when all its values are defined.
    pub(crate) fn take_frame(&mut self, next: Frame) -> Result<Ir, Failure> {
        let mut frame = std::mem::replace(&mut self.frame, next);
        frame.scope.finish(&self.texts, &mut frame.ir)?;
        Ok(frame.ir)
    }

    fn loc(&mut self, piece: &str) -> Loc {
        match self.texts.shared.source.offset(piece) {
            Some(offset) => self.locator.loc(&self.texts.shared.source, offset),
            None => self.fallback,
        }
    }

    fn known(&mut self, text: &str, written: &str) -> Result<Rc<Known>, Failure> {
        if let Some(known) = self.known.get(written) {
            return Ok(known.clone());
        }
        let key = written;
        // In quotes a name is what it says.
        let bare = bare_op(text).filter(|_| !written.starts_with('"'));
        let name = Name::new(bare.unwrap_or(text));
        let text = name.as_str();
        let info = name.info();
        if info.is_none() && text != MODULE && !self.texts.shared.allow_unregistered {
            return Err(self.unknown(text, written));
        }
        let isolated = match info {
            Some(info) => info.has(Traits::IsolatedFromAbove),
            None => text == MODULE,
        };
        let defaults = info.map_or_else(Vec::new, |info| {
            let fields = info.fields.iter();
            fields.filter_map(|f| Some((f.name, f.default?))).collect()
        });
        let syntax = Syntax::of(name, info);
        let known = Rc::new(Known {
            name,
            info,
            isolated,
            syntax,
            defaults,
        });
        self.known.insert(key.into(), known.clone());
        Ok(known)
    }

    fn unknown(&self, name: &str, written: &str) -> Failure {
        let Some((dialect, tail)) = name.split_once('.') else {
            let help = op_named(name).map_or(String::new(), |n| format!("; did you mean `{n}`?"));
            let message = format!("'{name}' is not an operation{help}");
            return self.texts.error(written, message);
        };
        if tir_core::Dialect::named(dialect).is_some() {
            let near = op_like(name).or_else(|| op_named(tail));
            let help = near.map_or(String::new(), |n| format!("; did you mean `{n}`?"));
            let message = format!("dialect '{dialect}' has no operation `{tail}`{help}");
            return self.texts.error(written, message);
        }
        let near = op_like(name).or_else(|| op_named(tail));
        let help = near.map_or(String::new(), |n| format!("; did you mean `{n}`?"));
        let message = format!("'{name}' is of dialect '{dialect}', which is not loaded{help}");
        let error = self.texts.shared.source.error(written, message);
        let error = error.note(tir_core::Dialect::loaded_names());
        Box::new(error.note("--allow-unregistered-dialect keeps operations that are not known"))
    }

    /// Reads a run of operations, by rule `ops`, to the end of a block. Gives one error for each
    /// operation that has one.
    pub(crate) fn run(&mut self, text: &str, block: BlockId) -> Vec<Failure> {
        let tree = match Tree::parse(Rule::ops, text) {
            Ok(tree) => tree,
            Err(_) => return vec![explain_ops(&self.texts.shared.source, text)],
        };
        let view = tree.view();
        let mut errors = Vec::new();
        if view.nodes.is_empty() {
            return errors;
        }
        self.blocks.push(FxHashMap::default());
        for node in view.children(0) {
            if view.node(node).rule != Rule::op {
                continue;
            }
            if let Err(error) = self.op(view, node, block) {
                if !error.message.is_empty() {
                    errors.push(error);
                }
                self.poison(view, node);
            }
        }
        self.blocks.pop();
        errors
    }

    /// After an error: what the op defines is no more unknown.
    pub(crate) fn poison(&mut self, view: View<'_>, node: usize) {
        for child in view.children(node) {
            if view.node(child).rule == Rule::results {
                let mut cursor = Cursor::new(view.str(child));
                while let Some(name) = cursor.sigil(b'%') {
                    self.frame.scope.poison(Key::new(&name[1..]));
                    if cursor.eat(":") {
                        cursor.number();
                    }
                    cursor.eat(",");
                }
            }
        }
    }

    /// Reads one operation to the end of a block.
    pub(crate) fn op(
        &mut self,
        view: View<'_>,
        node: usize,
        block: BlockId,
    ) -> Result<(), Failure> {
        let loc = self.loc(view.str(node));
        let mut children = view.children(node);
        let mut first = children.next().unwrap_or(node);
        let mut results = "";
        if view.node(first).rule == Rule::results {
            results = view.str(first);
            first = children.next().unwrap_or(node);
        }
        let written = view.str(first);
        if view.node(first).rule == Rule::op_name {
            return self.pretty(view, first, loc, results, block);
        }
        let inner = written
            .get(1..written.len().saturating_sub(1))
            .unwrap_or("");
        let known = if inner.contains('\\') {
            let name = unquote(written).unwrap_or_default();
            self.known(&name, written)?
        } else {
            self.known(inner, written)?
        };
        let mut state = OpState::new(known.name);
        state.loc = loc;
        let mut child = known.isolated.then(|| Frame::new(known.name, loc));
        let mut operands = "";
        let mut ty = "";
        let mut successors = None;
        let mut regions: SmallVec<[usize; 2]> = SmallVec::new();
        for part in children {
            let text = view.str(part);
            match view.node(part).rule {
                Rule::operands => operands = text,
                Rule::successors => successors = Some(text),
                Rule::properties => {
                    for dictionary in view.children(part) {
                        let text = view.str(dictionary);
                        if known.info.is_some() || &*known.name == MODULE {
                            self.attributes(&mut state, text)?;
                            continue;
                        }
                        // Which attributes are properties is known of loaded ops only.
                        let entries = self.texts.dictionary(text)?.to_vec();
                        state.set_attr(PROPERTIES, Attr::new(DictAttr::new(entries)));
                    }
                }
                Rule::region => regions.push(part),
                Rule::dictionary => self.attributes(&mut state, text)?,
                Rule::function_type => ty = text,
                Rule::location => {
                    state.loc = self.texts.location(text)?;
                }
                _ => {}
            }
        }
        let Some((inputs, outputs)) = function_parts(self.texts.ty(ty)?) else {
            return Err(self.texts.error(ty, "expected a function type"));
        };
        self.operands(&mut state, operands, inputs, ty)?;
        if let Some(text) = successors {
            let mut cursor = Cursor::new(text);
            cursor.pos = 1;
            while let Some(label) = cursor.sigil(b'^') {
                let block = self.block(label)?;
                state.successors.push(block);
                cursor.eat(",");
            }
        }
        state.results.extend(outputs.iter().copied());
        for region in regions {
            let region = self.region_of(view, region, None, child.as_mut())?;
            state.regions.push(region);
        }
        self.create(&known, state, child, results, block, true)
    }

    fn attributes(&self, state: &mut OpState, text: &str) -> Result<(), Failure> {
        let entries = self.texts.dictionary(text)?;
        let before = state.attrs.len();
        for (name, value) in entries.iter() {
            if before > 0 && state.attr(name).is_some() {
                return Err(self
                    .texts
                    .error(text, format!("attribute '{name}' occurs twice")));
            }
            state.attrs.push((*name, *value));
        }
        Ok(())
    }

    fn operands(
        &mut self,
        state: &mut OpState,
        text: &str,
        types: &[Type],
        ty: &str,
    ) -> Result<(), Failure> {
        let mut cursor = Cursor::new(text);
        cursor.pos = 1;
        let mut types = types.iter();
        let mut count = 0;
        while let Some(piece) = cursor.sigil(b'%') {
            count += 1;
            if let Some(ty) = types.next() {
                let frame = &mut self.frame;
                let value = frame
                    .scope
                    .find(&self.texts, &mut frame.ir, piece, Some(*ty))?;
                state.operands.push(value);
            }
            cursor.eat(",");
        }
        let listed = state.operands.len() + types.len();
        if listed != count {
            let s = |n| if n == 1 { "" } else { "s" };
            let message = format!(
                "{count} operand{} but {listed} operand type{}",
                s(count),
                s(listed)
            );
            return Err(self.texts.error(ty, message));
        }
        Ok(())
    }

    /// Makes the op, inserts it and names its results.
    fn create(
        &mut self,
        known: &Known,
        mut state: OpState,
        child: Option<Frame>,
        results: &str,
        block: BlockId,
        raw: bool,
    ) -> Result<(), Failure> {
        for (name, default) in &known.defaults {
            if !state.attrs.iter().any(|(key, _)| key == name) {
                state.attrs.push((*name, *default));
            }
        }
        let loc = state.loc;
        let op = match child {
            Some(mut child) => {
                child.scope.finish(&self.texts, &mut child.ir)?;
                let root = child.ir.root();
                for (name, value) in std::mem::take(&mut state.attrs) {
                    child.ir.set_attr(root, name, value);
                }
                if !state.segments.is_empty() && known.info.is_some_and(OpInfo::needs_segments) {
                    let sizes = tir_core::DenseArray {
                        elem: Type::int(32),
                        bits: state.segments.to_vec(),
                    };
                    child
                        .ir
                        .set_attr(root, tir_core::SEGMENTS, Attr::new(sizes));
                }
                for region in std::mem::take(&mut state.regions) {
                    child.ir.attach_region(root, region);
                }
                child.ir.set_loc(root, loc);
                self.frame.ir.adopt_as(block, state, child.ir)
            }
            None => {
                let ir = &mut self.frame.ir;
                let op = if raw {
                    ir.create_raw(state)
                } else {
                    ir.create(state).map_err(|error| {
                        let name = known.name;
                        Box::new((*error).or_at(loc).context(format_args!("'{name}' ")))
                    })?
                };
                ir.insert(op, block);
                op
            }
        };
        if results.is_empty() {
            return Ok(());
        }
        self.name_results(op, results, known.name)
    }

    fn name_results(&mut self, op: tir_core::OpId, text: &str, name: Name) -> Result<(), Failure> {
        let frame = &mut self.frame;
        let total = frame.ir.results(op).len();
        let mut cursor = Cursor::new(text);
        let mut first = 0usize;
        let mut groups: SmallVec<[(&str, Option<u32>); 4]> = SmallVec::new();
        let mut sum = 0usize;
        while let Some(piece) = cursor.sigil(b'%') {
            let mut count = None;
            if cursor.eat(":") {
                let number = cursor.number().unwrap_or("0");
                count = Some(number.parse().unwrap_or(u32::MAX));
            }
            sum = sum.saturating_add(count.unwrap_or(1) as usize);
            groups.push((piece, count));
            cursor.eat(",");
        }
        if sum != total {
            let s = if total == 1 { "" } else { "s" };
            let has = if total == 0 {
                "no".to_string()
            } else {
                total.to_string()
            };
            let are = if sum == 1 { "is" } else { "are" };
            let message = format!("'{name}' has {has} result{s}, but {sum} {are} named");
            let piece = text.trim_end().trim_end_matches('=').trim_end();
            return Err(self.texts.error(piece, message));
        }
        for (piece, count) in groups {
            let key = Key::new(&piece[1..]);
            let value = (count != Some(0)).then(|| frame.ir.result(op, first));
            if let (Some(hint), Some(value)) = (hint(key), value) {
                frame.ir.set_hint(value, Some(hint));
            }
            match (count, value) {
                (None, Some(value)) => {
                    frame
                        .scope
                        .define(&self.texts, &mut frame.ir, piece, key, value)?;
                    first += 1;
                }
                (count, _) => {
                    let count = count.unwrap_or(0);
                    let group = (op, first as u32, count);
                    frame
                        .scope
                        .define_results(&self.texts, &mut frame.ir, piece, key, group)?;
                    first += count as usize;
                }
            }
        }
        Ok(())
    }

    /// Reads an operation in pretty form; `node` is its name.
    fn pretty(
        &mut self,
        view: View<'_>,
        node: usize,
        loc: Loc,
        results: &str,
        block: BlockId,
    ) -> Result<(), Failure> {
        let written = view.str(node);
        let known = self.known(written, written)?;
        let mut state = OpState::new(known.name);
        state.loc = loc;
        let mut child = known.isolated.then(|| Frame::new(known.name, loc));
        let tail = node + 1;
        let tail_node = view.node(tail);
        let outer = std::mem::replace(&mut self.fallback, loc);
        let mut p = AsmParser {
            cx: self,
            view,
            tail,
            cursor: Cursor::at(view.text, tail_node.start as usize, tail_node.end as usize),
            child: child.as_mut(),
            name: known.name,
            loc,
            results: result_count(results),
        };
        match (&known.syntax, known.info) {
            (Syntax::Custom(object), _) => object.parse(&mut p, &mut state)?,
            (Syntax::Format(format), Some(info)) => {
                crate::matcher::parse(&mut p, info, format, &mut state)?;
            }
            (Syntax::Wrong(error), _) => {
                let message = format!("the format of '{}' is wrong: {error}", known.name);
                return Err(p.cx.error(written, message));
            }
            _ if &*known.name == MODULE => module(&mut p, &mut state)?,
            (_, None) if tir_core::Dialect::named(known.name.dialect()).is_some() => {
                return Err(self.unknown(&known.name, written));
            }
            _ => {
                let name = known.name;
                let message = format!(
                    "'{name}' has no pretty form here: write it as `\"{name}\"(…) : (…) -> …`"
                );
                return Err(p.cx.error(written, message));
            }
        }
        p.cursor.ws();
        if p.cursor.rest().starts_with("loc(") {
            let start = p.cursor;
            p.cursor.pos += 3;
            match p.cursor.balanced() {
                Some(_) => {
                    let text = p.cursor.since(start.pos);
                    state.loc = p.cx.location(text)?;
                }
                None => return Err(p.expected("a location")),
            }
        }
        if !p.cursor.done() {
            return Err(leftover(&mut p));
        }
        self.fallback = outer;
        self.create(&known, state, child, results, block, false)
    }
}

/// What comes after the end of an operation.
fn leftover(p: &mut AsmParser<'_>) -> Failure {
    let mut cursor = p.cursor;
    let token = cursor.token();
    let name = p.name;
    if p.cursor
        .clone()
        .peek_word()
        .is_some_and(|word| word == token)
    {
        let message = match op_named(token) {
            Some(op) => {
                format!(
                    "`{token}` cannot follow '{name}' and is no operation; did you mean `{op}`?"
                )
            }
            None => format!("`{token}` cannot follow '{name}'; {}", not_an_op(token)),
        };
        return p.cx.error(token, message);
    }
    p.cx.error(
        token,
        format!("`{token}` cannot follow here: '{name}' ends before it"),
    )
}

/// The number of results that are named.
fn result_count(text: &str) -> usize {
    let mut cursor = Cursor::new(text);
    let mut sum = 0usize;
    while cursor.sigil(b'%').is_some() {
        let mut count = 1;
        if cursor.eat(":") {
            count = cursor.number().and_then(|n| n.parse().ok()).unwrap_or(0);
        }
        sum = sum.saturating_add(count);
        cursor.eat(",");
    }
    sum
}

/// Whether a name is one that the printer makes: `bb0`, `arg1`.
pub(crate) fn auto(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix)
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
}

/// The name that is kept for printing.
pub(crate) fn hint(key: Key) -> Option<Name> {
    match key {
        Key::Name(name) if !auto(&name, "arg") => {
            let digits = name.bytes().all(|b| b.is_ascii_digit());
            (!digits).then_some(name)
        }
        _ => None,
    }
}

/// `builtin.module @name attributes {…} { … }` where its dialect does not say how it is written.
fn module(p: &mut AsmParser<'_>, state: &mut OpState) -> Result<(), Failure> {
    if let Some(name) = p.try_symbol()? {
        state.set_attr("sym_name", Attr::str(&name));
    }
    for (name, value) in p.attributes()? {
        state.set_attr(name, value);
    }
    let region = p.region(Some(&[]))?;
    state.regions.push(region);
    Ok(())
}
