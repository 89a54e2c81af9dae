//! Orders of steps against all orders there are.

use tir_memory::order::{Held, Options, Program, Step};

/// A program with random needs and buffers.
fn random(seed: u64, count: usize) -> Program {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as usize % below
    };
    let mut program = Program::default();
    for number in 0..count {
        let mut step = Step::default();
        for before in 0..number {
            if next(count) < 3 {
                step.needs.push(before);
                step.touches.push(before);
            }
        }
        // Some are written in place of what they read.
        let own = match step.needs.last() {
            Some(last) if next(6) == 0 => *last,
            _ => number,
        };
        if !step.touches.contains(&own) {
            step.touches.push(own);
        }
        program.steps.push(step);
        program.buffers.push(Held {
            bytes: 1 + next(9) as u64,
            kept: next(12) == 0,
        });
    }
    program
}

/// The lowest peak of all orders, one by one.
fn lowest(program: &Program) -> u64 {
    fn go(program: &Program, order: &mut Vec<usize>, best: &mut u64) {
        if order.len() == program.steps.len() {
            *best = (*best).min(program.peak(order));
            return;
        }
        for step in 0..program.steps.len() {
            let needs = &program.steps[step].needs;
            if !order.contains(&step) && needs.iter().all(|before| order.contains(before)) {
                order.push(step);
                go(program, order, best);
                order.pop();
            }
        }
    }
    let mut best = u64::MAX;
    go(program, &mut Vec::new(), &mut best);
    best
}

#[test]
fn the_lowest_of_all_orders_is_found() {
    let mut lower = 0;
    for seed in 1..=400 {
        let program = random(seed, 7);
        let order = program.order(&Options::default());
        let source: Vec<usize> = (0..7).collect();
        assert_eq!(order.peak, lowest(&program), "seed {seed}: {program:?}");
        assert_eq!(order.peak, program.peak(&order.steps), "seed {seed}");
        assert!(order.exact);
        lower += usize::from(order.peak < program.peak(&source));
    }
    assert!(lower > 40, "{lower} of 400 orders are lower");
}

#[test]
fn with_few_states_an_order_is_possible_and_never_worse() {
    for seed in 1..=100 {
        let program = random(seed, 40);
        let source: Vec<usize> = (0..40).collect();
        let mut before = program.peak(&source);
        for states in [1, 8, 64] {
            let order = program.order(&Options {
                states,
                ..Options::default()
            });
            assert_eq!(order.peak, program.peak(&order.steps), "seed {seed}");
            let mut at = vec![usize::MAX; 40];
            for (place, step) in order.steps.iter().enumerate() {
                at[*step] = place;
            }
            for (number, step) in program.steps.iter().enumerate() {
                assert!(
                    step.needs.iter().all(|b| at[*b] < at[number]),
                    "seed {seed}"
                );
            }
            assert!(order.peak <= program.peak(&source), "seed {seed}");
            before = before.min(order.peak);
        }
    }
}
