//! The compact graph: the successors of each node.

/// Maximum number of edges: 4 GiB of them, enough for the references of 2,000 million slots.
const MAX_EDGES: usize = 1 << 29;
/// Edges per piece: pieces need not be copied when edges are added.
const PIECE: usize = 1 << 16;

/// Edges in the order in which they are found.
#[derive(Debug, Default)]
pub(crate) struct Edges {
    pieces: Vec<Vec<(u32, u32)>>,
    count: usize,
    /// Number of edges that were dropped because there were too many.
    pub(crate) dropped: u64,
}

impl Edges {
    /// Adds an edge.
    pub(crate) fn add(&mut self, from: u32, to: u32) {
        if self.count >= MAX_EDGES {
            self.dropped += 1;
            return;
        }
        match self.pieces.last_mut().filter(|piece| piece.len() < PIECE) {
            Some(piece) => piece.push((from, to)),
            None => {
                let mut piece = Vec::with_capacity(PIECE);
                piece.push((from, to));
                self.pieces.push(piece);
            }
        }
        self.count += 1;
    }

    /// Sorts the edges by their start, which is below `nodes`; others are dropped.
    pub(crate) fn lay_out(self, nodes: u32) -> Adjacency {
        let inside = |&&(from, to): &&(u32, u32)| from < nodes && to < nodes;
        let mut starts = vec![0u32; nodes as usize + 1];
        for (from, _) in self.pieces.iter().flatten().filter(inside) {
            starts[*from as usize + 1] += 1;
        }
        accumulate(&mut starts);
        let mut targets = vec![0; starts.last().copied().unwrap_or(0) as usize];
        let mut next = starts.clone();
        for piece in self.pieces {
            for (from, to) in piece.iter().filter(inside) {
                let at = &mut next[*from as usize];
                targets[*at as usize] = *to;
                *at += 1;
            }
        }
        Adjacency { starts, targets }
    }
}

/// Turns counts into positions.
fn accumulate(counts: &mut [u32]) {
    let mut sum = 0;
    for count in counts {
        sum += *count;
        *count = sum;
    }
}

/// Nodes and their successors.
#[derive(Debug, Default)]
pub(crate) struct Adjacency {
    starts: Vec<u32>,
    targets: Vec<u32>,
}

impl Adjacency {
    /// Returns the number of nodes.
    pub(crate) fn nodes(&self) -> u32 {
        self.starts.len().saturating_sub(1) as u32
    }

    /// Returns the number of edges.
    pub(crate) fn edges(&self) -> usize {
        self.targets.len()
    }

    /// Returns the successors of a node; none for an unknown number.
    pub(crate) fn of(&self, node: u32) -> &[u32] {
        let node = node as usize;
        let range = self.starts.get(node).zip(self.starts.get(node + 1));
        range.and_then(|(&from, &to)| self.targets.get(from as usize..to as usize)).unwrap_or_default()
    }

    /// Returns the reversed edges among the nodes with a new number (`u32::MAX` for none), by the new
    /// numbers.
    pub(crate) fn reversed(&self, number: &[u32], count: u32) -> Adjacency {
        let renumbered = |node: u32| number.get(node as usize).copied().filter(|&number| number < count);
        let edges = || {
            (0..self.nodes()).filter_map(move |from| Some((from, renumbered(from)?))).flat_map(
                move |(node, from)| self.of(node).iter().filter_map(move |&to| Some((renumbered(to)?, from))),
            )
        };
        let mut starts = vec![0u32; count as usize + 1];
        edges().for_each(|(to, _)| starts[to as usize + 1] += 1);
        accumulate(&mut starts);
        let mut targets = vec![0; starts.last().copied().unwrap_or(0) as usize];
        let mut next = starts.clone();
        edges().for_each(|(to, from)| {
            let at = &mut next[to as usize];
            targets[*at as usize] = from;
            *at += 1;
        });
        Adjacency { starts, targets }
    }
}
