//! Substitutions: `%s %S %p %t %T %%` in words, `%{name}` in the text before it is cut into words.

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

/// Replaces the letters in one word.
pub(crate) fn expand_word(word: &str, paths: &Paths<'_>) -> String {
    let dir = paths.source.parent().unwrap_or(Path::new("."));
    let mut out = String::new();
    let mut chars = word.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut ahead = chars.clone();
        let value = match ahead.next() {
            Some('%') => "%".to_string(),
            Some('s') => paths.source.display().to_string(),
            Some('S' | 'p') => dir.display().to_string(),
            Some('T') => paths.temp.display().to_string(),
            Some('t') => {
                let name = paths
                    .source
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy();
                paths.temp.join(format!("{name}.tmp")).display().to_string()
            }
            _ => {
                out.push('%');
                continue;
            }
        };
        out.push_str(&value);
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
            expand_word("%s:%S:%t.x:%T:%%s:%0:100%", &paths),
            "/a/b.tir:/a:/t/b.tir.tmp.x:/t:%s:%0:100%"
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
