//! A picture of curves as SVG: both axes logarithmic, the name of a curve beside its end. It is legible on light and on
//! dark pages, as the page of the viewer prefers.

use std::fmt::Write as _;

use super::deployment::count;

/// Curves over a number of clusters.
pub struct Picture<'a> {
    pub title: &'a str,
    /// The unit of the vertical axis, and its ends.
    pub unit: &'a str,
    pub from: f64,
    pub to: f64,
    pub ticks: &'a [(f64, &'a str)],
    /// Values that end something, drawn across.
    pub limits: &'a [(f64, &'a str, Place)],
    pub curves: Vec<Curve>,
}

/// The place of a limit's name, where no curve is.
#[derive(Clone, Copy)]
pub enum Place {
    LeftAbove,
    RightBelow,
}

/// One curve, of the colour of its place among them.
pub struct Curve {
    pub name: &'static str,
    pub points: Vec<(f64, f64)>,
    /// Whether it ends because more clusters are not possible.
    pub is_ended: bool,
}

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 560.0;
/// The frame of the curves: left, right, top, bottom.
const FRAME: (f64, f64, f64, f64) = (84.0, 700.0, 56.0, 500.0);
/// Of two names beside each other.
const NAME_HEIGHT: f64 = 18.0;
const CLUSTERS: (f64, f64) = (1.0, 100.0);
const CLUSTER_TICKS: [f64; 7] = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];

const STYLE: &str = "\
text{font:15px system-ui,sans-serif;fill:#1f2328}.title{font-size:17px;font-weight:600}.small{font-size:13px;fill:#59636e}\
.page{fill:#ffffff}.grid{stroke:#d1d9e0;stroke-width:1}.limit{stroke:#59636e;stroke-width:1;stroke-dasharray:2 3}\
.curve{fill:none;stroke-width:3}.k0{stroke:#0969da}.k1{stroke:#bc4c00}.k2{stroke:#8250df}.k3{stroke:#1a7f37}\
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.small{fill:#9198a1}.page{fill:#0d1117}.grid{stroke:#3d444d}\
.limit{stroke:#9198a1}.k0{stroke:#58a6ff}.k1{stroke:#f0883e}.k2{stroke:#bc8cff}.k3{stroke:#3fb950}}";

impl Picture<'_> {
    pub fn to_svg(&self) -> String {
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n\
             <style>{STYLE}</style>\n<rect class=\"page\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>\n",
            self.title
        );
        text(&mut svg, "title", (FRAME.0, 28.0), "start", self.title);
        text(&mut svg, "small", (FRAME.0, 47.0), "start", self.unit);
        let middle = f64::midpoint(FRAME.0, FRAME.1);
        text(&mut svg, "small", (middle, FRAME.3 + 40.0), "middle", "clusters");
        for clusters in CLUSTER_TICKS {
            let x = across(clusters);
            line(&mut svg, "grid", (x, FRAME.2), (x, FRAME.3));
            text(&mut svg, "small", (x, FRAME.3 + 19.0), "middle", &clusters.to_string());
        }
        for (value, name) in self.ticks {
            let y = self.down(*value);
            line(&mut svg, "grid", (FRAME.0, y), (FRAME.1, y));
            text(&mut svg, "small", (FRAME.0 - 8.0, y + 4.0), "end", name);
        }
        for (value, name, place) in self.limits {
            let y = self.down(*value);
            line(&mut svg, "limit", (FRAME.0, y), (FRAME.1, y));
            let (at, anchor) = match place {
                Place::LeftAbove => ((FRAME.0 + 6.0, y - 5.0), "start"),
                Place::RightBelow => ((FRAME.1 - 6.0, y + 24.0), "end"),
            };
            text(&mut svg, "small", at, anchor, name);
        }
        self.curves
            .iter()
            .enumerate()
            .for_each(|(colour, curve)| self.draw(&mut svg, curve, colour));
        self.name_curves(&mut svg);
        svg.push_str("</svg>\n");
        svg
    }

    fn draw(&self, svg: &mut String, curve: &Curve, colour: usize) {
        let points: Vec<String> = curve
            .points
            .iter()
            .map(|(clusters, value)| format!("{:.1},{:.1}", across(*clusters), self.down(*value)))
            .collect();
        let class = format!("curve k{colour}");
        writeln!(svg, "<polyline class=\"{class}\" points=\"{}\"/>", points.join(" "))
            .expect("a string");
        if let Some((clusters, value)) = curve.points.last().filter(|_| curve.is_ended) {
            let x = across(*clusters);
            let y = self.down(*value);
            let left = x - 5.0;
            let right = x + 5.0;
            let top = y - 5.0;
            let bottom = y + 5.0;
            line(svg, &class, (left, top), (right, bottom));
            line(svg, &class, (left, bottom), (right, top));
        }
    }

    /// The names of the curves from the highest to the lowest, each with a piece of its line.
    fn name_curves(&self, svg: &mut String) {
        let last = |curve: &Curve| curve.points.last().map_or(FRAME.3, |point| self.down(point.1));
        let mut curves: Vec<(usize, &Curve)> = self.curves.iter().enumerate().collect();
        curves.sort_by(|(_, a), (_, b)| last(a).total_cmp(&last(b)));
        let mut y = FRAME.2 - NAME_HEIGHT;
        let mut left = count(curves.len());
        for (colour, curve) in curves {
            left -= 1.0;
            let lowest = FRAME.3 - left * NAME_HEIGHT;
            y = (y + NAME_HEIGHT).max(last(curve)).min(lowest);
            let x = FRAME.1 + 14.0;
            line(svg, &format!("curve k{colour}"), (x, y), (x + 28.0, y));
            text(svg, "", (x + 36.0, y + 5.0), "start", curve.name);
        }
    }

    fn down(&self, value: f64) -> f64 {
        let value = value.clamp(self.from, self.to);
        let part = (value / self.from).ln() / (self.to / self.from).ln();
        FRAME.3 - part * (FRAME.3 - FRAME.2)
    }
}

fn across(clusters: f64) -> f64 {
    let part = (clusters / CLUSTERS.0).ln() / (CLUSTERS.1 / CLUSTERS.0).ln();
    FRAME.0 + part * (FRAME.1 - FRAME.0)
}

fn line(svg: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    writeln!(
        svg,
        "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
        from.0, from.1, to.0, to.1
    )
    .expect("a string");
}

fn text(svg: &mut String, class: &str, at: (f64, f64), anchor: &str, text: &str) {
    writeln!(
        svg,
        "<text class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{text}</text>",
        at.0, at.1
    )
    .expect("a string");
}
