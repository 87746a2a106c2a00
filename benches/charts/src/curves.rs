//! Curves on logarithmic axes.

use std::fmt::Write;

use crate::svg::{COLORS, LETTER, LINE, MARGIN, Svg, WIDTH};

const LEFT: f64 = 50.0;
const HEIGHT: f64 = 220.0;

/// A measured value, and the lowest and highest of its rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    pub x: f64,
    pub y: f64,
    pub range: (f64, f64),
}

/// The points of a thing that is compared.
pub struct Curve {
    pub name: String,
    /// Whether the line is thick.
    pub strong: bool,
    pub points: Vec<Point>,
}

/// Curves over a value, whose places on the axis have names.
pub struct Curves {
    /// The label of the vertical axis, with the unit.
    pub up: String,
    pub across: String,
    pub ticks: Vec<(f64, String)>,
    pub curves: Vec<Curve>,
}

/// A logarithmic axis: the values at its ends, and their places.
struct Axis {
    values: (f64, f64),
    places: (f64, f64),
}

impl Axis {
    fn place(&self, value: f64) -> f64 {
        let (low, high) = (self.values.0.ln(), self.values.1.ln());
        let share = (value.ln() - low) / (high - low);
        self.places.0 + share * (self.places.1 - self.places.0)
    }
}

impl Curves {
    pub(crate) fn draw(&self, svg: &mut Svg) {
        svg.y += LINE + 4.0;
        svg.text(MARGIN, svg.y, "n", &self.up);
        let (top, bottom) = (svg.y + 8.0, svg.y + 8.0 + HEIGHT);
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let up = Axis {
            values: spread(
                points().flat_map(|point| [point.range.0, point.range.1]),
                1.3,
            ),
            places: (bottom, top),
        };
        let across = Axis {
            values: spread(self.ticks.iter().map(|tick| tick.0), 1.2),
            places: (LEFT, WIDTH - MARGIN),
        };
        for value in decimal_ticks(up.values) {
            let y = up.place(value);
            svg.path("x", &format!("M{LEFT} {y:.1}H{:.1}", WIDTH - MARGIN));
            svg.text(LEFT - 4.0, y + 4.0, "e", &format!("{value}"));
        }
        let mut free = 0.0;
        for (value, name) in &self.ticks {
            let x = across.place(*value);
            let half = LETTER * name.chars().count() as f64 / 2.0;
            svg.path("x", &format!("M{x:.1} {bottom:.1}v-4"));
            // The last name ends with the picture.
            let middle = x.min(WIDTH - 2.0 - half);
            if middle - half >= free {
                svg.text(middle, bottom + LINE, "m", name);
                free = middle + half + LETTER;
            }
        }
        svg.text(
            (LEFT + WIDTH) / 2.0,
            bottom + 2.0 * LINE,
            "m n",
            &self.across,
        );
        svg.y = bottom + 2.0 * LINE + 4.0;
        let classes: Vec<(String, String)> = self.curves.iter().enumerate().map(class).collect();
        for (curve, (class, _)) in self.curves.iter().zip(&classes) {
            curve.draw(svg, class, &across, &up);
        }
        // A single curve is what the label of the axis says.
        if classes.len() > 1 {
            svg.legend(&classes);
        }
    }
}

fn class((index, curve): (usize, &Curve)) -> (String, String) {
    let strong = if curve.strong { " w" } else { "" };
    (format!("c{}{strong}", index % COLORS), curve.name.clone())
}

impl Curve {
    /// The line through the points, the points, and the range of each that can be seen.
    fn draw(&self, svg: &mut Svg, class: &str, across: &Axis, up: &Axis) {
        let mut line = String::new();
        let mut ranges = String::new();
        for (index, point) in self.points.iter().enumerate() {
            let (x, y) = (across.place(point.x), up.place(point.y));
            let step = if index == 0 { 'M' } else { 'L' };
            // Writing to a string does not fail.
            let _ = write!(line, "{step}{x:.1} {y:.1}");
            let (low, high) = (up.place(point.range.0), up.place(point.range.1));
            if low - high > 5.0 {
                let _ = write!(ranges, "M{x:.1} {low:.1}V{high:.1}");
            }
        }
        svg.path(class, &line);
        if !ranges.is_empty() {
            svg.path(class.split(' ').next().unwrap_or(class), &ranges);
        }
        for point in &self.points {
            svg.dot(class, across.place(point.x), up.place(point.y));
        }
    }
}

/// The ends of an axis for these values, with this factor of space at both.
fn spread(values: impl Iterator<Item = f64>, space: f64) -> (f64, f64) {
    let ends = values.fold((f64::MAX, 0.0_f64), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    (ends.0 / space, ends.1 * space)
}

/// The round values between both ends: 1, 2 and 5 in each power of ten, or the powers if these are many.
fn decimal_ticks((low, high): (f64, f64)) -> Vec<f64> {
    let powers = (low.log10() - 1.0) as i32..=(high.log10() + 1.0) as i32;
    let within = |digits: &[i32]| -> Vec<f64> {
        let all = powers.clone().flat_map(|power| {
            // By parsing, so that no digits follow: 3 * 0.1 is not 0.3.
            let tick = move |digit: &i32| format!("{digit}e{power}").parse().unwrap_or(0.0);
            digits.iter().map(tick).collect::<Vec<f64>>()
        });
        all.filter(|value| (low..=high).contains(value)).collect()
    };
    let fine = within(&[1, 2, 5]);
    if fine.len() <= 8 { fine } else { within(&[1]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_values() {
        assert_eq!(decimal_ticks((0.15, 3.0)), [0.2, 0.5, 1.0, 2.0]);
        assert_eq!(
            decimal_ticks((0.9, 12_000.0)),
            [1.0, 10.0, 100.0, 1000.0, 10_000.0]
        );
    }

    #[test]
    fn places_are_logarithmic() {
        let axis = Axis {
            values: (1.0, 100.0),
            places: (200.0, 0.0),
        };
        assert!((axis.place(10.0) - 100.0).abs() < 1e-9);
        assert_eq!(axis.place(1.0), 200.0);
    }

    #[test]
    fn a_curve_passes_its_points() {
        let point = |x, y| Point {
            x,
            y,
            range: (y, y * 4.0),
        };
        let curves = Curves {
            up: "us".into(),
            across: "bytes".into(),
            ticks: vec![(1.0, "one".into()), (10.0, "ten".into())],
            curves: vec![Curve {
                name: "a".into(),
                strong: true,
                points: vec![point(1.0, 1.0), point(10.0, 2.0)],
            }],
        };
        let mut svg = Svg::new("title");
        curves.draw(&mut svg);
        let text = svg.finish();
        assert_eq!(text.matches("<circle").count(), 2);
        // The ranges are drawn with a thin line.
        assert_eq!(text.matches(r#"<path class="c0 w""#).count(), 1);
        assert_eq!(text.matches(r#"<path class="c0""#).count(), 1);
        assert!(text.contains(">one<") && text.contains(">ten<"));
    }
}
