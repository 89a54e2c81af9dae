//! The description of a machine as the machine model takes it.

use tir_machine::{EngineSpec, MachineSpec, SpaceSpec, UnitSpec};

use crate::machine::MachineInfo;

/// The description of a machine for the model.
pub fn machine_spec(info: &MachineInfo) -> MachineSpec {
    let number = |n: i64| u64::try_from(n).unwrap_or(0);
    let small = |n: i64| u32::try_from(n).unwrap_or(u32::MAX);
    MachineSpec {
        name: info.name.to_string(),
        clock_mhz: number(info.clock_mhz),
        in_order: info.in_order,
        spaces: info
            .spaces
            .iter()
            .map(|s| SpaceSpec {
                name: s.name.to_string(),
                bytes: number(s.bytes),
                align: number(s.align),
                bytes_per_cycle: number(s.bytes_per_cycle),
                banks: number(s.banks),
                ports: number(s.ports),
            })
            .collect(),
        engines: info
            .engines
            .iter()
            .map(|e| EngineSpec {
                name: e.name.to_string(),
                from: e.from.to_string(),
                to: e.to.to_string(),
                bytes_per_cycle: number(e.bytes_per_cycle),
                latency: number(e.latency),
                queue: small(e.queue),
                dims: small(e.dims),
                granule: number(e.granule),
                square: number(e.square),
                pad: e.pad,
            })
            .collect(),
        units: info
            .units
            .iter()
            .map(|u| UnitSpec {
                name: u.name.to_string(),
                queue: small(u.queue),
            })
            .collect(),
    }
}
