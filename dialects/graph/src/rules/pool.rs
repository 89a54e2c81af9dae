//! Pools: windows of one element, pools of pools, means, rectifiers, means beside what sums channels.

use tir::{RuleText, rule};

/// The rules.
pub const RULES: &[RuleText] = &[
    rule!("drop-max-pool-of-one", "(graph.max_pool ?x {kernel = [1, 1], strides = [1, 1], pads = [0, 0, 0, 0]})"
        => "?x"),
    rule!(nnan_nsz "drop-avg-pool-of-one", "(graph.avg_pool ?x {kernel = [1, 1], strides = [1, 1], pads = [0, 0, 0, 0]})"
        => "?x"),
    rule!("merge-max-pools",
        "(graph.max_pool (graph.max_pool ?x {kernel = ?k, strides = [1, 1], pads = [0, 0, 0, 0], \
                dilations = [1, 1], ceil_mode = ?m}) \
            {kernel = ?l, strides = ?s, pads = [0, 0, 0, 0], dilations = [1, 1], ceil_mode = false})"
        => "(graph.max_pool ?x {kernel = (kernel-of-both ?k ?l), strides = ?s, \
            pads = [0, 0, 0, 0], dilations = [1, 1], ceil_mode = false})"),
    rule!(equal reassoc "global-pool-is-mean", "(graph.global_avg_pool ?x)"
        => "(graph.reduce_mean ?x {axes = [2, 3], keepdims = true})"),
    rule!(equal reassoc "mean-is-global-pool", "(graph.reduce_mean ?x {axes = [2, 3], keepdims = true})"
        => "(graph.global_avg_pool ?x)", if "(has-rank ?x 4)"),
    rule!(nnan_nsz "drop-global-pool-of-mean", "(graph.global_avg_pool (graph.global_avg_pool ?x))"
        => "(graph.global_avg_pool ?x)"),
    rule!(equal "monotone-into-max-pool",
        "(?f:elementwise+monotone (graph.max_pool ?x {kernel = ?k, strides = ?s, pads = ?p, dilations = ?d, ceil_mode = ?m}))"
        => "(graph.max_pool (?f ?x) {kernel = ?k, strides = ?s, pads = ?p, dilations = ?d, ceil_mode = ?m})",
        if "(no-zero ?x) (has-inside ?k ?p ?d)"),
    rule!("monotone-out-of-max-pool",
        "(graph.max_pool (?f:elementwise+monotone ?x) {kernel = ?k, strides = ?s, pads = ?p, dilations = ?d, ceil_mode = ?m}):?T"
        => "(?f (graph.max_pool ?x {kernel = ?k, strides = ?s, pads = ?p, dilations = ?d, ceil_mode = ?m}))",
        if "(varies ?x) (no-zero ?x) (has-inside ?k ?p ?d) (has-fewer ?T ?x)"),
    rule!(equal "max-pool-of-concat",
        "(graph.max_pool (graph.concat ?xs... {axis = 1}) {kernel = ?k, strides = ?s, pads = ?p, dilations = ?d, ceil_mode = ?m})"
        => "(graph.concat \
            (graph.max_pool ?xs {kernel = ?k, strides = ?s, pads = ?p, dilations = ?d, ceil_mode = ?m})... {axis = 1})"),
    rule!("concat-of-max-pools",
        "(graph.concat \
            (graph.max_pool ?x {kernel = ?k, strides = ?s, pads = ?p, dilations = ?d, ceil_mode = ?m}) \
            (graph.max_pool ?ys {kernel = ?k, strides = ?s, pads = ?p, dilations = ?d, ceil_mode = ?m})... {axis = 1})"
        => "(graph.max_pool (graph.concat ?x ?ys... {axis = 1}) {kernel = ?k, strides = ?s, pads = ?p, dilations = ?d, ceil_mode = ?m})",
        if "(varies ?x) (each varies ?ys) (each same-but ?x ?ys 1)"),
    rule!(equal "global-pool-of-concat", "(graph.global_avg_pool (graph.concat ?xs... {axis = 1}))"
        => "(graph.concat (graph.global_avg_pool ?xs)... {axis = 1})"),
    // A mean of sums over channels is a sum of means: what is dear of both runs where there is less of it. A bias is its own
    // mean where padding does not count.
    rule!(equal reassoc "mean-of-windows-behind-conv-1x1",
        "(graph.conv2d (graph.avg_pool ?x {kernel = ?k, strides = ?s, pads = ?p, dilations = ?d, ceil_mode = ?m, \
                count_include_pad = ?c}) ?w {strides = [1, 1], pads = [0, 0, 0, 0], dilations = ?e, groups = ?g})"
        => "(graph.avg_pool (graph.conv2d ?x ?w {strides = [1, 1], pads = [0, 0, 0, 0], dilations = ?e, groups = ?g}) \
            {kernel = ?k, strides = ?s, pads = ?p, dilations = ?d, ceil_mode = ?m, count_include_pad = ?c})",
        if "(kernel-is ?w 1 1) (no-zero ?x) (has-inside ?k ?p ?d)"),
    rule!(equal reassoc "mean-of-windows-behind-conv-1x1-with-bias",
        "(graph.conv2d (graph.avg_pool ?x {kernel = ?k, strides = ?s, pads = ?p, dilations = ?d, ceil_mode = ?m, \
                count_include_pad = false}) ?w ?b {strides = [1, 1], pads = [0, 0, 0, 0], dilations = ?e, groups = ?g})"
        => "(graph.avg_pool (graph.conv2d ?x ?w ?b {strides = [1, 1], pads = [0, 0, 0, 0], dilations = ?e, groups = ?g}) \
            {kernel = ?k, strides = ?s, pads = ?p, dilations = ?d, ceil_mode = ?m, count_include_pad = false})",
        if "(kernel-is ?w 1 1) (no-zero ?x) (has-inside ?k ?p ?d)"),
    rule!(equal reassoc "mean-of-windows-before-conv-1x1",
        "(graph.avg_pool (graph.conv2d ?x ?w {strides = [1, 1], pads = [0, 0, 0, 0], dilations = ?e, groups = ?g}) \
            {kernel = ?k, strides = ?s, pads = ?p, dilations = ?d, ceil_mode = ?m, count_include_pad = ?c})"
        => "(graph.conv2d (graph.avg_pool ?x {kernel = ?k, strides = ?s, pads = ?p, dilations = ?d, ceil_mode = ?m, \
                count_include_pad = ?c}) ?w {strides = [1, 1], pads = [0, 0, 0, 0], dilations = ?e, groups = ?g})",
        if "(kernel-is ?w 1 1) (no-zero ?x) (has-inside ?k ?p ?d)"),
    rule!(equal reassoc "mean-of-windows-before-conv-1x1-with-bias",
        "(graph.avg_pool (graph.conv2d ?x ?w ?b {strides = [1, 1], pads = [0, 0, 0, 0], dilations = ?e, groups = ?g}) \
            {kernel = ?k, strides = ?s, pads = ?p, dilations = ?d, ceil_mode = ?m, count_include_pad = false})"
        => "(graph.conv2d (graph.avg_pool ?x {kernel = ?k, strides = ?s, pads = ?p, dilations = ?d, ceil_mode = ?m, \
                count_include_pad = false}) ?w ?b {strides = [1, 1], pads = [0, 0, 0, 0], dilations = ?e, groups = ?g})",
        if "(kernel-is ?w 1 1) (no-zero ?x) (has-inside ?k ?p ?d)"),
    rule!(equal reassoc "mean-before-conv-1x1",
        "(graph.global_avg_pool (graph.conv2d ?x ?w ?bs... {strides = [1, 1], pads = [0, 0, 0, 0], dilations = ?e, groups = ?g}))"
        => "(graph.conv2d (graph.global_avg_pool ?x) ?w ?bs... \
            {strides = [1, 1], pads = [0, 0, 0, 0], dilations = ?e, groups = ?g})",
        if "(kernel-is ?w 1 1) (no-zero ?x)"),
    // Windows that are all inside, or whose padding counts, are sums by one filter of equal weights for each channel.
    rule!(equal contract "mean-of-windows-is-conv",
        "(graph.avg_pool ?x {kernel = ?k, strides = ?s, pads = ?p, dilations = ?d, ceil_mode = false, count_include_pad = ?c})"
        => "(graph.conv2d ?x (graph.constant {value = (mean-filters ?x ?k)}) \
            {strides = ?s, pads = ?p, dilations = ?d, groups = (dim ?x 1)})",
        if "(no-zero ?x) (or (== ?c true) (== ?p 0))"),
    // One axis after the other. What is divided by other numbers at borders is so by the matrices, not element by element.
    rule!(equal reassoc "mean-of-windows-by-products",
        "(graph.avg_pool ?x {kernel = ?k, strides = ?s, pads = ?p, dilations = ?d, ceil_mode = ?m, count_include_pad = ?c})"
        => "(graph.mode_product (graph.mode_product ?x \
                (graph.constant {value = (pool-matrix ?x 2 ?k ?s ?p ?d ?m ?c)}) {axis = 2}) \
                (graph.constant {value = (pool-matrix ?x 3 ?k ?s ?p ?d ?m ?c)}) {axis = 3})"),
    rule!(equal "concat-of-global-pools",
        "(graph.concat (graph.global_avg_pool ?x) (graph.global_avg_pool ?ys)... {axis = 1})"
        => "(graph.global_avg_pool (graph.concat ?x ?ys... {axis = 1}))", if "(each same-but ?x ?ys 1)"),
];
