"use strict";
// Find the cell of a record exactly as microcell does, to the last bit. Uses neither the page nor the network.
const Microcell = (() => {
  class InputError extends Error {}
  const FARTHEST = 1e100;
  const NANOSECONDS = { D: 86400n * 10n ** 9n, s: 10n ** 9n, ms: 10n ** 6n, us: 1000n, ns: 1n };
  const TIMES = ["date", "datetime", "duration", "time"];
  const NUMBERS = ["integer", "float"];

  // ------------------------------------------------------------------------------------------ file and digest

  // Parse JSON but keep numbers as text: large integers do not fit into a JavaScript number.
  const read = text => {
    let at = 0;
    const skip = () => { while (" \n\r\t".includes(text[at]) && at < text.length) at++; };
    const string = () => {
      const start = at++;
      while (text[at] !== '"') {
        if (at >= text.length) throw new InputError("The file is damaged.");
        at += text[at] === "\\" ? 2 : 1;
      }
      return JSON.parse(text.slice(start, ++at));
    };
    const list = (end, item) => {
      const out = [];
      at++;
      skip();
      while (text[at] !== end) {
        if (out.length) { if (text[at++] !== ",") throw new InputError("The file is damaged."); skip(); }
        out.push(item());
        skip();
      }
      at++;
      return out;
    };
    const value = () => {
      skip();
      if (text[at] === "{") {
        return new Map(list("}", () => {
          const name = string();
          skip();
          at++;
          return [name, value()];
        }));
      }
      if (text[at] === "[") return list("]", value);
      if (text[at] === '"') return string();
      const token = /[-+.\w]*/y;
      token.lastIndex = at;
      const word = token.exec(text)[0];
      if (!word) throw new InputError("The file is damaged.");
      at += word.length;
      return { true: true, false: false, null: null }[word] ?? (word === "null" ? null : { token: word });
    };
    return value();
  };

  const points = text => Array.from(text, sign => sign.codePointAt(0));
  const compare = (one, other) => {
    const [a, b] = [points(one), points(other)];
    for (let i = 0; i < Math.min(a.length, b.length); i++) if (a[i] !== b[i]) return a[i] - b[i];
    return a.length - b.length;
  };
  const SHORT = { '"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", "\b": "\\b" };
  const quote = text => '"' + text.replace(/["\\]|[^ -~]/g, // surrogate pairs become two escapes
    sign => SHORT[sign] ?? "\\u" + sign.charCodeAt(0).toString(16).padStart(4, "0")) + '"';
  const write = value => {
    if (value instanceof Map) {
      const names = [...value.keys()].sort(compare);
      return "{" + names.map(name => quote(name) + ":" + write(value.get(name))).join(",") + "}";
    }
    if (Array.isArray(value)) return "[" + value.map(write).join(",") + "]";
    if (typeof value === "string") return quote(value);
    return value !== null && typeof value === "object" ? value.token : String(value);
  };

  // SHA-256 (FIPS 180-4) of ASCII text. Not every browser offers crypto.subtle for local files.
  const digest = text => {
    const primes = [];
    for (let n = 2; primes.length < 64; n++) if (primes.every(p => n % p)) primes.push(n);
    const fraction = (prime, root) => { // first 32 fractional bits of the root, in integer arithmetic
      const target = BigInt(prime) << BigInt(32 * root);
      let low = 0n, high = 1n << 40n;
      while (high - low > 1n) {
        const middle = (low + high) >> 1n;
        if (middle ** BigInt(root) <= target) low = middle; else high = middle;
      }
      return Number(low & 0xffffffffn);
    };
    const K = primes.map(prime => fraction(prime, 3));
    const H = primes.slice(0, 8).map(prime => fraction(prime, 2));
    const length = text.length, blocks = Math.ceil((length + 9) / 64);
    const bytes = new Uint8Array(64 * blocks), view = new DataView(bytes.buffer);
    for (let i = 0; i < length; i++) bytes[i] = text.charCodeAt(i);
    bytes[length] = 0x80;
    view.setUint32(64 * blocks - 8, Math.floor(length / 2 ** 29));
    view.setUint32(64 * blocks - 4, (length << 3) >>> 0);
    const turn = (x, n) => (x >>> n) | (x << (32 - n));
    const w = new Int32Array(64);
    for (let block = 0; block < blocks; block++) {
      for (let i = 0; i < 16; i++) w[i] = view.getInt32(64 * block + 4 * i);
      for (let i = 16; i < 64; i++) {
        const a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (turn(a, 7) ^ turn(a, 18) ^ (a >>> 3)) + w[i - 7] + (turn(b, 17) ^ turn(b, 19) ^ (b >>> 10));
      }
      let [a, b, c, d, e, f, g, h] = H;
      for (let i = 0; i < 64; i++) {
        const one = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + K[i] + w[i]) | 0;
        const two = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
        [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
      }
      [a, b, c, d, e, f, g, h].forEach((part, i) => { H[i] = (H[i] + part) | 0; });
    }
    return H.map(part => (part >>> 0).toString(16).padStart(8, "0")).join("");
  };

  const load = text => {
    const kept = read(text), stated = kept.get("sha256");
    kept.delete("sha256");
    const file = JSON.parse(text);
    file.digest = digest(write(kept));
    file.intact = file.digest === stated;
    const columns = kept.get("encoding")?.get("columns") ?? [];
    file.encoding.columns.forEach((column, i) => {
      const { token } = columns[i].get("origin");
      column.whole = /^-?\d+$/.test(token); // as in Python, a number without a decimal point is an integer
      if (column.whole) column.origin = BigInt(token);
    });
    file.span = [Math.min, Math.max].map(end => file.cells.centroids.reduce(
      (ends, centroid) => ends.map((value, j) => end(value, centroid[j])), file.cells.centroids[0]));
    return file;
  };

  // P{K = 0}, ..., P{K = k-1} of candidates, `count` of whom take part with each `probability`.
  const distribution = (pairs, k) => {
    const p = new Float64Array(k);
    p[0] = 1;
    for (const [probability, count] of pairs) {
      for (let i = 0; i < count; i++) {
        for (let j = k - 1; j > 0; j--) p[j] = (1 - probability) * p[j] + probability * p[j - 1];
        p[0] *= 1 - probability;
      }
    }
    return p;
  };

  const total = parts => parts.reduce((sum, part) => sum + part, 0);

  // P{0 < K < k}.
  const failure = (pairs, k) => total(distribution(pairs, k).slice(1));

  // The same given that somebody takes part, and for the participant with the fewest others, who is
  // the one most likely to take part: the larger of the two.
  const conditional = (pairs, k) => {
    const somebody = -Math.expm1(total(pairs.map(([probability, count]) => count * Math.log1p(-probability))));
    const [probability, count] = pairs[pairs.length - 1];
    const others = [...pairs.slice(0, -1), [probability, count - 1]];
    return Math.max(failure(pairs, k) / somebody, total(distribution(others, k).slice(0, k - 1)));
  };

  // Problems of the file, one sentence each; none if it is unaltered and meets its failure limit.
  const check = file => {
    const problems = [], { sizes, centroids } = file.cells, survey = file.survey;
    if (!file.intact) problems.push("This page was altered or damaged after it was created.");
    if (sizes.length !== file.count || centroids.length !== file.count) problems.push("The number of cells is not as stated.");
    if (sizes.some(size => size < file.k)) problems.push(`A cell has fewer than ${file.k} candidates.`);
    if (!survey) return problems;
    const bySize = new Map(), { common, cells } = survey.participation;
    const compute = measure => {
      bySize.clear();
      return sizes.map((size, cell) => {
        if (common === undefined) return measure(cells[cell], survey.k);
        if (!bySize.has(size)) bySize.set(size, measure([[common, size]], survey.k));
        return bySize.get(size);
      });
    };
    const differs = (computed, stated) => computed.some((value, cell) => Math.abs(value - stated[cell]) > 1e-6 * value + 1e-300);
    if (differs(compute(failure), survey.cell_failures)
      || (survey.failure_of !== undefined && differs(compute(conditional), survey.conditional_failures))) {
      problems.push("The stated failure probability of a cell is wrong.");
    }
    const limited = survey.failure_of === "participant" ? survey.conditional_failures : survey.cell_failures;
    if (limited.some(stated => stated > survey.failure)) problems.push("The failure probability of a cell is higher than promised.");
    return problems;
  };

  // ------------------------------------------------------------------------------------------ answers

  const is64 = number => number >= -(2n ** 63n) && number < 2n ** 63n;

  // Integers stay exact.
  const number = text => {
    const plain = String(text).trim();
    if (/^[-+]?\d+$/.test(plain)) {
      const whole = BigInt(plain.replace("+", ""));
      return is64(whole) ? whole : Number(whole);
    }
    if (!/^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(plain) || !Number.isFinite(Number(plain))) {
      throw new InputError("Enter a number, with a point before decimals.");
    }
    return Number(plain);
  };

  const seconds = text => { // in nanoseconds
    const [, sign, whole, part] = /^([-+]?)(\d+)(?:\.(\d{1,9}))?$/.exec(text) ?? [];
    if (whole === undefined) throw new InputError("Enter a number of seconds.");
    return BigInt(sign + "1") * (BigInt(whole) * NANOSECONDS.s + BigInt((part ?? "").padEnd(9, "0")));
  };
  const clock = text => {
    const [, hours, minutes, rest] = /^(\d{2}):(\d{2})(?::(\d{2}(?:\.\d{1,9})?))?$/.exec(text) ?? [];
    if (!(hours < 24 && minutes < 60 && !(rest >= 60))) throw new InputError("Enter a time of day, such as 09:30.");
    return (BigInt(hours) * 60n + BigInt(minutes)) * 60n * NANOSECONDS.s + seconds(rest ?? "0");
  };
  const moment = text => {
    const [, day, time] = /^(\d{4}-\d{2}-\d{2})(?:[T ](.*))?$/.exec(text) ?? [];
    const milliseconds = Date.parse(day + "T00:00:00Z");
    if (day === undefined || Number.isNaN(milliseconds) || new Date(milliseconds).toISOString().slice(0, 10) !== day) {
      throw new InputError("Enter a date, such as 1985-12-31.");
    }
    return BigInt(milliseconds) * NANOSECONDS.ms + (time ? clock(time) : 0n);
  };
  const count = (column, text) => { // in nanoseconds
    const plain = String(text).trim();
    return { time: clock, duration: seconds }[column.storage]?.(plain) ?? moment(plain);
  };

  // The category name of a value as Python writes it. A choice from a list is { name }.
  const nameOf = (column, text) => {
    if (text?.name !== undefined) return text.name;
    if (TIMES.includes(column.storage)) {
      const ticks = count(column, text), unit = NANOSECONDS[column.unit];
      return ticks % unit ? `${ticks} ns` : `${ticks / unit} ${column.unit}`;
    }
    if (!NUMBERS.includes(column.storage)) return String(text);
    const value = number(text);
    if (typeof value === "bigint") return String(value);
    if (Number.isInteger(value)) return String(BigInt(value));
    const [digits, power] = value.toExponential().split("e");
    return Number(power) >= -4 ? String(value) : `${digits}e-${power.slice(1).padStart(2, "0")}`;
  };

  const numberOf = name => {
    const [, ticks, unit] = /^(-?\d+) (D|s|ms|us|ns)$/.exec(name) ?? [];
    if (unit) return BigInt(ticks) * NANOSECONDS[unit];
    if (/^-*\d+$/.test(name)) return BigInt(name);
    return /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(name) ? Number(name) : null;
  };

  const bisect = (values, target, order) => {
    let low = 0, high = values.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (order(values[middle], target) < 0) low = middle + 1; else high = middle;
    }
    return low;
  };
  const size = (one, other) => (one < other ? -1 : one > other ? 1 : 0); // also compares integers with floats

  // ------------------------------------------------------------------------------------------ answers to points

  const clip = value => Math.min(Math.max(value, -FARTHEST), FARTHEST);
  const root = column => Math.sqrt(column.weight);
  const power = exponent => { // exact, unlike Math.pow
    let out = 1;
    for (let i = 0; i < Math.abs(exponent); i++) out *= exponent > 0 ? 2 : 0.5;
    return out;
  };
  const shift = (value, exponent) => (exponent ? value * power(exponent) : value);
  const standardize = (column, offset) =>
    clip((offset - column.centre[0]) / column.scale[0]) * root(column);

  const lessOrigin = (column, value) => {
    const { origin, whole } = column;
    if (whole && typeof value === "bigint") {
      return is64(value - origin) ? Number(value - origin) : Number(value) - Number(origin);
    }
    const offset = shift(Number(value), column.exponent) - Number(origin);
    return whole ? offset - Number(origin - BigInt(Number(origin))) : offset;
  };
  const lessOriginOfTime = (column, nanoseconds) => {
    const unit = NANOSECONDS[column.unit];
    if (nanoseconds % unit === 0n) return Number(nanoseconds / unit - column.origin);
    return Number(nanoseconds - column.origin * unit) / Number(unit);
  };

  const betweenNeighbours = (column, name) => {
    const known = column.names.map((each, i) => [numberOf(each), column.places[i]]).filter(([found]) => found !== null);
    if (!known.length) return 0;
    known.sort((a, b) => size(a[0], b[0]) || a[1] - b[1]);
    const ends = [known[0][1], ...known.map(([, place]) => place), known[known.length - 1][1]];
    const at = bisect(known.map(([found]) => found), numberOf(name) ?? 0n, size);
    return (ends[at] + ends[at + 1]) / 2;
  };
  const shared = (one, other) => {
    const [a, b] = [points(one), points(other)], least = Math.min(a.length, b.length);
    for (let i = 0; i < least; i++) if (a[i] !== b[i]) return i;
    return least;
  };
  const byPrefix = (column, name) => {
    if (!column.names.length) return 0;
    const at = bisect(column.names, name, compare);
    const most = Math.max(...column.names.slice(Math.max(at - 1, 0), at + 1).map(other => shared(name, other)));
    return column.places[bisect(column.names, Array.from(name).slice(0, most).join(""), compare)];
  };

  const placeNamed = guess => (column, [text]) => {
    const name = nameOf(column, text), at = column.names.indexOf(name), unknown = at < 0;
    if (!column.centre.length) return { x: [], unknown };
    return { x: [(unknown ? guess(column, name) : column.places[at]) * root(column)], unknown };
  };
  const placers = {
    numeric: (column, [text]) => {
      const value = number(text);
      return { x: column.centre.length ? [standardize(column, lessOrigin(column, value))] : [] };
    },
    datetime: (column, [text]) => {
      const found = count(column, text);
      return { x: column.centre.length ? [standardize(column, lessOriginOfTime(column, found))] : [] };
    },
    ordinal: placeNamed((column, name) =>
      [...NUMBERS, ...TIMES].includes(column.storage) ? betweenNeighbours(column, name) : 0),
    code: placeNamed(byPrefix),
    nominal: (column, [text]) => {
      const { centre, names } = column, at = text === null ? -1 : names.indexOf(nameOf(column, text));
      const mark = centre.length === 1 ? 1 : 1 / Math.sqrt(2), first = names.length - centre.length;
      const x = centre.map((share, j) => ((at >= 0 && at - first === j ? mark : 0) - share) * root(column));
      return { x, unknown: at < 0 };
    },
    location: (column, texts) => {
      const [latitude, longitude] = texts.map(text => Number(number(text)));
      if (Math.abs(latitude) > 90) throw new InputError("Enter a latitude between -90 and 90 degrees.");
      if (Math.abs(longitude) > 180) throw new InputError("Enter a longitude between -180 and 180 degrees.");
      const [phi, theta] = [latitude, longitude].map(degrees => degrees * (Math.PI / 180)), flat = Math.cos(phi);
      const vector = [flat * Math.cos(theta), flat * Math.sin(theta), Math.sin(phi)];
      return { x: column.centre.map((centre, j) => clip((vector[j] - centre) / column.scale[j]) * root(column)) };
    },
  };

  // The point of a record (texts by name), and the columns with an unknown or far-out answer.
  const place = (file, record) => {
    const point = [], unfamiliar = [];
    for (const column of file.encoding.columns) {
      const texts = column.parts.map(part => record[part]);
      const missing = column.parts[texts.findIndex(text => text === undefined || text === "")];
      if (missing !== undefined) throw Object.assign(new InputError("Please answer this question."), { part: missing });
      try {
        const placed = placers[column.kind](column, texts);
        const far = ["numeric", "datetime"].includes(column.kind) && placed.x.some((x, j) => {
          const [low, high] = file.span.map(ends => ends[point.length + j]);
          return Math.max(low - x, x - high) > 0.5 * (high - low); // far beyond the means of all cells
        });
        point.push(...placed.x.map(clip));
        if (placed.unknown || far) unfamiliar.push(column.name);
      } catch (error) {
        throw error instanceof InputError ? Object.assign(error, { part: error.part ?? column.parts[0] }) : error;
      }
    }
    return { point, unfamiliar };
  };

  // ------------------------------------------------------------------------------------------ points to cells

  const ofPower = (cells, x) => {
    const macrocell = cells.chooser ? ofPower(cells.chooser, x) : null;
    let best = -1, least = Infinity;
    cells.centroids.forEach((site, q) => {
      if (macrocell !== null && cells.group[q] !== macrocell) return;
      let sum = cells.costs[q];
      for (let j = 0; j < x.length; j++) sum += (x[j] - site[j]) * (x[j] - site[j]);
      if (best < 0 || sum < least) [best, least] = [q, sum];
    });
    return best;
  };
  const ofBalls = (cells, x) => {
    const ball = cells.references.findIndex((centre, b) => {
      let sum = 0;
      for (let j = 0; j < x.length; j++) sum += (x[j] - centre[j]) * (x[j] - centre[j]);
      return sum <= cells.radii[b] * cells.radii[b];
    });
    return ball < 0 ? cells.centroids.length - 1 : cells.cells[ball];
  };
  const boundOf = (column, bound) => {
    if (["ordinal", "code"].includes(column.kind)) return bound * root(column);
    if (!column.whole) return standardize(column, shift(bound, column.exponent) - column.origin);
    let [scaled, halves] = [bound, 0];
    while (!Number.isInteger(scaled)) { scaled *= 2; halves++; }
    return standardize(column, shift(Number(BigInt(scaled) - (column.origin << BigInt(halves))), -halves));
  };
  const categoryOf = (column, x) => {
    const found = x.map((value, j) => value / root(column) + column.centre[j]), most = Math.max(...found);
    const at = found.length === 1 ? Number(found[0] > 0.5) : most > 0.5 / Math.sqrt(2) ? found.indexOf(most) : -1;
    return at >= 0 && column.names[at] !== null ? at : -1;
  };
  const ofBoxes = (cells, x, encoding) => {
    let node = 0;
    while (node < cells.columns.length) {
      const column = encoding.columns[cells.columns[node]], { first } = column;
      const below = column.kind === "nominal"
        ? cells.categories[node].includes(categoryOf(column, x.slice(first, first + column.centre.length)))
        : x[first] < boundOf(column, cells.bounds[node]);
      node = (below ? cells.lower : cells.upper)[node];
    }
    return node - cells.columns.length;
  };

  const assign = (file, point) => ({ power: ofPower, balls: ofBalls, boxes: ofBoxes })[file.kind](file.cells, point, file.encoding);

  // The cell of a record. `unfamiliar` names columns with an unknown or far-out answer (nearest cell chosen).
  const answer = (file, record) => {
    const { point, unfamiliar } = place(file, record);
    return { cell: assign(file, point), unfamiliar, point };
  };

  return { InputError, load, check, answer, digest };
})();
