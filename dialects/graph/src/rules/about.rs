//! What the guards and functions of this dialect say of themselves, for `--list-rules` and the reference.

/// By name: arguments as they are written, and a sentence.
pub(super) const ABOUT: &[(&str, &str, &str)] = &[
    ("varies", "?x", "`?x` is no constant."),
    ("same-type", "?x ?y", "Both have one type."),
    ("same-rank", "?x ?y", "Both have as many dimensions."),
    ("has-rank", "?x n", "`?x` has `n` dimensions."),
    (
        "has-numbers",
        "?x",
        "Its elements are numbers, no truth values.",
    ),
    (
        "has-signs",
        "?x",
        "Its elements are floats, or integers that say nothing of signs or have one.",
    ),
    ("has-floats", "?x", "Its elements are floats."),
    ("no-zero", "?x", "No dimension is 0."),
    (
        "same-but",
        "?x ?y axis",
        "The types are equal but for this dimension.",
    ),
    (
        "broadcasts-to",
        "?x ?y ?z",
        "The shapes of `?x` and `?y` broadcast to that of `?z`.",
    ),
    (
        "last-dims",
        "?axes ?x",
        "These are the last dimensions of `?x`, in order.",
    ),
    ("has-fewer", "?x ?y", "`?x` has fewer elements than `?y`."),
    (
        "one-row",
        "?x",
        "It is one number for each column of a matrix: the dimension before the last is 1.",
    ),
    (
        "one-column",
        "?x",
        "It is one number for each row of a matrix: the last dimension is 1.",
    ),
    ("list", "?i", "The list of this number alone."),
    (
        "dims-from",
        "axis ?x",
        "The dimensions of `?x` from this one to the last.",
    ),
    ("last-axis", "?x", "The last dimension."),
    ("row-axis", "?x", "The dimension before the last."),
    ("zeros", "?x", "A 0 for each dimension."),
    ("ones", "?x", "A 1 for each dimension."),
    (
        "behind",
        "?x axis",
        "Where a part begins that lies behind one of this type along a dimension.",
    ),
    (
        "by-channel",
        "?c",
        "It is one number for each channel of an image: `1 x C x 1 x 1`, leading ones left out.",
    ),
    (
        "channels-fit",
        "?c ?w",
        "It is one number, or one for each of the filters `?w`.",
    ),
    (
        "bias-of",
        "?c ?w",
        "It is one number for each of the filters `?w`.",
    ),
    (
        "repeats",
        "?x ?apart ?repeated ?whole",
        "`?apart` is `?x` with a dimension of 1 behind some; in `?repeated` these are larger; `?whole` has each joined with the dimension before it.",
    ),
    (
        "resizes-pixels",
        "?x ?y ?scales",
        "Batch and channels are those of `?x` in `?y`, which it is resized to by these scales, if there are any.",
    ),
    (
        "kernel-is",
        "?w h w",
        "The kernel of these filters has this size.",
    ),
    (
        "around-pixels",
        "?low ?high",
        "This padding leaves batch and channels as they are.",
    ),
    (
        "has-same-pads",
        "?pads ?w...",
        "These pads keep the size of an image at stride 1, for the largest kernel of these filters.",
    ),
    (
        "has-inside",
        "?kernel ?pads ?dilations",
        "Every window has an element of the image in it.",
    ),
    (
        "by-filter",
        "?c",
        "The type `C x 1 x 1 x 1` of one number for each channel.",
    ),
    ("flat", "?c", "The type `C` of one number for each channel."),
    (
        "filters-of",
        "?k",
        "The type `C x 1 x 1 x 1` for a vector of `C`.",
    ),
    (
        "channels-of",
        "?k ?x",
        "The type `C x 1 x ... x 1` by which a vector of `C` broadcasts to the channels of `?x`.",
    ),
    ("column", "?b", "The type `C x 1` for a vector of `C`."),
    (
        "filter-matrix",
        "?w",
        "The type of 1 x 1 filters as a matrix.",
    ),
    (
        "pixel-matrix",
        "?x",
        "The type of an image with its pixels in one dimension.",
    ),
    (
        "as-pixels",
        "?x",
        "The type `N x C x P x 1` for `N x C x P`.",
    ),
    (
        "as-filters",
        "?w",
        "The type `O x I x 1 x 1` for a matrix `O x I`.",
    ),
    (
        "more-pads",
        "?pads ?low ?high",
        "Pads of a convolution and of the image before it together.",
    ),
    (
        "pads-before",
        "?pads",
        "The low padding of an image by these pads.",
    ),
    (
        "pads-behind",
        "?pads",
        "The high padding of an image by these pads.",
    ),
    (
        "wider-pads",
        "?pads ?dilations",
        "Pads for a kernel that is wider and higher by one on all sides.",
    ),
    (
        "higher-pads",
        "?pads ?dilations",
        "Pads for a kernel that is higher by one at top and bottom.",
    ),
    (
        "same-pads",
        "?w...",
        "Pads that keep the size of an image at stride 1, for the largest kernel of these filters.",
    ),
    (
        "kernel-of-both",
        "?k ?l",
        "The window of two windows of stride 1, one after the other.",
    ),
    (
        "first-inputs",
        "?w ?x",
        "The sizes of the part of filters for as many channels as `?x` has.",
    ),
    (
        "behind-inputs",
        "?x",
        "Where filters for the channels behind those of `?x` begin.",
    ),
    (
        "is-identity",
        "?perm",
        "The order leaves all dimensions where they are.",
    ),
    (
        "swaps-matrix",
        "?perm",
        "The order swaps the last two dimensions and no others.",
    ),
    (
        "moves-units",
        "?x ?perm",
        "The order moves dimensions of 1 alone.",
    ),
    (
        "keeps-order",
        "?axes ?perm",
        "Dimensions that are not reduced stay in their order.",
    ),
    (
        "is-last",
        "axis ?x ?y",
        "It is the last dimension of what `?x` and `?y` broadcast to.",
    ),
    (
        "compose",
        "?p ?q",
        "The order that is first `?p`, then `?q`; or the elements of `?p` at the places `?q`.",
    ),
    ("inverse", "?perm", "The order that undoes it."),
    ("at", "?l i", "An element of a list."),
    (
        "axes-before",
        "?axes ?perm",
        "What these dimensions were called before they were put in this order.",
    ),
    ("axes-of-both", "?a ?b", "All of these dimensions, sorted."),
    ("all-one", "?l", "All elements of the list are 1."),
    (
        "lies-inside",
        "?x axis ?starts ?sizes ?steps",
        "The part lies within `?x` along a dimension; starts count from where `?x` begins.",
    ),
    (
        "adjacent",
        "?starts ?sizes ?others ?steps axis",
        "A slice goes on where another ends, in this dimension and no other.",
    ),
    (
        "steps-fit",
        "?s ?t",
        "The products of these steps have a place in 64 bits.",
    ),
    (
        "is-whole-but",
        "?x ?starts ?sizes ?steps axis",
        "The slice takes all of `?x` but along this dimension.",
    ),
    (
        "lies-behind",
        "axis ?starts ?sizes ?steps ?x...",
        "The part of a concatenation lies behind all of these operands, which are its first.",
    ),
    (
        "starts-of-part",
        "?x axis ?sizes k",
        "Where part `k` of a split into these sizes begins.",
    ),
    ("with", "?l i n", "The list with this number at this place."),
    (
        "start-behind",
        "?starts ?x axis",
        "Starts counted from the end of `?x` along a dimension.",
    ),
    (
        "start-of-both",
        "?outer ?steps ?inner",
        "The starts of a slice of a slice.",
    ),
    (
        "product",
        "?s ?t",
        "The product of two lists place by place, modulo 2^64.",
    ),
    (
        "joined",
        "?n ?m axis",
        "Sizes with those of another part added along a dimension.",
    ),
    ("is-zero", "?a", "The number is 0."),
    ("is-absent", "?a", "The op has no such attribute."),
    ("zero", "?x", "The zero of the elements of `?x`."),
    (
        "mean-filters",
        "?x ?k",
        "Filters that make means of windows `?k` of an image: one for each channel, all elements one of their number.",
    ),
    (
        "centering",
        "?x",
        "The matrix by which rows of `?x` lose their mean: the identity less one in as many as its size. Up to 256, of f32 and f64.",
    ),
    (
        "mean-column",
        "?x",
        "A column by which rows of `?x` become their mean: one in as many as its size, each.",
    ),
    (
        "identity-of-rows",
        "?x ?s",
        "The identity, as large as `?x` has rows, where `?s` has one number for each of them and rows are longer than there are of them. Up to 256, of f32 and f64.",
    ),
    (
        "pool-matrix",
        "?x ?axis ?kernel ?strides ?pads ?dilations ?ceil ?count",
        "The matrix that gives the means of a pool's windows along an axis of images; in it, a window is the product of a row of each axis. Up to 256 rows and columns, of f32 and f64; none where a window has no element.",
    ),
    (
        "minus-filters",
        "?x",
        "Filters that turn the sign of each channel of an image: one for each, its only element -1.",
    ),
    (
        "channel-splat",
        "?a ?x",
        "A constant of this number for each channel of an image.",
    ),
    (
        "scalar",
        "?a ?x",
        "A constant of this number alone, of the elements of `?x`.",
    ),
    (
        "only-number",
        "#c",
        "The number of a constant that has one.",
    ),
    (
        "splat",
        "?a ?x",
        "A constant of the type of `?x` with all elements this number.",
    ),
    (
        "raise-low",
        "?a ?b",
        "The larger of two lower bounds; absent ones are below every number.",
    ),
    (
        "raise-high",
        "?a ?b",
        "The upper bound `?a`, but at least `?b`; an absent one is above every number.",
    ),
    (
        "bound-high",
        "?high ?low ?other",
        "The upper bound of a clip to at most `?high`, then to at least `?low` and at most `?other`.",
    ),
    (
        "sum-is-finite",
        "?a ?b",
        "No sum of elements of two constants is infinite.",
    ),
    (
        "product-is-normal",
        "?a ?b",
        "Every product of elements of two constants is 0 or a normal number.",
    ),
    (
        "product-is-finite",
        "?a ?b",
        "No product is infinite, and the largest is a normal number or 0.",
    ),
    (
        "sums-are-finite",
        "?x...",
        "`sum-is-finite` for every two of these that are constants.",
    ),
    (
        "products-are-normal",
        "?x...",
        "`product-is-normal` for every two of these that are constants.",
    ),
    (
        "reciprocal-is-normal",
        "?c",
        "The reciprocal of every element is a normal number.",
    ),
];
