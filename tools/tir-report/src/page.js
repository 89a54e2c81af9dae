"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const { summary, timeline } = data;
const el = id => document.getElementById(id);
const fmt = n => Math.round(n).toLocaleString("en-US");
const size = n => n >= 1 << 20 ? (n / (1 << 20)).toFixed(2) + " MiB" : n >= 1024 ? (n / 1024).toFixed(1) + " KiB" : n + " B";
const css = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const esc = s => String(s).replace(/[&<>"]/g, c => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
const node = (tag, attrs = {}, ...inner) => {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attrs)) k === "text" ? e.textContent = v : k.startsWith("on") ? e[k] = v : e.setAttribute(k, v);
  e.append(...inner);
  return e;
};
// The end of a name: that is what tells it from others.
const tail = (name, most) => name.length > most ? "…" + name.slice(1 - most) : name;
// Ink that can be read on a color that covers so much of the page.
const probe = document.createElement("canvas").getContext("2d");
const parsed = color => { probe.fillStyle = color; const n = parseInt(probe.fillStyle.slice(1), 16); return [n >> 16, n >> 8 & 255, n & 255]; };
const light = rgb => { const [r, g, b] = rgb.map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
const inkOn = (color, alpha = 1) => {
  const back = parsed(css("back"));
  return light(parsed(color).map((v, i) => alpha * v + (1 - alpha) * back[i])) > .179 ? "#10161c" : "#ffffff";
};
const kinds = ["unit", "thread", "load", "store", "idle"];

// What is marked: names of operators. Everything that shows layers is told.
let chosen = new Set();
const watchers = [];
// The operators of a layer.
const operators = new Map(summary.layers.map(l => [l.name, l.at.length ? l.at : [l.name]]));
const parts = layer => operators.get(layer) || (layer ? [layer] : []);
const isChosen = layer => chosen.size > 0 && parts(layer).some(p => chosen.has(p));
function choose(names) {
  const same = names.length === chosen.size && names.every(n => chosen.has(n));
  chosen = new Set(same ? [] : names);
  watchers.forEach(w => w());
}

// Headline.
el("title").textContent = `${data.model} on ${data.machine}`;
const agree = data.levels.map(l => `${l.name}: ${l.compared}`).join(", ");
el("under").textContent = "Largest error of each level beside the program as it was given: " + agree;
const card = (value, label) => el("cards").append(node("div", { class: "card" }, node("b", { text: value }), node("span", { text: label })));
card(fmt(summary.cycles), summary.clock_mhz ? `cycles = ${(summary.cycles / summary.clock_mhz).toFixed(1)} µs at ${summary.clock_mhz} MHz` : "cycles");
if (summary.bounds) {
  card(summary.bounds.ratio.toFixed(2) + " x", `the network's bound of ${fmt(summary.bounds.cycles)} (${summary.bounds.by})`);
  if (summary.bounds.window > summary.bounds.cycles)
    card(summary.bounds.window_ratio.toFixed(2) + " x", `its window bound of ${fmt(summary.bounds.window)}`);
}
const moved = summary.causes.reduce((n, c) => n + c.bytes, 0);
card(size(moved), "moved by DMA");
const byCause = {};
summary.causes.forEach(c => byCause[c.cause] = (byCause[c.cause] || 0) + c.bytes);
Object.entries(byCause).filter(([, b]) => b > 0).forEach(([c, b]) => card(size(b), c));
summary.spaces.slice(1).forEach(s => card((100 * s.peak_extent / Math.max(1, s.bytes)).toFixed(1) + " %", `of ${s.name} (${size(s.bytes)}) at its peak`));

// Shares of all cycles.
const total = Math.max(1, summary.cycles);
data.shares.forEach(([name, cycles], i) => {
  const percent = (100 * cycles / total).toFixed(1);
  const color = `background: var(--${kinds[i]}); color: ${inkOn(css(kinds[i]))}`;
  if (cycles > 0) el("shares").append(node("div", { style: `width: ${100 * cycles / total}%; ${color}`, title: `${name}: ${fmt(cycles)} cycles`, text: cycles / total > .06 ? `${percent} %` : "" }));
  el("shares-legend").append(node("span", {}, node("i", { style: color }), `${name}: ${percent} %`));
});

// Layers.
// What all units that multiply, and all engines that work, do in a cycle at most.
const atMost = queues => queues.reduce((sum, q) => sum + (q.rate || 0), 0);
const peakMacs = atMost(summary.queues.filter(q => !q.engine && q.macs));
const farMemory = atMost(summary.queues.filter(q => q.engine && q.far && q.busy));
const layers = summary.layers.map(l => {
  const compulsory = l.causes.compulsory || 0, useful = l.useful_macs || 0;
  const bound = Math.max(peakMacs ? useful / peakMacs : 0, farMemory ? compulsory / farMemory : 0);
  return { ...l, compulsory, useful, bound, share: l.cycles ? bound / l.cycles : 0, extra: l.bytes - compulsory, waits: l.waiting + l.queue_full };
});
const columns = [
  ["layer", l => l.name, l => esc(l.name)], ["from", l => l.start], ["cycles", l => l.cycles],
  ["", l => l.unit, l => {
    const all = [l.unit, l.thread, l.load, l.store];
    const most = Math.max(1, ...layers.map(k => k.unit + k.thread + k.load + k.store));
    return `<div class="bar">${all.map((n, i) => n ? `<div style="width:${100 * n / most}%;background:var(--${kinds[i]})"></div>` : "").join("")}</div>`;
  }],
  ["unit", l => l.unit], ["load", l => l.load], ["store", l => l.store], ["thread", l => l.thread], ["stalls", l => l.stall],
  ["bytes", l => l.bytes], ["beyond compulsory", l => l.extra],
  ["useful", l => l.macs ? l.useful / l.macs : -1, l => l.macs && l.useful ? (100 * l.useful / l.macs).toFixed(1) + " %" : ""],
  ["share of the bound", l => l.share, l => l.share ? (100 * l.share).toFixed(1) + " %" : ""], ["near bytes", l => Math.max(0, ...Object.values(l.near)), l => Object.entries(l.near).map(([space, n]) => `${fmt(n)} ${esc(space)}`).join(", ")],
];
let sorted = { by: 1, down: false };
function showLayers() {
  const table = el("layers"), key = columns[sorted.by][1];
  const rows = [...layers].sort((a, b) => { const x = key(a), y = key(b); return (x < y ? -1 : x > y ? 1 : 0) * (sorted.down ? -1 : 1); });
  table.replaceChildren(node("tr", {}, ...columns.map(([name], i) => node("th", { text: name || "busy", onclick: () => { sorted = { by: i, down: sorted.by === i ? !sorted.down : i > 0 }; showLayers(); } }))));
  for (const l of rows) {
    const tr = node("tr", { title: l.at.join(", "), onclick: () => choose(parts(l.name)) });
    tr.innerHTML = columns.map(([, value, show]) => `<td>${show ? show(l) : fmt(value(l))}</td>`).join("");
    if (isChosen(l.name)) tr.className = "chosen";
    table.append(tr);
  }
}
watchers.push(showLayers);

// Roofline: logarithmic on both axes.
function showRoofline() {
  const dots = layers.filter(l => l.useful && l.far && l.cycles).map(l => ({ l, x: l.useful / l.far, y: l.useful / l.cycles }));
  if (!dots.length || !peakMacs || !farMemory) { el("roofline").textContent = "No layer has multiply-adds on a unit."; return; }
  const knee = peakMacs / farMemory, W = 1300, H = 340, M = 62, FOOT = 42;
  const xs = [...dots.map(d => d.x), knee], ys = [...dots.map(d => d.y), peakMacs];
  const lo = v => Math.log10(Math.min(...v)) - .2, hi = v => Math.log10(Math.max(...v)) + .2;
  const [x0, x1, y0, y1] = [lo(xs), hi(xs), lo(ys), hi(ys)];
  const X = v => M + (Math.log10(v) - x0) / (x1 - x0) * (W - M - 10), Y = v => H - FOOT - (Math.log10(v) - y0) / (y1 - y0) * (H - FOOT - 14);
  let svg = `<svg viewBox="0 0 ${W} ${H}" width="${W}" style="max-width:100%">`;
  for (let e = Math.ceil(x0); e <= x1; e++) svg += `<line class="axis" x1="${X(10 ** e)}" x2="${X(10 ** e)}" y1="10" y2="${H - FOOT}"/><text x="${X(10 ** e)}" y="${H - FOOT + 15}" text-anchor="middle">${10 ** e}</text>`;
  for (let e = Math.ceil(y0); e <= y1; e++) svg += `<line class="axis" x1="${M}" x2="${W - 10}" y1="${Y(10 ** e)}" y2="${Y(10 ** e)}"/><text x="${M - 6}" y="${Y(10 ** e) + 4}" text-anchor="end">${10 ** e}</text>`;
  svg += `<text x="${(M + W) / 2}" y="${H - 8}" text-anchor="middle">useful multiply-adds for each byte moved from or to ${esc(summary.spaces[0].name)}</text>`;
  svg += `<text transform="translate(14 ${(H - FOOT) / 2}) rotate(-90)" text-anchor="middle">useful multiply-adds a cycle</text>`;
  const left = 10 ** x0;
  svg += `<polyline class="roof" points="${X(left)},${Y(Math.max(left * farMemory, 10 ** y0))} ${X(knee)},${Y(peakMacs)} ${W - 10},${Y(peakMacs)}"/>`;
  svg += dots.map((d, i) => `<circle cx="${X(d.x)}" cy="${Y(d.y)}" r="${4 + 14 * Math.sqrt(d.l.cycles / total)}" data-i="${i}" class="${isChosen(d.l.name) ? "chosen" : ""}"/>`).join("");
  // The longest layers by name, unless one stands there.
  const named = [];
  for (const d of [...dots].sort((a, b) => b.l.cycles - a.l.cycles).slice(0, 12)) {
    const [x, y] = [X(d.x) + 6 + 14 * Math.sqrt(d.l.cycles / total), Y(d.y) + 4];
    if (named.some(([a, b]) => Math.abs(a - x) < 90 && Math.abs(b - y) < 12)) continue;
    named.push([x, y]);
    svg += `<text class="dot" x="${Math.min(x, W - 90)}" y="${y}">${esc(tail(d.l.name, 16))}</text>`;
  }
  const without = layers.filter(l => l.cycles && !l.useful).length;
  el("roofline").innerHTML = svg + "</svg>" + (without ? `<p class="about">${without} layers without multiply-adds on a unit are not shown.</p>` : "");
  el("roofline").querySelectorAll("circle").forEach(c => {
    const d = dots[c.dataset.i];
    c.onmousemove = e => tip(e, `<b>${esc(d.l.name)}</b>${d.y.toFixed(1)} multiply-adds a cycle, ${d.x.toFixed(1)} for each byte<br><span>${fmt(d.l.cycles)} cycles</span>`);
    c.onmouseleave = () => tip();
    c.onclick = () => choose(parts(d.l.name));
  });
}
watchers.push(showRoofline);

function tip(e, html) {
  const t = el("tip");
  if (!e) { t.style.display = "none"; return; }
  t.innerHTML = html;
  t.style.display = "block";
  t.style.left = Math.max(0, Math.min(e.clientX + 14, innerWidth - t.offsetWidth - 8)) + "px";
  t.style.top = Math.max(0, Math.min(e.clientY + 14, innerHeight - t.offsetHeight - 8)) + "px";
}

// The timeline and the memory maps share what part of time they show.
const LEFT = 74, ROW = 26, AXIS = 18;
let view = [0, Math.max(1, timeline.cycles)];
const byRow = timeline.rows.map(() => []);
timeline.stretches.forEach(s => byRow[s.row].push(s));
function prepared(canvas, height) {
  const w = canvas.clientWidth || 900, ratio = devicePixelRatio || 1;
  canvas.style.height = height + "px";
  canvas.width = w * ratio; canvas.height = height * ratio;
  const c = canvas.getContext("2d");
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, w, height);
  c.font = "11px system-ui, sans-serif";
  return [c, w];
}
const xOf = (t, w) => LEFT + (t - view[0]) / (view[1] - view[0]) * (w - LEFT);
const tOf = (x, w) => view[0] + (x - LEFT) / (w - LEFT) * (view[1] - view[0]);
function axis(c, w, y) {
  const span = view[1] - view[0], step = [1, 2, 5, 10].map(m => m * 10 ** Math.floor(Math.log10(span / 8))).find(s => span / s <= 10);
  c.fillStyle = css("soft");
  c.fillText("cycles", 4, y + 12);
  for (let t = Math.ceil(view[0] / step) * step; t <= view[1]; t += step) { const x = xOf(t, w), text = fmt(t), wide = c.measureText(text).width; c.fillRect(x, y, 1, 4); c.fillText(text, Math.min(x + 3, w - wide - 2), y + 12); }
}
function showTimeline() {
  const canvas = el("timeline"), [c, w] = prepared(canvas, timeline.rows.length * ROW + AXIS);
  const colors = Object.fromEntries(kinds.concat("bad").map(k => [k, css(k)]));
  timeline.rows.forEach((row, r) => {
    const y = r * ROW + 3, stretches = byRow[r];
    // Of stretches narrower than a pixel, how much of each pixel's time is work, and of what color most of it is.
    const each = (view[1] - view[0]) / (w - LEFT), thin = new Map();
    // The first stretch that ends in view: starts and ends of a row rise together.
    let lo = 0, hi = stretches.length;
    while (lo < hi) { const mid = (lo + hi) >> 1; stretches[mid].end < view[0] ? lo = mid + 1 : hi = mid; }
    for (let i = lo; i < stretches.length && stretches[i].start <= view[1]; i++) {
      const s = stretches[i], x = Math.max(LEFT, xOf(s.start, w)), width = xOf(s.end, w) - x;
      const color = isChosen(s.layer) ? colors.bad : s.idle ? colors.idle : colors[row.kind];
      const alpha = s.idle ? .45 : .2 + .8 * s.busy / Math.max(1, s.end - s.start);
      if (width < 1) {
        const known = thin.get(Math.floor(x)) || { share: 0, color, most: 0 };
        const share = (s.idle ? 0 : s.busy) / each;
        known.share += share;
        if (share > known.most) [known.most, known.color] = [share, color];
        thin.set(Math.floor(x), known);
        continue;
      }
      c.fillStyle = color;
      c.globalAlpha = alpha;
      c.fillRect(x, y, width, ROW - 6);
      if (width > 60) { c.globalAlpha = 1; c.fillStyle = inkOn(color, alpha); c.save(); c.beginPath(); c.rect(x, y, width - 3, ROW); c.clip(); c.fillText(`${s.layer || s.name}`, x + 4, y + 14); c.restore(); }
    }
    for (const [x, { share, color }] of thin) {
      c.fillStyle = color;
      c.globalAlpha = Math.min(1, share);
      c.fillRect(x, y, 1, ROW - 6);
    }
    c.globalAlpha = 1;
    c.fillStyle = css("ink");
    c.fillText(row.name, 4, y + 14);
  });
  axis(c, w, timeline.rows.length * ROW);
}
watchers.push(showTimeline);
const maps = timeline.spaces.map((space, i) => ({ space, i })).filter(({ space, i }) => i > 0 && space.buffers.length).map(({ space }) => {
  const canvas = node("canvas");
  const peak = summary.spaces.find(s => s.name === space.name);
  el("memory").append(node("p", { class: "about", text: `${space.name}: ${fmt(space.bytes)} bytes, ${space.buffers.length} buffers, at most ${fmt(peak ? peak.peak_extent : 0)} bytes in use` }), canvas);
  // When the most bytes are held.
  const events = space.buffers.flatMap(b => [[b.start, b.bytes], [b.end + 1, -b.bytes]]).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  let held = 0, most = 0, fullest = 0;
  for (const [t, bytes] of events) if ((held += bytes) > most) [most, fullest] = [held, t];
  return { space, canvas, fullest };
});
data.memory.forEach(text => el("fullest").append(node("pre", { text })));
const HEIGHT = 300;
// Layers that run beside each other differ most: hues by the golden angle.
const hues = new Map(summary.layers.map((l, i) => [l.name, i * 137.5 % 360]));
function showMemory() {
  for (const { space, canvas, fullest } of maps) {
    const [c, w] = prepared(canvas, HEIGHT + AXIS);
    for (const b of space.buffers) {
      if (b.end < view[0] || b.start > view[1]) continue;
      const x = Math.max(LEFT, xOf(b.start, w)), width = Math.max(1, xOf(b.end, w) - x);
      const y = HEIGHT - (b.address + b.bytes) / space.bytes * HEIGHT, h = Math.max(1, b.bytes / space.bytes * HEIGHT);
      const marked = isChosen(b.layer) || isChosen(b.until);
      const color = marked ? css("bad") : hues.has(b.layer) ? `hsl(${hues.get(b.layer)} 45% 52%)` : css("idle");
      c.fillStyle = color;
      c.globalAlpha = .75;
      c.fillRect(x, y, width, h);
      c.globalAlpha = 1;
      c.strokeStyle = css("back");
      c.lineWidth = .7;
      c.strokeRect(x, y, width, h);
      if (width > 70 && h > 13) { c.fillStyle = inkOn(color, .75); c.save(); c.beginPath(); c.rect(x, y, width - 3, h); c.clip(); c.fillText(b.name, x + 4, y + 12); c.restore(); }
    }
    if (fullest >= view[0] && fullest <= view[1]) {
      c.strokeStyle = css("ink");
      c.setLineDash([4, 3]);
      c.beginPath(); c.moveTo(xOf(fullest, w), 0); c.lineTo(xOf(fullest, w), HEIGHT); c.stroke();
      c.setLineDash([]);
    }
    c.fillStyle = css("soft");
    for (let k = 0; k <= 4; k++) c.fillText(size(space.bytes * k / 4), 4, Math.max(10, HEIGHT - HEIGHT * k / 4 - 2));
    axis(c, w, HEIGHT);
  }
}
watchers.push(showMemory);
function redraw() { showTimeline(); showMemory(); }
function zoomable(canvas) {
  let from = null;
  canvas.addEventListener("wheel", e => {
    e.preventDefault();
    const w = canvas.clientWidth, at = tOf(e.offsetX, w), by = Math.exp(e.deltaY * .0015);
    const span = Math.min(timeline.cycles, Math.max(20, (view[1] - view[0]) * by));
    const start = Math.max(0, Math.min(timeline.cycles - span, at - (e.offsetX - LEFT) / (w - LEFT) * span));
    view = [start, start + span];
    redraw();
  }, { passive: false });
  canvas.addEventListener("mousedown", e => from = [e.offsetX, ...view]);
  addEventListener("mouseup", () => from = null);
  canvas.addEventListener("mousemove", e => {
    if (!from) return;
    const span = from[2] - from[1], by = (from[0] - e.offsetX) / (canvas.clientWidth - LEFT) * span;
    const start = Math.max(0, Math.min(timeline.cycles - span, from[1] + by));
    view = [start, start + span];
    redraw();
  });
  canvas.addEventListener("dblclick", () => { view = [0, Math.max(1, timeline.cycles)]; redraw(); });
}
el("all").onclick = () => { view = [0, Math.max(1, timeline.cycles)]; redraw(); };
el("pieces").textContent = timeline.stretches.length < timeline.pieces
  ? `${fmt(timeline.pieces)} pieces of work are shown as ${fmt(timeline.stretches.length)} stretches.` : `${fmt(timeline.pieces)} pieces of work.`;
zoomable(el("timeline"));
const stretchAt = e => {
  const w = el("timeline").clientWidth, t = tOf(e.offsetX, w), near = 2 * (view[1] - view[0]) / (w - LEFT);
  const row = byRow[Math.floor(e.offsetY / ROW)];
  return row && row.find(s => s.start - near <= t && t <= s.end + near);
};
el("timeline").addEventListener("mousemove", e => {
  const s = stretchAt(e);
  if (!s) return tip();
  tip(e, `<b>${esc(s.layer || "no layer")}</b>${esc(s.name)}${s.pieces > 1 ? `, ${fmt(s.pieces)} pieces` : ""}: ${fmt(s.busy)} cycles from ${fmt(s.start)} to ${fmt(s.end)}`
    + (s.bytes ? `<br>${fmt(s.bytes)} bytes` : "") + (s.waited ? `<br>waited ${fmt(s.waited)} cycles, most for ${esc(s.waited_for)}` : "") + `<br><span>${esc(s.at || "")}</span>`);
});
el("timeline").addEventListener("mouseleave", () => tip());
el("timeline").addEventListener("click", e => { const s = stretchAt(e); if (s && e.detail === 1 && s.layer) choose(parts(s.layer)); });
maps.forEach(({ space, canvas }) => {
  zoomable(canvas);
  const at = e => {
    const t = tOf(e.offsetX, canvas.clientWidth), a = (HEIGHT - e.offsetY) / HEIGHT * space.bytes;
    // The smallest one: a buffer may lie in another one.
    return space.buffers.filter(b => b.start <= t && t <= b.end && b.address <= a && a < b.address + b.bytes).sort((x, y) => x.bytes - y.bytes)[0];
  };
  canvas.addEventListener("mousemove", e => {
    const b = at(e);
    if (!b) return tip();
    tip(e, `<b>${esc(b.name)}</b>${fmt(b.bytes)} bytes at ${fmt(b.address)}, cycles ${fmt(b.start)} to ${fmt(b.end)}<br>first used by ${esc(b.first)}${b.layer ? " (" + esc(b.layer) + ")" : ""}`
      + `<br>lives until ${esc(b.last)}${b.until ? " (" + esc(b.until) + ")" : ""}`);
  });
  canvas.addEventListener("mouseleave", () => tip());
  canvas.addEventListener("click", e => { const b = at(e); if (b && e.detail === 1 && b.layer) choose(parts(b.layer)); });
});
addEventListener("resize", redraw);

// Groups.
function showGroups() {
  el("groups").replaceChildren(...layers.filter(l => l.name).map((l, i) => {
    const d = node("div", { onclick: () => choose(parts(l.name)), title: `${fmt(l.cycles)} cycles` }, node("i", { text: `${i + 1} ` }), parts(l.name).join(" + "));
    if (isChosen(l.name)) d.className = "chosen";
    return d;
  }));
}
watchers.push(showGroups);

// Graphs: operators in ranks from the inputs down, each behind all that it reads.
const SVG = "http://www.w3.org/2000/svg", NODE = 132, RANK = 40;
const shape = (tag, attrs, ...inner) => {
  const e = document.createElementNS(SVG, tag);
  for (const [k, v] of Object.entries(attrs)) k.startsWith("on") ? e[k] = v : e.setAttribute(k, v);
  e.append(...inner);
  return e;
};
const layerOf = new Map();
summary.layers.forEach(l => parts(l.name).forEach(p => layerOf.has(p) || layerOf.set(p, l.name)));
const drawn = [];
data.graphs.forEach(graph => {
  const { nodes } = graph, ranks = [], place = [];
  nodes.forEach((n, i) => {
    n.rank = n.from.reduce((r, f) => Math.max(r, nodes[f].rank + 1), 0);
    const wish = n.from.length ? n.from.reduce((x, f) => x + place[f], 0) / n.from.length : 0;
    const taken = ranks[n.rank] = ranks[n.rank] || new Set();
    let x = Math.round(wish);
    for (let d = 0; taken.has(x); d++) x = Math.round(wish) + (d % 2 ? -1 : 1) * Math.ceil((d + 1) / 2);
    taken.add(x);
    place[i] = x;
  });
  const left = Math.min(...place), wide = (Math.max(...place) - left + 1) * (NODE + 12) + 12;
  const xy = i => [12 + (place[i] - left) * (NODE + 12), 8 + nodes[i].rank * RANK];
  const svg = shape("svg", { width: wide, height: ranks.length * RANK + 10 });
  nodes.forEach((n, i) => n.from.forEach(f => {
    const [x1, y1] = xy(f), [x2, y2] = xy(i), a = x1 + NODE / 2, b = x2 + NODE / 2;
    svg.append(shape("path", { class: "edge", d: `M${a},${y1 + 22} C${a},${y1 + 34} ${b},${y2 - 12} ${b},${y2}` }));
  }));
  nodes.forEach((n, i) => {
    const [x, y] = xy(i), layer = n.at.map(p => layerOf.get(p)).find(l => l);
    const fill = layer ? `hsl(${hues.get(layer)} 45% 52%)` : css("idle");
    const box = shape("rect", { x, y, width: NODE, height: 22, rx: 4, fill });
    const text = shape("text", { x: x + 6, y: y + 15, style: `fill: ${inkOn(fill)}` });
    // Several of one name are told apart by what they do.
    const kind = n.op.slice(n.op.indexOf(".") + 1), known = n.at[0];
    const several = known && nodes.filter(o => o.at[0] === known).length > 1;
    text.textContent = !known ? tail(n.op, 20) : several ? `${tail(known, Math.max(6, 17 - kind.length))} · ${kind}`.slice(0, 21) : tail(known, 20);
    const all = shape("g", { class: "node", onclick: () => choose(n.at.length ? n.at : parts(layer)) }, box, text);
    all.addEventListener("mousemove", e => tip(e, `<b>${esc(n.at.join(" + ") || n.op)}</b>${esc(n.op)}<br>${esc(n.ty)}${layer ? `<br>layer ${esc(layer)}` : ""}`));
    all.addEventListener("mouseleave", () => tip());
    drawn.push({ box, at: n.at, layer });
    svg.append(all);
  });
  el("graphs").append(node("section", {}, node("header", {}, node("b", { text: graph.title }), node("span", { text: `${nodes.length} operators` })), node("div", { class: "graph" }, svg)));
});
if (!data.graphs.length) el("graphs").textContent = "Too many operators to draw.";
watchers.push(() => drawn.forEach(({ box, at, layer }) => box.setAttribute("class", at.some(p => chosen.has(p)) || isChosen(layer) ? "chosen" : "")));

// Remarks.
if (!data.remarks.length) el("remarks").textContent = "None.";
data.remarks.forEach(r => {
  const where = r.places.length ? ` at ${r.places.slice(0, 4).join(", ")}${r.places.length > 4 ? ` and ${r.places.length - 4} more` : ""}` : "";
  el("remarks").append(node("div", { class: "remark" }, r.message, node("span", { text: ` [${r.category}${r.cycles ? `, about ${fmt(r.cycles)} cycles` : ""}]${r.times > 1 ? `, ${r.times} times` : ""}${where}` }),
    ...r.notes.map(n => node("div", { text: n }))));
});

// Programs: two levels beside each other.
const levels = data.levels.filter(l => l.text);
levels.forEach(l => {
  l.lines = l.text.split("\n").map(line => {
    const at = line.lastIndexOf(" loc(");
    const loc = at < 0 ? "" : line.slice(at);
    return { text: at < 0 ? line : line.slice(0, at), names: [...loc.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(m => m[1]) };
  });
});
function program(at) {
  const code = node("div", { class: "code" }), select = node("select"), note = node("span");
  levels.forEach((l, i) => select.append(node("option", { value: i, text: l.name })));
  let shown = null;
  // Only lines in view are in the page: programs have many thousands.
  const height = 18;
  const draw = () => {
    const l = levels[at], first = Math.max(0, Math.floor(code.scrollTop / height) - 30), last = Math.min(l.lines.length, first + 100);
    const inner = node("div", { style: `height:${l.lines.length * height}px;position:relative;padding:0;cursor:default` });
    for (let i = first; i < last; i++) {
      const { text, names } = l.lines[i];
      const d = node("div", { style: `position:absolute;top:${i * height}px;height:${height}px`, text, title: names.join(", ") });
      d.onclick = () => { if (names.length) choose(names); };
      if (names.some(n => chosen.has(n))) d.className = "chosen";
      inner.append(d);
    }
    const [x, y] = [code.scrollLeft, code.scrollTop];
    code.replaceChildren(inner);
    code.scrollLeft = x; code.scrollTop = y;
  };
  const set = i => { at = Number(i); const l = levels[at]; select.value = at; note.textContent = l.file + (l.cut ? `, ${fmt(l.cut)} lines more in the file` : ""); code.scrollTop = 0; draw(); };
  select.onchange = () => set(select.value);
  let waiting = false;
  code.onscroll = () => { if (waiting) return; waiting = true; requestAnimationFrame(() => { waiting = false; draw(); }); };
  watchers.push(() => {
    const now = [...chosen].join();
    if (now && now !== shown) {
      const found = levels[at].lines.findIndex(line => line.names.some(n => chosen.has(n)));
      const top = found * height, inView = top >= code.scrollTop && top < code.scrollTop + 440;
      if (found >= 0 && !inView) code.scrollTop = Math.max(0, top - 80);
    }
    shown = now;
    draw();
  });
  el("programs").append(node("section", {}, node("header", {}, select, note), code));
  set(at);
}
if (levels.length) { program(0); program(levels.length - 1); }

showLayers(); showRoofline(); redraw(); showGroups();
document.documentElement.dataset.ready = "yes";
