//! `--verify-roundtrip`: what is printed reads as an equal program, in each form.

use tir::{Diagnostic, Ir, Name, Sources};
use tir_text::{ParseOptions, PrintOptions};

/// Prints a program in pretty form, in generic form, and with locations; reads each text again
/// and compares; and prints that again, which must give the same text. (A pretty form may leave
/// out a terminator, and with it a location: those are compared in generic form.)
///
/// # Errors
/// What differs. The text that was printed is added to `sources`, so that places in it show.
pub fn round_trip(
    ir: &Ir,
    reading: &ParseOptions,
    sources: &mut Sources,
) -> Result<(), Vec<Diagnostic>> {
    for (form, generic, locations) in [
        ("pretty form", false, false),
        ("generic form", true, false),
        ("generic form with locations", true, true),
    ] {
        let options = PrintOptions {
            generic,
            locations,
            ..PrintOptions::default()
        };
        let text = tir_text::print(ir, &options);
        let name = Name::new(&format!("<{form}>"));
        sources.add(name, text.as_str());
        let reading = ParseOptions {
            lines_before: 0,
            ..reading.clone()
        };
        let context =
            |error: Diagnostic| error.context(format_args!("the {form} does not read again: "));
        let again = tir_text::parse(&text, name, &reading)
            .and_then(|again| tir::verify(&again).map(|()| again))
            .map_err(|errors| errors.into_iter().map(context).collect::<Vec<_>>())?;
        if let Err(difference) = tir_text::equal(ir, &again, locations) {
            return Err(vec![
                difference.context(format_args!("the {form} reads as another program: ")),
            ]);
        }
        let second = tir_text::print(&again, &options);
        if second != text {
            return Err(vec![first_difference(form, name, &text, &second)]);
        }
    }
    Ok(())
}

fn first_difference(form: &str, name: Name, first: &str, second: &str) -> Diagnostic {
    let mut lines = first.lines().zip(second.lines()).enumerate();
    let (line, found) = lines.find(|(_, (a, b))| a != b).map_or_else(
        || (first.lines().count().min(second.lines().count()), ""),
        |(line, (_, found))| (line, found),
    );
    Diagnostic::error(format!("the {form} is printed another way the second time"))
        .at(tir::Loc::file(name, line as u32 + 1, 1))
        .note(format!("the second time: {found}"))
}
