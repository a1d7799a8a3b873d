// The page: asks for the columns of the cells file and shows the answer, which stays here until copied.
(() => {
  const find = id => document.getElementById(id);
  const make = (tag, properties = {}, ...children) => {
    const node = Object.assign(document.createElement(tag), properties);
    node.append(...children);
    return node;
  };
  const asked = JSON.parse(find("questionnaire").textContent);
  const say = (text, values = {}) => // a built-in text in the language of the questionnaire
    (asked.texts[text] ?? text).replace(/\{(\w+)\}/g, (_, name) => values[name]);
  const labelOf = name => asked.labels[name] ?? name;
  const labelOfPart = (column, part) => asked.labels[part]
    ?? (column.parts.length > 1 ? `${labelOf(column.name)}: ${[say("latitude"), say("longitude")][column.parts.indexOf(part)]}` : labelOf(column.name));
  const valueName = (column, name) => asked.values[column]?.[name] ?? name;
  const [OTHER, CHOSEN] = ["other", "name "]; // prefixes of option values
  const HINTS = {
    integer: say("A whole number."), float: say("A number."), date: say("A date."), datetime: say("A date and time."),
    time: say("A time of day."), duration: say("A number of seconds."),
  };

  const naming = (column, name) => { // the file stores dates and times as counts
    const [, count, unit] = /^(-?\d+) (D|s|ms|us|ns)$/.exec(name) ?? [];
    if (!unit || !column.unit) return valueName(column.name, name);
    const milliseconds = { D: 864e5, s: 1e3, ms: 1, us: 1e-3, ns: 1e-6 }[unit] * Number(count);
    if (column.storage === "duration") return say("{n} seconds", { n: milliseconds / 1e3 });
    const text = new Date(Math.floor(milliseconds)).toISOString().replace(/(:00)?\.000Z$|Z$/, "");
    return { date: text.slice(0, 10), time: text.slice(11) }[column.storage] ?? text.replace("T", " ");
  };

  const choices = (column, part) => {
    const names = column.names.filter(name => name !== null);
    const options = names.map(name => make("option", { value: CHOSEN + name }, naming(column, name)));
    const other = column.storage === "boolean" ? [] : [make("option", { value: OTHER }, say("Something else"))];
    return make("select", { name: part }, make("option", { value: "" }, say("Choose …")), ...options, ...other);
  };
  const typed = (column, part) => {
    const input = make("input", { name: part, type: "text", spellcheck: false });
    if (column.kind === "code") return input;
    const types = { date: "date", datetime: "datetime-local", time: "time" };
    input.type = types[column.storage] ?? "text";
    if (["datetime", "time"].includes(column.storage)) input.step = "any";
    if (!types[column.storage]) input.inputMode = column.storage === "integer" ? "numeric" : "decimal";
    return input;
  };
  const isChosen = column => column.kind === "nominal"
    || (column.kind === "ordinal" && ["text", "boolean", "empty"].includes(column.storage));

  const chosen = value => (value === OTHER ? null : value && { name: value.slice(CHOSEN.length) });

  const fieldOf = (column, part, i) => {
    const field = isChosen(column) ? choices(column, part) : typed(column, part);
    const label = labelOfPart(column, part);
    const hint = column.kind === "location" ? say("In degrees.") : isChosen(column) ? "" : column.kind === "code" ? say("A code.") : HINTS[column.storage] ?? "";
    Object.assign(field, { id: `q${i}`, autocomplete: "off", required: true });
    field.setAttribute("aria-describedby", `h${i} e${i}`);
    return make("div", { className: "field" },
      make("label", { htmlFor: `q${i}` }, label), field,
      make("p", { id: `h${i}`, className: "hint" }, hint), make("p", { id: `e${i}`, className: "error" }));
  };

  const showIntegrity = (file, problems) => {
    const box = find("integrity");
    box.classList.add(problems.length ? "bad" : "good");
    if (problems.length) {
      box.append(make("p", {}, make("strong", {}, `${say("Do not use this page.")} `), problems.map(text => say(text)).join(" ")));
      return;
    }
    const { survey } = file, smallest = file.cells.sizes.reduce((a, b) => Math.min(a, b));
    const values = { k: survey?.k ?? file.k, failure: survey?.failure, count: file.count, smallest };
    const promise = !survey ? say("Every cell was formed from at least {k} people.", values)
      : survey.failure_of === "participant"
        ? say("If you take part, at least {k} people of your cell do, except with probability {failure} at most. This page has recomputed that probability.", values)
        : say("In each cell, either nobody or at least {k} people take part, except with probability {failure} at most. This page has recomputed that probability.", values);
    box.append(
      make("p", {}, make("strong", {}, `${say("The cells on this page match their digest.")} `), `${say("Number of cells: {count}; the smallest has {smallest} people.", values)} ${promise}`),
      make("p", { className: "digest" }, "SHA-256 ", make("code", {}, file.digest)));
  };

  // ------------------------------------------------------------------------ the organizer's questions

  const inputOf = (question, id) => {
    if (question.type === "number") return make("input", { id, type: "text", inputMode: "decimal", autocomplete: "off" });
    if (question.type === "text") return make("textarea", { id, rows: 3, autocomplete: "off" });
    const numbers = () => Array.from({ length: question.last - question.first + 1 }, (_, i) => String(question.first + i));
    const values = question.type === "choice" ? question.choices : numbers();
    return make("select", { id }, make("option", { value: "" }, say("Choose …")), ...values.map(value => make("option", { value }, value)));
  };
  const questionOf = (question, i) => {
    const id = `a${i}`, field = inputOf(question, id);
    const range = [question.first, question.last].filter(bound => bound !== null);
    const hint = question.type === "scale" ? `${question.first}: ${question.low || "–"}; ${question.last}: ${question.high || "–"}`
      : question.type === "text" ? say("Write nothing that identifies you.")
      : question.type === "number" && range.length === 2 ? say("From {first} to {last}.", question) : "";
    field.required = question.required;
    field.setAttribute("aria-describedby", `ah${i} ae${i}`);
    return make("div", { className: "field" },
      make("label", { htmlFor: id }, question.ask, question.required ? "" : ` (${say("optional")})`), field,
      make("p", { id: `ah${i}`, className: "hint" }, hint), make("p", { id: `ae${i}`, className: "error" }));
  };
  const valueOf = (question, text) => { // as it is handed in, or an error
    const plain = text.trim();
    if (!plain) {
      if (question.required) throw new Microcell.InputError("Please answer this question.");
      return null;
    }
    if (question.type === "text" || question.type === "choice") return plain;
    const value = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(plain) ? Number(plain) : NaN;
    if (!Number.isFinite(value)) throw new Microcell.InputError("Enter a number, with a point before decimals.");
    if ((question.first !== null && value < question.first) || (question.last !== null && value > question.last)) {
      throw new Microcell.InputError("This number is out of range.");
    }
    return value;
  };
  const readQuestions = () => {
    const values = {};
    let wrong = null;
    asked.questions.forEach((question, i) => {
      const field = find(`a${i}`);
      find(`ae${i}`).textContent = "";
      field.removeAttribute("aria-invalid");
      try {
        values[question.name] = valueOf(question, field.value);
      } catch (error) {
        if (!(error instanceof Microcell.InputError)) throw error;
        find(`ae${i}`).textContent = say(error.message);
        field.setAttribute("aria-invalid", "true");
        wrong ??= field;
      }
    });
    wrong?.focus();
    return wrong ? null : values;
  };

  // ---------------------------------------------------------------------------------------- the map

  const SVG = "http://www.w3.org/2000/svg";
  const draw = (tag, attributes, ...children) => {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  };
  const stepOf = span => [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 45].find(step => span / step <= 8) ?? 45;
  const extentOf = (file, column) => { // of all published places, and of the organizer's
    const { places = {}, lines = [] } = asked.map;
    const known = [...Object.values(places), ...lines.flat()];
    const ends = [0, 1].map(i => {
      const published = (file.representatives?.[column.parts[i]] ?? []).filter(value => value !== null);
      const values = [...published, ...known.map(point => point[i])];
      const low = values.reduce((a, b) => Math.min(a, b)), high = values.reduce((a, b) => Math.max(a, b));
      const margin = 0.25 * (high - low) + 0.02;
      return [low - margin, high + margin];
    });
    return { south: ends[0][0], north: ends[0][1], west: ends[1][0], east: ends[1][1] };
  };
  const mapOf = (file, column, inputs) => {
    const { south, north, west, east } = extentOf(file, column);
    const shrink = Math.cos((south + north) / 2 * Math.PI / 180), width = 600;
    const height = Math.min(900, Math.max(200, width * (north - south) / ((east - west) * shrink)));
    const x = longitude => (longitude - west) / (east - west) * width, y = latitude => (north - latitude) / (north - south) * height;
    const map = draw("svg", { viewBox: `0 0 ${width} ${height}`, class: "map", role: "img", "aria-label": say("Map: click where you live. You can also enter degrees below.") });
    const stepped = (low, high, step) => Array.from({ length: Math.floor(high / step) - Math.ceil(low / step) + 1 }, (_, i) => (Math.ceil(low / step) + i) * step);
    const step = stepOf(Math.max(north - south, east - west));
    const lineOf = (points, name) => draw("polyline", { points: points.map(([a, b]) => `${x(b)},${y(a)}`).join(" "), class: name });
    for (const value of stepped(south, north, step)) map.append(lineOf([[value, west], [value, east]], "grid"), draw("text", { x: 4, y: y(value) + (y(value) < 30 ? 22 : -3) }, `${Number(value.toFixed(2))}°`));
    for (const value of stepped(west, east, step)) map.append(lineOf([[south, value], [north, value]], "grid"), draw("text", { x: x(value) + (x(value) > width - 60 ? -3 : 3), y: height - 4, "text-anchor": x(value) > width - 60 ? "end" : "start" }, `${Number(value.toFixed(2))}°`));
    for (const points of asked.map.lines ?? []) map.append(lineOf(points, "line"));
    for (const [name, [a, b]] of Object.entries(asked.map.places ?? {})) map.append(draw("circle", { cx: x(b), cy: y(a), r: 4 }), draw("text", { x: x(b) + 7, y: y(a) + 4, class: "place" }, name));
    const mark = draw("circle", { r: 8, class: "mark", visibility: "hidden" });
    map.append(mark);
    const move = () => {
      const [a, b] = inputs.map(input => (input.value.trim() === "" ? NaN : Number(input.value)));
      mark.setAttribute("visibility", Number.isFinite(a + b) ? "visible" : "hidden");
      if (Number.isFinite(a + b)) { mark.setAttribute("cx", x(b)); mark.setAttribute("cy", y(a)); }
    };
    map.addEventListener("click", event => {
      const box = map.getBoundingClientRect();
      inputs[0].value = (north - (event.clientY - box.top) / box.height * (north - south)).toFixed(5);
      inputs[1].value = (west + (event.clientX - box.left) / box.width * (east - west)).toFixed(5);
      move();
    });
    inputs.forEach(input => input.addEventListener("input", move));
    return map;
  };

  const show = (file, answer, values) => {
    const result = find("result"), entries = Object.entries(file.representatives ?? {});
    const labels = Object.fromEntries(file.encoding.columns.flatMap(column => column.parts.map(part => [part, labelOfPart(column, part)])));
    find("cell").textContent = String(answer.cell);
    find("published").replaceChildren(...entries.map(([name, values]) =>
      make("div", {}, make("dt", {}, labels[name] ?? labelOf(name)), make("dd", {}, valueName(name, String(values[answer.cell] ?? say("missing")))))));
    find("unfamiliar").textContent = answer.unfamiliar.length
      ? say("Your answer for {names} is unusual or not known to the survey. The nearest cell was chosen.", { names: answer.unfamiliar.map(labelOf).join(", ") }) : "";
    const copy = { cell: answer.cell, design: file.sha256 };
    for (const [name, published] of entries) copy[name] = published[answer.cell];
    Object.assign(copy, values);
    find("copied").textContent = "";
    find("copy").value = JSON.stringify(copy);
    result.hidden = false;
    find("heading").focus();
  };

  const ask = (file, form) => {
    const parts = file.encoding.columns.flatMap(column => column.parts.map(part => ({ column, part })));
    find("fields").append(...parts.map(({ column, part }, i) => fieldOf(column, part, i)));
    for (const column of file.encoding.columns.filter(({ kind }) => kind === "location")) {
      const inputs = column.parts.map(part => find(`q${parts.findIndex(each => each.part === part)}`));
      if (file.representatives?.[column.parts[0]]?.length) inputs[0].parentNode.before(mapOf(file, column, inputs));
    }
    find("asked").append(...asked.questions.map(questionOf));
    if (asked.questions.length) find("asked").prepend(make("h2", {}, say("Questions")));
    form.addEventListener("submit", event => {
      event.preventDefault();
      const record = {};
      parts.forEach(({ column, part }, i) => {
        const { value } = find(`q${i}`);
        record[part] = isChosen(column) ? chosen(value) : value.trim();
        find(`e${i}`).textContent = "";
        find(`q${i}`).removeAttribute("aria-invalid");
      });
      find("result").hidden = true;
      try {
        const answer = Microcell.answer(file, record), values = readQuestions();
        if (values) show(file, answer, values);
      } catch (error) {
        if (!(error instanceof Microcell.InputError)) throw error;
        const i = parts.findIndex(({ part }) => part === error.part);
        find(`e${i}`).textContent = say(error.message);
        find(`q${i}`).setAttribute("aria-invalid", "true");
        find(`q${i}`).focus();
      }
    });
    form.addEventListener("reset", () => { find("result").hidden = true; });
    find("copy-button").addEventListener("click", async () => {
      find("copy").select();
      try { await navigator.clipboard.writeText(find("copy").value); } catch { document.execCommand("copy"); }
      find("copied").textContent = say("Copied.");
    });
    find("save-button").addEventListener("click", () => {
      const address = URL.createObjectURL(new Blob([find("copy").value], { type: "application/json" }));
      const name = `answer-${crypto.getRandomValues(new Uint32Array(2)).join("")}.json`;
      make("a", { href: address, download: name }).click();
      setTimeout(() => URL.revokeObjectURL(address), 1000);
      find("copied").textContent = say("Saved.");
    });
    find("send-button")?.addEventListener("click", async event => {
      const button = event.target;
      button.disabled = true;
      try {
        const reply = await fetch(asked.send, { method: "POST", headers: { "Content-Type": "application/json" }, body: find("copy").value, credentials: "omit", referrerPolicy: "no-referrer" });
        if (!reply.ok) throw new TypeError();
        find("copied").textContent = say("Sent. Thank you.");
      } catch (error) {
        if (!(error instanceof TypeError)) throw error;
        button.disabled = false;
        find("copied").textContent = say("It could not be sent. Try again, or save it as a file.");
      }
    });
    form.hidden = false;
  };

  const file = Microcell.load(find("cells").textContent);
  const problems = Microcell.check(file);
  showIntegrity(file, problems);
  if (!problems.length) ask(file, find("form"));
})();
