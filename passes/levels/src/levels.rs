//! The pipelines `to-tensor`, `to-loop`, `to-memref`: each starts from any earlier level.

use tir::{Alias, Pipeline, pass};
use tir_accel_passes::{ExpandGeneric, InsertTokens, ScheduleTransfers};
use tir_convert::bufferize::Bufferize;
use tir_convert::{FuseElementwise, FuseGraph, GraphToTensor};
use tir_generic::{Canonicalize, Cse};
use tir_memory_passes::{CheckPlan, PlanMemory};
use tir_tile::{Tensorize, Tile};

use crate::attach_machine::AttachMachine;

pass! {
    /// Lowers to tensor level: groups of graph ops become index expressions.
    ///
    /// Passes that other dialects registered for their ops on whole tensors run where graph ops
    /// are lowered.
    pub struct ToTensor = "to-tensor" on "builtin.module" {
        /// The machine file to attach, unless it has been done.
        pub machine: Option<String> = None,
        /// Let operators run together; without, each is a group of its own.
        pub fuse: bool = true,
        /// Let a group have several results.
        pub multi_output: bool = false,
    }
}
pass! {
    /// Lowers to loop level: tiles that fit the near space, calls of the machine's units.
    pub struct ToLoop = "to-loop" on "builtin.module" {
        /// The machine file to attach, unless it has been done.
        pub machine: Option<String> = None,
        /// Let operators run together; without, each is a group of its own.
        pub fuse: bool = true,
        /// Let a group have several results.
        pub multi_output: bool = false,
        /// Slots of every buffer of a loop that tiles leave room for.
        pub depth: i64 = 2,
    }
}
pass! {
    /// Lowers to memref level: buffers in the machine's memory spaces.
    pub struct ToMemref = "to-memref" on "builtin.module" {
        /// The machine file to attach, unless it has been done.
        pub machine: Option<String> = None,
        /// Let operators run together; without, each is a group of its own.
        pub fuse: bool = true,
        /// Let a group have several results.
        pub multi_output: bool = false,
        /// Slots of every buffer of a loop that tiles leave room for.
        pub depth: i64 = 2,
    }
}
pass! {
    /// Lowers to accel level: transfers, tokens between queues, planned offsets.
    pub struct ToAccel = "to-accel" on "builtin.module" {
        /// The machine file to attach, unless it has been done.
        pub machine: Option<String> = None,
        /// Let operators run together; without, each is a group of its own.
        pub fuse: bool = true,
        /// Let a group have several results.
        pub multi_output: bool = false,
        /// Slots of a buffer of an iteration, to begin with.
        pub depth: i64 = 2,
        /// Make windows that slide rings.
        pub ring: bool = true,
        /// The thread waits for each start at once.
        pub sync: bool = false,
    }
}

impl Alias for ToTensor {
    fn expand(&self, p: &mut Pipeline) {
        if self.machine.is_some() {
            p.add(AttachMachine {
                file: self.machine.clone(),
            });
        }
        p.nest("func.func", |p| {
            p.add(Canonicalize::default());
            // Below, two tiles without content are two buffers.
            p.add(Cse {
                keep: vec!["tensor.empty".to_string()],
            });
            let partition = if self.fuse { "cost" } else { "none" };
            p.add(FuseGraph {
                partition: partition.to_string(),
                multi_output: self.multi_output,
                ..FuseGraph::default()
            });
            tir_graph::lowering::join(p);
            p.add(GraphToTensor::default());
            p.add(FuseElementwise::default());
            p.add(Canonicalize::default());
        });
    }
}
impl Alias for ToLoop {
    fn expand(&self, p: &mut Pipeline) {
        p.alias(ToTensor {
            machine: self.machine.clone(),
            fuse: self.fuse,
            multi_output: self.multi_output,
        });
        p.nest("func.func", |p| {
            p.add(Tile {
                depth: self.depth,
                ..Tile::default()
            });
            p.add(Tensorize::default());
            p.add(Canonicalize::default());
        });
    }
}
impl Alias for ToMemref {
    fn expand(&self, p: &mut Pipeline) {
        p.alias(ToLoop {
            machine: self.machine.clone(),
            fuse: self.fuse,
            multi_output: self.multi_output,
            depth: self.depth,
        });
        p.add(Bufferize::default());
        p.nest("func.func", |p| {
            p.add(Canonicalize::default());
        });
    }
}
impl Alias for ToAccel {
    fn expand(&self, p: &mut Pipeline) {
        p.alias(ToMemref {
            machine: self.machine.clone(),
            fuse: self.fuse,
            multi_output: self.multi_output,
            depth: self.depth,
        });
        p.nest("func.func", |p| {
            p.add(ScheduleTransfers {
                depth: self.depth,
                ring: self.ring,
                ..ScheduleTransfers::default()
            });
            p.add(Canonicalize::default());
            p.add(Cse::default());
            p.add(PlanMemory::default());
            p.add(InsertTokens {
                sync: self.sync,
                ..InsertTokens::default()
            });
            p.add(ExpandGeneric::default());
            p.add(CheckPlan::default());
            p.add(Canonicalize::default());
        });
    }
}
