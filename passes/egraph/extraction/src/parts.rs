//! Parts of a graph: strongly connected ones, and those that share nothing.

use petgraph::algo::kosaraju_scc;
use petgraph::graph::DiGraph;
use petgraph::unionfind::UnionFind;

use crate::core::Core;

fn pairs(edges: &[Vec<usize>]) -> impl Iterator<Item = (usize, usize)> {
    let from = edges.iter().enumerate();
    from.flat_map(|(v, list)| list.iter().map(move |&w| (v, w)))
}

/// For each vertex the number of its strongly connected component.
pub(crate) fn cycles(vertices: usize, edges: &[Vec<usize>]) -> Vec<usize> {
    let mut graph = DiGraph::<(), (), usize>::default();
    (0..vertices).for_each(|_| _ = graph.add_node(()));
    graph.extend_with_edges(pairs(edges));
    let mut component = vec![0; vertices];
    for (number, members) in kosaraju_scc(&graph).iter().enumerate() {
        members.iter().for_each(|v| component[v.index()] = number);
    }
    component
}

/// The classes of a component in groups that need each other, children first.
pub(crate) fn components_in_order(core: &Core) -> Vec<Vec<u32>> {
    let mut graph = DiGraph::<(), (), u32>::default();
    (0..core.classes).for_each(|_| _ = graph.add_node(()));
    for node in 0..core.nodes() {
        let class = core.class[node];
        graph.extend_with_edges(core.children.of(node).iter().map(|child| (class, *child)));
    }
    let groups = kosaraju_scc(&graph).into_iter();
    let sorted = groups.map(|group| {
        let mut group: Vec<u32> = group.iter().map(|v| v.index() as u32).collect();
        group.sort_unstable();
        group
    });
    sorted.collect()
}

/// How many components there are when edges go both ways, and each vertex's, numbered in order of
/// their first vertices.
pub(crate) fn components(vertices: usize, edges: &[Vec<usize>]) -> (usize, Vec<usize>) {
    let mut sets = UnionFind::new(vertices);
    pairs(edges).for_each(|(v, w)| _ = sets.union(v, w));
    let mut number = vec![None; vertices];
    let mut count = 0;
    let numbered = sets.into_labeling().into_iter().map(|set| {
        *number[set].get_or_insert_with(|| {
            count += 1;
            count - 1
        })
    });
    let component = numbered.collect();
    (count, component)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_small_graphs() {
        // 0 -> 1 -> 2 -> 1, 3 -> 0; 4 alone; 5 <-> 6.
        let edges = [vec![1], vec![2], vec![1], vec![0], vec![], vec![6], vec![5]];
        let strong = cycles(7, &edges);
        assert_eq!(strong[1], strong[2]);
        assert_eq!(strong[5], strong[6]);
        let mut distinct = strong.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), 5);
        assert_eq!(components(7, &edges), (3, vec![0, 0, 0, 0, 1, 2, 2]));
    }
}
