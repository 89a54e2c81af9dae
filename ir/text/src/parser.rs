//! `AsmParser`: the pretty text of one operation, read from left to right.

use tir_core::{
    Attr, BlockId, Failure, Loc, Name, Op, OpInfo, OpState, RegionId, Type, Value, unquote,
};

use crate::cursor::Cursor;
use crate::lower::Frame;
use crate::texts::Entries;
use crate::tree::{Rule, View};

/// Syntax of an op that no format can say, in Rust. Handed over by the word `asm` in
/// `#[op("…", asm)]`.
pub trait Asm: Op {
    /// Prints what stands behind the op's name.
    fn print(op: tir_core::OpRef<'_>, p: &mut crate::AsmPrinter<'_>);
    /// Reads the same; the location is set already.
    fn parse(p: &mut AsmParser<'_>, state: &mut OpState) -> Result<(), Failure>;
}

/// [`Asm`] as an interface of an op: what the hook `asm` attaches.
pub trait AsmObject: Send + Sync {
    /// See [`Asm::print`].
    fn print(&self, op: tir_core::OpRef<'_>, p: &mut crate::AsmPrinter<'_>);
    /// See [`Asm::parse`].
    fn parse(&self, p: &mut AsmParser<'_>, state: &mut OpState) -> Result<(), Failure>;
}

struct Of<T>(std::marker::PhantomData<fn() -> T>);
impl<T: Asm> AsmObject for Of<T> {
    fn print(&self, op: tir_core::OpRef<'_>, p: &mut crate::AsmPrinter<'_>) {
        T::print(op, p);
    }
    fn parse(&self, p: &mut AsmParser<'_>, state: &mut OpState) -> Result<(), Failure> {
        T::parse(p, state)
    }
}

/// The hook behind the word `asm`.
pub fn asm<T: Asm>() -> tir_core::Hook {
    tir_core::Hook::interface::<dyn AsmObject>(&Of::<T>(std::marker::PhantomData))
}

/// What the parser of an operation asks of the parser of the file.
pub(crate) trait Cx {
    fn ty(&self, text: &str) -> Result<Type, Failure>;
    fn attr(&self, text: &str) -> Result<Attr, Failure>;
    /// The attribute of a kind, by what stands between the brackets of `piece`.
    fn attr_of(&self, kind: &str, piece: &str, inner: &str) -> Result<Attr, Failure>;
    fn dictionary(&self, text: &str) -> Result<Entries, Failure>;
    fn location(&self, text: &str) -> Result<Loc, Failure>;
    fn error(&self, piece: &str, message: String) -> Failure;
    fn find(&mut self, piece: &str, ty: Option<Type>) -> Result<Value, Failure>;
    fn value_type(&self, value: Value) -> Type;
    fn block(&self, label: &str) -> Result<BlockId, Failure>;
    fn region(
        &mut self,
        view: View<'_>,
        node: usize,
        args: Option<&[(&str, Type)]>,
        child: Option<&mut Frame>,
    ) -> Result<RegionId, Failure>;
    fn region_text(
        &mut self,
        text: &str,
        args: Option<&[(&str, Type)]>,
        child: Option<&mut Frame>,
    ) -> Result<RegionId, Failure>;
    fn empty_region(&mut self, child: Option<&mut Frame>) -> RegionId;
    fn terminate(&mut self, region: RegionId, name: Name, loc: Loc, child: Option<&mut Frame>);
    fn blocks(&mut self, region: RegionId, child: Option<&mut Frame>) -> usize;
    fn add_block(&mut self, region: RegionId, child: Option<&mut Frame>);
}

/// A use of a value as it is written; its type may be known later.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    pub(crate) text: &'a str,
}

/// The name of a region argument that an op's own syntax defines.
#[derive(Clone, Copy, Debug)]
pub struct Argument<'a> {
    pub(crate) text: &'a str,
}

/// The pretty text of one operation, read from left to right.
///
/// Each method that is named after a thing reads one or says what it found instead; those that
/// begin with `try_` or `eat` give `None` or `false` and take nothing if something else comes.
pub struct AsmParser<'a> {
    pub(crate) cx: &'a mut dyn Cx,
    pub(crate) view: View<'a>,
    pub(crate) tail: usize,
    pub(crate) cursor: Cursor<'a>,
    /// The arena of the op, if it is isolated.
    pub(crate) child: Option<&'a mut Frame>,
    pub(crate) name: Name,
    pub(crate) loc: Loc,
    /// The number of results that are written before `=`; 0 also if there are none.
    pub(crate) results: usize,
}

impl<'a> AsmParser<'a> {
    /// The op's name.
    pub fn name(&self) -> Name {
        self.name
    }
    /// The op's table.
    pub fn info(&self) -> Option<&'static OpInfo> {
        self.name.info()
    }
    /// Where the op begins.
    pub fn loc(&self) -> Loc {
        self.loc
    }
    /// The number of results that the text names.
    pub fn result_count(&self) -> usize {
        self.results
    }

    /// An error at what comes next.
    pub fn error(&mut self, message: impl Into<String>) -> Failure {
        let token = self.peek_token();
        let piece = if token.is_empty() {
            let end = self.view.text[..self.cursor.pos].trim_end().len();
            let last = self.view.text[..end]
                .chars()
                .next_back()
                .map_or(0, char::len_utf8);
            &self.view.text[end - last..end]
        } else {
            token
        };
        self.cx.error(piece, message.into())
    }
    /// The error that something else was expected next.
    pub fn expected(&mut self, what: &str) -> Failure {
        let token = self.peek_token();
        let found = if self.at_end() || token.is_empty() {
            String::new()
        } else {
            format!(", found `{token}`")
        };
        let name = self.name;
        self.error(format!("expected {what} in '{name}'{found}"))
    }
    fn peek_token(&mut self) -> &'a str {
        let mut cursor = self.cursor;
        let token = cursor.token();
        self.cursor.ws();
        token
    }
    /// Whether all of the op's text is read (a location may follow).
    pub fn at_end(&mut self) -> bool {
        self.cursor.done() || self.cursor.rest().starts_with("loc(")
    }

    /// Takes a keyword if it comes next.
    pub fn eat_keyword(&mut self, word: &str) -> bool {
        self.cursor.eat_word(word)
    }
    /// Takes a keyword.
    pub fn keyword(&mut self, word: &str) -> Result<(), Failure> {
        if self.eat_keyword(word) {
            Ok(())
        } else {
            Err(self.expected(&format!("`{word}`")))
        }
    }
    /// Takes any word.
    pub fn word(&mut self) -> Result<&'a str, Failure> {
        match self.cursor.word() {
            Some(word) => Ok(word),
            None => Err(self.expected("a word")),
        }
    }
    /// The word that comes next, if one does.
    pub fn peek_word(&mut self) -> Option<&'a str> {
        self.cursor.peek_word()
    }
    /// Takes punctuation if it comes next: `(`, `,`, `->` …
    pub fn eat(&mut self, punctuation: &str) -> bool {
        self.cursor.eat(punctuation)
    }
    /// Whether this punctuation comes next.
    pub fn sees(&mut self, punctuation: &str) -> bool {
        let mut cursor = self.cursor;
        cursor.eat(punctuation)
    }
    /// Takes punctuation.
    pub fn punct(&mut self, punctuation: &str) -> Result<(), Failure> {
        if self.eat(punctuation) {
            return Ok(());
        }
        Err(self.expected(&format!("`{punctuation}`")))
    }
    /// Reads `open item, item close`.
    pub fn list<T>(
        &mut self,
        open: &str,
        close: &str,
        mut item: impl FnMut(&mut Self) -> Result<T, Failure>,
    ) -> Result<Vec<T>, Failure> {
        self.punct(open)?;
        let mut items = Vec::new();
        if self.eat(close) {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if self.eat(close) {
                return Ok(items);
            }
            if !self.eat(",") {
                return Err(self.expected(&format!("`,` or `{close}`")));
            }
        }
    }
    /// Reads items between commas, at least one.
    pub fn items<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, Failure>,
    ) -> Result<Vec<T>, Failure> {
        let mut items = vec![item(self)?];
        while self.eat(",") {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// A use of a value, if one comes next.
    pub fn try_operand(&mut self) -> Option<Operand<'a>> {
        Some(Operand {
            text: self.cursor.sigil(b'%')?,
        })
    }
    /// A use of a value.
    pub fn operand(&mut self) -> Result<Operand<'a>, Failure> {
        match self.try_operand() {
            Some(operand) => Ok(operand),
            None => Err(self.expected("a value")),
        }
    }
    /// `%a, %b`: any number of uses.
    pub fn operands(&mut self) -> Result<Vec<Operand<'a>>, Failure> {
        let mut all = Vec::new();
        if let Some(first) = self.try_operand() {
            all.push(first);
            while self.eat(",") {
                all.push(self.operand()?);
            }
        }
        Ok(all)
    }
    /// The value of a use whose type is written; it may be defined later in the region.
    pub fn resolve(&mut self, operand: Operand<'a>, ty: Type) -> Result<Value, Failure> {
        self.cx.find(operand.text, Some(ty))
    }
    /// The value of a use whose type is not written: it must be defined before.
    pub fn resolve_known(&mut self, operand: Operand<'a>) -> Result<Value, Failure> {
        self.cx.find(operand.text, None)
    }
    /// The values of uses and their types, which must be of the same number.
    pub fn resolve_all(
        &mut self,
        operands: &[Operand<'a>],
        types: &[Type],
    ) -> Result<Vec<Value>, Failure> {
        if operands.len() != types.len() {
            let message = format!("{} values but {} types", operands.len(), types.len());
            return Err(self.error(message));
        }
        operands
            .iter()
            .zip(types)
            .map(|(o, ty)| self.resolve(*o, *ty))
            .collect()
    }
    /// The type of a value.
    pub fn type_of(&self, value: Value) -> Type {
        self.cx.value_type(value)
    }

    /// The name of an argument that the op's syntax defines for a region.
    pub fn argument(&mut self) -> Result<Argument<'a>, Failure> {
        match self.cursor.sigil(b'%') {
            Some(text) if !text.contains('#') => Ok(Argument { text }),
            _ => Err(self.expected("the name of an argument (`%name`)")),
        }
    }

    /// Whether a type comes next (a word counts as one).
    pub fn sees_type(&mut self) -> bool {
        let mut cursor = self.cursor;
        cursor.type_text().is_some()
    }
    /// A type.
    pub fn ty(&mut self) -> Result<Type, Failure> {
        match self.cursor.type_text() {
            Some(text) => self.cx.ty(text),
            None => Err(self.expected("a type")),
        }
    }
    /// `t`, `(t, t)` or `()`: the results of a function type.
    pub fn result_types(&mut self) -> Result<Vec<Type>, Failure> {
        if self.sees("(") && !self.sees_type() {
            return self.list("(", ")", |p| p.ty());
        }
        Ok(vec![self.ty()?])
    }
    /// `(t, t) -> (t, t)`: inputs and results.
    pub fn function_type(&mut self) -> Result<(Vec<Type>, Vec<Type>), Failure> {
        self.cursor.ws();
        let start = self.cursor;
        let ty = self.ty()?;
        match ty.get::<tir_core::FunctionType>() {
            Some(function) => Ok((function.inputs.clone(), function.results.clone())),
            None => {
                self.cursor = start;
                Err(self.expected("a function type `(…) -> …`"))
            }
        }
    }

    /// An attribute; a number or string takes the `: type` behind it.
    pub fn attr(&mut self) -> Result<Attr, Failure> {
        match self.cursor.attr_text(true) {
            Some(text) => self.cx.attr(text),
            None => Err(self.expected("an attribute")),
        }
    }
    /// An attribute of a type, which `dense<…>` may leave out.
    pub fn attr_of(&mut self, ty: Type) -> Result<Attr, Failure> {
        let mut after = self.cursor;
        let dense = after.eat_word("dense") && after.byte() == Some(b'<');
        if dense && after.balanced().is_some() && !after.clone().eat(":") {
            let text = format!(
                "dense{} : {ty}",
                after
                    .since(self.cursor.pos)
                    .trim_start()
                    .trim_start_matches("dense")
            );
            let start = self.cursor;
            let attr = self.cx.attr(&text).map_err(|error| {
                // The text with the type stands nowhere in the file.
                start
                    .clone()
                    .attr_text(true)
                    .map_or(error.clone(), |piece| {
                        self.cx.error(piece, error.message.clone())
                    })
            })?;
            self.cursor = after;
            return Ok(attr);
        }
        self.attr()
    }
    /// An attribute without the `: type` that may follow a number or string.
    pub fn attr_untyped(&mut self) -> Result<Attr, Failure> {
        match self.cursor.attr_text(false) {
            Some(text) => self.cx.attr(text),
            None => Err(self.expected("an attribute")),
        }
    }
    /// A constant and its type: `4 : index`, `true`, `dense<…> : t`, `#d.a<…> : t`.
    pub fn constant(&mut self) -> Result<(Attr, Type), Failure> {
        self.cursor.ws();
        let start = self.cursor.pos;
        let mut plain = self.cursor;
        let Some(text) = plain.attr_text(false) else {
            return Err(self.expected("a constant"));
        };
        if matches!(text, "true" | "false") {
            self.cursor = plain;
            return Ok((self.cx.attr(text)?, Type::int(1)));
        }
        let number = text.starts_with(|c: char| c == '-' || c == '"' || c.is_ascii_digit());
        if number || text.contains(':') && text.starts_with(|c: char| c.is_ascii_alphabetic()) {
            let attr = self.attr()?;
            return match attr.type_of() {
                Some(ty) => Ok((attr, ty)),
                None => {
                    let text = self.view.text.get(start..self.cursor.pos).unwrap_or("");
                    Err(self.cx.error(text, "this constant has no type".to_string()))
                }
            };
        }
        self.cursor = plain;
        let attr = self.cx.attr(text)?;
        self.punct(":")?;
        Ok((attr, self.ty()?))
    }
    /// `@name`, if one comes next.
    pub fn try_symbol(&mut self) -> Result<Option<Name>, Failure> {
        let Some(text) = self.cursor.symbol() else {
            return Ok(None);
        };
        let name = &text[1..];
        if !name.starts_with('"') {
            return Ok(Some(Name::new(name)));
        }
        match unquote(name) {
            Some(name) => Ok(Some(Name::from(&name))),
            None => Err(self
                .cx
                .error(text, "the escapes of the string are wrong".to_string())),
        }
    }
    /// `@name`.
    pub fn symbol(&mut self) -> Result<Name, Failure> {
        match self.try_symbol()? {
            Some(name) => Ok(name),
            None => Err(self.expected("a symbol `@name`")),
        }
    }
    /// A string.
    pub fn string(&mut self) -> Result<String, Failure> {
        let Some(text) = self.cursor.string() else {
            return Err(self.expected("a string"));
        };
        let wrong = "the escapes of the string are wrong";
        unquote(text).ok_or_else(|| self.cx.error(text, wrong.to_string()))
    }
    /// An integer, if one comes next.
    pub fn try_int(&mut self) -> Result<Option<i64>, Failure> {
        let Some(text) = self.cursor.number() else {
            return Ok(None);
        };
        match text.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(self
                .cx
                .error(text, format!("`{text}` is not a 64-bit integer"))),
        }
    }
    /// An integer in a list that may hold values too, if one comes next. The least number is
    /// refused: [`DYNAMIC`](tir_core::DYNAMIC) stands for a value.
    pub fn try_index(&mut self) -> Result<Option<i64>, Failure> {
        let before = self.cursor;
        match self.try_int()? {
            Some(tir_core::DYNAMIC) => {
                self.cursor = before;
                let message = format!("{} cannot stand here: it means a value", i64::MIN);
                Err(self.error(message))
            }
            number => Ok(number),
        }
    }
    /// An integer.
    pub fn int(&mut self) -> Result<i64, Failure> {
        match self.try_int()? {
            Some(number) => Ok(number),
            None => Err(self.expected("an integer")),
        }
    }
    /// `[1, 2]`.
    pub fn ints(&mut self) -> Result<Vec<i64>, Failure> {
        self.list("[", "]", |p| p.int())
    }

    /// `{a = 1, b}`, if a brace comes next; nothing is an empty one.
    pub fn dictionary(&mut self) -> Result<Vec<(Name, Attr)>, Failure> {
        self.cursor.ws();
        if self.cursor.byte() != Some(b'{') {
            return Ok(Vec::new());
        }
        match self.cursor.balanced() {
            Some(text) => Ok(self.cx.dictionary(text)?.to_vec()),
            None => Err(self.expected("a dictionary")),
        }
    }
    /// `attributes {a = 1}`, if the word comes next.
    pub fn attributes(&mut self) -> Result<Vec<(Name, Attr)>, Failure> {
        if !self.eat_keyword("attributes") {
            return Ok(Vec::new());
        }
        if !self.sees("{") {
            return Err(self.expected("`{`"));
        }
        self.dictionary()
    }
    /// Reads a dictionary into the attributes of an op; a key that occurs twice is an error.
    pub fn attr_dict(&mut self, state: &mut OpState) -> Result<(), Failure> {
        self.cursor.ws();
        let at = self.cursor;
        for (name, value) in self.dictionary()? {
            if state.attr(&name).is_some() {
                self.cursor = at;
                return Err(self.error(format!("attribute '{name}' occurs twice")));
            }
            state.set_attr(name, value);
        }
        Ok(())
    }

    /// `^block`: a successor without its operands.
    pub fn successor(&mut self) -> Result<BlockId, Failure> {
        match self.cursor.sigil(b'^') {
            Some(text) => self.cx.block(text),
            None => Err(self.expected("a block `^name`")),
        }
    }
    /// `^block(%a, %b : t, t)`: a successor and its operands.
    pub fn successor_with_args(&mut self) -> Result<(BlockId, Vec<Value>), Failure> {
        let block = self.successor()?;
        let mut args = Vec::new();
        if self.eat("(") && !self.eat(")") {
            let operands = self.operands()?;
            self.punct(":")?;
            let types = self.items(|p| p.ty())?;
            args = self.resolve_all(&operands, &types)?;
            self.punct(")")?;
        }
        Ok((block, args))
    }

    /// A region in braces. With `args`, its first block has these arguments and no label;
    /// without, the text may say labels. The region is detached: push it to `state.regions`.
    pub fn region(&mut self, args: Option<&[(Argument<'_>, Type)]>) -> Result<RegionId, Failure> {
        self.cursor.ws();
        if self.cursor.byte() != Some(b'{') {
            return Err(self.expected("a region `{ … }`"));
        }
        let args: Option<Vec<(&str, Type)>> =
            args.map(|args| args.iter().map(|(name, ty)| (name.text, *ty)).collect());
        let args = args.as_deref();
        let here = self.cursor.pos as u32;
        let mut children = self.view.children(self.tail);
        let found = children.find(|node| self.view.node(*node).start == here);
        let child = self.child.as_deref_mut();
        match found {
            Some(node) if self.view.node(node).rule == Rule::region => {
                self.cursor.pos = self.view.node(node).end as usize;
                self.cx.region(self.view, node, args, child)
            }
            // The grammar took it for a dictionary.
            _ => match self.cursor.balanced() {
                Some(text) => self.cx.region_text(text, args, child),
                None => Err(self.expected("a region `{ … }`")),
            },
        }
    }
    /// A region without blocks: of a declaration.
    pub fn no_region(&mut self) -> RegionId {
        let child = self.child.as_deref_mut();
        self.cx.empty_region(child)
    }
    /// Whether a brace comes next.
    pub fn sees_region(&mut self) -> bool {
        self.sees("{")
    }
    /// Ends the last block of a region by an op without operands, if nothing ends it.
    pub fn terminate(&mut self, region: RegionId, name: impl Into<Name>) {
        let child = self.child.as_deref_mut();
        self.cx.terminate(region, name.into(), self.loc, child);
    }
}
