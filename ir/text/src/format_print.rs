//! Prints an operation by its declared format.

use tir_core::{
    Attr, DYNAMIC, DenseArray, FieldInfo, IntAttr, OpInfo, OpRef, Role, SEGMENTS, StrAttr, Type,
    UnitAttr, Value, operand_groups,
};

use crate::directive::DirectivesObject;
use crate::format::{Arg, Bare, Elem, Format, Of, bare};
use crate::printer::AsmPrinter;

/// Whether the format can say all of the op, so that it reads back equal.
pub(crate) fn fits(op: OpRef<'_>, info: &OpInfo, format: &Format) -> bool {
    let groups = info.fields.iter().any(|f| f.role.is_operands());
    if groups && operand_groups(op.ir, op.id, info).is_none() {
        return false;
    }
    if !groups && op.ir.operands(op.id).len() > 0 {
        return false;
    }
    if info
        .result_count()
        .is_some_and(|count| count != op.ir.results(op.id).len())
    {
        return false;
    }
    let (ir, inner) = op.inner();
    let fixed = info
        .fields
        .iter()
        .filter(|f| f.role == Role::Region)
        .count();
    let open = info.fields.iter().any(|f| f.role == Role::Regions);
    let regions = ir.regions(inner).len();
    if regions < fixed || !open && regions > fixed {
        return false;
    }
    for (name, value) in op.ir.attrs(op.id) {
        if *name == SEGMENTS {
            continue;
        }
        let field = info
            .fields
            .iter()
            .position(|f| f.name == *name && f.role.is_attribute());
        match field {
            Some(i) if format.says[i] && !says(info, format, i, *value) => return false,
            Some(i) if format.says[i] => {}
            _ if !format.has_dict => return false,
            _ => {}
        }
    }
    info.fields.iter().enumerate().all(|(i, field)| {
        let needed = matches!(field.role, Role::Attribute(_)) && bare(info, i) != Bare::Flag;
        !needed || !format.says[i] || field.default.is_some() || op.attr(&field.name).is_some()
    })
}

/// Whether the attribute prints as the format has it.
fn says(info: &OpInfo, format: &Format, field: usize, value: Attr) -> bool {
    if let Some(kind) = body(&format.elems, field) {
        return value.kind() == kind;
    }
    if symbol(&format.elems, field) {
        return value.get::<StrAttr>().is_some_and(|text| text.ty.is_none());
    }
    match bare(info, field) {
        Bare::Keyword => info.fields[field]
            .keywords
            .is_some_and(|words| (words.print)(value).is_some()),
        Bare::Integer => {
            value
                .get::<IntAttr>()
                .is_some_and(|i| i.ty == Type::int(64))
                && value.as_int().is_some()
        }
        Bare::Bool => value.get::<IntAttr>().is_some_and(|i| i.ty == Type::int(1)),
        Bare::Integers => value
            .get::<DenseArray>()
            .is_some_and(|a| a.elem == Type::int(64)),
        Bare::Text => value.get::<StrAttr>().is_some_and(|text| text.ty.is_none()),
        Bare::Flag => value.is::<UnitAttr>(),
        Bare::Attr => true,
    }
}

fn body(elems: &[Elem], field: usize) -> Option<&'static str> {
    elems.iter().find_map(|elem| match elem {
        Elem::Body(i, kind) if *i == field => Some(*kind),
        Elem::Group { then, other, .. } => body(then, field).or_else(|| body(other, field)),
        _ => None,
    })
}

fn symbol(elems: &[Elem], field: usize) -> bool {
    elems.iter().any(|elem| match elem {
        Elem::Symbol(i) => *i == field,
        Elem::Group { then, other, .. } => symbol(then, field) || symbol(other, field),
        _ => false,
    })
}

struct Writer<'w, 'a> {
    p: &'w mut AsmPrinter<'a>,
    info: &'static OpInfo,
    format: &'w Format,
    /// Whether what comes next is parted by a space.
    space: bool,
    punctuation: bool,
}

/// Prints what stands behind the op's name.
pub(crate) fn print(p: &mut AsmPrinter<'_>, info: &'static OpInfo, format: &Format) {
    let mut writer = Writer {
        p,
        info,
        format,
        space: true,
        punctuation: false,
    };
    writer.elems(&format.elems);
}

impl<'a> Writer<'_, 'a> {
    fn op(&self) -> OpRef<'a> {
        self.p.op()
    }
    fn group(&self, field: usize) -> Vec<Value> {
        let op = self.op();
        let groups = operand_groups(op.ir, op.id, self.info).unwrap_or_default();
        let name = self.info.fields[field].name;
        groups
            .into_iter()
            .find(|(f, _)| f.name == name)
            .map_or(Vec::new(), |(_, values)| values)
    }
    fn types(&self, of: Of) -> Vec<Type> {
        let op = self.op();
        let types = |values: Vec<Value>| values.into_iter().map(|v| op.ir.ty(v)).collect();
        match of {
            Of::Operands => types(op.ir.operands(op.id).collect()),
            Of::Results => op.ir.result_types(op.id),
            Of::Result(i) => op
                .ir
                .result_types(op.id)
                .get(i)
                .copied()
                .into_iter()
                .collect(),
            Of::Field(i) => match self.info.fields[i].role {
                Role::Result | Role::Results => self.result_field(i),
                _ => types(self.group(i)),
            },
        }
    }
    /// The types of a field of results.
    fn result_field(&self, field: usize) -> Vec<Type> {
        let op = self.op();
        let all = op.ir.result_types(op.id);
        let fields = &self.info.fields;
        let single = fields.iter().filter(|f| f.role == Role::Result).count();
        let open = all.len().saturating_sub(single);
        let mut at = 0;
        for (i, f) in fields.iter().enumerate() {
            let len = match f.role {
                Role::Result => 1,
                Role::Results => open,
                _ => continue,
            };
            if i == field {
                return all.get(at..at + len).unwrap_or(&[]).to_vec();
            }
            at += len;
        }
        Vec::new()
    }

    /// The index of a field among those of its kind.
    fn index(&self, field: usize, same: fn(Role) -> bool) -> usize {
        self.info.fields[..field]
            .iter()
            .filter(|f| same(f.role))
            .count()
    }

    /// Whether a field has something to print.
    fn present(&self, field: usize) -> bool {
        let f = &self.info.fields[field];
        match f.role {
            Role::Attribute(_) | Role::OptionalAttribute(_) => {
                let value = self.op().attr(&f.name);
                value.is_some() && value != f.default
            }
            Role::Region => {
                let at = self.index(field, |r| r == Role::Region);
                let region = self.op().regions().nth(at);
                region.is_some_and(|(ir, region)| ir.blocks(region).len() > 0)
            }
            Role::Regions => self.op().regions().len() > self.index(field, |r| r == Role::Region),
            Role::Successor | Role::Successors => self.op().ir.successors(self.op().id).len() > 0,
            Role::Result | Role::Results => !self.result_field(field).is_empty(),
            _ => !self.group(field).is_empty(),
        }
    }

    fn anchored(&self, elem: &Elem) -> bool {
        match elem {
            Elem::Field(i) | Elem::Symbol(i) | Elem::Body(i, _) => self.present(*i),
            Elem::Type(of) => !self.types(*of).is_empty(),
            Elem::Operands => self.op().ir.operands(self.op().id).len() > 0,
            Elem::Successors => self.op().ir.successors(self.op().id).len() > 0,
            Elem::Regions => self.op().regions().len() > 0,
            Elem::AttrDict { .. } => !self.rest().is_empty(),
            Elem::Custom { args, .. } => args.iter().any(|arg| match arg {
                Arg::Field(i) => self.present(*i),
                _ => false,
            }),
            _ => false,
        }
    }

    fn rest(&self) -> Vec<(tir_core::Name, Attr)> {
        let op = self.op();
        let attrs = op.ir.attrs(op.id).iter().copied();
        attrs
            .filter(|(name, value)| {
                let of = |f: &FieldInfo| f.name == *name && f.role.is_attribute();
                let field = self.info.fields.iter().position(of);
                let said = field.is_some_and(|i| self.format.says[i]);
                let default = field.and_then(|i| self.info.fields[i].default);
                !said && default != Some(*value) && *name != SEGMENTS
            })
            .collect()
    }

    fn elems(&mut self, elems: &[Elem]) {
        for elem in elems {
            self.elem(elem);
        }
    }

    fn gap(&mut self) {
        if self.space || !self.punctuation {
            self.p.text(" ");
        }
        self.space = true;
        self.punctuation = false;
    }

    fn literal(&mut self, text: &str) {
        let first = text.chars().next().unwrap_or(' ');
        let long = text.len() != 1 && text != "->" && text != "::";
        let before = if text == "::" {
            false
        } else if long || text == "->" {
            true
        } else if self.punctuation {
            !">)}],".contains(first)
        } else {
            !"<>(){}[],".contains(first)
        };
        if self.space && before {
            self.p.text(" ");
        }
        self.p.text(text);
        self.space = text != "::" && (text.len() != 1 || !"<({[".contains(first));
        self.punctuation = first != '_' && !first.is_ascii_alphanumeric();
    }

    fn elem(&mut self, elem: &Elem) {
        match elem {
            Elem::Literal(text) => self.literal(text),
            Elem::Space("") => {
                self.space = false;
                self.punctuation = true;
            }
            Elem::Space(" ") => {
                self.p.text(" ");
                self.space = false;
                self.punctuation = true;
            }
            Elem::Space("\n") => {
                self.p.newline(0);
                self.space = false;
                self.punctuation = true;
            }
            Elem::Space(_) => {}
            Elem::Field(i) => self.field(*i),
            Elem::Symbol(i) => {
                let name = self.info.fields[*i].name;
                if let Some(text) = self.op().attr(&name).and_then(Attr::as_str) {
                    self.gap();
                    self.p.symbol(text);
                }
            }
            Elem::Body(i, kind) => {
                let name = self.info.fields[*i].name;
                if let Some(value) = self.op().attr(&name) {
                    let text = value.to_string();
                    let body = text.strip_prefix('#').and_then(|t| t.strip_prefix(kind));
                    self.p
                        .text(body.filter(|body| !body.is_empty()).unwrap_or("<>"));
                }
                self.space = true;
                self.punctuation = false;
            }
            Elem::Type(of) => {
                let types = self.types(*of);
                if !types.is_empty() {
                    self.gap();
                    self.p.types(&types);
                }
            }
            Elem::FunctionalType(from, to) => {
                self.gap();
                let (inputs, results) = (self.types(*from), self.types(*to));
                self.p.function_type(&inputs, &results);
            }
            Elem::AttrDict { keyword } => {
                let entries = self.rest();
                if !entries.is_empty() {
                    if *keyword {
                        self.literal("attributes");
                    }
                    self.gap();
                    self.p.dictionary(&entries);
                }
            }
            Elem::Operands => {
                let op = self.op();
                let values: Vec<Value> = op.ir.operands(op.id).collect();
                if !values.is_empty() {
                    self.gap();
                    self.p.values(&values);
                }
            }
            Elem::Regions => {
                for i in 0..self.op().regions().len() {
                    self.region(i, i > 0);
                }
            }
            Elem::Successors => {
                let op = self.op();
                let blocks: Vec<_> = op.ir.successors(op.id).collect();
                if !blocks.is_empty() {
                    self.gap();
                    self.p.commas(blocks, |p, block| p.successor(block));
                }
            }
            Elem::Group {
                then,
                anchor,
                other,
            } => {
                if then
                    .get(*anchor)
                    .is_some_and(|anchor| self.anchored(anchor))
                {
                    self.elems(then);
                } else {
                    self.elems(other);
                }
            }
            Elem::Custom { name, args } => self.custom(name, args),
        }
    }

    fn region(&mut self, index: usize, comma: bool) {
        if comma {
            self.literal(",");
        }
        self.gap();
        self.p.region_with(index, false, self.format.implicit);
    }

    fn field(&mut self, index: usize) {
        let field = &self.info.fields[index];
        match field.role {
            Role::Operand | Role::OptionalOperand | Role::Operands => {
                let values = self.group(index);
                if !values.is_empty() {
                    self.gap();
                    self.p.values(&values);
                }
            }
            Role::Region => self.region(self.index(index, |r| r == Role::Region), false),
            Role::Regions => {
                let first = self.index(index, |r| r == Role::Region);
                for i in first..self.op().regions().len() {
                    self.region(i, i > first);
                }
            }
            Role::Successor => {
                let at = self.index(index, |r| r == Role::Successor);
                let op = self.op();
                if let Some(block) = op.ir.successors(op.id).nth(at) {
                    self.gap();
                    let values = self.group(index);
                    self.p.successor_with_args(block, &values);
                }
            }
            Role::Successors => self.elem(&Elem::Successors),
            Role::Attribute(_) | Role::OptionalAttribute(_) => {
                let value = self.op().attr(&field.name).or(field.default);
                if let Some(value) = value {
                    self.attribute(index, value);
                }
            }
            Role::Result | Role::Results => {}
        }
    }

    fn attribute(&mut self, index: usize, value: Attr) {
        let kind = bare(self.info, index);
        if kind == Bare::Flag {
            return;
        }
        self.gap();
        let keywords = self.info.fields[index].keywords;
        match kind {
            Bare::Keyword => {
                if let Some(word) = keywords.and_then(|words| (words.print)(value)) {
                    self.p.text(word);
                }
            }
            Bare::Integer => self.p.display(value.as_int().unwrap_or(0)),
            Bare::Bool => self.p.display(value.as_int() != Some(0)),
            Bare::Integers => {
                let array = value.get::<DenseArray>();
                self.p.ints(array.map_or(&[], |a| &a.bits));
            }
            _ => self.p.attr(value),
        }
    }

    fn custom(&mut self, name: &str, args: &[Arg]) {
        if let Some(object) = self.info.interface::<dyn DirectivesObject>()
            && let Some(directive) = object.directive(name)
        {
            if self.space {
                self.p.text(" ");
            }
            directive.print(self.p, args);
            self.space = true;
            self.punctuation = false;
            return;
        }
        match (name, args) {
            ("indices", [Arg::Field(dynamic), Arg::Field(fixed)]) => {
                let values = self.group(*dynamic);
                let fixed = self.op().attr(&self.info.fields[*fixed].name);
                let numbers = fixed
                    .and_then(|a| a.get::<DenseArray>())
                    .map(|a| a.bits.clone());
                let numbers = numbers.unwrap_or_else(|| vec![DYNAMIC; values.len()]);
                if self.space {
                    self.p.text(" ");
                }
                self.p.indices(&values, &numbers);
            }
            ("typed-args", [Arg::Field(values)]) => {
                let values = self.group(*values);
                let ir = self.op().ir;
                if self.space {
                    self.p.text(" ");
                }
                self.p.list("(", ")", values, |p, value| {
                    p.value(value);
                    p.text(" : ");
                    p.ty(ir.ty(value));
                });
            }
            ("constant", [Arg::Field(value), _]) => {
                let op = self.op();
                let value = op.attr(&self.info.fields[*value].name);
                let ty = op.ir.results(op.id).next().map(|v| op.ir.ty(v));
                if let (Some(value), Some(ty)) = (value, ty) {
                    self.gap();
                    self.p.constant(value, ty);
                }
            }
            _ => {}
        }
        self.space = true;
        self.punctuation = false;
    }
}
