//! Parts of a graph: strongly connected ones, and those that share nothing.

/// For each vertex the number of its strongly connected component (Tarjan, "Depth-first search and
/// linear graph algorithms", 1972).
pub(crate) fn cycles(vertices: usize, edges: &[Vec<usize>]) -> Vec<usize> {
    const NEW: usize = usize::MAX;
    let mut component = vec![NEW; vertices];
    let mut index = vec![NEW; vertices];
    let mut low = vec![0; vertices];
    let (mut open, mut next_index, mut count) = (Vec::new(), 0, 0);
    for start in 0..vertices {
        if index[start] != NEW {
            continue;
        }
        let mut walk = vec![(start, 0)];
        while let Some((v, next)) = walk.pop() {
            if next == 0 {
                (index[v], low[v]) = (next_index, next_index);
                next_index += 1;
                open.push(v);
            }
            if let Some(&w) = edges[v].get(next) {
                walk.push((v, next + 1));
                if index[w] == NEW {
                    walk.push((w, 0));
                } else if component[w] == NEW {
                    low[v] = low[v].min(index[w]);
                }
                continue;
            }
            if low[v] == index[v] {
                loop {
                    let w = open.pop().expect("a component's first vertex is open");
                    component[w] = count;
                    if w == v {
                        break;
                    }
                }
                count += 1;
            }
            if let Some(&(parent, _)) = walk.last() {
                low[parent] = low[parent].min(low[v]);
            }
        }
    }
    component
}

/// How many components there are when edges go both ways, and each vertex's, numbered in order of
/// their first vertices.
pub(crate) fn components(vertices: usize, edges: &[Vec<usize>]) -> (usize, Vec<usize>) {
    let mut parent: Vec<usize> = (0..vertices).collect();
    fn find(parent: &mut [usize], mut v: usize) -> usize {
        while parent[v] != v {
            parent[v] = parent[parent[v]];
            v = parent[v];
        }
        v
    }
    for (v, list) in edges.iter().enumerate() {
        for &w in list {
            let (a, b) = (find(&mut parent, v), find(&mut parent, w));
            // The earlier vertex stands for both.
            parent[a.max(b)] = a.min(b);
        }
    }
    let (mut count, mut component) = (0, vec![0; vertices]);
    for v in 0..vertices {
        let first = find(&mut parent, v);
        if first == v {
            component[v] = count;
            count += 1;
        } else {
            component[v] = component[first];
        }
    }
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
