//! Planners against the independent check, on known instances and on seeded random ones.

use tir_data::Random;
use tir_packing::*;

fn minimalloc(text: &str) -> Problem {
    let (mut buffers, mut lives) = (Vec::new(), Vec::new());
    for line in text.lines().skip(1).filter(|l| !l.is_empty()) {
        let field: Vec<_> = line.split(',').collect();
        let number = |i: usize| field[i].trim().parse::<u64>().unwrap();
        buffers.push(Buffer::new(field[0], number(3)));
        lives.push(std::iter::once(number(1)..number(2)).collect());
    }
    Problem::from_lives(buffers, lives).unwrap()
}

/// The nine near buffers of a double-buffered convolution, all live together.
fn nine() -> Vec<Buffer> {
    let sizes = [
        ("ws", 18432),
        ("r0", 1152),
        ("r1", 1152),
        ("r2", 1152),
        ("r3", 1152),
        ("acc", 2048),
        ("o0", 2048),
        ("o1", 2048),
        ("bs", 128),
    ];
    sizes
        .map(|(name, size)| Buffer {
            align: 64,
            ..Buffer::new(name, size)
        })
        .to_vec()
}

fn all_plans(p: &Problem) -> Vec<Plan> {
    let mut plans = vec![
        colour(p),
        refine(p, Order::Size, 20),
        plan(p, u64::MAX).unwrap(),
    ];
    plans.extend(Order::ALL.map(|o| first_fit(p, o)));
    plans
}

fn random(seed: &mut Random) -> (Vec<Buffer>, Vec<Live>) {
    let n = 1 + seed.below(30);
    let buffer = |seed: &mut Random, i: usize| Buffer {
        align: 1 << seed.below(7),
        group: (seed.below(5) == 0).then(|| seed.below(3) as u32),
        ..Buffer::new(&format!("b{i}"), seed.below(200) as u64)
    };
    let live = |seed: &mut Random| {
        (0..1 + seed.below(3))
            .map(|_| {
                let start = seed.below(60) as u64;
                start..start + seed.below(15) as u64
            })
            .collect()
    };
    let buffers = (0..n).map(|i| buffer(seed, i)).collect();
    let lives = (0..n).map(|_| live(seed)).collect();
    (buffers, lives)
}

/// The height of the largest live set by looking at every time.
fn peak_by_hand(buffers: &[Buffer], lives: &[Live]) -> u64 {
    let at = |t: u64| -> u64 {
        let live = |i: usize| lives[i].iter().any(|l| l.contains(&t));
        let grouped = |i: usize| {
            let g = buffers[i].group;
            live(i) || (g.is_some() && (0..buffers.len()).any(|j| buffers[j].group == g && live(j)))
        };
        (0..buffers.len())
            .filter(|&i| grouped(i))
            .map(|i| buffers[i].size)
            .sum()
    };
    (0..100).map(at).max().unwrap_or(0)
}

#[test]
fn every_plan_is_valid_and_no_lower_than_the_bound() {
    let mut seed = Random::new(7);
    for _ in 0..120 {
        let (buffers, lives) = random(&mut seed);
        let p = Problem::from_lives(buffers.clone(), lives.clone()).unwrap();
        assert_eq!(p.largest_live_set().bytes, peak_by_hand(&buffers, &lives));
        for plan in all_plans(&p) {
            let found = check(&p, &plan.offsets, plan.height);
            assert!(found.is_empty(), "{}: {found:?}", plan.method);
            assert!(plan.height >= plan.lower_bound.bytes);
        }
        // The graph alone gives valid plans too, and a bound that is no lower.
        let g = Problem::from_graph(buffers, p.graph().clone()).unwrap();
        assert!(p.graph().edges().all(|(a, b)| g.graph().has(a, b)));
        let bound = g.largest_live_set();
        assert!(bound.exact && bound.bytes >= p.largest_live_set().bytes);
        for plan in all_plans(&g) {
            assert!(
                check(&p, &plan.offsets, plan.height).is_empty(),
                "{}",
                plan.method
            );
            assert!(plan.height >= bound.bytes);
        }
    }
}

#[test]
fn the_check_finds_what_is_moved() {
    let mut seed = Random::new(11);
    let mut found = 0;
    for _ in 0..80 {
        let (buffers, lives) = random(&mut seed);
        let p = Problem::from_lives(buffers, lives).unwrap();
        let plan = plan(&p, u64::MAX).unwrap();
        for (a, b) in p.graph().edges() {
            if p.buffers()[a].size > 0 && p.buffers()[b].size > 0 {
                let mut offsets = plan.offsets.clone();
                offsets[a] = offsets[b];
                let bad = check(&p, &offsets, u64::MAX);
                assert!(bad.iter().any(|v| matches!(v, Violation::Overlap { .. })));
                found += 1;
            }
        }
        if let Some(b) = p.buffers().iter().position(|b| b.align > 1) {
            let mut offsets = plan.offsets.clone();
            offsets[b] += 1;
            assert!(
                check(&p, &offsets, u64::MAX)
                    .iter()
                    .any(|v| matches!(v, Violation::Misaligned { .. }))
            );
        }
        if plan.height > 0 {
            let bad = check(&p, &plan.offsets, plan.height - 1);
            assert!(bad.iter().all(|v| matches!(v, Violation::Beyond { .. })) && !bad.is_empty());
        }
    }
    assert!(found > 500);
}

#[test]
fn the_clique_bound_is_the_best_clique() {
    let mut seed = Random::new(5);
    for _ in 0..100 {
        let n = 1 + seed.below(12);
        let buffers: Vec<_> = (0..n)
            .map(|i| Buffer::new(&format!("b{i}"), 1 + seed.below(50) as u64))
            .collect();
        let mut graph = Interference::new(n);
        for a in 0..n {
            (0..a)
                .filter(|_| seed.below(3) > 0)
                .for_each(|b| graph.add(a, b));
        }
        let weight = |set: usize| -> u64 {
            let of: Vec<_> = (0..n).filter(|i| set >> i & 1 == 1).collect();
            let clique = of
                .iter()
                .all(|&a| of.iter().all(|&b| a == b || graph.has(a, b)));
            if clique {
                of.iter().map(|&i| buffers[i].size).sum()
            } else {
                0
            }
        };
        let want = (0..1 << n).map(weight).max();
        let p = Problem::from_graph(buffers.clone(), graph.clone()).unwrap();
        let set = p.largest_live_set();
        assert_eq!((Some(set.bytes), set.exact), (want, true));
        assert_eq!(
            set.members.iter().map(|&i| buffers[i].size).sum::<u64>(),
            set.bytes
        );
    }
}

#[test]
fn a_search_that_is_cut_short_says_so() {
    let mut seed = Random::new(2);
    let n = 300;
    let buffers: Vec<_> = (0..n)
        .map(|i| Buffer::new(&format!("b{i}"), 100 + seed.below(9) as u64))
        .collect();
    let edges: Vec<_> = (0..n)
        .flat_map(|a| (0..a).map(move |b| (a, b)))
        .filter(|_| seed.below(10) < 7)
        .collect();
    let p = Problem::from_graph(buffers, Interference::from_edges(n, edges)).unwrap();
    let set = p.largest_live_set();
    assert!(!set.exact && set.bytes > 1000);
    for (k, &a) in set.members.iter().enumerate() {
        assert!(set.members[k + 1..].iter().all(|&b| p.graph().has(a, b)));
    }
}

#[test]
fn all_live_together_is_packed_without_a_gap() {
    let p = Problem::from_lives(nine(), vec![vec![0..10]; 9]).unwrap();
    assert_eq!(p.graph().edges().count(), 36);
    for plan in all_plans(&p) {
        assert_eq!(
            (plan.height, plan.is_optimal()),
            (29312, true),
            "{}",
            plan.method
        );
    }
    assert_eq!(colour(&p).partitions.len(), 9);
    let failure = plan(&p, 29311).unwrap_err();
    assert_eq!(
        (failure.needed, failure.peak, failure.peak_time),
        (29312, 29312, Some(0))
    );
    assert_eq!(
        failure.holders[..2],
        [("ws".to_string(), 18432), ("acc".to_string(), 2048)]
    );
}

#[test]
fn rotating_buffers_live_as_one() {
    let grouped = |i: u32| Buffer {
        group: Some(i),
        ..Buffer::new("r", 10)
    };
    let buffers = vec![grouped(0), grouped(0), Buffer::new("x", 5)];
    let p = Problem::from_lives(buffers, vec![vec![0..2], vec![4..6], vec![5..9]]).unwrap();
    assert_eq!(
        p.graph().edges().collect::<Vec<_>>(),
        [(0, 1), (0, 2), (1, 2)]
    );
    assert_eq!(plan(&p, 100).unwrap().height, 25);
    assert_eq!(check(&p, &[0, 9, 5], 100).len(), 3);
}

#[test]
fn a_buffer_may_live_twice() {
    // a lives around b: b fits into a's gap in time.
    let buffers = vec![Buffer::new("a", 8), Buffer::new("b", 8)];
    let p = Problem::from_lives(buffers, vec![vec![0..2, 5..7], vec![2..5]]).unwrap();
    assert_eq!(plan(&p, 8).unwrap().offsets, [0, 0]);
}

#[test]
fn colouring_puts_the_large_first() {
    // A path: 10 and 9 share, 3 and 2 share.
    let buffers = [("a", 10), ("b", 3), ("c", 9), ("d", 2)]
        .map(|(n, s)| Buffer::new(n, s))
        .to_vec();
    let graph = Interference::from_edges(4, [(0, 1), (1, 2), (2, 3)]);
    let p = Problem::from_graph(buffers, graph).unwrap();
    let c = colour(&p);
    let parts: Vec<_> = c
        .partitions
        .iter()
        .map(|p| (p.offset, p.size, p.members.clone()))
        .collect();
    assert_eq!(parts, [(0, 10, vec![0, 2]), (10, 3, vec![1, 3])]);
    assert_eq!(
        (c.height, c.lower_bound.bytes, c.method.as_str()),
        (13, 13, "colouring by size")
    );
}

#[test]
fn graphs_as_text_and_dot() {
    let buffers = vec![
        Buffer::new("a", 4),
        Buffer::new("say \"b\"", 2),
        Buffer::new("c", 1),
    ];
    let g = Interference::from_edges(3, [(1, 0), (1, 2), (1, 1), (7, 0)]);
    assert_eq!(
        g.text(&buffers),
        "3 buffers, 2 edges\na (4 B): say \"b\"\nsay \"b\" (2 B): a c\nc (1 B): say \"b\"\n"
    );
    let dot = "graph \"spm\" {\n  node [shape=box];\n  b0 [label=\"a\\n4 B\"];\n  b1 [label=\"say \\\"b\\\"\\n2 B\"];\n  \
               b2 [label=\"c\\n1 B\"];\n  b0 -- b1;\n  b1 -- b2;\n}\n";
    assert_eq!(g.dot("spm", &buffers), dot);
}

#[test]
fn bad_problems_are_refused() {
    let odd = Buffer {
        align: 3,
        ..Buffer::new("a", 1)
    };
    let e = Problem::from_lives(vec![odd], vec![vec![]]).unwrap_err();
    assert_eq!(
        e.to_string(),
        "buffer a has alignment 3, expected a power of two"
    );
    let e = Problem::from_lives(vec![], vec![vec![]]).unwrap_err();
    assert_eq!(
        e,
        ProblemError::Count {
            buffers: 0,
            other: 1
        }
    );
    let huge = vec![Buffer::new("a", u64::MAX), Buffer::new("b", u64::MAX)];
    assert_eq!(
        Problem::from_lives(huge, vec![vec![], vec![]]).unwrap_err(),
        ProblemError::TooLarge
    );
    let none = Problem::from_lives(vec![], vec![]).unwrap();
    assert_eq!(plan(&none, 0).unwrap().height, 0);
}

#[test]
fn minimalloc_instances() {
    let tiny = minimalloc(include_str!("data/input.12.csv"));
    assert_eq!(plan(&tiny, 12).unwrap().lower_bound.bytes, 12);
    // (instance, largest live set)
    let instances = [
        (include_str!("data/A.1048576.csv"), 1_048_576),
        (include_str!("data/C.1048576.csv"), 1_039_360),
        (include_str!("data/K.1048576.csv"), 1_048_576),
    ];
    for (text, bound) in instances {
        let p = minimalloc(text);
        assert_eq!(
            (p.largest_live_set().bytes, p.largest_live_set().exact),
            (bound, true)
        );
        let plans = all_plans(&p);
        for plan in &plans {
            let found = check(&p, &plan.offsets, plan.height);
            assert!(found.is_empty(), "{}: {found:?}", plan.method);
        }
        // Greedy planners end 17 to 86 percent above the bound on these; with refinement: 25.
        let best = plans.iter().map(|p| p.height).min().unwrap();
        assert!(best <= bound * 5 / 4, "{best}");
    }
    assert_eq!(plan(&tiny, 12), plan(&tiny, 12));
    let a = minimalloc(instances[0].0);
    assert_eq!(refine(&a, Order::Size, 30), refine(&a, Order::Size, 30));
}

/// Each instance fits the space that it is named after, by the same plan each time.
#[test]
fn all_minimalloc_instances_fit() {
    let instances = [
        include_str!("data/A.1048576.csv"),
        include_str!("data/B.1048576.csv"),
        include_str!("data/C.1048576.csv"),
        include_str!("data/D.1048576.csv"),
        include_str!("data/E.1048576.csv"),
        include_str!("data/F.1048576.csv"),
        include_str!("data/G.1048576.csv"),
        include_str!("data/H.1048576.csv"),
        include_str!("data/I.1048576.csv"),
        include_str!("data/J.1048576.csv"),
        include_str!("data/K.1048576.csv"),
    ];
    for (at, text) in instances.into_iter().enumerate() {
        let p = minimalloc(text);
        let options = Options {
            enough: 1_048_576,
            steps: 600_000,
            ..Options::default()
        };
        let found = solve(&p, &options);
        assert!(found.plan.height <= 1_048_576, "{at}: {found:?}");
        assert!(check(&p, &found.plan.offsets, 1_048_576).is_empty());
        if at % 3 == 0 {
            assert_eq!(found, solve(&p, &options));
        }
    }
}

/// Whether buffers fit a height, by trying all offsets of each.
fn fits(buffers: &[Buffer], lives: &[Live], height: u64, offsets: &mut Vec<u64>) -> bool {
    let i = offsets.len();
    if i == buffers.len() {
        return true;
    }
    let meet = |j: usize| {
        lives[i].iter().any(|a| {
            lives[j]
                .iter()
                .any(|b| a.start.max(b.start) < a.end.min(b.end))
        })
    };
    for at in (0..=height.saturating_sub(buffers[i].size)).step_by(buffers[i].align as usize) {
        let free = (0..i).all(|j| {
            !meet(j) || at + buffers[i].size <= offsets[j] || offsets[j] + buffers[j].size <= at
        });
        let inside = buffers[i]
            .within
            .as_ref()
            .is_none_or(|w| w.start <= at && at + buffers[i].size <= w.end);
        if at + buffers[i].size <= height && free && inside {
            offsets.push(at);
            if fits(buffers, lives, height, offsets) {
                return true;
            }
            offsets.pop();
        }
    }
    false
}

#[test]
fn the_search_is_as_low_as_trying_all_offsets() {
    let mut seed = Random::new(3);
    let (mut above, mut placed) = (0, 0);
    for _ in 0..400 {
        let n = 1 + seed.below(7);
        let mut buffers = Vec::new();
        let mut lives: Vec<Live> = Vec::new();
        for i in 0..n {
            let size = 1 + seed.below(6) as u64;
            let align = 1 << seed.below(3);
            let low = seed.below(3) as u64 * align;
            let within = (seed.below(6) == 0).then(|| low..low + size + seed.below(4) as u64);
            placed += usize::from(within.is_some());
            buffers.push(Buffer {
                align,
                within,
                ..Buffer::new(&format!("b{i}"), size)
            });
            let live = |seed: &mut Random| {
                let start = seed.below(8) as u64;
                start..start + 1 + seed.below(4) as u64
            };
            lives.push((0..1 + seed.below(2)).map(|_| live(&mut seed)).collect());
        }
        let least = (0..60).find(|h| fits(&buffers, &lives, *h, &mut Vec::new()));
        let p = Problem::from_lives(buffers, lives).unwrap();
        let found = solve(&p, &Options::default());
        let Some(least) = least else {
            // Buffers that must lie in the same bytes: the plan is one, and the check says what is wrong with it.
            assert!(!check(&p, &found.plan.offsets, found.plan.height).is_empty());
            continue;
        };
        assert_eq!((found.plan.height, found.bound), (least, least), "{p:?}");
        assert!(check(&p, &found.plan.offsets, least).is_empty());
        above += usize::from(least > p.largest_live_set().bytes);
    }
    // In some the search has raised the bound, in some buffers have places.
    assert!(above > 10 && placed > 100, "{above} {placed}");
}

/// Pairs that share a byte at a time, by looking at each time and each pair.
fn overlaps_by_hand(buffers: &[Buffer], lives: &[Live], offsets: &[u64]) -> Vec<(String, String)> {
    let live = |i: usize, t: u64| {
        let own = |j: usize| lives[j].iter().any(|l| l.contains(&t));
        let group = buffers[i].group;
        own(i) || group.is_some() && (0..buffers.len()).any(|j| buffers[j].group == group && own(j))
    };
    let mut found = Vec::new();
    for i in 0..buffers.len() {
        for j in i + 1..buffers.len() {
            let end = |k: usize| offsets[k] + buffers[k].size;
            let bytes = offsets[i].max(offsets[j]) < end(i).min(end(j));
            if bytes && (0..100).any(|t| live(i, t) && live(j, t)) {
                found.push((buffers[i].name.clone(), buffers[j].name.clone()));
            }
        }
    }
    found
}

#[test]
fn the_check_lists_every_pair_that_overlaps() {
    let mut seed = Random::new(23);
    let mut pairs = 0;
    for _ in 0..200 {
        let (mut buffers, lives) = random(&mut seed);
        buffers.iter_mut().for_each(|b| b.align = 1);
        let offsets: Vec<u64> = buffers.iter().map(|_| seed.below(600) as u64).collect();
        let want = overlaps_by_hand(&buffers, &lives, &offsets);
        let p = Problem::from_lives(buffers.clone(), lives).unwrap();
        let of = |p: &Problem| {
            let found = check(p, &offsets, u64::MAX).into_iter();
            let pair = |v| match v {
                Violation::Overlap { a, b, .. } => (a, b),
                other => panic!("{other}"),
            };
            found.map(pair).collect::<Vec<_>>()
        };
        assert_eq!(of(&p), want);
        let g = Problem::from_graph(buffers, p.graph().clone()).unwrap();
        assert_eq!(of(&g), want);
        pairs += want.len();
    }
    assert!(pairs > 1000, "{pairs}");
}

#[test]
fn a_large_plan_is_checked_in_a_moment() {
    // 50,000 buffers in a pyramid of 250 levels, and the same with one of them moved by a byte.
    let (mut buffers, mut lives) = (Vec::new(), Vec::<Live>::new());
    let mut offsets = Vec::new();
    for i in 0..50_000u64 {
        buffers.push(Buffer::new(&format!("b{i}"), 8));
        lives.push(std::iter::once(i..i + 250).collect());
        offsets.push(i % 250 * 8);
    }
    let p = Problem::from_lives(buffers, lives).unwrap();
    assert!(check(&p, &offsets, 2000).is_empty());
    offsets[30_001] += 1;
    assert_eq!(check(&p, &offsets, 2000).len(), 2);
    let bad = vec![0; offsets.len()];
    assert_eq!(check(&p, &bad, 2000).len(), tir_packing::OVERLAPS);
}

/// Buffers of one size, placed in the order in which they begin to live, take as few places as live at once; by falling lifetime they
/// take more, and what is smaller lies above them.
#[test]
fn equal_sizes_by_start() {
    let lives = [8..11, 9..10, 3..4, 6..9, 1..5, 4..7, 1..3];
    let sizes = [64, 64, 64, 64, 64, 16, 16];
    let buffers = sizes.map(|size| Buffer::new("b", size)).to_vec();
    let lives = lives.map(|live| vec![live]).to_vec();
    let problem = Problem::from_lives(buffers, lives).unwrap();
    assert_eq!(problem.largest_live_set().bytes, 128);
    assert_eq!(first_fit(&problem, Order::Equal).height, 128);
    assert_eq!(first_fit(&problem, Order::Size).height, 144);
}
