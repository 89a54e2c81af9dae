//! What is done to the rows of a tile before it is read, in its place.
//!
//! A value for each row lies in a tile of its own, of the dimensions of the tile that count rows. Where tiles have parts of
//! rows, three of them are carried from tile to tile: the *maximum* so far, the *sum* of exponentials below it, and the
//! *factor* of what was added up before, as the last tile has made it.

use tir::{AffineMap, Attr, Builder, Value};

use super::nest::{Nest, copy_body, fill};
use super::{Emit, hint};
use crate::chain::{Between, Done, Gives, Made, Of, RowStep, Rows, Running};
use crate::layout::{Axis, Dim};

/// What is carried from one tile of parts of rows to the next.
#[derive(Clone, Copy)]
pub(super) struct State {
    maximum: Value,
    sum: Value,
    factor: Value,
}

impl State {
    pub(super) const COUNT: usize = 3;

    pub(super) fn values(self) -> [Value; Self::COUNT] {
        [self.maximum, self.sum, self.factor]
    }
    pub(super) fn of(values: &[Value]) -> Option<Self> {
        let [maximum, sum, factor] = *values else {
            return None;
        };
        Some(Self {
            maximum,
            sum,
            factor,
        })
    }
}

/// What is done to the rows of one tile of an operand.
pub(super) struct OfRows<'a> {
    emit: &'a Emit<'a>,
    between: &'a Between,
    dims: Vec<Dim>,
    rows: Rows,
    /// The operand.
    operand: usize,
}

impl<'a> OfRows<'a> {
    pub(super) fn new(emit: &'a Emit<'a>, made: &'a Made) -> Option<(Self, &'a Done)> {
        let done = made.between.as_ref()?;
        let dims = emit.plan.tiles[made.operand].dims.iter();
        // Tiles that take turns are worked on one by one.
        let dims: Vec<Dim> = dims.filter(|dim| dim.axis != Axis::Turn).cloned().collect();
        let rows = Rows::of(&dims, &done.what.columns)?;
        let of = Self {
            emit,
            between: &done.what,
            dims,
            rows,
            operand: made.operand,
        };
        Some((of, done))
    }

    /// A value for each row, not written yet.
    fn empty(&self, b: &mut Builder<'_>, name: &str) -> Value {
        let shape: Vec<i64> = self.dims.iter().map(|dim| dim.size).collect();
        let elem = b.ty(self.emit.group.operands[self.operand].source).elem();
        let value = self.emit.empty(b, self.rows.shape(&shape), elem);
        self.emit.slots(b, value, true);
        hint(b, value, name);
        value
    }

    /// A step on all of a tile, or on a value for each row; with `place` in a tile of other dimensions, of which
    /// these count the rows.
    fn step(
        &self,
        b: &mut Builder<'_>,
        step: &RowStep,
        inputs: (Value, &[Value]),
        over: Over<'_>,
        dest: Value,
    ) -> Value {
        let (tile, given) = inputs;
        let rank = over.rank(self);
        let row_map = AffineMap::project(rank, &over.rows(self));
        let all = AffineMap::identity(rank);
        let (mut values, mut maps) = (Vec::new(), Vec::new());
        for input in &step.inputs {
            match input {
                Of::Tile => {
                    values.push(tile);
                    maps.push(all.clone());
                }
                Of::Row(number) => {
                    values.push(given[*number]);
                    maps.push(row_map.clone());
                }
            }
        }
        let combine = match (&step.gives, over) {
            (Gives::Reduced(combine, _), _) => Some(*combine),
            _ => None,
        };
        let reduces = combine.is_some() && matches!(over, Over::Tile);
        maps.push(if reduces { row_map } else { all });
        let kinds = (0..rank).map(|t| match reduces && !self.rows.0.contains(&t) {
            true => Attr::str("reduction"),
            false => Attr::str("parallel"),
        });
        let nest = Nest {
            maps,
            kinds: kinds.collect(),
            sizes: None,
            combine,
            body: copy_body(b, step.body),
        };
        nest.generic(b, values, dest)
    }

    /// All that is done, to a tile of whole rows.
    pub(super) fn whole(&self, b: &mut Builder<'_>, mut tile: Value) -> Value {
        let mut given = Vec::new();
        for step in &self.between.steps {
            let value = match &step.gives {
                Gives::Tile => {
                    tile = self.step(b, step, (tile, &given), Over::Tile, tile);
                    tile
                }
                Gives::Row => {
                    let dest = self.empty(b, "row");
                    self.step(b, step, (tile, &given), Over::Rows, dest)
                }
                Gives::Reduced(_, start) => {
                    let dest = self.empty(b, "row");
                    let dest = fill(b, dest, *start);
                    self.step(b, step, (tile, &given), Over::Tile, dest)
                }
            };
            given.push(value);
        }
        tile
    }

    /// What is carried, before the first tile.
    pub(super) fn begun(&self, b: &mut Builder<'_>, running: &Running) -> State {
        let [maximum, sum, factor] = ["maximum", "sum", "factor"].map(|name| self.empty(b, name));
        let start = match &self.between.steps[running.sum].gives {
            Gives::Reduced(_, start) => *start,
            _ => running.lowest,
        };
        State {
            maximum: fill(b, maximum, running.lowest),
            sum: fill(b, sum, start),
            factor,
        }
    }

    /// Exponentials in the place of a part of each row, and what is carried on.
    pub(super) fn part(
        &self,
        b: &mut Builder<'_>,
        running: &Running,
        tile: Value,
        state: State,
    ) -> (Value, State) {
        let steps = &self.between.steps;
        let greatest = &steps[running.maximum];
        let (exponential, last) = (&steps[running.exponential], &steps[steps.len() - 1]);
        let mut given = vec![state.maximum; steps.len()];
        let largest = self.empty(b, "largest");
        let largest = match &greatest.gives {
            Gives::Reduced(_, start) => fill(b, largest, *start),
            _ => largest,
        };
        let largest = self.step(b, greatest, (tile, &given), Over::Tile, largest);
        let largest = self.step(b, greatest, (state.maximum, &given), Over::Rows, largest);
        given[running.maximum] = largest;
        // exp(old - new)
        let old = (state.maximum, &given[..]);
        let factor = self.step(b, exponential, old, Over::Rows, state.factor);
        let same = RowStep {
            gives: Gives::Row,
            ..greatest.clone()
        };
        let maximum = self.step(b, &same, (largest, &given), Over::Rows, state.maximum);
        given[running.maximum] = maximum;
        let tile = self.step(b, exponential, (tile, &given), Over::Tile, tile);
        let factors = vec![factor; steps.len()];
        let sum = self.step(b, last, (state.sum, &factors), Over::Rows, state.sum);
        let sum = self.step(b, &steps[running.sum], (tile, &given), Over::Tile, sum);
        let state = State {
            maximum,
            sum,
            factor,
        };
        (tile, state)
    }

    /// What was added up, as exponentials below the newest maximum would have given it.
    pub(super) fn corrected(&self, b: &mut Builder<'_>, acc: Value, state: State) -> Value {
        let factors = vec![state.factor; self.between.steps.len()];
        self.product(b, acc, &factors)
    }

    /// The result of the product, with what the exponentials would have been multiplied with.
    pub(super) fn finished(
        &self,
        b: &mut Builder<'_>,
        running: &Running,
        acc: Value,
        state: State,
    ) -> Value {
        let steps = &self.between.steps;
        let mut given = vec![state.sum; steps.len()];
        for number in running.sum + 1..steps.len() - 1 {
            let dest = self.empty(b, "row");
            given[number] = self.step(b, &steps[number], (dest, &given), Over::Rows, dest);
        }
        self.product(b, acc, &given)
    }

    /// The last step on what was added up.
    fn product(&self, b: &mut Builder<'_>, acc: Value, given: &[Value]) -> Value {
        let out = &self.emit.plan.out;
        let places = self.rows.within(&self.dims, out).unwrap_or_default();
        let over = Over::Other(&places, out.dims.len());
        let steps = &self.between.steps;
        self.step(b, &steps[steps.len() - 1], (acc, given), over, acc)
    }
}

/// What a step runs over.
#[derive(Clone, Copy)]
enum Over<'p> {
    /// All of the tile.
    Tile,
    /// The rows.
    Rows,
    /// Another tile of so many dimensions, of which these count the rows.
    Other(&'p [usize], usize),
}

impl Over<'_> {
    fn rank(self, of: &OfRows<'_>) -> usize {
        match self {
            Self::Tile => of.dims.len(),
            Self::Rows => of.rows.0.len(),
            Self::Other(_, rank) => rank,
        }
    }
    fn rows(self, of: &OfRows<'_>) -> Vec<usize> {
        match self {
            Self::Tile => of.rows.0.clone(),
            Self::Rows => (0..of.rows.0.len()).collect(),
            Self::Other(places, _) => places.to_vec(),
        }
    }
}
