//! Reachability and dominators.
//!
//! A node dominates another if every path from the top to the other leads through it: without the first, the
//! second would be freed. The simple algorithm of Lengauer and Tarjan ("A fast algorithm for finding
//! dominators in a flowgraph", 1979), O(edges × log nodes), without recursion.

use super::layout::Adjacency;

/// No node.
pub(crate) const NONE: u32 = u32::MAX;

/// Searches breadth first from `top`. Returns, for each node, its predecessor on a shortest path, or [`NONE`]
/// if it is unreachable; the predecessor of `top` is `top`.
pub(crate) fn parents(graph: &Adjacency, top: u32) -> Vec<u32> {
    let mut parents = vec![NONE; graph.nodes() as usize];
    let mut level = Vec::new();
    if let Some(own) = parents.get_mut(top as usize) {
        *own = top;
        level.push(top);
    }
    while !level.is_empty() {
        let mut following = Vec::new();
        for &node in &level {
            for &next in graph.of(node) {
                let parent = &mut parents[next as usize];
                if *parent == NONE {
                    *parent = node;
                    following.push(next);
                }
            }
        }
        level = following;
    }
    parents
}

/// The dominators of the nodes that `top` reaches. Below, a *number* is a node's position in a depth-first
/// order; that of `top` is 0.
#[derive(Debug)]
pub(crate) struct Dominators {
    /// The node of each number.
    pub(crate) nodes: Vec<u32>,
    /// The number of each node's immediate dominator, by number. That of 0 is 0.
    pub(crate) dominator: Vec<u32>,
}

impl Dominators {
    /// Finds the dominators.
    pub(crate) fn of(graph: &Adjacency, top: u32) -> Self {
        let (nodes, parent, number) = depth_first(graph, top);
        let count = nodes.len() as u32;
        let into = graph.reversed(&number, count);
        drop(number);
        let mut forest = Forest::new(count);
        let mut dominator = vec![0u32; nodes.len()];
        // Nodes whose semidominator is this one: a list through `next`.
        let (mut first, mut next) = (vec![NONE; nodes.len()], vec![NONE; nodes.len()]);
        for w in (1..count).rev() {
            let mut semi = forest.semi[w as usize];
            for &v in into.of(w) {
                let u = forest.evaluate(v);
                semi = semi.min(forest.semi[u as usize]);
            }
            forest.semi[w as usize] = semi;
            next[w as usize] = std::mem::replace(&mut first[semi as usize], w);
            let up = parent[w as usize];
            forest.ancestor[w as usize] = up;
            let mut v = std::mem::replace(&mut first[up as usize], NONE);
            while v != NONE {
                let u = forest.evaluate(v);
                let earlier = forest.semi[u as usize] < forest.semi[v as usize];
                dominator[v as usize] = if earlier { u } else { up };
                v = std::mem::replace(&mut next[v as usize], NONE);
            }
        }
        for w in 1..nodes.len() {
            if dominator[w] != forest.semi[w] {
                dominator[w] = dominator[dominator[w] as usize];
            }
        }
        Dominators { nodes, dominator }
    }

    /// Sums `own` over the nodes that each node dominates, including itself, by number.
    pub(crate) fn sums(&self, own: impl Fn(u32) -> u64) -> Vec<u64> {
        let mut sums: Vec<u64> = self.nodes.iter().map(|&node| own(node)).collect();
        for w in (1..sums.len()).rev() {
            sums[self.dominator[w] as usize] += sums[w];
        }
        sums
    }
}

/// Returns the nodes in depth-first order, the parent's number of each, and the number of each node.
fn depth_first(graph: &Adjacency, top: u32) -> (Vec<u32>, Vec<u32>, Vec<u32>) {
    let mut number = vec![NONE; graph.nodes() as usize];
    let (mut nodes, mut parent) = (Vec::new(), Vec::new());
    // A node, and the number of its edges followed so far.
    let mut stack: Vec<(u32, u32)> = Vec::new();
    if let Some(own) = number.get_mut(top as usize) {
        *own = 0;
        nodes.push(top);
        parent.push(0);
        stack.push((top, 0));
    }
    while let Some((node, followed)) = stack.last_mut() {
        let Some(&to) = graph.of(*node).get(*followed as usize) else {
            stack.pop();
            continue;
        };
        *followed += 1;
        let from = number[*node as usize];
        let own = &mut number[to as usize];
        if *own == NONE {
            *own = nodes.len() as u32;
            nodes.push(to);
            parent.push(from);
            stack.push((to, 0));
        }
    }
    (nodes, parent, number)
}

/// The forest of the algorithm, with path compression.
struct Forest {
    semi: Vec<u32>,
    label: Vec<u32>,
    ancestor: Vec<u32>,
    path: Vec<u32>,
}

impl Forest {
    fn new(count: u32) -> Self {
        Forest {
            semi: (0..count).collect(),
            label: (0..count).collect(),
            ancestor: vec![NONE; count as usize],
            path: Vec::new(),
        }
    }

    /// Returns the node with the smallest semidominator between `v` and the root of its tree, excluding the
    /// root.
    fn evaluate(&mut self, v: u32) -> u32 {
        let ancestor = |of: u32, this: &Self| this.ancestor[of as usize];
        if ancestor(v, self) == NONE {
            return self.label[v as usize];
        }
        self.path.clear();
        let mut at = v;
        while ancestor(ancestor(at, self), self) != NONE {
            self.path.push(at);
            at = ancestor(at, self);
        }
        while let Some(below) = self.path.pop() {
            let above = self.ancestor[below as usize] as usize;
            let (own, theirs) = (self.label[below as usize], self.label[above]);
            if self.semi[theirs as usize] < self.semi[own as usize] {
                self.label[below as usize] = theirs;
            }
            self.ancestor[below as usize] = self.ancestor[above];
        }
        self.label[v as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::Edges;
    use super::*;
    use proptest::prelude::*;

    fn graph(nodes: u32, edges: &[(u32, u32)]) -> Adjacency {
        let mut all = Edges::default();
        edges.iter().for_each(|&(from, to)| all.add(from, to));
        all.lay_out(nodes)
    }

    /// Computes dominators by definition: a node dominates the nodes that become unreachable without it.
    fn by_definition(nodes: u32, edges: &[(u32, u32)]) -> Vec<Option<u32>> {
        let reached = |without: Option<u32>| {
            let left = edges.iter().filter(|(from, to)| Some(*from) != without && Some(*to) != without);
            let left: Vec<(u32, u32)> = left.copied().collect();
            parents(&graph(nodes, &left), 0).iter().map(|&parent| parent != NONE).collect::<Vec<bool>>()
        };
        let all = reached(None);
        let dominated: Vec<Vec<bool>> = (1..nodes).map(|node| reached(Some(node))).collect();
        let dominates = |a: u32, b: u32| a == 0 || (a != b && !dominated[a as usize - 1][b as usize]);
        let immediate = |node: u32| {
            let above = (0..nodes).filter(|&a| a != node && all[a as usize] && dominates(a, node));
            // The node that all the others dominate.
            above
                .max_by_key(|&a| (0..nodes).filter(|&b| b != a && all[b as usize] && dominates(b, a)).count())
        };
        (0..nodes).map(|node| if node > 0 && all[node as usize] { immediate(node) } else { None }).collect()
    }

    fn found(nodes: u32, edges: &[(u32, u32)]) -> Vec<Option<u32>> {
        let dominators = Dominators::of(&graph(nodes, edges), 0);
        let mut found = vec![None; nodes as usize];
        for (number, &node) in dominators.nodes.iter().enumerate().skip(1) {
            found[node as usize] = Some(dominators.nodes[dominators.dominator[number] as usize]);
        }
        found
    }

    #[test]
    fn what_two_hold_is_held_by_whom_both_are_held() {
        let edges = [(0, 1), (1, 2), (1, 3), (2, 4), (3, 4), (4, 5), (6, 5)];
        assert_eq!(found(7, &edges), [None, Some(0), Some(1), Some(1), Some(1), Some(4), None]);
        let dominators = Dominators::of(&graph(7, &edges), 0);
        let sums = dominators.sums(|_| 10);
        let of = |node| dominators.nodes.iter().position(|&n| n == node).map(|number| sums[number]);
        assert_eq!([of(0), of(1), of(4), of(5), of(6)], [Some(60), Some(50), Some(20), Some(10), None]);
    }

    #[test]
    fn a_graph_without_its_top_has_no_dominators() {
        assert!(Dominators::of(&graph(0, &[]), 0).nodes.is_empty());
        assert!(parents(&graph(2, &[(0, 1), (1, 5)]), 7).iter().all(|&parent| parent == NONE));
    }

    proptest! {
        #[test]
        fn dominators_are_those_of_the_definition(
            nodes in 1u32..14,
            edges in proptest::collection::vec((0u32..14, 0u32..14), 0..40),
        ) {
            let edges: Vec<(u32, u32)> = edges.into_iter().filter(|&(a, b)| a < nodes && b < nodes).collect();
            prop_assert_eq!(found(nodes, &edges), by_definition(nodes, &edges));
        }
    }
}
