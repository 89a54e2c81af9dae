//! An op whose table is made at run time has syntax, verifier and printer like any other.

use tir_core::{FieldInfo, Name, OpInfo, Role, Traits, register, verify};
use tir_text::{ParseOptions, PrintOptions, parse, print};

fn field(name: &str, role: Role) -> FieldInfo {
    FieldInfo {
        name: Name::new(name),
        doc: String::new(),
        role,
        keywords: None,
        constraint: None,
        default: None,
    }
}

#[test]
fn an_op_from_data() {
    let mut info = OpInfo::new(Name::new("late.scale"));
    info.traits = Traits::Pure.with(Traits::SameType);
    info.fields = vec![
        field("input", Role::Operand),
        field("by", Role::Attribute("an integer")),
    ];
    info.results = vec![Name::new("result")];
    info.asm = Some("$input `by` $by attr-dict `:` type($result)".to_string());
    register(info);
    let parse = |text: &str| {
        parse(
            text,
            Name::new("late.tir"),
            &ParseOptions {
                allow_unregistered: true,
                ..ParseOptions::default()
            },
        )
    };
    let text = "%x = \"other.make\"() : () -> i32\n%y = late.scale %x by 3 : i32\n";
    let ir = parse(text).unwrap_or_else(|e| panic!("{e:?}"));
    verify(&ir).unwrap_or_else(|e| panic!("{e:?}"));
    let printed = print(&ir, &PrintOptions::default());
    assert!(printed.contains("late.scale %x by 3"), "{printed}");
    let missing =
        parse("%x = \"other.make\"() : () -> i32\n%y = \"late.scale\"(%x) : (i32) -> i32\n");
    let errors = match missing {
        Ok(ir) => verify(&ir).expect_err("an attribute is missing"),
        Err(errors) => errors,
    };
    assert!(errors[0].message.contains("'by'"), "{errors:?}");
}
