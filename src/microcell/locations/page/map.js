// The map: an orthographic projection, in which poles and the antimeridian need no special treatment.

const EARTH = 6371.0088; // kilometres
const RADIANS = Math.PI / 180;
const MAX_SCALE = EARTH * 1000; // pixels per Earth radius: a pixel is a metre
const AREA = 300; // kilometres between cells of different areas
const STEPS = [30, 15, 10, 5, 2, 1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005];

const unit = (longitude, latitude) => {
  const flat = Math.cos(latitude * RADIANS);
  return [flat * Math.cos(longitude * RADIANS), flat * Math.sin(longitude * RADIANS), Math.sin(latitude * RADIANS)];
};
const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
const wrap = (longitude) => ((((longitude + 180) % 360) + 360) % 360) - 180;

/** Rings of a geometry with corners as unit vectors; `cut` marks sides that only split the geometry at the antimeridian. */
function readRings(geometry) {
  if (!geometry) return [];
  const polygons = geometry.type === "Polygon" ? [geometry.coordinates] : geometry.coordinates;
  return polygons.flat().map((ring) => {
    const points = new Float64Array(3 * ring.length);
    const cut = new Uint8Array(ring.length);
    ring.forEach(([longitude, latitude], i) => {
      points.set(unit(longitude, latitude), 3 * i);
      if (i === 0) return;
      const [before, below] = ring[i - 1];
      cut[i] = (Math.abs(longitude) === 180 && longitude === before) || (Math.abs(latitude) === 90 && latitude === below) ? 1 : 0;
    });
    return { ring, points, cut };
  });
}

function boundsOf(rings) {
  const box = { west: 180, east: -180, south: 90, north: -90 };
  for (const { ring } of rings) {
    for (const [longitude, latitude] of ring) {
      box.west = Math.min(box.west, longitude);
      box.east = Math.max(box.east, longitude);
      box.south = Math.min(box.south, latitude);
      box.north = Math.max(box.north, latitude);
    }
  }
  return box;
}

function holds(cell, longitude, latitude) {
  const { west, east, south, north } = cell.box;
  if (longitude < west || longitude > east || latitude < south || latitude > north) return false;
  let odd = false;
  for (const { ring } of cell.rings) {
    for (let i = 1; i < ring.length; i += 1) {
      const [x0, y0] = ring[i - 1];
      const [x1, y1] = ring[i];
      if (y0 > latitude !== y1 > latitude && longitude < x0 + ((latitude - y0) * (x1 - x0)) / (y1 - y0)) odd = !odd;
    }
  }
  return odd;
}

/** Rings of the countries' outlines, in the form of those of cells. */
function readWorld({ units, arcs, countries }) {
  const lines = arcs.map((steps) => {
    const line = [];
    let [x, y] = [0, 0];
    for (let i = 0; i < steps.length; i += 2) {
      x += steps[i];
      y += steps[i + 1];
      line.push([x / units, y / units]);
    }
    return line;
  });
  const join = (ring) => ring.flatMap((arc, i) => {
    const line = arc < 0 ? [...lines[~arc]].reverse() : lines[arc];
    return i === 0 ? line : line.slice(1);
  });
  return countries.map(([name, rings]) => {
    const read = rings.flatMap((ring) => readRings({ type: "Polygon", coordinates: [join(ring)] }));
    return { name, rings: read, box: boundsOf(read) };
  });
}

/** Round down to 1, 2 or 5 times a power of ten, for the scale bar. */
function roundDown(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [5, 2, 1].find((factor) => factor * power <= value) * power;
}

export class Globe {
  constructor(canvas, { onPoint, onChoose }) {
    Object.assign(this, { canvas, onPoint, onChoose, cells: [], order: [], colours: [], countries: [], latitude: 20, longitude: 0, scale: 0, hovered: -1, chosen: -1, moved: false, everything: false });
    this.pen = canvas.getContext("2d");
    this.pointers = new Map();
    this.listen();
    new ResizeObserver(() => this.resize()).observe(canvas);
    this.resize();
  }

  // ------------------------------------------------------------------------------ content

  show(features) {
    this.cells = features.map((feature) => {
      const rings = readRings(feature.geometry);
      return { ...feature.properties, rings, box: boundsOf(rings), middle: unit(feature.properties.longitude, feature.properties.latitude) };
    });
    this.order = [...this.cells.keys()].sort((one, other) => this.cells[other].radius - this.cells[one].radius);
    this.hovered = -1;
    if (this.chosen >= this.cells.length) this.chosen = -1;
    if (!this.moved) this.fit();
    this.draw();
  }

  /** Draw the outlines of countries under the cells. */
  showWorld(world) {
    this.countries = readWorld(world);
    this.draw();
  }

  /** Name of the country at a place, if any. */
  countryAt({ longitude, latitude }) {
    return this.countries.find((country) => holds(country, longitude, latitude))?.name ?? null;
  }

  paint(colours) {
    this.colours = colours;
    this.draw();
  }

  resize() {
    const { clientWidth, clientHeight } = this.canvas;
    const ratio = window.devicePixelRatio || 1;
    this.width = Math.max(1, clientWidth);
    this.height = Math.max(1, clientHeight);
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (!this.moved) this.fit();
    this.paintNow();
  }

  /** Cells to fit: all, or all but a few very wide ones. One stray device would shrink a city to a dot. */
  fitted() {
    if (this.area) return this.area;
    if (this.everything) return this.cells;
    const radii = this.cells.map((cell) => cell.radius).sort((one, other) => one - other);
    const near = this.cells.filter((cell) => cell.radius <= 50 * radii[radii.length >> 1]);
    return near.length >= 0.9 * this.cells.length ? near : this.cells;
  }

  /** Rotate and zoom so that the cells are visible; all of them if `everything` is true. */
  fit(everything = this.everything, area = null) {
    this.moved = false;
    this.everything = everything;
    this.area = area;
    const whole = 0.46 * Math.min(this.width, this.height);
    const sum = [0, 0, 0];
    for (const { middle } of this.fitted()) middle.forEach((value, i) => { sum[i] += value; });
    const length = Math.hypot(...sum);
    this.scale = whole;
    if (length < 1e-6 * Math.max(1, this.cells.length)) {
      [this.latitude, this.longitude] = [20, 0];
      return this.draw();
    }
    this.latitude = Math.atan2(sum[2], Math.hypot(sum[0], sum[1])) / RADIANS;
    this.longitude = Math.atan2(sum[1], sum[0]) / RADIANS;
    for (let round = 0; round < 3; round += 1) {
      const box = this.extent();
      if (!box) break;
      this.scale = clamp(0.94 * Math.min(this.width / box.wide, this.height / box.high), whole, MAX_SCALE);
      this.turn(((box.left + box.right) / 2) * this.scale, ((box.top + box.bottom) / 2) * this.scale);
    }
    return this.draw();
  }

  /** Cells in groups that are far apart, the largest first. */
  areas() {
    const left = new Set(this.cells);
    const groups = [];
    while (left.size) {
      const group = [left.values().next().value];
      left.delete(group[0]);
      for (const { middle } of group) { // grows while it is walked through
        for (const other of left) {
          if (Math.hypot(...middle.map((value, i) => value - other.middle[i])) * EARTH < AREA) {
            group.push(other);
            left.delete(other);
          }
        }
      }
      groups.push(group);
    }
    return groups.sort((one, other) => other.length - one.length);
  }

  /** Show one area after another. */
  nextArea() {
    const areas = this.areas();
    if (!areas.length) return;
    this.turnOf = this.area ? (this.turnOf + 1) % areas.length : 0;
    this.fit(false, areas[this.turnOf]);
    this.moved = true; // stay there when the cells change
  }

  /** Extent of the cells in Earth radii; null if they reach beyond the horizon. */
  extent() {
    const axes = this.axes();
    const box = { left: Infinity, right: -Infinity, top: Infinity, bottom: -Infinity };
    for (const { rings } of this.fitted()) {
      for (const { points } of rings) {
        for (let i = 0; i < points.length; i += 3) {
          const [x, y, z] = this.seen(points, i, axes);
          if (z < 0.2) return null;
          box.left = Math.min(box.left, x);
          box.right = Math.max(box.right, x);
          box.top = Math.min(box.top, y);
          box.bottom = Math.max(box.bottom, y);
        }
      }
    }
    const [wide, high] = [box.right - box.left, box.bottom - box.top];
    return wide > 0 || high > 0 ? { ...box, wide: Math.max(wide, 1e-9), high: Math.max(high, 1e-9) } : null;
  }

  // ------------------------------------------------------------------------------ projection

  axes() {
    const [phi, theta] = [this.latitude * RADIANS, this.longitude * RADIANS];
    const [sp, cp, st, ct] = [Math.sin(phi), Math.cos(phi), Math.sin(theta), Math.cos(theta)];
    return [-st, ct, 0, sp * ct, sp * st, -cp, cp * ct, cp * st, sp]; // right, down, towards the viewer
  }

  seen(points, i, [a, b, c, d, e, f, g, h, j]) {
    const [x, y, z] = [points[i], points[i + 1], points[i + 2]];
    return [a * x + b * y + c * z, d * x + e * y + f * z, g * x + h * y + j * z];
  }

  /** Longitude and latitude under a pixel; null outside the Earth. */
  under(px, py) {
    const [x, y] = [(px - this.width / 2) / this.scale, (py - this.height / 2) / this.scale];
    const square = 1 - x * x - y * y;
    if (square < 0) return null;
    const z = Math.sqrt(square);
    const [a, b, c, d, e, f, g, h, j] = this.axes();
    const v = [a * x + d * y + g * z, b * x + e * y + h * z, c * x + f * y + j * z];
    return [Math.atan2(v[1], v[0]) / RADIANS, Math.atan2(v[2], Math.hypot(v[0], v[1])) / RADIANS];
  }

  /** Rotate the Earth by a number of pixels. */
  turn(dx, dy) {
    this.longitude = wrap(this.longitude + dx / this.scale / Math.max(0.05, Math.cos(this.latitude * RADIANS)) / RADIANS);
    this.latitude = clamp(this.latitude - dy / this.scale / RADIANS, -90, 90);
  }

  zoom(factor, px = this.width / 2, py = this.height / 2) {
    const kept = this.under(px, py);
    this.scale = clamp(this.scale * factor, 0.3 * Math.min(this.width, this.height), MAX_SCALE);
    for (let round = 0; kept && round < 3; round += 1) {
      const now = this.under(px, py);
      if (!now) break;
      this.longitude = wrap(this.longitude + wrap(kept[0] - now[0]));
      this.latitude = clamp(this.latitude + kept[1] - now[1], -90, 90);
    }
    this.moved = true;
    this.draw();
  }

  // ------------------------------------------------------------------------------ drawing

  draw() {
    if (this.due) return;
    this.due = requestAnimationFrame(() => this.paintNow());
  }

  paintNow() {
    cancelAnimationFrame(this.due);
    this.due = 0;
    const style = getComputedStyle(this.canvas);
    const colour = (name) => style.getPropertyValue(name).trim();
    const { pen, width, height } = this;
    const axes = this.axes();
    pen.clearRect(0, 0, width, height);
    pen.fillStyle = colour("--paper");
    pen.fillRect(0, 0, width, height);
    pen.beginPath();
    pen.arc(width / 2, height / 2, Math.min(this.scale, 1e5), 0, 2 * Math.PI);
    pen.fillStyle = colour("--sea");
    pen.fill();
    this.drawCountries(axes, colour);
    this.drawCells(axes, colour);
    this.drawBorders(axes, colour);
    const labels = this.drawGraticule(axes, colour);
    if (this.scale < 1e5) {
      pen.beginPath();
      pen.arc(width / 2, height / 2, this.scale, 0, 2 * Math.PI);
      pen.strokeStyle = colour("--edge");
      pen.lineWidth = 1;
      pen.stroke();
    }
    this.drawMarked(axes, colour);
    this.drawLabels(labels, colour);
    this.drawScale(colour);
  }

  /** Trace the path of a cell; false if none of it is visible. */
  trace(cell, axes, borders) {
    const { pen, scale, width, height } = this;
    let near = false;
    let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
    const lines = [];
    for (const { points, cut } of cell.rings) {
      const line = new Float64Array((points.length / 3) * 2);
      for (let i = 0; i < cut.length; i += 1) {
        let [x, y, z] = this.seen(points, 3 * i, axes);
        if (z < 0) { // behind the horizon: clamp to its edge
          const length = Math.hypot(x, y) || 1;
          [x, y] = [x / length, y / length];
        } else near = true;
        const px = width / 2 + scale * x;
        const py = height / 2 + scale * y;
        line[2 * i] = px;
        line[2 * i + 1] = py;
        left = Math.min(left, px);
        right = Math.max(right, px);
        top = Math.min(top, py);
        bottom = Math.max(bottom, py);
      }
      lines.push([line, cut]);
    }
    if (!near || right < 0 || left > width || bottom < 0 || top > height) return false;
    pen.beginPath();
    for (const [line, cut] of lines) {
      for (let i = 0; i < cut.length; i += 1) {
        if (i === 0 || (borders && cut[i])) pen.moveTo(line[2 * i], line[2 * i + 1]);
        else pen.lineTo(line[2 * i], line[2 * i + 1]);
      }
    }
    return true;
  }

  drawCountries(axes, colour) {
    const { pen } = this;
    pen.fillStyle = colour("--land");
    for (const country of this.countries) if (this.trace(country, axes, false)) pen.fill("evenodd");
  }

  /** Borders and coasts, faint above the cells so that one sees where they are. */
  drawBorders(axes, colour) {
    const { pen } = this;
    pen.strokeStyle = colour("--coast");
    pen.lineWidth = 0.8;
    pen.lineJoin = "round";
    for (const country of this.countries) if (this.trace(country, axes, true)) pen.stroke();
  }

  drawCells(axes, colour) {
    const { pen } = this;
    pen.lineJoin = "round";
    const many = this.cells.length > 3000;
    const line = colour("--cell-line");
    this.order.forEach((number) => { // wide cells first: drawn on a coarser map, they may overlap others
      const cell = this.cells[number];
      if (!this.trace(cell, axes, false)) return;
      pen.fillStyle = this.colours[number] ?? "#888888";
      pen.fill("evenodd");
      const whole = cell.rings.every(({ cut }) => !cut.includes(1));
      pen.strokeStyle = whole ? line : pen.fillStyle; // the cut at the antimeridian is not a border
      pen.lineWidth = whole ? (many ? 0.4 : 0.8) : 0.5;
      pen.stroke();
      if (whole) return;
      this.trace(cell, axes, true);
      pen.strokeStyle = line;
      pen.lineWidth = many ? 0.4 : 0.8;
      pen.stroke();
    });
    this.drawSmall(axes, colour);
  }

  /** Dots for cells too small to see. */
  drawSmall(axes, colour) {
    const { pen, scale, width, height } = this;
    this.order.forEach((number) => {
      const cell = this.cells[number];
      if ((cell.radius / EARTH) * scale > 2) return;
      const [x, y, z] = this.seen(cell.middle, 0, axes);
      if (z <= 0) return;
      pen.beginPath();
      pen.arc(width / 2 + scale * x, height / 2 + scale * y, 4, 0, 2 * Math.PI);
      pen.fillStyle = this.colours[number] ?? "#888888";
      pen.fill();
      pen.strokeStyle = colour("--ink");
      pen.lineWidth = 0.8;
      pen.stroke();
    });
  }

  drawMarked(axes, colour) {
    const { pen } = this;
    for (const number of new Set([this.chosen, this.hovered])) {
      const cell = this.cells[number];
      if (!cell) continue;
      if (this.trace(cell, axes, true)) {
        pen.strokeStyle = colour("--card");
        pen.lineWidth = 5;
        pen.stroke();
        pen.strokeStyle = colour("--mark");
        pen.lineWidth = 2.5;
        pen.stroke();
      }
      const [x, y, z] = this.seen(cell.middle, 0, axes);
      if (z <= 0) continue;
      pen.beginPath();
      pen.arc(this.width / 2 + this.scale * x, this.height / 2 + this.scale * y, 4.5, 0, 2 * Math.PI);
      pen.fillStyle = colour("--mark");
      pen.fill();
      pen.strokeStyle = colour("--card");
      pen.lineWidth = 1.5;
      pen.stroke();
    }
  }

  /** Draw meridians and parallels about 120 pixels apart; return their labels. */
  drawGraticule(axes, colour) {
    const { pen, width, height, scale } = this;
    const spacing = 120 / scale / RADIANS;
    const step = [...STEPS].reverse().find((size) => size >= spacing) ?? 30;
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    const reach = Math.asin(Math.min(1, Math.hypot(width, height) / 2 / scale)) / RADIANS + step;
    const [south, north] = [Math.max(-90, this.latitude - reach), Math.min(90, this.latitude + reach)];
    const polar = Math.max(Math.abs(south), Math.abs(north)) > 85;
    const side = polar ? 180 : Math.min(180, reach / Math.cos(Math.max(Math.abs(south), Math.abs(north)) * RADIANS));
    const across = polar ? Math.max(step, 15) : step * Math.max(1, Math.round(1 / Math.max(0.02, Math.cos(this.latitude * RADIANS))));
    // Curved lines are labelled where they cross the middle, straight ones at the edge of the map.
    const curved = polar || scale < width;
    const named = polar ? this.latitude - Math.sign(this.latitude) * 0.3 * reach : this.latitude;
    const labels = [];
    const fine = Math.min(step, reach / 8) / 2;
    pen.strokeStyle = colour("--edge");
    pen.globalAlpha = 0.45;
    pen.lineWidth = 0.6;
    const line = (from, to, at) => {
      pen.beginPath();
      let drawn = false;
      const count = Math.ceil((to - from) / fine);
      for (let i = 0; i <= count; i += 1) {
        const [x, y, z] = this.seen(unit(...at(from + ((to - from) * i) / count)), 0, axes);
        if (z < 0) drawn = false;
        else if (drawn) pen.lineTo(width / 2 + scale * x, height / 2 + scale * y);
        else {
          pen.moveTo(width / 2 + scale * x, height / 2 + scale * y);
          drawn = true;
        }
      }
      pen.stroke();
    };
    for (let i = Math.ceil(south / step); i * step <= north; i += 1) {
      const latitude = i * step;
      line(this.longitude - side, this.longitude + side, (longitude) => [longitude, latitude]);
      const [, y, z] = this.seen(unit(this.longitude, latitude), 0, axes);
      const py = height / 2 + scale * y;
      if (z > 0 && py > 20 && py < height - 40) labels.push({ x: curved ? width / 2 + 4 : 6, y: py - 4, align: "left", text: `${Math.abs(latitude).toFixed(digits)}° ${latitude < 0 ? "S" : latitude > 0 ? "N" : ""}`.trim() });
    }
    for (let i = Math.ceil((this.longitude - side) / across); i * across < this.longitude + side; i += 1) {
      const longitude = i * across;
      line(Math.max(south, -90), Math.min(north, 90), (latitude) => [longitude, latitude]);
      const name = wrap(longitude);
      const [x, y, z] = this.seen(unit(longitude, named), 0, axes);
      const px = width / 2 + scale * x;
      const py = curved ? height / 2 + scale * y + 13 : height - 8;
      const plain = Math.abs(name) < step / 2 || Math.abs(Math.abs(name) - 180) < step / 2;
      if (z > 0.3 && px > 40 && px < width - 60 && py > 20 && py <= height - 8) labels.push({ x: px + 4, y: py, align: "left", text: `${Math.abs(name).toFixed(digits)}°${plain ? "" : name < 0 ? " W" : " E"}` });
    }
    pen.globalAlpha = 1;
    return labels;
  }

  drawLabels(labels, colour) {
    const { pen } = this;
    let end = 150; // the scale bar occupies the corner
    for (const { x, y, align, text } of labels) {
      const below = y > this.height - 10;
      if (below && x < end) continue;
      this.write(text, x, y, align, colour);
      if (below) end = x + pen.measureText(text).width + 16;
    }
  }

  write(text, x, y, align, colour) {
    const { pen } = this;
    pen.font = "11px system-ui, sans-serif";
    pen.textAlign = align;
    pen.lineWidth = 3;
    pen.strokeStyle = colour("--card");
    pen.fillStyle = colour("--ink");
    pen.strokeText(text, x, y);
    pen.fillText(text, x, y);
  }

  drawScale(colour) {
    const { pen, height } = this;
    const kilometres = roundDown((120 / this.scale) * EARTH);
    const length = (kilometres / EARTH) * this.scale;
    pen.beginPath();
    pen.moveTo(12, height - 16);
    pen.lineTo(12, height - 10);
    pen.lineTo(12 + length, height - 10);
    pen.lineTo(12 + length, height - 16);
    pen.strokeStyle = colour("--card");
    pen.lineWidth = 5;
    pen.stroke();
    pen.strokeStyle = colour("--ink");
    pen.lineWidth = 2;
    pen.stroke();
    this.write(kilometres < 1 ? `${Math.round(kilometres * 1000)} m` : `${kilometres.toLocaleString("en")} km`, 16, height - 16, "left", colour);
  }

  // ------------------------------------------------------------------------------ interaction

  find(px, py) {
    const place = this.under(px, py);
    return (place && this.order.findLast((number) => holds(this.cells[number], place[0], place[1]))) ?? -1;
  }

  hover(number) {
    if (number === this.hovered) return;
    this.hovered = number;
    this.onPoint(number >= 0 ? number : this.chosen);
    this.draw();
  }

  choose(number, aloud) {
    this.chosen = number;
    this.hovered = -1;
    this.onPoint(number);
    if (aloud) this.onChoose(number);
    this.draw();
  }

  /** Select the next cell by number, and centre it if it is out of sight. */
  step(by) {
    if (this.cells.length === 0) return;
    const number = this.chosen < 0 ? (by > 0 ? 0 : this.cells.length - 1) : (this.chosen + by + this.cells.length) % this.cells.length;
    const { middle, latitude, longitude } = this.cells[number];
    const [x, y, z] = this.seen(middle, 0, this.axes());
    if (z < 0 || Math.abs(x * this.scale) > 0.45 * this.width || Math.abs(y * this.scale) > 0.45 * this.height) {
      [this.latitude, this.longitude, this.moved] = [latitude, longitude, true];
    }
    this.choose(number, true);
  }

  listen() {
    const { canvas, pointers } = this;
    const place = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, place(event));
      this.travelled = pointers.size > 1 ? Infinity : 0;
      canvas.classList.add("dragging");
    });
    canvas.addEventListener("pointermove", (event) => {
      const now = place(event);
      if (!pointers.has(event.pointerId)) return this.hover(this.find(...now));
      return this.drag(event.pointerId, now);
    });
    const release = (event) => {
      const active = pointers.delete(event.pointerId);
      if (pointers.size === 0) canvas.classList.remove("dragging");
      if (active && event.type === "pointerup" && this.travelled < 6) this.choose(this.find(...place(event)), true);
    };
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("pointerleave", () => this.hover(-1));
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(clamp(-event.deltaY * (event.deltaMode === 1 ? 16 : 1), -300, 300) / 300), ...place(event));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => this.press(event));
  }

  drag(id, now) {
    const before = this.pointers.get(id);
    const other = [...this.pointers].find(([key]) => key !== id)?.[1];
    this.pointers.set(id, now);
    const [dx, dy] = [now[0] - before[0], now[1] - before[1]];
    this.travelled += Math.hypot(dx, dy);
    if (this.travelled < 6) return;
    this.moved = true;
    this.turn(-dx / (other ? 2 : 1), -dy / (other ? 2 : 1));
    if (other) {
      const apart = (a) => Math.max(10, Math.hypot(a[0] - other[0], a[1] - other[1]));
      this.zoom(apart(now) / apart(before), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
    }
    this.draw();
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const move = (dx, dy) => {
      this.turn(dx, dy);
      this.moved = true;
      this.draw();
    };
    const keys = {
      ArrowLeft: () => move(-60, 0), ArrowRight: () => move(60, 0), ArrowUp: () => move(0, -60), ArrowDown: () => move(0, 60),
      "+": () => this.zoom(1.5), "=": () => this.zoom(1.5), "-": () => this.zoom(1 / 1.5), "0": () => this.fit(true), Home: () => this.fit(true),
      a: () => this.nextArea(), n: () => this.step(1), p: () => this.step(-1), Escape: () => this.choose(-1, true),
    };
    const act = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }
}
