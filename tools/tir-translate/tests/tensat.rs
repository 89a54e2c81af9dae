//! Networks in TASO's text export: published ones and malformed ones.

use std::path::Path;

use tir_translate::{import_tensat_model, import_tensat_text};

const SMALL: &str = include_str!("../../../test/tools/tir-translate/small.model");

#[test]
fn published_networks() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../test/e2e/tensat");
    // Operators in each that are no input, no weight and no dropout.
    for (name, ops) in [("bts", 113), ("squeezenet", 65), ("vgg", 48)] {
        let file = folder.join(name).with_extension("model");
        let ir = import_tensat_model(&file).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        let text = tir_text::print(&ir, &tir_text::PrintOptions::default());
        assert_eq!(text.matches(" = graph.").count(), ops, "{name}");
    }
}

/// What importing says of the small network with a part replaced.
fn message(from: &str, to: &str) -> String {
    assert!(SMALL.contains(from), "{from}");
    let text = SMALL.replacen(from, to, 1);
    let Err(error) = import_tensat_text("t.model", &text) else {
        return "imported".to_string();
    };
    let place = error[0].loc.place().map_or(0, |(_, line, _)| line);
    format!("{place}: {}", error[0].message)
}

#[test]
fn malformed_networks_are_refused_at_their_line() {
    let cases = [
        ("100\n", "x\n", "1: 'x' is no number of an operator"),
        (
            "\n0\n10:0",
            "\n-1\n10:0",
            "2: '-1' is no type of an operator",
        ),
        (
            "110:0,102:0",
            "110:0,102",
            "31: '102' is no operand, as 157:0",
        ),
        ("1,8,9,9\n", "1,a\n", "4: 'a' is no whole number"),
        (
            "1,8,9,9\n",
            "1,-8,9,9\n",
            "1: operator 100: has shape [1, -8, 9, 9]",
        ),
        ("101\n1\n", "100\n1\n", "5: operator 100: is there twice"),
        (
            "\n9\n112:0",
            "\n99\n112:0",
            "37: operator 113: has type 99, which is not supported",
        ),
        (
            "112:0\n",
            "119:0\n",
            "37: operator 113: reads operator 119, which is not defined before",
        ),
        (
            "112:0\n",
            "112:1\n",
            "37: operator 113: reads result 1 of operator 112, which has one",
        ),
        (
            "112:0\n",
            "112:0,111:0\n",
            "37: operator 113: has 2 operands, expected 1",
        ),
        (
            "1,12,9,9\n",
            "1,12,9,8\n",
            "37: operator 113: reads a tensor of [1, 12, 9, 9], declared as [1, 12, 9, 8]",
        ),
        (
            "1,1,0,2,1,1",
            "1,1,0,2,1",
            "25: operator 110: has 13 parameters, expected 14",
        ),
        (
            "1,1,0,2,1,1",
            "1,1,0,4,1,1",
            "25: operator 110: has activation 4, expected 0 to 3",
        ),
        (
            "1,1,0,2,1,1",
            "1,1,3,2,1,1",
            "25: operator 110: has padding mode 3, expected 0 or 1",
        ),
        (
            "1,1,0,2,1,1",
            "1,1,0,2,2,2",
            "25: operator 110: has padding 2, its mode makes 2 in all",
        ),
        (
            "1,1,0,2,1,1",
            "0,1,0,2,1,1",
            "25: operator 110: has windows of 3 at distance 0 over 9",
        ),
        (
            "9,9,6,2,2",
            "9,9,7,2,2",
            "41: operator 114: has type 6 and says 7",
        ),
        (
            "2,1,0,1",
            "2,1,1,1",
            "53: operator 117: 'graph.transpose': has order [1, 1] for rank 2",
        ),
        (
            "2,1,0,1",
            "1,0,2,2",
            "53: operator 117: has parameters [1, 0, 2, 2] for an input of rank 2",
        ),
        (
            "\n3,2\n",
            "\n3,3\n",
            "57: operator 118: is declared with rank 3, it has 2",
        ),
        (
            "1,192\n",
            "1,191\n",
            "49: operator 116: makes tensor<1x191xf32> of tensor<1x12x4x4xf32>",
        ),
        (
            "120:0\n1,12,2,2\n",
            "120:0\n",
            "69: the file ends after 3 of the 4 lines of an operator",
        ),
    ];
    for (from, to, expected) in cases {
        let found = message(from, to);
        assert_eq!(found, expected, "{from:?} to {to:?}");
    }
}

#[test]
fn every_cut_is_a_program_or_refused() {
    let mut programs = 0;
    for (at, _) in SMALL.char_indices() {
        match import_tensat_text("t.model", &SMALL[..at]) {
            Ok(_) => programs += 1,
            Err(errors) => assert!(!errors.is_empty() && !errors[0].message.is_empty()),
        }
    }
    assert!(programs > 0);
}
