//! The shell language of RUN lines, cut into pipelines.
//!
//! Words with quotes and backslashes, `|`, `&&`, `||`, `;`, `!`, and the redirections
//! `<f >f >>f 2>f 2>>f &>f 2>&1 >&2`. Variables, globs, subshells and control flow are not part of
//! it: a test that needs them calls `sh -c`.

/// Where an output goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    File {
        path: String,
        append: bool,
    },
    /// Where the other output goes at this moment: `2>&1`, `>&2`.
    Other,
}

/// One redirection, in the order written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Redirect {
    In(String),
    Out(Target),
    Err(Target),
    /// `&>f`
    Both(Target),
}

/// One command of a pipeline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    /// `NAME=VALUE` before the command.
    pub(crate) env: Vec<(String, String)>,
    pub(crate) words: Vec<String>,
    pub(crate) redirects: Vec<Redirect>,
}

/// What joins a pipeline to the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Join {
    And,
    Or,
    /// `;`: both run, both must succeed.
    Then,
}

/// Commands joined by `|`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pipeline {
    pub(crate) join: Join,
    /// `!` before it.
    pub(crate) negated: bool,
    pub(crate) parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// The text, and whether any of it was quoted.
    Word(String, bool),
    Operator(&'static str),
}

/// Longer ones first.
const OPERATORS: [&str; 17] = [
    "2>&1", "1>&2", "2>>", "1>>", "&>>", "&&", "||", "|&", ">>", ">&2", "&>", "2>", "1>", "|", ";",
    "<", ">",
];

/// Parses one RUN line; `expand` replaces substitutions in each word.
pub(crate) fn parse(text: &str, expand: &dyn Fn(&str) -> String) -> Result<Vec<Pipeline>, String> {
    let mut pipelines = Vec::new();
    let mut line = Pipeline {
        join: Join::And,
        negated: false,
        parts: Vec::new(),
    };
    let mut part = Part::default();
    let mut tokens = tokens(text)?.into_iter();
    while let Some(token) = tokens.next() {
        let operator = match token {
            Token::Word(word, quoted) => {
                if !quoted && word == "!" && part == Part::default() && line.parts.is_empty() {
                    line.negated = !line.negated;
                } else {
                    part.push(expand(&word), quoted);
                }
                continue;
            }
            Token::Operator(operator) => operator,
        };
        let join = match operator {
            "|" | "|&" => {
                if operator == "|&" {
                    part.redirects.push(Redirect::Err(Target::Other));
                }
                line.parts.push(part.finish()?);
                part = Part::default();
                continue;
            }
            "&&" => Join::And,
            "||" => Join::Or,
            ";" => Join::Then,
            "2>&1" => {
                part.redirects.push(Redirect::Err(Target::Other));
                continue;
            }
            ">&2" | "1>&2" => {
                part.redirects.push(Redirect::Out(Target::Other));
                continue;
            }
            _ => {
                let Some(Token::Word(path, _)) = tokens.next() else {
                    return Err(format!("'{operator}' needs a file"));
                };
                let path = expand(&path);
                let file = Target::File {
                    path: path.clone(),
                    append: operator.ends_with(">>"),
                };
                part.redirects.push(match operator {
                    "<" => Redirect::In(path),
                    "2>" | "2>>" => Redirect::Err(file),
                    "&>" | "&>>" => Redirect::Both(file),
                    _ => Redirect::Out(file),
                });
                continue;
            }
        };
        line.parts.push(part.finish()?);
        pipelines.push(line);
        line = Pipeline {
            join,
            negated: false,
            parts: Vec::new(),
        };
        part = Part::default();
    }
    // A line may end in `;`.
    if line.join != Join::Then || part != Part::default() || !line.parts.is_empty() {
        line.parts.push(part.finish()?);
        pipelines.push(line);
    }
    Ok(pipelines)
}

impl Part {
    fn push(&mut self, word: String, quoted: bool) {
        if self.words.is_empty()
            && !quoted
            && let Some((name, value)) = word.split_once('=')
            && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        {
            self.env.push((name.to_string(), value.to_string()));
            return;
        }
        self.words.push(word);
    }

    fn finish(self) -> Result<Part, String> {
        if self.words.is_empty() {
            Err("a command is missing".into())
        } else {
            Ok(self)
        }
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let Some(first) = rest.chars().next() else {
            return Ok(tokens);
        };
        if first == '#' {
            return Ok(tokens);
        }
        if let Some(operator) = OPERATORS.iter().find(|o| rest.starts_with(**o)) {
            tokens.push(Token::Operator(operator));
            rest = &rest[operator.len()..];
            continue;
        }
        if matches!(first, '&' | '(' | ')' | '`') {
            return Err(format!(
                "'{first}' is not supported in RUN lines; quote it, or use sh -c"
            ));
        }
        let (word, quoted, length) = word(rest)?;
        tokens.push(Token::Word(word, quoted));
        rest = &rest[length..];
    }
}

/// Reads one word; also the bytes it takes.
fn word(text: &str) -> Result<(String, bool, usize), String> {
    let mut out = String::new();
    let mut quoted = false;
    let mut chars = text.char_indices();
    while let Some((i, c)) = chars.next() {
        match c {
            '\'' => {
                quoted = true;
                loop {
                    match chars.next() {
                        Some((_, '\'')) => break,
                        Some((_, c)) => out.push(c),
                        None => return Err("a quote (') is not closed".into()),
                    }
                }
            }
            '"' => {
                quoted = true;
                loop {
                    match chars.next() {
                        Some((_, '"')) => break,
                        Some((_, '\\')) => match chars.next() {
                            Some((_, c @ ('"' | '\\' | '$' | '`'))) => out.push(c),
                            Some((_, c)) => out.extend(['\\', c]),
                            None => return Err("a quote (\") is not closed".into()),
                        },
                        Some((_, c)) => out.push(c),
                        None => return Err("a quote (\") is not closed".into()),
                    }
                }
            }
            '\\' => {
                quoted = true;
                out.extend(chars.next().map(|(_, c)| c));
            }
            c if c.is_whitespace() || "|&;<>()`".contains(c) => return Ok((out, quoted, i)),
            c => out.push(c),
        }
    }
    Ok((out, quoted, text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p(text: &str) -> Result<Vec<Pipeline>, String> {
        parse(text, &|w| w.replace("%s", "a b"))
    }

    #[test]
    fn words_and_pipes() {
        let lines = p(r#"X=1 t %s 'a|b' "c\"d" e\ f --p='x{y=1}' 2>&1 | u > out # gone"#).unwrap();
        assert_eq!(lines.len(), 1);
        let parts = &lines[0].parts;
        assert_eq!(
            parts[0].words,
            ["t", "a b", "a|b", "c\"d", "e f", "--p=x{y=1}"]
        );
        assert_eq!(parts[0].env, [("X".to_string(), "1".to_string())]);
        assert_eq!(parts[0].redirects, [Redirect::Err(Target::Other)]);
        assert_eq!(
            parts[1].redirects,
            [Redirect::Out(Target::File {
                path: "out".into(),
                append: false
            })]
        );
    }

    #[test]
    fn joins() {
        let lines = p("! a && b || c; d;").unwrap();
        let joins: Vec<Join> = lines.iter().map(|l| l.join).collect();
        assert_eq!(joins, [Join::And, Join::And, Join::Or, Join::Then]);
        assert!(lines[0].negated && !lines[1].negated);
    }

    #[test]
    fn refuses() {
        for bad in [
            "", "a |", "| a", "a >", "a && ", "(a)", "a &", "'x", "\"x", "a > | b", "X=1",
        ] {
            assert!(p(bad).is_err(), "{bad}");
        }
    }
}
