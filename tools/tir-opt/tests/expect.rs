//! What `--verify-diagnostics` reads in comments, and what it makes of reports.

use tir::{Diagnostic, Loc, Name};
use tir_opt::Expectations;

/// What is wrong when `reported` (line, message; errors) meets the expectations of a text that
/// begins at line 10.
fn check(text: &str, reported: &[(u32, &str)]) -> Vec<String> {
    let file = Name::new("x.tir");
    let error = |(line, message): &(u32, &str)| {
        let loc = if *line == 0 {
            Loc::UNKNOWN
        } else {
            Loc::file(file, *line, 3)
        };
        Diagnostic::error(*message).at(loc)
    };
    let reported: Vec<Diagnostic> = reported.iter().map(error).collect();
    let wrong = match Expectations::read(text, file, 10) {
        Ok(expected) => expected.check(&reported),
        Err(errors) => errors,
    };
    wrong.iter().map(ToString::to_string).collect()
}

#[test]
fn met() {
    assert!(check("a // expected-error {{bad}}", &[(10, "is bad, very")]).is_empty());
    assert!(check("a\n// expected-error@-1 {{bad}}", &[(10, "bad")]).is_empty());
    assert!(check("// expected-error@+2 {{bad}}\n\nb", &[(12, "bad")]).is_empty());
    let two = "// expected-error@below {{one}}\n// expected-error@below {{two}}\nb";
    assert!(check(two, &[(12, "two"), (12, "one")]).is_empty());
    let above = "b\n// expected-error@above {{one}} expected-error@above {{two}}";
    assert!(check(above, &[(10, "two"), (10, "one")]).is_empty());
    assert!(check("// expected-error@unknown {{x}}", &[(0, "x")]).is_empty());
    let regex = "// expected-error-re {{has rank {{[0-9]+}}, (not 2)}}";
    assert!(check(regex, &[(10, "has rank 17, (not 2)")]).is_empty());
    assert!(check("// expected-error {{a {b}}}", &[(10, "a {b}")]).is_empty());
    assert!(check("// no expectation: expected-error", &[]).is_empty());
}

#[test]
fn unmet() {
    let missing = "x.tir:10:6: error: expected error \"bad\" was not reported";
    assert_eq!(check("a // expected-error {{bad}}", &[]), [missing]);
    let unexpected = "x.tir:11:3: error: unexpected error: bad";
    assert_eq!(
        check("a // expected-error {{bad}}\n", &[(11, "bad")]),
        [unexpected, missing]
    );
    assert_eq!(
        check("// expected-error@unknown {{x}}", &[(10, "x")]).len(),
        2
    );
    // One expectation is met once.
    assert_eq!(
        check("a // expected-error {{bad}}", &[(10, "bad"), (10, "bad")]).len(),
        1
    );
    assert_eq!(
        check("a // expected-warning {{bad}}", &[(10, "bad")]).len(),
        2
    );
    assert_eq!(check("", &[(0, "bad")]), ["error: unexpected error: bad"]);
}

#[test]
fn notes() {
    let file = Name::new("x.tir");
    let error = Diagnostic::error("bad")
        .at(Loc::file(file, 1, 1))
        .note("why");
    let check = |text: &str| {
        Expectations::read(text, file, 1).map(|e| e.check(std::slice::from_ref(&error)).len())
    };
    assert_eq!(check("// expected-error {{bad}}"), Ok(0));
    assert_eq!(
        check("// expected-error {{bad}} expected-note {{why}}"),
        Ok(0)
    );
    assert_eq!(
        check("// expected-error {{bad}} expected-note {{no}}"),
        Ok(2)
    );
}

#[test]
fn malformed() {
    for (text, message) in [
        (
            "// expected-error",
            "x.tir:10:4: error: expected-error needs its text in `{{` and `}}`",
        ),
        (
            "// expected-error {{a",
            "x.tir:10:4: error: expected-error is not closed by `}}`",
        ),
        (
            "// expected-error@5 {{a}}",
            "x.tir:10:4: error: `@` is followed by +N, -N, above, below or unknown",
        ),
        (
            "// expected-error@+5 {{a}}",
            "x.tir:10:4: error: there is no line +5 from here",
        ),
        (
            "// expected-error-re {{a{{(}}}}",
            "x.tir:10:4: error: not a regular expression: error: unclosed group",
        ),
    ] {
        assert_eq!(check(text, &[]), [message], "{text}");
    }
}
