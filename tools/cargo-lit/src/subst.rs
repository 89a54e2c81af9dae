//! Substitutions: `%{name}`, then `%s %S %p %t %T %%`.

use std::collections::BTreeMap;
use std::path::Path;

/// What the letters stand for in one test.
pub(crate) struct Paths<'a> {
    /// `%s`, and its directory `%S`.
    pub(crate) source: &'a Path,
    /// `%T`; `%t` is a file in it.
    pub(crate) temp: &'a Path,
}

/// Replaces `%{name}`; names not configured are errors.
pub(crate) fn expand_names(text: &str, names: &BTreeMap<String, String>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("%{") {
            let Some((name, after)) = after.split_once('}') else {
                return Err("'%{' without '}'".into());
            };
            match names.get(name) {
                Some(value) => out.push_str(value),
                None => return Err(format!("no substitution is named '%{{{name}}}'")),
            }
            rest = after;
        } else {
            // Both signs of `%%` stay together for the letters' turn.
            let keep = if rest.starts_with("%%") { 2 } else { 1 };
            out.push_str(&rest[..keep]);
            rest = &rest[keep..];
        }
    }
    out.push_str(rest);
    Ok(out)
}

/// Replaces the letters in a command line. A value is quoted as it needs where it stands.
pub(crate) fn expand_letters(text: &str, paths: &Paths<'_>) -> String {
    let dir = paths.source.parent().unwrap_or(Path::new("."));
    let mut out = String::new();
    let mut chars = text.chars();
    let mut quote = None;
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\\', None | Some('"')) => {
                out.push(c);
                out.extend(chars.next());
                continue;
            }
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            _ => {}
        }
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut ahead = chars.clone();
        let value = match ahead.next() {
            Some('%') => {
                out.push('%');
                chars = ahead;
                continue;
            }
            Some('s') => paths.source.display().to_string(),
            Some('S' | 'p') => dir.display().to_string(),
            Some('T') => paths.temp.display().to_string(),
            Some('t') => {
                let name = paths.source.file_name().unwrap_or_default();
                let file = format!("{}.tmp", name.to_string_lossy());
                paths.temp.join(file).display().to_string()
            }
            _ => {
                out.push('%');
                continue;
            }
        };
        match quote {
            None => out.push_str(&crate::engine::quote(&value)),
            Some(_) => out.push_str(&value),
        }
        chars = ahead;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces() {
        let paths = Paths {
            source: Path::new("/a/b.tir"),
            temp: Path::new("/t"),
        };
        assert_eq!(
            expand_letters("%s:%S:%t.x:%T:%%s:%0:100%", &paths),
            "/a/b.tir:/a:/t/b.tir.tmp.x:/t:%s:%0:100%"
        );
        let spaces = Paths {
            source: Path::new("/a b/c.tir"),
            ..paths
        };
        assert_eq!(
            expand_letters("%s '%s' \"x=%s\"", &spaces),
            "'/a b/c.tir' '/a b/c.tir' \"x=/a b/c.tir\""
        );
        let names = BTreeMap::from([("opt".to_string(), "tir-opt --x".to_string())]);
        assert_eq!(
            expand_names("%{opt} %s %%{x}", &names),
            Ok("tir-opt --x %s %%{x}".into())
        );
        assert!(expand_names("%{no}", &names).is_err());
        assert!(expand_names("%{no", &names).is_err());
    }
}
