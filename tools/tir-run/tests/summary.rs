//! What a run prints for people, and for programs.

use tir_accel::bounds::Bounds;
use tir_accel::eval::Layer;
use tir_data::{Array, compare};
use tir_machine::{
    Bound, CauseReport, LabelReport, LayerReport, QueueReport, Report, SpaceReport, ThreadReport,
};
use tir_run::{Compared, InputSummary, MachineSummary, Options, OutputSummary, Summary};

fn bounds() -> Bounds {
    Bounds {
        cycles: 4_000,
        by: "loads",
        window: 5_000,
        at: "conv2".to_string(),
        macs: 1_000_000,
        bytes_in: 24_000,
        bytes_out: 4_000,
    }
}

fn report() -> Report {
    let queue = |name: &str, engine, calls, busy, stall, bytes, macs| QueueReport {
        name: name.into(),
        engine,
        calls,
        busy,
        stall,
        bytes,
        macs,
        ..QueueReport::default()
    };
    let cause = |cause: &str, from: &str, to: &str, bytes, transfers| CauseReport {
        cause: cause.into(),
        from: from.into(),
        to: to.into(),
        bytes,
        transfers,
    };
    Report {
        cycles: 8_448,
        clock_mhz: 1_000,
        thread: ThreadReport {
            busy: 12,
            waiting: 592,
            queue_full: 7_844,
        },
        queues: vec![
            queue("load", true, 19, 6_128, 1_555, 39_296, 0),
            queue("store", true, 16, 5_120, 270, 32_768, 0),
            queue("gemm", false, 320, 5_120, 2_992, 0, 1_179_648),
        ],
        spaces: vec![
            SpaceReport {
                name: "dram".into(),
                capacity: 1 << 30,
                peak_extent: 72_064,
                ..SpaceReport::default()
            },
            SpaceReport {
                name: "spm".into(),
                capacity: 32_768,
                peak_live: 29_312,
                peak_extent: 29_312,
                read: 32_768,
                written: 39_296,
            },
        ],
        causes: vec![
            cause("compulsory", "dram", "spm", 39_000, 18),
            cause("reload", "dram", "spm", 296, 1),
            cause("compulsory", "spm", "dram", 32_768, 16),
        ],
        labels: vec![LabelReport {
            name: "gemm16".into(),
            calls: 288,
            cycles: 4_608,
            macs: 1_179_648,
        }],
        layers: vec![LayerReport {
            units: [("gemm".to_string(), 5_120)].into(),
            name: "conv1".into(),
            start: 64,
            end: 8_448,
            load: 6_128,
            store: 5_120,
            unit: 5_120,
            thread: 12,
            waiting: 592,
            queue_full: 7_844,
            stall: 4_817,
            conflict: 0,
            bytes: 72_064,
            far: 72_064,
            macs: 1_179_648,
            near: [("spm".to_string(), 29_312)].into(),
            causes: vec![
                cause("compulsory", "dram", "spm", 39_296, 19),
                cause("compulsory", "spm", "dram", 30_000, 15),
                cause("spill", "spm", "dram", 2_768, 1),
            ],
        }],
        bounds: vec![
            Bound {
                name: "load".into(),
                cycles: 4_912,
            },
            Bound {
                name: "dram".into(),
                cycles: 4_912,
            },
        ],
    }
}

fn summary(timing: bool) -> Summary {
    let expected = Array::from_vec(&[2, 2], vec![1.0f32, 2.0, 3.0, 4.0]).expect("an array");
    let actual = Array::from_vec(&[2, 2], vec![1.0f32, 2.0, 3.5, 4.0]).expect("an array");
    let compared = |with: &str, actual: &Array| {
        Some(Compared::new(
            with.into(),
            &compare(&expected, actual, 1e-3, 1e-4),
        ))
    };
    let output = |output, compared| OutputSummary {
        output,
        ty: "tensor<2x2xf32>".into(),
        file: Some(format!("out/out_{output}.npy")),
        compared,
        value: None,
    };
    Summary {
        file: "net.tir".into(),
        function: "@main".into(),
        inputs: vec![
            InputSummary {
                argument: 0,
                ty: "tensor<1x3x32x32xf32>".into(),
                source: "in.npy".into(),
            },
            InputSummary {
                argument: 1,
                ty: "i32".into(),
                source: "random, seed 8".into(),
            },
        ],
        outputs: vec![
            output(0, compared("want_0.npy", &expected)),
            output(1, compared("want_1.npy", &actual)),
            output(2, None),
        ],
        ok: false,
        seconds: 0.0123,
        rtol: 1e-3,
        atol: 1e-4,
        layers: Vec::new(),
        timeline: None,
        machine: Some(MachineSummary::new(
            &report(),
            Some(1_200_000),
            Some(&bounds()),
            &[Layer {
                name: "conv1".into(),
                at: vec!["net.tir:4:3".into(), "net.tir:5:3".into()],
                macs: Some(1_000_000),
            }],
        )),
        timing,
    }
}

#[test]
fn text() {
    insta::assert_snapshot!("short", summary(false));
    insta::assert_snapshot!("timing", summary(true));
}

#[test]
fn json() {
    insta::assert_snapshot!(serde_json::to_string_pretty(&summary(false)).expect("JSON"));
}

#[test]
fn help() {
    let help = <Options as clap::CommandFactory>::command().render_long_help();
    insta::assert_snapshot!(help.to_string());
}
