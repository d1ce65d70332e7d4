//! The growth as a picture: an SVG of own making, because six panels need no library.
//!
//! Logarithmic both ways, so that linear growth is a slope that is drawn beside it (dashed), and no size
//! hides another. Light and dark readers both: a white ground is part of the picture. Text is text, so that it
//! can be searched.

use crate::results::{Point, Series};
use std::fmt::Write as _;

const PANEL: (f64, f64) = (300.0, 210.0);
const MARGIN: (f64, f64) = (62.0, 44.0);
const INNER: (f64, f64) = (216.0, 130.0);

struct Line {
    name: &'static str,
    colour: &'static str,
    of: fn(&Point) -> f64,
}

const CPU: &[Line] = &[
    Line { name: "holdup", colour: "#1f5fa8", of: |p| p.cpu_seconds / p.seconds.max(1e-9) * 100.0 },
    Line {
        name: "in the kernel",
        colour: "#c2571a",
        of: |p| p.bpf_seconds / p.seconds.max(1e-9) * 100.0,
    },
];
const MEMORY: &[Line] =
    &[Line { name: "resident", colour: "#2d7d46", of: |p| p.rss_bytes as f64 / 1e6 }];

/// All series: CPU above, memory below.
pub fn growth(series: &[Series]) -> String {
    let width = PANEL.0 * series.len().max(1) as f64;
    let height = PANEL.1 * 2.0 + 24.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         font-family=\"sans-serif\" font-size=\"11\" fill=\"#222\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    for (column, series) in series.iter().enumerate() {
        let x = PANEL.0 * column as f64;
        panel(&mut svg, (x, 0.0), series, "% of a core", CPU);
        panel(&mut svg, (x, PANEL.1), series, "MB resident", MEMORY);
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.0}\" y=\"{:.0}\" fill=\"#666\">dashed: linear growth through the last point; both axes \
         logarithmic</text>\n</svg>",
        MARGIN.0,
        height - 10.0
    );
    svg
}

/// Decades that hold all values.
fn decades(values: impl Iterator<Item = f64>) -> (i32, i32) {
    let (mut low, mut high) = (i32::MAX, i32::MIN);
    for value in values.filter(|value| value.is_finite() && *value > 0.0) {
        low = low.min(value.log10().floor() as i32);
        high = high.max(value.log10().ceil() as i32);
    }
    if low > high { (0, 1) } else { (low, high.max(low + 1)) }
}

fn power(exponent: i32) -> String {
    match exponent {
        -3..=-1 => format!("{:.*}", exponent.unsigned_abs() as usize, 10f64.powi(exponent)),
        0..=2 => format!("{:.0}", 10f64.powi(exponent)),
        3..=5 => format!("{:.0}k", 10f64.powi(exponent - 3)),
        6 => "1M".into(),
        other => format!("1e{other}"),
    }
}

fn panel(svg: &mut String, at: (f64, f64), series: &Series, unit: &str, lines: &[Line]) {
    let points = &series.points;
    let xs = decades(points.iter().map(|point| point.size));
    let ys = decades(lines.iter().flat_map(|line| points.iter().map(line.of)));
    let (left, top) = (at.0 + MARGIN.0, at.1 + MARGIN.1);
    let place = |value: f64, (low, high): (i32, i32), length: f64| {
        (value.log10() - f64::from(low)) / f64::from(high - low) * length
    };
    let xy = |size: f64, value: f64| {
        (left + place(size, xs, INNER.0), top + INNER.1 - place(value, ys, INNER.1))
    };
    let _ = writeln!(
        svg,
        "<text x=\"{left:.0}\" y=\"{:.0}\" font-weight=\"bold\">{unit}, by {}</text>",
        top - 24.0,
        series.of
    );
    axes(svg, (left, top), xs, ys);
    for (number, line) in lines.iter().enumerate() {
        let shown: Vec<(f64, f64)> = points
            .iter()
            .map(|point| (point.size, (line.of)(point)))
            .filter(|(size, value)| *size > 0.0 && *value > 0.0)
            .collect();
        if let Some(&(size, value)) = shown.last() {
            guide(svg, (size, value), (xs, ys), &xy);
        }
        let path: Vec<String> = shown
            .iter()
            .map(|&(size, value)| xy(size, value))
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let colour = line.colour;
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            path.join(" ")
        );
        for point in &path {
            let (x, y) = point.split_once(',').unwrap_or(("0", "0"));
            let _ = writeln!(svg, "<circle cx=\"{x}\" cy=\"{y}\" r=\"3\" fill=\"{colour}\"/>");
        }
        let _ = writeln!(
            svg,
            "<text x=\"{:.0}\" y=\"{:.0}\" fill=\"{colour}\">{}</text>",
            left + 90.0 * number as f64,
            top - 9.0,
            line.name
        );
    }
}

fn axes(svg: &mut String, (left, top): (f64, f64), xs: (i32, i32), ys: (i32, i32)) {
    let (right, bottom) = (left + INNER.0, top + INNER.1);
    for exponent in xs.0..=xs.1 {
        let x = left + f64::from(exponent - xs.0) / f64::from(xs.1 - xs.0) * INNER.0;
        let _ = writeln!(
            svg,
            "<path d=\"M{x:.1} {top:.1}V{bottom:.1}\" stroke=\"#ddd\"/><text x=\"{x:.1}\" y=\"{:.1}\" \
             text-anchor=\"middle\">{}</text>",
            bottom + 15.0,
            power(exponent)
        );
    }
    for exponent in ys.0..=ys.1 {
        let y = bottom - f64::from(exponent - ys.0) / f64::from(ys.1 - ys.0) * INNER.1;
        let _ = writeln!(
            svg,
            "<path d=\"M{left:.1} {y:.1}H{right:.1}\" stroke=\"#ddd\"/><text x=\"{:.1}\" y=\"{:.1}\" \
             text-anchor=\"end\">{}</text>",
            left - 6.0,
            y + 4.0,
            power(exponent)
        );
    }
}

/// A straight line of slope one through a point, as far as the panel goes.
fn guide(
    svg: &mut String,
    (size, value): (f64, f64),
    (xs, ys): ((i32, i32), (i32, i32)),
    xy: &dyn Fn(f64, f64) -> (f64, f64),
) {
    let smallest = (10f64.powi(xs.0) / size).max(10f64.powi(ys.0) / value);
    let (x1, y1) = xy(size * smallest, value * smallest);
    let (x2, y2) = xy(size, value);
    let _ = writeln!(
        svg,
        "<path d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\" stroke=\"#999\" stroke-dasharray=\"4 3\"/>"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_up() -> Series {
        let point = |size: f64| Point {
            size,
            seconds: 2.0,
            cpu_seconds: 0.1 + size * 1e-5,
            bpf_seconds: size * 1e-7,
            rss_bytes: (20e6 + size * 1e3) as u64,
            ..Point::default()
        };
        Series { of: "threads".into(), points: [100.0, 1e3, 2e4].map(point).into() }
    }

    #[test]
    fn every_point_is_drawn_inside() {
        let svg = growth(&[made_up(), made_up(), made_up()]);
        assert_eq!(svg.matches("<circle").count(), 3 * 3 * 3);
        assert_eq!(svg.matches("<polyline").count(), 9);
        let numbers = |key: &str| -> Vec<f64> {
            let parts = svg.split(key).skip(1);
            parts.filter_map(|part| part.split('"').next()?.parse().ok()).collect()
        };
        assert!(numbers("cx=\"").iter().all(|x| (0.0..=900.0).contains(x)));
        assert!(numbers("cy=\"").iter().all(|y| (0.0..=444.0).contains(y)), "{svg}");
    }

    #[test]
    fn nothing_makes_an_empty_picture() {
        assert!(growth(&[]).ends_with("</svg>\n"));
        assert!(growth(&[Series::default()]).contains("</svg>"));
    }

    #[test]
    fn decades_hold_their_values() {
        assert_eq!(decades([100.0, 20_000.0].into_iter()), (2, 5));
        assert_eq!(decades([0.02, 0.0].into_iter()), (-2, -1));
        assert_eq!((power(-2), power(4), power(6)), ("0.01".into(), "10k".into(), "1M".into()));
    }
}
