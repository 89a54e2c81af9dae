//! The processor that a machine is, which native code is made for.

use tir::{Analysis, Attr, DictAttr, Failure, Ir, Name, Type};

use crate::machine::MachineInfo;
use crate::ops::describe::Machine;

/// The name of the attribute of a module that says what processor it was lowered for.
const ATTR: &str = "tir.processor";

/// What native code has to know of a processor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Processor {
    /// LLVM's name of it; without it code is made for the processor that it is made on.
    pub target: Option<String>,
    /// What it has beyond its name, or lacks, separated by commas: `+avx512vnni`. Empty without a name.
    pub features: String,
    /// Bytes of each vector register.
    pub vector_bytes: i64,
    /// Number of vector registers.
    pub registers: i64,
    /// Bytes of the smallest elements that vectors are loaded and stored of by a mask; 0: none are.
    pub masked_bytes: i64,
}

impl Processor {
    /// The processor that a machine is, if it is one.
    ///
    /// # Errors
    /// If the machine says a part of it only, or numbers that no processor has.
    pub(crate) fn of_machine(machine: &Machine) -> Result<Option<Self>, Failure> {
        let (bytes, count) = (machine.vector_bytes, machine.registers);
        let named = machine.target.is_some() || machine.features.is_some();
        if (bytes, count) == (0, 0) && !named {
            return Ok(None);
        }
        // Below, a block of results has no register; above, no vector has a type.
        if !(4..=4096).contains(&bytes) || bytes & (bytes - 1) != 0 {
            return Err(format!(
                "has vector_bytes = {bytes}, expected a power of two from 4 to 4096 for a processor"
            )
            .into());
        }
        if !(8..=1024).contains(&count) {
            return Err(
                format!("has registers = {count}, expected 8 to 1024 for a processor").into(),
            );
        }
        let masked = machine.masked_bytes;
        if masked != 0 && (!(1..=8).contains(&masked) || masked & (masked - 1) != 0) {
            return Err(format!(
                "has masked_bytes = {masked}, expected 1, 2, 4 or 8 bytes of an element, or 0"
            )
            .into());
        }
        if machine.target.as_deref() == Some("") {
            return Err("has an empty target, expected LLVM's name of a processor".into());
        }
        let features = machine.features.clone().unwrap_or_default();
        if machine.features.is_some() && machine.target.is_none() {
            return Err("has features, but no target that they belong to".into());
        }
        let wrong = |f: &&str| f.len() < 2 || !f.starts_with(['+', '-']);
        if machine.features.is_some()
            && let Some(wrong) = features.split(',').find(wrong)
        {
            return Err(format!(
                "has features with '{wrong}', expected +NAME or -NAME, separated by commas"
            )
            .into());
        }
        Ok(Some(Self {
            target: machine.target.clone(),
            features,
            vector_bytes: bytes,
            registers: count,
            masked_bytes: masked,
        }))
    }

    /// The processor that the machine of a module is, or that a module without machine was lowered for.
    pub fn of_module(module: &Ir) -> Option<Self> {
        if let Some(slot) = MachineInfo::slot(module) {
            let machine = module.child(slot)?;
            return Self::of_machine(&machine.get(machine.root())?).ok()?;
        }
        let attr = module.attr(module.root(), ATTR)?;
        let dict = attr.get::<DictAttr>()?;
        let entry = |name: &str| {
            let mut entries = dict.entries().iter();
            entries
                .find(|(key, _)| *key == name)
                .map(|(_, value)| *value)
        };
        let text = |name: &str| Some(entry(name)?.as_str()?.to_string());
        Some(Self {
            target: text("target"),
            features: text("features").unwrap_or_default(),
            vector_bytes: entry("vector_bytes")?.as_int()?,
            registers: entry("registers")?.as_int()?,
            masked_bytes: entry("masked_bytes").map_or(Some(0), Attr::as_int)?,
        })
    }

    /// Notes on a module, whose machine is no more, what processor it was lowered for.
    pub fn note(&self, module: &mut Ir) {
        let number = |n: i64| Attr::int(n, Type::int(64));
        let mut entries = vec![
            (Name::new("vector_bytes"), number(self.vector_bytes)),
            (Name::new("registers"), number(self.registers)),
        ];
        if self.masked_bytes != 0 {
            entries.push((Name::new("masked_bytes"), number(self.masked_bytes)));
        }
        if let Some(target) = &self.target {
            entries.push((Name::new("target"), Attr::str(target)));
            entries.push((Name::new("features"), Attr::str(&self.features)));
        }
        module.set_attr(module.root(), ATTR, Attr::new(DictAttr::new(entries)));
    }
}

/// The processor that a module is for, as an analysis of it.
pub struct TargetProcessor(
    /// None if the module says of none.
    pub Option<Processor>,
);

impl Analysis for TargetProcessor {
    fn new(module: &Ir) -> Self {
        Self(Processor::of_module(module))
    }
}
