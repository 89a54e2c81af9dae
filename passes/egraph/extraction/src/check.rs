//! Judges a choice; shares nothing with the solvers.

use std::fmt;

use crate::{Choice, Problem};

/// What is wrong with a choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The choice has another number of classes than the problem.
    Length(usize),
    /// A class is needed and no node is chosen for it.
    Missing(usize),
    /// The node chosen for a class is none of that class's.
    Foreign(usize),
    /// The class needs itself through what is chosen.
    Cycle(usize),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Length(n) => write!(f, "the choice is for {n} classes"),
            Violation::Missing(class) => write!(f, "class {class} is needed and has no node"),
            Violation::Foreign(class) => write!(f, "the node of class {class} is not of it"),
            Violation::Cycle(class) => write!(f, "class {class} needs itself"),
        }
    }
}

impl std::error::Error for Violation {}

/// The classes that `choice` computes for the roots, children before users, and their cost: each
/// chosen node once. Classes that no root needs are left out whether or not they have a node.
///
/// # Errors
/// The first violation met on a walk from the roots in order, depth first.
pub fn check(problem: &Problem, choice: &Choice) -> Result<(Vec<usize>, f64), Violation> {
    if choice.len() != problem.classes {
        return Err(Violation::Length(choice.len()));
    }
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Done,
    }
    let mut marks = vec![Mark::New; problem.classes];
    let (mut order, mut cost) = (Vec::new(), 0.0);
    for &root in &problem.roots {
        let mut stack = vec![(root, 0)];
        while let Some((class, next)) = stack.pop() {
            let node = choice[class].ok_or(Violation::Missing(class))?;
            let node = problem.nodes.get(node).ok_or(Violation::Foreign(class))?;
            if next == 0 {
                match marks[class] {
                    Mark::Done => continue,
                    Mark::Open => return Err(Violation::Cycle(class)),
                    Mark::New if node.class != class => return Err(Violation::Foreign(class)),
                    Mark::New => marks[class] = Mark::Open,
                }
            }
            if let Some(&child) = node.children.get(next) {
                stack.push((class, next + 1));
                stack.push((child, 0));
            } else {
                marks[class] = Mark::Done;
                order.push(class);
                cost += node.cost;
            }
        }
    }
    Ok((order, cost))
}
