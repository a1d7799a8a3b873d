// Behaviour of all pages: every change goes through the JSON API, then the page shows its new state.

const meta = (name) => document.querySelector(`meta[name="${name}"]`)?.content ?? "";
const content = () => document.getElementById("content");

class Failure extends Error {
  constructor({ code, message }) {
    super(message);
    this.code = code;
  }
}

async function call(method, url, body) {
  const options = { method, headers: { "x-csrf-token": meta("csrf-token") } };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["content-type"] = "application/json";
  }
  let response;
  try {
    response = await fetch(url, options);
  } catch {
    throw new Failure({ code: "service.unavailable", message: "The studio does not answer. Is it still running?" });
  }
  const data = response.status === 204 ? null : await response.json();
  if (!response.ok) throw new Failure(data.error);
  return data;
}

const project = () => `/api/projects/${meta("project")}`;

function announce(text) {
  document.getElementById("announcer").textContent = text;
}

// Show what is wrong next to where it happened, or at the top of the page.
function complain(error, near) {
  const text = error instanceof Failure ? error.message : String(error);
  const place = near?.closest("form, section")?.querySelector(".failure") ?? near?.closest("section")?.querySelector(".failure");
  if (place) {
    place.textContent = text;
    place.hidden = false;
    return;
  }
  document.getElementById("problem")?.remove();
  const box = document.createElement("div");
  box.id = "problem";
  box.className = "card problem";
  box.setAttribute("role", "alert");
  box.textContent = text;
  content().querySelector("h1").after(box);
}

// Replace the parts of the page that depend on the project, and keep the focus where it was.
async function refresh() {
  const response = await fetch(location.href);
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const focused = document.activeElement?.id;
  const open = [...document.querySelectorAll("details")].map((item) => item.open);
  for (const selector of ["header", "nav", "main"]) {
    const fresh = page.querySelector(selector);
    if (fresh) document.querySelector(selector)?.replaceWith(fresh);
  }
  document.querySelector('meta[name="step"]')?.replaceWith(page.querySelector('meta[name="step"]'));
  document.title = page.title;
  const details = [...document.querySelectorAll("details")];
  if (details.length === open.length) details.forEach((item, i) => { item.open ||= open[i]; });
  if (focused) document.getElementById(focused)?.focus();
  start();
}

async function change(body, near) {
  try {
    await call("PATCH", project(), { step: Number(meta("step")), ...body });
    await refresh();
    announce("Saved");
  } catch (error) {
    // Show the value that is in force again, and then what was wrong.
    await refresh().catch(() => {});
    complain(error, near?.isConnected ? near : null);
  }
}

const pathOf = (element, name = "path") => element.dataset[name].split("/").map(decodeURIComponent);

function valueOf(element) {
  const text = element.value.trim();
  if (text === "") return null;
  if (element.dataset.number === "whole") return Math.round(Number(text));
  if (element.dataset.list) return text.split(",").map((item) => item.trim()).filter(Boolean);
  return element.dataset.path.endsWith("/delimiter") && text.toLowerCase() === "tab" ? "\t" : text;
}

async function move(to) {
  try {
    await call("POST", `${project()}/history`, { to });
    await refresh();
    announce(to === "undo" ? "Undone" : to === "redo" ? "Done again" : "Returned to the step");
  } catch (error) {
    complain(error);
  }
}

async function create(body, near) {
  near.disabled = true;
  announce("Opening the table");
  try {
    const made = await call("POST", "/api/projects", body);
    location.href = `/projects/${made.id}/${made.next}`;
  } catch (error) {
    near.disabled = false;
    complain(error, near);
  }
}

// fetch cannot tell how much has been sent.
function upload(file, progress) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("PUT", `/api/uploads?name=${encodeURIComponent(file.name)}`);
    request.setRequestHeader("x-csrf-token", meta("csrf-token"));
    request.upload.onprogress = (event) => { progress.value = (100 * event.loaded) / event.total; };
    request.onerror = () => reject(new Failure({ code: "service.unavailable", message: "The upload was interrupted. Try again." }));
    request.onload = () => {
      const data = JSON.parse(request.responseText);
      if (request.status === 200) resolve(data.upload);
      else reject(new Failure(data.error));
    };
    request.send(file);
  });
}

const seconds = (number) => (number < 90 ? `${Math.max(1, Math.round(number))} s` : `${Math.round(number / 60)} min`);

function follow(box) {
  if (!["waiting", "running"].includes(box.dataset.state)) return;
  const source = new EventSource(`/api/jobs/${box.dataset.job}/events`);
  const bar = box.querySelector("progress");
  source.onmessage = (event) => {
    const job = JSON.parse(event.data);
    if (!box.isConnected) return source.close();
    if (job.state === "waiting" || job.state === "running") {
      box.querySelector(".doing").textContent = job.task ? `${job.task[0].toUpperCase()}${job.task.slice(1)}` : "Working";
      if (job.total) bar.value = (100 * job.done) / job.total;
      else bar.removeAttribute("value");
      const left = job.seconds_left === null ? "" : `, about ${seconds(job.seconds_left)} left in this part`;
      box.querySelector(".time").textContent = `${seconds(job.seconds)} so far${left}`;
      return;
    }
    source.close();
    announce(job.state === "done" ? "Done" : `The task was ${job.state}`);
    if (job.state === "done" && job.kind === "make_release") location.href = `/projects/${meta("project")}/result`;
    else refresh();
  };
  source.onerror = () => {
    box.querySelector(".doing").textContent = "The connection to the studio was lost. It is being restored.";
  };
}

async function fill(box) {
  try {
    const response = await fetch(box.dataset.load);
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const fragment = page.getElementById("fragment");
    if (fragment) box.replaceChildren(...fragment.childNodes);
  } catch {
    box.textContent = "This could not be counted. Reload the page.";
  }
}

const clicks = {
  move: (button) => move(/^\d+$/.test(button.dataset.move) ? Number(button.dataset.move) : button.dataset.move),
  sample: (button) => create({ sample: button.dataset.sample }, button),
  preset: (button) => change({ preset: button.dataset.preset }, button),
  remove: (button) => change({ edits: [{ path: pathOf(button, "remove"), value: null }] }, button),
  k: async (button) => {
    await change({ edits: [{ path: ["k"], value: Number(button.dataset.k) }] }, button);
  },
  start: async (button) => {
    button.disabled = true;
    try {
      await call("POST", `${project()}/jobs`, { kind: button.dataset.start });
      await refresh();
    } catch (error) {
      button.disabled = false;
      complain(error);
    }
  },
  cancel: async (button) => {
    button.disabled = true;
    try {
      await call("DELETE", `/api/jobs/${button.dataset.cancel}`);
      await refresh();
    } catch (error) {
      complain(error);
    }
  },
  delete: async (button) => {
    if (button.dataset.sure !== "yes") {
      button.dataset.sure = "yes";
      button.textContent = "Delete for good?";
      return;
    }
    try {
      await call("DELETE", `/api/projects/${button.dataset.delete}`);
      await refresh();
    } catch (error) {
      complain(error);
    }
  },
};

document.addEventListener("click", (event) => {
  const target = event.target.closest("button, [role=button]");
  for (const name of Object.keys(clicks)) {
    if (target?.dataset[name] !== undefined) return clicks[name](target);
  }
});

document.addEventListener("change", (event) => {
  const element = event.target;
  if (element.dataset.path && element.closest("[data-edit]")) {
    if (!element.checkValidity()) return element.reportValidity();
    change({ edits: [{ path: pathOf(element), value: valueOf(element) }] }, element);
  }
  const note = element.closest("[data-note]");
  if (note) call("PUT", `${project()}/history/${note.dataset.note}/note`, { text: element.value }).then(() => announce("Saved"), complain);
});

document.addEventListener("submit", async (event) => {
  const form = event.target;
  event.preventDefault();
  const data = new FormData(form);
  if (form.matches("[data-upload]")) {
    const button = form.querySelector("button");
    const progress = form.querySelector("progress");
    button.disabled = true;
    progress.hidden = false;
    try {
      const file = data.get("file");
      await create({ upload: await upload(file, progress), name: file.name }, button);
    } catch (error) {
      complain(error, form);
    } finally {
      progress.hidden = true;
      button.disabled = false;
    }
  } else if (form.matches("[data-create]")) {
    create({ path: data.get("path") }, form.querySelector("button"));
  } else if (form.matches("[data-limit]")) {
    const column = data.get("column");
    const name = data.get("measure") + (column ? `.${column}` : "");
    change({ edits: [{ path: ["require", name], value: Number(data.get("limit")) }] }, form);
  } else if (form.matches("[data-fields]")) {
    change({ fields: { [form.dataset.fields]: Object.fromEntries(data) } }, form);
  }
});

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, select, textarea");
  if (!typing && meta("project") && (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z") {
    event.preventDefault();
    move(event.shiftKey ? "redo" : "undo");
  }
  if ((event.key === "Enter" || event.key === " ") && event.target.matches("[role=button]:not(button)")) {
    event.preventDefault();
    event.target.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  }
});

function start() {
  document.querySelectorAll("[data-job]").forEach(follow);
  document.querySelectorAll("[data-load]").forEach(fill);
}

start();
