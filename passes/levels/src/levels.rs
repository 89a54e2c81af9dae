//! The pipelines `to-tensor`, `to-loop`, `to-memref`, `to-accel`, and `to-native` beside it: each starts from any earlier level.

use tir::pass::{no_less, one_of};
use tir::{Alias, Op, PassOptions, Pipeline, pass};
use tir_bufferize::Bufferize;
use tir_convert::{FoldQdq, FuseElementwise, FuseGraph, GraphToTensor, JoinGroups, Winograd};
use tir_egraph::Egraph;
use tir_generic::{Canonicalize, ConstantFold, Cse, Licm};
use tir_memory::{CheckArguments, CheckCalls, CheckPlan, PlanMemory, Reorder};
use tir_native::{
    ApproximateMath, DropSpaces, GroupConstants, InlineCalls, OutlineNests, PackConstants,
    PrefetchTiles, PromoteMemory,
};
use tir_schedule::{
    Distribute, ExpandGeneric, FindParallel, FuseLoops, InsertTokens, PlaceBuffers,
    ScheduleTransfers, SplitNests, StoreHalos, TilesInPlace,
};
use tir_tensor::Empty;
use tir_tile::{Tensorize, Tile};

use crate::attach_machine::AttachMachine;
use crate::choose_graph::ChooseGraph;
use crate::count_work::CountWork;

/// A pipeline with the options that all of them have; its own follow.
macro_rules! level {
    ($(#[doc = $doc:literal])* $name:ident = $text:literal { $($own:tt)* }) => {
        pass! {
            $(#[doc = $doc])*
            pub struct $name = $text on "builtin.module" {
                /// Machine file to attach, unless the module has a machine; host: that of the processor which this
                /// program runs on.
                pub machine: Option<String> = None,
                /// Run `egraph` first to choose algebra and layouts; none: where its program takes fewer cycles by the estimate
                /// of `tile` (`choose-graph`), for processors where layouts matter.
                pub egraph: Option<bool> = None,
                /// Compute quantized operators in QDQ form with integers (`fold-qdq`): results may
                /// differ by one step of their scale from sums in floats.
                pub integer: bool = false,
                /// Groups that are joined to fill a unit: `best` where that is quicker by the estimate of `tile`, and of
                /// integers with constant weights always (`join-groups`); `exact` of integers alone; `all` of floats
                /// with constant weights always, too; or `none`. Of floats, an infinity or NaN in one group makes NaN of
                /// those beside it.
                pub join_groups: String = "best".to_string() => one_of(&["best", "exact", "all", "none"]),
                /// Use Winograd's filtering where it pays (`winograd`), in tiles of `2`, `4`, or `best` for either; `none`
                /// does nothing. Results differ by rounding.
                pub winograd: String = "none".to_string() => one_of(&["2", "4", "best", "none"]),
                /// Order operators so that least memory is live at once (`reorder`), also where far memory holds what lives in the
                /// order of the text.
                pub reorder: bool = false,
                /// Which tensors between two nests stay in near memory, of those that have a place there (`tile`): `cycles`,
                /// where that is no slower; `bytes`, where fewer bytes move, tiles and nests being chosen so, too; `static`, as OnSRAM pins them.
                pub near_policy: String = "cycles".to_string() => one_of(&["cycles", "bytes", "static"]),
                /// Fuse operators; if false, each operator is its own group.
                pub fuse: bool = true,
                /// Fusion groups with several results wherever there can be such; if false, only where `choose-graph` finds them quicker.
                pub multi_output: bool = false,
                $($own)*
            }
        }
    };
}

level! {
    /// Lowers to tensor level: fused groups of graph ops become `tensor.generic`.
    ///
    /// Passes that other dialects registered for their ops on whole tensors run where graph ops
    /// are lowered.
    ToTensor = "to-tensor" {
        /// Multi-buffering depth that nests are estimated with to choose a program (`choose-graph`).
        pub depth: i64 = 2 => no_less(1),
        /// Stages of one loop nest at most, where nests are estimated.
        pub max_stages: usize = 8 => no_less(1),
        /// Whether a tensor between two nests may stay in near memory, where nests are estimated.
        pub resident: bool = true,
    }
}
level! {
    /// Lowers to loop level: loops over tiles that fit the near memory, calls of the machine's
    /// intrinsics.
    ToLoop = "to-loop" {
        /// Multi-buffering depth that tile sizes leave room for: slots per loop buffer.
        pub depth: i64 = 2 => no_less(1),
        /// Stages of one loop nest at most; one: every tensor between two nests goes to far memory.
        pub max_stages: usize = 8 => no_less(1),
        /// Whether a tensor between two nests stays in near memory where that is no slower.
        pub resident: bool = true,
        /// Print so many candidates for the tiles of each loop nest, with their estimates.
        pub print_tiles: usize = 0,
    }
}
level! {
    /// Lowers to memref level: buffers in the machine's memory spaces.
    ToMemref = "to-memref" {
        /// Multi-buffering depth that tile sizes leave room for: slots per loop buffer.
        pub depth: i64 = 2 => no_less(1),
        /// Stages of one loop nest at most; one: every tensor between two nests goes to far memory.
        pub max_stages: usize = 8 => no_less(1),
        /// Whether a tensor between two nests stays in near memory where that is no slower.
        pub resident: bool = true,
        /// Print so many candidates for the tiles of each loop nest, with their estimates.
        pub print_tiles: usize = 0,
    }
}
level! {
    /// Lowers to accel level: asynchronous DMA transfers, tokens between queues, planned buffer
    /// offsets.
    ToAccel = "to-accel" {
        /// Multi-buffering depth to start from: slots per loop buffer.
        pub depth: i64 = 2 => no_less(1),
        /// Stages of one loop nest at most; one: every tensor between two nests goes to far memory.
        pub max_stages: usize = 8 => no_less(1),
        /// Whether a tensor between two nests stays in near memory where that is no slower.
        pub resident: bool = true,
        /// Use ring buffers for sliding windows.
        pub ring: bool = true,
        /// Start the first loads of a loop nest in the nest before it, where memory suffices.
        pub preload: bool = true,
        /// Load first tiles of a nest that loads for longer than it computes in nests before, where memory suffices.
        pub early: bool = true,
        /// Use spare bytes so that reuse makes no queue wait for another (`place-buffers`).
        pub spare: bool = true,
        /// Wait for each transfer and call right after it is started.
        pub sync: bool = false,
        /// Say what fills each space: the moment at which most bytes are live, the buffers that live then and why, and
        /// what would lower it.
        pub memory_report: bool = false,
        /// Write the buffers that are planned into this folder, as `tir-plan` reads them (`place-buffers`).
        pub memory_problem: Option<String> = None,
        /// Print so many candidates for the tiles of each loop nest, with their estimates.
        pub print_tiles: usize = 0,
    }
}
level! {
    /// Lowers to what a processor runs: loops of scalar operations on buffers in one memory, which
    /// `tir-translate --export-mlir` writes op by op.
    ///
    /// With a machine, its units' work is planned as for that machine and written out where it is called.
    /// Without one, whole tensors are computed one behind the other.
    ToNative = "to-native" {
        /// Multi-buffering depth that tile sizes leave room for: slots per loop buffer.
        pub depth: i64 = 1 => no_less(1),
        /// Stages of one loop nest at most; one: every tensor between two nests goes to far memory.
        pub max_stages: usize = 8 => no_less(1),
        /// Whether a tensor between two nests stays in near memory where that is no slower.
        pub resident: bool = true,
        /// Print so many candidates for the tiles of each loop nest, with their estimates.
        pub print_tiles: usize = 0,
        /// Bytes that the place of each buffer is a multiple of.
        pub align: i64 = 64,
        /// Bytes of a vector register; 0: elements one by one; none: as the machine says, 64 if it is no processor.
        pub vector_bytes: Option<i64> = None,
        /// Number of vector registers; none: as the machine says, 32 if it is no processor.
        pub registers: Option<i64> = None,
        /// Make each distinct nest a function (`outline-nests`).
        pub outline: bool = true,
        /// Replace `exp`, `erf` and their like by operations on vectors that are right to two units in the last place
        /// (`approximate-math`).
        pub approximate: bool = false,
        /// Ops that a nest runs at least for threads to share it (`split-nests`); what is smaller stays on one.
        pub parallel_work: u64 = 4096,
    }
}

/// The pipeline of an earlier level with those options of a later one that it has too.
fn earlier<E: PassOptions>(later: &impl PassOptions) -> E {
    let mut level = E::default();
    for (option, text) in later.values() {
        // Options of one name have one type in all levels, so what one prints the other reads; each run of a pipeline
        // through several levels sets all of them.
        if let Some(Err(why)) = level.set(option, &text) {
            panic!("internal error: '{}' has {option}={text}: {why}", E::NAME);
        }
    }
    level
}

/// What `tile` may join, where a level may join so much.
fn join_groups_of_tiles(level: &str) -> String {
    match level {
        "best" => "all".to_string(),
        other => other.to_string(),
    }
}

impl Alias for ToTensor {
    fn expand(&self, p: &mut Pipeline) {
        p.add(AttachMachine {
            file: self.machine.clone(),
        });
        p.nest("func.func", |p| {
            if self.integer {
                p.add(FoldQdq::default());
            }
            p.add(CountWork::default());
            p.add(Canonicalize::default());
            if self.winograd != "none" {
                p.add(Winograd {
                    tile: self.winograd.clone(),
                    ..Winograd::default()
                });
                // Filters of constant weights.
                p.add(ConstantFold::default());
            }
            p.add(JoinGroups {
                groups: match self.join_groups.as_str() {
                    "best" => "exact".to_string(),
                    other => other.to_string(),
                },
            });
            // Below, two tiles without content are two buffers.
            p.add(Cse {
                keep: vec![Empty::name().to_string()],
            });
            match self.egraph {
                Some(false) => {}
                Some(true) => {
                    p.add(Egraph::default());
                    p.add(ConstantFold::default());
                }
                None => {
                    p.add(ChooseGraph {
                        partition: self.partition(),
                        multi_output: self.multi_output,
                        depth: self.depth,
                        max_stages: self.max_stages,
                        resident: self.resident,
                        near_policy: self.near_policy.clone(),
                        join_groups: join_groups_of_tiles(&self.join_groups),
                        ..ChooseGraph::default()
                    });
                }
            }
            self.lowered(p);
        });
    }
}
impl ToTensor {
    /// How operators are fused.
    fn partition(&self) -> String {
        let partition = if self.fuse { "cost" } else { "none" };
        partition.to_string()
    }

    /// What follows the choice of a program, for functions.
    fn lowered(&self, p: &mut Pipeline) {
        p.add(FuseGraph {
            partition: self.partition(),
            multi_output: self.multi_output,
            ..FuseGraph::default()
        });
        tir_graph::lowering::join(p);
        p.add(Reorder {
            enough: self.reorder.then_some(0),
            needed: !self.reorder,
            ..Reorder::default()
        });
        p.add(GraphToTensor::default());
        p.add(FuseElementwise::default());
        p.add(Canonicalize::default());
    }
}
impl Alias for ToLoop {
    fn expand(&self, p: &mut Pipeline) {
        p.alias(earlier::<ToTensor>(self));
        self.tiles(p, false);
    }
}
impl ToLoop {
    /// Tiles and units' instructions; with `optional`, of a module with a machine alone.
    fn tiles(&self, p: &mut Pipeline, optional: bool) {
        p.nest("func.func", |p| {
            p.add(Tile {
                depth: self.depth,
                max_stages: self.max_stages,
                resident: self.resident,
                near_policy: self.near_policy.clone(),
                print_tiles: self.print_tiles,
                join_groups: join_groups_of_tiles(&self.join_groups),
                optional,
                ..Tile::default()
            });
            p.add(Tensorize { optional });
            p.add(Canonicalize::default());
        });
    }
}
impl Alias for ToNative {
    fn expand(&self, p: &mut Pipeline) {
        p.alias(earlier::<ToTensor>(self));
        earlier::<ToLoop>(self).tiles(p, true);
        p.add(Bufferize::default());
        p.add(CheckArguments::default());
        p.nest("func.func", |p| {
            p.add(Canonicalize::default());
            p.add(InlineCalls::default());
        });
        p.add(DropSpaces::default());
        p.add(PackConstants::default());
        p.add(GroupConstants::default());
        p.nest("func.func", |p| {
            p.add(StoreHalos::default());
            p.add(TilesInPlace::default());
        });
        if self.outline {
            p.add(OutlineNests::default());
        }
        p.nest("func.func", |p| {
            p.add(ExpandGeneric {
                carry: true,
                vector_bytes: self.vector_bytes.unwrap_or(64),
                registers: self.registers.unwrap_or(32),
                masked_bytes: 0,
                processor: self.vector_bytes.is_none() && self.registers.is_none(),
                ..ExpandGeneric::default()
            });
            p.add(Canonicalize::default());
            p.add(Cse::default());
            p.add(Licm::default());
            p.add(FuseLoops::default());
            p.add(FindParallel::default());
            p.add(PromoteMemory::default());
            p.add(PlanMemory {
                flat: Some(self.align),
                ..PlanMemory::default()
            });
        });
        p.add(SplitNests {
            least: self.parallel_work,
            ..SplitNests::default()
        });
        p.nest("func.func", |p| {
            p.add(Canonicalize::default());
            p.add(Cse::default());
            p.add(PrefetchTiles::default());
            if self.approximate {
                p.add(ApproximateMath::default());
                p.add(Cse::default());
            }
        });
    }
}
impl Alias for ToMemref {
    fn expand(&self, p: &mut Pipeline) {
        p.alias(earlier::<ToLoop>(self));
        buffers(p);
    }
}
/// From values to buffers in the machine's spaces.
fn buffers(p: &mut Pipeline) {
    p.add(Bufferize::default());
    p.add(CheckArguments::default());
    p.nest("func.func", |p| {
        p.add(Canonicalize::default());
    });
}
impl Alias for ToAccel {
    fn expand(&self, p: &mut Pipeline) {
        p.alias(earlier::<ToMemref>(self));
        self.scheduled(p);
        p.add(CheckCalls::default());
    }
}
impl ToAccel {
    /// From a chosen program of graph ops to accel level: what this pipeline does behind `choose-graph`.
    pub(crate) fn behind_choice(&self) -> Pipeline {
        let mut p = Pipeline::new();
        p.nest("func.func", |p| earlier::<ToTensor>(self).lowered(p));
        earlier::<ToLoop>(self).tiles(&mut p, false);
        buffers(&mut p);
        self.scheduled(&mut p);
        p
    }

    /// Transfers beside computing, places of buffers, tokens.
    fn scheduled(&self, p: &mut Pipeline) {
        p.nest("func.func", |p| {
            p.add(Distribute::default());
            p.add(ScheduleTransfers {
                depth: self.depth,
                ring: self.ring,
                preload: self.preload && !self.sync,
                early: self.early && !self.sync,
                memory_report: self.memory_report,
                ..ScheduleTransfers::default()
            });
            p.add(Canonicalize::default());
            p.add(Cse::default());
            p.add(PlaceBuffers {
                tries: match self.spare && !self.sync {
                    true => PlaceBuffers::default().tries,
                    false => 0,
                },
                problem: self.memory_problem.clone(),
                memory_report: self.memory_report,
                ..PlaceBuffers::default()
            });
            p.add(InsertTokens {
                sync: self.sync,
                memory_report: self.memory_report,
                ..InsertTokens::default()
            });
            p.add(ExpandGeneric::default());
            p.add(CheckPlan::default());
            p.add(Canonicalize::default());
        });
    }
}
