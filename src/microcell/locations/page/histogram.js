// Distances between devices and the locations they use: two histograms on one axis.

const NAMESPACE = "http://www.w3.org/2000/svg";
const [WIDE, HIGH, LEFT, RIGHT, TOP, BOTTOM] = [340, 190, 8, 8, 10, 36];

function element(name, attributes, text) {
  const node = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

/** Share of devices per kilometre: bars have different widths, so areas represent counts. */
function heights({ edges, counts }) {
  const all = counts.reduce((sum, count) => sum + count, 0) || 1;
  return counts.map((count, i) => count / all / (edges[i + 1] - edges[i]));
}

function outline({ edges }, tall, x, y) {
  const corners = tall.map((height, i) => `L${x(edges[i])} ${y(height)}L${x(edges[i + 1])} ${y(height)}`);
  return `M${x(edges[0])} ${y(0)}${corners.join("")}L${x(edges[edges.length - 1])} ${y(0)}Z`;
}

function stepOf(end) {
  const power = 10 ** Math.floor(Math.log10(end / 4));
  return [1, 2, 5, 10].find((factor) => (factor * power * 5) >= end) * power;
}

/** Draw the requested histogram in front of the current one. */
export function drawHistograms(now, then, label) {
  const quantile = (result) => result.quantiles[result.quantiles.length - 1][1];
  const last = (result) => result.edges[result.edges.length - 1];
  const end = Math.max(...[now, then].map((result) => Math.min(last(result), 1.15 * quantile(result)) || last(result)));
  const [low, high] = [heights(now), heights(then)];
  const top = Math.max(...low, ...high);
  const x = (km) => (LEFT + (Math.min(km, end) / end) * (WIDE - LEFT - RIGHT)).toFixed(1);
  const y = (height) => (HIGH - BOTTOM - (height / top) * (HIGH - TOP - BOTTOM)).toFixed(1);
  const svg = element("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": label });
  if (now.k !== then.k) svg.append(element("path", { class: "now", d: outline(now, low, x, y) }));
  svg.append(element("path", { class: "then", d: outline(then, high, x, y) }));
  svg.append(element("line", { class: "axis", x1: LEFT, x2: WIDE - RIGHT, y1: HIGH - BOTTOM, y2: HIGH - BOTTOM }));
  const step = stepOf(end);
  for (let i = 0; i * step <= end * 1.0001; i += 1) {
    const at = x(i * step);
    svg.append(element("line", { class: "axis", x1: at, x2: at, y1: HIGH - BOTTOM, y2: HIGH - BOTTOM + 4 }));
    svg.append(element("text", { x: at, y: HIGH - BOTTOM + 16, "text-anchor": i === 0 ? "start" : at > WIDE - 20 ? "end" : "middle" }, String(Number((i * step).toPrecision(6)))));
  }
  svg.append(element("text", { x: WIDE / 2, y: HIGH - 4, "text-anchor": "middle" }, "distance from device to location (km)"));
  return svg;
}
