//! Passes that ask interfaces and name no dialect.
