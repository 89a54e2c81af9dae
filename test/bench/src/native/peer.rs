//! Other engines that run models, in a process of Python that answers requests.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::Deserialize;
use serde_json::{Value, json};
use tir_accel::Processor;

use super::Scratch;

const SCRIPT: &str = include_str!("peer.py");
const HIDE: &str = include_str!("hide.c");

/// An engine by the name of its module in Python.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Engine {
    module: &'static str,
    /// Its name.
    pub(super) name: &'static str,
}

pub(super) const ONNX_RUNTIME: Engine = Engine {
    module: "onnxruntime",
    name: "ONNX Runtime",
};
pub(super) const OPENVINO: Engine = Engine {
    module: "openvino",
    name: "OpenVINO",
};

/// A model and the files of its inputs.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) file: PathBuf,
    pub(super) inputs: Vec<PathBuf>,
}

/// A process that runs models.
pub(super) struct Peers {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    versions: BTreeMap<String, Option<String>>,
    /// What was hidden from them.
    hidden: Option<&'static str>,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    ms: f64,
    #[serde(default)]
    nodes: Vec<(String, f64)>,
    error: Option<String>,
}

/// What peers must not use, so that they use what programs for a processor use: the word for `hide.c`.
fn beyond(processor: &Processor) -> Option<&'static str> {
    let (own, _) = tir_run::native::vectors();
    match processor.vector_bytes {
        64.. => None,
        32.. if own > 32 => Some("avx512"),
        ..32 if own > 16 => Some("avx"),
        _ => None,
    }
}

impl Peers {
    /// Starts the engines that `python3` has, restricted to what programs for a processor use.
    ///
    /// # Errors
    /// If there is no Python with a peer, or they cannot be restricted: why.
    pub(super) fn start(processor: &Processor, scratch: &Scratch) -> Result<Self, String> {
        let mut command = Command::new("python3");
        command.args(["-c", SCRIPT]);
        let hidden = beyond(processor);
        if let Some(what) = hidden {
            command.env("LD_PRELOAD", library(scratch)?);
            command.env("TIR_HIDE", what);
        }
        let started = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = started.map_err(|e| format!("cannot start python3: {e}"))?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("python3 has no standard input or output".to_string());
        };
        let mut answers = BufReader::new(answers);
        let mut line = String::new();
        let read = answers.read_line(&mut line).map_err(|e| e.to_string())?;
        if read == 0 {
            let done = child.wait_with_output().map_err(|e| e.to_string())?;
            let said = String::from_utf8_lossy(&done.stderr);
            let why = said.trim().lines().last().unwrap_or_default().to_string();
            return Err(format!("python3 ended with {}: {why}", done.status));
        }
        // What engines say beyond answers is of no use, and a full pipe stops them.
        if let Some(said) = child.stderr.take() {
            std::thread::spawn(move || std::io::copy(&mut { said }, &mut std::io::sink()));
        }
        let versions = serde_json::from_str(&line);
        let versions = versions.map_err(|e| format!("python3 says no versions: {e}"))?;
        Ok(Self {
            child,
            requests,
            answers,
            versions,
            hidden,
        })
    }

    /// The version of an engine, if it is there.
    pub(super) fn version(&self, engine: Engine) -> Option<&str> {
        self.versions.get(engine.module)?.as_deref()
    }

    /// What they are, a line for each.
    pub(super) fn says(&self) -> String {
        let restricted = match self.hidden {
            Some("avx512") => ", restricted to AVX2",
            Some(_) => ", restricted to SSE",
            None => "",
        };
        let line = |engine: &Engine| match self.version(*engine) {
            Some(version) => format!("{} {version}, one thread{restricted}\n", engine.name),
            None => format!(
                "{0}: python3 has no {1} ('pip install {1}')\n",
                engine.name, engine.module
            ),
        };
        [ONNX_RUNTIME, OPENVINO].iter().map(line).collect()
    }

    fn ask(&mut self, request: &Value) -> Result<Answer, String> {
        let mut line = request.to_string();
        line.push('\n');
        let sent = self.requests.write_all(line.as_bytes());
        sent.and_then(|()| self.requests.flush())
            .map_err(|e| format!("python3 does not read: {e}"))?;
        line.clear();
        let read = self.answers.read_line(&mut line);
        if read.map_err(|e| e.to_string())? == 0 {
            return Err("python3 ended".to_string());
        }
        let answer: Answer = serde_json::from_str(&line).map_err(|e| e.to_string())?;
        match answer.error {
            Some(error) => Err(error),
            None => Ok(answer),
        }
    }

    /// Milliseconds of the quickest of so many calls on so many threads; results are written to these files. None if the
    /// engine is not there.
    ///
    /// # Errors
    /// If the engine does not run the model.
    pub(super) fn time(
        &mut self,
        engine: Engine,
        model: &Model,
        calls: usize,
        threads: usize,
        outputs: &[PathBuf],
    ) -> Result<Option<f64>, String> {
        if self.version(engine).is_none() {
            return Ok(None);
        }
        let request = json!({
            "engine": engine.module, "model": model.file, "inputs": model.inputs, "calls": calls, "threads": threads,
            "outputs": outputs,
        });
        let answer = self.ask(&request);
        let answer = answer.map_err(|e| format!("{}: {e}", engine.name))?;
        Ok(Some(answer.ms))
    }

    /// Microseconds of each node in ONNX Runtime, as the least of so many calls; the graph that ran goes to a file.
    ///
    /// # Errors
    /// If the engine does not run the model.
    pub(super) fn profile(
        &mut self,
        model: &Model,
        calls: usize,
        optimized: Option<&Path>,
    ) -> Result<Option<Vec<(String, f64)>>, String> {
        if self.version(ONNX_RUNTIME).is_none() {
            return Ok(None);
        }
        let request = json!({
            "engine": ONNX_RUNTIME.module, "model": model.file, "inputs": model.inputs, "profile": calls,
            "optimized": optimized,
        });
        let answer = self.ask(&request);
        let answer = answer.map_err(|e| format!("{}: {e}", ONNX_RUNTIME.name))?;
        Ok(Some(answer.nodes))
    }

    /// Gives up all models.
    ///
    /// # Errors
    /// If the process ended.
    pub(super) fn forget(&mut self) -> Result<(), String> {
        self.ask(&json!({"forget": true})).map(|_| ())
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        // It holds nothing that is to be kept, and may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The library that hides what the processor has.
fn library(scratch: &Scratch) -> Result<PathBuf, String> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err("peers can be restricted on Linux and x86-64 alone".to_string());
    }
    let (source, made) = (scratch.file("hide.c"), scratch.file("hide.so"));
    std::fs::write(&source, HIDE).map_err(|e| format!("{}: {e}", source.display()))?;
    let mut command = Command::new("cc");
    command.args(["-O1", "-shared", "-fPIC", "-o"]);
    let done = command.arg(&made).arg(&source).output();
    let done = done.map_err(|e| format!("peers cannot be restricted: cannot start cc: {e}"))?;
    match done.status.success() {
        true => Ok(made),
        false => Err(format!(
            "peers cannot be restricted: cc ended with {}",
            done.status
        )),
    }
}
