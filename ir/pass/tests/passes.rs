//! Pipelines as text, and what the pass manager does with passes that work, fail and panic.
#![allow(missing_docs)]

use std::fmt::Write;
use std::sync::Mutex;

use tir::pass::{PIPELINE, Pipeline, PrintIr, Report, Settings};
use tir::*;

/// A module.
#[derive(Op)]
#[op("t.module", IsolatedFromAbove, SymbolTable, NoTerminator)]
pub struct Module {
    pub body: RegionId,
}
/// A function.
#[derive(Op)]
#[op("t.func", IsolatedFromAbove, Symbol, NoTerminator)]
pub struct Func {
    pub sym_name: Name,
    pub body: RegionId,
}
/// Something to count.
#[derive(Op)]
#[op("t.tick")]
pub struct Tick {}

dialect! {
    /// For tests.
    t { ops: [Module, Func, Tick] }
}

pass! {
    /// Adds ticks.
    ///
    /// And says so.
    pub struct AddTicks = "add-ticks" on "t.func" {
        /// How many.
        pub count: usize = 1,
        /// A file.
        pub from_file: Option<String> = None,
        /// Sizes.
        pub tiles: Vec<i64> = Vec::new(),
        /// Whether to tell.
        pub tell: bool = false,
    }
}
impl Pass for AddTicks {
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let block = ir
            .body_block(ir.root(), 0)
            .ok_or_else(|| Diagnostic::error("no body"))?;
        for _ in 0..self.count {
            ir.add(block, Tick {});
        }
        cx.count("ticks", self.count);
        if self.tell {
            let name = ir.root_ref().symbol().map_or("", Name::as_str);
            cx.remark(Diagnostic::remark(format!(
                "{name} has {} ticks",
                ticks(ir)
            )));
        }
        Ok(())
    }
}

pass! {
    /// Puts a function beside each whose name does not end in x.
    pub struct Outline = "outline" on "t.func" {}
}
impl Pass for Outline {
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let name = ir.root_ref().symbol().map_or("", Name::as_str);
        if !name.ends_with('x') {
            cx.siblings.push(func(&format!("{name}x")));
        }
        Ok(())
    }
}

pass! {
    /// Fails, panics or breaks the IR.
    pub struct Fail = "fail" {
        /// Which of the three.
        pub how: String = "error".to_string(),
    }
}
impl Pass for Fail {
    fn initialize(&self, _: &mut PassCx<'_>) -> PassResult {
        match self.how.as_str() {
            "early" => Err(Diagnostic::error("cannot begin").into()),
            "early panic" => panic!("out of breath"),
            _ => Ok(()),
        }
    }
    fn run(&self, ir: &mut Ir, _: &mut PassCx<'_>) -> PassResult {
        match self.how.as_str() {
            "panic" => panic!("out of ideas"),
            "break" => {
                ir.remove_attr(ir.root(), "sym_name");
                Ok(())
            }
            _ => Err(Diagnostic::error("cannot go on").into()),
        }
    }
}

/// The number of functions.
struct Functions(usize);
impl Analysis for Functions {
    fn new(ir: &Ir) -> Self {
        Self(ir.slots().len())
    }
}
pass! {
    /// Looks around.
    pub struct Look = "look" on "t.func" {}
}
impl Pass for Look {
    fn prepare(&self, parent: &Ir, cx: &mut PassCx<'_>) -> PassResult {
        cx.analysis::<Functions>(parent);
        Ok(())
    }
    fn run(&self, _: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let n = cx.outer::<Functions>().map_or(0, |f| f.0);
        let known = cx
            .symbol(Name::new("f0"))
            .is_some_and(|info| info.op == "t.func");
        cx.remark(Diagnostic::remark(format!(
            "{n} functions, f0 known: {known}"
        )));
        cx.unchanged();
        Ok(())
    }
}
pass! {
    /// On modules.
    pub struct OnModule = "on-module" on "t.module" {}
}
impl Pass for OnModule {
    fn run(&self, _: &mut Ir, _: &mut PassCx<'_>) -> PassResult {
        Ok(())
    }
}

/// How often something was asked for in a run.
#[derive(Default)]
struct Asked(std::sync::atomic::AtomicUsize);
pass! {
    /// Says how often it was asked in this run.
    pub struct Ask = "ask" on "t.func" {}
}
impl Pass for Ask {
    fn run(&self, _: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let asked = cx.shared(Asked::default);
        let before = asked.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        cx.remark(Diagnostic::remark(format!("asked {}", before + 1)));
        Ok(())
    }
}
pass! {
    /// Tries a pipeline on a module of its own.
    pub struct Try = "try" on "t.func" {
        /// The pass that fails there; none: none.
        pub fail: Option<String> = None,
    }
}
impl Pass for Try {
    fn run(&self, _: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let mut pipeline = Pipeline::new();
        pipeline.nest("t.func", |p| {
            p.add(Ask {}).add(AddTicks::default());
            if let Some(how) = &self.fail {
                p.add(Fail { how: how.clone() });
            }
        });
        let mut other = module(2);
        let (Ok(said) | Err(said)) = cx.attempt_root(&pipeline, &mut other);
        let said: Vec<String> = said.into_iter().map(|said| said.message).collect();
        let said = said.join(", ");
        cx.remark(Diagnostic::remark(format!(
            "{said}, {} ticks",
            ticks(&other)
        )));
        Ok(())
    }
}

pass! {
    /// Ticks twice.
    pub struct Twice = "twice" {
        /// How many each time.
        pub count: usize = 3,
    }
}
impl Alias for Twice {
    fn expand(&self, pipeline: &mut Pipeline) {
        let ticks = AddTicks {
            count: self.count,
            ..AddTicks::default()
        };
        pipeline.nest("t.func", |p| {
            p.add(ticks.clone()).add(ticks);
        });
    }
}

fn registry() -> PassRegistry {
    let mut registry = PassRegistry::new();
    registry.add([
        PassInfo::of::<AddTicks>(),
        PassInfo::of::<Outline>(),
        PassInfo::of::<Fail>(),
        PassInfo::of::<Look>(),
        PassInfo::of::<OnModule>(),
        PassInfo::of::<Ask>(),
        PassInfo::of::<Try>(),
        PassInfo::alias::<Twice>(),
    ]);
    registry
}

fn func(name: &str) -> Ir {
    let mut ir = Ir::new("t.func");
    let root = ir.root();
    ir.set_attr(root, "sym_name", Attr::str(name));
    let region = ir.new_region();
    ir.attach_region(root, region);
    ir.new_block(region);
    ir
}

fn module(functions: usize) -> Ir {
    DIALECT.load();
    let mut ir = Ir::new("t.module");
    let root = ir.root();
    let region = ir.new_region();
    ir.attach_region(root, region);
    let block = ir.new_block(region);
    for i in 0..functions {
        ir.adopt(block, func(&format!("f{i}")));
    }
    ir
}

fn ticks(ir: &Ir) -> usize {
    let mut n = 0;
    ir.walk(&mut |op| n += usize::from(op.name() == "t.tick"));
    n
}

fn print(ir: &Ir) -> String {
    let mut out = String::new();
    ir.walk(&mut |op| {
        let name = op
            .symbol()
            .map_or(String::new(), |name| format!(" @{name}"));
        let _ = write!(out, "{}{name};", op.name());
    });
    out
}

fn run(text: &str, ir: &mut Ir, settings: Settings) -> Report {
    let pipeline = registry().parse(text).expect("a pipeline");
    PassManager::with(pipeline, settings).run(ir)
}

#[test]
fn pipelines_are_tried_on_other_roots() {
    let mut ir = module(1);
    let settings = Settings {
        threads: 1,
        ..Settings::default()
    };
    let report = run("t.func(ask,try,try{fail=panic},ask)", &mut ir, settings);
    let said: Vec<&str> = report.remarks.iter().map(|r| r.message.as_str()).collect();
    let panicked = "pass 'fail' panicked: out of ideas";
    assert_eq!(
        said,
        [
            "asked 1",
            "asked 2, asked 3, 2 ticks",
            &format!("{panicked}, {panicked}, 2 ticks"),
            "asked 6",
        ]
    );
    assert!(report.is_ok());
    assert_eq!(ticks(&ir), 0, "the op itself stays as it is");
}

#[test]
fn text_round_trips() {
    for (text, printed) in [
        (
            "t.module( t.func(add-ticks, look) , twice )",
            "t.module(t.func(add-ticks,look),twice)",
        ),
        (
            "add-ticks{count=2 from-file=a/b.c=d tiles=4,4}",
            "add-ticks{count=2 from-file=a/b.c=d tiles=4,4}",
        ),
        (
            "add-ticks{ from_file=\"a b\\\"{\" tell tiles=[1, 2] }",
            "add-ticks{from-file=\"a b\\\"{\" tiles=1,2 tell=true}",
        ),
        (
            "add-ticks{from-file={x={y z} (w)}}",
            "add-ticks{from-file=\"{x={y z} (w)}\"}",
        ),
        (
            "twice{count=1},any(fail{how='x y'})",
            "twice{count=1},any(fail{how=\"x y\"})",
        ),
        ("add-ticks{from-file=none count=1}", "add-ticks"),
        ("", ""),
    ] {
        let pipeline = registry().parse(text).expect(text);
        assert_eq!(pipeline.to_string(), printed);
        let again = registry().parse(printed).expect(printed);
        assert_eq!(again.to_string(), printed);
    }
}

#[test]
fn errors_point_into_the_text() {
    let mut out = String::new();
    for text in [
        "t.module(add-tick,t.func(ouline))",
        "t.module(add-ticks",
        "add-ticks{count=x tels=1}",
        "add-ticks{cuont=1,2}",
        "add-ticks{count=}",
        "add-ticks{from-file=\"abc}",
        "add-ticks{from-file=a(b]}",
        "add-ticks{from-file=a(b}",
        "add-ticks{count",
        "add-ticks)",
        "outline{now}",
        "outline outline",
        ",",
        "t.module(t.func(on-module))",
        "t.func",
        "outline(look),t.func{x=1}(look)",
    ] {
        let mut sources = Sources::default();
        sources.add(Name::new(PIPELINE), text);
        let errors = registry().parse(text).expect_err(text);
        for error in errors {
            out += &sources.render(&error, false);
        }
        out += "\n";
    }
    insta::assert_snapshot!(out);
}

#[test]
fn threads_do_not_matter() {
    let mut seen = Vec::new();
    for threads in [1, 2, 7] {
        let mut ir = module(20);
        let settings = Settings {
            threads,
            printer: Some(std::sync::Arc::new(|ir, _| print(ir))),
            print: PrintIr {
                after_change: true,
                ..PrintIr::default()
            },
            ..Settings::default()
        };
        let text = "t.module(t.func(add-ticks{count=2 tell},outline,add-ticks{tell}),look)";
        let report = run(text, &mut ir, settings);
        assert_eq!(report.errors, []);
        assert_eq!(ticks(&ir), 20 * 2 + 40);
        let remarks: Vec<String> = report.remarks.iter().map(|r| r.message.clone()).collect();
        assert_eq!(remarks[0], "f0 has 2 ticks");
        assert_eq!(
            remarks.last().map(String::as_str),
            Some("40 functions, f0 known: true")
        );
        seen.push((print(&ir), remarks, report.prints, report.statistics));
    }
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]));
    assert!(
        seen[0]
            .0
            .contains("t.func @f0;t.tick;t.tick;t.tick;t.func @f0x;t.tick;t.func @f1;")
    );
    assert!(
        seen[0].2[0]
            .to_string()
            .starts_with("// IR after 'add-ticks' on t.func @f0\nt.func @f0;t.tick;")
    );
}

#[test]
fn bare_lists_and_implicit_nests() {
    for text in [
        "twice{count=1}",
        "add-ticks,add-ticks",
        "t.func(add-ticks,add-ticks)",
    ] {
        let mut ir = module(2);
        assert!(run(text, &mut ir, Settings::default()).is_ok());
        assert_eq!(ticks(&ir), 4, "{text}");
    }
}

fn notes(error: &Diagnostic) -> String {
    let notes = error
        .notes
        .iter()
        .map(|note| format!(" | {}", note.message));
    error.message.clone() + &notes.collect::<String>()
}

#[test]
fn failures_name_the_pass_and_reproduce() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    for (how, expected) in [
        ("error", "cannot go on | in pass 'fail'; reproduce with "),
        (
            "panic",
            "pass 'fail' panicked: out of ideas | this is a bug of the pass; reproduce with ",
        ),
        (
            "break",
            "pass 'fail' broke the IR: 't.func' needs attribute 'sym_name' (a string) | in pass \
             'fail'; reproduce with ",
        ),
    ] {
        for threads in [1, 2] {
            let text = format!("t.module(twice,t.func(add-ticks,fail{{how={how}}},look),look)");
            let settings = Settings {
                threads,
                ..Settings::default()
            };
            let report = run(&text, &mut module(3), settings);
            let default = how == "error";
            let options = if default {
                String::new()
            } else {
                format!("{{how={how}}}")
            };
            let pipeline = format!("t.module(twice,t.func(add-ticks,fail{options}))");
            assert_eq!(report.errors.len(), 3);
            assert_eq!(
                notes(&report.errors[0]),
                format!("{expected}--pass-pipeline='{pipeline}'")
            );
            assert_eq!(report.remarks, []);
        }
    }
    std::panic::set_hook(hook);
}

#[test]
fn steps_see_the_root() {
    let pipeline = registry()
        .parse("t.module(twice,t.func(outline,add-ticks))")
        .expect("right");
    assert_eq!(
        pipeline.flatten().to_string(),
        "t.module(t.func(add-ticks{count=3})),t.module(t.func(add-ticks{count=3})),\
         t.module(t.func(outline)),t.module(t.func(add-ticks))"
    );
    let seen = Mutex::new(Vec::new());
    let mut ir = module(2);
    let mut manager = PassManager::new(pipeline).after_step(|pass, ir| {
        let mut seen = seen.lock().expect("no panic");
        seen.push(format!("{pass} {}", ticks(ir)));
        if seen.len() == 4 {
            return Err(Diagnostic::error("another result").into());
        }
        Ok(())
    });
    let report = manager.run(&mut ir);
    assert_eq!(
        notes(&report.errors[0]),
        "another result | after pass 'add-ticks'; reproduce with \
         --pass-pipeline='t.module(t.func(add-ticks{count=3})),t.module(t.func(add-ticks{count=3})),\
         t.module(t.func(outline)),t.module(t.func(add-ticks))'"
    );
    drop(manager);
    let seen = seen.into_inner().expect("no panic");
    assert_eq!(
        seen,
        ["add-ticks 6", "add-ticks 12", "outline 12", "add-ticks 16"]
    );
}

#[test]
fn all_passes_are_initialized_before_the_first_runs() {
    for (how, wanted) in [
        ("early", "cannot begin | in the options of pass 'fail'"),
        (
            "\"early panic\"",
            "pass 'fail' panicked: out of breath | this is a bug of the pass; it happens on any \
             program with --pass-pipeline='t.module(t.func(add-ticks),t.module(fail{how=\"early panic\"}))'",
        ),
    ] {
        let mut ir = module(3);
        let pipeline = format!("t.module(t.func(add-ticks),t.module(fail{{how={how}}}))");
        let report = run(&pipeline, &mut ir, Settings::default());
        let [error] = &report.errors[..] else {
            panic!("{:?}", report.errors);
        };
        assert_eq!(notes(error), wanted);
        assert!(report.statistics.is_empty(), "a pass has run");
    }
}

#[test]
fn timing_is_a_tree() {
    let settings = Settings {
        timing: true,
        ..Settings::default()
    };
    let report = run(
        "t.module(t.func(add-ticks,outline),twice)",
        &mut module(3),
        settings,
    );
    let names: Vec<String> = report
        .timing_text()
        .lines()
        .skip(1)
        .map(|line| line[21..].to_string())
        .collect();
    assert_eq!(
        names,
        [
            "  all",
            "    initialize",
            "    t.module",
            "      t.func",
            "        add-ticks",
            "        outline",
            "      t.func",
            "        add-ticks",
            "        add-ticks"
        ]
        .map(|line| line.to_string())
    );
}

#[test]
fn infos_have_sentences() {
    let registry = registry();
    let info = registry.get("add-ticks").expect("it is there");
    assert_eq!(info.sentence(), "Adds ticks.");
    let options: Vec<String> = info
        .options
        .iter()
        .map(|o| {
            format!(
                "{}={} ({}: {})",
                o.name(),
                (o.default)(),
                o.what,
                o.doc.trim()
            )
        })
        .collect();
    assert_eq!(options[0], "count=1 (a non-negative integer: How many.)");
    assert_eq!(options[1], "from-file=none (a string: A file.)");
    assert!(registry.get("twice").is_some_and(|info| info.is_alias));
    let flag = registry.flag("add-ticks", Some("count=4"));
    assert_eq!(
        flag.map(|p| p.to_string()),
        Ok("add-ticks{count=4}".to_string())
    );
}

#[test]
fn damaged_text_is_an_error_or_a_pipeline() {
    let text = "t.module(add-ticks{count=2 from-file=\"a b\\\\c\" tiles=[1,2]},t.func(look,fail{how={x=(y)}}),any(twice))";
    let registry = registry();
    for cut in 0..text.len() {
        let _ = registry.parse(&text[..cut]);
        let _ = registry.parse(&text[cut..]);
    }
    let mut random = tir::data::Random::new(1);
    for _ in 0..10_000 {
        let mut bytes = text.as_bytes().to_vec();
        for _ in 0..3 {
            let at = random.below(bytes.len());
            bytes[at] ^= 1 << random.below(8);
        }
        if let Ok(pipeline) = registry.parse(&String::from_utf8_lossy(&bytes)) {
            let printed = pipeline.to_string();
            let again = registry.parse(&printed).map(|p| p.to_string());
            assert_eq!(again, Ok(printed));
        }
    }
    let deep = "any(".repeat(100_000);
    assert!(registry.parse(&deep).is_err());
}
