//! What takes long, and for how long it has: on a terminal alone.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A line at the bottom of standard error that says what is being done and since when, until it is dropped. Where
/// standard error is no terminal, nothing is written.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Says what is begun.
    pub(crate) fn of(what: String) -> Self {
        let bar = ProgressBar::new_spinner().with_message(what);
        if let Ok(style) = ProgressStyle::with_template("  {spinner} {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
