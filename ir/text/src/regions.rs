//! Regions, blocks and their arguments; what the parser of an operation asks for.

use rustc_hash::FxHashMap;
use tir_core::{
    Attr, BlockId, Dialect, Failure, Loc, Name, OpState, RegionId, Traits, Type, Value,
};

use crate::cursor::Cursor;
use crate::error::explain_ops;
use crate::lower::{Frame, Lower, auto, hint};
use crate::parser::Cx;
use crate::scope::Key;
use crate::texts::Entries;
use crate::tree::{Rule, Tree, View};

impl Lower<'_> {
    /// Reads a region, of rule `region`, into a detached one of the current arena or the child's.
    pub(crate) fn region_of(
        &mut self,
        view: View<'_>,
        node: usize,
        args: Option<&[(&str, Type)]>,
        child: Option<&mut Frame>,
    ) -> Result<RegionId, Failure> {
        match child {
            Some(child) => {
                std::mem::swap(&mut self.frame, child);
                let region = self.region_here(view, node, args);
                std::mem::swap(&mut self.frame, child);
                region
            }
            None => self.region_here(view, node, args),
        }
    }

    fn region_here(
        &mut self,
        view: View<'_>,
        node: usize,
        args: Option<&[(&str, Type)]>,
    ) -> Result<RegionId, Failure> {
        let (mark, depth) = (self.frame.scope.mark(), self.blocks.len());
        let region = self.region_inner(view, node, args);
        self.blocks.truncate(depth);
        self.frame.scope.forget(mark);
        region
    }

    fn region_inner(
        &mut self,
        view: View<'_>,
        node: usize,
        args: Option<&[(&str, Type)]>,
    ) -> Result<RegionId, Failure> {
        let region = self.frame.ir.new_region();
        self.frame.ir.reserve(view.children(node).count());
        let mut labels = FxHashMap::default();
        // All blocks first: they may be named before they come.
        let mut current = None;
        if let Some(args) = args {
            let block = self.frame.ir.new_block(region);
            current = Some(block);
            for (piece, ty) in args {
                self.argument(block, piece, *ty)?;
            }
        }
        let mut first = true;
        let mut doubled = None;
        for child in view.children(node) {
            if view.node(child).rule == Rule::label {
                let text = Cursor::new(view.str(child)).sigil(b'^').unwrap_or("^");
                let entry = first && args.is_some_and(<[_]>::is_empty);
                let block = match current {
                    Some(block) if entry => block,
                    _ => self.frame.ir.new_block(region),
                };
                if first && current.is_some() && !entry {
                    let message =
                        "the first block has no label: its arguments stand before the `{`";
                    return Err(self.texts.error(text, message));
                }
                if labels.insert(Box::from(text), block).is_some() {
                    doubled = Some(view.str(child));
                }
                let name = &text[1..];
                if !auto(name, "bb") && Key::new(name) == Key::Name(Name::new(name)) {
                    self.frame.ir.set_block_hint(block, Some(Name::new(name)));
                }
            } else if first && current.is_none() {
                current = Some(self.frame.ir.new_block(region));
            }
            first = false;
        }
        if let Some(text) = doubled {
            let piece = Cursor::new(text).sigil(b'^').unwrap_or(text);
            return Err(self
                .texts
                .error(piece, format!("block `{piece}` is defined again")));
        }
        self.blocks.push(labels);
        for child in view.children(node) {
            if view.node(child).rule == Rule::label {
                current = Some(self.label(view.str(child))?);
            } else if let Some(block) = current {
                self.op(view, child, block)?;
            }
        }
        Ok(region)
    }

    fn argument(&mut self, block: BlockId, piece: &str, ty: Type) -> Result<(), Failure> {
        let frame = &mut self.frame;
        let value = frame.ir.add_arg(block, ty);
        let key = Key::new(piece.get(1..).unwrap_or(""));
        if let Some(hint) = hint(key) {
            frame.ir.set_hint(value, Some(hint));
        }
        frame
            .scope
            .define(&self.texts, &mut frame.ir, piece, key, value)
    }

    /// Reads `^name(%a: t, %b: t loc(…)):` and gives the block.
    fn label(&mut self, text: &str) -> Result<BlockId, Failure> {
        let mut cursor = Cursor::new(text);
        let label = cursor.sigil(b'^').unwrap_or("^");
        let block = self.block(label)?;
        if cursor.eat("(") && !cursor.eat(")") {
            loop {
                let at = cursor;
                let Some(piece) = cursor.sigil(b'%') else {
                    let token = cursor.token();
                    let message = format!("expected an argument `%name: type`, found `{token}`");
                    return Err(self.texts.error(token, message));
                };
                let mut next = cursor;
                if !cursor.eat(":") {
                    let token = next.token();
                    let message =
                        format!("expected `:` and the type of `{piece}`, found `{token}`");
                    return Err(self.texts.error(token, message));
                }
                let mut next = cursor;
                let Some(ty) = cursor.type_text() else {
                    let token = next.token();
                    let message = format!("expected the type of `{piece}`, found `{token}`");
                    return Err(self.texts.error(token, message));
                };
                let _ = at;
                let ty = self.texts.ty(ty)?;
                self.argument(block, piece, ty)?;
                cursor.ws();
                if cursor.rest().starts_with("loc(") {
                    cursor.pos += 3;
                    cursor.balanced();
                }
                if cursor.eat(")") {
                    break;
                }
                let mut next = cursor;
                if !cursor.eat(",") {
                    let token = next.token();
                    let message = format!("expected `,` or `)`, found `{token}`");
                    return Err(self.texts.error(token, message));
                }
            }
        }
        Ok(block)
    }
}

impl Cx for Lower<'_> {
    fn ty(&self, text: &str) -> Result<Type, Failure> {
        self.texts.ty(text)
    }
    fn attr(&self, text: &str) -> Result<Attr, Failure> {
        self.texts.attr(text)
    }
    fn attr_of(&self, kind: &str, piece: &str, inner: &str) -> Result<Attr, Failure> {
        match Dialect::attr_parser(kind) {
            Some(parse) => {
                parse(Some(inner), &self.texts).map_err(|message| self.texts.error(piece, message))
            }
            None => Err(self
                .texts
                .error(piece, format!("there is no attribute `#{kind}`"))),
        }
    }
    fn dictionary(&self, text: &str) -> Result<Entries, Failure> {
        self.texts.dictionary(text)
    }
    fn location(&self, text: &str) -> Result<Loc, Failure> {
        self.texts.location(text)
    }
    fn error(&self, piece: &str, message: String) -> Failure {
        self.texts.error(piece, message)
    }
    fn find(&mut self, piece: &str, ty: Option<Type>) -> Result<Value, Failure> {
        let frame = &mut self.frame;
        frame.scope.find(&self.texts, &mut frame.ir, piece, ty)
    }
    fn value_type(&self, value: Value) -> Type {
        self.frame.ir.ty(value)
    }
    fn block(&self, label: &str) -> Result<BlockId, Failure> {
        let labels = self.blocks.last();
        if let Some(block) = labels.and_then(|labels| labels.get(label)) {
            return Ok(*block);
        }
        let names = labels
            .into_iter()
            .flat_map(|labels| labels.keys())
            .map(|key| &**key);
        let near = crate::error::nearest(label, names);
        let help = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        Err(self.texts.error(
            label,
            format!("there is no block `{label}` in this region{help}"),
        ))
    }
    fn region(
        &mut self,
        view: View<'_>,
        node: usize,
        args: Option<&[(&str, Type)]>,
        child: Option<&mut Frame>,
    ) -> Result<RegionId, Failure> {
        self.region_of(view, node, args, child)
    }
    fn region_text(
        &mut self,
        text: &str,
        args: Option<&[(&str, Type)]>,
        child: Option<&mut Frame>,
    ) -> Result<RegionId, Failure> {
        match Tree::parse(Rule::only_region, text) {
            Ok(tree) => self.region_of(tree.view(), 1, args, child),
            Err(_) => {
                let inner = text.get(1..text.len() - 1).unwrap_or("");
                Err(explain_ops(&self.texts.shared.source, inner))
            }
        }
    }
    fn empty_region(&mut self, child: Option<&mut Frame>) -> RegionId {
        child
            .map_or(&mut self.frame.ir, |child| &mut child.ir)
            .new_region()
    }
    fn terminate(&mut self, region: RegionId, name: Name, loc: Loc, child: Option<&mut Frame>) {
        let ir = child.map_or(&mut self.frame.ir, |child| &mut child.ir);
        let block = match ir.blocks(region).last() {
            Some(block) => block,
            None => ir.new_block(region),
        };
        let ended = ir.last(block).is_some_and(|last| {
            ir.info(last)
                .is_none_or(|info| info.has(Traits::Terminator))
        });
        if !ended {
            let mut state = OpState::new(name);
            state.loc = loc;
            let op = ir.create_raw(state);
            ir.insert(op, block);
        }
    }
    fn blocks(&mut self, region: RegionId, child: Option<&mut Frame>) -> usize {
        let ir = child.map_or(&mut self.frame.ir, |child| &mut child.ir);
        ir.blocks(region).len()
    }
    fn add_block(&mut self, region: RegionId, child: Option<&mut Frame>) {
        let ir = child.map_or(&mut self.frame.ir, |child| &mut child.ir);
        ir.new_block(region);
    }
}
