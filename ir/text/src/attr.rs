//! Types, attributes and locations out of what pest reads.

use pest::iterators::Pair;
use tir_core::{
    AffineMapAttr, Attr, DYNAMIC, Dialect, DictAttr, Failure, FloatType, FunctionType, IntType,
    Layout, LayoutAttr, Loc, LocAttr, LocData, MemRefType, Name, NoneType, OpaqueAttr, OpaqueType,
    Sign, StrAttr, SymbolRef, TensorType, TupleType, Type, TypeAttr, UnrankedType, VectorType,
    unescape, unquote,
};

use crate::cursor::Cursor;
use crate::texts::{Alias, Texts};
use crate::tree::Rule;

/// Reads pairs.
pub(crate) struct Reading<'r> {
    pub(crate) texts: &'r Texts<'r>,
}

/// The pairs below one.
pub(crate) fn below<'i>(pair: Pair<'i, Rule>) -> impl Iterator<Item = Pair<'i, Rule>> {
    pair.into_inner()
}

/// Function types nest to the right no deeper than this.
const ARROWS: usize = 64;

impl Reading<'_> {
    pub(crate) fn error(&self, at: &str, message: impl Into<String>) -> Failure {
        self.texts.error(at, message)
    }

    pub(crate) fn ty(&self, pair: Pair<'_, Rule>) -> Result<Type, Failure> {
        let text = pair.as_str();
        match pair.as_rule() {
            Rule::function => self.function(pair),
            Rule::tensor => {
                let mut parts = below(pair);
                let shape = self.shape(parts.next(), text)?;
                let elem = self.part_type(parts.next(), text)?;
                match shape {
                    None => match parts.next() {
                        None => Ok(Type::new(UnrankedType {
                            memref: false,
                            elem,
                            space: None,
                        })),
                        Some(pair) => {
                            Err(self.error(pair.as_str(), "an unranked tensor has no encoding"))
                        }
                    },
                    Some((shape, scalable)) => {
                        self.no_scalable(&scalable, text)?;
                        let encoding = parts.next().map(|pair| self.attr(pair)).transpose()?;
                        Ok(Type::new(TensorType {
                            shape,
                            elem,
                            encoding,
                        }))
                    }
                }
            }
            Rule::memref => self.memref(pair),
            Rule::vector => {
                let mut parts = below(pair);
                let Some((shape, scalable)) = self.shape(parts.next(), text)? else {
                    return Err(self.error(text, "a vector has a rank"));
                };
                if shape.contains(&DYNAMIC) {
                    return Err(self.error(text, "a vector has no dynamic dimensions"));
                }
                let elem = self.part_type(parts.next(), text)?;
                Ok(Type::new(VectorType {
                    shape,
                    scalable,
                    elem,
                }))
            }
            Rule::tuple => {
                let types: Result<Vec<Type>, _> = below(pair).map(|p| self.ty(p)).collect();
                Ok(Type::new(TupleType(types?)))
            }
            Rule::complex => {
                let elem = self.part_type(below(pair).next(), text)?;
                Ok(Type::new(OpaqueType {
                    text: format!("complex<{elem}>").into(),
                }))
            }
            Rule::dialect_type => self.dialect_type(pair),
            _ => self.simple_type(text),
        }
    }

    fn part_type(&self, pair: Option<Pair<'_, Rule>>, at: &str) -> Result<Type, Failure> {
        match pair {
            Some(pair) => self.ty(pair),
            None => Err(self.error(at, "expected the type of an element")),
        }
    }

    fn function(&self, pair: Pair<'_, Rule>) -> Result<Type, Failure> {
        let text = pair.as_str();
        let parts: Vec<Pair<'_, Rule>> = below(pair).collect();
        let list = |pair: &Pair<'_, Rule>| -> Result<Vec<Type>, Failure> {
            if pair.as_rule() == Rule::type_list {
                below(pair.clone()).map(|pair| self.ty(pair)).collect()
            } else {
                Ok(vec![self.ty(pair.clone())?])
            }
        };
        let Some((last, inputs)) = parts.split_last() else {
            return Err(self.error(text, "expected a function type"));
        };
        if inputs.len() > ARROWS {
            return Err(self.error(text, "too many `->` in one type"));
        }
        let mut results = list(last)?;
        for (i, part) in inputs.iter().enumerate().rev() {
            if part.as_rule() != Rule::type_list {
                return Err(self.error(part.as_str(), "expected `(` around what `->` follows"));
            }
            let function = Type::new(FunctionType {
                inputs: list(part)?,
                results,
            });
            if i == 0 {
                return Ok(function);
            }
            results = vec![function];
        }
        Err(self.error(text, "expected `->`"))
    }

    /// The dimensions and which are scalable; `None` for `*`.
    #[allow(clippy::type_complexity)]
    fn shape(
        &self,
        pair: Option<Pair<'_, Rule>>,
        at: &str,
    ) -> Result<Option<(Vec<i64>, Vec<bool>)>, Failure> {
        let text = pair.as_ref().map_or("", |pair| pair.as_str());
        if text.starts_with('*') {
            return Ok(None);
        }
        let (mut shape, mut scalable) = (Vec::new(), Vec::new());
        for dim in text.split_terminator('x') {
            let inner = dim.trim_matches(['[', ']']);
            scalable.push(inner.len() < dim.len());
            shape.push(if inner == "?" {
                DYNAMIC
            } else {
                let number = inner.parse();
                number.map_err(|_| self.error(at, format!("dimension {inner} is too large")))?
            });
        }
        Ok(Some((shape, scalable)))
    }

    fn no_scalable(&self, scalable: &[bool], at: &str) -> Result<(), Failure> {
        if scalable.contains(&true) {
            return Err(self.error(at, "only a vector has scalable dimensions"));
        }
        Ok(())
    }

    fn memref(&self, pair: Pair<'_, Rule>) -> Result<Type, Failure> {
        let text = pair.as_str();
        let mut parts = below(pair);
        let shape = self.shape(parts.next(), text)?;
        let elem = self.part_type(parts.next(), text)?;
        let mut layout = None;
        let mut space = None;
        for part in parts {
            let at = part.as_str();
            let attr = self.attr(part)?;
            let said = if let Some(map) = attr.get::<AffineMapAttr>() {
                let plain = map.0.is_identity();
                Some(if plain {
                    Layout::Identity
                } else {
                    Layout::Map(map.0.clone())
                })
            } else {
                attr.get::<LayoutAttr>().map(|attr| attr.0.clone())
            };
            match said {
                Some(said) if layout.is_none() && space.is_none() && shape.is_some() => {
                    if let (Some((shape, _)), Layout::Strided { strides, .. }) = (&shape, &said)
                        && shape.len() != strides.len()
                    {
                        let (want, have) = (shape.len(), strides.len());
                        let message = format!("expected {want} strides, found {have}");
                        return Err(self.error(at, message));
                    }
                    if let (Some((shape, _)), Layout::Map(map)) = (&shape, &said)
                        && shape.len() != map.dims
                    {
                        let (want, have) = (shape.len(), map.dims);
                        let message = format!("expected a map of {want} dimensions, found {have}");
                        return Err(self.error(at, message));
                    }
                    layout = Some(said);
                }
                None if space.is_none() => space = Some(attr),
                _ => return Err(self.error(at, "expected a memory space")),
            }
        }
        let Some((shape, scalable)) = shape else {
            return Ok(Type::new(UnrankedType {
                memref: true,
                elem,
                space,
            }));
        };
        self.no_scalable(&scalable, text)?;
        let layout = layout.unwrap_or(Layout::Identity);
        Ok(Type::new(MemRefType {
            shape,
            elem,
            layout,
            space,
        }))
    }

    fn dialect_type(&self, pair: Pair<'_, Rule>) -> Result<Type, Failure> {
        let text = pair.as_str();
        let mut parts = below(pair);
        let name = parts.next().map_or("", |pair| pair.as_str());
        let body = parts.next().map(|pair| pair.as_str());
        if body.is_none()
            && let Some(Alias::Type(ty)) = self.texts.alias(&text[..name.len() + 1])
        {
            return Ok(ty);
        }
        let inner = body.map(inside);
        if let Some(parse) = Dialect::type_parser(name) {
            return parse(inner, self.texts).map_err(|message| self.error(text, message));
        }
        self.unknown("type", '!', text, name, body)?;
        Ok(Type::new(OpaqueType { text: text.into() }))
    }

    /// Whether a type or attribute of no known name may stand.
    fn unknown(
        &self,
        what: &str,
        sigil: char,
        text: &str,
        name: &str,
        body: Option<&str>,
    ) -> Result<(), Failure> {
        let Some((dialect, rest)) = name.split_once('.') else {
            if body.is_some() && self.texts.shared.allow_unregistered {
                return Ok(());
            }
            let message = format!("there is no {what} alias `{sigil}{name}`");
            let aliases = self.texts.shared.aliases.keys();
            let near = aliases
                .filter(|key| key.starts_with(sigil))
                .map(|key| &key[1..]);
            let near = crate::error::nearest(name, near);
            let help = near.map_or(String::new(), |n| format!("; did you mean `{sigil}{n}`?"));
            return Err(self.error(text, message + &help));
        };
        if let Some(known) = Dialect::named(dialect) {
            let names: Vec<&str> = if sigil == '!' {
                known.types.iter().map(|info| info.name).collect()
            } else {
                known.attrs.iter().map(|info| info.name).collect()
            };
            let near = crate::error::nearest(name, names.into_iter());
            let help = near.map_or(String::new(), |n| format!("; did you mean `{sigil}{n}`?"));
            let message = format!("dialect '{dialect}' has no {what} `{rest}`{help}");
            return Err(self.error(text, message));
        }
        if self.texts.shared.allow_unregistered {
            return Ok(());
        }
        let message =
            format!("{what} `{sigil}{name}` is of dialect '{dialect}', which is not loaded");
        let error = self.error(text, message);
        Err(Box::new(
            error
                .note(Dialect::loaded_names())
                .note("--allow-unregistered-dialect keeps it as text"),
        ))
    }

    fn simple_type(&self, text: &str) -> Result<Type, Failure> {
        let sign = |digits: &str, sign: Sign| -> Result<Type, Failure> {
            match digits.parse::<u32>() {
                Ok(width) if (1..1 << 24).contains(&width) => {
                    Ok(Type::new(IntType { width, sign }))
                }
                _ => Err(self.error(text, format!("`{text}` is too wide an integer"))),
            }
        };
        let digits = |rest: &str| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit());
        match text {
            "index" => return Ok(Type::index()),
            "none" => return Ok(Type::new(NoneType)),
            "f16" => return Ok(Type::new(FloatType::F16)),
            "bf16" => return Ok(Type::new(FloatType::BF16)),
            "f32" => return Ok(Type::new(FloatType::F32)),
            "f64" => return Ok(Type::new(FloatType::F64)),
            "f80" | "f128" | "tf32" => return Ok(Type::new(OpaqueType { text: text.into() })),
            _ => {}
        }
        for (prefix, kind) in [
            ("i", Sign::Signless),
            ("si", Sign::Signed),
            ("ui", Sign::Unsigned),
        ] {
            if let Some(rest) = text.strip_prefix(prefix)
                && digits(rest)
            {
                return sign(rest, kind);
            }
        }
        // `f8E4M3FN` and its like have no meaning here.
        if text.starts_with('f') && text.contains('E') && text.contains('M') {
            return Ok(Type::new(OpaqueType { text: text.into() }));
        }
        let near = crate::error::type_meant(text);
        let help = near.map_or(String::new(), |n| format!("; did you mean `{n}`?"));
        Err(self.error(text, format!("there is no type `{text}`{help}")))
    }

    /// An attribute: a pair of rule `attr`, or one of its values.
    pub(crate) fn attr(&self, pair: Pair<'_, Rule>) -> Result<Attr, Failure> {
        if pair.as_rule() != Rule::attr {
            return self.value(pair, None);
        }
        let mut parts = below(pair);
        let Some(value) = parts.next() else {
            return Err("expected an attribute".into());
        };
        let ty = parts.next().map(|pair| self.ty(pair)).transpose()?;
        self.value(value, ty)
    }

    fn value(&self, pair: Pair<'_, Rule>, ty: Option<Type>) -> Result<Attr, Failure> {
        let text = pair.as_str();
        let rule = pair.as_rule();
        if ty.is_some()
            && !matches!(
                rule,
                Rule::number | Rule::bool | Rule::text | Rule::other_attr | Rule::dialect_attr
            )
        {
            return Err(self.error(text, "this attribute takes no type"));
        }
        match rule {
            Rule::number => crate::number::number(self, text, ty),
            Rule::bool => {
                let value = text == "true";
                match ty {
                    Some(ty) if ty != Type::int(1) => {
                        Err(self.error(text, format!("`{text}` is of type i1, not {ty}")))
                    }
                    _ => Ok(Attr::bool(value)),
                }
            }
            Rule::text => {
                let ty = ty.filter(|ty| !ty.is::<NoneType>());
                match (unquote(text), unescape(text)) {
                    (Some(value), _) => Ok(Attr::new(StrAttr {
                        value: value.into(),
                        ty,
                    })),
                    // Bytes that are no text stay as they are written.
                    (None, Some(_)) => Ok(opaque(text, ty)),
                    (None, None) => Err(self.escapes(text)),
                }
            }
            Rule::unit => Ok(Attr::unit()),
            Rule::symbol_ref => self.symbol(text),
            Rule::array => {
                let items: Result<Vec<Attr>, _> = below(pair).map(|p| self.attr(p)).collect();
                Ok(Attr::array(items?))
            }
            Rule::dict => Ok(Attr::new(DictAttr::new(self.entries(pair)?))),
            Rule::dialect_attr => self.dialect_attr(pair, ty),
            Rule::affine_map => crate::affine::map(self, pair).map(Attr::map),
            Rule::dense => crate::number::dense(self, pair),
            Rule::dense_array => crate::number::dense_array(self, pair),
            Rule::strided => self.strided(pair),
            Rule::loc => Ok(Attr::new(LocAttr(self.loc(pair)?))),
            Rule::other_attr => {
                let key = text.strip_prefix("dense_resource<");
                let key = key.and_then(|key| key.strip_suffix('>'));
                if key.is_some_and(|key| key.trim() == "__elided__") {
                    let message = "the elements of this constant were elided where it was printed";
                    return Err(self.error(text, message));
                }
                let blob = key.and_then(|key| self.texts.shared.resources.get(key.trim()));
                match (blob, ty) {
                    (Some(blob), Some(ty)) => crate::number::resource(self, text, blob, ty),
                    _ => Ok(opaque(text, ty)),
                }
            }
            _ => Ok(Attr::new(TypeAttr(self.ty(pair)?))),
        }
    }

    pub(crate) fn string(&self, text: &str) -> Result<String, Failure> {
        unquote(text).ok_or_else(|| self.escapes(text))
    }
    fn escapes(&self, text: &str) -> Failure {
        let message = "escapes are `\\n`, `\\t`, `\\\"`, `\\\\` and two hex digits (UTF-8)";
        self.error(text, message)
    }

    fn symbol(&self, text: &str) -> Result<Attr, Failure> {
        let mut cursor = Cursor::new(text);
        let mut path = Vec::new();
        while let Some(part) = cursor.symbol() {
            path.push(self.symbol_name(part)?);
            cursor.eat("::");
        }
        Ok(Attr::new(SymbolRef { path }))
    }

    /// The name in `@name` or `@"name"`.
    pub(crate) fn symbol_name(&self, text: &str) -> Result<Name, Failure> {
        let name = &text[1..];
        if name.starts_with('"') {
            Ok(Name::from(&self.string(name)?))
        } else {
            Ok(name.into())
        }
    }

    /// The entries of a dictionary, of rule `dict`.
    pub(crate) fn entries(&self, pair: Pair<'_, Rule>) -> Result<Vec<(Name, Attr)>, Failure> {
        let mut entries: Vec<(Name, Attr)> = Vec::new();
        for entry in below(pair) {
            let mut parts = below(entry);
            let Some(key) = parts.next() else { continue };
            let text = key.as_str();
            let name = if text.starts_with('"') {
                Name::from(&self.string(text)?)
            } else {
                Name::new(text)
            };
            let value = match parts.next() {
                Some(pair) => self.attr(pair)?,
                None => Attr::unit(),
            };
            if entries.len() < 64 && entries.iter().any(|(other, _)| *other == name) {
                return Err(
                    self.error(text, format!("key `{name}` stands twice in the dictionary"))
                );
            }
            entries.push((name, value));
        }
        Ok(entries)
    }

    fn dialect_attr(&self, pair: Pair<'_, Rule>, ty: Option<Type>) -> Result<Attr, Failure> {
        let text = pair.as_str();
        let mut parts = below(pair);
        let name = parts.next().map_or("", |pair| pair.as_str());
        let body = parts.next().map(|pair| pair.as_str());
        let untyped = || match ty {
            Some(_) => Err(self.error(text, "this attribute takes no type")),
            None => Ok(()),
        };
        if body.is_none()
            && let Some(Alias::Attr(attr)) = self.texts.alias(&text[..name.len() + 1])
        {
            untyped()?;
            return Ok(attr);
        }
        if let Some(parse) = Dialect::attr_parser(name) {
            untyped()?;
            let inner = body.map(inside);
            return parse(inner, self.texts).map_err(|message| self.error(text, message));
        }
        self.unknown("attribute", '#', text, name, body)?;
        Ok(opaque(text, ty))
    }

    fn strided(&self, pair: Pair<'_, Rule>) -> Result<Attr, Failure> {
        let (mut strides, mut offset) = (Vec::new(), 0);
        for part in below(pair) {
            let text = part.as_str();
            let value = if text == "?" {
                DYNAMIC
            } else {
                let number = text.parse();
                number.map_err(|_| self.error(text, format!("{text} is too large")))?
            };
            if part.as_rule() == Rule::offset {
                offset = value;
            } else {
                strides.push(value);
            }
        }
        Ok(Attr::new(LayoutAttr(Layout::Strided { strides, offset })))
    }

    /// A location: `loc(…)`, or what stands inside.
    pub(crate) fn loc(&self, pair: Pair<'_, Rule>) -> Result<Loc, Failure> {
        let text = pair.as_str();
        let rule = pair.as_rule();
        let number = |pair: Option<Pair<'_, Rule>>| -> Result<u32, Failure> {
            let text = pair.as_ref().map_or("0", |pair| pair.as_str());
            text.parse()
                .map_err(|_| self.error(text, format!("{text} is too large")))
        };
        let name = |pair: Option<Pair<'_, Rule>>| -> Result<Name, Failure> {
            Ok(Name::from(&self.string(
                pair.as_ref().map_or("\"\"", |pair| pair.as_str()),
            )?))
        };
        if rule == Rule::dialect_attr {
            let attr = self.dialect_attr(pair, None)?;
            return match attr.get::<LocAttr>() {
                Some(loc) => Ok(loc.0),
                None => Err(self.error(text, "expected the alias of a location")),
            };
        }
        let mut parts = below(pair);
        match rule {
            Rule::loc => match parts.next() {
                Some(pair) => self.loc(pair),
                None => Ok(Loc::UNKNOWN),
            },
            Rule::loc_file => {
                let file = name(parts.next())?;
                let line = number(parts.next())?;
                let column = number(parts.next())?;
                let rest: Vec<Pair<'_, Rule>> = parts.collect();
                Ok(match &rest[..] {
                    [] => Loc::file(file, line, column),
                    [end] => {
                        let end = number(Some(end.clone()))?;
                        Loc::new(LocData::Range(file, [line, column, line, end]))
                    }
                    [last, end, ..] => {
                        let last = number(Some(last.clone()))?;
                        let end = number(Some(end.clone()))?;
                        Loc::new(LocData::Range(file, [line, column, last, end]))
                    }
                })
            }
            Rule::loc_name => {
                let name = name(parts.next())?;
                let child = parts.next().map(|pair| self.loc(pair)).transpose()?;
                Ok(Loc::new(LocData::Named(
                    name,
                    child.unwrap_or(Loc::UNKNOWN),
                )))
            }
            Rule::loc_callsite => {
                let both: Result<Vec<Loc>, _> = parts.map(|pair| self.loc(pair)).collect();
                match both?[..] {
                    [callee, caller] => Ok(Loc::new(LocData::CallSite(callee, caller))),
                    _ => Err(self.error(text, "expected a callee and a caller")),
                }
            }
            Rule::loc_fused => {
                let mut metadata = None;
                let mut locs = Vec::new();
                for part in parts {
                    if part.as_rule() == Rule::attr {
                        metadata = Some(self.attr(part)?);
                    } else {
                        locs.push(self.loc(part)?);
                    }
                }
                Ok(Loc::new(LocData::Fused(metadata, locs)))
            }
            _ => Ok(Loc::UNKNOWN),
        }
    }
}

/// An attribute that is kept as text.
fn opaque(text: &str, ty: Option<Type>) -> Attr {
    let text = match ty {
        Some(ty) => format!("{text} : {ty}"),
        None => text.to_string(),
    };
    Attr::new(OpaqueAttr {
        text: text.into(),
        ty,
    })
}

/// What stands between the angle brackets.
fn inside(body: &str) -> &str {
    body.strip_prefix('<')
        .and_then(|rest| rest.strip_suffix('>'))
        .unwrap_or("")
}
