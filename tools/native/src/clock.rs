//! How long steps take.

use std::time::Instant;

/// Milliseconds of each step on the first thread.
pub struct Clock {
    shown: bool,
    last: Instant,
    steps: Vec<(&'static str, f64)>,
}

impl Clock {
    /// Begins the first step; the steps are printed at the end if they are `shown`.
    pub fn new(shown: bool) -> Self {
        Self {
            shown,
            last: Instant::now(),
            steps: Vec::new(),
        }
    }

    /// Ends a step.
    pub fn lap(&mut self, step: &'static str) {
        let time = self.last.elapsed().as_secs_f64() * 1e3;
        self.last = Instant::now();
        match self.steps.iter_mut().find(|(name, _)| *name == step) {
            Some((_, sum)) => *sum += time,
            None => self.steps.push((step, time)),
        }
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        if self.shown {
            for (step, time) in &self.steps {
                eprintln!("{time:10.3}  {step}");
            }
        }
    }
}
