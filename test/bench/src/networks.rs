//! Networks from ONNX to a machine: time of each step, the largest error of each level, and what
//! running together saves.

use std::path::{Path, PathBuf};
use std::time::Instant;

use tir::{Diagnostic, Ir, PassManager};
use tir_data::{Array, compare, npy};
use tir_opt::Tool;
use tir_run::MachineSummary;

const LEVELS: [&str; 5] = ["graph", "tensor", "loop", "memref", "accel"];
const RTOL: f64 = 1e-3;
const ATOL: f64 = 1e-4;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn said(errors: &[Diagnostic]) -> String {
    let Some(error) = errors.first() else {
        return "fails without an error".to_string();
    };
    let place = error.loc.place();
    let place = place.map_or(String::new(), |(file, line, column)| {
        format!("{file}:{line}:{column}: ")
    });
    let notes = error.notes.iter();
    let notes: String = notes.map(|note| format!("\n  {}", note.message)).collect();
    format!("{place}{}{notes}", error.message)
}

/// `WHAT_0.npy`, `WHAT_1.npy`, … of a folder, or `NAME.WHAT_0.npy`, … of a model `NAME.onnx`, as far as there are any.
fn stored(path: &Path, what: &str) -> impl Iterator<Item = PathBuf> {
    let folder = path.is_dir();
    let paths = (0..).map(move |k| match folder {
        true => path.join(format!("{what}_{k}.npy")),
        false => path.with_extension(format!("{what}_{k}.npy")),
    });
    paths.take_while(|p| p.exists())
}

fn arrays(path: &Path, what: &str) -> Result<Vec<Array>, String> {
    stored(path, what)
        .map(|p| npy::read(&p).map_err(|e| e.to_string()))
        .collect()
}

/// A network with the values that it is run on.
pub(crate) struct Network {
    /// A folder, or a model.
    path: PathBuf,
    inputs: Vec<Array>,
    outputs: Vec<Array>,
}

impl Network {
    pub(crate) fn new(path: &Path) -> Result<Self, String> {
        Ok(Self {
            path: path.to_path_buf(),
            inputs: arrays(path, "in")?,
            outputs: arrays(path, "out")?,
        })
    }
    pub(crate) fn model(&self) -> PathBuf {
        match self.path.is_dir() {
            true => self.path.join("model.onnx"),
            false => self.path.clone(),
        }
    }
    pub(crate) fn import(&self) -> Result<Ir, String> {
        tir_translate::import_onnx(&self.model()).map_err(|e| said(&e))
    }
    pub(crate) fn inputs(&self) -> &[Array] {
        &self.inputs
    }
    pub(crate) fn outputs(&self) -> &[Array] {
        &self.outputs
    }
    /// Files of the values that it is run on.
    pub(crate) fn stored(&self) -> Vec<PathBuf> {
        stored(&self.path, "in").collect()
    }
    /// Files of the values that it gives then.
    pub(crate) fn expected(&self) -> Vec<PathBuf> {
        stored(&self.path, "out").collect()
    }
    /// Runs a program; the largest error, and the account of the machine if it ran on one.
    fn run(&self, module: &Ir) -> Result<(f64, Option<MachineSummary>), String> {
        let run = tir_run::execute(module, &self.inputs).map_err(|e| said(&e))?;
        let mut worst = 0f64;
        for (wanted, found) in self.outputs.iter().zip(&run.outputs) {
            let comparison = compare(wanted, found, RTOL, ATOL);
            if !comparison.ok {
                return Err(comparison.to_string());
            }
            worst = worst.max(comparison.max_abs_error);
        }
        Ok((worst, run.machine))
    }
}

/// Lowers a program in place.
pub(crate) fn lower(tool: &Tool, module: &mut Ir, level: &str, fuse: bool) -> Result<(), String> {
    let machine = root().join("test/e2e/machines/npu.tir");
    let machine = tir::pass::option_text(&machine.to_string_lossy());
    let text = format!("to-{level}{{machine={machine} fuse={fuse}}}");
    let pipeline = tool.passes.parse(&text).map_err(|e| said(&e))?;
    let report = PassManager::with(pipeline, Default::default()).run(module);
    report.into_result().map_err(|e| said(&e))
}

/// Bytes that engines moved.
pub(crate) fn bytes(machine: &MachineSummary) -> u64 {
    let engines = machine.queues.iter().filter(|q| q.engine);
    engines.map(|q| q.bytes).sum()
}

/// Bytes of tensors between groups that were written to far memory.
fn between(machine: &MachineSummary) -> u64 {
    let far = machine.spaces.first().map(|s| s.name.as_str());
    let causes = machine.causes.iter();
    let written = causes.filter(|c| c.cause == "intermediate" && Some(c.to.as_str()) == far);
    written.map(|c| c.bytes).sum()
}

fn network(tool: &Tool, folder: &Path) -> Result<(), String> {
    let network = Network::new(folder)?;
    let start = Instant::now();
    let mut module = network.import()?;
    let seconds = |start: Instant| start.elapsed().as_secs_f64();
    println!("  import                {:>8.2} s", seconds(start));
    let mut lowered = 0.0;
    let mut together = None;
    for level in LEVELS {
        let start = Instant::now();
        if level != "graph" {
            lower(tool, &mut module, level, true)?;
        }
        let took = seconds(start);
        lowered += took;
        let start = Instant::now();
        let (error, machine) = network
            .run(&module)
            .map_err(|e| format!("at {level}: {e}"))?;
        println!(
            "  {level:<8} lowered in {took:>7.2} s, runs in {:>7.2} s, largest error {error:.1e}",
            seconds(start)
        );
        together = machine;
    }
    println!("  all levels lowered in {lowered:.2} s");
    let start = Instant::now();
    let mut module = network.import()?;
    lower(tool, &mut module, "accel", true)?;
    let took = seconds(start);
    println!("  onnx to accel at once {took:>8.2} s");
    let mut module = network.import()?;
    lower(tool, &mut module, "accel", false)?;
    let (_, alone) = network.run(&module)?;
    let (Some(together), Some(alone)) = (together, alone) else {
        return Err("runs on no machine".to_string());
    };
    for (what, m) in [("together", &together), ("alone", &alone)] {
        println!(
            "  {what:<9} {:>12} cycles, {:>12} bytes moved; ratio to the bound of {} by {}: {:.2}",
            m.cycles,
            bytes(m),
            m.roofline,
            m.bound_by,
            m.cycles as f64 / m.roofline.max(1) as f64
        );
    }
    println!(
        "  {} bytes less, of which {} are tensors that are no longer written; ratio of cycles {:.2}",
        bytes(&alone) as i64 - bytes(&together) as i64,
        between(&alone) as i64 - between(&together) as i64,
        together.cycles as f64 / alone.cycles.max(1) as f64
    );
    Ok(())
}

/// Takes networks through every level: folders with `model.onnx`, inputs `in_K.npy` and answers
/// `out_K.npy`.
///
/// # Errors
/// A network that cannot be read, lowered or run, or whose answer is wrong.
pub(crate) fn networks(folders: &[String]) -> Result<(), String> {
    let tool = tir_opt::stock();
    tool.load();
    for folder in folders.iter().map(PathBuf::from) {
        println!("{}", folder.display());
        network(&tool, &folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    Ok(())
}
