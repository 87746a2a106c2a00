//! Protection domains, and which of them are one.

use super::registry::Registry;

/// A protection domain.
#[derive(Clone, Copy, Debug)]
pub struct Pd {
    pub context: usize,
    /// The domain that a parent domain was made from; 0 for other domains.
    pub parent: usize,
    /// The domain is a parent domain with a thread domain: the program promises that one thread at
    /// a time uses it.
    pub single_threaded: bool,
    /// The domain has memory windows, or had some: their keys are not known here.
    pub had_windows: bool,
}

impl Registry<Pd> {
    /// The domain itself, or the one that a parent domain was made from.
    pub fn base(&self, pd: usize) -> usize {
        match self.get(&pd) {
            Some(found) if found.parent != 0 => found.parent,
            _ => pd,
        }
    }

    /// Whether two domains are one, or made from one.
    pub fn are_same(&self, a: usize, b: usize) -> bool {
        self.base(a) == self.base(b)
    }

    /// A window is allocated in a domain.
    pub fn window_added(&mut self, pd: usize) {
        let base = self.base(pd);
        if let Some(pd) = self.get_mut(&base) {
            pd.had_windows = true;
        }
    }

    /// Whether a domain has memory windows, or had some.
    pub fn had_windows(&self, pd: usize) -> bool {
        let base = self.get(&self.base(pd));
        base.is_some_and(|pd| pd.had_windows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_domain_is_the_one_that_it_was_made_from() {
        let mut domains = Registry::new();
        for (at, parent) in [(1, 0), (2, 1), (3, 0)] {
            let pd = Pd {
                context: 9,
                parent,
                single_threaded: false,
                had_windows: false,
            };
            domains.add(at, pd);
        }
        assert_eq!((domains.base(2), domains.base(7)), (1, 7));
        assert!(domains.are_same(1, 2) && !domains.are_same(2, 3));
        domains.window_added(2);
        assert!(domains.had_windows(1) && domains.had_windows(2) && !domains.had_windows(3));
    }
}
