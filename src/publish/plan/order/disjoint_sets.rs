//! Sets of numbers that are joined two at a time: a union-find. Joining thousands of them takes time in proportion to
//! their number, in any order; with lists of sets, each join would search all of them.

/// Disjoint sets of the numbers from 0. Every number begins in a set of its own.
#[derive(Debug)]
pub struct DisjointSets {
    /// The next number on the way to the root of the set; a root is its own.
    parents: Vec<usize>,
    /// The size of the set, at its root.
    sizes: Vec<usize>,
    /// The number of parents looked up: the work done so far.
    #[cfg(test)]
    pub steps: usize,
}

impl DisjointSets {
    /// One set for each number.
    pub fn new(count: usize) -> Self {
        Self {
            parents: (0..count).collect(),
            sizes: vec![1; count],
            #[cfg(test)]
            steps: 0,
        }
    }

    /// The root of the set that holds a number: the same for all its numbers.
    pub fn root(&mut self, mut number: usize) -> usize {
        loop {
            #[cfg(test)]
            {
                self.steps += 1;
            }
            let parent = self.parents[number];
            if parent == number {
                return number;
            }
            // Halves the path for the next search.
            self.parents[number] = self.parents[parent];
            number = parent;
        }
    }

    /// Joins the sets of the two numbers.
    pub fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.root(one), self.root(other));
        if one != other {
            let is_larger = self.sizes[one] >= self.sizes[other];
            let (root, joined) = if is_larger { (one, other) } else { (other, one) };
            self.parents[joined] = root;
            self.sizes[root] += self.sizes[joined];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_numbers_have_one_root_and_others_keep_theirs() {
        let mut sets = DisjointSets::new(6);
        sets.join(0, 1);
        sets.join(4, 3);
        sets.join(3, 1);
        sets.join(1, 1);
        let roots: Vec<usize> = (0..6).map(|number| sets.root(number)).collect();
        assert_eq!([roots[1], roots[3], roots[4]], [roots[0]; 3]);
        assert_eq!([roots[2], roots[5]], [2, 5]);
    }

    #[test]
    fn a_few_steps_a_number_join_all_in_any_order() {
        const COUNT: usize = 10_000;
        let chain = (1..COUNT).map(|number| (number - 1, number));
        let backwards = (1..COUNT).rev().map(|number| (number, number - 1));
        let star = (1..COUNT).map(|number| (number, 0));
        let halves = (1..COUNT).map(|number| (number, number / 2));
        let orders: [Vec<(usize, usize)>; 4] =
            [chain.collect(), backwards.collect(), star.collect(), halves.collect()];
        for pairs in orders {
            let mut sets = DisjointSets::new(COUNT);
            for (one, other) in pairs {
                sets.join(one, other);
            }
            let root = sets.root(0);
            assert!((0..COUNT).all(|number| sets.root(number) == root));
            assert!(sets.steps < 8 * COUNT, "{} steps for {COUNT} numbers", sets.steps);
        }
    }
}
