// Colour scales of the cells, readable with colour vision deficiencies.

const LIGHT = ["#e3f0cf", "#a5d7b2", "#55b3ad", "#2b809f", "#214c82", "#28215c"];
const DARK = ["#243352", "#285a8c", "#2e89a1", "#52b99b", "#a9dc8b", "#f4f3a4"];

export const MEASURES = {
  size: { of: (cell) => cell.at_least, unit: "devices at least", log: false },
  radius: { of: (cell) => cell.radius, unit: "km, root mean square", log: true },
  density: { of: (cell) => densityOf(cell), unit: "devices per km²", log: true },
};

/** Devices per square kilometre of an evenly filled disc with this root mean square radius. */
export function densityOf({ at_least: size, radius }) {
  return radius > 0 ? size / (2 * Math.PI * radius * radius) : Infinity;
}

export function figure(value) {
  if (value === Infinity) return "∞";
  if (value === 0) return "0";
  const digits = value >= 100 ? 0 : Math.min(6, Math.max(0, 1 - Math.floor(Math.log10(value))));
  return value.toLocaleString("en", { maximumFractionDigits: digits });
}

const parse = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));

function mix(stops, share) {
  const at = Math.min(stops.length - 1.000001, Math.max(0, share * (stops.length - 1)));
  const [from, to] = [parse(stops[Math.floor(at)]), parse(stops[Math.floor(at) + 1])];
  return `rgb(${from.map((value, i) => Math.round(value + (to[i] - value) * (at % 1))).join(" ")})`;
}

/** Colours of the cells, and the gradient, ticks and unit of the legend. */
export function colourBy(name, cells, dark) {
  const { of, unit, log } = MEASURES[name];
  const stops = dark ? DARK : LIGHT;
  const values = cells.map(of);
  const finite = values.filter((value) => Number.isFinite(value) && (!log || value > 0)).sort((a, b) => a - b);
  if (finite.length === 0) return { colours: values.map(() => mix(stops, 0.5)), ticks: [], unit, gradient: mix(stops, 0.5) };
  // A few extremes would leave one colour for all others, so the scale is clipped.
  const cut = log ? Math.floor(finite.length * 0.02) : 0;
  const [low, high] = [finite[cut], finite[finite.length - 1 - cut]];
  const place = log ? Math.log : (value) => value;
  const back = log ? Math.exp : (value) => value;
  const span = place(high) - place(low);
  const share = (value) => (value === Infinity ? 1 : value <= 0 && log ? 0 : span > 0 ? (place(value) - place(low)) / span : 0.5);
  const ticks = span > 0 ? [0, 0.5, 1].map((part) => figure(name === "size" ? Math.round(back(place(low) + span * part)) : back(place(low) + span * part))) : [figure(low)];
  if (cut > 0 && span > 0) [ticks[0], ticks[2]] = [`≤ ${ticks[0]}`, `≥ ${ticks[2]}`];
  return {
    colours: values.map((value) => mix(stops, Math.min(1, Math.max(0, share(value))))),
    ticks: [...new Set(ticks)],
    unit,
    gradient: span > 0 ? `linear-gradient(to right, ${stops.join(", ")})` : mix(stops, 0.5),
  };
}
