// The page: asks for the columns of the cells file and shows the answer, which stays here until copied.
(() => {
  const find = id => document.getElementById(id);
  const make = (tag, properties = {}, ...children) => {
    const node = Object.assign(document.createElement(tag), properties);
    node.append(...children);
    return node;
  };
  const [OTHER, CHOSEN] = ["other", "name "]; // prefixes of option values
  const HINTS = {
    integer: "A whole number.", float: "A number.", date: "A date.", datetime: "A date and time.",
    time: "A time of day.", duration: "A number of seconds.",
  };

  const naming = (column, name) => { // the file stores dates and times as counts
    const [, count, unit] = /^(-?\d+) (D|s|ms|us|ns)$/.exec(name) ?? [];
    if (!unit || !column.unit) return name;
    const milliseconds = { D: 864e5, s: 1e3, ms: 1, us: 1e-3, ns: 1e-6 }[unit] * Number(count);
    if (column.storage === "duration") return `${milliseconds / 1e3} seconds`;
    const text = new Date(Math.floor(milliseconds)).toISOString().replace(/(:00)?\.000Z$|Z$/, "");
    return { date: text.slice(0, 10), time: text.slice(11) }[column.storage] ?? text.replace("T", " ");
  };

  const choices = (column, part) => {
    const names = column.names.filter(name => name !== null);
    const options = names.map(name => make("option", { value: CHOSEN + name }, naming(column, name)));
    const other = column.storage === "boolean" ? [] : [make("option", { value: OTHER }, "Something else")];
    return make("select", { name: part }, make("option", { value: "" }, "Choose …"), ...options, ...other);
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
    const label = column.parts.length > 1 ? `${column.name}: ${["latitude", "longitude"][column.parts.indexOf(part)]}` : part;
    const hint = column.kind === "location" ? "In degrees." : isChosen(column) ? "" : column.kind === "code" ? "A code." : HINTS[column.storage] ?? "";
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
      box.append(make("p", {}, make("strong", {}, "Do not use this page. "), problems.join(" ")));
      return;
    }
    const { survey } = file, smallest = file.cells.sizes.reduce((a, b) => Math.min(a, b));
    const promise = survey
      ? `In each cell, either nobody or at least ${survey.k} people take part, except with probability ${survey.failure} at most. This page has recomputed that probability.`
      : `Every cell was formed from at least ${file.k} people.`;
    box.append(
      make("p", {}, make("strong", {}, "The cells on this page match their digest. "), `${file.count === 1 ? "There is 1 cell" : `There are ${file.count} cells`}; the smallest has ${smallest} people. ${promise}`),
      make("p", { className: "digest" }, "SHA-256 ", make("code", {}, file.digest)));
  };

  const show = (file, answer) => {
    const result = find("result"), entries = Object.entries(file.representatives ?? {});
    find("cell").textContent = String(answer.cell);
    find("published").replaceChildren(...entries.map(([name, values]) =>
      make("div", {}, make("dt", {}, name), make("dd", {}, String(values[answer.cell] ?? "missing")))));
    find("unfamiliar").textContent = answer.unfamiliar.length
      ? `Your answer for ${answer.unfamiliar.join(", ")} is unusual or not known to the survey. The nearest cell was chosen.` : "";
    const copy = { cell: answer.cell, design: file.sha256 };
    for (const [name, values] of entries) copy[name] = values[answer.cell];
    find("copy").value = JSON.stringify(copy);
    result.hidden = false;
    find("heading").focus();
  };

  const ask = (file, form) => {
    const parts = file.encoding.columns.flatMap(column => column.parts.map(part => ({ column, part })));
    find("fields").append(...parts.map(({ column, part }, i) => fieldOf(column, part, i)));
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
        show(file, Microcell.answer(file, record));
      } catch (error) {
        if (!(error instanceof Microcell.InputError)) throw error;
        const i = parts.findIndex(({ part }) => part === error.part);
        find(`e${i}`).textContent = error.message;
        find(`q${i}`).setAttribute("aria-invalid", "true");
        find(`q${i}`).focus();
      }
    });
    form.addEventListener("reset", () => { find("result").hidden = true; });
    find("copy-button").addEventListener("click", async () => {
      find("copy").select();
      try { await navigator.clipboard.writeText(find("copy").value); } catch { document.execCommand("copy"); }
      find("copied").textContent = "Copied.";
    });
    form.hidden = false;
  };

  const file = Microcell.load(find("cells").textContent);
  const problems = Microcell.check(file);
  showIntegrity(file, problems);
  if (!problems.length) ask(file, find("form"));
})();
