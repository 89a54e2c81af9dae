//! `#[derive(Op)]`: a record of operands, attributes and regions becomes an op.
//!
//! The macro emits one static table and three small functions; everything generic walks the table.
use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::quote;
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Data, DeriveInput, Error, Expr, ExprLit, Field, Fields, Ident, Lit, LitStr, Meta,
    Path, Result, Token, Type, parse_macro_input,
};

/// Makes a struct an op.
///
/// - `#[op("dialect.name", Trait, …, results(a, b), hook, …)]`: the name; traits (a word that
///   begins with a capital letter); names of the results whose types are inferred; hooks (a word
///   that begins with a small letter is `::tir::hooks::word`, a path is taken as it is);
///   `parent(A, B)`, the records of the ops that it may stand in; `terminator(A)`, those that end
///   blocks of its regions.
/// - `#[asm("…")]`: the declared syntax.
/// - On a field: `#[is(PATH)]` a `Constraint`, `#[default(EXPR)]` of an attribute,
///   `#[name("other")]` the name in text.
#[proc_macro_derive(Op, attributes(op, asm, is, default, name))]
pub fn derive_op(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(&input)
        .unwrap_or_else(|error| error.to_compile_error())
        .into()
}

/// The text of the doc comments among attributes.
fn doc(attrs: &[Attribute]) -> String {
    let mut lines = Vec::new();
    for attr in attrs {
        if let Meta::NameValue(meta) = &attr.meta
            && meta.path.is_ident("doc")
            && let Expr::Lit(ExprLit {
                lit: Lit::Str(text),
                ..
            }) = &meta.value
        {
            let line = text.value();
            lines.push(line.strip_prefix(' ').unwrap_or(&line).to_string());
        }
    }
    lines.join("\n").trim().to_string()
}

fn find<'a>(attrs: &'a [Attribute], name: &str) -> Option<&'a Attribute> {
    attrs.iter().find(|attr| attr.path().is_ident(name))
}

struct Header {
    name: LitStr,
    traits: Vec<Path>,
    results: Vec<Ident>,
    parents: Vec<Path>,
    terminators: Vec<Path>,
    hooks: Vec<Tokens>,
}

fn header(input: &DeriveInput) -> Result<Header> {
    let Some(attr) = find(&input.attrs, "op") else {
        return Err(Error::new_spanned(
            &input.ident,
            "an op needs #[op(\"dialect.name\", …)]",
        ));
    };
    let mut header = Header {
        name: LitStr::new("", input.ident.span()),
        traits: Vec::new(),
        results: Vec::new(),
        parents: Vec::new(),
        terminators: Vec::new(),
        hooks: Vec::new(),
    };
    attr.parse_args_with(|stream: syn::parse::ParseStream<'_>| {
        header.name = stream.parse()?;
        while !stream.is_empty() {
            stream.parse::<Token![,]>()?;
            if stream.is_empty() {
                break;
            }
            let path: Path = stream.parse()?;
            if path.is_ident("results") && stream.peek(syn::token::Paren) {
                let inner;
                syn::parenthesized!(inner in stream);
                let names = Punctuated::<Ident, Token![,]>::parse_terminated(&inner)?;
                header.results.extend(names);
            } else if (path.is_ident("parent") || path.is_ident("terminator"))
                && stream.peek(syn::token::Paren)
            {
                let inner;
                syn::parenthesized!(inner in stream);
                let records = Punctuated::<Path, Token![,]>::parse_terminated(&inner)?;
                match path.is_ident("parent") {
                    true => header.parents.extend(records),
                    false => header.terminators.extend(records),
                }
            } else if let Some(word) = path.get_ident() {
                let text = word.to_string();
                if text.starts_with(|c: char| c.is_ascii_uppercase()) {
                    header.traits.push(path);
                } else {
                    header.hooks.push(quote!(::tir::hooks::#word::<Self>));
                }
            } else {
                header.hooks.push(quote!(#path::<Self>));
            }
        }
        Ok(())
    })?;
    if !header.name.value().contains('.') {
        return Err(Error::new_spanned(
            &header.name,
            "the name of an op has a dot: \"dialect.name\"",
        ));
    }
    Ok(header)
}

/// The last word of a type: `Ret` of `tir::Ret`.
fn last_word(ty: &Type) -> String {
    match ty {
        Type::Path(path) => path
            .path
            .segments
            .last()
            .map_or(String::new(), |s| s.ident.to_string()),
        _ => String::new(),
    }
}

struct FieldTokens<'a> {
    ident: &'a Ident,
    ty: &'a Type,
    name: String,
    spec: Tokens,
}

fn part(field: &Field) -> Result<FieldTokens<'_>> {
    let Some(ident) = &field.ident else {
        return Err(Error::new_spanned(field, "fields of an op have names"));
    };
    let ty = &field.ty;
    let mut name = ident.to_string().trim_start_matches("r#").to_string();
    if let Some(attr) = find(&field.attrs, "name") {
        name = attr.parse_args::<LitStr>()?.value();
    }
    let doc = doc(&field.attrs);
    let constraint = match find(&field.attrs, "is") {
        Some(attr) => {
            let path: Path = attr.parse_args()?;
            quote!(::core::option::Option::Some(&#path))
        }
        None => quote!(::core::option::Option::None),
    };
    let default = match find(&field.attrs, "default") {
        Some(attr) => {
            let value: Expr = attr.parse_args()?;
            quote!(::core::option::Option::Some(|| {
                let value: #ty = #value;
                ::tir::AttrValue::to_attr(&value)
            }))
        }
        None => quote!(::core::option::Option::None),
    };
    let spec = quote! {
        ::tir::FieldSpec {
            name: #name,
            doc: #doc,
            role: <#ty as ::tir::Field>::ROLE,
            keywords: <#ty as ::tir::Field>::KEYWORDS,
            constraint: #constraint,
            default: #default,
        }
    };
    Ok(FieldTokens {
        ident,
        ty,
        name,
        spec,
    })
}

fn expand(input: &DeriveInput) -> Result<Tokens> {
    let header = header(input)?;
    let fields = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => fields.named.iter().collect(),
            Fields::Unit => Vec::new(),
            Fields::Unnamed(fields) => {
                return Err(Error::new_spanned(fields, "fields of an op have names"));
            }
        },
        _ => return Err(Error::new_spanned(&input.ident, "an op is a struct")),
    };
    let parts: Vec<FieldTokens<'_>> = fields.into_iter().map(part).collect::<Result<_>>()?;
    let ident = &input.ident;
    let name = &header.name;
    let doc = doc(&input.attrs);
    let asm = match find(&input.attrs, "asm") {
        Some(attr) => {
            let text: LitStr = attr.parse_args()?;
            quote!(::core::option::Option::Some(#text))
        }
        None => quote!(::core::option::Option::None),
    };
    let said = parts.iter().filter(|p| last_word(p.ty) == "Ret").count();
    let open = parts.iter().any(|p| last_word(p.ty) == "Rets");
    if (said > 0 || open) && !header.results.is_empty() {
        return Err(Error::new_spanned(
            &input.ident,
            "results are either fields (Ret, Rets) or inferred (results(…)), not both",
        ));
    }
    let count = said + header.results.len();
    let (out_type, out) = if open {
        (
            quote!(::std::vec::Vec<::tir::Value>),
            quote!(ir.results(op).collect()),
        )
    } else {
        match count {
            0 => (quote!(::tir::OpId), quote!(op)),
            1 => (quote!(::tir::Value), quote!(::tir::one_result(ir, op))),
            n => (
                quote!([::tir::Value; #n]),
                quote!(::tir::fixed_results(ir, op)),
            ),
        }
    };
    let traits = header.traits.iter();
    let results = header.results.iter().map(ToString::to_string);
    let (hooks, parents, terminators) = (&header.hooks, &header.parents, &header.terminators);
    let specs = parts.iter().map(|p| &p.spec);
    let idents: Vec<&Ident> = parts.iter().map(|p| p.ident).collect();
    let types: Vec<&Type> = parts.iter().map(|p| p.ty).collect();
    let names: Vec<&String> = parts.iter().map(|p| &p.name).collect();
    Ok(quote! {
        impl ::tir::Op for #ident {
            type Out = #out_type;
            const SPEC: &'static ::tir::OpSpec = &::tir::OpSpec {
                name: #name,
                doc: #doc,
                traits: ::tir::Traits::NONE #(.with(::tir::Traits::#traits))*,
                fields: &[#(#specs),*],
                results: &[#(#results),*],
                parents: &[#(<#parents as ::tir::Op>::name),*],
                terminators: &[#(<#terminators as ::tir::Op>::name),*],
                asm: #asm,
                hooks: &[#(#hooks),*],
                check: |ir, op| {
                    #(<#types as ::tir::Field>::check(ir, op, #names)?;)*
                    ::core::result::Result::Ok(())
                },
            };
            fn name() -> ::tir::Name {
                static NAME: ::std::sync::OnceLock<::tir::Name> = ::std::sync::OnceLock::new();
                *NAME.get_or_init(|| ::tir::Name::new(#name))
            }
            #[allow(unused_mut)]
            fn state(self) -> ::tir::OpState {
                let mut state = ::tir::OpState::new(<Self as ::tir::Op>::name());
                #(::tir::Field::put(self.#idents, #names, &mut state);)*
                state
            }
            #[allow(unused_variables, unused_mut)]
            fn read(ir: &::tir::Ir, op: ::tir::OpId) -> ::core::option::Option<Self> {
                let mut cx = ::tir::Reader::new::<Self>(ir, op);
                ::core::option::Option::Some(Self { #(#idents: cx.field::<#types>(#names)?),* })
            }
            fn out(ir: &::tir::Ir, op: ::tir::OpId) -> Self::Out {
                let _ = ir;
                #out
            }
        }
    })
}
