// k over time: the smallest shared history and the smallest cell of each publication.

const NAMESPACE = "http://www.w3.org/2000/svg";
const [WIDE, HIGH, LEFT, RIGHT, TOP, BOTTOM] = [340, 150, 34, 8, 10, 34];
const MOST = 100; // publications shown

function element(name, attributes, text) {
  const node = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

const time = (seconds) => new Date(seconds * 1000).toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

/** Draw recent publications, oldest on the left; steps, since a value holds until the next one. */
export function drawTimeline(publications, k, exact) {
  const shown = publications.slice(-MOST);
  const values = shown.flatMap((one) => [one.k_over_history, one.smallest_cell]).filter((value) => value !== null);
  const top = Math.max(1.25 * k, ...values);
  const x = (i) => LEFT + (i / Math.max(1, shown.length)) * (WIDE - LEFT - RIGHT);
  const y = (value) => HIGH - BOTTOM - (value / top) * (HIGH - TOP - BOTTOM);
  const steps = (of) => shown.reduce((path, one, i) => (of(one) === null ? path : `${path}${i === 0 || of(shown[i - 1]) === null ? "M" : "L"}${x(i).toFixed(1)} ${y(of(one)).toFixed(1)}H${x(i + 1).toFixed(1)}`), "");
  const lowest = Math.min(...shown.map((one) => one.k_over_history ?? Infinity));
  const label = `Over ${shown.length} publications the smallest shared history had ${Number.isFinite(lowest) ? lowest : 0} devices; k is ${k}.`;
  const svg = element("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": label });
  svg.append(element("path", { class: "smallest", d: steps((one) => one.smallest_cell) }));
  svg.append(element("path", { class: "history", d: steps((one) => one.k_over_history) }));
  svg.append(element("path", { class: "limit", d: `M${LEFT} ${y(k)}H${WIDE - RIGHT}` }));
  shown.forEach((one, i) => {
    if (one.rebuilt) svg.append(element("circle", { class: "rebuilt", cx: x(i).toFixed(1), cy: HIGH - BOTTOM, r: 3 }));
  });
  svg.append(element("line", { class: "axis", x1: LEFT, x2: WIDE - RIGHT, y1: HIGH - BOTTOM, y2: HIGH - BOTTOM }));
  svg.append(element("text", { x: LEFT - 4, y: y(k) + 4, "text-anchor": "end" }, `k ${k}`));
  svg.append(element("text", { x: LEFT - 4, y: HIGH - BOTTOM + 4, "text-anchor": "end" }, "0"));
  svg.append(element("text", { x: LEFT, y: HIGH - BOTTOM + 15 }, time(shown[0].at)));
  svg.append(element("text", { x: WIDE - RIGHT, y: HIGH - BOTTOM + 15, "text-anchor": "end" }, time(shown[shown.length - 1].at)));
  svg.append(element("text", { x: WIDE / 2, y: HIGH - 4, "text-anchor": "middle" }, `smallest history${exact ? " and smallest cell" : ", rounded down"}; dots: rebuilds`));
  return svg;
}
