// The page: polls the service, shows its state, and offers the operator's actions.

import { colourBy, densityOf, figure } from "./colours.js";
import { drawHistograms } from "./histogram.js";
import { Globe } from "./map.js";
import { drawTimeline } from "./timeline.js";

const POLL_INTERVAL = 5000; // milliseconds
const KEY = "microcell-operator";
const $ = (id) => document.getElementById(id);
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const count = (value) => value.toLocaleString("en");
const plural = (value, word) => `${count(value)} ${word}${value === 1 ? "" : "s"}`;

let view = null; // latest response of the service
let tag = null;
let first = null; // devices when the page was opened
let lost = null; // time since which the service has not responded
let busy = false;

const globe = new Globe($("map"), { onPoint: showCell, onChoose: announceCell });

// ------------------------------------------------------------------------------ formatting

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
    sizeOf(cell),
    `radius ${kilometres(cell.radius)} (root mean square)`,
    ...(Number.isFinite(dense) ? [`about ${figure(dense)} devices per km²`] : []),
    `published location ${degrees(cell)}`,
    ...(globe.countryAt(cell) ? [globe.countryAt(cell)] : []),
  ];
}

const sizeOf = (cell) => `${count(cell.at_least)} to ${count(cell.below - 1)} devices`;

function entry(term, value, note) {
  const [row, dt, dd] = ["div", "dt", "dd"].map((name) => document.createElement(name));
  dt.textContent = term;
  dd.textContent = value;
  if (note) dd.append(Object.assign(document.createElement("small"), { textContent: note }));
  row.append(dt, dd);
  return row;
}

// ------------------------------------------------------------------------------ map

function showCell(number) {
  const box = $("cell");
  const cell = globe.cells[number];
  box.hidden = !cell;
  if (!cell) return;
  const [title, ...facts] = factsOf(cell);
  box.replaceChildren(Object.assign(document.createElement("b"), { textContent: title }), ...facts.map((text) => Object.assign(document.createElement("span"), { textContent: text })));
}

function announceCell(number) {
  const cell = globe.cells[number];
  $("spoken").textContent = cell ? factsOf(cell).join(", ") : "No cell selected.";
}

function paint() {
  const scheme = colourBy($("measure").value, globe.cells, dark.matches);
  const hasCells = globe.cells.length > 0;
  $("ramp").style.background = scheme.gradient;
  $("ramp").classList.toggle("none", !hasCells);
  $("ticks").replaceChildren(...(hasCells ? scheme.ticks : []).map((text) => Object.assign(document.createElement("span"), { textContent: text })));
  $("unit").textContent = hasCells ? scheme.unit : "";
  $("legend").setAttribute("aria-label", hasCells ? `Colours: ${scheme.ticks.join(" to ")} ${scheme.unit}` : "No cells yet");
  globe.paint(scheme.colours);
}

function showEmpty() {
  const empty = view.features.length === 0;
  $("empty").hidden = !empty;
  if (!empty) return;
  const few = view.devices < view.k;
  $("empty-words").textContent = few
    ? `Waiting for enough devices to sign up; a location is shared by at least ${count(view.k)}`
    : "No cells: the devices are too far apart, or are waiting for the next publication";
  $("empty-bar").hidden = true;
}

function listCells() {
  if (!$("listing").open || !view) return;
  const sorted = [...globe.cells].sort((a, b) => a.at_least - b.at_least || a.number - b.number);
  const shown = sorted.slice(0, 100);
  $("rows").replaceChildren(...shown.map((cell) => {
    const row = document.createElement("tr");
    const dense = densityOf(cell);
    for (const text of [cell.number, sizeOf(cell).replace(" devices", ""), figure(cell.radius), globe.countryAt(cell) ?? "–", Number.isFinite(dense) ? figure(dense) : "one location", degrees(cell)]) {
      row.append(Object.assign(document.createElement("td"), { textContent: text }));
    }
    return row;
  }));
  $("rows-note").textContent = sorted.length > shown.length ? `The ${shown.length} smallest of ${count(sorted.length)} cells, smallest first.` : sorted.length ? "Smallest first." : "No cells yet.";
}

// ------------------------------------------------------------------------------ current state

function showFacts() {
  first ??= view.devices;
  const change = view.devices - first;
  $("devices").textContent = count(view.devices);
  $("change").textContent = change === 0 ? "no change" : `${change > 0 ? "+" : "−"}${count(Math.abs(change))}`;
  $("waiting").textContent = count(view.waiting);
  $("cells").textContent = count(view.features.length);
  $("k").textContent = count(view.k);
  $("promise-k").textContent = `k = ${count(view.k)}`;
  const smallest = $("smallest");
  smallest.textContent = view.smallest_cell === null ? "no cells yet" : `${plural(view.smallest_cell, "device")} or more`;
  smallest.className = view.smallest_cell === null ? "" : view.smallest_cell >= view.k ? "good" : "bad";
  $("map").setAttribute("aria-label", `Map of ${plural(view.features.length, "cell")} with ${plural(view.devices, "device")}`);
  showTimes();
}

function showTime(id, at) {
  $(id).replaceChildren(at === null ? "not yet" : ago(at));
  if (at !== null) $(id).append(Object.assign(document.createElement("small"), { textContent: new Date(at * 1000).toLocaleString("en-GB") }));
}

function showTimes() {
  if (view) {
    showTime("published", view.published_at);
    $("next").textContent = timeline?.next_publication_at ? `in ${plural(Math.max(0, Math.round(timeline.next_publication_at - Date.now() / 1000)), "second")}` : "–";
    $("rebuilt").replaceChildren(view.rebuilt_at === null ? "not yet" : ago(view.rebuilt_at));
    if (view.rebuilt_at !== null) $("rebuilt").append(Object.assign(document.createElement("small"), { textContent: new Date(view.rebuilt_at * 1000).toLocaleString("en-GB") }));
  }
  const state = $("state");
  const text = lost ? `No response from the service since ${clock(lost)}; retrying.${view ? " The data shown may be out of date." : ""}` : view ? "Live" : "Connecting to the service …";
  if (state.textContent !== text) state.textContent = text; // announced by screen readers when it changes
  state.dataset.state = lost ? "gone" : view ? "live" : "loading";
}

async function refresh() {
  if (busy || document.hidden) return;
  busy = true;
  try {
    const response = await fetch("cells", { headers: tag ? { "If-None-Match": tag } : {}, cache: "no-store" });
    if (response.status !== 304) {
      if (!response.ok) throw new Error(String(response.status));
      const before = view;
      view = await response.json();
      tag = response.headers.get("ETag");
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
  await refreshTimeline();
  busy = false;
  showTimes();
  if (token()) await refreshStatus();
}

// ------------------------------------------------------------------------------ k over time

let timeline = null; // recent publications
let exact = null; // the same with exact figures, for the operator

async function refreshTimeline() {
  try {
    const response = await fetch("publications", { cache: "no-store" });
    if (!response.ok) return;
    timeline = await response.json();
    if (token()) exact = (await ask("history"))?.publications ?? null;
    const shown = exact ?? timeline.publications;
    if (shown.length) $("timeline").replaceChildren(drawTimeline(shown, timeline.k, exact !== null), timelineNote(shown));
    if (!token()) showAlarms([]);
  } catch {
    // the state of the connection is shown elsewhere
  }
}

function timelineNote(shown) {
  const lowest = Math.min(...shown.map((one) => one.k_over_history ?? Infinity));
  const text = Number.isFinite(lowest)
    ? `At every publication, at least ${plural(lowest, "device")} shared the whole history of every alias (k = ${count(timeline.k)})${exact ? "" : "; figures are rounded down"}.`
    : "No cells so far.";
  return Object.assign(document.createElement("p"), { className: "quiet", textContent: text });
}

function showAlarms(alarms) {
  const items = alarms.map(({ code, message }) => Object.assign(document.createElement("li"), { textContent: message, className: code.endsWith("below_k") || code.endsWith("failed") ? "grave" : "" }));
  const below = timeline?.publications.at(-1)?.k_over_history < timeline?.k && timeline.publications.at(-1).k_over_history !== null;
  if (!items.length) items.push(Object.assign(document.createElement("li"), below ? { textContent: "A history is shared by fewer than k devices.", className: "grave" } : { textContent: "No alarms.", className: "fine" }));
  const list = $("alarms");
  if (list.textContent !== items.map((item) => item.textContent).join("")) list.replaceChildren(...items); // announced when it changes
}

// ------------------------------------------------------------------------------ operator

const token = () => sessionStorage.getItem(KEY);

function signOut(reason) {
  sessionStorage.removeItem(KEY);
  $("inside").hidden = true;
  $("enter").hidden = false;
  $("refused").textContent = reason;
  $("answer").replaceChildren();
  $("chart").hidden = true;
  current = null;
  exact = null;
}

/** The response to an operator's request; null if the token is rejected. */
async function ask(path, options = {}) {
  const response = await fetch(path, { ...options, cache: "no-store", headers: { Authorization: `Bearer ${token()}` } });
  if (response.status === 401 || response.status === 403) {
    signOut("The token is not valid.");
    return null;
  }
  const body = await response.json().catch(() => ({}));
  if (response.ok) return body;
  throw new Error(typeof body.detail === "string" ? body.detail : `The request failed (status ${response.status}).`);
}

async function refreshStatus() {
  try {
    const status = await ask("status");
    if (!status) return;
    $("enter").hidden = true;
    $("inside").hidden = false;
    $("refused").textContent = "";
    showStatus(status);
    if (filling && view) {
      filling = false;
      whatIf(Number($("k-number").value));
    }
  } catch (error) {
    $("refused").textContent = error instanceof TypeError ? "The service does not respond." : error.message;
  }
}

function showStatus(status) {
  showAlarms(status.alarms);
  const seconds = status.rebuild_seconds;
  $("status").replaceChildren(
    entry("Devices", count(status.devices), `${count(status.waiting)} waiting, ${count(status.pending)} changed since the last publication`),
    entry("Smallest cell", status.smallest_cell === null ? "–" : count(status.smallest_cell), `k = ${count(status.k)} and ${count(status.colluders)} that may collude`),
    entry("k over history", status.k_over_history === null ? "–" : count(status.k_over_history)),
    entry("Mean distance", status.distance === null ? "–" : kilometres(status.distance)),
    entry("Publications", count(status.publications), `the last one renewed ${plural(status.renewed, "alias").replace("aliass", "aliases")}`),
    entry("Sign-ups", count(status.sign_ups)),
    entry("Moves", count(status.moves)),
    entry("Cancellations", count(status.cancellations)),
    entry("Changes since the last rebuild", count(status.changes), `next rebuild after ${count(status.changes_until_rebuild)} more`),
    entry("Rebuilds", count(status.rebuilds), seconds === null ? "" : `the last one took ${figure(seconds)} s`),
    entry("Merged cells", count(status.merges)),
    ...(status.last_failure ? [entry("Last failure", status.last_failure)] : []),
  );
  $("rebuild").disabled = status.rebuild_requested;
  if (status.rebuild_requested) $("rebuild-note").textContent = "All cells will be rebuilt as soon as the differences from earlier publications involve enough devices.";
  else if ($("rebuild-note").textContent.startsWith("All cells")) $("rebuild-note").textContent = `Rebuilt at ${clock((status.rebuilt_at ?? 0) * 1000)}.`;
}

async function rebuild() {
  $("rebuild").disabled = true;
  try {
    if (!(await ask("rebuild", { method: "POST" }))) return;
    await refresh();
  } catch (error) {
    $("rebuild-note").textContent = error instanceof TypeError ? "The service does not respond." : error.message;
    $("rebuild").disabled = false;
  }
}

// ------------------------------------------------------------------------------ what if

let current = null; // the result for the current k, with the cells it belongs to
let filling = false; // a demonstration shows the comparison at once, without a click

const most = () => Math.max(2, view ? view.devices : 2);
const toSlider = (k) => Math.round((1000 * Math.log(k / 2)) / Math.max(1e-9, Math.log(most() / 2)));
const fromSlider = (place) => Math.max(2, Math.round(2 * (most() / 2) ** (place / 1000)));

function setRange() {
  const number = $("k-number");
  number.max = String(most());
  if (!number.value) number.value = String(Math.min(most(), 2 * view.k));
  $("k-slider").value = String(toSlider(Number(number.value)));
}

function describe(result) {
  const within = Object.fromEntries(result.quantiles.map(([share, km]) => [share, km]));
  return `With k = ${count(result.k)} there would be ${plural(result.cells, "cell")}. On average, devices would be ${kilometres(result.mean)} from the location they use: half of them within ${kilometres(within[0.5])}, 95 % within ${kilometres(within[0.95])}.`;
}

function compare(now, then) {
  if (now.k === then.k) return "This is the current k.";
  const times = now.mean > 0 ? then.mean / now.mean : NaN;
  const ratio = !Number.isFinite(times) ? "" : times >= 1 ? `${figure(times)} times the distance` : `${figure(100 * times)} % of the distance`;
  return ratio ? `On average that is ${ratio} at the current k = ${count(now.k)}.` : `At the current k = ${count(now.k)} the distance is 0.`;
}

function quantileTable(now, then) {
  const table = document.createElement("table");
  const both = now.k !== then.k;
  const row = (name, cells, kind) => {
    const tr = document.createElement("tr");
    tr.append(...[name, ...cells].map((text, i) => Object.assign(document.createElement(kind), { textContent: text, ...(kind === "th" ? { scope: "col" } : {}) })));
    return tr;
  };
  const head = row("Devices within", [...(both ? [`k = ${count(now.k)}`] : []), `k = ${count(then.k)}`], "th");
  const key = (name) => Object.assign(document.createElement("i"), { className: `key ${name}` });
  if (both) head.children[1].prepend(key("now"));
  head.lastChild.prepend(key("then"));
  const values = (of) => [...(both ? [kilometres(of(now))] : []), kilometres(of(then))];
  table.append(head, ...then.quantiles.map(([share], i) => row(`${Math.round(100 * share)} %`, values((result) => result.quantiles[i][1]), "td")), row("on average", values((result) => result.mean), "td"));
  return table;
}

async function whatIf(k) {
  $("ask-button").disabled = true;
  $("answer").textContent = "Computing; this takes a few seconds …";
  try {
    const key = `${view.k} ${view.generation}`;
    if (current?.key !== key) {
      const result = await ask(`what-if?k=${view.k}`);
      if (!result) return;
      current = { key, result };
    }
    const then = k === current.result.k ? current.result : await ask(`what-if?k=${k}`);
    if (!then) return;
    const text = `${describe(then)} ${compare(current.result, then)}`;
    $("answer").replaceChildren(Object.assign(document.createElement("p"), { textContent: text }));
    $("chart").replaceChildren(drawHistograms(current.result, then, `Two histograms of distances. ${text}`), quantileTable(current.result, then));
    $("chart").hidden = false;
  } catch (error) {
    $("chart").hidden = true;
    $("answer").replaceChildren(Object.assign(document.createElement("p"), { className: "wrong", textContent: error instanceof TypeError ? "The service does not respond." : error.message }));
  } finally {
    $("ask-button").disabled = false;
  }
}

// ------------------------------------------------------------------------------ events

$("nearer").addEventListener("click", () => globe.zoom(1.6));
$("farther").addEventListener("click", () => globe.zoom(1 / 1.6));
$("all").addEventListener("click", () => globe.fit(true));
$("area").addEventListener("click", () => globe.nextArea());
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
$("leave").addEventListener("click", () => signOut(""));
$("rebuild").addEventListener("click", rebuild);
$("k-slider").addEventListener("input", () => { $("k-number").value = String(fromSlider(Number($("k-slider").value))); });
$("k-number").addEventListener("input", () => { if (Number($("k-number").value) >= 2) $("k-slider").value = String(toSlider(Number($("k-number").value))); });
$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  if (view) whatIf(Number($("k-number").value));
});

// A demonstration gives the token in the fragment, which is not sent to the server.
const given = /^#operator=([\w-]+)$/.exec(location.hash);
if (given) {
  sessionStorage.setItem(KEY, given[1]);
  filling = true;
  history.replaceState(null, "", location.pathname);
}
fetch("page/world.json").then((response) => response.json()).then((world) => globe.showWorld(world)).catch(() => {});
refresh();
setInterval(refresh, POLL_INTERVAL);
setInterval(showTimes, 1000);
