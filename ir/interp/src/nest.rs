//! nest
