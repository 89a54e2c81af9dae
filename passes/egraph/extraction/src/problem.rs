//! What is to be extracted: classes of interchangeable nodes, and the classes wanted.

use std::fmt;

/// One way to compute a class.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What the node itself costs, without its children: finite, not negative, in any unit.
    pub cost: f64,
    /// The class it computes.
    pub class: usize,
    /// The classes it needs, in any order; a class named twice is needed once.
    pub children: Vec<usize>,
}

impl Node {
    /// A node of `class`.
    pub fn new(class: usize, cost: f64, children: impl Into<Vec<usize>>) -> Node {
        let children = children.into();
        Node {
            cost,
            class,
            children,
        }
    }
}

/// An e-graph and its roots. Classes are numbered from zero; a class without nodes is allowed and
/// cannot be computed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Problem {
    /// How many classes there are.
    pub classes: usize,
    /// All nodes, of all classes, in any order. Among equals the earlier one is chosen.
    pub nodes: Vec<Node>,
    /// The classes wanted. One named twice is wanted once.
    pub roots: Vec<usize>,
}

/// A node per class, or none for a class that is not computed.
pub type Choice = Vec<Option<usize>>;

/// Why nothing was extracted.
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// A node, a child or a root names a class beyond the last.
    NoClass {
        /// Who names it, as `node 3` or `root 0`.
        by: String,
        /// The class named.
        class: usize,
        /// How many classes there are.
        classes: usize,
    },
    /// A cost is negative, infinite or no number.
    Cost {
        /// The node.
        node: usize,
        /// Its cost.
        cost: f64,
    },
    /// A root has no finite derivation.
    Infeasible {
        /// The root's class.
        root: usize,
        /// A walk down from the root, each class blocking the one before it.
        path: Vec<usize>,
        /// What stops the last class of the path.
        why: Blocked,
    },
}

/// What stops a class from being computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// The class has no node.
    Empty,
    /// Every node of it needs, directly or not, this class, which is earlier on the path or itself.
    Cycle(usize),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoClass { by, class, classes } => {
                write!(f, "{by} names class {class}, there are {classes}")
            }
            Error::Cost { node, cost } => {
                write!(
                    f,
                    "node {node} costs {cost}, not a finite number from zero up"
                )
            }
            Error::Infeasible { root, path, why } => {
                write!(f, "root class {root} cannot be computed: ")?;
                for (i, class) in path.iter().enumerate() {
                    let arrow = if i == 0 { "" } else { " needs " };
                    write!(f, "{arrow}{class}")?;
                }
                match why {
                    Blocked::Empty => write!(f, ", which has no node"),
                    Blocked::Cycle(class) => write!(f, ", which needs {class} again"),
                }
            }
        }
    }
}

impl std::error::Error for Error {}

impl Problem {
    /// Whether classes and costs are in range.
    ///
    /// # Errors
    /// The first node, then the first root, that is not.
    pub fn check(&self) -> Result<(), Error> {
        let known = |by: &dyn Fn() -> String, class: usize| {
            let classes = self.classes;
            if class < classes {
                return Ok(());
            }
            let by = by();
            Err(Error::NoClass { by, class, classes })
        };
        for (i, node) in self.nodes.iter().enumerate() {
            for &class in std::iter::once(&node.class).chain(&node.children) {
                known(&|| format!("node {i}"), class)?;
            }
            if !node.cost.is_finite() || node.cost < 0.0 {
                return Err(Error::Cost {
                    node: i,
                    cost: node.cost,
                });
            }
        }
        for (i, &root) in self.roots.iter().enumerate() {
            known(&|| format!("root {i}"), root)?;
        }
        Ok(())
    }

    /// The nodes of each class, in their order.
    pub fn members(&self) -> Vec<Vec<usize>> {
        let mut members = vec![Vec::new(); self.classes];
        for (i, node) in self.nodes.iter().enumerate() {
            members[node.class].push(i);
        }
        members
    }
}
