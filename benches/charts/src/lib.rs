//! Charts as SVG, 390 units wide, in light or dark colors as the reader has them: curves on logarithmic axes,
//! and bars. The same figures give the same bytes.
//!
//! Not here: the check of the figures. Curves have values above 0 only.

mod bars;
mod curves;
mod svg;

pub use bars::Bars;
pub use curves::{Curve, Curves, Point};

use svg::Svg;

/// One of the charts of a picture.
pub enum Chart {
    Curves(Curves),
    Bars(Bars),
}

/// The picture of some charts, one below the other, between a title and notes.
pub fn picture(title: &str, charts: &[Chart], notes: &[String]) -> String {
    let mut svg = Svg::new(title);
    for chart in charts {
        match chart {
            Chart::Curves(curves) => curves.draw(&mut svg),
            Chart::Bars(bars) => bars.draw(&mut svg),
        }
    }
    for note in notes {
        svg.note(note);
    }
    svg.finish()
}
