//! A plan as a picture: time to the right, bytes upward.

use std::fmt::Write;

use crate::spaces::Space;

const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 800.0;

/// Space between two pictures.
const GAP: f64 = 40.0;

/// A picture for each space, one below the other.
pub(crate) fn svg(spaces: &[Space], offsets: &[Vec<u64>], capacities: &[Option<u64>]) -> String {
    let height = spaces.len() as f64 * (HEIGHT + GAP) - GAP;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    for (at, ((space, offsets), capacity)) in spaces.iter().zip(offsets).zip(capacities).enumerate()
    {
        let down = at as f64 * (HEIGHT + GAP);
        // Writing to a string cannot fail.
        let _ = writeln!(out, "<g transform=\"translate(0 {down})\">");
        if !space.name.is_empty() {
            let name = escape(&space.name);
            let _ = writeln!(out, "<text x=\"4\" y=\"16\">{name}</text>");
        }
        picture(&mut out, space, offsets, *capacity);
        out += "</g>\n";
    }
    out + "</svg>\n"
}

/// A rectangle for each interval of each buffer, its name, size and offset as a tooltip; the capacity as a line.
fn picture(out: &mut String, space: &Space, offsets: &[u64], capacity: Option<u64>) {
    let (buffers, lives) = (space.problem.buffers(), &space.lives);
    let all = || lives.iter().flatten();
    let begin = all().map(|l| l.start).min().unwrap_or(0);
    let end = all().map(|l| l.end).max().unwrap_or(begin + 1);
    let ends = buffers.iter().zip(offsets).map(|(b, at)| at + b.size);
    let top = ends.chain(capacity).max().unwrap_or(0).max(1);
    let x = |time: u64| (time - begin) as f64 * WIDTH / (end - begin) as f64;
    let y = |byte: u64| HEIGHT - byte as f64 * HEIGHT / top as f64;
    for (i, (b, live)) in buffers.iter().zip(lives).enumerate() {
        // Neighbours by number differ by most of a circle divided by the golden ratio.
        let hue = (i as f64 * 137.508) % 360.0;
        for l in live {
            let _ = writeln!(
                out,
                "<rect x=\"{:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{:.2}\" fill=\"hsl({hue:.0} 60% 75%)\" \
                 stroke=\"#333\" stroke-width=\"0.3\"><title>{}: {} bytes at {}, from {} to {}</title></rect>",
                x(l.start),
                y(offsets[i] + b.size),
                x(l.end) - x(l.start),
                y(offsets[i]) - y(offsets[i] + b.size),
                escape(&b.name),
                b.size,
                offsets[i],
                l.start,
                l.end
            );
        }
    }
    if let Some(capacity) = capacity {
        let at = y(capacity);
        let _ = writeln!(
            out,
            "<line x1=\"0\" y1=\"{at:.2}\" x2=\"{WIDTH}\" y2=\"{at:.2}\" stroke=\"#c00\" stroke-dasharray=\"6 3\">\
             <title>capacity: {capacity} bytes</title></line>"
        );
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
