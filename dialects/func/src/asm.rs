//! The syntax of functions.

use tir::{
    Asm, AsmParser, AsmPrinter, Attr, DictAttr, Failure, FunctionType, Name, Op, OpRef, OpState,
    Type,
};

use crate::Func;

fn entries(attr: Option<&Attr>) -> Vec<(Name, Attr)> {
    let dict = attr.and_then(|attr| attr.get::<DictAttr>());
    dict.map_or_else(Vec::new, |dict| dict.entries().to_vec())
}
fn print_entries(p: &mut AsmPrinter<'_>, attr: Option<&Attr>) {
    let entries = entries(attr);
    if !entries.is_empty() {
        p.text(" ");
        p.dictionary(&entries);
    }
}

/// Dictionaries of arguments or results that stand beside their types: one for each, not all
/// empty.
fn beside(attrs: Option<Vec<Attr>>, count: usize) -> Option<Vec<Attr>> {
    let attrs = attrs?;
    let dicts = attrs.iter().all(|attr| attr.is::<DictAttr>());
    let said = attrs.iter().any(|attr| !entries(Some(attr)).is_empty());
    (attrs.len() == count && dicts && said).then_some(attrs)
}

impl Asm for Func {
    fn print(op: OpRef<'_>, p: &mut AsmPrinter<'_>) {
        let (ir, id) = op.inner();
        let Some(func) = Func::read(ir, id) else {
            return;
        };
        let Some(signature) = func.signature() else {
            return;
        };
        p.text(" ");
        let visibility = func
            .sym_visibility
            .filter(|v| v == "private" || v == "nested");
        if let Some(visibility) = visibility {
            p.text(visibility.as_str());
            p.text(" ");
        }
        p.symbol(func.sym_name.as_str());
        let args = beside(func.arg_attrs.clone(), signature.inputs.len());
        let results = beside(func.res_attrs.clone(), signature.results.len());
        let has_body = ir.entry(func.body).is_some();
        p.arguments(0, |p, _, values| {
            let inputs = signature.inputs.iter().enumerate();
            p.list("(", ")", inputs, |p, (i, ty)| {
                if let Some(value) = values.get(i).filter(|_| has_body) {
                    p.value(*value);
                    p.text(": ");
                }
                p.ty(*ty);
                print_entries(p, args.as_ref().and_then(|a| a.get(i)));
            });
        });
        match &signature.results[..] {
            [] => {}
            [one] if results.is_none() => {
                p.text(" -> ");
                p.result_types(&[*one]);
            }
            many => {
                p.text(" -> ");
                p.list("(", ")", many.iter().enumerate(), |p, (i, ty)| {
                    p.ty(*ty);
                    print_entries(p, results.as_ref().and_then(|r| r.get(i)));
                });
            }
        }
        let mut said = vec!["sym_name", "function_type"];
        said.extend(visibility.map(|_| "sym_visibility"));
        said.extend(args.map(|_| "arg_attrs"));
        said.extend(results.map(|_| "res_attrs"));
        p.attributes_except(&said);
        if has_body {
            p.text(" ");
            p.region(0, true);
        }
    }

    fn parse(p: &mut AsmParser<'_>, state: &mut OpState) -> Result<(), Failure> {
        if let Some(word) = p.peek_word() {
            if !matches!(word, "private" | "nested" | "public") {
                return Err(p.expected("`private`, `nested` or the function's name `@name`"));
            }
            p.word()?;
            if word != "public" {
                state.set_attr("sym_visibility", Attr::str(word));
            }
        }
        let name = p.symbol()?;
        state.set_attr("sym_name", Attr::str(name.as_str()));
        let mut names = Vec::new();
        let mut types: Vec<Type> = Vec::new();
        let mut arg_attrs = Vec::new();
        let args = p.list("(", ")", |p| {
            let named = p.sees("%");
            if named {
                names.push(p.argument()?);
                p.punct(":")?;
            }
            types.push(p.ty()?);
            arg_attrs.push(p.dictionary()?);
            Ok(named)
        })?;
        let named = args.first().copied().unwrap_or(true);
        if args.iter().any(|n| *n != named) {
            return Err(p.error("some arguments have names and some have not"));
        }
        let (mut results, mut res_attrs): (Vec<Type>, Vec<Vec<(Name, Attr)>>) = Default::default();
        if p.eat("->") {
            if p.sees("(") {
                p.list("(", ")", |p| {
                    results.push(p.ty()?);
                    res_attrs.push(p.dictionary()?);
                    Ok(())
                })?;
            } else {
                results.push(p.ty()?);
            }
        }
        let ty = FunctionType {
            inputs: types.clone(),
            results,
        };
        state.set_attr("function_type", Attr::ty(Type::new(ty)));
        for (key, all) in [("arg_attrs", arg_attrs), ("res_attrs", res_attrs)] {
            if all.iter().any(|entries| !entries.is_empty()) {
                let all = all
                    .into_iter()
                    .map(|entries| Attr::new(DictAttr::new(entries)));
                state.set_attr(key, Attr::array(all.collect::<Vec<_>>()));
            }
        }
        for (name, value) in p.attributes()? {
            if state.attr(name.as_str()).is_some() {
                return Err(p.error(format!("attribute '{name}' occurs twice")));
            }
            state.set_attr(name, value);
        }
        let region = if p.sees_region() {
            if !named {
                return Err(p.error("a function with a body names its arguments"));
            }
            let args: Vec<_> = names.into_iter().zip(types).collect();
            p.region(Some(&args))?
        } else {
            p.no_region()
        };
        state.regions.push(region);
        Ok(())
    }
}
