//! Bars on an axis that begins at 0.

use crate::svg::{COLORS, LETTER, LINE, MARGIN, Svg, WIDTH};

/// Groups of bars: each has a name, and a bar for each of its values.
pub struct Bars {
    /// The meaning of a bar's length, with the unit.
    pub across: String,
    /// The names of the colors. With one there is no legend.
    pub colors: Vec<String>,
    /// The groups, with the text of each value.
    pub groups: Vec<(String, Vec<(f64, String)>)>,
    /// A value at which a line is drawn through all groups.
    pub line: Option<f64>,
}

const THICK: f64 = 9.0;
const STEP: f64 = 12.0;

impl Bars {
    pub(crate) fn draw(&self, svg: &mut Svg) {
        svg.y += 4.0;
        svg.note(&self.across);
        svg.y += 8.0;
        let values = || self.groups.iter().flat_map(|group| &group.1);
        let widest =
            |lens: &mut dyn Iterator<Item = usize>| LETTER * lens.max().unwrap_or(0) as f64;
        let left =
            MARGIN + 8.0 + widest(&mut self.groups.iter().map(|group| group.0.chars().count()));
        let right =
            WIDTH - MARGIN - 6.0 - widest(&mut values().map(|value| value.1.chars().count()));
        let most = values()
            .map(|value| value.0)
            .chain(self.line)
            .fold(f64::MIN_POSITIVE, f64::max);
        let length = |value: f64| value / most * (right - left);
        let top = svg.y;
        for (name, bars) in &self.groups {
            let height = STEP * bars.len() as f64;
            svg.text(left - 6.0, svg.y + height / 2.0 + 4.0, "e", name);
            for (index, (value, text)) in bars.iter().enumerate() {
                let y = svg.y + STEP * index as f64;
                let class = format!("c{}", index % COLORS);
                svg.bar(&class, (left, y + 2.0), (length(*value), THICK));
                // Not on the line, if there is one.
                let end = self.line.map_or(left + length(*value), |_| right);
                svg.text(end + 4.0, y + 11.0, "", text);
            }
            svg.y += height.max(LINE) + 3.0;
        }
        if let Some(line) = self.line {
            let x = left + length(line);
            svg.path("r", &format!("M{x:.1} {top:.1}V{:.1}", svg.y));
        }
        if self.colors.len() > 1 {
            let colors = self.colors.iter().enumerate();
            let names: Vec<(String, String)> = colors
                .map(|(index, name)| (format!("c{index} w"), name.clone()))
                .collect();
            svg.legend(&names);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_ends_before_its_text() {
        let bars = Bars {
            across: "us".into(),
            colors: vec!["one".into()],
            groups: vec![
                ("short".into(), vec![(1.0, "1".into())]),
                ("long".into(), vec![(2.0, "2".into())]),
            ],
            line: Some(1.0),
        };
        let mut svg = Svg::new("title");
        bars.draw(&mut svg);
        let text = svg.finish();
        let widths: Vec<f64> = text
            .split(" width=\"")
            .filter(|part| part.contains("height=\"9\""))
            .map(|part| part.split('"').next().unwrap().parse().unwrap())
            .collect();
        assert_eq!(widths.len(), 2);
        assert!((widths[1] / widths[0] - 2.0).abs() < 0.01, "{widths:?}");
        assert!(widths[1] < WIDTH - 40.0);
        assert!(text.contains(r#"class="r""#));
    }
}
