//! Runs the pipelines of one RUN line: processes joined by pipes, FileCheck on a thread.

use crate::config::Config;
use crate::filecheck;
use crate::shell::{Join, Part, Pipeline, Redirect, Target};
use std::fs::{File, OpenOptions};
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Output kept of one stream; a program that writes more is cut off.
const MAX_OUTPUT: u64 = 64 << 20;
/// The exit code of a Rust panic.
const PANIC: i32 = 101;

/// What a command came to.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    /// The command as run.
    pub(crate) command: String,
    pub(crate) ok: bool,
    /// Why it is not ok.
    pub(crate) reason: String,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// What a RUN line came to.
pub(crate) enum Verdict {
    Passed,
    /// All commands of the failing pipeline.
    Failed(Vec<Ran>),
    TimedOut(Vec<Ran>),
}

/// Where and how long commands run.
pub(crate) struct Session<'a> {
    pub(crate) config: &'a Config,
    /// Changed by `cd`.
    pub(crate) dir: PathBuf,
    pub(crate) deadline: Instant,
}

impl Session<'_> {
    /// Runs pipelines joined by `&&`, `||` and `;`.
    pub(crate) fn run(&mut self, pipelines: &[Pipeline]) -> Verdict {
        let mut last = Verdict::Passed;
        for pipeline in pipelines {
            let passed = matches!(last, Verdict::Passed);
            match pipeline.join {
                Join::And if !passed => continue,
                Join::Or if passed => continue,
                Join::Then if !passed => return last,
                _ => {}
            }
            last = self.pipeline(pipeline);
            if matches!(last, Verdict::TimedOut(_)) {
                return last;
            }
        }
        last
    }

    fn pipeline(&mut self, pipeline: &Pipeline) -> Verdict {
        if let [part] = pipeline.parts.as_slice()
            && let [name, dir] = part.words.as_slice()
            && name == "cd"
        {
            self.dir.push(dir);
            let ok = self.dir.is_dir();
            let ran = Ran::failed(
                format!("cd {dir}"),
                format!("no directory '{}'", self.dir.display()),
            );
            return if ok {
                Verdict::Passed
            } else {
                Verdict::Failed(vec![ran])
            };
        }
        let (commands, timed_out) = self.commands(&pipeline.parts);
        let failed = commands.iter().any(|c| !c.ok);
        match (timed_out, failed, pipeline.negated) {
            (true, _, _) => Verdict::TimedOut(commands),
            (_, true, false) => Verdict::Failed(commands),
            (_, false, true) => {
                let refuse = |c| Ran {
                    ok: false,
                    reason: "succeeded, but '!' expects a failure".into(),
                    ..c
                };
                Verdict::Failed(commands.into_iter().map(refuse).collect())
            }
            _ => Verdict::Passed,
        }
    }

    /// Runs the commands of a pipeline; also whether time ran out.
    fn commands(&self, parts: &[Part]) -> (Vec<Ran>, bool) {
        let (events, received) = channel();
        let mut running = Vec::new();
        let mut input = Source::Nothing;
        for (i, part) in parts.iter().enumerate() {
            let last = i + 1 == parts.len();
            let mut slot = Running::new(part);
            let next = self.start(part, i, last, input, &mut slot, &events);
            input = next.unwrap_or_else(|error| {
                slot.failure = Some(error);
                Source::Nothing
            });
            running.push(slot);
        }
        drop(events);
        let timed_out = collect(&mut running, &received, self.deadline);
        (
            running
                .into_iter()
                .map(|r| r.finish(timed_out, self.config.timeout))
                .collect(),
            timed_out,
        )
    }

    /// Starts one command; returns what the next one reads.
    fn start(
        &self,
        part: &Part,
        index: usize,
        last: bool,
        mut input: Source,
        slot: &mut Running,
        events: &Sender<Event>,
    ) -> Result<Source, String> {
        let (err_reader, err_writer) = pipe()?;
        let (out_reader, out_writer) = pipe()?;
        let mut out = Sink::Pipe(out_writer);
        let mut err = Sink::Pipe(err_writer);
        for redirect in &part.redirects {
            match redirect {
                Redirect::In(path) => {
                    let file = File::open(self.dir.join(path));
                    input = Source::File(file.map_err(|e| format!("cannot read '{path}': {e}"))?);
                }
                Redirect::Out(Target::Other) => out = err.copy()?,
                Redirect::Err(Target::Other) => err = out.copy()?,
                Redirect::Out(file) => out = self.open(file)?,
                Redirect::Err(file) => err = self.open(file)?,
                Redirect::Both(file) => {
                    out = self.open(file)?;
                    err = out.copy()?;
                }
            }
        }
        let next = match last {
            true => {
                slot.waiting += 1;
                capture(out_reader, Stream::Out, index, events.clone());
                Source::Nothing
            }
            false => Source::Pipe(out_reader),
        };
        slot.waiting += 1;
        capture(err_reader, Stream::Err, index, events.clone());

        let (words, _) = split_not(&part.words);
        let Some((program, args)) = words.split_first() else {
            return Err("'not' needs a command".into());
        };
        if filecheck::is_name(program) {
            slot.waiting += 1;
            filecheck::start(
                args.to_vec(),
                self.dir.clone(),
                input,
                out,
                err,
                index,
                events.clone(),
            );
            return Ok(next);
        }
        let Some(path) = self.config.find_program(program) else {
            slot.failure = Some(format!(
                "program '{program}' not found beside this runner or on PATH"
            ));
            return Ok(next);
        };
        let mut command = Command::new(path);
        command
            .args(args)
            .current_dir(&self.dir)
            .stdin(input)
            .stdout(out)
            .stderr(err);
        command
            .env("PATH", self.path())
            .envs(part.env.iter().map(|(k, v)| (k, v)));
        match command.spawn() {
            Ok(child) => slot.child = Some(child),
            Err(e) => slot.failure = Some(format!("cannot start '{program}': {e}")),
        }
        Ok(next)
    }

    fn path(&self) -> std::ffi::OsString {
        let old = std::env::var_os("PATH").unwrap_or_default();
        let dirs = self
            .config
            .tool_dirs
            .iter()
            .cloned()
            .chain(std::env::split_paths(&old));
        std::env::join_paths(dirs).unwrap_or(old)
    }

    fn open(&self, target: &Target) -> Result<Sink, String> {
        let Target::File { path, append } = target else {
            return Err("nothing to redirect to".into());
        };
        let mut options = OpenOptions::new();
        options
            .create(true)
            .write(true)
            .append(*append)
            .truncate(!append);
        let file = options.open(self.dir.join(path));
        file.map(Sink::File)
            .map_err(|e| format!("cannot write '{path}': {e}"))
    }
}

fn pipe() -> Result<(PipeReader, PipeWriter), String> {
    std::io::pipe().map_err(|e| format!("cannot make a pipe: {e}"))
}

/// Strips `not` and `not --crash`; each is (expects a crash), the outermost first.
fn split_not(words: &[String]) -> (&[String], Vec<bool>) {
    let mut rest = words;
    let mut nots = Vec::new();
    while let Some((first, after)) = rest.split_first() {
        if first != "not" {
            break;
        }
        let crash = after.first().is_some_and(|w| w == "--crash");
        nots.push(crash);
        rest = if crash { &after[1..] } else { after };
    }
    (rest, nots)
}

/// What a command reads.
pub(crate) enum Source {
    Nothing,
    File(File),
    Pipe(PipeReader),
}

impl From<Source> for Stdio {
    fn from(source: Source) -> Stdio {
        match source {
            Source::Nothing => Stdio::null(),
            Source::File(file) => file.into(),
            Source::Pipe(pipe) => pipe.into(),
        }
    }
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Source::Nothing => Ok(0),
            Source::File(file) => file.read(buffer),
            Source::Pipe(pipe) => pipe.read(buffer),
        }
    }
}

/// Where a command writes.
pub(crate) enum Sink {
    File(File),
    Pipe(PipeWriter),
}

impl Sink {
    fn copy(&self) -> Result<Sink, String> {
        match self {
            Sink::File(file) => file.try_clone().map(Sink::File),
            Sink::Pipe(pipe) => pipe.try_clone().map(Sink::Pipe),
        }
        .map_err(|e| format!("cannot redirect: {e}"))
    }
}

impl From<Sink> for Stdio {
    fn from(sink: Sink) -> Stdio {
        match sink {
            Sink::File(file) => file.into(),
            Sink::Pipe(pipe) => pipe.into(),
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Sink::File(file) => file.write(bytes),
            Sink::Pipe(pipe) => pipe.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Stream {
    Out,
    Err,
}

/// Something that a command of the pipeline (by index) came to.
pub(crate) enum Event {
    Output(usize, Stream, Vec<u8>),
    /// FileCheck ended with this code.
    Checked(usize, u8),
}

/// Reads a stream to its end on a thread.
fn capture(reader: PipeReader, stream: Stream, index: usize, events: Sender<Event>) {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is still shown.
        let _ = reader.take(MAX_OUTPUT).read_to_end(&mut bytes);
        let _ = events.send(Event::Output(index, stream, bytes));
    });
}

/// A started command.
struct Running {
    words: Vec<String>,
    child: Option<Child>,
    /// Events still to come.
    waiting: usize,
    /// It could not be run.
    failure: Option<String>,
    status: Option<Status>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

#[derive(Clone, Copy)]
struct Status {
    code: i32,
    crashed: bool,
}

impl From<ExitStatus> for Status {
    #[cfg(unix)]
    fn from(status: ExitStatus) -> Status {
        use std::os::unix::process::ExitStatusExt;
        match status.signal() {
            Some(signal) => Status {
                code: 128 + signal,
                crashed: true,
            },
            None => {
                let code = status.code().unwrap_or(-1);
                Status {
                    code,
                    crashed: code == PANIC,
                }
            }
        }
    }

    #[cfg(not(unix))]
    fn from(status: ExitStatus) -> Status {
        let code = status.code().unwrap_or(-1);
        Status {
            code,
            crashed: code == PANIC || code < 0,
        }
    }
}

/// Waits for all commands; kills them when time runs out.
fn collect(running: &mut [Running], received: &Receiver<Event>, deadline: Instant) -> bool {
    let mut timed_out = false;
    while running.iter().any(|r| r.waiting > 0) {
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok(event) = received.recv_timeout(left) else {
            timed_out = true;
            break;
        };
        let index = match &event {
            Event::Output(i, ..) | Event::Checked(i, _) => *i,
        };
        let Some(slot) = running.get_mut(index) else {
            continue;
        };
        slot.waiting = slot.waiting.saturating_sub(1);
        match event {
            Event::Output(_, Stream::Out, bytes) => slot.stdout = bytes,
            Event::Output(_, Stream::Err, bytes) => slot.stderr = bytes,
            Event::Checked(_, code) => {
                slot.status = Some(Status {
                    code: i32::from(code),
                    crashed: i32::from(code) == PANIC,
                });
            }
        }
    }
    for slot in running {
        timed_out |= !slot.wait(deadline, timed_out);
    }
    timed_out
}

impl Running {
    fn new(part: &Part) -> Self {
        Running {
            words: part.words.clone(),
            child: None,
            waiting: 0,
            failure: None,
            status: None,
            stdout: Vec::new(),
            stderr: Vec::new(),
        }
    }

    /// Waits for the process until the deadline; false if it had to be killed.
    fn wait(&mut self, deadline: Instant, kill: bool) -> bool {
        let Some(child) = &mut self.child else {
            return true;
        };
        let mut pause = Duration::from_micros(100);
        loop {
            if let Ok(Some(status)) = child.try_wait() {
                self.status = Some(status.into());
                return true;
            }
            if kill || Instant::now() >= deadline {
                // It may have ended by itself meanwhile; that is as good.
                let _ = child.kill();
                let _ = child.wait();
                return false;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(10));
        }
    }

    fn finish(self, timed_out: bool, seconds: u64) -> Ran {
        let (_, nots) = split_not(&self.words);
        let reason = match (self.failure, self.status) {
            (Some(failure), _) => failure,
            (None, None) if timed_out => format!("killed after {seconds} s"),
            (None, None) => "ended without a status".into(),
            (None, Some(status)) => judge(status, &nots),
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ran {
            command: self
                .words
                .iter()
                .map(|w| quote(w))
                .collect::<Vec<_>>()
                .join(" "),
            ok: reason.is_empty(),
            reason,
            stdout: text(&self.stdout),
            stderr: text(&self.stderr),
        }
    }
}

/// Why a status is a failure under the `not`s before the command; empty when it is none.
fn judge(status: Status, nots: &[bool]) -> String {
    let Status {
        mut code,
        mut crashed,
    } = status;
    let mut reason = match (code, crashed) {
        (0, _) => String::new(),
        (PANIC, true) => "panicked (exit code 101)".into(),
        (_, true) => format!("killed by signal {}", code - 128),
        _ => format!("exit code {code}"),
    };
    for &expects_crash in nots.iter().rev() {
        let ok = if expects_crash {
            crashed
        } else {
            code != 0 && !crashed
        };
        reason = match (ok, expects_crash) {
            (true, _) => String::new(),
            (false, true) => format!("exit code {code}, but 'not --crash' expects a crash"),
            (false, false) if crashed => {
                format!("{reason}, which 'not' does not accept as a failure")
            }
            (false, false) => "succeeded, but 'not' expects a failure".into(),
        };
        code = i32::from(!ok);
        crashed = false;
    }
    reason
}

impl Ran {
    fn failed(command: String, reason: String) -> Ran {
        Ran {
            command,
            ok: false,
            reason,
            stdout: String::new(),
            stderr: String::new(),
        }
    }
}

/// A word as a shell would need it written.
pub(crate) fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "%+,-./:=@_^".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_string();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Runs one program with a file, for the round trip.
pub(crate) fn run_program(
    config: &Config,
    words: Vec<String>,
    dir: &Path,
    deadline: Instant,
) -> Verdict {
    let part = Part {
        words,
        ..Part::default()
    };
    let pipeline = Pipeline {
        join: Join::And,
        negated: false,
        parts: vec![part],
    };
    Session {
        config,
        dir: dir.to_path_buf(),
        deadline,
    }
    .run(&[pipeline])
}
