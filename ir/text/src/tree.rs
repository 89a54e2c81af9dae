//! What pest reads, as a flat tree.

use pest::Parser;
use pest::error::Error;

#[derive(pest_derive::Parser)]
#[grammar = "grammar.pest"]
pub(crate) struct Grammar;

/// A rule that matched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) rule: Rule,
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// The index behind all nodes below it.
    pub(crate) next: u32,
}

/// The nodes of a text in order, holders first.
pub(crate) struct Tree<'t> {
    pub(crate) text: &'t str,
    pub(crate) nodes: Vec<Node>,
}

impl<'t> Tree<'t> {
    /// Reads a text by a rule.
    pub(crate) fn parse(rule: Rule, text: &'t str) -> Result<Self, Box<Error<Rule>>> {
        let pairs = Grammar::parse(rule, text)?;
        let mut nodes: Vec<Node> = Vec::with_capacity(pairs.len());
        let mut open: Vec<u32> = Vec::new();
        for token in pairs.tokens() {
            match token {
                pest::Token::Start { rule, pos } => {
                    open.push(nodes.len() as u32);
                    let start = pos.pos() as u32;
                    nodes.push(Node {
                        rule,
                        start,
                        end: start,
                        next: 0,
                    });
                }
                pest::Token::End { pos, .. } => {
                    if let Some(index) = open.pop() {
                        let next = nodes.len() as u32;
                        let node = &mut nodes[index as usize];
                        node.end = pos.pos() as u32;
                        node.next = next;
                    }
                }
            }
        }
        Ok(Self { text, nodes })
    }

    pub(crate) fn view(&self) -> View<'_> {
        View {
            text: self.text,
            nodes: &self.nodes,
        }
    }
}

/// A tree to walk over.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) text: &'a str,
    pub(crate) nodes: &'a [Node],
}

impl<'a> View<'a> {
    pub(crate) fn node(self, index: usize) -> Node {
        self.nodes[index]
    }
    /// The text of a node.
    pub(crate) fn str(self, index: usize) -> &'a str {
        let node = self.nodes[index];
        self.text
            .get(node.start as usize..node.end as usize)
            .unwrap_or("")
    }
    /// The nodes directly below a node.
    pub(crate) fn children(self, index: usize) -> impl Iterator<Item = usize> + 'a {
        let end = self.nodes[index].next as usize;
        let mut at = index + 1;
        std::iter::from_fn(move || {
            let here = at;
            (here < end).then(|| {
                at = self.nodes[here].next as usize;
                here
            })
        })
    }
}
