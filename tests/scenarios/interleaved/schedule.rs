//! The order of steps: drawn at random, or one after the other all those with few interruptions.

/// Chooses the next step.
pub trait Schedule {
    /// One of so many steps. The first one goes on with what made the last step, if `goes_on`.
    fn choose(&mut self, steps: usize, goes_on: bool) -> usize;
}

/// An order from random numbers.
pub struct Drawn<'a>(std::slice::Iter<'a, u8>);

impl<'a> Drawn<'a> {
    pub fn new(choices: &'a [u8]) -> Self {
        Self(choices.iter())
    }
}

impl Schedule for Drawn<'_> {
    fn choose(&mut self, steps: usize, _: bool) -> usize {
        usize::from(self.0.next().copied().unwrap_or_default()) % steps
    }
}

/// All orders with at most so many interruptions, in depth first.
pub struct Each {
    interruptions: usize,
    /// The choices of the current order; those at its begin are given.
    taken: Vec<Choice>,
    given: usize,
}

#[derive(Clone, Copy)]
struct Choice {
    step: usize,
    of: usize,
    goes_on: bool,
}

impl Choice {
    fn interrupts(self) -> bool {
        self.goes_on && self.step > 0
    }
}

impl Each {
    pub fn with(interruptions: usize) -> Self {
        Self { interruptions, taken: Vec::new(), given: 0 }
    }

    /// Turns to the next order, if there is one.
    pub fn next(&mut self) -> bool {
        while let Some(last) = self.taken.pop() {
            let other = Choice { step: last.step + 1, ..last };
            let before = self.taken.iter().filter(|choice| choice.interrupts()).count();
            let interruptions = before + usize::from(other.interrupts());
            if other.step < other.of && interruptions <= self.interruptions {
                self.taken.push(other);
                self.given = self.taken.len();
                return true;
            }
        }
        false
    }

    /// Begins the current order.
    pub fn begin(&mut self) {
        self.taken.truncate(self.given);
        self.given = 0;
    }
}

impl Schedule for Each {
    fn choose(&mut self, of: usize, goes_on: bool) -> usize {
        if let Some(choice) = self.taken.get(self.given) {
            self.given += 1;
            return choice.step.min(of - 1);
        }
        self.taken.push(Choice { step: 0, of, goes_on });
        self.given += 1;
        0
    }
}

#[test]
fn each_order_comes_once_and_within_the_interruptions() {
    // Two processes with two steps each: six orders, of which four interrupt at most once.
    for (interruptions, orders) in [(0, 2), (1, 4), (2, 6), (9, 6)] {
        let mut each = Each::with(interruptions);
        let mut found = std::collections::BTreeSet::new();
        loop {
            each.begin();
            let (mut left, mut last, mut order) = ([2, 2], None, Vec::new());
            while left != [0, 0] {
                let mut steps: Vec<usize> = (0..2).filter(|it| left[*it] > 0).collect();
                let goes_on = last.is_some_and(|last| steps.contains(&last));
                steps.sort_by_key(|it| Some(*it) != last);
                let step = steps[each.choose(steps.len(), goes_on)];
                left[step] -= 1;
                order.push(step);
                last = Some(step);
            }
            assert!(found.insert(order));
            if !each.next() {
                break;
            }
        }
        assert_eq!(found.len(), orders, "{interruptions}: {found:?}");
    }
}
