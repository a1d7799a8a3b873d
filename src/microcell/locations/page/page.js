// The page: asks the service, shows what it says, and lets the operator act.

import { colourBy, densityOf, figure } from "./colours.js";
import { drawHistograms } from "./histogram.js";
import { Globe } from "./map.js";

const EVERY = 5000; // milliseconds between two questions
const KEY = "microcell-operator";
const $ = (id) => document.getElementById(id);
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const count = (value) => value.toLocaleString("en");
const plural = (value, word) => `${count(value)} ${word}${value === 1 ? "" : "s"}`;

let view = null; // what the service said last
let tag = null;
let first = null; // devices when the page was opened
let lost = null; // since when the service does not answer
let busy = false;

const globe = new Globe($("map"), { onPoint: showCell, onChoose: sayCell });

// ------------------------------------------------------------------------------------------------------ words

function ago(seconds) {
  const passed = Math.max(0, Date.now() / 1000 - seconds);
  const [size, word] = [[86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]].find(([unit]) => passed >= unit) ?? [1, "second"];
  return passed < 5 ? "just now" : `${plural(Math.floor(passed / size), word)} ago`;
}

const clock = (time) => new Date(time).toLocaleTimeString("en-GB");
const kilometres = (value) => (value < 0.0005 ? "0 m" : value < 1 ? `${figure(value * 1000)} m` : `${figure(value)} km`);

function degrees({ latitude, longitude }) {
  return `${Math.abs(latitude).toFixed(4)}° ${latitude < 0 ? "S" : "N"}, ${Math.abs(longitude).toFixed(4)}° ${longitude < 0 ? "W" : "E"}`;
}

function factsOf(cell) {
  const dense = densityOf(cell);
  return [
    `Cell ${cell.number}`,
    plural(cell.size, "device"),
    cell.radius > 0 ? `radius ${kilometres(cell.radius)} (root mean square)` : "all devices at one spot",
    ...(Number.isFinite(dense) ? [`about ${figure(dense)} devices a km²`] : []),
    `published place ${degrees(cell)}`,
  ];
}

function entry(term, value, note) {
  const [row, dt, dd] = ["div", "dt", "dd"].map((name) => document.createElement(name));
  dt.textContent = term;
  dd.textContent = value;
  if (note) dd.append(Object.assign(document.createElement("small"), { textContent: note }));
  row.append(dt, dd);
  return row;
}

// ------------------------------------------------------------------------------------------------------ the map

function showCell(number) {
  const box = $("cell");
  const cell = globe.cells[number];
  box.hidden = !cell;
  if (!cell) return;
  const [title, ...facts] = factsOf(cell);
  box.replaceChildren(Object.assign(document.createElement("b"), { textContent: title }), ...facts.map((text) => Object.assign(document.createElement("span"), { textContent: text })));
}

function sayCell(number) {
  const cell = globe.cells[number];
  $("spoken").textContent = cell ? factsOf(cell).join(", ") : "No cell chosen.";
}

function paint() {
  const found = colourBy($("measure").value, globe.cells, dark.matches);
  const there = globe.cells.length > 0;
  $("ramp").style.background = found.gradient;
  $("ramp").classList.toggle("none", !there);
  $("ticks").replaceChildren(...(there ? found.ticks : []).map((text) => Object.assign(document.createElement("span"), { textContent: text })));
  $("unit").textContent = there ? found.unit : "";
  $("legend").setAttribute("aria-label", there ? `Colours: ${found.ticks.join(" to ")} ${found.unit}` : "No cells yet");
  globe.paint(found.colours);
}

function showEmpty() {
  const empty = view.features.length === 0;
  $("empty").hidden = !empty;
  if (!empty) return;
  const few = view.devices < view.k;
  $("empty-words").textContent = few
    ? `Waiting until ${count(view.k)} devices have signed up: ${count(view.devices)} of ${count(view.k)}`
    : "Enough devices have signed up: the first cells are being made";
  $("empty-bar").value = Math.min(1, view.devices / view.k);
}

function listCells() {
  if (!$("listing").open || !view) return;
  const sorted = [...globe.cells].sort((a, b) => a.size - b.size || a.number - b.number);
  const shown = sorted.slice(0, 100);
  $("rows").replaceChildren(...shown.map((cell) => {
    const row = document.createElement("tr");
    const dense = densityOf(cell);
    for (const text of [cell.number, count(cell.size), figure(cell.radius), Number.isFinite(dense) ? figure(dense) : "one spot", degrees(cell)]) {
      row.append(Object.assign(document.createElement("td"), { textContent: text }));
    }
    return row;
  }));
  $("rows-note").textContent = sorted.length > shown.length ? `The ${shown.length} smallest of ${count(sorted.length)} cells, smallest first.` : sorted.length ? "Smallest first." : "No cells yet.";
}

// ------------------------------------------------------------------------------------------------------ the facts

function showFacts() {
  first ??= view.devices;
  const change = view.devices - first;
  $("devices").textContent = count(view.devices);
  $("change").textContent = change === 0 ? "no change" : `${change > 0 ? "+" : "−"}${count(Math.abs(change))}`;
  $("waiting").textContent = count(view.waiting);
  $("cells").textContent = count(view.features.length);
  $("k").textContent = count(view.k);
  $("promise-k").textContent = `k = ${count(view.k)}`;
  const least = $("least");
  least.textContent = view.least_size === null ? "no cells yet" : plural(view.least_size, "device");
  least.className = view.least_size === null ? "" : view.least_size >= view.k ? "good" : "bad";
  $("map").setAttribute("aria-label", `Map of ${plural(view.features.length, "cell")} of ${plural(view.devices, "device")}`);
  showTimes();
}

function showTimes() {
  if (view) {
    $("rebuilt").replaceChildren(view.rebuilt === null ? "not yet" : ago(view.rebuilt));
    if (view.rebuilt !== null) $("rebuilt").append(Object.assign(document.createElement("small"), { textContent: new Date(view.rebuilt * 1000).toLocaleString("en-GB") }));
  }
  const state = $("state");
  const words = lost ? `The service has not answered since ${clock(lost)}. ${view ? "Shown is what it said last; asking" : "Asking"} again every few seconds.` : view ? "Live" : "Asking the service …";
  if (state.textContent !== words) state.textContent = words; // said aloud only when it changes
  state.dataset.state = lost ? "gone" : view ? "live" : "loading";
}

async function refresh() {
  if (busy || document.hidden) return;
  busy = true;
  try {
    const answer = await fetch("cells", { headers: tag ? { "If-None-Match": tag } : {}, cache: "no-store" });
    if (answer.status !== 304) {
      if (!answer.ok) throw new Error(String(answer.status));
      const before = view;
      view = await answer.json();
      tag = answer.headers.get("ETag");
      globe.show(view.features);
      if (before && before.features.length === 0 && view.features.length > 0) globe.fit();
      paint();
      showCell(globe.chosen);
      listCells();
      showFacts();
      showEmpty();
      setRange();
    }
    lost = null;
  } catch {
    lost ??= Date.now();
  }
  busy = false;
  showTimes();
  if (token()) await refreshStatus();
}

// ------------------------------------------------------------------------------------------------------ the operator

const token = () => sessionStorage.getItem(KEY);

function leave(why) {
  sessionStorage.removeItem(KEY);
  $("inside").hidden = true;
  $("enter").hidden = false;
  $("refused").textContent = why;
  $("answer").replaceChildren();
  $("chart").hidden = true;
  today = null;
}

/** What the service answers the operator; nothing where it refuses the token. */
async function ask(path, options = {}) {
  const answer = await fetch(path, { ...options, cache: "no-store", headers: { Authorization: `Bearer ${token()}` } });
  if (answer.status === 401 || answer.status === 403) {
    leave("This is not the operator’s token.");
    return null;
  }
  const body = await answer.json().catch(() => ({}));
  if (answer.ok) return body;
  throw new Error(typeof body.detail === "string" ? body.detail : `The service refused (${answer.status}).`);
}

async function refreshStatus() {
  try {
    const status = await ask("status");
    if (!status) return;
    $("enter").hidden = true;
    $("inside").hidden = false;
    $("refused").textContent = "";
    showStatus(status);
  } catch (error) {
    $("refused").textContent = error instanceof TypeError ? "The service does not answer." : error.message;
  }
}

function showStatus(status) {
  const seconds = status.rebuild_seconds;
  $("status").replaceChildren(
    entry("Sign-ups", count(status.sign_ups)),
    entry("Moves", count(status.moves)),
    entry("Cancellations", count(status.cancellations)),
    entry("Changes since the rebuild", count(status.changes), `a rebuild begins after ${count(status.changes_until_rebuild)} more`),
    entry("Rebuilds", count(status.rebuilds), seconds === null ? "" : `the last took ${figure(seconds)} s`),
    entry("Merges of cells", count(status.merges)),
    ...(status.last_failure ? [entry("Last failure", status.last_failure)] : []),
  );
  $("rebuild").disabled = status.rebuilding;
  if (status.rebuilding) $("rebuild-note").textContent = "Rebuilding: look-ups go on with the cells of now.";
  else if ($("rebuild-note").textContent.startsWith("Rebuilding")) $("rebuild-note").textContent = `Rebuilt at ${clock((status.rebuilt ?? 0) * 1000)}.`;
}

async function rebuild() {
  $("rebuild").disabled = true;
  try {
    if (!(await ask("rebuild", { method: "POST" }))) return;
    $("rebuild-note").textContent = "Rebuilding: look-ups go on with the cells of now.";
    await refresh();
  } catch (error) {
    $("rebuild-note").textContent = error instanceof TypeError ? "The service does not answer." : error.message;
    $("rebuild").disabled = false;
  }
}

// ------------------------------------------------------------------------------------------------------ what if

let today = null; // the answer for the k of now, and what it was an answer to

const most = () => Math.max(2, view ? view.devices : 2);
const toSlider = (k) => Math.round((1000 * Math.log(k / 2)) / Math.max(1e-9, Math.log(most() / 2)));
const fromSlider = (place) => Math.max(2, Math.round(2 * (most() / 2) ** (place / 1000)));

function setRange() {
  const number = $("k-number");
  number.max = String(most());
  if (!number.value) number.value = String(Math.min(most(), 2 * view.k));
  $("k-slider").value = String(toSlider(Number(number.value)));
}

function describe(found) {
  const at = Object.fromEntries(found.quantiles.map(([share, km]) => [share, km]));
  return `With k = ${count(found.k)} there would be ${plural(found.cells, "cell")}. Devices would be ${kilometres(found.mean)} from the location they use on average: half of them within ${kilometres(at[0.5])}, 95 % within ${kilometres(at[0.95])}.`;
}

function compare(now, then) {
  if (now.k === then.k) return "This is the k of now.";
  const times = now.mean > 0 ? then.mean / now.mean : NaN;
  const words = !Number.isFinite(times) ? "" : times >= 1 ? `${figure(times)} times as far as` : `${figure(100 * times)} % of what it is`;
  return words ? `On average that is ${words} with the k of now, ${count(now.k)}.` : `With the k of now, ${count(now.k)}, it is 0.`;
}

function quantileTable(now, then) {
  const table = document.createElement("table");
  const both = now.k !== then.k;
  const row = (name, cells, kind) => {
    const made = document.createElement("tr");
    made.append(...[name, ...cells].map((text, i) => Object.assign(document.createElement(kind), { textContent: text, ...(kind === "th" ? { scope: "col" } : {}) })));
    return made;
  };
  const head = row("Devices within", [...(both ? [`k = ${count(now.k)}`] : []), `k = ${count(then.k)}`], "th");
  const key = (name) => Object.assign(document.createElement("i"), { className: `key ${name}` });
  if (both) head.children[1].prepend(key("now"));
  head.lastChild.prepend(key("then"));
  const values = (of) => [...(both ? [kilometres(of(now))] : []), kilometres(of(then))];
  table.append(head, ...then.quantiles.map(([share], i) => row(`${Math.round(100 * share)} %`, values((found) => found.quantiles[i][1]), "td")), row("on average", values((found) => found.mean), "td"));
  return table;
}

async function whatIf(k) {
  $("ask-button").disabled = true;
  $("answer").textContent = "Working it out, which takes some seconds …";
  try {
    const key = `${view.k} ${view.generation}`;
    if (today?.key !== key) {
      const found = await ask(`what-if?k=${view.k}`);
      if (!found) return;
      today = { key, found };
    }
    const then = k === today.found.k ? today.found : await ask(`what-if?k=${k}`);
    if (!then) return;
    const words = `${describe(then)} ${compare(today.found, then)}`;
    $("answer").replaceChildren(Object.assign(document.createElement("p"), { textContent: words }));
    $("chart").replaceChildren(drawHistograms(today.found, then, `Two histograms of kilometres. ${words}`), quantileTable(today.found, then));
    $("chart").hidden = false;
  } catch (error) {
    $("chart").hidden = true;
    $("answer").replaceChildren(Object.assign(document.createElement("p"), { className: "wrong", textContent: error instanceof TypeError ? "The service does not answer." : error.message }));
  } finally {
    $("ask-button").disabled = false;
  }
}

// ------------------------------------------------------------------------------------------------------ listening

$("nearer").addEventListener("click", () => globe.zoom(1.6));
$("farther").addEventListener("click", () => globe.zoom(1 / 1.6));
$("all").addEventListener("click", () => globe.fit(true));
$("measure").addEventListener("change", paint);
$("listing").addEventListener("toggle", listCells);
dark.addEventListener("change", paint);
document.addEventListener("visibilitychange", refresh);
$("enter").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(KEY, $("token").value.trim());
  $("token").value = "";
  refreshStatus();
});
$("leave").addEventListener("click", () => leave(""));
$("rebuild").addEventListener("click", rebuild);
$("k-slider").addEventListener("input", () => { $("k-number").value = String(fromSlider(Number($("k-slider").value))); });
$("k-number").addEventListener("input", () => { if (Number($("k-number").value) >= 2) $("k-slider").value = String(toSlider(Number($("k-number").value))); });
$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  if (view) whatIf(Number($("k-number").value));
});

refresh();
setInterval(refresh, EVERY);
setInterval(showTimes, 1000);
