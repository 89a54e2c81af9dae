//! Convolutions: factors and addends into weights and bias, normalisation, padding, larger kernels,
//! products of matrices.

use tir::{RuleText, rule};

/// The rules.
pub const RULES: &[RuleText] = &[
    // By channel, into constant weights.
    rule!(reassoc "scale-conv",
        "(graph.mul (graph.conv2d ?x #w {strides = ?s, pads = ?p, dilations = ?d, groups = ?g}) #c)"
        => "(graph.conv2d ?x (graph.mul #w (graph.reshape #c):(by-filter ?c)) \
            {strides = ?s, pads = ?p, dilations = ?d, groups = ?g})",
        if "(product-is-finite ?w ?c) (varies ?x) (by-channel ?c) (channels-fit ?c ?w)"),
    rule!(reassoc "scale-conv-and-bias",
        "(graph.mul (graph.conv2d ?x #w #b {strides = ?s, pads = ?p, dilations = ?d, groups = ?g}) #c)"
        => "(graph.conv2d ?x (graph.mul #w (graph.reshape #c):(by-filter ?c)) \
            (graph.mul #b (graph.reshape #c):(flat ?c)) \
            {strides = ?s, pads = ?p, dilations = ?d, groups = ?g})",
        if "(product-is-finite ?w ?c) (product-is-finite ?b ?c) (varies ?x) (by-channel ?c) (channels-fit ?c ?w)"),
    rule!(contract "bias-of-conv",
        "(graph.add (graph.conv2d ?x ?w {strides = ?s, pads = ?p, dilations = ?d, groups = ?g}) #c)"
        => "(graph.conv2d ?x ?w (graph.reshape #c):(flat ?c) \
            {strides = ?s, pads = ?p, dilations = ?d, groups = ?g})",
        if "(varies ?x) (bias-of ?c ?w)"),
    rule!(reassoc "add-to-bias-of-conv",
        "(graph.add (graph.conv2d ?x ?w #b {strides = ?s, pads = ?p, dilations = ?d, groups = ?g}) #c)"
        => "(graph.conv2d ?x ?w (graph.add #b (graph.reshape #c):(flat ?c)) \
            {strides = ?s, pads = ?p, dilations = ?d, groups = ?g})",
        if "(sum-is-finite ?b ?c) (varies ?x) (by-channel ?c) (channels-fit ?c ?w)"),
    // A filter of one element for each channel is a factor.
    rule!(reassoc "conv-of-one-element-into-conv",
        "(graph.conv2d (graph.conv2d ?x #w #b:?B {strides = ?s, pads = ?p, dilations = ?d, groups = ?g}) #k #c \
            {strides = [1, 1], pads = [0, 0, 0, 0], dilations = ?e, groups = ?h})"
        => "(graph.conv2d ?x (graph.mul #w #k) (graph.add (graph.mul #b (graph.reshape #k):?B) #c) \
            {strides = ?s, pads = ?p, dilations = ?d, groups = ?g})",
        if "(kernel-is ?k 1 1) (== (dim ?k 0) ?h) (== (dim ?w 0) ?h) (varies ?x) (product-is-finite ?w ?k) \
            (product-is-finite ?b ?k)"),
    // Where units rectify and sum but know no upper bound: b - max(b - x, 0) is min(b, x), up to a rounding of b.
    rule!(equal contract "clip-is-relus", "(graph.clip ?x {min = ?a, max = ?b})"
        => "(graph.relu (graph.conv2d \
            (graph.relu (graph.conv2d ?x (graph.constant {value = (minus-filters ?x)}) \
                (graph.constant {value = (channel-splat ?b ?x)}) \
                {strides = [1, 1], pads = [0, 0, 0, 0], dilations = [1, 1], groups = (dim ?x 1)})) \
            (graph.constant {value = (minus-filters ?x)}) (graph.constant {value = (channel-splat ?b ?x)}) \
            {strides = [1, 1], pads = [0, 0, 0, 0], dilations = [1, 1], groups = (dim ?x 1)}))",
        if "(has-rank ?x 4) (no-zero ?x) (has-floats ?x) (is-zero ?a) (> ?b 0) (<= ?b 16)"),
    // Batch normalisation: k = scale / sqrt(var + epsilon), y = x * k + (bias - mean * k).
    rule!(reassoc "batch-norm-into-conv",
        "(graph.batch_norm \
            (graph.conv2d ?x #w {strides = ?s, pads = ?p, dilations = ?d, groups = ?g}) \
            #k #b #m #v {epsilon = ?e})"
        => "(graph.conv2d ?x \
            (graph.mul #w (graph.reshape (graph.div #k (graph.sqrt (graph.add #v \
                (graph.constant {value = (splat ?e ?v)}))))):(filters-of ?k)) \
            (graph.sub #b (graph.mul #m (graph.div #k (graph.sqrt (graph.add #v \
                (graph.constant {value = (splat ?e ?v)})))))) \
            {strides = ?s, pads = ?p, dilations = ?d, groups = ?g})",
        if "(varies ?x)"),
    rule!(reassoc "batch-norm-into-conv-with-bias",
        "(graph.batch_norm \
            (graph.conv2d ?x #w #c {strides = ?s, pads = ?p, dilations = ?d, groups = ?g}) \
            #k #b #m #v {epsilon = ?e})"
        => "(graph.conv2d ?x \
            (graph.mul #w (graph.reshape (graph.div #k (graph.sqrt (graph.add #v \
                (graph.constant {value = (splat ?e ?v)}))))):(filters-of ?k)) \
            (graph.add #b (graph.mul (graph.sub #c #m) (graph.div #k (graph.sqrt (graph.add #v \
                (graph.constant {value = (splat ?e ?v)})))))) \
            {strides = ?s, pads = ?p, dilations = ?d, groups = ?g})",
        if "(varies ?x)"),
    rule!(equal reassoc "batch-norm-is-scale-and-shift",
        "(graph.batch_norm ?x #k #b #m #v {epsilon = ?e})"
        => "(graph.add \
            (graph.mul ?x (graph.reshape (graph.div #k (graph.sqrt (graph.add #v \
                (graph.constant {value = (splat ?e ?v)}))))):(channels-of ?k ?x)) \
            (graph.reshape (graph.sub #b (graph.mul #m (graph.div #k (graph.sqrt (graph.add #v \
                (graph.constant {value = (splat ?e ?v)}))))))):(channels-of ?k ?x))"),
    // Padding.
    rule!("pad-into-conv",
        "(graph.conv2d (graph.pad ?x {low = ?l, high = ?h, value = 0.0}) ?rest... \
            {strides = ?s, pads = ?p, dilations = ?d, groups = ?g})"
        => "(graph.conv2d ?x ?rest... \
            {strides = ?s, pads = (more-pads ?p ?l ?h), dilations = ?d, groups = ?g})",
        if "(around-pixels ?l ?h)"),
    rule!(equal "pad-out-of-conv",
        "(graph.conv2d ?x ?rest... {strides = ?s, pads = ?p, dilations = ?d, groups = ?g})"
        => "(graph.conv2d (graph.pad ?x {low = (pads-before ?p), high = (pads-behind ?p), \
            value = (zero ?x)}) ?rest... \
            {strides = ?s, pads = [0, 0, 0, 0], dilations = ?d, groups = ?g})"),
    // A kernel with zeros around it, so that convolutions of unequal kernels can be merged.
    rule!(equal reassoc "enlarge-kernel",
        "(graph.conv2d ?x #w ?rest... {strides = ?s, pads = ?p, dilations = ?d, groups = ?g})"
        => "(graph.conv2d ?x (graph.pad #w {low = [0, 0, 1, 1], high = [0, 0, 1, 1], \
            value = (zero ?w)}) ?rest... \
            {strides = ?s, pads = (wider-pads ?p ?d), dilations = ?d, groups = ?g})",
        if "(kernel-is ?w 1 1)"),
    rule!(equal reassoc "enlarge-kernel-to-rows",
        "(graph.conv2d ?x #w ?rest... {strides = ?s, pads = ?p, dilations = ?d, groups = ?g})"
        => "(graph.conv2d ?x (graph.pad #w {low = [0, 0, 1, 0], high = [0, 0, 1, 0], \
            value = (zero ?w)}) ?rest... \
            {strides = ?s, pads = (higher-pads ?p ?d), dilations = ?d, groups = ?g})",
        if "(kernel-is ?w 1 3)"),
    // 1 x 1 kernels multiply matrices.
    rule!(equal reassoc "conv-1x1-is-matmul",
        "(graph.conv2d ?x ?w {strides = [1, 1], pads = [0, 0, 0, 0], groups = 1}):?T"
        => "(graph.reshape (graph.matmul (graph.reshape ?w):(filter-matrix ?w) \
            (graph.reshape ?x):(pixel-matrix ?x))):?T",
        if "(kernel-is ?w 1 1)"),
    rule!(equal reassoc "conv-1x1-with-bias-is-matmul",
        "(graph.conv2d ?x ?w ?b {strides = [1, 1], pads = [0, 0, 0, 0], groups = 1}):?T"
        => "(graph.reshape (graph.add (graph.matmul (graph.reshape ?w):(filter-matrix ?w) \
            (graph.reshape ?x):(pixel-matrix ?x)) (graph.reshape ?b):(column ?b))):?T",
        if "(kernel-is ?w 1 1)"),
    rule!(equal reassoc "matmul-is-conv-1x1", "(graph.matmul #w ?x):?T"
        => "(graph.reshape (graph.conv2d (graph.reshape ?x):(as-pixels ?x) \
            (graph.reshape #w):(as-filters ?w))):?T",
        if "(has-rank ?w 2) (has-rank ?x 3) (no-zero ?w) (no-zero ?x)"),
    // Linearity.
    rule!(reassoc "factor-input-of-convs",
        "(?f:broadcasts+linear \
            (graph.conv2d ?x ?w {strides = ?s, pads = ?p, dilations = ?d, groups = ?g}) \
            (graph.conv2d ?x ?v {strides = ?s, pads = ?p, dilations = ?d, groups = ?g}))"
        => "(graph.conv2d ?x (?f ?w ?v) \
            {strides = ?s, pads = ?p, dilations = ?d, groups = ?g})",
        if "(varies ?x) (same-type ?w ?v)"),
    rule!(reassoc "factor-weights-of-convs",
        "(?f:broadcasts+linear \
            (graph.conv2d ?x ?w {strides = ?s, pads = ?p, dilations = ?d, groups = ?g}) \
            (graph.conv2d ?y ?w {strides = ?s, pads = ?p, dilations = ?d, groups = ?g}))"
        => "(graph.conv2d (?f ?x ?y) ?w \
            {strides = ?s, pads = ?p, dilations = ?d, groups = ?g})",
        if "(varies ?x) (varies ?y) (same-type ?x ?y)"),
    rule!(equal reassoc "sum-of-convs-is-conv-of-concats",
        "(graph.add \
            (graph.conv2d ?x ?w {strides = ?s, pads = ?p, dilations = ?d, groups = 1}):?T \
            (graph.conv2d ?y ?v {strides = ?s, pads = ?p, dilations = ?d, groups = 1}):?T)"
        => "(graph.conv2d (graph.concat ?x ?y {axis = 1}) (graph.concat ?w ?v {axis = 1}) \
            {strides = ?s, pads = ?p, dilations = ?d, groups = 1})",
        if "(same-but ?x ?y 1) (same-but ?w ?v 1)"),
];
