//! Extraction against trying every choice, on small random e-graphs with cycles, shared nodes, zero
//! costs and classes that cannot be computed.

use tir_data::Random;
use tir_extraction::*;

/// An e-graph of up to 8 classes and 18 nodes; edges go anywhere, so that many are cyclic.
fn random_problem(random: &mut Random) -> Problem {
    let classes = 2 + random.below(7);
    let count = classes + random.below(11);
    let dense = 1 + random.below(3);
    // Mostly forwards, or anywhere.
    let layered = random.below(2) == 0;
    let nodes = (0..count).map(|i| {
        // Every class gets a node, except sometimes.
        let class = if i < classes && random.below(20) > 0 {
            i
        } else {
            random.below(classes)
        };
        let cost = [0.0, 1.0, 1.0, 2.0, 0.1, 3.7, 7.0][random.below(7)];
        let children = (0..random.below(dense + 2)).filter_map(|_| {
            let child = random.below(classes);
            let forwards = child > class || random.below(8) == 0;
            (!layered || forwards).then_some(child)
        });
        Node::new(class, cost, children.collect::<Vec<_>>())
    });
    let nodes = nodes.collect();
    let roots = (0..1 + random.below(3))
        .map(|_| random.below(classes))
        .collect();
    Problem {
        classes,
        nodes,
        roots,
    }
}

/// A root over some classes, each of which has some nodes over some shared leaves: what is to be
/// decided is which leaves to pay.
fn covering_problem(random: &mut Random) -> Problem {
    let (middle, leaves) = (2 + random.below(4), 2 + random.below(5));
    let mut nodes = vec![Node::new(0, 0.0, (1..=middle).collect::<Vec<_>>())];
    for class in 1..=middle {
        for _ in 0..1 + random.below(3) {
            let cost = [0.0, 0.0, 0.5, 1.0][random.below(4)];
            let children = (0..1 + random.below(3)).map(|_| 1 + middle + random.below(leaves));
            nodes.push(Node::new(class, cost, children.collect::<Vec<_>>()));
        }
    }
    for leaf in 0..leaves {
        nodes.push(Node::new(
            1 + middle + leaf,
            1.0 + random.below(4) as f64,
            [],
        ));
    }
    let classes = 1 + middle + leaves;
    Problem {
        classes,
        nodes,
        roots: vec![0],
    }
}

/// Gates: the sum of two rows, each times a matrix of its own. Of each row any two products may be computed as one, for less
/// than each by itself, and a gate reads its product from there, or two gates at once do. What is multiplied is free.
fn gates_problem(random: &mut Random, gates: usize) -> Problem {
    let [rows, matrices] = [1 + gates, 3 + gates];
    let mut classes = matrices + 2 * gates;
    let mut nodes = Vec::new();
    for leaf in rows..classes {
        nodes.push(Node::new(leaf, 0.0, []));
    }
    // By row and gate, the classes that the product is read from.
    let mut sources = vec![vec![Vec::new(); gates]; 2];
    for (row, sources) in sources.iter_mut().enumerate() {
        let matrix = |gate: usize| matrices + row * gates + gate;
        for a in 0..gates {
            for b in a..gates {
                let mut children = vec![rows + row, matrix(a), matrix(b)];
                children.dedup();
                let each = if a == b { 100 } else { 190 };
                let cost = each + random.below(10);
                nodes.push(Node::new(classes, cost as f64, children));
                sources[a].push(classes);
                if a != b {
                    sources[b].push(classes);
                }
                classes += 1;
            }
        }
    }
    for (gate, (first, second)) in sources[0].iter().zip(&sources[1]).enumerate() {
        for &x in first {
            for &y in second {
                let cost = 1 + random.below(4);
                nodes.push(Node::new(1 + gate, cost as f64, [x, y]));
            }
        }
    }
    let mut root = Vec::new();
    for gate in (0..gates).step_by(2) {
        let both = gate..gates.min(gate + 2);
        let children: Vec<usize> = both.clone().map(|gate| 1 + gate).collect();
        nodes.push(Node::new(classes, 6.0, children));
        for _ in 0..5 * gates {
            let read = both.clone().flat_map(|gate| [(0, gate), (1, gate)]);
            let of = |(row, gate): (usize, usize)| {
                let read_from = &sources[row][gate];
                read_from[random.below(read_from.len())]
            };
            let children: Vec<usize> = read.map(of).collect();
            nodes.push(Node::new(classes, 3.0, children));
        }
        root.push(classes);
        classes += 1;
    }
    nodes.push(Node::new(0, 0.0, root));
    Problem {
        classes,
        nodes,
        roots: vec![0],
    }
}

/// The cost of the cheapest valid choice, by trying all; none if there is none.
fn cheapest(problem: &Problem) -> Option<f64> {
    fn walk(
        problem: &Problem,
        members: &[Vec<usize>],
        choice: &mut Choice,
        best: &mut Option<f64>,
    ) {
        match check(problem, choice) {
            Ok((_, cost)) if best.is_none_or(|b| cost < b) => *best = Some(cost),
            Err(Violation::Missing(class)) => {
                for &node in &members[class] {
                    choice[class] = Some(node);
                    walk(problem, members, choice, best);
                }
                choice[class] = None;
            }
            _ => {}
        }
    }
    let mut best = None;
    let mut choice = vec![None; problem.classes];
    walk(problem, &problem.members(), &mut choice, &mut best);
    best
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

#[test]
fn the_cheapest_choice_is_found_and_proved() {
    let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
    let (mut solved, mut infeasible, mut by_search) = (0, 0, 0);
    for case in 0..20_000 {
        let problem = match case % 40 {
            0 => gates_problem(&mut random, 1 + case % 3),
            case if case % 4 == 0 => covering_problem(&mut random),
            _ => random_problem(&mut random),
        };
        match (solve(&problem, &Options::default()), cheapest(&problem)) {
            (Ok(found), Some(best)) => {
                let (order, cost) = check(&problem, &found.choice).expect("a valid choice");
                assert_eq!((order, cost), (found.order.clone(), found.cost));
                assert!(
                    near(found.cost, best),
                    "case {case}: {found:?}, {best}\n{problem:?}"
                );
                assert!(found.is_optimal(), "case {case}: {found:?}");
                let unused = (0..problem.classes).filter(|c| !found.order.contains(c));
                assert!(unused.into_iter().all(|c| found.choice[c].is_none()));
                solved += 1;
                by_search += usize::from(found.method != "bottom-up");
            }
            (Err(Error::Infeasible { .. }), None) => infeasible += 1,
            (found, best) => panic!("case {case}: {found:?}, {best:?}\n{problem:?}"),
        }
    }
    assert!(
        solved > 5_000 && infeasible > 1_000 && by_search > 100,
        "{solved} {infeasible} {by_search}"
    );
}

#[test]
fn bounds_hold_however_early_search_ends() {
    let mut random = Random::new(7);
    for case in 0..3_000 {
        let problem = match case % 10 {
            0 => gates_problem(&mut random, 2),
            _ => random_problem(&mut random),
        };
        let Some(best) = cheapest(&problem) else {
            continue;
        };
        for max_steps in [0, 1, 10, 30, 100, 300, 1_000, 10_000] {
            let options = Options {
                max_steps,
                ..Options::default()
            };
            let found = solve(&problem, &options).expect("a choice");
            assert!(
                found.bound <= best + 1e-9,
                "case {case}, {max_steps} steps: {found:?}, {best}"
            );
            assert!(found.cost >= best - 1e-9);
            assert!(check(&problem, &found.choice).is_ok());
        }
    }
}

#[test]
fn what_is_joined_in_many_ways_is_bounded_by_what_meets() {
    let mut random = Random::new(3);
    for _ in 0..5 {
        // No class and no node is in every derivation but the root and what is multiplied.
        let problem = gates_problem(&mut random, 8);
        let options = Options {
            max_steps: 2_000_000,
            ..Options::default()
        };
        let found = solve(&problem, &options).expect("a choice");
        let gap = 1.0 - found.bound / found.cost;
        assert!(gap < 0.05, "{gap}: {} of {}", found.bound, found.cost);
    }
}

#[test]
fn seeds_are_kept_unless_something_is_cheaper() {
    let mut random = Random::new(99);
    let mut kept = 0;
    for _ in 0..3_000 {
        let problem = random_problem(&mut random);
        let members = problem.members();
        // Some choice, valid or not.
        let seed: Choice = members
            .iter()
            .map(|m| (!m.is_empty()).then(|| m[random.below(m.len())]))
            .collect();
        let options = Options {
            max_steps: 50,
            seeds: vec![seed.clone()],
            ..Options::default()
        };
        let (Ok((order, cost)), Ok(found)) = (check(&problem, &seed), solve(&problem, &options))
        else {
            continue;
        };
        assert!(found.cost <= cost);
        if near(found.cost, cost) {
            assert_eq!(found.method, "seed 0");
            assert!(order.iter().all(|&c| found.choice[c] == seed[c]));
            kept += 1;
        }
    }
    assert!(kept > 100, "{kept}");
}

#[test]
fn the_same_choice_every_time() {
    let mut random = Random::new(5);
    for _ in 0..200 {
        let problem = random_problem(&mut random);
        let first = solve(&problem, &Options::default());
        assert_eq!(first, solve(&problem, &Options::default()));
    }
}

#[test]
fn a_solver_gives_what_solve_gives() {
    let mut random = Random::new(11);
    let mut solved = 0;
    for case in 0..600 {
        let problem = match case % 6 {
            0 => gates_problem(&mut random, 3),
            _ => random_problem(&mut random),
        };
        let Some(best) = cheapest(&problem) else {
            assert!(Solver::new(problem, 1_000).is_err());
            continue;
        };
        let solver = Solver::new(problem.clone(), 1_000_000).expect("a choice");
        assert!(solver.is_of(&problem, 1_000_000) && !solver.is_of(&problem, 1_000));
        let mut seeds = Vec::new();
        for _ in 0..3 {
            let options = Options {
                max_steps: 1_000_000,
                seeds: seeds.clone(),
                ..Options::default()
            };
            let found = solver.solve(&seeds);
            let alone = solve(&problem, &options).expect("a choice");
            assert_eq!(
                (found.cost, found.bound, &found.choice),
                (alone.cost, alone.bound, &alone.choice)
            );
            assert!(near(found.cost, best), "case {case}");
            seeds.push(found.choice);
        }
        // However few steps there are, no answer is dearer than a seed, and no bound is wrong.
        for max_steps in [0, 10, 100, 1_000] {
            let solver = Solver::new(problem.clone(), max_steps).expect("a choice");
            let first = solver.solve(&[]);
            let second = solver.solve(std::slice::from_ref(&first.choice));
            assert!(second.cost <= first.cost && second.bound <= best + 1e-9);
        }
        solved += 1;
    }
    assert!(solved > 200, "{solved}");
}

#[test]
fn what_cannot_be_computed_says_why() {
    let message = |nodes: Vec<Node>, roots: Vec<usize>| {
        let problem = Problem {
            classes: 4,
            nodes,
            roots,
        };
        solve(&problem, &Options::default())
            .expect_err("no choice")
            .to_string()
    };
    let cyclic = vec![
        Node::new(0, 1.0, [1]),
        Node::new(1, 1.0, [2, 3]),
        Node::new(2, 1.0, [1]),
        Node::new(3, 1.0, []),
    ];
    assert_eq!(
        message(cyclic, vec![3, 0]),
        "root class 0 cannot be computed: 0 needs 1 needs 2, which needs 1 again"
    );
    assert_eq!(
        message(vec![Node::new(0, 1.0, [2])], vec![0]),
        "root class 0 cannot be computed: 0 needs 2, which has no node"
    );
    assert_eq!(
        message(vec![], vec![4]),
        "root 0 names class 4, there are 4"
    );
    assert_eq!(
        message(vec![Node::new(0, 1.0, [9])], vec![0]),
        "node 0 names class 9, there are 4"
    );
    assert_eq!(
        message(vec![Node::new(0, -1.0, [])], vec![0]),
        "node 0 costs -1, not a finite number from zero up"
    );
}

#[test]
fn no_roots_cost_nothing() {
    let problem = Problem {
        classes: 1,
        nodes: vec![Node::new(0, 2.0, [])],
        roots: vec![],
    };
    let found = solve(&problem, &Options::default()).expect("nothing to do");
    assert_eq!((found.cost, found.bound, found.order), (0.0, 0.0, vec![]));
}
