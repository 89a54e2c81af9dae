//! The words of RUN lines, as far as they must be known: which programs a line starts, and which of
//! them read the test file. What a line does is up to the shell.

/// One command of a RUN line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Command {
    /// Whether it is expected to fail: behind `!` or `not`.
    pub(crate) negated: bool,
    /// The program and its arguments; files of redirections are among them.
    pub(crate) words: Vec<String>,
}

/// The commands of a line; none if a quote is not closed.
pub(crate) fn commands(line: &str) -> Option<Vec<Command>> {
    let mut all = vec![Command::default()];
    for word in shlex::split(line)? {
        let (text, ends) = match word.strip_suffix(';') {
            Some(text) => (text, true),
            None => (
                word.as_str(),
                matches!(word.as_str(), "|" | "|&" | "||" | "&&"),
            ),
        };
        let last = all.len() - 1;
        let command = &mut all[last];
        let first = command.words.is_empty();
        match text {
            "|" | "|&" | "||" | "&&" | "" => {}
            "!" | "not" if first => command.negated = true,
            "--crash" if first => {}
            text if first && is_assignment(text) => {}
            text => command.words.push(text.to_string()),
        }
        if ends {
            all.push(Command::default());
        }
    }
    all.retain(|command| !command.words.is_empty());
    Some(all)
}

/// `NAME=VALUE` before a command.
fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(plain)
}

impl Command {
    /// The name of the program, without its folder.
    pub(crate) fn program(&self) -> &str {
        let first = self.words.first().map_or("", String::as_str);
        first.rsplit('/').next().unwrap_or(first)
    }
    /// Whether a path is among its arguments.
    pub(crate) fn mentions(&self, path: &str) -> bool {
        let mut words = self.words.iter().skip(1);
        words.any(|word| word.trim_start_matches('<') == path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_lines() {
        let line = "X=1 not --crash a/t-opt 'x|y' f 2>&1 | filecheck f; ! b < f && c";
        let all = commands(line).expect("closed quotes");
        let programs: Vec<(&str, bool)> = all.iter().map(|c| (c.program(), c.negated)).collect();
        let expected = [
            ("t-opt", true),
            ("filecheck", false),
            ("b", true),
            ("c", false),
        ];
        assert_eq!(programs, expected);
        let reads: Vec<bool> = all.iter().map(|c| c.mentions("f")).collect();
        assert_eq!(reads, [true, true, true, false]);
        assert_eq!(commands("a 'b"), None);
    }
}
