//! A plan as a picture: time to the right, bytes upward.

use std::fmt::Write;

use tir_packing::{Buffer, Live};

const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 800.0;

/// A rectangle for each interval of each buffer, its name, size and offset as a tooltip; the capacity as a line.
pub(crate) fn svg(
    buffers: &[Buffer],
    lives: &[Live],
    offsets: &[u64],
    capacity: Option<u64>,
) -> String {
    let all = || lives.iter().flatten();
    let begin = all().map(|l| l.start).min().unwrap_or(0);
    let end = all().map(|l| l.end).max().unwrap_or(begin + 1);
    let ends = buffers.iter().zip(offsets).map(|(b, at)| at + b.size);
    let top = ends.chain(capacity).max().unwrap_or(0).max(1);
    let x = |time: u64| (time - begin) as f64 * WIDTH / (end - begin) as f64;
    let y = |byte: u64| HEIGHT - byte as f64 * HEIGHT / top as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n"
    );
    for (i, (b, live)) in buffers.iter().zip(lives).enumerate() {
        // Neighbours by number differ by most of a circle divided by the golden ratio.
        let hue = (i as f64 * 137.508) % 360.0;
        for l in live {
            // Writing to a string cannot fail.
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
    out + "</svg>\n"
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
