//! One input from text to text: read, verify, run passes, print; for each piece of a split file.

use std::io::{IsTerminal, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tir::{Diagnostic, Failure, Ir, Name, Severity, Sources};
use tir_pass::{FailedPass, PIPELINE, PassManager, Pipeline, Settings};
use tir_text::{ParseOptions, PrintOptions};

use crate::cli::Options;
use crate::expect::Expectations;
use crate::io::{Input, is_special, read_with, render, write};
use crate::print_ir::Files;
use crate::reproducer;
use crate::round_trip::round_trip;
use crate::{Outcome, Tool};

/// What stands between two programs in one file.
const SEPARATOR: &str = "// -----\n";

/// Runs the tool on its input.
pub(crate) fn process(
    tool: &Tool,
    options: &Options,
    stdin: &mut dyn Read,
    color: bool,
) -> Outcome {
    if !options.run_reproducer {
        return run(tool, options, Job::new(tool, options, color), None, stdin);
    }
    let mut job = Job::new(tool, options, color);
    let input = match read_with(&options.input, options.max_bytes, stdin) {
        Ok(input) => input,
        Err(error) => return job.fail(&[error]),
    };
    job.sources.add(input.name, input.text.as_str());
    match reproducer::options(tool, options, &input) {
        Ok(stored) => run(
            tool,
            &stored,
            Job::new(tool, &stored, color),
            Some(input),
            stdin,
        ),
        Err(error) => job.fail(&[error]),
    }
}

/// Runs a job; the input is read unless it is given.
fn run(
    tool: &Tool,
    options: &Options,
    mut job: Job<'_>,
    input: Option<Input>,
    stdin: &mut dyn Read,
) -> Outcome {
    job.sources
        .add(Name::new(PIPELINE), options.pipeline.as_str());
    for file in &options.rule_files {
        // One that cannot be read is reported by the first pass that needs it.
        if let Ok(text) = std::fs::read_to_string(file) {
            job.sources.add(Name::new(file), text);
        }
    }
    // A pipeline that cannot be read is an error whatever the input is.
    let asked = tool.passes.parse(&options.pipeline).and_then(|pipeline| {
        let mut pipeline = pipeline;
        crate::egraph::set(&mut pipeline, &tool.passes, &options.egraph)?;
        Ok(pipeline)
    });
    let pipeline = match asked {
        Ok(pipeline) => pipeline,
        Err(errors) => return job.fail(&errors),
    };
    if let Err(errors) = check_disabled(tool, options) {
        return job.fail(&errors);
    }
    let lists = [
        ("before", &options.print.before),
        ("after", &options.print.after),
    ];
    for (when, names) in lists {
        let unknown = names.iter().find(|name| tool.passes.get(name).is_none());
        if let Some(name) = unknown {
            let near = tir::closest(name, tool.passes.iter().map(|info| info.name));
            let near = near.map_or(String::new(), |near| format!("; did you mean '{near}'?"));
            let stderr = format!("error: --print-ir-{when}: there is no pass '{name}'{near}\n");
            return Outcome {
                code: 2,
                stderr,
                ..Outcome::default()
            };
        }
    }
    if options.dump_pipeline {
        let expanded = pipeline.expand();
        let count = expanded.count();
        job.out.stderr += &format!("Pass manager with {count} passes:\n{expanded:#}");
        if options.input == "-" && std::io::stdin().is_terminal() {
            return job.out;
        }
    }
    let read = match input {
        Some(input) => Ok(input),
        None => read_with(&options.input, options.max_bytes, stdin),
    };
    let input = match read {
        Ok(input) => input,
        Err(error) => return job.fail(&[error]),
    };
    job.sources.add(input.name, input.text.as_str());
    job.input(&input, &pipeline);
    job.out
}

/// Checks that `--disable-rule` names rules or patterns: of the loaded dialects, of the files that
/// `--rules` names, or of a pass.
fn check_disabled(tool: &Tool, options: &Options) -> Result<(), Vec<Diagnostic>> {
    if options.disabled_rules.is_empty() {
        return Ok(());
    }
    let mut known = tir::rule_file::rules_of(&options.rule_files)?.names();
    known.extend(tool.passes.iter().flat_map(|pass| (pass.patterns)()));
    tir::rewrite::check_names(&known, &options.disabled_rules)
        .map_err(|error| vec![error.context("--disable-rule: ")])
}

struct Job<'a> {
    tool: &'static str,
    options: &'a Options,
    sources: Sources,
    color: bool,
    out: Outcome,
    clock: Clock,
    files: Files,
}

/// Where the time goes that passes do not take.
#[derive(Default)]
struct Clock {
    read: Duration,
    verify: Duration,
    print: Duration,
}

fn timed<T>(total: &mut Duration, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    *total += start.elapsed();
    result
}

impl<'a> Job<'a> {
    fn new(tool: &Tool, options: &'a Options, color: bool) -> Self {
        Self {
            tool: tool.name,
            options,
            sources: Sources::default(),
            color,
            out: Outcome::default(),
            clock: Clock::default(),
            files: Files::default(),
        }
    }

    /// Reports errors.
    fn errors(&mut self, errors: &[Diagnostic]) {
        self.out.code = 1;
        self.report(errors);
    }
    fn report(&mut self, diagnostics: &[Diagnostic]) {
        if !diagnostics.is_empty() {
            let gap = if self.out.stderr.is_empty() { "" } else { "\n" };
            self.out.stderr += gap;
            self.out.stderr += &render(&self.sources, diagnostics, self.color);
        }
    }
    fn fail(mut self, errors: &[Diagnostic]) -> Outcome {
        self.errors(errors);
        self.out
    }

    fn input(&mut self, input: &Input, pipeline: &Pipeline) {
        let pieces = match self.options.split_input_file {
            true => tir_text::split_input(&input.text),
            false => vec![(0, input.text.as_str())],
        };
        let mut programs = Vec::new();
        for (before, text) in pieces {
            programs.extend(self.piece(input.name, text, before, pipeline));
        }
        if let Err(error) = self.files.write() {
            self.errors(&[error]);
        }
        if self.out.code == 0 {
            let start = Instant::now();
            self.write(programs);
            self.clock.print = start.elapsed();
        }
        if self.options.timing {
            let Clock {
                read,
                verify,
                print,
            } = self.clock;
            for (time, what) in [(read, "read"), (verify, "verify"), (print, "print, write")] {
                let ms = time.as_secs_f64() * 1e3;
                self.out.stderr += &format!("{ms:>10.3} {:>10}  {what}\n", "");
            }
        }
    }

    /// A piece of the input; gives the program if there is one to be printed.
    fn piece(&mut self, name: Name, text: &str, before: u32, pipeline: &Pipeline) -> Option<Ir> {
        let expected = match self.options.verify_diagnostics {
            true => match Expectations::read(text, name, before + 1) {
                Ok(expected) => Some(expected),
                Err(errors) => {
                    self.errors(&errors);
                    return None;
                }
            },
            false => None,
        };
        let mut reported = Vec::new();
        let ir = match self.compile(name, text, before, pipeline, &mut reported) {
            Ok(ir) => Some(ir),
            Err(errors) => {
                reported.extend(errors);
                None
            }
        };
        match expected {
            Some(expected) => {
                let wrong = expected.check(&reported);
                if !wrong.is_empty() {
                    self.errors(&wrong);
                }
            }
            None if ir.is_none() => self.errors(&reported),
            None => self.report(&reported),
        }
        ir
    }

    /// The program after all passes. Remarks and warnings are added to `reported`.
    fn compile(
        &mut self,
        name: Name,
        text: &str,
        before: u32,
        pipeline: &Pipeline,
        reported: &mut Vec<Diagnostic>,
    ) -> Result<Ir, Vec<Diagnostic>> {
        let options = self.options;
        let reading = ParseOptions {
            allow_unregistered: options.allow_unregistered,
            max_depth: options.max_depth,
            max_bytes: usize::try_from(options.max_bytes).unwrap_or(usize::MAX),
            threads: options.threads,
            lines_before: before,
        };
        let mut ir = timed(&mut self.clock.read, || {
            tir_text::parse(text, name, &reading)
        })?;
        timed(&mut self.clock.verify, || tir::verify(&ir))?;
        let folder = match options.input.as_str() {
            "-" => Path::new("."),
            path => Path::new(path).parent().unwrap_or(Path::new(".")),
        };
        tir_io::load_blobs(&ir, folder)?;
        if options.verify_roundtrip {
            round_trip(&ir, &reading, &mut self.sources)?;
        }
        if pipeline.elements.is_empty() {
            return Ok(ir);
        }
        let mut manager = PassManager::with(pipeline.clone(), self.settings());
        let mut report = manager.run(&mut ir);
        match &options.print_folder {
            Some(folder) => self.files.add(folder, &report.prints),
            None => report
                .prints
                .iter()
                .for_each(|print| self.out.stderr += &print.to_string()),
        }
        if options.timing {
            self.out.stderr += &report.timing_text();
        }
        if options.statistics {
            self.out.stderr += &report.statistics_text();
        }
        let fails = |d: &Diagnostic| {
            let category = d.category;
            category.is_some_and(|c| options.fail_on.iter().any(|name| name == c))
        };
        let (failures, remarks) = report.remarks.into_iter().partition(fails);
        report.remarks = remarks;
        let as_error = |d: Diagnostic| {
            let category = d.category.unwrap_or_default();
            let severity = Severity::Error;
            Diagnostic { severity, ..d }.note(format!("--fail-on={category} makes it an error"))
        };
        let failures: Vec<Diagnostic> = failures;
        report.errors.extend(failures.into_iter().map(as_error));
        let categorized = report.remarks.iter().filter(|d| d.category.is_some());
        self.out.remarks.extend(categorized.cloned());
        reported.extend(report.remarks);
        if !report.errors.is_empty() {
            if let (Some(path), Some(failed)) = (&options.reproducer, report.failed) {
                match self.reproducer(path, *failed) {
                    Ok(()) => {
                        let first = report.errors.remove(0);
                        let (tool, path) = (self.tool, path.display());
                        let run = format!("run '{tool} --run-reproducer {path}'");
                        report.errors.insert(0, first.note(run));
                    }
                    Err(e) => reported.push(Diagnostic::warning(e.message)),
                }
            }
            return Err(report.errors);
        }
        if options.verify_roundtrip {
            round_trip(&ir, &reading, &mut self.sources)?;
        }
        Ok(ir)
    }

    fn settings(&self) -> Settings {
        let options = self.options;
        let printing = self.printing();
        Settings {
            threads: options.threads,
            verify: options.verify_each,
            remarks: options.remarks || !options.fail_on.is_empty(),
            timing: options.timing,
            disabled_rules: options.disabled_rules.iter().cloned().collect(),
            rule_classes: options.rule_classes.clone(),
            rule_files: options.rule_files.clone(),
            print: options.print.clone(),
            printer: Some(Arc::new(move |ir, generic| {
                let generic = printing.generic || generic;
                tir_text::print(
                    ir,
                    &PrintOptions {
                        generic,
                        ..printing
                    },
                )
            })),
            keep_input: options.reproducer.is_some(),
        }
    }

    fn printing(&self) -> PrintOptions {
        PrintOptions {
            generic: self.options.generic,
            locations: self.options.locations,
            elide_constants: self.options.elide_constants,
            width: self.options.line_width,
        }
    }

    fn print(&self, ir: &Ir) -> String {
        tir_text::print(ir, &self.printing())
    }

    /// Writes a pass that failed and its input.
    fn reproducer(&self, path: &Path, failed: FailedPass) -> Result<(), Failure> {
        let header = reproducer::header(self.tool, self.options, &failed.pipeline);
        let printing = PrintOptions {
            elide_constants: None,
            ..self.printing()
        };
        let mut input = failed.input;
        tir_io::save(&mut input, tir_io::Out::File(path), None, |ir| {
            header + &tir_text::print(ir, &printing)
        })
    }

    /// A text to a file, or to standard output.
    fn put(&mut self, output: Option<&Path>, text: String) -> Result<(), Failure> {
        match output {
            Some(path) => write(path, text.as_bytes()).map_err(Box::new),
            None => {
                self.out.stdout = text.into_bytes();
                Ok(())
            }
        }
    }

    fn write(&mut self, mut programs: Vec<Ir>) {
        let options = self.options;
        let weights = options.weights_out.as_deref();
        let written = match (&mut programs[..], &options.output) {
            ([one], Some(path)) if !is_special(path) => {
                tir_io::save(one, tir_io::Out::File(path), weights, |ir| self.print(ir))
            }
            ([one], output) => {
                // The text goes out with all else, at the end: nothing is left to be printed now.
                let mut text = String::new();
                let done = tir_io::save(one, tir_io::Out::Stdout, weights, |ir| {
                    text = self.print(ir);
                    String::new()
                });
                done.and_then(|()| self.put(output.as_deref(), text))
            }
            (many, output) => {
                let texts: Vec<String> = many.iter().map(|ir| self.print(ir)).collect();
                self.put(output.as_deref(), texts.join(SEPARATOR))
            }
        };
        if let Err(error) = written {
            self.out.stdout.clear();
            self.errors(&[*error]);
        }
    }
}
